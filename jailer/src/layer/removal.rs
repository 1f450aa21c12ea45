//! Removal of a directory with all that is in it, which hostile programs have filled: by descriptors, following nothing.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::sys;

/// Removes what `name` is in `above`; nothing there is fine.
///
/// # Errors
/// When something of it cannot be removed, or is mounted there.
pub fn remove_tree(above: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let stat = match fstatat(above, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => return Ok(()),
        stat => stat?,
    };
    if stat.st_mode & libc::S_IFMT != libc::S_IFDIR {
        return unlinkat(above, name, UnlinkatFlags::NoRemoveDir);
    }
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let directory = sys::open_on_same_mount(above, name, flags)?;
    open_to_owner(&directory)?;
    for name in names(directory.as_fd())? {
        remove_tree(directory.as_fd(), &name)?;
    }
    unlinkat(above, name, UnlinkatFlags::RemoveDir)
}

/// Gives the owner all rights on a directory, as a handle: a program may have taken them, and its caller need not be root.
fn open_to_owner(directory: &OwnedFd) -> Result<(), Errno> {
    if fstat(directory)?.st_mode & libc::S_IRWXU == libc::S_IRWXU {
        return Ok(());
    }
    // fchmod(2) takes no handle: the name of the descriptor leads to what it was opened as, and to nothing else.
    let itself = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let follow = FchmodatFlags::FollowSymlink;
    fchmodat(AT_FDCWD, itself.as_str(), Mode::S_IRWXU, follow)
}

/// The names in a directory but its own two.
pub fn names(directory: BorrowedFd<'_>) -> Result<Vec<CString>, Errno> {
    let opened = sys::open_beneath(directory, c".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let mut listing = Dir::from_fd(opened)?;
    let mut names = Vec::new();
    for entry in listing.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}
