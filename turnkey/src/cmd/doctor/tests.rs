//! Findings for hosts that do not exist.

use nix::errno::Errno;
use turnkey_jailer::hierarchy::{Controller, ControllerHome};
use turnkey_jailer::userns::NamespaceSwitches;
use turnkey_monitor::{Available, KnownHooks, Lack, Tier};

use super::facts::{CallerCapability, CgroupFacts, HostFacts, IdMapped, LandlockFacts, NoGroups};
use super::findings::{CheckFinding, CheckState, findings, whole};
use super::page;
use super::preemption::{LeftOutPrograms, Omission};

/// A host with everything, for root.
fn good() -> HostFacts {
    let capability = |name: &str, purpose| CallerCapability {
        name: name.to_owned(),
        purpose,
        held: true,
    };
    HostFacts {
        kernel: "6.12.1".to_owned(),
        user: 0,
        capabilities: vec![
            capability("CAP_SYS_ADMIN", "namespaces and mounts"),
            capability("CAP_BPF", "the monitor's eBPF programs"),
            capability("CAP_PERFMON", "the monitor's tracepoints"),
        ],
        switches: NamespaceSwitches {
            privileged: true,
            ..NamespaceSwitches::default()
        },
        namespaces: Ok(()),
        rights_inside: Ok(()),
        seccomp: Ok(()),
        landlock: LandlockFacts {
            abi: 6,
            errata: 1,
            refuses: Ok(()),
        },
        groups: Ok(CgroupFacts {
            unified: "/sys/fs/cgroup".into(),
            controllers: Controller::ALL
                .map(|controller| (controller, ControllerHome::Unified))
                .to_vec(),
            made: Ok(()),
            lacks: None,
            swap_is_bounded: true,
        }),
        overlay: Ok(()),
        id_mapped: IdMapped {
            directory: "/home/user".into(),
            outcome: Ok(()),
        },
        btf: Ok(5_000_000),
        has_sysfs: true,
        security_modules: Some(["landlock", "bpf"].map(str::to_owned).to_vec()),
        lockdown: Some("none".to_owned()),
        tier: Available {
            tier: Tier::Lsm,
            lacks: None,
        },
        hooks: Ok(KnownHooks {
            all: 40,
            missing: Vec::new(),
        }),
        omission: Omission::Never,
        shared: Ok(()),
        monitor: Ok("the canary died".to_owned()),
        rehearsal: Ok(()),
        best_effort: Ok(()),
    }
}

fn no_groups() -> NoGroups {
    NoGroups {
        cause: "no cgroup v2 hierarchy can be reached here".to_owned(),
        fix: "as root, mount one: mount -t cgroup2 none /sys/fs/cgroup".to_owned(),
    }
}

/// Root in a container with a container engine's default capabilities, filter and mounts.
fn in_a_container() -> HostFacts {
    let mut facts = for_a_user();
    facts.user = 0;
    facts.switches.in_container = true;
    facts.namespaces = Err(Errno::EPERM);
    facts.rights_inside = Err(Errno::EPERM);
    facts.overlay = Err(Errno::EPERM);
    if let Ok(groups) = &mut facts.groups {
        groups.made = Err("Read-only file system".to_owned());
    }
    facts.shared = Err("not this caller's".to_owned());
    facts
}

/// The same host for a caller without privileges, on which a run therefore fails.
fn for_a_user() -> HostFacts {
    let mut facts = good();
    facts.user = 1000;
    facts.switches.privileged = false;
    for capability in &mut facts.capabilities {
        capability.held = false;
    }
    facts.id_mapped.outcome = Err(Errno::EPERM);
    facts.monitor = Err("the kernel refuses eBPF to this process".to_owned());
    facts.rehearsal = Err("this caller has no privileges\n  fix: --unmonitored".to_owned());
    facts
}

/// The finding of the one check, on the good host with a change.
#[track_caller]
fn check(name: &str, change: impl FnOnce(&mut HostFacts)) -> CheckFinding {
    let mut facts = good();
    change(&mut facts);
    find(name, &facts)
}

