//! Descriptors that others queue on the connections of a run: closed by nobody who has something else to do.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use turnkey_expectations::expected;
use turnkey_tests::{NOBODY, Run, StallingUser, network_of_its_own};

use super::{Waiting, names, top};

expected!(files_that_nobody_takes_the_changes_of_stop_no_run: not_on[ORDINARY_6_12], "its kernel panics when a task is held for two minutes, which they were there; why it takes so long there is not known");

/// The longest time that what is asked for may take; the descriptors make who closes them wait a minute.
const SOON: Duration = Duration::from_secs(10);

/// A program of a user's who has nothing to do with the run; it has said that it is ready.
fn stranger(program: &str) -> Child {
    let program = format!("{}\n{program}", include_str!("../../attacks/linger.py"));
    let mut command = Command::new("python3");
    command.args(["-c", &program]).uid(NOBODY).gid(NOBODY);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut line = String::new();
    let output = child.stdout.as_mut().expect("it is a pipe");
    BufReader::new(output)
        .read_line(&mut line)
        .expect("it says so");
    assert_eq!(line, "ready\n");
    child
}

fn end(mut stranger: Child) {
    let _ = stranger.kill();
    stranger.wait().expect("a child can be waited for");
}

#[test]
fn what_a_stranger_queues_on_a_run_s_socket_stops_no_run() {
    network_of_its_own();
    let mut waiting = Waiting::start(Run::new(), "read x; read x");
    let name = names().pop().expect("the run can be followed");
    let maker = Pid::from_raw(waiting.maker());
    let attack = format!(
        "
control()
for count in range(5):
    line = socket.socket(socket.AF_UNIX)
    line.connect('\\0{name}')
    assert queue(line, lingering(60))
    line.close()
print('ready', flush=True)
time.sleep(60)"
    );
    // So that all of it is queued before anything is closed.
    kill(maker, Signal::SIGSTOP).expect("a test runs as root");
    let stranger = stranger(&attack);
    kill(maker, Signal::SIGCONT).expect("a test runs as root");
    let began = Instant::now();
    waiting.go_on();
    // The run answers, and ends, while connections wait to be taken too.
    assert_eq!(top()["runs"].as_array().map(Vec::len), Some(1));
    let report = waiting.end();
    assert_eq!(report["verdict"], "clean", "{report:#}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    end(stranger);
}

/// More than there are processes to close what was dropped: what is left goes with none that is waited for.
#[test]
fn files_that_nobody_takes_the_changes_of_stop_no_run() {
    network_of_its_own();
    let mut waiting = Waiting::start(Run::new(), "read x; read x");
    let name = names().pop().expect("the run can be followed");
    let maker = Pid::from_raw(waiting.maker());
    let go_on = || kill(maker, Signal::SIGCONT).expect("a test runs as root");
    // So that all of it is queued before anything is closed.
    kill(maker, Signal::SIGSTOP).expect("a test runs as root");
    let way = ("dirty", &*format!("@{name}"), 70);
    let attack = StallingUser::start_and(NOBODY, way, go_on);
    let began = Instant::now();
    waiting.go_on();
    let report = waiting.end();
    assert_eq!(report["verdict"], "clean", "{report:#}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(attack);
}

#[test]
fn what_a_stranger_queues_who_poses_as_a_run_stops_nobody_who_looks() {
    network_of_its_own();
    let attack = "
listener = socket.socket(socket.AF_UNIX)
listener.bind('\\0turnkey/6a1-2b')
listener.listen(9)
senders = [lingering(60) for count in range(9)]
print('ready', flush=True)
while True:
    line, _ = listener.accept()
    queue(line, senders.pop())";
    let stranger = stranger(attack);
    let began = Instant::now();
    assert_eq!(top()["runs"], serde_json::json!([]));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    end(stranger);
}

/// A process with many descriptors, and three hundred names of runs, each of which is to be looked for among them.
#[test]
fn a_stranger_s_names_keep_nobody_from_seeing_a_run() {
    network_of_its_own();
    let waiting = Waiting::start(Run::new(), "read x");
    let named = stranger(
        "
import resource
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
most = min(most, 16000)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
opened = [os.dup(0) for _ in range(most - 400)]
named = []
for number in range(300):
    name = socket.socket(socket.AF_UNIX)
    name.bind(f'\\0turnkey/{number:x}-2b')
    name.listen()
    named.append(name)
print('ready', flush=True)
time.sleep(600)",
    );
    let begin = Instant::now();
    let page = top();
    let taken = begin.elapsed();
    end(named);
    waiting.end();
    assert!(taken < SOON, "{taken:?}");
    let runs = page["runs"].as_array().expect("a list");
    assert_eq!(runs.len(), 1, "the run is seen: {page}");
}
