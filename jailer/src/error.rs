//! Errors of a jail, with the fix.

mod fix;

use std::time::Duration;

use nix::errno::Errno;
use turnkey_policy::Layer;

use crate::filter::FilterError;
use crate::groups::GroupError;
use crate::ids::userns::{NamespaceRefusal, NamespaceSwitches};
use crate::landlock::LandlockError;
use crate::process::proof::ProofError;
use crate::process::wire::ChildStep;
use crate::rootfs::RootfsError;

/// The reason why a jail could not be made ready, started or ended.
#[derive(Debug, thiserror::Error)]
pub enum JailError {
    /// The supervisor may not do what a jail takes.
    #[error(
        "missing privileges: {0}; run turnkey as root, or enter a user namespace of its own first"
    )]
    Privileges(String),
    /// A fresh procfs is given only to who can see a whole one.
    #[error(
        "the kernel refuses the jail a /proc of its own, because the one here is covered in places, as containers do; \
         uncover it (docker: --security-opt systempaths=unconfined, podman: --security-opt unmask=ALL), or run turnkey outside of the container"
    )]
    CoveredProc(#[source] Errno),
    /// Few ids, and the caller's own is root's.
    #[error(
        "in this user namespace the jail's user would be root outside of it; start turnkey as another user"
    )]
    RootOutside,
    /// A layer that the policy requires and this host does not have.
    #[error("the layer {} cannot be had here: {reason}", layer.name())]
    Layer {
        /// The layer.
        layer: Layer,
        /// The reason, and what would help.
        reason: String,
    },
    /// A layer did not show its effect.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// The keeper did not start.
    #[error("could not start the keeper, which clears away after a killed turnkey")]
    Keeper(#[source] std::io::Error),
    /// A control group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// Landlock.
    #[error(transparent)]
    Landlock(#[from] LandlockError),
    /// A part of the tree.
    #[error(transparent)]
    Tree(#[from] RootfsError),
    /// The syscall filter.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// No process in new namespaces.
    #[error("could not make the namespaces: {refusal}")]
    Namespaces {
        /// The switch of this host that stands in the way, and the fix.
        refusal: NamespaceRefusal,
        /// The kernel's answer, when it was asked.
        source: Option<Errno>,
    },
    /// A step of the child failed.
    #[error("inside the jail: could not {}", step.describe())]
    Step {
        /// The step.
        step: ChildStep,
        /// The index within the step.
        index: u32,
        /// The error of the kernel.
        #[source]
        errno: Errno,
    },
    /// A step that repeats failed at one place.
    #[error("inside the jail: could not {} at {place}", step.describe())]
    StepAt {
        /// The step.
        step: ChildStep,
        /// As seen from inside.
        place: String,
        /// The error of the kernel.
        #[source]
        errno: Errno,
    },
    /// The sockets of the network mode `allow` find no room.
    #[error(
        "this process may not have as many open files as the network of this jail takes; raise the limit (ulimit -n), or allow fewer ports"
    )]
    TooManyFiles,
    /// The child said something out of turn.
    #[error("the jail's first process said what it should not: {0}")]
    Unexpected(String),
    /// The child died without a word.
    #[error(
        "the jail's first process died before it was ready, perhaps because the memory limit is too small for it"
    )]
    Died,
    /// The child hangs.
    #[error("the jail's first process said nothing for {0:?}")]
    Stalled(Duration),
    /// There is no such program inside.
    #[error("{0}: not found in the jail")]
    NotFound(String),
    /// The program is there and cannot be executed.
    #[error("{0}: found in the jail, but not executable")]
    NotExecutable(String),
    /// execve(2) refused it.
    #[error("{program}: the kernel could not execute it")]
    ExecFailed {
        /// The program that was to run.
        program: String,
        /// The error of the system.
        source: Errno,
    },
    /// A file that cannot be told from others.
    #[error(
        "a file that a rule means by `same_file` cannot be told from others: its file system, {}:{}, shows it as \
         one of {}:{} and numbers the files of each by themselves; write the rule without `same_file`, or put the \
         file on another file system", mounted.0, mounted.1, shown.0, shown.1
    )]
    NoIdentity {
        /// The device in stat(2).
        shown: (u32, u32),
        /// The device that is mounted.
        mounted: (u32, u32),
    },
    /// The program cannot be followed, and a clock of its own takes that.
    #[error(
        "could not follow the program by ptrace(2), which a clock other than the host's takes{}",
        allowed.as_ref().map(|allowed| format!("; /proc/sys/kernel/yama/ptrace_scope says {allowed}")).unwrap_or_default()
    )]
    NotFollowed {
        /// The content of Yama's switch, where there is one.
        allowed: Option<String>,
        /// The error of the system.
        source: Errno,
    },
    /// A system call of the supervisor.
    #[error("could not {act}")]
    System {
        /// The operation that failed.
        act: &'static str,
        /// The error of the system.
        source: Errno,
    },
}

impl JailError {
    /// True when a file of the host was replaced between being opened and being mounted, as /etc/ld.so.cache is by
    /// ldconfig(8): nothing ran, and a jail that is made anew may find the new one.
    #[must_use]
    pub fn is_of_a_replaced_file(&self) -> bool {
        matches!(
            self,
            Self::Step {
                step: ChildStep::Rootfs,
                errno: Errno::ENOENT,
                ..
            } | Self::StepAt {
                step: ChildStep::Rootfs,
                errno: Errno::ENOENT,
                ..
            }
        )
    }

    /// True when what stands in the jail's tree is not what a step has to find there.
    #[must_use]
    pub fn is_of_the_tree(&self) -> bool {
        let is_answer = |errno: &Errno| {
            [Errno::ENOENT, Errno::ENOTDIR, Errno::ELOOP, Errno::EISDIR].contains(errno)
        };
        match self {
            Self::Step { step, errno, .. } | Self::StepAt { step, errno, .. } => {
                matches!(step, ChildStep::Rootfs | ChildStep::LandlockRules) && is_answer(errno)
            }
            _ => false,
        }
    }

    /// True when the program could not be found or executed.
    #[must_use]
    pub fn is_of_the_program(&self) -> bool {
        matches!(
            self,
            Self::NotFound(_) | Self::NotExecutable(_) | Self::ExecFailed { .. }
        )
    }

    /// The meaning of the kernel's answer to the making of namespaces on this host.
    pub(crate) fn namespaces(answer: Errno) -> JailError {
        JailError::Namespaces {
            refusal: NamespaceSwitches::read().explain(answer),
            source: Some(answer),
        }
    }

    /// A step that failed inside of the new namespaces fails for the host's sake when the host
    /// takes the rights away that they should give.
    pub(crate) fn blame_the_host(self) -> JailError {
        match self {
            JailError::Step { errno, .. } => {
                match NamespaceSwitches::read().explain_inside(errno) {
                    Some(refusal) => JailError::Namespaces {
                        refusal,
                        source: Some(errno),
                    },
                    None => self,
                }
            }
            other => other,
        }
    }
}
