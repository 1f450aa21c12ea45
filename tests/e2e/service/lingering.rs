//! Descriptors that a caller queues on its connection, whose last close takes a minute: it is nobody's who has others to serve.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use turnkey_tests::{SERVED, Service, eventually, hand_over, open_to_all, scratch};

use super::{ATTACK, SOON, as_served, serves_others};

/// A caller that says `ready` when it has done what is to stop the service, and stays.
fn caller(service: &Service, place: &Path, program: &str) -> Child {
    let linger = include_str!("../../attacks/linger.py");
    let program = format!(
        "{linger}\nfrom service import *\n{program}\nprint('ready', flush=True)\ntime.sleep(60)"
    );
    std::fs::write(place.join("service.py"), ATTACK).expect("a test writes its own files");
    std::fs::write(place.join("caller.py"), program).expect("a test writes its own files");
    let mut command = as_served(service, "python3", place);
    let mut child = command
        .arg("caller.py")
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let output = child.stdout.as_mut().expect("it is a pipe");
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    let said: Vec<_> = lines.take_while(|line| line != "ready").collect();
    assert!(said.iter().all(|line| line.len() < 20), "{said:?}");
    child
}

fn stops_nobody(config: &str, program: &str) {
    let place = scratch();
    open_to_all(place.path());
    let service = Service::start(config);
    stops_nobody_of(&service, caller(&service, place.path(), program));
}

fn stops_nobody_of(service: &Service, mut caller: Child) {
    serves_others(service);
    serves_others(service);
    let _ = caller.kill();
    caller.wait().expect("a child can be waited for");
}

#[test]
fn a_caller_that_is_refused_stops_nobody_by_what_it_queued() {
    let program = "
control()
line = connect()
send(line, b'no packet')
assert queue(line, lingering(60))
print(answer(line))
line.close()";
    stops_nobody("", program);
}

#[test]
fn a_caller_that_hangs_up_while_it_waits_stops_nobody_by_what_it_queued() {
    let program = "
first = connect()
time.sleep(0.2)
for count in range(3):
    line = connect()
    assert queue(line, lingering(60))
    line.close()
first.close()";
    stops_nobody("max_running_per_user = 1\n", program);
}

#[test]
fn a_caller_that_is_gone_at_the_door_stops_nobody_by_what_it_queued() {
    let program = "
for count in range(20):
    if os.fork() == 0:
        line = connect()
        assert queue(line, lingering(60))
        os._exit(0)
while True:
    try: os.wait()
    except ChildProcessError: break";
    let place = scratch();
    open_to_all(place.path());
    let service = Service::start("");
    kill(service.pid(), Signal::SIGSTOP).expect("a test runs as root");
    let caller = caller(&service, place.path(), program);
    kill(service.pid(), Signal::SIGCONT).expect("a test runs as root");
    stops_nobody_of(&service, caller);
}

#[test]
fn a_signal_with_a_descriptor_ends_the_run_of_who_sent_it() {
    let place = scratch();
    open_to_all(place.path());
    hand_over(place.path(), SERVED);
    let service = Service::start("");
    let program = "
import select
line = connect()
send(line, packet(1, order('run', '--service', '--no-tty', '--', 'sleep', '20', variables=['PATH=/usr/bin:/bin']), usual()), usual())
if select.select([line], [], [], 0.7)[0]: print(line.recv(9999), flush=True)
assert queue(line, lingering(60), packet(2, struct.pack('<I', 10), [0]))";
    let mut caller = caller(&service, place.path(), program);
    let began = Instant::now();
    let ran = || service.log().iter().any(|line| line["event"] == "ran");
    eventually("the run has ended", ran);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let _ = caller.kill();
    caller.wait().expect("a child can be waited for");
}
