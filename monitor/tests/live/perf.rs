//! The programs that perf calls on Linux 7, on whatever kernel this is: they decide and tell the same.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nix::mount::{MsFlags, mount};
use turnkey_facts::{Event, Evidence, Kind};
use turnkey_monitor::{Monitor, compile};
use turnkey_policy::RuleAction;

use super::harness::{
    Group, OBJECT, chain, kill_reading, nothing_is_loaded, policy, python_path, rule, tier,
};

/// Lets this test see the kernel's trace events, where the host has not mounted them.
pub fn see_trace_events() {
    const PLACE: &str = "/sys/kernel/tracing";
    if !Path::new(PLACE).join("events").exists() {
        let (kind, none) = (Some("tracefs"), None::<&str>);
        mount(kind, PLACE, kind, MsFlags::empty(), none).expect("every kernel with perf has it");
    }
}

/// Runs a program under rules that kill for reading /etc/passwd and for executing `echo`.
fn watched(program: &str) -> (Output, Vec<Event>, Evidence, bool) {
    nothing_is_loaded();
    see_trace_events();
    let echo = rule("echo", "exec", "kill", "path = [\"/usr/bin/echo\"]");
    let rules = kill_reading("/etc/passwd") + &echo;
    let rules = compile(&policy(&rules), tier()).expect("the policy compiles");
    let opened = Monitor::open(OBJECT, rules.called_by_perf());
    let mut monitor = opened.unwrap_or_else(|error| panic!("{}", chain(&error)));
    let group = Group::new();
    let proof = monitor.canary(group.directory.as_fd(), group.id());
    proof.unwrap_or_else(|error| panic!("{}", chain(&error)));
    monitor
        .adopt(group.directory.as_fd(), group.id())
        .expect("it is watched");
    let output = Command::new("/bin/sh")
        .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
        .arg(group.path.join("cgroup.procs"))
        .args([python_path(), "-S", "-E", "-B", "-c", program])
        .stdin(Stdio::null())
        .output()
        .expect("a shell can be run");
    let condemned = monitor.condemned();
    let mut events = Vec::new();
    let evidence = monitor.finish(|event| events.push(event));
    let evidence = evidence.expect("the evidence can be read");
    assert_eq!(evidence.missed, 0, "nobody interrupts them");
    (output, events, evidence, condemned)
}

fn killed(events: &[Event]) -> Vec<&Kind> {
    let kills = events.iter().filter(|event| {
        event
            .decision
            .is_some_and(|taken| taken.action == RuleAction::Kill)
    });
    kills.map(|event| &event.kind).collect()
}

#[test]
fn m22_programs_that_perf_calls_tell_all_that_happens() {
    let program = "import os, sys\nopen('/etc/hosts')\nif os.fork() == 0: os.execv('/bin/true', ['true', 'x'])\nos.wait()\nprint('lived')";
    let (output, events, evidence, condemned) = watched(program);
    assert_eq!(output.stdout, b"lived\n", "{output:?}");
    assert!(!condemned && evidence.complete, "{evidence:?}");
    let has = |what: fn(&Kind) -> bool| events.iter().any(|event| what(&event.kind));
    assert!(has(
        |kind| matches!(kind, Kind::Open { file: Some(file), .. } if file.path == b"/etc/hosts")
    ));
    assert!(has(|kind| matches!(kind, Kind::Exec { .. })));
    let count = |what: fn(&Kind) -> bool| events.iter().filter(|it| what(&it.kind)).count();
    assert_eq!(count(|kind| matches!(kind, Kind::Fork { .. })), 1);
    assert_eq!(count(|kind| matches!(kind, Kind::Exit { .. })), 2);
    assert_eq!(
        count(|kind| matches!(kind, Kind::Exec { .. })),
        2,
        "each once"
    );
}

#[test]
fn m22_programs_that_perf_calls_kill_for_a_file_by_any_name() {
    let link = format!("/tmp/turnkey-perf-{}", std::process::id());
    let program =
        format!("import os\nos.symlink('/etc/passwd', '{link}')\nprint(open('{link}').read(4))");
    let (output, events, _, condemned) = watched(&program);
    std::fs::remove_file(&link).expect("it was made");
    assert_eq!(output.stdout, b"", "{output:?}");
    assert!(condemned);
    let kills = killed(&events);
    assert!(matches!(kills[..], [Kind::Open { .. }]), "{kills:?}");
}

#[test]
fn m22_programs_that_perf_calls_kill_for_a_program_by_any_name() {
    let link = format!("/tmp/turnkey-perf-exec-{}", std::process::id());
    let program =
        format!("import os\nos.symlink('/bin/echo', '{link}')\nos.execv('{link}', ['x', 'ran'])");
    let (output, events, _, condemned) = watched(&program);
    std::fs::remove_file(&link).expect("it was made");
    assert_eq!(output.stdout, b"", "{output:?}");
    assert!(condemned);
    // Decided by perf's program, told by it and by the one that tells of every exec.
    let kills = killed(&events);
    let both = matches!(kills[..], [Kind::ExecAttempt { .. }, Kind::Exec { .. }]);
    assert!(
        both || matches!(kills[..], [Kind::ExecAttempt { .. }]),
        "{kills:?}"
    );
}
