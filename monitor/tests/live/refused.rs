//! The watch-list.

use turnkey_monitor::Kind;
use turnkey_policy::{Action, On};

use super::harness::{policy, python, rule};

fn refused(kind: &Kind) -> Option<(u32, On, i32)> {
    match kind {
        Kind::Refused { nr, on, errno, .. } => Some((*nr, *on, *errno)),
        _ => None,
    }
}

/// Drops to an unprivileged user first, so that the kernel refuses by itself.
fn unprivileged(statements: &str) -> String {
    format!("import ctypes, os\nos.setgid(65534)\nos.setuid(65534)\nlibc = ctypes.CDLL(None)\n{statements}")
}

#[test]
fn refused_syscalls_are_told_by_kind() {
    let program = unprivileged(
        "libc.mount(b'a', b'/mnt', b'tmpfs', 0, None)\nlibc.setuid(0)\nlibc.unshare(0x00020000)\nlibc.reboot(0)\nlibc.chroot(b'/')\nlibc.setns(0, 0)\nlibc.syscall(321, 99, 0, 0)\nlibc.syscall(9999)",
    );
    let seen = python(&policy(""), &program);
    seen.assert_lived();
    let expected = [
        (165, On::Mount, 1),
        (105, On::Setuid, 1),
        (272, On::Namespace, 1),
        (169, On::Module, 1),
        (161, On::Mount, 1),
    ];
    let told = seen.kinds(refused);
    for refusal in expected {
        assert!(told.contains(&refusal), "{refusal:?} in\n{}", seen.tell());
    }
    assert!(told.iter().all(|(nr, ..)| *nr != 9999), "not on the list");
}

#[test]
fn what_went_through_is_not_told_without_a_rule() {
    let seen = python(&policy(""), "import os\nos.setgid(65534)\nos.setuid(65534)");
    seen.assert_lived();
    assert_eq!(seen.kinds(refused), []);
}

#[test]
fn a_rule_kills_for_a_refused_attempt() {
    let policy = policy(&rule("m", "mount", "kill", ""));
    let seen = python(&policy, &unprivileged("libc.mount(b'a', b'/mnt', b'tmpfs', 0, None)\nos.write(1, b'survived')"));
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
    assert_eq!(seen.decisions(), [(0, Action::Kill)]);
}

#[test]
fn a_rule_kills_for_an_attempt_that_went_through() {
    let policy = policy(&rule("s", "setuid", "kill", ""));
    let seen = python(&policy, "import os\nos.setuid(os.getuid())\nos.write(1, b'survived')");
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
}

#[test]
fn clone_counts_only_with_a_namespace_flag() {
    let rules = rule("n", "namespace", "deny", "");
    // CLONE_NEWNS | SIGCHLD, then a plain fork.
    let program = unprivileged("libc.syscall(56, 0x00020011, 0, 0, 0, 0)\npid = os.fork()\nif pid == 0:\n os._exit(0)\nos.waitpid(pid, 0)");
    let seen = python(&policy(&rules), &program);
    seen.assert_lived();
    assert_eq!(seen.kinds(refused), [(56, On::Namespace, 1)], "{}", seen.tell());
    assert_eq!(seen.decisions(), [(0, Action::Deny)]);
}
