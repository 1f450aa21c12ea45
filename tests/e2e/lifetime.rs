//! How a run ends when somebody outside wants it to, and what a strange caller may do to it.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use turnkey_tests::{Run, eventually, finish};

use crate::tracer::{Call, Fault, PRETEND, Role, trace};

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a process id"))
}

/// Starts a shell script in a jail and waits until it has said that it is ready.
fn start(script: &str) -> (Run, Child) {
    let run = Run::new().option("--quiet --unmonitored");
    let script = format!("{script}\n: > ready.$$ && echo ready && wait_for_more");
    let script = script.replace("&& wait_for_more", "; while :; do sleep 0.05; done");
    let mut command = run.command(&["/bin/sh", "-c", &script]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("turnkey can be started");
    let mut ready = [0; 6];
    let stdout = child.stdout.as_mut().expect("a pipe");
    std::io::Read::read_exact(stdout, &mut ready).expect("the program says that it is ready");
    (run, child)
}

fn send(child: &Child, signal: Signal) {
    kill(pid_of(child), signal).expect("turnkey runs");
}

fn end_of(child: Child) -> (Output, Duration) {
    let asked = Instant::now();
    (finish(child), asked.elapsed())
}

#[test]
fn a_demand_for_an_end_is_the_programs_to_follow() {
    for (signal, name) in [
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGINT, "INT"),
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGQUIT, "QUIT"),
    ] {
        let (_run, child) = start(&format!("trap 'echo asked; exit 7' {name}"));
        send(&child, signal);
        let (output, _) = end_of(child);
        assert_eq!(output.status.code(), Some(7), "{name}: {output:?}");
        assert_eq!(output.stdout, b"asked\n", "{name}");
    }
}

#[test]
fn a_program_without_an_answer_dies_of_the_signal() {
    let (_run, child) = start("");
    send(&child, Signal::SIGINT);
    let (output, took) = end_of(child);
    assert_eq!(output.status.code(), Some(128 + 2), "{output:?}");
    assert!(took < Duration::from_secs(2), "it took {took:?}");
}

#[test]
fn a_program_that_will_not_end_is_killed() {
    let (_run, child) = start("trap '' TERM INT HUP QUIT");
    send(&child, Signal::SIGTERM);
    let (output, took) = end_of(child);
    assert_eq!(output.status.code(), Some(128 + 15), "{output:?}");
    assert!(took >= Duration::from_secs(2), "it had its time: {took:?}");
    assert!(took < Duration::from_secs(8), "and no more: {took:?}");
}

#[test]
fn a_second_demand_is_not_waited_for() {
    let (_run, child) = start("trap 'echo asked' TERM");
    send(&child, Signal::SIGTERM);
    std::thread::sleep(Duration::from_millis(300));
    send(&child, Signal::SIGTERM);
    let (output, took) = end_of(child);
    assert_eq!(output.status.code(), Some(128 + 15), "{output:?}");
    assert!(took < Duration::from_millis(1500), "it took {took:?}");
}

#[test]
fn other_signals_are_the_programs_own() {
    let (_run, child) = start("trap 'echo one' USR1; trap 'echo two; exit 3' USR2");
    send(&child, Signal::SIGUSR1);
    std::thread::sleep(Duration::from_millis(300));
    send(&child, Signal::SIGUSR2);
    let (output, _) = end_of(child);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(output.stdout, b"one\ntwo\n");
}

/// turnkey started through env(1), which sets what is inherited.
fn through_env(run: &Run, settings: &[&str], program: &[&str]) -> Command {
    let inner = run.command(program);
    let mut command = Command::new("env");
    command
        .args(settings)
        .arg(inner.get_program())
        .args(inner.get_args());
    command.current_dir(run.path()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_hangup_that_the_caller_ignores_stays_ignored() {
    let run = Run::new().option("--quiet --unmonitored");
    let program = ["/bin/sh", "-c", "sleep 1; echo whole"];
    let mut command = through_env(&run, &["--ignore-signal=HUP"], &program);
    let child = command.spawn().unwrap();
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(100));
        let _ = kill(pid_of(&child), Signal::SIGHUP);
    }
    let output = finish(child);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, b"whole\n");
}

