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
//! What such a caller cannot have is told by [`Plan::missing`](crate::Plan::missing): eBPF programs, and control
//! groups unless some were delegated.

use std::ffi::CStr;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};

use crate::plan::c_string;
use crate::privileges;
use crate::sys::{self, MountAttributes};
use crate::userns::{Refusal, Switches};

/// Why the caller cannot make jails.
#[derive(Debug, thiserror::Error)]
pub enum RootlessError {
    /// Somebody else's privileges.
    #[error(
        "turnkey was started with privileges that its caller does not have (a set-user-ID bit or file capabilities); \
         it is not written for that: take them off the file"
    )]
    Elevated,
    /// root without its capabilities.
    #[error(
        "missing privileges: {0}; the jail's user would be root itself: start turnkey as an ordinary user, or as root with all capabilities"
    )]
    PowerlessRoot(String),
    /// unshare(2) says no.
    #[error(
        "an unprivileged caller needs a user namespace of its own, and cannot have one: {refusal}"
    )]
    Refused {
        /// What stands in the way, and the fix.
        refusal: Refusal,
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

/// Puts this process into a user namespace of its own when it lacks the privileges of a jailer;
/// does nothing when it has them. Whether it did is the answer.
///
/// Call it before any thread is started, and before anything is opened that should belong to the
/// namespace. There is no way back for the process, and none is needed.
///
/// # Errors
/// When this host gives an unprivileged caller no user namespace, with the fix.
pub fn enter() -> Result<bool, RootlessError> {
    if sys::is_elevated() {
        return Err(RootlessError::Elevated);
    }
    let missing = privileges::missing();
    if missing.is_empty() {
        return Ok(false);
    }
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    if user.is_root() {
        return Err(RootlessError::PowerlessRoot(missing));
    }
    // Asked before the namespace: inside it every capability is there.
    let switches = Switches::read();
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).map_err(
        |source| match source {
            Errno::EINVAL if has_threads() => RootlessError::Threads,
            _ => refused(&switches, source),
        },
    )?;
    // Without privileges the kernel maps a group only for who cannot leave groups any more.
    write(c"setgroups", "deny").map_err(RootlessError::Map)?;
    write(c"uid_map", &format!("0 {user} 1\n")).map_err(RootlessError::Map)?;
    write(c"gid_map", &format!("0 {group} 1\n")).map_err(RootlessError::Map)?;
    own_mounts().map_err(|source| refused(&switches, source))?;
    Ok(true)
}

fn refused(switches: &Switches, source: Errno) -> RootlessError {
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
    crate::idmap::write_file(std::os::fd::AsFd::as_fd(&directory), file, text)
}

fn has_threads() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1)
}
