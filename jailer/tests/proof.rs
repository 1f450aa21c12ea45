//! A limit that somebody took away between the writing and the start is found, and nothing runs.
//! Needs what jails need: root, or delegated groups.

#![allow(clippy::disallowed_methods, reason = "a test opens its own files")]

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use turnkey_expectations::expected;
use turnkey_jailer::hierarchy::{CgroupHierarchies, Controller, ControllerHome};
use turnkey_jailer::{Host, JailCommand, JailError, Plan, Prepared};
use turnkey_policy::{Layer, Overrides};

expected!(as_root, "take a limit away from a jail of root's");

fn prepared() -> Prepared {
    let no_files = |path: &str| Err(format!("{path}: no files"));
    let flags = Overrides::from_flags([("workdir-mode", "none")]).expect("a flag");
    let policy = turnkey_policy::load("untrusted", &no_files, &flags).expect("a shipped profile");
    let command = JailCommand {
        arguments: vec!["true".into()],
        environment: Vec::new(),
        workdir: "/tmp".into(),
        ..JailCommand::default()
    };
    let host = Host::probe(&policy).expect("groups");
    let plan = Plan::new(&policy, &host, command).expect("a plan");
    let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("/dev/null is there"));
    plan.prepare([null(), null(), null()])
        .expect("a jail can be made ready")
}

/// The file that limits the tasks of this jail, on v1 or v2.
fn limit_of_tasks(prepared: &Prepared) -> PathBuf {
    let directory = prepared.cgroup().expect("a jail has groups").directory();
    let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let unified = std::fs::read_link(link).expect("/proc is mounted");
    let group = match CgroupHierarchies::probe()
        .expect("groups")
        .home(Controller::Pids)
    {
        ControllerHome::Legacy(parent) => {
            parent.join(unified.file_name().expect("a group has a name"))
        }
        _ => unified,
    };
    group.join("pids.max")
}

#[test]
fn a_limit_that_was_taken_away_ends_the_start() {
    // The control run: nobody touches it.
    let held = prepared().spawn().unwrap();
    let pids = held
        .enforcement()
        .iter()
        .find(|report| report.layer == Layer::Pids);
    let proof = pids
        .and_then(|report| report.proof.clone())
        .unwrap_or_default();
    assert_eq!(proof, "pids.max is 50; read back with the jail inside");
    drop(held);

    let prepared = prepared();
    let file = limit_of_tasks(&prepared);
    std::fs::write(&file, "max").unwrap();
    match prepared.spawn() {
        Err(JailError::Proof(error)) => {
            assert_eq!(error.layer, Layer::Pids);
            assert!(error.seen.contains("pids.max max"), "{error}");
        }
        other => panic!("it started: {other:?}"),
    }
    assert!(!file.exists(), "the group is gone");
}
