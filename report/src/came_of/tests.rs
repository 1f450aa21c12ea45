//! The words about generated events, held against what the events say of their end.

use proptest::prelude::*;
use turnkey_facts::{Address, Kind, NetworkAct, Raw};
use turnkey_policy::{AttemptKind, RuleAction};

use super::super::aggregate::Aggregator;
use super::super::fixture::{CREDENTIALS, Story, clock, policy};
use super::super::model::{Result, Violation};
use super::super::stopper::Stopper;
use super::words;

fn raw(path: &str) -> Raw {
    Raw {
        bytes: path.as_bytes().to_vec(),
        base: None,
        truncated: false,
        unreadable: false,
    }
}

/// Errors that a call may end with, success and those of every layer among them.
fn errno() -> impl Strategy<Value = i32> {
    prop::sample::select(vec![
        0,
        libc::ENOENT,
        libc::EACCES,
        libc::EPERM,
        libc::EROFS,
        libc::EFAULT,
        libc::ENAMETOOLONG,
        libc::ELOOP,
        libc::EINVAL,
        libc::ENOSYS,
        libc::ECONNREFUSED,
        libc::ENETUNREACH,
        libc::EEXIST,
    ])
}

fn kind() -> impl Strategy<Value = (Kind, i32)> {
    let path = prop::sample::select(vec![
        "/etc/shadow",
        "/workspace/.netrc",
        "/proc/keys",
        "/usr/lib/a",
        "/nowhere/b",
        "relative",
    ]);
    let on = prop::sample::select(vec![
        AttemptKind::Open,
        AttemptKind::Link,
        AttemptKind::Rename,
        AttemptKind::Unlink,
        AttemptKind::Chmod,
        AttemptKind::Stat,
        AttemptKind::Attribute,
    ]);
    let address = prop::sample::select(vec!["10.0.0.1:80", "127.0.0.1:53", "[::1]:0"]);
    let act = prop::sample::select(vec![
        NetworkAct::Connect,
        NetworkAct::Send,
        NetworkAct::Bind,
    ]);
    let open = (path.clone(), any::<bool>(), errno()).prop_map(|(path, writes, errno)| {
        let kind = Kind::Open {
            file: None,
            raw: raw(path),
            flags: u32::from(writes),
            by_handle: false,
            errno,
        };
        (kind, errno)
    });
    let change = (path.clone(), on, errno()).prop_map(|(path, on, errno)| {
        let kind = Kind::Change {
            on,
            object: raw(path),
            new: None,
            resolved: false,
            call: turnkey_facts::NamingCall::default(),
            errno,
        };
        (kind, errno)
    });
    let exec = (path, errno()).prop_map(|(path, errno)| {
        let kind = Kind::ExecAttempt {
            raw: raw(path),
            errno,
        };
        // Told of before the kernel has decided.
        (kind, if errno == 0 { libc::EINPROGRESS } else { errno })
    });
    let network = (address, act, errno()).prop_map(|(address, act, errno)| {
        let kind = Kind::Network {
            act,
            address: Address::Inet(address.parse().expect("an address")),
            socket_type: 1,
            socket: 0,
            errno,
        };
        (kind, errno)
    });
    prop_oneof![open, change, exec, network]
}

fn told(kind: Kind, action: RuleAction) -> Violation {
    let mut story = Story::command(&["sh"]);
    story.decided(2, kind, CREDENTIALS, action);
    let mut aggregator = Aggregator::new(&policy(), clock());
    for event in &story.events {
        aggregator.push(event);
    }
    aggregator.finish().violations.remove(0)
}

proptest! {
    #[test]
    fn only_what_succeeded_is_said_to_have_had_its_effect(
        (kind, errno) in kind(),
        action in prop::sample::select(vec![RuleAction::Log, RuleAction::Deny, RuleAction::Kill]),
    ) {
        let is_change = matches!(kind, Kind::Change { .. });
        let violation = told(kind, action);
        let words = words(&violation, "the jail");
        let claims = words.contains("had its effect");
        prop_assert!(!claims || errno == 0 && violation.result == Result::Allowed, "{words} {errno}");
        // The kill of a change comes when that is done.
        prop_assert!(!claims || action != RuleAction::Kill || is_change, "{words}");
        // Who fails by himself is told with the kernel's word for it.
        if violation.result == Result::Failed {
            let word = violation.errno.clone().unwrap_or_default();
            prop_assert!(!word.is_empty() && words.contains(&word), "{words} {word}");
        }
    }
}

#[test]
fn what_is_covered_and_what_nobody_need_have_answered_are_told_so() {
    let open = |path: &str, errno| Kind::Open {
        file: None,
        raw: raw(path),
        flags: 0,
        by_handle: false,
        errno,
    };
    let of = |kind| words(&told(kind, RuleAction::Log), "the jail").into_owned();
    assert_eq!(of(open("/etc/shadow", 0)), "nothing: it had its effect");
    assert!(of(open("/proc/keys", 0)).contains("is empty"));
    assert!(of(open("/proc/bus/pci", 0)).contains("is empty"));
    let listed = |own_directory| Violation {
        own_directory,
        ..told(open("/etc", 0), RuleAction::Log)
    };
    assert_eq!(
        words(&listed(false), "the jail"),
        "nothing: it had its effect"
    );
    assert!(words(&listed(true), "the jail").ends_with("the directory is the jail's own"));
    assert_eq!(
        of(open("/workspace/.aws/credentials", libc::ENOENT)),
        "nothing: it failed, as there is no such file (ENOENT)"
    );
    let connect = Kind::Network {
        act: NetworkAct::Connect,
        address: Address::Inet("10.0.0.1:80".parse().expect("an address")),
        socket_type: 1,
        socket: 0,
        errno: 0,
    };
    assert!(of(connect).contains("was let through"));
    let by_monitor = |action| words(&told(open("/etc/shadow", 0), action), "the jail").into_owned();
    assert_eq!(
        by_monitor(RuleAction::Kill),
        "the monitor: it killed the jail"
    );
    let first = words(
        &told(open("/etc/shadow", libc::EROFS), RuleAction::Kill),
        "the jail",
    )
    .into_owned();
    assert_eq!(first, Stopper::Mounts.words(), "another layer was first");
}
