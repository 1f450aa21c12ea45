//! J59: Landlock that is asked for and not there. Plans are made for a kernel without it; the
//! kernel of this machine has it. Needs what jails need: root, or delegated groups.

#![allow(clippy::disallowed_methods, reason = "a test opens its own files")]

use std::os::fd::OwnedFd;

use turnkey_expectations::expected;
use turnkey_jailer::{Host, JailCommand, JailError, Plan, Prepared};
use turnkey_policy::{Layer, Overrides, Policy};

expected!(as_root, "make jails of root's with control groups");

fn policy() -> Policy {
    let no_files = |path: &str| Err(format!("{path}: no files"));
    let flags = Overrides::from_flags([("workdir-mode", "none")]).expect("a flag");
    turnkey_policy::load("untrusted", &no_files, &flags).expect("a shipped profile")
}

fn prepare(policy: &Policy, landlock_abi: Option<u32>) -> Result<Prepared, JailError> {
    let mut host = Host::probe(policy).expect("groups");
    host.landlock_abi = landlock_abi.unwrap_or(host.landlock_abi);
    let command = JailCommand {
        arguments: vec!["true".into()],
        environment: Vec::new(),
        workdir: "/tmp".into(),
        ..JailCommand::default()
    };
    let plan = Plan::new(policy, &host, command).expect("a plan");
    let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("/dev/null is there"));
    plan.prepare([null(), null(), null()])
}

#[test]
fn j59_landlock_that_is_required_and_not_there_ends_the_start() {
    assert!(
        prepare(&policy(), None).is_ok(),
        "the control: with Landlock it starts"
    );
    let error = prepare(&policy(), Some(0)).expect_err("without it nothing starts");
    let is_landlock = matches!(
        error,
        JailError::Layer {
            layer: Layer::Landlock,
            ..
        }
    );
    assert!(is_landlock, "{error:?}");
    let told = format!("{error}; {}", error.fix().unwrap_or_default());
    for word in ["landlock", "lsm=", "turnkey doctor", "enforcement.required"] {
        assert!(told.contains(word), "{word} is not in {told}");
    }
}

#[test]
fn j59_a_profile_that_does_without_landlock_has_it_said() {
    let mut policy = policy();
    policy.enforcement.required.remove(&Layer::Landlock);
    let held = prepare(&policy, Some(0))
        .and_then(Prepared::spawn)
        .expect("it may do without");
    let reports = held.enforcement().iter();
    let of_landlock: Vec<_> = reports
        .filter(|report| report.layer == Layer::Landlock)
        .collect();
    assert_eq!(of_landlock.len(), 1);
    assert_eq!(of_landlock[0].effective, "nothing");
    assert_eq!(of_landlock[0].proof, None);
    assert!(of_landlock[0].degraded.is_some());
}

#[test]
fn j59_an_older_landlock_is_enforced_as_far_as_it_goes() {
    let held = prepare(&policy(), Some(1))
        .and_then(Prepared::spawn)
        .expect("it is enough");
    let mut reports = held.enforcement().iter();
    let landlock = reports
        .find(|report| report.layer == Layer::Landlock)
        .expect("it is told");
    assert!(
        landlock.effective.starts_with("ABI 1: file system;"),
        "{landlock:?}"
    );
    assert!(
        landlock
            .proof
            .as_deref()
            .is_some_and(|proof| proof.contains("EACCES"))
    );
}
