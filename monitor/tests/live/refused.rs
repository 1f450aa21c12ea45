//! The watch-list.

use std::net::SocketAddr;

use turnkey_facts::{Address, Kind, NetworkAct};
use turnkey_policy::{AttemptKind, RuleAction};

use super::harness::{policy, python, rule};

fn refused(kind: &Kind) -> Option<(u32, AttemptKind, i32)> {
    match kind {
        Kind::Refused { nr, on, errno, .. } => Some((*nr, (*on)?, *errno)),
        _ => None,
    }
}

/// Drops to an unprivileged user first, so that the kernel refuses by itself.
fn unprivileged(statements: &str) -> String {
    format!(
        "import ctypes, os\nos.setgid(65534)\nos.setuid(65534)\nlibc = ctypes.CDLL(None)\n{statements}"
    )
}

#[test]
fn refused_syscalls_are_told_by_kind() {
    let program = unprivileged(
        "libc.mount(b'a', b'/tmp', b'tmpfs', 0, None)\nlibc.setuid(0)\nlibc.unshare(0x00020000)\nlibc.reboot(0)\nlibc.chroot(b'/')\nlibc.setns(0, 0)\nlibc.syscall(321, 99, 0, 0)\nlibc.syscall(9999)",
    );
    let seen = python(&policy(""), &program);
    seen.assert_lived();
    let expected = [
        (165, AttemptKind::Mount, 1),
        (105, AttemptKind::Setuid, 1),
        (272, AttemptKind::Namespace, 1),
        (169, AttemptKind::Module, 1),
        (161, AttemptKind::Mount, 1),
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
    let seen = python(
        &policy,
        &unprivileged("libc.mount(b'a', b'/mnt', b'tmpfs', 0, None)\nos.write(1, b'survived')"),
    );
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
    assert_eq!(seen.decisions(), [(0, RuleAction::Kill)]);
}

#[test]
fn a_rule_kills_for_an_attempt_that_went_through() {
    let policy = policy(&rule("m", "mount", "kill", ""));
    let seen = python(
        &policy,
        "import os\nos.chroot('/')\nos.write(1, b'survived')",
    );
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
    assert_eq!(seen.kinds(refused), [(161, AttemptKind::Mount, 0)]);
}

#[test]
fn a_setuid_that_changes_nothing_is_no_attempt() {
    let policy = policy(&rule("s", "setuid", "kill", ""));
    let seen = python(&policy, "import os\nos.setuid(os.getuid())");
    seen.assert_lived();
    assert_eq!(seen.kinds(refused), []);
    let seen = python(&policy, &unprivileged("libc.setuid(0)"));
    seen.assert_killed();
}

#[test]
fn clone_counts_only_with_a_namespace_flag() {
    let rules = rule("n", "namespace", "deny", "");
    // CLONE_NEWNS | SIGCHLD, then a plain fork.
    let program = unprivileged(
        "libc.syscall(56, 0x00020011, 0, 0, 0, 0)\npid = os.fork()\nif pid == 0:\n os._exit(0)\nos.waitpid(pid, 0)",
    );
    let seen = python(&policy(&rules), &program);
    seen.assert_lived();
    assert_eq!(
        seen.kinds(refused),
        [(56, AttemptKind::Namespace, 1)],
        "{}",
        seen.tell()
    );
    assert_eq!(seen.decisions(), [(0, RuleAction::Deny)]);
}

/// Installs a filter that answers the given syscalls with EPERM, then goes on.
fn filtered(numbers: &[u32], statements: &str) -> String {
    // Each instruction is code, jump if true, jump if false, constant: load the number; skip one
    // unless equal; answer EPERM; in the end allow.
    let refusals = numbers
        .iter()
        .map(|nr| format!("(0x15, 0, 1, {nr}), (6, 0, 0, 0x50001), "));
    let refusals: String = refusals.collect();
    format!(
        "import ctypes, os, socket, struct\nlibc = ctypes.CDLL(None)\ncode = b''.join(struct.pack('HBBI', *i) for i in [(0x20, 0, 0, 0), {refusals}(6, 0, 0, 0x7fff0000)])\nbuffer = ctypes.create_string_buffer(code)\nprogram = struct.pack('HxxxxxxQ', len(code) // 8, ctypes.addressof(buffer))\nassert libc.prctl(38, 1, 0, 0, 0) == 0\nassert libc.prctl(22, 2, program, 0, 0) == 0\n{statements}"
    )
}

#[test]
fn what_seccomp_refuses_is_an_attempt() {
    let policy = policy(&rule("m", "mount", "deny", ""));
    let program = filtered(&[165], "libc.mount(b'a', b'/nowhere', b'tmpfs', 0, None)");
    let seen = python(&policy, &program);
    seen.assert_lived();
    assert_eq!(
        seen.kinds(refused),
        [(165, AttemptKind::Mount, 1)],
        "{}",
        seen.tell()
    );
    assert_eq!(seen.decisions(), [(0, RuleAction::Deny)]);
}

#[test]
fn an_open_that_seccomp_refuses_is_an_attempt() {
    let rules = rule(
        "s",
        "open",
        "kill",
        "path = [\"/etc/shadow\"]\naccess = [\"read\"]",
    );
    // creat and openat2 are refused; the argument alone tells.
    let program = filtered(
        &[437],
        "how = (ctypes.c_uint64 * 3)(0, 0, 0)\nlibc.syscall(437, -100, b'/etc/shadow', ctypes.byref(how), 24)\nos.write(1, b'survived')",
    );
    let seen = python(&policy(&rules), &program);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
}

#[test]
fn a_connect_that_seccomp_refuses_is_an_attempt() {
    let statements = "s = socket.socket()\ntry:\n s.connect(('192.0.2.9', 80))\nexcept PermissionError:\n print('refused')";
    let policy = policy(&rule("out", "connect", "log", ""));
    let seen = python(&policy, &filtered(&[42], statements));
    seen.assert_lived();
    assert_eq!(seen.stdout(), "refused\n");
    let told = seen.kinds(|kind| match kind {
        Kind::Network {
            act,
            address,
            errno,
            ..
        } => Some((*act, address.clone(), *errno)),
        _ => None,
    });
    let address = Address::Inet(SocketAddr::from(([192, 0, 2, 9], 80)));
    assert_eq!(told, [(NetworkAct::Connect, address, 1)]);
    assert_eq!(seen.decisions(), [(0, RuleAction::Log)]);
}
