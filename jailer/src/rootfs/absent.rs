//! Names of the host that a writable tree does not have: what nobody but its owner and group may use there. A lower side of the
//! overlay, above the host's, has overlayfs's mark for each, and the directories on the way to it. So the program can make and
//! remove a file of that name, as an installer does with its lock.
//!
//! Runs as: the supervisor, in the host's namespaces, with its full privileges.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{
    FchmodatFlags, FileStat, Mode, SFlag, UtimensatFlags, fchmodat, fstat, mkdirat, mknodat,
    utimensat,
};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, Uid, fchownat};

use super::{covers, overlay, relative};
use crate::ids::idmap::HostId;
use crate::sys::{self, MountAttributes};

/// Names that can be absent in one directory of the host; none takes memory but its entry.
pub(super) const MOST: usize = 8192;
/// The size by which the memory file system has an entry for each of them and for the directories on the way.
const SIZE: u64 = 64 << 20;

/// The side of an overlay that hides names of the host.
#[derive(Debug)]
pub(super) struct AbsentSide {
    /// Detached, read-only.
    pub mount: OwnedFd,
    /// The root of it.
    pub opened: OwnedFd,
}

/// Hides `names`, relative to `directory`, whose owner appears as `id`.
pub(super) fn side(
    directory: BorrowedFd<'_>,
    names: &[PathBuf],
    id: HostId,
) -> Result<Option<AbsentSide>, Errno> {
    if names.is_empty() {
        return Ok(None);
    }
    let mount = overlay::memory(SIZE)?;
    let owner = fstat(directory)?;
    let mut made = BTreeMap::new();
    for name in names {
        if way_to(&mount, directory, name, &mut made)? {
            mknodat(&mount, &*relative(name), SFlag::S_IFCHR, Mode::empty(), 0)?;
        }
    }
    // The innermost first: what is made in a directory changes its time.
    for (path, stat) in made.into_iter().rev() {
        like_the_host(&mount, &relative(&path), &stat, &owner, id)?;
    }
    let attributes = MountAttributes {
        set: covers::CLOSED,
        ..MountAttributes::default()
    };
    sys::mount_setattr(mount.as_fd(), false, &attributes)?;
    let opened = sys::open_beneath(mount.as_fd(), c".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    Ok(Some(AbsentSide { mount, opened }))
}

/// Makes the directories that lead to a name; false when the host's have gone.
fn way_to(
    side: &OwnedFd,
    directory: BorrowedFd<'_>,
    name: &Path,
    made: &mut BTreeMap<PathBuf, FileStat>,
) -> Result<bool, Errno> {
    let above: Vec<_> = name.ancestors().skip(1).collect();
    for path in above
        .into_iter()
        .rev()
        .filter(|path| !path.as_os_str().is_empty())
    {
        if made.contains_key(path) {
            continue;
        }
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let opened = match sys::open_on_same_mount(directory, &relative(path), flags) {
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(false),
            opened => opened?,
        };
        mkdirat(side, &*relative(path), Mode::S_IRWXU)?;
        made.insert(path.to_owned(), fstat(&opened)?);
    }
    Ok(true)
}

/// Gives a directory the owner, mode and times by which the host's appears in the jail: overlayfs shows those of the upper one.
fn like_the_host(
    side: &OwnedFd,
    path: &CStr,
    stat: &FileStat,
    owner: &FileStat,
    id: HostId,
) -> Result<(), Errno> {
    let translated = |is, owners, own| if is == owners { own } else { is };
    let user = Uid::from_raw(translated(stat.st_uid, owner.st_uid, id.user));
    let group = Gid::from_raw(translated(stat.st_gid, owner.st_gid, id.group));
    let flags = AtFlags::AT_SYMLINK_NOFOLLOW;
    fchownat(side, path, Some(user), Some(group), flags)?;
    let mode = Mode::from_bits_truncate(stat.st_mode & 0o7777);
    fchmodat(side, path, mode, FchmodatFlags::FollowSymlink)?;
    let accessed = TimeSpec::new(stat.st_atime, stat.st_atime_nsec);
    let changed = TimeSpec::new(stat.st_mtime, stat.st_mtime_nsec);
    let flags = UtimensatFlags::NoFollowSymlink;
    utimensat(side, path, &accessed, &changed, flags)
}
