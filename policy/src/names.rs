//! The names that profiles and reports use for the words of the model.
//!
//! One table per type, so that parsing, printing, documentation and the suggestions in error
//! messages can never disagree.

use crate::model::{
    AttemptKind, EnforcementMode, FileFlag, Layer, LimitResponse, NetworkMode, OnLoss, OpenAccess,
    OwnPath, ProcView, RootMode, RuleAction, SameFile, Severity, ToolchainMode, WorkdirMode,
    WorkdirPlace,
};

/// A closed set of words with one name each.
pub trait NamedVariants: Sized + Copy + PartialEq + 'static {
    /// Every word with its name, in the order of the type.
    const NAMES: &'static [(Self, &'static str)];

    /// The word with this exact name.
    fn from_name(name: &str) -> Option<Self> {
        let found = Self::NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(word, _)| *word)
    }
}

/// Gives the variants of a type their names.
macro_rules! names {
    ($type:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $crate::names::NamedVariants for $type {
            const NAMES: &'static [(Self, &'static str)] = &[$(($type::$variant, $name)),+];
        }

        impl $type {
            /// Every value, in the order of the type.
            pub const ALL: &'static [Self] = &[$($type::$variant),+];

            /// The name in profiles and reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name),+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.name())
            }
        }
    };
}

pub(crate) use names;

names!(Layer {
    UserNamespace => "user-namespace",
    MountNamespace => "mount-namespace",
    PidNamespace => "pid-namespace",
    NetworkNamespace => "network-namespace",
    IpcNamespace => "ipc-namespace",
    UtsNamespace => "uts-namespace",
    CgroupNamespace => "cgroup-namespace",
    TimeNamespace => "time-namespace",
    Root => "root",
    Capabilities => "capabilities",
    NoNewPrivileges => "no-new-privileges",
    Seccomp => "seccomp",
    Landlock => "landlock",
    Memory => "memory",
    Pids => "pids",
    Cpu => "cpu",
    Io => "io",
    Rlimits => "rlimits",
    Monitor => "monitor",
});

names!(AttemptKind {
    Open => "open",
    Exec => "exec",
    Connect => "connect",
    Bind => "bind",
    Send => "send",
    Ptrace => "ptrace",
    Mount => "mount",
    Setuid => "setuid",
    Namespace => "namespace",
    Bpf => "bpf",
    Module => "module",
    Keyring => "keyring",
    IoUring => "io_uring",
    Link => "link",
    Rename => "rename",
    Unlink => "unlink",
    Chmod => "chmod",
    Map => "map",
    Stat => "stat",
    Attribute => "attribute",
    Mkdir => "mkdir",
    Rmdir => "rmdir",
    Symlink => "symlink",
    Mknod => "mknod",
    Truncate => "truncate",
    Chown => "chown",
    Utimens => "utimens",
    Xattr => "xattr",
    Kill => "kill",
});

names!(OpenAccess { Read => "read", Write => "write" });

names!(FileFlag { Memfd => "memfd", Deleted => "deleted", Truncated => "truncated" });

names!(SameFile { No => "no", Required => "required", Optional => "optional" });

names!(RuleAction { Allow => "allow", Log => "log", Deny => "deny", Kill => "kill" });

names!(Severity {
    Info => "info",
    Low => "low",
    Medium => "medium",
    High => "high",
    Critical => "critical",
});

names!(EnforcementMode { Enforce => "enforce", Observe => "observe" });

names!(OnLoss { Mark => "mark", Fail => "fail", Kill => "kill" });

names!(LimitResponse { Kill => "kill", Refuse => "refuse" });

names!(WorkdirMode { Overlay => "overlay", ReadOnly => "read-only", None => "none" });

names!(RootMode { ReadOnly => "read-only", Overlay => "overlay" });

names!(WorkdirPlace { Workspace => "workspace", Host => "host" });

names!(OwnPath { Known => "known", Always => "always", Never => "never" });

names!(ToolchainMode { None => "none", Command => "command", Auto => "auto" });

names!(ProcView { Common => "common", Processes => "processes" });

names!(NetworkMode { None => "none", Loopback => "loopback", Sinkhole => "sinkhole",
    Allow => "allow", Host => "host" });

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;
    use crate::behaviour::{Behaviour, BehaviourResponse};

    /// A name that two words share would make one of them unreachable.
    fn assert_round_trip<T: NamedVariants + fmt::Debug + fmt::Display>() {
        for (word, name) in T::NAMES {
            assert_eq!(T::from_name(name), Some(*word));
            assert_eq!(word.to_string(), *name);
        }
        assert_eq!(T::from_name("no such word"), None);
    }

    #[test]
    fn every_name_leads_back_to_its_word() {
        assert_round_trip::<Layer>();
        assert_round_trip::<AttemptKind>();
        assert_round_trip::<OpenAccess>();
        assert_round_trip::<FileFlag>();
        assert_round_trip::<SameFile>();
        assert_round_trip::<RuleAction>();
        assert_round_trip::<Severity>();
        assert_round_trip::<EnforcementMode>();
        assert_round_trip::<OnLoss>();
        assert_round_trip::<LimitResponse>();
        assert_round_trip::<OwnPath>();
        assert_round_trip::<WorkdirPlace>();
        assert_round_trip::<Behaviour>();
        assert_round_trip::<BehaviourResponse>();
        assert_round_trip::<ToolchainMode>();
        assert_round_trip::<ProcView>();
        assert_round_trip::<WorkdirMode>();
        assert_round_trip::<NetworkMode>();
    }

    #[test]
    fn names_are_padded_like_strings() {
        assert_eq!(format!("{:<6}|", RuleAction::Deny), "deny  |");
    }
}