#[track_caller]
fn find(name: &str, facts: &HostFacts) -> CheckFinding {
    let all = findings(facts);
    let mut found = all.iter().filter(|finding| finding.check == name);
    let finding = found
        .next()
        .unwrap_or_else(|| panic!("no check is called {name}"));
    assert_eq!(found.next(), None, "{name} is checked once");
    finding.clone()
}

#[track_caller]
fn expect(finding: &CheckFinding, state: CheckState, words: &[&str]) {
    assert_eq!(finding.state, state, "{finding:?}");
    let text = format!(
        "{} {}",
        finding.found,
        finding.fix.clone().unwrap_or_default()
    );
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
}

fn groups(change: impl FnOnce(&mut CgroupFacts)) -> impl FnOnce(&mut HostFacts) {
    move |facts| {
        if let Ok(groups) = &mut facts.groups {
            change(groups);
        }
    }
}

#[test]
fn a_host_with_everything_is_whole() {
    let all = findings(&good());
    assert!(whole(&all));
    assert!(
        all.iter().all(|finding| finding.state == CheckState::Ok),
        "{all:?}"
    );
}

#[test]
fn what_is_not_ok_has_a_fix_and_a_source() {
    let mut worst = for_a_user();
    worst.namespaces = Err(Errno::EPERM);
    worst.seccomp = Err(Errno::EINVAL);
    worst.landlock.refuses = Err(Errno::ENOSYS);
    worst.groups = Err(no_groups());
    worst.overlay = Err(Errno::EPERM);
    worst.btf = Err("No such file or directory".to_owned());
    worst.security_modules = None;
    worst.lockdown = None;
    worst.best_effort = Err("nothing works".to_owned());
    for facts in [worst, for_a_user()] {
        let all = findings(&facts);
        assert!(!whole(&all));
        for finding in all {
            assert!(
                !finding.source.is_empty() && !finding.found.is_empty(),
                "{finding:?}"
            );
            assert_eq!(
                finding.fix.is_some(),
                finding.state != CheckState::Ok,
                "{finding:?}"
            );
        }
    }
}

/// Advice to be root, which root cannot follow.
#[test]
fn root_in_a_container_is_told_how_to_start_the_container() {
    let facts = in_a_container();
    for name in ["capabilities", "namespaces", "control-group", "monitor"] {
        let words = ["docker run --privileged --cgroupns=host"];
        expect(&find(name, &facts), CheckState::Missing, &words);
    }
    for finding in findings(&facts) {
        let fix = finding.fix.clone().unwrap_or_default();
        assert!(!fix.contains("run turnkey as root;"), "{finding:?}");
        assert!(!fix.contains("--best-effort"), "it fails, too: {finding:?}");
    }
}

#[test]
fn where_sysfs_is_not_mounted_that_comes_first() {
    for name in ["btf", "bpf-lsm", "lockdown", "monitor-tier"] {
        let finding = check(name, |facts| {
            facts.tier.tier = Tier::Tracepoint;
            facts.tier.lacks = Some(Lack {
                cause: "the file cannot be read".to_owned(),
                fix: "mount -t securityfs none /sys/kernel/security".to_owned(),
            });
            facts.has_sysfs = false;
            facts.btf = Err("No such file or directory".to_owned());
            facts.security_modules = None;
            facts.lockdown = None;
        });
        let fix = finding.fix.clone().unwrap_or_default();
        assert!(fix.contains("mount -t sysfs sysfs /sys"), "{finding:?}");
        assert!(!fix.contains("boot"), "{finding:?}");
    }
}

#[test]
fn namespaces_that_are_off_name_their_switch() {
    let closed = check("namespaces", |facts| {
        facts.switches.privileged = false;
        facts.switches.closed_to_users = true;
        facts.namespaces = Err(Errno::EPERM);
    });
    expect(
        &closed,
        CheckState::Missing,
        &["sysctl -w kernel.unprivileged_userns_clone=1"],
    );
    let none = check("namespaces", |facts| {
        facts.switches.forbidden_kinds = vec!["user"];
        facts.namespaces = Err(Errno::ENOSPC);
    });
    expect(
        &none,
        CheckState::Missing,
        &["user.max_user_namespaces is 0", "sysctl -w"],
    );
}

