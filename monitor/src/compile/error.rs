//! The reasons for which the rules of a policy have no table.

use turnkey_abi::{FILES, PEERS, ROLES, RULES};

use crate::automaton::AutomatonError;

// A profile of more is refused with the place of the first too many; these tables are the last to say so.
const _: () = assert!(turnkey_policy::MOST_RULES == RULES);

/// Errors of a policy that the kernel's programs cannot enforce.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// More rules than the table holds.
    #[error(
        "the policy has {count} rules, and the kernel's table holds {RULES}: merge rules that differ only in their paths"
    )]
    TooManyRules {
        /// Number of rules.
        count: usize,
    },
    /// The patterns together are too complex.
    #[error(
        "the rules' path patterns do not fit the kernel's table: {0}; use fewer patterns with `**` or `*` in their middle"
    )]
    Patterns(AutomatonError),
    /// A file cannot be denied here, only killed for.
    #[error(
        "rule `{rule}` denies `{on}`, and without BPF LSM the kernel can only kill for it: use `action = \"kill\"`, take the path out of the jail's tree, or let `turnkey doctor` tell how to have BPF LSM"
    )]
    CannotDeny {
        /// The rule's id.
        rule: String,
        /// The kind of attempt.
        on: &'static str,
    },
    /// No filter stands before the groups of others.
    #[error(
        "rule `{rule}` denies `{on}`, which in groups of others only BPF LSM can: use `action = \"kill\"`, or let `turnkey doctor` tell how to have BPF LSM"
    )]
    CannotDenyOthers {
        /// The rule's id.
        rule: String,
        /// The kind of attempt.
        on: &'static str,
    },
    /// A jail's walls refuse signals, by no rule; no hook answers for one.
    #[error(
        "rule `{rule}` denies `kill`, and in groups of others nothing can deny a signal: use `action = \"kill\"` or `action = \"log\"`"
    )]
    CannotDenySignals {
        /// The rule's id.
        rule: String,
    },
    /// A look is over when it is asked about.
    #[error(
        "rule `{rule}` denies `stat`, and nothing can deny a look: use `action = \"log\"` or `action = \"kill\"`, or take the path out of the jail's tree"
    )]
    CannotDenyLooks {
        /// The rule's id.
        rule: String,
    },
    /// A file's identity cannot be known here.
    #[error(
        "rule `{rule}` means files by `same_file`, and without BPF LSM nobody knows which file a `{on}` was about: take \"{on}\" out of its `on` and write a second rule for it, by path alone, or let `turnkey doctor` tell how to have BPF LSM"
    )]
    CannotIdentify {
        /// The rule's id.
        rule: String,
        /// The kind of attempt.
        on: &'static str,
    },
    /// More files than the table holds.
    #[error(
        "the rules mean more than {} files by `same_file`, and the kernel's table holds no more: write `same_file` at fewer paths",
        FILES - 1
    )]
    TooManyFiles,
    /// More programs and scripts than the table tells apart.
    #[error(
        "the rules tell more kinds of actors apart by `exe` and `script` than the kernel's table holds, which is {}: give rules the same lists of programs and scripts, or fewer rules such lists",
        ROLES - 1
    )]
    TooManyActors,
    /// More addresses and ports than the table holds.
    #[error(
        "the rules have {count} pairs of an address and a port, and the kernel's table holds {PEERS}: name networks in place of addresses, and ranges in place of ports"
    )]
    TooManyPeers {
        /// Number of pairs of an address and a port.
        count: usize,
    },
    /// A syscall that the filter allows cannot be denied afterwards.
    #[error(
        "rule `{rule}` denies {syscall}(2), and `[syscalls]` allows it: take it out of `allow`, or use `action = \"kill\"`"
    )]
    AllowedSyscall {
        /// The rule's id.
        rule: String,
        /// The kernel's name of the syscall.
        syscall: &'static str,
    },
}

// Told in the sentence above: as its source it would be told once more.
impl From<AutomatonError> for CompileError {
    fn from(error: AutomatonError) -> Self {
        Self::Patterns(error)
    }
}
