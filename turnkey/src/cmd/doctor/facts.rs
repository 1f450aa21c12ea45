//! The facts known about the host, as data.

use std::path::PathBuf;

use nix::errno::Errno;
use turnkey_jailer::hierarchy::{Controller, ControllerHome};
use turnkey_jailer::userns::NamespaceSwitches;
use turnkey_monitor::{Available, KnownHooks};

use super::preemption::Omission;

/// An attempt: it worked, or the kernel's answer.
pub type Trial = Result<(), Errno>;

/// All facts that findings are made of.
#[derive(Clone, Debug)]
pub struct HostFacts {
    /// Release, such as 6.18.44.
    pub kernel: String,
    /// Effective user.
    pub user: u32,
    /// The capabilities of the caller.
    pub capabilities: Vec<CallerCapability>,
    /// The switches that bear on namespaces.
    pub switches: NamespaceSwitches,
    /// A process in all namespaces.
    pub namespaces: Trial,
    /// The rights of that process inside.
    pub rights_inside: Trial,
    /// A syscall filter.
    pub seccomp: Trial,
    /// landlock(7)
    pub landlock: LandlockFacts,
    /// cgroups(7), or why there are none.
    pub groups: Result<CgroupFacts, NoGroups>,
    /// An overlay without privileges.
    pub overlay: Trial,
    /// A view of the working directory with another owner.
    pub id_mapped: IdMapped,
    /// Bytes of `/sys/kernel/btf/vmlinux`, or why it cannot be read.
    pub btf: Result<u64, String>,
    /// True when sysfs is mounted at all.
    pub has_sysfs: bool,
    /// `/sys/kernel/security/lsm`; `None` when it cannot be read.
    pub security_modules: Option<Vec<String>>,
    /// The chosen word of `/sys/kernel/security/lockdown`; `None` when it cannot be read.
    pub lockdown: Option<String>,
    /// The tier in which the monitor would stand between a program and this kernel.
    pub tier: Available,
    /// The hooks of the lsm tier that this kernel has, or why that cannot be told.
    pub hooks: Result<KnownHooks, String>,
    /// The programs of the monitor that the kernel leaves out.
    pub omission: Omission,
    /// Success when nobody but root can load programs for all, or the reason why somebody can.
    pub shared: Result<(), String>,
    /// The monitor was loaded: what its canary proved, or why not.
    pub monitor: Result<String, String>,
    /// The default profile, run whole.
    pub rehearsal: Result<(), String>,
    /// The same with what there is; tried where the whole one fails.
    pub best_effort: Result<(), String>,
}

/// The cause of missing control groups, and the fix.
#[derive(Clone, Debug)]
pub struct NoGroups {
    /// The finding.
    pub cause: String,
    /// The fix.
    pub fix: String,
}

/// A right of the caller.
#[derive(Clone, Debug)]
pub struct CallerCapability {
    /// As in capabilities(7).
    pub name: String,
    /// The purpose for which turnkey uses it.
    pub purpose: &'static str,
    /// True when it is in the effective set.
    pub held: bool,
}

/// landlock(7)
#[derive(Clone, Debug)]
pub struct LandlockFacts {
    /// 0 without Landlock.
    pub abi: u32,
    /// Mended mistakes, one bit each.
    pub errata: u32,
    /// A refusal was tried.
    pub refuses: Trial,
}

/// The place where the jail's groups would be, and whether they can be made.
#[derive(Clone, Debug)]
pub struct CgroupFacts {
    /// The v2 directory below which they are made.
    pub unified: PathBuf,
    /// The place of each controller.
    pub controllers: Vec<(Controller, ControllerHome)>,
    /// Groups were made, a process born in them, and removed; or why not.
    pub made: Result<(), String>,
    /// The cause of a missing controller, with the fix, where more is known than that.
    pub lacks: Option<String>,
    /// The swap of a group can be limited, or the host has none.
    pub swap_is_bounded: bool,
}

/// mount_setattr(2) with `MOUNT_ATTR_IDMAP`.
#[derive(Clone, Debug)]
pub struct IdMapped {
    /// The directory tried.
    pub directory: PathBuf,
    /// The attempt.
    pub outcome: Trial,
}