#[test]
fn apparmors_restriction_is_seen_from_inside() {
    let fix = "kernel.apparmor_restrict_unprivileged_userns=0";
    let restricted = check("namespaces", |facts| {
        facts.switches.privileged = false;
        facts.switches.restricted_by_apparmor = true;
        facts.rights_inside = Err(Errno::EPERM);
    });
    expect(&restricted, CheckState::Missing, &["AppArmor", fix]);
    // Root is not bound by it, and is told that others are.
    let told = check("namespaces", |facts| {
        facts.switches.restricted_by_apparmor = true
    });
    expect(
        &told,
        CheckState::Limited,
        &["callers without privileges", fix],
    );
}

#[test]
fn no_landlock_and_an_old_one_are_told_apart() {
    let none = check("landlock", |facts| {
        facts.landlock.abi = 0;
        facts.landlock.refuses = Err(Errno::ENOSYS);
        facts.security_modules = Some(vec!["yama".to_owned()]);
    });
    expect(
        &none,
        CheckState::Missing,
        &["no Landlock", "lsm=yama,landlock"],
    );
    let old = check("landlock", |facts| facts.landlock.abi = 2);
    expect(
        &old,
        CheckState::Limited,
        &["ABI 2", "truncate", "signals", "6.12"],
    );
    assert!(!old.found.contains("renaming"), "ABI 2 has that: {old:?}");
    let broken = check("landlock", |facts| facts.landlock.refuses = Err(Errno::EIO));
    expect(&broken, CheckState::Missing, &["did not refuse"]);
}

#[test]
fn control_groups_that_are_not_there_or_not_ours_are_told_apart() {
    let none = check("control-group", |facts| {
        facts.groups = Err(no_groups());
    });
    expect(&none, CheckState::Missing, &["mount -t cgroup2"]);
    let mut user = for_a_user();
    groups(|groups| groups.made = Err("Permission denied".to_owned()))(&mut user);
    let foreign = find("control-group", &user);
    expect(
        &foreign,
        CheckState::Missing,
        &["/sys/fs/cgroup", "run turnkey as root"],
    );
    let broken = check(
        "control-group",
        groups(|groups| groups.made = Err("read-only".to_owned())),
    );
    expect(&broken, CheckState::Missing, &["read-only", "writable"]);
}

#[test]
fn controllers_are_as_good_on_v1_and_missed_when_nowhere() {
    let home = |home: ControllerHome| {
        groups(move |groups| groups.controllers = vec![(Controller::Memory, home)])
    };
    let legacy = ControllerHome::Legacy("/sys/fs/cgroup/memory".into());
    let on_v1 = check("controller-memory", home(legacy));
    expect(&on_v1, CheckState::Ok, &["v1", "/sys/fs/cgroup/memory"]);
    let nowhere = check("controller-memory", home(ControllerHome::Missing));
    expect(
        &nowhere,
        CheckState::Missing,
        &[
            "no hierarchy",
            "cgroup.subtree_control",
            "cgroup_enable=memory",
        ],
    );
}

#[test]
fn swap_without_an_account_is_missing() {
    let swap = check("swap", groups(|groups| groups.swap_is_bounded = false));
    expect(&swap, CheckState::Missing, &["swapaccount=1", "swapoff -a"]);
}

#[test]
fn a_directory_that_cannot_be_id_mapped_matters_to_root_alone() {
    let root = check("id-mapped-mounts", |facts| {
        facts.id_mapped.outcome = Err(Errno::EINVAL)
    });
    expect(&root, CheckState::Missing, &["/home/user", "ext4"]);
    expect(
        &find("id-mapped-mounts", &for_a_user()),
        CheckState::Ok,
        &["not needed"],
    );
}

#[test]
fn the_monitors_tiers_are_told_apart() {
    let no_btf = check("btf", |facts| {
        facts.btf = Err("No such file or directory".to_owned())
    });
    expect(&no_btf, CheckState::Missing, &["CONFIG_DEBUG_INFO_BTF=y"]);
    let no_bpf = check("bpf-lsm", |facts| {
        facts.security_modules = Some(vec!["landlock".to_owned()]);
    });
    expect(
        &no_bpf,
        CheckState::Limited,
        &["`bpf` is not in the list", "lsm=landlock,bpf"],
    );
    let unknown = check("bpf-lsm", |facts| facts.security_modules = None);
    expect(&unknown, CheckState::Limited, &["mount -t securityfs"]);
    let lockdown = |word: &str| {
        let word = Some(word.to_owned());
        check("lockdown", |facts| facts.lockdown = word)
    };
    expect(
        &lockdown("integrity"),
        CheckState::Limited,
        &["tracepoint tier works"],
    );
    expect(
        &lockdown("confidentiality"),
        CheckState::Missing,
        &["may not read"],
    );
}

