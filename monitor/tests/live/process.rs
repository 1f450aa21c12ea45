//! Processes, losses, the canary, and whom none of it concerns.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use turnkey_facts::Kind;
use turnkey_monitor::{Monitor, OpenError, compile};

use super::harness::{
    Group, OBJECT, chain, kill_reading, policy, python, python_path, run, run_noting, tier,
};

#[test]
fn the_tree_of_processes_is_told() {
    let seen = run(
        &policy(""),
        &["/bin/sh", "-c", "/bin/sh -c 'exit 3'; /bin/true; exit 7"],
    );
    assert_eq!(seen.status().code(), Some(7));
    let forks: Vec<(u32, u32)> = seen
        .events
        .iter()
        .filter_map(|event| match event.kind {
            Kind::Fork { child_pid, .. } => Some((event.task.pid, child_pid)),
            _ => None,
        })
        .collect();
    let [(shell, inner), (same_shell, truth)] = forks[..] else {
        panic!("two forks in\n{}", seen.tell())
    };
    assert_eq!(shell, same_shell);
    let ends: Vec<(u32, i32)> = seen
        .events
        .iter()
        .filter_map(|event| match event.kind {
            Kind::Exit { status } => Some((event.task.pid, status)),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [(inner, 3 << 8), (truth, 0), (shell, 7 << 8)]);
    let started = seen.events.iter().find_map(|event| match &event.kind {
        Kind::Exec { argv, .. } if event.task.pid == truth => Some((argv, &event.task)),
        _ => None,
    });
    let (argv, task) = started.expect("/bin/true was executed");
    assert_eq!(*argv, [b"/bin/true".to_vec()]);
    assert_eq!(
        (task.comm.as_slice(), task.parent_pid),
        (b"true".as_slice(), shell)
    );
    // In no namespace of its own, a process has one id.
    assert_eq!(task.jail_pid, task.pid);
}

#[test]
fn threads_are_no_processes() {
    let program = "import threading\nfor _ in range(5):\n t = threading.Thread(target=lambda: open('/dev/null').close())\n t.start()\n t.join()";
    let seen = python(&policy(""), program);
    seen.assert_lived();
    assert_eq!(
        (seen.evidence.seen.fork, seen.evidence.seen.exit),
        (0, 1),
        "{}",
        seen.tell()
    );
    let threads = seen.events.iter().filter(|event| {
        let null = matches!(&event.kind, Kind::Open { raw, .. } if raw.bytes == b"/dev/null");
        null && event.task.tid != event.task.pid
    });
    assert_eq!(threads.count(), 5);
}

#[test]
fn the_first_process_of_a_namespace_dies_as_well() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let secret = directory
        .path()
        .canonicalize()
        .expect("a path")
        .join("secret");
    std::fs::write(&secret, "x").expect("it can be written");
    let secret = secret.to_str().expect("text");
    let script = format!("cat {secret}; echo survived");
    let command = [
        "/usr/bin/unshare",
        "--pid",
        "--fork",
        "/bin/sh",
        "-c",
        &script,
    ];
    let seen = run(&policy(&kill_reading(secret)), &command);
    assert!(seen.condemned, "{}", seen.tell());
    assert_eq!(seen.stdout(), "", "{}", seen.tell());
    let first = seen
        .events
        .iter()
        .find(|event| event.task.jail_pid == 1 && matches!(event.kind, Kind::Exit { .. }));
    let first = first.unwrap_or_else(|| panic!("{}", seen.tell()));
    assert_eq!(first.kind, Kind::Exit { status: 9 });
    assert_ne!(first.task.pid, 1);
}

#[test]
fn a_signal_is_a_status() {
    let seen = run(&policy(""), &["/bin/sh", "-c", "kill -TERM $$"]);
    assert_eq!(seen.status().signal(), Some(15));
    let statuses = seen.kinds(|kind| match kind {
        Kind::Exit { status } => Some(*status),
        _ => None,
    });
    assert_eq!(statuses, [15]);
}

#[test]
fn numbers_have_no_gap_when_nothing_is_lost() {
    let seen = run(
        &policy(""),
        &[
            "/bin/sh",
            "-c",
            "for i in 1 2 3 4 5 6 7 8; do /bin/true & done; wait",
        ],
    );
    let mut numbers: Vec<u64> = seen.events.iter().map(|event| event.seq).collect();
    numbers.sort_unstable();
    let expected: Vec<u64> = (0..u64::try_from(numbers.len()).expect("few")).collect();
    assert_eq!(numbers, expected);
    assert!(seen.evidence.complete);
}

