//! Views of the host's files: detached mounts, restricted, with owners translated.
//!
//! Runs as: the supervisor, in the host's namespaces, with its full privileges.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;

use super::{RootfsError, failed, string};
use crate::host::kernel;
use crate::ids::idmap::{HostId, MountOwner};
use crate::ids::served::ServedUser;
use crate::sys::{self, MountAttributes};

/// A detached copy of a host path. Recursive, so that what is mounted below it gets the same
/// attributes: a read-only directory with a writable mount inside is not read-only.
pub(super) fn bind(
    opened: &OwnedFd,
    source: &Path,
    directory: bool,
    set: u64,
    owner: Option<(HostId, Option<ServedUser>)>,
) -> Result<OwnedFd, RootfsError> {
    require_kind(opened, directory).map_err(failed("trust", source))?;
    let mount = view(opened, source, directory, set)?;
    if let Some(whose) = owner {
        translate_owner(&mount, opened, source, whose)?;
    }
    Ok(mount)
}

/// A detached mount of what is open, with `set` on it and, when `recursive`, on all below it.
pub(super) fn view(
    opened: &OwnedFd,
    path: &Path,
    recursive: bool,
    set: u64,
) -> Result<OwnedFd, RootfsError> {
    let mount =
        sys::clone_tree(opened.as_fd(), recursive).map_err(failed("take a view of", path))?;
    let attributes = MountAttributes {
        set,
        propagation: libc::MS_PRIVATE,
        ..MountAttributes::default()
    };
    sys::mount_setattr(mount.as_fd(), recursive, &attributes)
        .map_err(failed("restrict the view of", path))?;
    Ok(mount)
}

pub(super) fn is_directory(opened: &OwnedFd) -> Result<bool, Errno> {
    Ok(nix::sys::stat::fstat(opened)?.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

/// Requires the planned kind of file, a directory or a regular one: a FIFO or socket in its place is refused.
pub(super) fn require_kind(opened: &OwnedFd, directory: bool) -> Result<(), Errno> {
    let kind = nix::sys::stat::fstat(opened)?.st_mode & libc::S_IFMT;
    match (kind, directory) {
        (libc::S_IFDIR, true) | (libc::S_IFREG, false) => Ok(()),
        (_, true) => Err(Errno::ENOTDIR),
        (_, false) => Err(Errno::ENODEV),
    }
}

/// Lets the owner of a host directory, or the user for whom the jail is, appear as the jail's user, through an id-mapped mount.
pub(super) fn translate_owner(
    mount: &OwnedFd,
    source: &OwnedFd,
    path: &Path,
    (id, served): (HostId, Option<ServedUser>),
) -> Result<(), RootfsError> {
    const FOREIGN: &str =
        ": it belongs to another user, and nobody else's files are given to a jail of the caller's";
    const FIX: &str = ": its file system cannot be id-mapped by this kernel; \
                       use `--workdir-mode none` or a directory on another file system";
    // In a caller's own namespace the kernel refuses the translation, and nothing needs it.
    if id.is_caller {
        return Ok(());
    }
    let translated = || {
        let owner = match served {
            None => MountOwner::from_directory(source.as_fd())?,
            Some(served) => MountOwner::from_served(served, source.as_fd())?,
        };
        let namespace = owner.namespace(id)?;
        let user_namespace =
            u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&namespace)).unwrap_or(0);
        let attributes = MountAttributes {
            set: kernel::MOUNT_ATTR_IDMAP,
            user_namespace,
            ..MountAttributes::default()
        };
        sys::mount_setattr(mount.as_fd(), false, &attributes)
    };
    translated().map_err(|source| RootfsError {
        act: "translate the owner of",
        path: path.to_owned(),
        fix: match source {
            Errno::EACCES => FOREIGN,
            _ => FIX,
        },
        source,
    })
}

/// A device node of the host, after a look that it is what its name says: a symlink or another
/// node in its place would be a door.
pub(super) fn device(path: &Path, number: (u32, u32), set: u64) -> Result<OwnedFd, RootfsError> {
    let opened = sys::open_without_symlinks(&string(path), libc::O_PATH | libc::O_NOFOLLOW);
    let opened = opened.map_err(failed("open the device", path))?;
    let stat = nix::sys::stat::fstat(&opened).map_err(failed("look at the device", path))?;
    let expected = libc::makedev(number.0, number.1);
    if stat.st_mode & libc::S_IFMT != libc::S_IFCHR || stat.st_rdev != expected {
        return Err(failed("trust the device", path)(Errno::ENODEV));
    }
    view(&opened, path, false, set)
}
