//! Codes of the wire, in both directions.

use turnkey_abi::{action, syscalls::on};
use turnkey_policy::{AttemptKind, RuleAction};

/// The code of a kind of attempt.
#[must_use]
pub fn on_code(kind: AttemptKind) -> u8 {
    match kind {
        AttemptKind::Open => on::OPEN,
        AttemptKind::Exec => on::EXEC,
        AttemptKind::Connect => on::CONNECT,
        AttemptKind::Bind => on::BIND,
        AttemptKind::Send => on::SEND,
        AttemptKind::Ptrace => on::PTRACE,
        AttemptKind::Mount => on::MOUNT,
        AttemptKind::Setuid => on::SETUID,
        AttemptKind::Namespace => on::NAMESPACE,
        AttemptKind::Bpf => on::BPF,
        AttemptKind::Module => on::MODULE,
        AttemptKind::Keyring => on::KEYRING,
        AttemptKind::IoUring => on::IO_URING,
        AttemptKind::Link => on::LINK,
        AttemptKind::Rename => on::RENAME,
        AttemptKind::Unlink => on::UNLINK,
        AttemptKind::Chmod => on::CHMOD,
        AttemptKind::Map => on::MAP,
        AttemptKind::Stat => on::STAT,
        AttemptKind::Attribute => on::ATTRIBUTE,
        AttemptKind::Mkdir => on::MKDIR,
        AttemptKind::Rmdir => on::RMDIR,
        AttemptKind::Symlink => on::SYMLINK,
        AttemptKind::Mknod => on::MKNOD,
        AttemptKind::Truncate => on::TRUNCATE,
        AttemptKind::Chown => on::CHOWN,
        AttemptKind::Utimens => on::UTIMENS,
        AttemptKind::Xattr => on::XATTR,
        AttemptKind::Kill => on::KILL,
    }
}

/// The rule kind of a code.
pub(crate) fn on(code: u16) -> Option<AttemptKind> {
    AttemptKind::ALL
        .iter()
        .copied()
        .find(|kind| u16::from(on_code(*kind)) == code)
}

