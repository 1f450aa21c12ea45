//! Ceilings on what the kernel counts for a jail's caller.
//!
//! A caller without privileges owns every namespace that it makes, also by way of a namespace of its own, so what a jail
//! takes is taken from the caller: `inc_ucount()` in kernel/ucount.c. Half of it stays with the caller. A jail of root's has an owner of
//! its own, see `process/owner.rs`, and needs no ceiling. What setrlimit(2) sets has its own: `process/rlimits.rs`.

use std::ffi::{CStr, CString};
use std::os::fd::AsFd;

use nix::errno::Errno;

use crate::host::kernel;
use crate::ids::NamespaceIds;
use crate::kernel_file;
use crate::sys;

/// The most of something in one user namespace, namespaces(7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UcountCeiling {
    /// The file below a mounted procfs.
    pub(crate) file: &'static CStr,
    /// The text of the limit.
    pub(crate) most: CString,
}

/// The files that say how much a user may have, and those by which a namespace bounds it.
const COUNTED: [(&str, &CStr); 2] = [
    (
        "/proc/sys/fs/inotify/max_user_instances",
        c"sys/user/max_inotify_instances",
    ),
    (
        "/proc/sys/fs/inotify/max_user_watches",
        c"sys/user/max_inotify_watches",
    ),
];

/// Half of what this host gives a user, in a jail whose user counts as its caller.
pub(crate) fn below(ids: &NamespaceIds) -> Vec<UcountCeiling> {
    if *ids == NamespaceIds::All {
        return Vec::new();
    }
    let ceiling = |(host, file): (&str, &'static CStr)| {
        let most: u64 = kernel_file::read(host).ok()?.trim().parse().ok()?;
        let most = crate::c_string::c_string((most / 2).to_string().as_ref());
        Some(UcountCeiling { file, most })
    };
    COUNTED.into_iter().filter_map(ceiling).collect()
}

/// Sets them for the user namespace of this process, in which it has every capability. By a procfs of its own: the one
/// that is mounted is read-only in many a container.
pub(crate) fn set(ceilings: &[UcountCeiling]) -> Result<(), (u32, Errno)> {
    if ceilings.is_empty() {
        return Ok(());
    }
    let attributes = kernel::MOUNT_ATTR_NOSUID | kernel::MOUNT_ATTR_NODEV;
    let procfs = sys::new_mount::<&CStr>(c"proc", &[], attributes).map_err(|errno| (0, errno))?;
    for (index, ceiling) in (0..).zip(ceilings) {
        let file = sys::open_beneath(procfs.as_fd(), ceiling.file, libc::O_WRONLY, 0);
        file.and_then(|file| nix::unistd::write(file, ceiling.most.as_bytes()))
            .map_err(|errno: Errno| (index, errno))?;
    }
    Ok(())
}