#[test]
fn nothing_of_the_callers_signals_is_inherited() {
    let program = ["/bin/grep", "^Sig[BI]", "/proc/self/status"];
    let none = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n";
    let settings = [
        "--block-signal=USR1,HUP,TERM,PIPE",
        "--ignore-signal=INT,PIPE,CHLD",
    ];
    let control = Command::new("env").args(settings).args(program).output();
    let control = control.expect("env and grep are there").stdout;
    assert_ne!(control, none.as_bytes(), "the control: it is inherited");
    let run = Run::new().option("--quiet --unmonitored");
    let output = finish(through_env(&run, &settings, &program).spawn().unwrap());
    assert_eq!(String::from_utf8_lossy(&output.stdout), none);
}

#[test]
fn closed_standard_streams_are_no_ones() {
    // Every combination: what of ours would land on a free number, must not be the program's.
    for closed in [
        "<&-",
        ">&-",
        "2>&-",
        "<&- >&-",
        "<&- 2>&-",
        ">&- 2>&-",
        "<&- >&- 2>&-",
    ] {
        let run = Run::new().option("--quiet --unmonitored");
        let program = "for fd in 0 1 2; do readlink /proc/self/fd/$fd; done > links; ls /proc/self/fd > all; test $(wc -l < all) = 4 && exit 3";
        let inner = run.command(&["/bin/sh", "-c", program]);
        let mut shell = Command::new("/bin/sh");
        let script = format!("exec \"$0\" \"$@\" {closed}");
        shell.args(["-c", &script]).arg(inner.get_program());
        shell.args(inner.get_args()).current_dir(run.path());
        let output = finish(shell.stdin(Stdio::null()).spawn().unwrap());
        assert_eq!(output.status.code(), Some(3), "closed {closed}");
    }
}

#[test]
fn a_full_standard_error_changes_no_status() {
    let run = Run::new().option("--unmonitored");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let mut command = run.command(&["/bin/sh", "-c", "echo lost >&2; exit 5"]);
    let output = finish(command.stderr(full.unwrap()).spawn().unwrap());
    assert_eq!(output.status.code(), Some(5));
}

#[test]
fn a_report_that_finds_no_room_is_told() {
    let run = Run::new();
    let mut command = Command::new(turnkey_tests::binary());
    command.args(["run", "--unmonitored", "--report", "/dev/full"]);
    command.args(["--", "/bin/sh", "-c", "echo ran; exit 4"]);
    command.current_dir(run.path()).stdin(Stdio::null());
    let output = finish(
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{told}");
    assert!(told.contains("could not write the report"), "{told}");
    assert!(told.contains("No space left"), "{told}");
    assert!(
        told.contains('4'),
        "how the program ended is told all the same: {told}"
    );
}

#[test]
fn a_report_on_a_full_disk_leaves_no_half() {
    let run = Run::new();
    let place = turnkey_tests::scratch();
    let script = "mount -t tmpfs -o size=4k none \"$1\" && shift && \"$@\"; code=$?; ls -A \"$DISK\"; exit $code";
    let report = place.path().join("report.json");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(place.path());
    command
        .arg(turnkey_tests::binary())
        .args(["run", "--quiet", "--unmonitored", "--report"]);
    command.arg(&report).args(["--", "/bin/true"]);
    command.env("DISK", place.path()).current_dir(run.path());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{told}");
    assert!(told.contains("No space left"), "{told}");
    assert!(output.stdout.is_empty(), "no half of a report is left");
}

/// Where a jail with a sleeper is, once it runs.
struct Sleeper {
    turnkey: Pid,
    keeper: Pid,
    init: Pid,
}

/// turnkey's children: the keeper is in the same pid namespace, the init is not.
fn children_of(turnkey: Pid) -> Option<Sleeper> {
    let list = std::fs::read_to_string(format!("/proc/{turnkey}/task/{turnkey}/children")).ok()?;
    let mut children = (None, None);
    for child in list.split_whitespace() {
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).ok()?;
        let ids = status
            .lines()
            .find_map(|line| line.strip_prefix("NSpid:"))?;
        let pid = Some(Pid::from_raw(child.parse().ok()?));
        match ids.split_whitespace().count() {
            1 => children.0 = pid,
            _ => children.1 = pid,
        }
    }
    let (keeper, init) = (children.0?, children.1?);
    Some(Sleeper {
        turnkey,
        keeper,
        init,
    })
}

fn is_alive(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("\nState:\tZ")
}

