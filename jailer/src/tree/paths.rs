//! Opens a path of the host the way its user means it, and not the way another user bent it.
//!
//! A symlink is followed when the caller or root made it: so the host is laid out, and so the
//! caller wants it. Anybody else's could turn, between a look and its use, from a directory into a
//! link to a place that nobody meant to give away. The path is walked name by name, each looked at
//! through the descriptor that is then used: nothing is resolved twice.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

use crate::kernel_file;
use crate::plan::c_string;
use crate::sys;

/// As many links as the kernel follows, path_resolution(7).
const MOST_LINKS: usize = 40;

/// Why a path was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Another user's symlink.
    #[error(
        "a symlink on the way belongs to another user; name the place it leads to, if that is meant"
    )]
    Foreign,
    /// The kernel's answer.
    #[error(transparent)]
    System(#[from] Errno),
}

/// What happens to a symlink at the very end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// It is followed like any other.
    Follow,
    /// It is refused with ELOOP.
    Refuse,
}

/// Opens an absolute path as a handle, `O_PATH`.
pub fn open(path: &Path, last: Last) -> Result<OwnedFd, PathError> {
    let root = || sys::open_without_symlinks(c"/", libc::O_PATH | libc::O_DIRECTORY);
    let mut here = root()?;
    let mut names: VecDeque<OsString> = VecDeque::new();
    push(&mut names, path);
    let mut links = 0;
    while let Some(name) = names.pop_front() {
        let next = sys::open_name(here.as_fd(), &c_string(&name))?;
        let stat = nix::sys::stat::fstat(&next)?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFLNK {
            here = next;
            continue;
        }
        links += 1;
        if links > MOST_LINKS || (last == Last::Refuse && names.is_empty()) {
            return Err(Errno::ELOOP.into());
        }
        require_trusted(stat.st_uid)?;
        let text = PathBuf::from(nix::fcntl::readlinkat(&next, c"")?);
        if text.is_absolute() {
            here = root()?;
        }
        push(&mut names, &text);
    }
    Ok(here)
}

/// Opens a name in a directory that was opened before, as a handle. A symlink is refused with ELOOP.
pub fn open_in(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd, PathError> {
    let opened = sys::open_name(directory.as_fd(), &c_string(name))?;
    if kind_of(&opened)? == libc::S_IFLNK {
        return Err(Errno::ELOOP.into());
    }
    Ok(opened)
}

fn kind_of(opened: &OwnedFd) -> Result<libc::mode_t, Errno> {
    Ok(nix::sys::stat::fstat(opened)?.st_mode & libc::S_IFMT)
}

/// Where a path leads in the end, without any symlink.
///
/// # Errors
/// When it leads nowhere, or over another user's symlink.
pub fn canonical(path: &Path) -> Result<PathBuf, PathError> {
    let path = std::path::absolute(path)
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EINVAL)))?;
    let opened = open(&path, Last::Follow)?;
    let itself = format!("/proc/self/fd/{}", opened.as_raw_fd());
    Ok(PathBuf::from(nix::fcntl::readlink(itself.as_str())?))
}

/// The names of `path` before those that are there already.
fn push(names: &mut VecDeque<OsString>, path: &Path) {
    let of_path = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    for name in of_path.rev() {
        names.push_front(name.to_owned());
    }
}

fn require_trusted(owner: u32) -> Result<(), PathError> {
    is_trusted(owner).then_some(()).ok_or(PathError::Foreign)
}

/// Whether an owner is root or the caller, as far as the caller can tell users apart.
#[must_use]
pub fn is_trusted(owner: u32) -> bool {
    let caller = nix::unistd::geteuid().as_raw();
    owner == 0 || owner == caller || Some(owner) == unmapped()
}

/// In a namespace of few ids root shows as this number, and so does everybody else: there, only
/// what the caller may read can be given away at all.
fn unmapped() -> Option<u32> {
    let map = kernel_file::read("/proc/self/uid_map").unwrap_or_default();
    let whole = map.split_whitespace().eq(["0", "0", "4294967295"]);
    let overflow = kernel_file::read("/proc/sys/kernel/overflowuid").ok()?;
    overflow.trim().parse().ok().filter(|_| !whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn directory() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        (directory, path)
    }

    #[test]
    fn links_of_the_caller_are_followed_to_the_end() {
        let (_keep, path) = directory();
        std::fs::create_dir(path.join("real")).unwrap();
        symlink("real", path.join("short")).unwrap();
        symlink(path.join("short"), path.join("long")).unwrap();
        symlink("long/../real/.", path.join("winding")).unwrap();
        for name in ["real", "short", "long", "winding"] {
            assert_eq!(canonical(&path.join(name)), Ok(path.join("real")), "{name}");
        }
    }

    #[test]
    fn a_last_link_can_be_refused() {
        let (_keep, path) = directory();
        symlink("/etc", path.join("link")).unwrap();
        let refused = open(&path.join("link"), Last::Refuse).unwrap_err();
        assert_eq!(refused, PathError::System(Errno::ELOOP));
        assert!(open(&path.join("link/passwd"), Last::Refuse).is_ok());
    }

    #[test]
    fn a_circle_ends() {
        let (_keep, path) = directory();
        symlink("other", path.join("one")).unwrap();
        symlink("one", path.join("other")).unwrap();
        assert_eq!(
            canonical(&path.join("one")),
            Err(PathError::System(Errno::ELOOP))
        );
    }

    #[test]
    fn another_user_s_link_is_not_followed() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let (_keep, path) = directory();
        symlink("/etc", path.join("link")).unwrap();
        assert!(canonical(&path.join("link")).is_ok(), "the control");
        std::os::unix::fs::lchown(path.join("link"), Some(65_534), None).unwrap();
        assert_eq!(canonical(&path.join("link")), Err(PathError::Foreign));
        assert_eq!(
            canonical(&path.join("link/passwd")),
            Err(PathError::Foreign)
        );
    }
}
