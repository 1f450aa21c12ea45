//! Ends of every kind: of the caller, of the service, of a run; and those who wait.

use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use turnkey_tests::{Run, Service, eventually, outside};

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
    assert!(is_alive(), "the control: the program runs");
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
        assert!(is_alive(), "the control: the program runs");
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
    let connected = || {
        let descriptors = format!("/proc/{}/fd", service.pid());
        std::fs::read_dir(descriptors).unwrap().count()
    };
    let before = connected();
    let mut waits = third.command(&["true"]).spawn().unwrap();
    // It waits for a slot of its own user's, and the next one has no place left to wait in.
    eventually("it waits", || connected() > before);
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