#[test]
fn the_tier_is_told_with_what_keeps_the_host_from_the_better_one() {
    let best = find("monitor-tier", &good());
    expect(&best, CheckState::Ok, &["lsm, with all 40 hooks"]);
    let lesser = check("monitor-tier", |facts| {
        facts.tier = Available {
            tier: Tier::Tracepoint,
            lacks: Some(Lack {
                cause: "`bpf` is not among the active security modules (yama)".to_owned(),
                fix: "boot with the kernel parameter lsm=yama,bpf".to_owned(),
            }),
        };
    });
    let words = ["tracepoint", "(yama)", "lsm=yama,bpf"];
    expect(&lesser, CheckState::Limited, &words);
    let older = check("monitor-tier", |facts| {
        facts.hooks = Ok(KnownHooks {
            all: 40,
            missing: vec!["uring_allowed"],
        });
    });
    let words = ["with 39 of 40 hooks", "no uring_allowed", "newer kernel"];
    expect(&older, CheckState::Limited, &words);
}

#[test]
fn programs_that_the_kernel_leaves_out_are_told_where_there_are_such() {
    let on = |omission, tier| {
        check("preemption", |facts| {
            facts.omission = omission;
            facts.tier.tier = tier;
        })
    };
    let hooks = on(Omission::Happens(LeftOutPrograms::Hooks), Tier::Lsm);
    let words = ["a hook", "it preempts", "inconclusive", "preempt=voluntary"];
    expect(&hooks, CheckState::Limited, &words);
    let entries = on(Omission::Happens(LeftOutPrograms::Hooks), Tier::Tracepoint);
    expect(&entries, CheckState::Limited, &words);
    let unknown = on(
        Omission::Unknown(LeftOutPrograms::Tracepoints),
        Tier::Tracepoint,
    );
    let words = [
        "a tracepoint",
        "cannot be told",
        "by perf",
        "on_loss = \"kill\"",
    ];
    expect(&unknown, CheckState::Limited, &words);
    expect(
        &on(Omission::Never, Tier::Lsm),
        CheckState::Ok,
        &["none out"],
    );
}

#[test]
fn missing_capabilities_are_named_with_what_works_without() {
    let user = for_a_user();
    let words = ["CAP_SYS_ADMIN", "CAP_BPF", "CAP_PERFMON", "--best-effort"];
    expect(&find("capabilities", &user), CheckState::Missing, &words);
    expect(
        &find("monitor", &user),
        CheckState::Missing,
        &["--best-effort"],
    );
    expect(
        &find("best-effort", &user),
        CheckState::Ok,
        &["works for this caller"],
    );
    let one = check("capabilities", |facts| facts.capabilities[1].held = false);
    assert!(!one.found.contains("CAP_SYS_ADMIN"), "{one:?}");
}

#[test]
fn a_failed_rehearsal_counts_when_all_else_is_well() {
    let mut facts = good();
    facts.rehearsal = Err("something nobody looked for".to_owned());
    let all = findings(&facts);
    assert!(!whole(&all));
    expect(
        &find("default-profile", &facts),
        CheckState::Missing,
        &["something nobody looked for"],
    );
}

#[test]
fn pages() {
    for (name, facts) in [("root", good()), ("user", for_a_user())] {
        let all = findings(&facts);
        let (mut text, mut json) = (Vec::new(), Vec::new());
        page::text(&facts, &all, &mut text).unwrap();
        page::json(&facts, &all, &mut json).unwrap();
        insta::assert_snapshot!(name, String::from_utf8(text).unwrap());
        insta::assert_snapshot!(format!("{name}_json"), String::from_utf8(json).unwrap());
    }
}