/// Kills the keeper first, which would clear away otherwise.
fn kill_both(sleeper: &Sleeper) {
    for pid in [sleeper.keeper, sleeper.turnkey] {
        kill(pid, Signal::SIGKILL).expect("it is there");
    }
}

fn start_sleeper(run: &Run) -> (Child, Sleeper) {
    let mut command = run.command(&["/bin/sh", "-c", "echo ready; exec sleep 600"]);
    let started = command.stdout(Stdio::piped()).spawn();
    let mut child = started.expect("turnkey can be started");
    let mut ready = [0; 6];
    let stdout = child.stdout.as_mut().expect("a pipe");
    std::io::Read::read_exact(stdout, &mut ready).expect("the program runs");
    let sleeper = children_of(pid_of(&child)).expect("a keeper and an init");
    (child, sleeper)
}

/// Holds copies of turnkey's sockets, so that their other ends see no hang-up: pidfd_getfd(2).
fn hold_sockets(turnkey: Pid) -> Child {
    let program = "import ctypes, os, sys, time
call = ctypes.CDLL(None, use_errno=True).syscall
pid = int(sys.argv[1])
process = os.pidfd_open(pid)
held = 0
for fd in os.listdir(f'/proc/{pid}/fd'):
    if os.readlink(f'/proc/{pid}/fd/{fd}').startswith('socket:'):
        held += call(438, process, int(fd), 0) >= 0
os.close(process)
print(held, flush=True)
time.sleep(60)";
    let mut command = Command::new("python3");
    command.args(["-c", program, &turnkey.to_string()]);
    let mut holder = command.stdout(Stdio::piped()).spawn().expect("python3");
    let mut held = [0; 2];
    let stdout = holder.stdout.as_mut().expect("a pipe");
    std::io::Read::read_exact(stdout, &mut held).expect("it says how many");
    assert!(
        (b'2'..=b'9').contains(&held[0]),
        "control socket and lifeline"
    );
    holder
}

/// Kills turnkey and its keeper; whether the jail's init is dead soon after.
fn init_dies(sleeper: &Sleeper) -> bool {
    kill_both(sleeper);
    let deadline = Instant::now() + Duration::from_secs(3);
    while is_alive(sleeper.init) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    !is_alive(sleeper.init)
}

#[test]
fn the_death_signal_alone_ends_the_jail() {
    let run = Run::new().option("--quiet --unmonitored");
    let (mut child, sleeper) = start_sleeper(&run);
    let mut holder = hold_sockets(sleeper.turnkey);
    let dies = init_dies(&sleeper);
    let held = is_alive(pid_of(&holder));
    holder.kill().unwrap();
    holder.wait().unwrap();
    child.wait().unwrap();
    assert!(dies && held, "without a hang-up");
}

