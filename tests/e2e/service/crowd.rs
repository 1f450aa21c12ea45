//! Callers in great numbers, and such as take nothing that they are given, beside one that behaves.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use turnkey_expectations::expected;
use turnkey_tests::{Run, Service, eventually, measured};

expected!(
    a_hundred_endless_loops_leave_who_behaves_its_turn: at_night,
    "a hundred callers; `four_endless_loops_…` has four by day"
);
expected!(
    ten_thousand_connections_that_are_held_keep_nobody_out: at_night,
    "ten thousand; `a_thousand_connections_…` has a thousand by day"
);
expected!(
    the_listener_stays_small_after_a_thousand_runs: at_night,
    "two thousand runs; `the_listener_stays_small_after_runs` has sixteen by day"
);
expected!(
    output_and_events_that_nobody_takes_are_given_up: at_night,
    "half a minute, in which a caller may still read; `who_reads_nothing_…` shows by day that others are served meanwhile"
);

expected!(
    four_endless_loops_leave_who_behaves_its_turn,
    a_hundred_endless_loops_leave_who_behaves_its_turn: not_on [ORDINARY_6_12],
    "one emulated CPU, whose times say nothing of a host's"
);
expected!(
    ten_thousand_connections_that_are_held_keep_nobody_out: not_on [ORDINARY_6_12],
    "its processes may have 4096 files; `a_thousand_connections_…` runs there"
);

/// The durations of runs that another user makes one after another, from the start of its client to its end, the shortest first.
fn who_behaves(service: &Service, runs: usize) -> Vec<Duration> {
    let one = || {
        let run = Run::new().option("--quiet --service");
        let mut command = run.command(&["true"]);
        command.env("TURNKEY_SOCKET_DIR", service.directory());
        let began = Instant::now();
        assert!(command.status().expect("turnkey can be started").success());
        began.elapsed()
    };
    let mut took: Vec<Duration> = (0..runs).map(|_| one()).collect();
    took.sort();
    took
}

/// The duration that so many percent of them do not pass.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent).div_ceil(100) - 1]
}

/// Callers of one user, which go on until they are dropped.
struct Callers(Vec<(Child, Run)>);

impl Callers {
    fn start(service: &Service, count: usize, script: &str) -> Callers {
        let one = |_| {
            let run = Run::new().option("--quiet").served_at(&service.directory());
            let mut command = run.command(&["sh", "-c", script]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            (command.spawn().expect("turnkey can be started"), run)
        };
        Callers((0..count).map(one).collect())
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        for (caller, _) in &mut self.0 {
            let _ = caller.kill();
        }
        for (caller, _) in &mut self.0 {
            let _ = caller.wait();
        }
    }
}

fn count(service: &Service, event: &str) -> usize {
    let log = service.log().into_iter();
    log.filter(|line| line["event"] == event).count()
}

/// A number of callers whose programs never end and take every CPU, beside one that behaves.
fn endless_loops(callers: usize, runs: usize) {
    let service = Service::start("queue = 200\n[limits]\ncpu = \"400%\"\n");
    let alone = who_behaves(&service, runs);
    let before = count(&service, "started");
    let loops = Callers::start(
        &service,
        callers,
        "while :; do :; done & while :; do :; done",
    );
    // As many as one user may have; the others wait.
    eventually("all of them are there", || {
        count(&service, "started") - before == callers.min(8)
            && count(&service, "waits") >= callers.saturating_sub(8)
    });
    let beside = who_behaves(&service, runs);
    drop(loops);
    let told = |took: &[Duration]| {
        let [half, most] = [50, 99].map(|percent| percentile(took, percent));
        format!("p50 {half:.0?}, p99 {most:.0?}")
    };
    measured(&format!(
        "{callers} callers, {runs} runs: alone {}, beside them {}",
        told(&alone),
        told(&beside)
    ));
    // A host that is busy with other work is slow to both.
    let most = Duration::from_secs(5).max(percentile(&alone, 99) * 10);
    assert!(percentile(&beside, 99) < most, "{beside:?}, {alone:?}");
}

#[test]
fn four_endless_loops_leave_who_behaves_its_turn() {
    endless_loops(4, 3);
}

#[test]
fn a_hundred_endless_loops_leave_who_behaves_its_turn() {
    endless_loops(100, 100);
}

/// Kilobytes of a process's own, and the number of its descriptors.
fn takes(process: i32) -> (u64, usize) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it is there");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).expect("it is there");
    (kilobytes.expect("the kernel tells"), descriptors.count())
}

