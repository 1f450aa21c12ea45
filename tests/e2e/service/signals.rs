//! Signals of callers, and of whoever has started the service: what ends a run, what does not, and how a caller ends.

use std::process::Command;

use turnkey_tests::{Run, Service};

/// A shell that ignores these signals, and becomes what is behind it.
fn ignoring(signals: &str) -> [String; 4] {
    let script = format!("trap '' {signals}; exec \"$@\"");
    ["sh", "-c", &script, "sh"].map(str::to_owned)
}

#[test]
fn what_the_starter_of_a_service_ignores_its_runs_heed() {
    let shell = ignoring("INT QUIT CHLD USR1");
    let service = Service::start_by(&shell.each_ref().map(String::as_str), "");
    let run = Run::new().option("--quiet").served_at(&service.directory());
    let ran = run.run(&["grep", "SigIgn", "/proc/self/status"]);
    ran.expect_code(0);
    ran.expect(ran.stdout == "SigIgn:\t0000000000000000\n", "none is");
}

#[test]
fn whoever_ignores_the_ends_of_children_has_its_runs_made() {
    let [shell, words @ ..] = ignoring("CHLD");
    let run = Run::new().option("--unmonitored --quiet");
    let own = run.command(&["true"]);
    let mut command = Command::new(shell);
    command
        .args(words)
        .arg(own.get_program())
        .args(own.get_args());
    let output = command.output().expect("sh(1) is there");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
}
