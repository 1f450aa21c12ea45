//! Signals of callers, and of whoever has started the service: what ends a run, what does not, and how a caller ends.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use turnkey_tests::{
    Run, SERVED, Service, binary_for_everybody, callers_scratch, eventually, hand_over, open_to_all,
};

use super::{as_served, has_connected};

/// The longest time in which a caller ends that does not wait for its service any more.
const SOON: Duration = Duration::from_secs(2);

/// A shell that ignores these signals, and becomes what is behind it.
fn ignoring(signals: &str) -> [String; 4] {
    let script = format!("trap '' {signals}; exec \"$@\"");
    ["bash", "-c", &script, "bash"].map(str::to_owned)
}

#[test]
fn what_the_starter_of_a_service_ignores_its_runs_heed() {
    let shell = ignoring("INT QUIT CHLD USR1");
    let service = Service::start_by(&shell.each_ref().map(String::as_str), "");
    let place = callers_place();
    let client = client(&service, place.path(), "PIPE", &["sleep", "5"]);
    eventually("it runs", || has_started(&service));
    let began = Instant::now();
    send(&client, Signal::SIGINT);
    let (output, told) = ended(client);
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn whoever_ignores_the_ends_of_children_has_its_runs_made() {
    // A shell gives this signal its own meaning again before it starts anything.
    let ignores = "import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])";
    let run = Run::new().option("--quiet");
    let own = run.command(&["true"]);
    let mut command = Command::new("python3");
    command.args(["-c", ignores]);
    command.arg(own.get_program()).args(own.get_args());
    let output = command.output().expect("python3 is there");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
}

/// A directory of the caller's.
fn callers_place() -> TempDir {
    let place = callers_scratch();
    open_to_all(place.path());
    hand_over(place.path(), SERVED);
    place
}

/// A client of an ordinary user's for this program, behind a shell that ignores these signals.
fn client(service: &Service, place: &std::path::Path, ignored: &str, program: &[&str]) -> Child {
    let [shell, words @ ..] = ignoring(ignored);
    let mut command = as_served(service, &shell, place);
    command.args(words).arg(binary_for_everybody(place));
    command
        .args(["run", "--service", "--quiet", "--"])
        .args(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let client = command.stderr(Stdio::piped()).spawn();
    let client = client.expect("bash is there");
    eventually("it has connected", || has_connected(&client));
    client
}

/// True once a program has started.
fn has_started(service: &Service) -> bool {
    let started = |line: &serde_json::Value| line["event"] == "started";
    service.log().iter().any(started)
}

fn send(client: &Child, signal: Signal) {
    kill(Pid::from_raw(client.id().cast_signed()), signal).expect("it lives");
}

fn ended(client: Child) -> (Output, String) {
    let output = client
        .wait_with_output()
        .expect("a child can be waited for");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, told)
}

#[test]
fn what_a_caller_ignores_ends_no_run_of_it() {
    let service = Service::start("");
    let place = callers_place();
    let program = ["sh", "-c", "echo begun > begun; sleep 0.5; exit 7"];
    let client = client(&service, place.path(), "HUP TERM USR1", &program);
    eventually("it runs", || has_started(&service));
    for signal in [Signal::SIGHUP, Signal::SIGTERM, Signal::SIGUSR1] {
        send(&client, signal);
    }
    let (output, told) = ended(client);
    assert_eq!(output.status.code(), Some(7), "{told}");
}

#[test]
fn a_signal_before_the_run_has_begun_is_the_end_of_its_caller() {
    let service = Service::start("ready = 1\n");
    let place = callers_place();
    for signal in [Signal::SIGINT, Signal::SIGUSR1] {
        eventually("a process stands ready", || service.makers().len() == 1);
        let maker = Pid::from_raw(service.makers()[0].cast_signed());
        kill(maker, Signal::SIGSTOP).expect("it lives");
        let client = client(&service, place.path(), "PIPE", &["true"]);
        send(&client, signal);
        std::thread::sleep(Duration::from_millis(50));
        kill(maker, Signal::SIGCONT).expect("it lives");
        let (output, told) = ended(client);
        assert_eq!(output.status.signal(), Some(signal as i32), "{told}");
        assert_eq!(told, "");
    }
}

#[test]
fn a_second_signal_ends_a_caller_whose_service_does_not_answer() {
    let service = Service::start("");
    let place = callers_place();
    kill(service.pid(), Signal::SIGSTOP).expect("it lives");
    let mut client = client(&service, place.path(), "PIPE", &["true"]);
    send(&client, Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(100));
    let is_there = client.try_wait().expect("a child can be asked").is_none();
    send(&client, Signal::SIGTERM);
    let began = Instant::now();
    while client.try_wait().is_ok_and(|end| end.is_none()) && began.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = began.elapsed();
    let _ = client.kill();
    kill(service.pid(), Signal::SIGCONT).expect("it lives");
    let (output, told) = ended(client);
    assert!(is_there, "the control: the first is passed on");
    assert_eq!(
        output.status.signal(),
        Some(Signal::SIGTERM as i32),
        "{told}"
    );
    assert!(told.contains("the service does not answer"), "{told}");
    assert!(took < SOON, "at once");
}