/// The action of a code.
pub(crate) fn action(code: u16) -> Option<RuleAction> {
    match code {
        action::ALLOW => Some(RuleAction::Allow),
        action::LOG => Some(RuleAction::Log),
        action::DENY => Some(RuleAction::Deny),
        action::KILL => Some(RuleAction::Kill),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use turnkey_abi::syscalls::{SYSCALLS, class};
    use turnkey_policy::syscalls;

    use super::*;

    #[test]
    fn every_kind_has_a_code_of_its_own() {
        for kind in AttemptKind::ALL {
            assert_eq!(on(u16::from(on_code(*kind))), Some(*kind));
            assert!(on_code(*kind) < on::NONE);
            assert!(usize::from(on::NONE) < turnkey_abi::ON);
        }
        assert_eq!(on(u16::MAX), None);
    }

    #[test]
    fn every_code_of_an_action_is_one() {
        for (code, expected) in [
            (1, RuleAction::Allow),
            (2, RuleAction::Log),
            (3, RuleAction::Deny),
            (4, RuleAction::Kill),
        ] {
            assert_eq!(super::action(code), Some(expected));
        }
        assert_eq!(super::action(action::NONE), None);
        assert_eq!(super::action(5), None);
    }

    /// The policy and the wire each hold a table of numbers; libseccomp's is behind the former.
    #[test]
    fn the_tables_of_numbers_agree() {
        for syscall in SYSCALLS {
            if let Some(known) = syscalls::name(u32::from(syscall.nr)) {
                assert_eq!(known, syscall.name, "{}", syscall.nr);
            }
            if let Some(known) = syscalls::number(syscall.name) {
                assert_eq!(known, u32::from(syscall.nr), "{}", syscall.name);
            }
        }
    }

    /// Calls of the 32-bit table that have another name in that of `x86_64`, beside those that end in the width of what they lead to.
    const RENAMED: [(&str, &str); 23] = [
        ("mmap2", "mmap"),
        ("_llseek", "lseek"),
        ("ugetrlimit", "getrlimit"),
        ("waitpid", "wait4"),
        ("oldstat", "stat"),
        ("oldfstat", "fstat"),
        ("oldlstat", "lstat"),
        ("oldolduname", "uname"),
        ("olduname", "uname"),
        ("umount", "umount2"),
        ("stime", "settimeofday"),
        ("signal", "rt_sigaction"),
        ("sigaction", "rt_sigaction"),
        ("sigprocmask", "rt_sigprocmask"),
        ("sgetmask", "rt_sigprocmask"),
        ("ssetmask", "rt_sigprocmask"),
        ("sigsuspend", "rt_sigsuspend"),
        ("sigpending", "rt_sigpending"),
        ("sigreturn", "rt_sigreturn"),
        ("_newselect", "select"),
        ("readdir", "getdents"),
        ("fstatat64", "newfstatat"),
        ("fadvise64_64", "fadvise64"),
    ];

    /// Calls of the 32-bit table that no other call is like: arguments in memory, a mode of the CPU that no 64-bit kernel has, and what no
    /// kernel has any more. `nice` takes one argument of three.
    const UNLIKE: [&str; 17] = [
        "mmap",
        "socketcall",
        "ipc",
        "vm86",
        "vm86old",
        "nice",
        "break",
        "stty",
        "gtty",
        "ftime",
        "prof",
        "lock",
        "mpx",
        "ulimit",
        "profil",
        "idle",
        "bdflush",
    ];

    /// libseccomp has the kernel's own table of 32 bits.
    #[test]
    fn a_call_of_the_32_bit_table_is_taken_for_the_one_of_its_name() {
        use libseccomp::{ScmpArch, ScmpSyscall};
        use turnkey_abi::compat::{self, NUMBERS};

        let mut known = 0;
        for (own, alike) in NUMBERS.iter().enumerate() {
            let own = i32::try_from(own).unwrap();
            let Ok(name) = ScmpSyscall::from(own).get_name_by_arch(ScmpArch::X86) else {
                continue;
            };
            known += 1;
            if *alike == compat::UNLIKE {
                assert!(UNLIKE.contains(&&*name), "{own} {name}");
                continue;
            }
            let alike = syscalls::name(u32::from(*alike)).expect("it is in the table");
            let renamed = RENAMED.iter().find(|(own, _)| *own == name);
            let is_same = ["", "_time64", "64", "32"]
                .iter()
                .filter_map(|width| name.strip_suffix(width))
                .any(|plain| plain == alike);
            let is_alike = renamed.map_or(is_same, |(_, to)| *to == alike);
            assert!(is_alike, "{own} {name}: {alike}");
        }
        assert!(known > 430, "{known}");
    }

    /// Refused with a number that says nothing, or as files everywhere refuse it.
    const NOT_LOOKED_AT: [&str; 9] = [
        "chmod",
        "fchmod",
        "fchmodat",
        "fchmodat2",
        "fcntl",
        "madvise",
        "memfd_create",
        "mmap",
        "shmget",
    ];

    /// A blocked attempt is a seen attempt.
    #[test]
    fn whatever_the_filter_can_refuse_is_looked_at() {
        let never = syscalls::known().filter(|name| syscalls::allowable(name).is_none());
        let by_argument = syscalls::arguments::REFUSALS.iter();
        let by_argument = by_argument.flat_map(|refusal| refusal.syscalls.iter().copied());
        for name in never.chain(by_argument) {
            let looked_at = SYSCALLS.iter().any(|syscall| syscall.name == name);
            assert!(looked_at || NOT_LOOKED_AT.contains(&name), "{name}");
        }
    }

    #[test]
    fn every_kind_without_a_hook_has_syscalls() {
        let watched = |kind: &&AttemptKind| **kind > AttemptKind::Send && !kind.has_path();
        for kind in AttemptKind::ALL.iter().filter(watched) {
            let class = match kind {
                AttemptKind::Kill => class::KILL,
                kind => class::WATCH + on_code(*kind),
            };
            assert!(
                SYSCALLS.iter().any(|syscall| syscall.class == class),
                "{kind:?}"
            );
        }
    }
}