#[test]
fn the_canary_proves_and_leaves_no_trace() {
    let group = Group::new();
    let rules = compile(&policy(""), tier()).expect("the policy compiles");
    let mut monitor =
        Monitor::open(OBJECT, rules).unwrap_or_else(|error| panic!("{}", chain(&error)));
    let proof = monitor
        .canary(group.directory.as_fd(), group.id())
        .unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert!(
        proof.0.contains("EPERM") && proof.0.contains("SIGKILL"),
        "{}",
        proof.0
    );
    monitor
        .adopt(group.directory.as_fd(), group.id())
        .expect("the same cgroup can be watched");
    assert!(!monitor.condemned(), "what the canary did is forgotten");
    let mut events = 0;
    let evidence = monitor
        .finish(|_| events += 1)
        .expect("the evidence can be read");
    assert_eq!(events, 0);
    assert!(!evidence.complete, "no command was seen to start");
    assert_eq!(evidence.seen.total(), 0);
}

#[test]
fn the_host_is_not_concerned() {
    let group = Group::new();
    let directory = tempfile::tempdir().expect("a directory can be made");
    let secret = directory
        .path()
        .canonicalize()
        .expect("a path")
        .join("secret");
    std::fs::write(&secret, "x").expect("it can be written");
    let policy = policy(&kill_reading(secret.to_str().expect("text")));
    let rules = compile(&policy, tier()).expect("the policy compiles");
    let mut monitor =
        Monitor::open(OBJECT, rules).unwrap_or_else(|error| panic!("{}", chain(&error)));
    monitor
        .adopt(group.directory.as_fd(), group.id())
        .expect("it can be watched");
    let status = Command::new("/bin/cat")
        .arg(&secret)
        .output()
        .expect("cat runs")
        .status;
    assert!(status.success());
    monitor.drain(|event| panic!("{event:?}"));
}

#[test]
fn an_object_of_another_version_is_refused() {
    let at = OBJECT
        .windows(14)
        .position(|bytes| bytes == b"TURNKEY_ABI_19")
        .expect("it says its version");
    let mut object = OBJECT.to_vec();
    let mut rest = &mut object[at..];
    // Every place where the name stands: the symbol table and the type information.
    while let Some(at) = rest
        .windows(14)
        .position(|bytes| bytes == b"TURNKEY_ABI_19")
    {
        rest[at + 12] = b'0';
        rest = &mut rest[at + 13..];
    }
    object[at + 12] = b'0';
    let rules = compile(&policy(""), tier()).expect("the policy compiles");
    let error = Monitor::open(object.as_slice(), rules).expect_err("it is another version");
    assert!(
        matches!(error, OpenError::OtherVersion),
        "{}",
        chain(&error)
    );
}

#[test]
fn every_call_of_every_task_is_noted() {
    // A call of the command itself, one of a thread, and one of a child.
    let program = "import os, threading\nos.getpriority(0, 0)\nt = threading.Thread(target=lambda: os.sched_get_priority_min(0))\nt.start()\nt.join()\nif os.fork() == 0: os._exit(os.sched_get_priority_max(0) * 0)\nos.wait()";
    let command = [python_path(), "-S", "-E", "-B", "-c", program];
    let seen = run_noting(&policy(""), &command);
    seen.assert_lived();
    for call in [
        "getpriority",
        "sched_get_priority_min",
        "sched_get_priority_max",
        "exit_group",
        "openat",
    ] {
        assert!(seen.calls.contains(&call), "{call} in {:?}", seen.calls);
    }
    assert!(!seen.calls.contains(&"sched_rr_get_interval"));
}

#[test]
fn calls_before_the_start_of_the_command_are_not_noted() {
    let seen = run_noting(&policy(""), &["/bin/true"]);
    // The shell that joins the cgroup puts its output into a file by it.
    assert!(!seen.calls.contains(&"dup2"), "{:?}", seen.calls);
    assert!(seen.calls.contains(&"exit_group"), "{:?}", seen.calls);
}

#[test]
fn calls_are_noted_for_those_alone_who_ask() {
    assert_eq!(run(&policy(""), &["/bin/true"]).calls, [""; 0]);
}