/// Kilobytes that the listener, which starts who makes the runs, has of its own at most.
const LISTENER: u64 = 4096;

/// A number of runs of one user's, four callers at once.
fn runs(service: &Service, count: usize) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..count / 4 {
                    let run = Run::new().option("--quiet").served_at(&service.directory());
                    run.run(&["true"]).expect_code(0);
                }
            });
        }
    });
}

/// The listener's memory is the same after as many runs again.
fn memory_stays(count: usize) {
    let service = Service::start("");
    let new = takes(service.pid().as_raw());
    assert!(new.0 <= LISTENER, "when it has started: {new:?}");
    runs(&service, count);
    let first = takes(service.pid().as_raw());
    runs(&service, count);
    let then = takes(service.pid().as_raw());
    measured(&format!(
        "{new:?}, after {count} runs {first:?}, then {then:?}"
    ));
    assert_eq!(self::count(&service, "ran"), 2 * count, "the control");
    assert!(
        then.0 <= LISTENER && first.0 <= LISTENER,
        "{first:?}, {then:?}"
    );
    // Pages that are touched for the first time, and no more with the number of runs.
    assert!(then.0 < first.0 + 128, "{first:?}, {then:?}");
    assert!(then.1 < first.1 + 16, "{first:?}, {then:?}");
}

#[test]
fn the_listener_stays_small_after_runs() {
    memory_stays(8);
}

#[test]
fn the_listener_stays_small_after_a_thousand_runs() {
    memory_stays(1000);
}

const HOLDS: &str = "import os, resource, socket, sys, time
most = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (most + 100, most + 100))
lines = []
for number in range(most):
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.connect(os.environ['TURNKEY_SOCKET_DIR'] + '/turnkey.fd.sock')
    lines.append(line)
print(len(lines), flush=True)
time.sleep(60)";

