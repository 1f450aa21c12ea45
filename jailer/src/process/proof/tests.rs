//! Sights that hold, and each way in which one does not.

use super::*;
use crate::landlock;

const STATUS: &str = "Name:\tturnkey\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t \n\
    CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n\
    CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t2\n";
const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
    Max file size             67108864             67108864             bytes     \n\
    Max open files            256                  256                  files     \n";
const MOUNTS: &str = "500 499 0:60 / / ro,nosuid,nodev,relatime - tmpfs none rw,size=4096k\n\
    501 500 0:61 / /proc ro,nosuid,nodev,noexec,relatime - proc none rw\n";

fn expectation() -> ProofExpectation {
    let own_namespaces = ChildFact::NAMESPACES
        .iter()
        .map(|(fact, _)| (*fact, 1))
        .collect();
    let rlimits = vec![("Max file size", 67_108_864), ("Max open files", 256)];
    ProofExpectation {
        own_namespaces,
        landlock: Some("ABI 6".into()),
        shares_network: false,
        handled: landlock::handled(6).map(HandledAccess::with_tcp),
        syscalls: 200,
        filters_around: 0,
        route_probes: RouteProbes {
            denied_probe: Some("192.0.2.1".parse().unwrap()),
            allowed_probe: Some("192.0.2.7".parse().unwrap()),
        },
        listeners: 1,
        user: "nobody",
        inside_id: 1000,
        is_writable: false,
        kept_supplementary_gids: 0,
        rlimits,
        masks: vec!["/proc/keys".into(), "/proc/kcore".into()],
    }
}

fn good() -> ProofFacts {
    let mut sight = ProofFacts::default();
    for (fact, _) in ChildFact::NAMESPACES {
        sight.fact(fact, 2);
    }
    let errno = |errno: Errno| u64::from((errno as i32).unsigned_abs());
    sight.fact(ChildFact::OpenBeforeLandlock, 0);
    sight.fact(ChildFact::OpenAfterLandlock, errno(Errno::EACCES));
    sight.fact(ChildFact::ConnectBeforeLandlock, 0);
    sight.fact(ChildFact::ConnectAfterLandlock, errno(Errno::EPERM));
    sight.fact(ChildFact::BindBeforeLandlock, 0);
    sight.fact(ChildFact::BindAfterLandlock, errno(Errno::EACCES));
    sight.fact(ChildFact::UnknownSyscall, errno(Errno::ENOSYS));
    sight.fact(ChildFact::Unshare, errno(Errno::EPERM));
    sight.fact(ChildFact::WriteToRoot, errno(Errno::EROFS));
    sight.fact(ChildFact::Masked, 2);
    sight.fact(ChildFact::Unmasked, 0);
    sight.fact(ChildFact::DeniedProbe, errno(Errno::ENETUNREACH));
    sight.fact(ChildFact::AllowedProbe, 0);
    sight.append_text(ProcText::Status, STATUS.as_bytes());
    sight.append_text(ProcText::Limits, LIMITS.as_bytes());
    sight.append_text(ProcText::Mounts, MOUNTS.as_bytes());
    sight
}

fn failing_layer(change: impl FnOnce(&mut ProofFacts)) -> Layer {
    let mut sight = good();
    change(&mut sight);
    sight.verify(&expectation()).unwrap_err().layer
}

#[test]
fn a_good_sight_proves_every_layer() {
    let reports = good().verify(&expectation()).unwrap();
    assert_eq!(reports.len(), 14);
    assert!(
        reports
            .iter()
            .all(|report| report.proof.is_some() && report.degraded.is_none())
    );
}

#[test]
fn a_shared_namespace_is_no_namespace() {
    assert_eq!(
        failing_layer(|sight| sight.fact(ChildFact::NetworkNamespace, 1)),
        Layer::NetworkNamespace
    );
    assert_eq!(
        failing_layer(|sight| {
            sight.facts.remove(&ChildFact::TimeNamespace);
        }),
        Layer::TimeNamespace
    );
}

#[test]
fn the_hosts_network_is_told_as_such_and_nothing_else_is() {
    let shared = ProofExpectation {
        shares_network: true,
        ..expectation()
    };
    let mut sight = good();
    assert!(
        sight.verify(&shared).is_err(),
        "one of its own was not asked for"
    );
    sight.fact(ChildFact::NetworkNamespace, 1);
    let reports = sight.verify(&shared).unwrap();
    let network = reports
        .iter()
        .find(|report| report.layer == Layer::NetworkNamespace)
        .unwrap();
    assert!(
        network.requested.starts_with("not requested"),
        "{network:?}"
    );
    assert_eq!(network.effective, "the host's");
}

