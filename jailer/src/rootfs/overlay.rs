//! The overlays of a jail: a directory of the host, and the memory that takes what is written over it.
//!
//! Runs as: the supervisor, in the host's namespaces, which reads the writable side when the jail is gone.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::stat::{FchmodatFlags, Mode};
use turnkey_facts::Written;

use super::decoys::PlantedDecoys;
use super::{
    ReplayStep, RootfsError, failed, memory_options, relative, require_kind, string,
    translate_owner, view,
};
use crate::host::kernel;
use crate::ids::idmap::HostId;
use crate::ids::served::ServedUser;
use crate::sys;

/// Both sides of the overlay, as the supervisor keeps them.
#[derive(Debug)]
pub struct OverlaySides {
    /// The caller's directory.
    pub lower: OwnedFd,
    /// The marks of what it has and the jail has not.
    pub absent: Option<OwnedFd>,
    /// The directory of what earlier runs have kept, between both.
    pub kept: Option<OwnedFd>,
    /// The directory that took the writes.
    pub upper: OwnedFd,
    /// The decoys that turnkey wrote there itself.
    pub decoys: PlantedDecoys,
}

impl OverlaySides {
    /// The fill of the writable side, statfs(2); `None` when the kernel does not say.
    pub fn written(&self) -> Option<Written> {
        let now = nix::sys::statfs::fstatfs(&self.upper).ok()?;
        let block = u64::try_from(now.block_size()).ok()?;
        Some(Written {
            bytes: now.blocks().saturating_sub(now.blocks_free()) * block,
            most_bytes: now.blocks() * block,
            files: now.files().saturating_sub(now.files_free()),
            most_files: now.files(),
        })
    }
}

/// The working directory, with what was `kept` of it, under memory of this `size`.
pub(super) fn workspace(
    (source, host, kept): (&Path, OwnedFd, Option<OwnedFd>),
    path: &Path,
    size: u64,
    (id, served): (HostId, Option<ServedUser>),
) -> Result<(ReplayStep, OverlaySides), RootfsError> {
    require_kind(&host, true).map_err(failed("use as the working directory", source))?;
    let set = kernel::MOUNT_ATTR_RDONLY | kernel::MOUNT_ATTR_NOSUID | kernel::MOUNT_ATTR_NODEV;
    let lower = view(&host, source, false, set).map_err(|error| RootfsError {
        fix: below(error.source, id),
        ..error
    })?;
    translate_owner(&lower, &host, source, (id, served))?;
    let (upper, data) =
        upper(size, &host, id).map_err(failed("make the writable side of", source))?;
    let sides = OverlaySides {
        lower: host,
        absent: None,
        kept: copy_of(kept.as_ref()).map_err(failed("use what was kept of", source))?,
        upper: data,
        decoys: PlantedDecoys::default(),
    };
    Ok((
        ReplayStep::Overlay {
            lower,
            kept,
            upper,
            path: relative(path),
        },
        sides,
    ))
}

/// The cause of an EINVAL or EPERM: another mount below a directory hides something of it, and only root may look behind.
fn below(errno: Errno, id: HostId) -> &'static str {
    if errno == Errno::EINVAL && id.is_caller {
        return ": something else is mounted below it, which only root can leave out; \
                start in another directory, or use `--workdir-mode read-only`";
    }
    ""
}

/// The tmpfs that takes the writes, with the two directories overlayfs wants.
fn upper(size: u64, host: &OwnedFd, id: HostId) -> Result<(OwnedFd, OwnedFd), Errno> {
    let upper = memory(size)?;
    let data = writable_side(&upper, (c"data", c"work"), host, id)?;
    Ok((upper, data))
}

/// A tmpfs, detached. Made here and not by the child, so that the supervisor can read it when the jail is gone.
pub(crate) fn memory(size: u64) -> Result<OwnedFd, Errno> {
    let options = memory_options(size, "0755").map(|(name, value)| (string(name), string(value)));
    let attributes = kernel::MOUNT_ATTR_NOSUID | kernel::MOUNT_ATTR_NODEV;
    sys::new_mount(c"tmpfs", &options, attributes)
}

/// The two directories that overlayfs wants for what is written over `host`, the jail's user's; the first one opened.
pub(super) fn writable_side(
    upper: &OwnedFd,
    (data, work): (&CStr, &CStr),
    host: &OwnedFd,
    id: HostId,
) -> Result<OwnedFd, Errno> {
    // The merged directory shows the mode of its upper side, so that takes the host's.
    let mode = Mode::from_bits_truncate(nix::sys::stat::fstat(host)?.st_mode & 0o1777);
    for name in [data, work] {
        nix::sys::stat::mkdirat(upper, name, Mode::S_IRWXU)?;
        nix::sys::stat::fchmodat(
            upper,
            name,
            mode | Mode::S_IRWXU,
            FchmodatFlags::FollowSymlink,
        )?;
        let (user, group) = (
            nix::unistd::Uid::from_raw(id.user),
            nix::unistd::Gid::from_raw(id.group),
        );
        let flags = nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW;
        nix::unistd::fchownat(upper, name, Some(user), Some(group), flags)?;
    }
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    sys::open_beneath(upper.as_fd(), data, flags, 0)
}

/// Another descriptor of the same.
pub(super) fn copy_of(kept: Option<&OwnedFd>) -> Result<Option<OwnedFd>, Errno> {
    let copy = kept.map(OwnedFd::try_clone).transpose();
    copy.map_err(|_| Errno::EMFILE)
}
