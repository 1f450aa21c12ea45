//! Ends of every kind: of the caller, of the service, of a run; and those who wait.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use turnkey_expectations::expected;
use turnkey_tests::{Run, Service, binary, eventually, nothing_is_loaded, outside};

expected!(
    a_kill_at_many_moments_leaves_nothing_1,
    a_kill_at_many_moments_leaves_nothing_2,
    a_kill_at_many_moments_leaves_nothing_3,
    a_kill_at_many_moments_leaves_nothing_4: at_night,
    "180 times; `a_kill_at_any_moment_…` has the first twenty by day"
);

expected!(
    a_run_may_last_longer_than_its_preparation_may: at_night,
    "a minute; no other run of a test lasts as long"
);
#[test]
fn a_run_may_last_longer_than_its_preparation_may() {
    let service = Service::start("");
    let run = Run::new()
        .option("--quiet --wall 100s")
        .served_at(&service.directory());
    let ran = run
        .command(&["sh", "-c", "sleep 62; exit 5"])
        .status()
        .unwrap();
    assert_eq!(ran.code(), Some(5));
}

/// True while the kernel calls the monitor's programs, which were loaded to stay.
fn are_attached() -> bool {
    let (_, status) = outside(binary(), &["monitor", "status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("it is JSON");
    let watching = status["versions"][0]["watching"].as_bool();
    watching.expect("the programs are loaded")
}

/// A service that has made one run, in mounts of this thread's own, where the programs were attached for nobody before.
fn after_a_run() -> Service {
    nothing_is_loaded();
    Run::new().option("--quiet").run(&["true"]).expect_code(0);
    eventually("the control: a run leaves nothing attached", || {
        !are_attached()
    });
    let service = Service::start("");
    served(&service).run(&["true"]).expect_code(0);
    service
}

#[test]
fn the_next_run_finds_the_monitor_attached() {
    let _service = after_a_run();
    eventually("who stands ready holds the programs", are_attached);
}

expected!(
    a_service_that_nobody_asks_costs_the_host_nothing: at_night,
    "the programs stay attached for five seconds"
);
#[test]
fn a_service_that_nobody_asks_costs_the_host_nothing() {
    let _service = after_a_run();
    eventually("the programs are let go", || !are_attached());
}

/// A run that lasts, once its program runs.
fn sleeper(service: &Service, run: &Run) -> Child {
    let program = format!("echo runs; exec {}", sleep());
    let mut command = run.command(&["sh", "-c", &program]);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .expect("turnkey can be started");
    let mut first = [0; 5];
    std::io::Read::read_exact(child.stdout.as_mut().expect("it is a pipe"), &mut first)
        .expect("the program says that it runs");
    assert!(service.pid().as_raw() > 0);
    child
}

/// A command line that no other test has.
fn sleep() -> String {
    format!("sleep 60.{}", std::process::id())
}

/// True while the program of a sleeper runs.
fn is_alive() -> bool {
    let exactly = format!("^{}$", sleep());
    outside("pgrep", &["-f", &exactly]).0.success()
}

fn served(service: &Service) -> Run {
    Run::new()
        .option("--quiet --wall 50s")
        .served_at(&service.directory())
}

#[test]
fn a_caller_that_is_killed_takes_its_run_along() {
    let service = Service::start("ready = 0\n");
    let run = served(&service);
    let mut child = sleeper(&service, &run);
    let makers = service.makers();
    assert!(!makers.is_empty(), "the control: a process makes the run");
    eventually("the control: the program runs", is_alive);
    child.kill().unwrap();
    child.wait().unwrap();
    Service::nothing_is_left(&makers);
    assert!(!is_alive());
    served(&service).run(&["true"]).expect_code(0);
}

#[test]
fn a_signal_reaches_the_program() {
    let service = Service::start("");
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let run = served(&service);
        let mut child = sleeper(&service, &run);
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
    }
    let run = served(&service);
    let script = "trap 'exit 9' USR1; echo runs; while :; do sleep 0.02; done";
    let mut child = run
        .command(&["sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 5];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGUSR1).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn nothing_outlives_the_service_and_the_next_one_works() {
    let mut service = Service::start("");
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let run = served(&service);
        let child = sleeper(&service, &run);
        let makers = service.makers();
        eventually("the control: the program runs", is_alive);
        let code = service.end_by(signal);
        assert_eq!(code, (signal == Signal::SIGTERM).then_some(0), "{signal}");
        let output = child.wait_with_output().unwrap();
        let expected = match signal {
            Signal::SIGTERM => 143,
            _ => 125,
        };
        assert_eq!(output.status.code(), Some(expected), "{signal}");
        Service::nothing_is_left(&makers);
        assert!(!is_alive(), "{signal}");
        let socket = service.directory().join("turnkey.fd.sock");
        assert_eq!(socket.exists(), signal == Signal::SIGKILL, "{signal}");
        service.start_again();
        served(&service).run(&["true"]).expect_code(0);
    }
}

#[test]
fn nobody_takes_all_slots_and_who_waits_is_served_in_turn() {
    let service = Service::start("max_running = 3\nmax_running_per_user = 2\nqueue = 1\n");
    let runs = [served(&service), served(&service)];
    let mut own: Vec<Child> = runs.iter().map(|run| sleeper(&service, run)).collect();
    // Root is another user, for whom a slot is kept.
    let root = Run::new().option("--quiet --service");
    let mut command = root.command(&["true"]);
    command.env("TURNKEY_SOCKET_DIR", service.directory());
    assert!(command.status().unwrap().success(), "another user's slot");
    let third = served(&service);
    let mut waits = third.command(&["true"]).spawn().unwrap();
    // It waits for a slot of its own user's, and the next one has no place left to wait in.
    eventually("it waits", || super::has_connected(&waits));
    let busy = served(&service).run(&["true"]);
    busy.expect_code(125);
    busy.expect(busy.stderr.contains("busy: 2 run, and 1 wait"), "told");
    assert!(waits.try_wait().unwrap().is_none());
    own[0].kill().unwrap();
    own[0].wait().unwrap();
    assert!(waits.wait().unwrap().success(), "in its turn");
    own[1].kill().unwrap();
    own[1].wait().unwrap();
}

#[test]
fn who_says_nothing_is_given_up() {
    let service = Service::start("max_running = 1\n");
    let script = "import os, socket, sys
line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
line.connect(os.environ['TURNKEY_SOCKET_DIR'] + '/turnkey.fd.sock')
print('there', flush=True); line.settimeout(30); print(len(line.recv(9999)) > 16)";
    let mut silent = super::as_served(&service, "python3", std::path::Path::new("/"));
    let silent = silent.args(["-c", script]).stdout(Stdio::piped());
    let silent = silent.spawn().unwrap();
    let ran = served(&service).run(&["true"]);
    ran.expect_code(0);
    ran.expect(
        ran.took < Duration::from_secs(20),
        "it waited for a slot, and got it",
    );
    let output = silent.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "there\nTrue\n");
}

/// The host's objects that a service and its runs have, but for groups and processes: mounts, pins, the files of its socket, its abstract sockets.
#[derive(Debug, PartialEq, Eq)]
struct HostState {
    mounts: Vec<String>,
    pins: Vec<String>,
    files: Vec<String>,
}

impl HostState {
    /// As it is for this thread's mounts.
    fn look(service: &Service) -> HostState {
        let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo");
        let mut mounts: Vec<String> = mounts
            .expect("/proc is mounted")
            .lines()
            .map(str::to_owned)
            .collect();
        mounts.sort();
        HostState {
            mounts,
            pins: pins(),
            files: below(&service.directory()),
        }
    }
}

/// The pins, but those of rules and filters, which are kept for later runs under the digests of what they are made of.
fn pins() -> Vec<String> {
    let mut pins = below("/sys/fs/bpf".as_ref());
    let kept = |pin: &String| pin.contains("/tables/") || pin.contains("/filters");
    pins.retain(|pin| !kept(pin));
    pins
}

/// Every path below a directory.
fn below(directory: &std::path::Path) -> Vec<String> {
    let (_, found) = outside("find", &[&directory.to_string_lossy()]);
    let mut found: Vec<String> = found.lines().map(str::to_owned).collect();
    found.sort();
    found
}

/// The processes that these have started, and those that those have, with the time of each start: a number may be given anew.
fn descendants(of: &[u32]) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    let mut open = of.to_vec();
    while let Some(parent) = open.pop() {
        let (_, children) = outside("pgrep", &["-P", &parent.to_string()]);
        let children = children.lines().filter_map(|line| line.parse().ok());
        for child in children.collect::<Vec<u32>>() {
            found.push((child, started(child)));
            open.push(child);
        }
    }
    found
}

