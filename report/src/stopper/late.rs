//! Acts that the monitor was asked about before they were done, and those that were done when it was.

use turnkey_facts::{Address, Kind, NetworkAct};
use turnkey_policy::{AttemptKind, RuleAction};

/// True for what the kernel has done when a kill at the end of the call comes, and what no death undoes. Of an open that is emptying a
/// file, or making one that was not there, and of a bind the socket's file; a descriptor, an image, a mapping and an answer are of no use
/// to the dead.
pub fn has_effect_before_a_kill(kind: &Kind) -> bool {
    let empties = libc::O_TRUNC.cast_unsigned();
    let makes = (libc::O_CREAT | libc::O_EXCL).cast_unsigned();
    match kind {
        Kind::Change { on, errno: 0, .. } => *on != AttemptKind::Stat,
        Kind::Open {
            file: Some(_),
            flags,
            errno: 0,
            ..
        } => flags & empties != 0 || flags & makes == makes,
        Kind::Network {
            act: NetworkAct::Send | NetworkAct::Bind,
            address: Address::UnixPath(_) | Address::UnixAbstract(_),
            errno: 0,
            ..
        }
        | Kind::Refused { errno: 0, .. } => true,
        _ => false,
    }
}

/// True when the kernel asked the monitor before the act, and got a no: then the record holds the
/// kernel's own object together with an error, which the record of a failed call does not.
pub fn refused_by_hook(kind: &Kind, decided: Option<RuleAction>) -> bool {
    if !matches!(decided, Some(RuleAction::Deny | RuleAction::Kill)) {
        return false;
    }
    match kind {
        Kind::Open { file, errno, .. } => file.is_some() && *errno == libc::EPERM,
        Kind::Change {
            resolved, errno, ..
        } => *resolved && *errno == libc::EPERM,
        Kind::ExecAttempt { errno, .. } | Kind::Map { errno, .. } => *errno == libc::EPERM,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture::{file, raw};
    use super::*;

    /// An open of a file that was found, by these flags.
    fn open(flags: i32) -> Kind {
        Kind::Open {
            file: Some(file("/srv/f")),
            raw: raw("/srv/f"),
            flags: (libc::O_CLOEXEC | flags).cast_unsigned(),
            by_handle: false,
            errno: 0,
        }
    }

    #[test]
    fn an_open_that_empties_a_file_or_makes_one_has_its_effect() {
        for flags in [libc::O_WRONLY | libc::O_TRUNC, libc::O_CREAT | libc::O_EXCL] {
            assert!(has_effect_before_a_kill(&open(flags)), "{flags:o}");
        }
        assert!(!has_effect_before_a_kill(&open(libc::O_RDWR)));
    }
}
