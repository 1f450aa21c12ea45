//! Counters of the service, as its administrator asks for them.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use turnkey_tests::{Run, Service, eventually};

/// The counters, asked for now.
fn counted(service: &Service) -> Value {
    let before = service.log().len();
    kill(service.pid(), Signal::SIGUSR1).expect("it lives");
    let line = || {
        let mut lines = service.log().split_off(before).into_iter();
        lines.find(|line| line["event"] == "counted")
    };
    eventually("it tells", || line().is_some());
    line().expect("it told")
}

fn number(line: &Value, pointer: &str) -> u64 {
    line.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

#[test]
fn who_hangs_up_while_it_waits_is_told_and_counted() {
    let service = Service::start("max_running_per_user = 1\n");
    let start = |program: &[&str]| {
        let run = Run::new().option("--quiet").served_at(&service.directory());
        let mut command = run.command(program);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        (command.spawn().unwrap(), run)
    };
    let tells = |event: &str| service.log().iter().any(|line| line["event"] == event);
    let (mut runs, _run) = start(&["sleep", "60"]);
    eventually("one runs", || tells("started"));
    let (mut waits, _wait) = start(&["true"]);
    eventually("another waits", || tells("waits"));
    assert!(!tells("gone"), "the control");
    waits.kill().unwrap();
    waits.wait().unwrap();
    eventually("its end is told", || tells("gone"));
    let now = counted(&service);
    assert_eq!([number(&now, "/gone"), number(&now, "/waiting")], [1, 0]);
    runs.kill().unwrap();
    runs.wait().unwrap();
}

#[test]
fn runs_and_refusals_are_counted_and_told_on_sigusr1() {
    let service = Service::start("");
    let counted = || counted(&service);
    let served = || Run::new().option("--quiet").served_at(&service.directory());
    // Whoever came to look whether it listens, and was gone before anybody could see who it was, is counted as gone.
    // Callers are taken in their order: with a run that came later, all of those are counted.
    served().run(&["true"]).expect_code(0);
    eventually("the first run is counted", || {
        number(&counted(), "/runs") == 1
    });
    let before = counted();
    for _ in 0..2 {
        served().run(&["true"]).expect_code(0);
    }
    served()
        .option("--memory 8G")
        .run(&["true"])
        .expect_code(125);
    let more = |pointer: &str| {
        let now = counted();
        number(&now, pointer) - number(&before, pointer)
    };
    eventually("the ends are counted", || {
        let counts = (more("/runs"), more("/refused/403"));
        eprintln!("runs and refusals so far: {counts:?}");
        counts == (2, 1)
    });
    assert!(more("/milliseconds") > 0);
    let now = counted();
    assert!(number(&now, "/longest_milliseconds") <= number(&now, "/milliseconds"));
    assert_eq!(number(&now, "/waiting"), 0);
}