/// The time at which a process was started; nothing when it is not there, or is dead and not yet waited for.
fn started(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut fields = fields.split_whitespace();
    match fields.next() {
        None | Some("Z" | "X") => String::new(),
        Some(_) => fields.nth(18).unwrap_or_default().to_owned(),
    }
}

/// The kind of kill that takes the keeper or the jail's first process.
const KEEPER: u64 = 3;

/// The processes of one run at one moment, and whom of them to kill.
struct RunAtMoment {
    makers: Vec<u32>,
    others: Vec<(u32, String)>,
    victim: Option<Pid>,
}

impl RunAtMoment {
    fn look(service: &Service, child: &Child, moment: u64) -> RunAtMoment {
        let kind = moment % 4;
        let makers = service.makers();
        let others = descendants(&makers);
        // Whoever stands ready has none. The first is the keeper, the last the jail's first process.
        let children = |maker: &u32| {
            let (_, children) = outside("pgrep", &["-P", &maker.to_string()]);
            let children = children.lines().filter_map(|pid| pid.parse().ok());
            children.map(to_pid).collect::<Vec<Pid>>()
        };
        let makes = makers.iter().find(|maker| !children(maker).is_empty());
        let children = makes.map(children).unwrap_or_default();
        let victim = match kind {
            0 => Some(service.pid()),
            1 => Some(Pid::from_raw(child.id().cast_signed())),
            2 => makes.or(makers.first()).copied().map(to_pid),
            KEEPER if moment % 8 == KEEPER => children.first().copied(),
            _ => children.last().copied(),
        };
        RunAtMoment {
            makers,
            others,
            victim,
        }
    }

