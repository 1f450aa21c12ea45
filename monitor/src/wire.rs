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
    }
}

/// The rule kind of a code.
pub(crate) fn on(code: u16) -> Option<On> {
    const ALL: [On; 13] = [
        On::Open,
        On::Exec,
        On::Connect,
        On::Bind,
        On::Send,
        On::Ptrace,
        On::Mount,
        On::Setuid,
        On::Namespace,
        On::Bpf,
        On::Module,
        On::Keyring,
        On::IoUring,
    ];
    ALL.into_iter().find(|kind| u16::from(on_code(*kind)) == code)
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