/// Starts a run by a shell that is then killed; whether turnkey and the jail's init live on.
fn outlives_its_parent(options: &str) -> bool {
    let run = Run::new().option(&format!("--quiet --unmonitored{options}"));
    let command = run.command(&["/bin/sh", "-c", "echo ready; exec sleep 600"]);
    let mut parent = Command::new("/bin/sh");
    parent.args(["-c", "\"$@\" & echo $!; wait", "sh"]);
    parent.arg(command.get_program()).args(command.get_args());
    parent.stdout(Stdio::piped());
    let mut parent = parent.spawn().expect("a shell can be run");
    let mut lines = BufReader::new(parent.stdout.take().expect("a pipe")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    let mut said = [line(), line()];
    said.sort();
    let turnkey = Pid::from_raw(said[0].parse().expect("the id of turnkey"));
    let sleeper = children_of(turnkey).expect("a keeper and an init");
    parent.kill().expect("it is a child");
    parent.wait().expect("it is a child");
    let begun = Instant::now();
    let lives = || is_alive(turnkey) || is_alive(sleeper.init);
    while lives() && begun.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let lives = lives();
    if lives {
        kill_both(&sleeper);
    }
    lives
}

#[test]
fn a_run_dies_with_its_parent_where_it_is_to() {
    assert!(outlives_its_parent(""), "the control");
    assert!(!outlives_its_parent(" --die-with-parent"));
}

/// A run whose init was told that it has a death signal and has none. `hold` keeps the hang-up
/// from it as well.
fn without_death_signal(hold: bool) -> bool {
    let run = Run::new().option("--quiet --unmonitored");
    let streams = turnkey_tests::scratch();
    let path = streams.path().join("output");
    let file = || {
        let opened = File::options().append(true).create(true).open(&path);
        opened.expect("a test can make a file")
    };
    let command = run.command(&["/bin/sh", "-c", "echo ready; exec sleep 600"]);
    let init = crate::faults::undisturbed(crate::faults::PLAIN).1;
    let fault = Fault {
        role: Role::Init,
        call: Call {
            number: libc::SYS_prctl,
            which: libc::PR_SET_PDEATHSIG.cast_unsigned().into(),
        },
        nth: 0,
        lasting: false,
        errno: PRETEND,
    };
    let watched = path.clone();
    let killer = std::thread::spawn(move || {
        eventually("the program runs", || {
            std::fs::read_to_string(&watched).is_ok_and(|text| text == "ready\n")
        });
        let turnkey = newest_turnkey();
        let sleeper = children_of(turnkey).expect("a keeper and an init");
        let holder = hold.then(|| hold_sockets(turnkey));
        let dies = init_dies(&sleeper);
        let _ = kill(sleeper.init, Signal::SIGKILL);
        if let Some(mut holder) = holder {
            // The tracer waits for every child, this one too.
            let _ = holder.kill();
            let _ = holder.wait();
        }
        dies
    });
    let traced = trace(&command, [file(), file()], init, Some(fault));
    assert!(traced.hit, "the death signal was kept from it");
    killer.join().expect("the killer has seen it all")
}

/// This process's own child that is turnkey.
fn newest_turnkey() -> Pid {
    let own = std::process::id();
    let mut found = None;
    for task in std::fs::read_dir(format!("/proc/{own}/task"))
        .expect("own tasks")
        .flatten()
    {
        let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found = list
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .max()
            .max(found);
    }
    Pid::from_raw(found.expect("a child"))
}

#[test]
fn the_lifeline_alone_ends_the_jail() {
    assert!(without_death_signal(false));
    assert!(
        !without_death_signal(true),
        "the control: without both it lives on"
    );
}

/// The groups of a run, by its process id.
fn groups_of(turnkey: Pid) -> Vec<String> {
    let mark = format!("/turnkey-{turnkey}-");
    let traces = turnkey_tests::traces().into_iter();
    traces.filter(|trace| trace.contains(&mark)).collect()
}

/// As if they had been made a minute ago.
fn age(groups: &[String]) {
    for group in groups {
        let made = std::time::SystemTime::now() - Duration::from_secs(60);
        let directory = File::open(group).expect("the group is there");
        directory.set_modified(made).expect("root may");
    }
}

#[test]
fn the_keeper_removes_the_groups_of_a_turnkey_that_was_killed() {
    let run = Run::new().option("--quiet --unmonitored");
    let (mut child, left) = start_sleeper(&run);
    assert!(
        !groups_of(left.turnkey).is_empty(),
        "the control: they are there"
    );
    kill(left.turnkey, Signal::SIGKILL).expect("it is there");
    child.wait().unwrap();
    // Other runs sweep nothing that is younger than ten seconds.
    let soon = Instant::now() + Duration::from_secs(5);
    while !groups_of(left.turnkey).is_empty() && Instant::now() < soon {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(groups_of(left.turnkey), Vec::<String>::new());
}

#[test]
fn groups_without_an_owner_are_swept_by_the_next_run() {
    let run = Run::new().option("--quiet --unmonitored");
    let (mut child, left) = start_sleeper(&run);
    assert!(init_dies(&left));
    child.wait().unwrap();
    let other = Run::new().option("--quiet --unmonitored");
    let (mut living_child, living) = start_sleeper(&other);
    let groups = groups_of(left.turnkey);
    assert!(
        !groups.is_empty(),
        "the control: nobody is left to remove them"
    );
    // A session of turnkey's own in a jail makes groups below the jail's.
    let below = ["/inner/turnkey-1-2-3", "/inner", ""];
    for group in &groups {
        std::fs::create_dir_all(format!("{group}{}", below[0])).expect("root may");
        age(&below.map(|name| format!("{group}{name}")));
    }
    age(&groups_of(living.turnkey));
    let before = groups_of(living.turnkey).len();
    Run::new()
        .option("--unmonitored")
        .run(&["/bin/true"])
        .expect_code(0);
    assert_eq!(groups_of(left.turnkey), Vec::<String>::new());
    assert_eq!(
        groups_of(living.turnkey).len(),
        before,
        "a living run keeps its own"
    );
    kill(living.turnkey, Signal::SIGKILL).unwrap();
    living_child.wait().unwrap();
}

/// Who writes on learns of it, as without turnkey, by SIGPIPE; who is done ends as it wants.
#[test]
fn a_reader_that_hangs_up_ends_who_writes_on_and_nothing_else() {
    for (then, status) in [("echo two", 141), ("true", 6)] {
        let run = Run::new().option("--quiet --unmonitored");
        let script = format!("echo one; sleep 0.3; {then}; exit 6");
        let mut command = run.command(&["/bin/sh", "-c", &script]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(finish(child).status.code(), Some(status), "{then}");
    }
}

#[test]
fn an_interrupted_call_is_made_again() {
    // SIGWINCH interrupts and means nothing here; SIGCONT the same.
    let run = Run::new().option("--quiet --unmonitored");
    let mut command = run.command(&["/bin/sh", "-c", "sleep 0.5; echo whole"]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    for _ in 0..500 {
        match kill(pid_of(&child), Signal::SIGCONT) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(other) => panic!("{other}"),
        }
        let _ = kill(pid_of(&child), Signal::SIGWINCH);
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = finish(child);
    assert_eq!(output.stdout, b"whole\n", "{output:?}");
}

/// Stopped longer than the jail may run; three seconds, because whole seconds are the least that leave room for a busy host.
#[test]
fn j71_the_wall_clock_holds_while_turnkey_is_stopped() {
    let run = Run::new().option("--unmonitored --wall 1s");
    let started = Instant::now();
    let (child, sleeper) = start_sleeper(&run);
    kill(sleeper.turnkey, Signal::SIGSTOP).expect("it is there");
    std::thread::sleep(Duration::from_millis(300));
    assert!(is_alive(sleeper.init), "the control: its time is not over");
    std::thread::sleep(Duration::from_millis(2500));
    assert!(!is_alive(sleeper.init), "nobody waits for turnkey");
    kill(sleeper.turnkey, Signal::SIGCONT).expect("it is there");
    let ran = run.end(child, started);
    ran.expect(ran.code == 124, "out of time");
    ran.expect(ran.at("/status") == "timed_out", "and it is told");
}

#[test]
fn j71_a_program_that_ended_in_time_was_in_time() {
    let run = Run::new().option("--unmonitored --wall 1s");
    let started = Instant::now();
    let mut command = run.command(&["/bin/sh", "-c", "echo ready; sleep 0.3; exit 7"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    send(&child, Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(1800));
    send(&child, Signal::SIGCONT);
    let ran = run.end(child, started);
    ran.expect(ran.code == 7, "its own end counts");
}

/// Whoever ends a run from outside, nobody calls it clean.
#[test]
fn j72_a_run_that_was_ended_from_outside_is_not_clean() {
    let control = Run::new().shell("exit 0");
    control.expect(control.at("/verdict") == "clean", "the control");
    let own = Run::new().shell("kill -SEGV $$");
    own.expect(own.code == 139, "a program can end itself");
    own.expect(own.at("/verdict") == "clean", "and nobody else did");
    for (whom, signal) in [
        ("init", Signal::SIGKILL),
        ("program", Signal::SIGKILL),
        ("program", Signal::SIGSEGV),
        ("program", Signal::SIGTERM),
    ] {
        let run = Run::new();
        let started = Instant::now();
        let (child, sleeper) = start_sleeper(&run);
        let init = sleeper.init;
        let list = std::fs::read_to_string(format!("/proc/{init}/task/{init}/children"));
        let program = list.unwrap().trim().parse().expect("one child");
        let pid = if whom == "init" {
            init
        } else {
            Pid::from_raw(program)
        };
        kill(pid, signal).expect("it is there");
        let ran = run.end(child, started);
        ran.expect(ran.at("/verdict") == "inconclusive", whom);
        ran.expect(ran.code == 128 + signal as i32, whom);
        let told = ran.list("/findings").iter();
        let mut told = told.filter(|finding| finding["id"] == "turnkey:outside");
        let reason = told.next().map(|finding| finding["reason"].to_string());
        let sender = format!("{signal}, which process {} of the host", std::process::id());
        ran.expect(
            reason.is_some_and(|reason| reason.contains(&sender)),
            "and who did it is told",
        );
    }
}
