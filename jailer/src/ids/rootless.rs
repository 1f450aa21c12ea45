//! A jail for a caller without privileges.
//!
//! The kernel lets anybody make a user namespace and be root in it. [`enter`] puts the whole
//! process into one, with a mount namespace of its own; there the jailer finds every capability it
//! needs, and builds the jail's namespaces below. The host's files, its processes and /proc stay
//! what they were, and so does the caller: what it reads and writes, it does as itself.
//!
//! ```text
//! host ── outer: caller is root ── jail: caller is the jail's user, without a capability
//! ```
//!
//! With a range in /etc/subuid and /etc/subgid, and newuidmap(1) to map it, the outer namespace has
//! those ids as well; then groups can be left, and a jail without a directory of the caller's gets
//! a user of its own.
//!
//! What such a caller cannot have is told by [`Plan::missing`](crate::Plan::missing): eBPF programs, and control
//! groups unless some were delegated.

use std::ffi::CStr;

use caps::{CapSet, Capability};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid};

use crate::c_string::c_string;
use crate::host::trial;
use crate::ids::subordinate::{IdMapper, SubordinateIds};
use crate::ids::userns::{NamespaceRefusal, NamespaceSwitches};
use crate::ids::{chroot, container};
use crate::kernel_file;
use crate::process::privileges;
use crate::sys::{self, MountAttributes};

/// The reason why the caller cannot make jails.
#[derive(Debug, thiserror::Error)]
pub enum RootlessError {
    /// A file with privileges that its caller does not have.
    #[error(
        "turnkey was started with privileges that its caller does not have (a set-user-ID bit or file capabilities); \
         it is not written for that: take them off the file"
    )]
    Elevated,
    /// root without its capabilities.
    #[error("missing privileges: {missing}; the jail's user would be root itself: {fix}")]
    PowerlessRoot {
        /// The capabilities, and what for.
        missing: String,
        /// The advice that works here.
        fix: String,
    },
    /// unshare(2) says no.
    #[error(
        "an unprivileged caller needs a user namespace of its own, and cannot have one: {refusal}"
    )]
    Refused {
        /// The cause and the fix.
        refusal: NamespaceRefusal,
        /// The kernel's answer.
        source: Errno,
    },
    /// Threads keep the namespace they were made in.
    #[error(
        "a user namespace can only be entered while the process has a single thread; enter it first of all"
    )]
    Threads,
    /// The maps of ids.
    #[error("could not map the caller's id into a user namespace of its own")]
    Map(#[source] Errno),
}

/// Puts this process into a user namespace of its own when it lacks the privileges of a jailer. Whether it did is
/// the answer. Where it has them, it [leaves a chroot](leave_chroot).
///
/// Call it before any thread is started, and before anything is opened that should belong to the
/// namespace. There is no way back for the process, and none is needed.
///
/// # Errors
/// When this host gives an unprivileged caller no user namespace, with the fix.
pub fn enter() -> Result<bool, RootlessError> {
    if privileges::are_borrowed() {
        return Err(RootlessError::Elevated);
    }
    let missing = privileges::missing();
    if missing.is_empty() {
        leave_chroot();
        return Ok(false);
    }
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    if user.is_root() {
        let fix = without_powers();
        return Err(RootlessError::PowerlessRoot { missing, fix });
    }
    if is_multithreaded() {
        return Err(RootlessError::Threads);
    }
    // Asked before the namespace: inside it every capability is there.
    let switches = NamespaceSwitches::read();
    let ranges = SubordinateIds::for_user(user.as_raw());
    let mapper =
        ranges.and_then(|ranges| IdMapper::start(ranges, user.as_raw(), group.as_raw()).ok());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
        .map_err(|source| refused(&switches, source))?;
    if !mapper.is_some_and(IdMapper::map) {
        map_caller(user, group).map_err(RootlessError::Map)?;
    }
    own_mounts().map_err(|source| refused(&switches, source))?;
    Ok(true)
}

/// Makes the root directory of this process, which has one thread and all privileges, the root of a mount namespace
/// of its own where it is in a chroot(2): there the kernel gives no user namespace to anybody. Nothing happens
/// elsewhere, nor where it cannot be done.
pub fn leave_chroot() {
    if !is_multithreaded() {
        chroot::leave();
    }
}

/// The ways out for root without capabilities: to have them, or not to be root, where that is enough.
fn without_powers() -> String {
    let with_all = container::how_to_have_privileges(container::is_here());
    let can = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
    let can_leave = can(Capability::CAP_SETUID) && can(Capability::CAP_SETGID);
    if can_leave && trial::procfs().is_ok() {
        format!(
            "{with_all}; or be an ordinary user, who can have the jail without the monitor: \
             setpriv --reuid 65534 --regid 65534 --clear-groups turnkey run --best-effort …"
        )
    } else {
        with_all
    }
}

/// Maps the caller alone. What the helper has mapped before it failed stays mapped.
fn map_caller(user: Uid, group: Gid) -> Result<(), Errno> {
    if is_unmapped("gid_map") {
        // Without privileges the kernel maps a group only for who cannot leave groups any more.
        write(c"setgroups", "deny")?;
        write(c"gid_map", &format!("0 {group} 1\n"))?;
    }
    if is_unmapped("uid_map") {
        write(c"uid_map", &format!("0 {user} 1\n"))?;
    }
    Ok(())
}

fn is_unmapped(file: &str) -> bool {
    let map = kernel_file::read(format!("/proc/self/{file}"));
    map.is_ok_and(|map| map.trim().is_empty())
}

fn refused(switches: &NamespaceSwitches, source: Errno) -> RootlessError {
    RootlessError::Refused {
        refusal: switches.explain(source),
        source,
    }
}

/// The first act that takes a capability of the new namespace: AppArmor can have taken them.
/// Nothing that is mounted here shows on the host, nor the other way.
fn own_mounts() -> Result<(), Errno> {
    let root = sys::open_following(c"/", libc::O_PATH | libc::O_DIRECTORY)?;
    let private = MountAttributes {
        propagation: libc::MS_PRIVATE,
        ..MountAttributes::default()
    };
    sys::mount_setattr(std::os::fd::AsFd::as_fd(&root), true, &private)
}

fn write(file: &CStr, text: &str) -> Result<(), Errno> {
    let directory = sys::open_following(
        &c_string("/proc/self".as_ref()),
        libc::O_PATH | libc::O_DIRECTORY,
    )?;
    crate::ids::idmap::write_file(std::os::fd::AsFd::as_fd(&directory), file, text)
}

fn is_multithreaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1)
}