    /// True while a group of these processes is there.
    fn has_groups(&self) -> bool {
        let own = self.makers.iter().map(|pid| format!("turnkey-{pid}-"));
        let own: Vec<String> = own.collect();
        let groups = turnkey_tests::group_traces();
        let is_own = |group: &String| own.iter().any(|own| group.contains(own));
        groups.iter().any(is_own)
    }

    /// Waits until nothing is left of the run: no process of it, no group, and the rest of the host as it was.
    fn leaves_nothing(&self, service: &Service, before: &HostState, kind: u64) {
        let lives = |process: &&(u32, String)| {
            let since = started(process.0);
            !since.is_empty() && since == process.1
        };
        eventually(&format!("no process is left, kind {kind}"), || {
            !self.others.iter().any(|process| lives(&process)) && !is_alive()
        });
        eventually(&format!("no group is left, kind {kind}"), || {
            !self.has_groups()
        });
        eventually(&format!("no socket is left, kind {kind}"), || {
            let sockets = std::fs::read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
            // The name of a live run ends with the number of its process, and of the group that it watches.
            let names = sockets
                .lines()
                .filter_map(|line| line.split_once("@turnkey/"));
            let mut runs = names.filter_map(|(_, name)| name.split('/').next()?.rsplit_once('-'));
            let own = |process: &str| self.makers.iter().any(|pid| format!("{pid:x}") == process);
            !runs.any(|(_, process)| own(process))
        });
        let mut now = HostState::look(service);
        let deadline = Instant::now() + Duration::from_secs(15);
        while now != *before && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
            now = HostState::look(service);
        }
        assert_eq!(now, *before, "kind {kind}");
    }
}

/// Kills one process after another with SIGKILL, each at another moment of a run, and looks at what is left, whoever it was.
fn at_moments(moments: std::ops::Range<u64>) {
    // So that mounts and pins are this test's own.
    nothing_is_loaded();
    let mut service = Service::start("");
    served(&service).run(&["true"]).expect_code(0);
    let before = HostState::look(&service);
    let mut hit = 0;
    for moment in moments {
        let run = served(&service);
        let program = sleep();
        let mut child = run
            .command(&["sh", "-c", &program])
            .stderr(Stdio::null())
            .spawn()
            .expect("turnkey can be started");
        std::thread::sleep(Duration::from_millis(moment * 7 % 190));
        let kind = moment % 4;
        let at = RunAtMoment::look(&service, &child, moment);
        if let Some(victim) = at.victim {
            hit += u32::from(kill(victim, Signal::SIGKILL).is_ok());
        }
        if kind == 0 {
            service.end_by(Signal::SIGKILL);
        } else {
            // Where the victim was no part of this run, it goes on.
            let _ = child.kill();
        }
        child.wait().expect("a child can be waited for");
        if kind == 0 {
            Service::nothing_is_left(&at.makers);
        }
        at.leaves_nothing(&service, &before, kind);
        if kind == 0 {
            service.start_again();
        }
        served(&service).run(&["true"]).expect_code(0);
    }
    assert!(hit > 0, "the control: somebody was killed");
    let makers = service.makers();
    drop(service);
    Service::nothing_is_left(&makers);
}

