//! A watcher whose limit of descriptors somebody lowers to nothing, as prlimit(2) does: it can open no file any more, and still neither
//! calls a group empty nor lets one go for that.

use std::process::Command;
use std::time::Duration;

use turnkey_tests::{binary, eventually};

use super::robust::taken_and_let_go;
use super::{Attached, Others, OthersGroup};

/// Longer than the watcher waits between two looks at the group, `LONGEST_TICK`.
const A_LOOK: Duration = Duration::from_millis(600);

/// True when a watcher of the group answers, which it begins last of all.
fn is_listed(group: &str) -> bool {
    let top = Command::new(binary()).args(["top", "--json"]).output();
    let top = top.expect("turnkey can be run");
    String::from_utf8_lossy(&top.stdout).contains(group)
}

/// Leaves a watcher no descriptor.
fn limit(attached: &Attached) {
    let pid = attached.child.id().to_string();
    let limited = Command::new("prlimit")
        .args(["--pid", &pid, "--nofile=0:0"])
        .status();
    assert!(limited.expect("prlimit can be run").success());
}

#[test]
fn a_watcher_that_can_open_nothing_any_more_still_kills_for_a_rule_and_lets_nobody_live_on() {
    for options in [&[][..], &["--required"]] {
        let group = OthersGroup::new();
        let mut others = Others::start(&group.path);
        let mut beside = Others::start(&group.below("below"));
        let mut attached = Attached::to(&["--cgroup", &group.name], options);
        eventually("it watches, and can be followed", || is_listed(&group.name));
        limit(&attached);
        assert_ne!(others.ask("read /etc/hostname"), "");
        std::thread::sleep(A_LOOK);
        let ended = attached.child.try_wait().expect("it is a child");
        assert_eq!(ended, None, "it goes on to watch");
        assert_eq!(others.ask("read /etc/shadow"), "", "the rule holds");
        assert_eq!(others.end(), Some(libc::SIGKILL), "{options:?}");
        let mut ended = None;
        eventually("the group has died with it", || {
            ended = beside.child.try_wait().expect("it is a child");
            ended.is_some()
        });
        eventually("the watcher ends", || {
            attached.child.try_wait().expect("it is a child").is_some()
        });
    }
}

#[test]
fn a_watcher_that_leaves_and_can_open_nothing_has_no_act_of_others_told_twice() {
    let (kept, left) = (OthersGroup::new(), OthersGroup::new());
    let _keeping = Attached::to(&["--cgroup", &kept.name], &[]);
    let mut leaving = Attached::to(&["--cgroup", &left.name], &[]);
    eventually("it watches, and can be followed", || is_listed(&left.name));
    limit(&leaving);
    leaving.let_go();
    eventually("the watcher ends", || {
        leaving.child.try_wait().expect("it is a child").is_some()
    });
    // The links of the one that stays are still there.
    taken_and_let_go(1);
}