/// A number of silent connections of one user's, beside a caller that behaves.
fn held(connections: usize) {
    let service = Service::start("");
    who_behaves(&service, 1);
    let before = takes(service.pid().as_raw());
    let began = Instant::now();
    let mut holds = super::as_served(&service, "python3", Path::new("/"));
    let mut holds = holds
        .args(["-c", HOLDS, &connections.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut first = String::new();
    BufReader::new(holds.stdout.as_mut().expect("it is a pipe"))
        .read_line(&mut first)
        .expect("python3 is there");
    let held = began.elapsed();
    assert_eq!(
        first,
        format!("{connections}\n"),
        "the control: it has them all"
    );
    let beside = who_behaves(&service, 2);
    let after = takes(service.pid().as_raw());
    holds.kill().expect("python3 is there");
    holds.wait().expect("python3 is there");
    measured(&format!(
        "{connections} connections in {held:.1?}, {} KiB and {} descriptors, before {} and {}; beside them {beside:.0?}",
        after.0, after.1, before.0, before.1
    ));
    assert!(after.0 < before.0 + 1024, "{after:?}");
    assert!(after.0 <= LISTENER, "{after:?}");
    // Those that wait, and those that are given to a process.
    assert!(after.1 < before.1 + 64 + 32, "{after:?}");
}

#[test]
fn a_thousand_connections_that_are_held_keep_nobody_out() {
    held(1000);
}

#[test]
fn ten_thousand_connections_that_are_held_keep_nobody_out() {
    held(10_000);
}

/// A caller that stays, and never reads what its run writes to this descriptor.
fn reads_nothing(
    service: &Service,
    options: &str,
    program: &[&str],
) -> (Child, Run, std::io::PipeReader) {
    let run = Run::new().option(options).served_at(&service.directory());
    let (kept, full) = std::io::pipe().expect("the system has pipes");
    let child = run
        .command(program)
        .stdout(full)
        .stderr(Stdio::null())
        .spawn();
    (child.expect("turnkey can be started"), run, kept)
}

#[test]
fn who_reads_nothing_holds_its_own_slot_and_little_memory() {
    let service = Service::start("ready = 0\nmax_running_per_user = 1\n");
    let (mut caller, _run, _kept) = reads_nothing(&service, "--quiet", &["yes"]);
    eventually("it runs", || count(&service, "started") == 1);
    let maker = service.makers()[0].cast_signed();
    std::thread::sleep(Duration::from_millis(300));
    let first = takes(maker);
    let beside = who_behaves(&service, 2);
    std::thread::sleep(Duration::from_millis(300));
    let then = takes(maker);
    measured(&format!(
        "{} KiB, then {}; beside it {beside:.0?}",
        first.0, then.0
    ));
    assert!(
        then.0 < first.0 + 1024,
        "what nobody takes is kept by nobody"
    );
    assert!(
        caller.try_wait().unwrap().is_none(),
        "the control: it is there"
    );
    caller.kill().unwrap();
    caller.wait().unwrap();
}

/// Two callers that stay, and read neither what a program writes nor its events.
const UNREAD: &str = "import threading
def asks(at, *words):
    kept, full = os.pipe()
    came = [*usual(), *([null()] if at == 4 else [])]
    came[at] = full
    line = connect()
    line.settimeout(50)
    send(line, packet(1, order('run', '--service', '--no-tty', '--quiet', '--wall', '1s', *words), came), came)
    os.close(full)
    print(answer(line), flush=True)
opens = 'while :; do cat /dev/null; done'
both = [(1, '--', 'yes'), (4, '--events', 'x', '--', 'sh', '-c', opens)]
both = [threading.Thread(target=asks, args=words) for words in both]
for one in both: one.start()
for one in both: one.join()";

#[test]
fn output_and_events_that_nobody_takes_are_given_up() {
    let service = Service::start("ready = 0\n");
    let place = turnkey_tests::scratch();
    turnkey_tests::open_to_all(place.path());
    turnkey_tests::hand_over(place.path(), turnkey_tests::SERVED);
    let began = Instant::now();
    assert_eq!(
        super::talks(&service, place.path(), UNREAD),
        "closed\nclosed"
    );
    let took = began.elapsed();
    measured(&format!("{took:.1?}"));
    assert!(
        took > Duration::from_secs(30) && took < Duration::from_secs(36),
        "{took:?}"
    );
    let log = service.log().into_iter();
    let signals: Vec<_> = log
        .filter(|line| line["event"] == "given_up")
        .map(|line| line["signal"].clone())
        .collect();
    assert_eq!(signals, [14, 14]);
    assert!(service.makers().is_empty(), "their slots are free");
}

#[test]
fn who_has_hung_up_holds_no_place_among_those_who_wait() {
    let service = Service::start("queue = 4\n");
    // What the service finds when it goes on has all come before it looks.
    kill(service.pid(), Signal::SIGSTOP).unwrap();
    let script = "import os, socket, sys
for _ in range(8):
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.connect(os.environ['TURNKEY_SOCKET_DIR'] + '/turnkey.fd.sock')
    line.close()
print('there', flush=True); sys.stdin.read()";
    let mut gone = super::as_served(&service, "python3", Path::new("/"));
    let gone = gone.args(["-c", script]);
    let gone = gone.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut gone = gone.spawn().unwrap();
    let mut first = String::new();
    let out = gone.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut first).unwrap();
    assert_eq!(first, "there\n", "the control: it lives, and has hung up");
    let run = Run::new().option("--quiet").served_at(&service.directory());
    let mut waits = run.command(&["true"]);
    let mut waits = waits.spawn().unwrap();
    eventually("it has connected", || super::has_connected(&waits));
    kill(service.pid(), Signal::SIGCONT).unwrap();
    assert!(waits.wait().unwrap().success(), "it has a place");
    drop(gone.stdin.take());
    gone.wait().unwrap();
}