#[test]
fn a_run_that_is_killed_with_its_keeper_leaves_no_group() {
    for ends in [false, true] {
        let mut service = Service::start("ready = 0\n");
        let run = served(&service);
        let mut child = sleeper(&service, &run);
        let at = RunAtMoment::look(&service, &child, KEEPER);
        assert!(at.has_groups(), "the control: they are there");
        let maker = at.makers.first().copied().map(to_pid);
        for victim in [at.victim, maker] {
            let victim = victim.expect("a run has both");
            kill(victim, Signal::SIGKILL).expect("it is there");
        }
        child.wait().expect("a child can be waited for");
        // No other run removes them: none is made.
        if ends {
            assert_eq!(service.end_by(Signal::SIGTERM), Some(0));
            assert!(!at.has_groups(), "not behind the service's end either");
        } else {
            eventually("no group is left", || !at.has_groups());
        }
    }
}

fn to_pid(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed())
}

macro_rules! kills {
    ($($test:ident: $moments:expr;)*) => { $(
        #[test]
        fn $test() {
            at_moments($moments);
        }
    )* };
}

// Of five kills, two take the service along, which is started anew: that is what each of these waits for.
kills! {
    a_kill_at_any_moment_leaves_nothing_1: 0..5;
    a_kill_at_any_moment_leaves_nothing_2: 5..10;
    a_kill_at_any_moment_leaves_nothing_3: 10..15;
    a_kill_at_any_moment_leaves_nothing_4: 15..20;
    a_kill_at_many_moments_leaves_nothing_1: 20..65;
    a_kill_at_many_moments_leaves_nothing_2: 65..110;
    a_kill_at_many_moments_leaves_nothing_3: 110..155;
    a_kill_at_many_moments_leaves_nothing_4: 155..200;
}

#[test]
fn a_flood_of_connections_keeps_nobody_else_out() {
    let service = Service::start("max_running = 4\nmax_running_per_user = 2\nqueue = 8\n");
    let script = "import os, resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
lines, count, end = [], 0, time.time() + 3
print('there', flush=True)
while time.time() < end:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.setblocking(False)
    try: line.connect(os.environ['TURNKEY_SOCKET_DIR'] + '/turnkey.fd.sock'); count += 1
    except BlockingIOError: time.sleep(0.001)
    lines.append(line)
    if len(lines) > 4000: lines.clear()
print(count)";
    let mut flood = super::as_served(&service, "python3", std::path::Path::new("/"));
    let mut flood = flood
        .args(["-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 6];
    std::io::Read::read_exact(flood.stdout.as_mut().unwrap(), &mut first).unwrap();
    for _ in 0..5 {
        let root = Run::new().option("--quiet --service");
        let mut command = root.command(&["true"]);
        command.env("TURNKEY_SOCKET_DIR", service.directory());
        assert!(
            command.status().unwrap().success(),
            "another user is served"
        );
    }
    let output = flood.wait_with_output().unwrap();
    let count: u32 = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .unwrap();
    assert!(count > 1000, "the control: it was a flood: {count}");
    let told = service.log();
    let of = |event: &str| told.iter().filter(|line| line["event"] == event).count();
    let lines = of("refused") + of("waits") + of("gone");
    assert!(
        lines < 700,
        "{lines} lines about it, of those without a run"
    );
    assert!(of("ran") >= 5, "and those of others, who ran");
    turnkey_tests::measured(&format!("{count} connections in 3 s"));
}

#[test]
fn output_that_nobody_takes_holds_no_slot_without_its_caller() {
    let service = Service::start("ready = 0\n");
    let (kept, full) = std::io::pipe().unwrap();
    let run = served(&service);
    let mut child = run.command(&["yes"]).stdout(full).spawn().unwrap();
    eventually("a process makes the run", || !service.makers().is_empty());
    let makers = service.makers();
    std::thread::sleep(Duration::from_millis(300));
    child.kill().unwrap();
    child.wait().unwrap();
    // The reading end is open all the time.
    Service::nothing_is_left(&makers);
    drop(kept);
}
