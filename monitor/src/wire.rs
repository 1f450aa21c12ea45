//! Codes of the wire, in both directions.

use turnkey_abi::{action, syscalls::on};
use turnkey_policy::{Action, On};

/// The code of a rule kind.
pub(crate) fn on_code(kind: On) -> u8 {
    match kind {
        On::Open => on::OPEN,
        On::Exec => on::EXEC,
        On::Connect => on::CONNECT,
        On::Bind => on::BIND,
        On::Send => on::SEND,
        On::Ptrace => on::PTRACE,
        On::Mount => on::MOUNT,
        On::Setuid => on::SETUID,
        On::Namespace => on::NAMESPACE,
        On::Bpf => on::BPF,
        On::Module => on::MODULE,
        On::Keyring => on::KEYRING,
        On::IoUring => on::IO_URING,
        On::Link => on::LINK,
        On::Rename => on::RENAME,
        On::Unlink => on::UNLINK,
        On::Chmod => on::CHMOD,
        On::Map => on::MAP,
        On::Stat => on::STAT,
        On::Attribute => on::ATTRIBUTE,
    }
}

/// The rule kind of a code.
pub(crate) fn on(code: u16) -> Option<On> {
    On::ALL
        .iter()
        .copied()
        .find(|kind| u16::from(on_code(*kind)) == code)
}

/// The action of a code.
pub(crate) fn action(code: u16) -> Option<Action> {
    match code {
        action::ALLOW => Some(Action::Allow),
        action::LOG => Some(Action::Log),
        action::DENY => Some(Action::Deny),
        action::KILL => Some(Action::Kill),
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
        for kind in On::ALL {
            assert_eq!(on(u16::from(on_code(*kind))), Some(*kind));
            assert!(on_code(*kind) < on::NONE);
            assert!(usize::from(on::NONE) < turnkey_abi::ON);
        }
        assert_eq!(on(u16::MAX), None);
    }

    #[test]
    fn every_code_of_an_action_is_one() {
        for (code, expected) in [
            (1, Action::Allow),
            (2, Action::Log),
            (3, Action::Deny),
            (4, Action::Kill),
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

    /// Refused with a number that says nothing, or as files everywhere refuse it.
    const NOT_LOOKED_AT: [&str; 6] = [
        "chmod",
        "fchmod",
        "fchmodat",
        "fchmodat2",
        "fcntl",
        "madvise",
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
        let watched = |kind: &&On| **kind > On::Send && !kind.has_path();
        for kind in On::ALL.iter().filter(watched) {
            let class = class::WATCH + on_code(*kind);
            assert!(
                SYSCALLS.iter().any(|syscall| syscall.class == class),
                "{kind:?}"
            );
        }
    }
}
