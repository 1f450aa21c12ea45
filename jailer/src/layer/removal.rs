//! Removal of a directory with all that is in it, which hostile programs have filled: by descriptors, following nothing.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;
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
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let directory = sys::open_on_same_mount(above, name, flags)?;
    for name in names(directory.as_fd())? {
        remove_tree(directory.as_fd(), &name)?;
    }
    unlinkat(above, name, UnlinkatFlags::RemoveDir)
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