#[test]
fn a_way_out_of_the_network_namespace_is_found() {
    for errno in [0, Errno::ECONNREFUSED as u64] {
        let failing = failing_layer(|sight| sight.fact(ChildFact::DeniedProbe, errno));
        assert_eq!(failing, Layer::NetworkNamespace);
    }
    let untried = failing_layer(|sight| {
        sight.facts.remove(&ChildFact::DeniedProbe);
    });
    assert_eq!(untried, Layer::NetworkNamespace);
    let closed = Errno::ENETUNREACH as u64;
    let failing = failing_layer(|sight| sight.fact(ChildFact::AllowedProbe, closed));
    assert_eq!(failing, Layer::NetworkNamespace);
}

#[test]
fn a_remaining_capability_is_found_in_any_set() {
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let status = STATUS.replace(
            &format!("{set}:\t0000000000000000"),
            &format!("{set}:\t0000000000000001"),
        );
        assert_eq!(
            failing_layer(|sight| sight.status = status.into_bytes()),
            Layer::Capabilities
        );
    }
}

#[test]
fn a_root_group_that_stayed_is_found() {
    let status = STATUS.replace("Groups:\t ", "Groups:\t0 ");
    assert_eq!(
        failing_layer(|sight| sight.status = status.into_bytes()),
        Layer::Capabilities
    );
}

#[test]
fn filters_around_the_supervisor_stand_for_none_of_the_jails() {
    let expected = ProofExpectation {
        filters_around: 1,
        ..expectation()
    };
    let failed = good().verify(&expected).unwrap_err();
    assert_eq!(failed.layer, Layer::Seccomp);
    let mut sight = good();
    let status = STATUS.replace("Seccomp_filters:\t2", "Seccomp_filters:\t3");
    sight.status = status.into_bytes();
    sight.verify(&expected).unwrap();
    let failed = sight.verify(&expectation()).unwrap_err();
    assert_eq!(failed.layer, Layer::Seccomp, "one that nobody knows of");
}

#[test]
fn an_absent_filter_is_found() {
    let status = STATUS.replace("Seccomp:\t2", "Seccomp:\t0");
    assert_eq!(
        failing_layer(|sight| sight.status = status.into_bytes()),
        Layer::Seccomp
    );
    assert_eq!(
        failing_layer(|sight| sight.fact(ChildFact::Unshare, 0)),
        Layer::Seccomp
    );
    assert_eq!(
        failing_layer(|sight| sight.fact(ChildFact::UnknownSyscall, 1)),
        Layer::Seccomp
    );
}

#[test]
fn landlock_that_refuses_nothing_is_found() {
    let rounds = [
        (ChildFact::OpenBeforeLandlock, ChildFact::OpenAfterLandlock),
        (
            ChildFact::ConnectBeforeLandlock,
            ChildFact::ConnectAfterLandlock,
        ),
        (ChildFact::BindBeforeLandlock, ChildFact::BindAfterLandlock),
    ];
    for (before, after) in rounds {
        assert_eq!(failing_layer(|sight| sight.fact(after, 0)), Layer::Landlock);
        // An act that never went through would make a refusal meaningless.
        assert_eq!(
            failing_layer(|sight| sight.fact(before, 2)),
            Layer::Landlock
        );
    }
}

#[test]
fn what_an_old_kernel_cannot_refuse_needs_no_proof() {
    let mut sight = good();
    sight.facts.remove(&ChildFact::ConnectAfterLandlock);
    sight.facts.remove(&ChildFact::BindAfterLandlock);
    let old = ProofExpectation {
        handled: landlock::handled(3),
        ..expectation()
    };
    assert!(sight.verify(&old).is_ok());
    assert!(sight.verify(&expectation()).is_err());
}

#[test]
fn a_writable_root_is_found() {
    assert_eq!(
        failing_layer(|sight| sight.fact(ChildFact::WriteToRoot, 0)),
        Layer::Root
    );
    let mounts = MOUNTS.replace("/ / ro,", "/ / rw,");
    assert_eq!(
        failing_layer(|sight| sight.mounts = mounts.into_bytes()),
        Layer::Root
    );
}

#[test]
fn an_open_part_of_proc_is_found_and_named() {
    let mut sight = good();
    sight.fact(ChildFact::Unmasked, 2);
    let error = sight.verify(&expectation()).unwrap_err();
    assert_eq!(error.layer, Layer::Root);
    assert!(error.seen.contains("/proc/kcore"), "{error}");
    assert_eq!(
        failing_layer(|sight| {
            sight.facts.remove(&ChildFact::Unmasked);
        }),
        Layer::Root
    );
}

#[test]
fn a_limit_that_is_not_in_force_is_found() {
    let limits = LIMITS.replace("256                  256 ", "256                  4096");
    assert_eq!(
        failing_layer(|sight| sight.limits = limits.into_bytes()),
        Layer::Rlimits
    );
}
