//! Opens a path of the host the way its user means it, and not the way another user bent it.
//!
//! A symlink is followed when the caller or root made it, where nobody else could have put it: so
//! the host is laid out, and so the caller wants it. Anybody else's could turn, between a look and
//! its use, from a directory into a link to a place that nobody meant to give away. The path is
//! walked name by name, each looked at through the descriptor that is then used: nothing is
//! resolved twice.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::FileStat;

use crate::c_string::c_string;
use crate::ids::served::file_user;
use crate::kernel_file;
use crate::sys;

/// As many links as the kernel follows, path_resolution(7).
const MOST_LINKS: usize = 40;

/// The reason why a path was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Another user's symlink.
    #[error(
        "a symlink on the way belongs to another user; name the place it leads to, if that is meant"
    )]
    Foreign,
    /// A symlink that another user may have moved to where it is.
    #[error(
        "a symlink on the way lies in a directory that other users may write; name the place it leads to, if that is meant"
    )]
    Movable,
    /// The kernel's answer.
    #[error(transparent)]
    System(#[from] Errno),
}

/// The treatment of a symlink at the very end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastSymlink {
    /// Follows it like any other.
    Follow,
    /// Refuses it with ELOOP.
    Refuse,
}

/// Opens a path as a handle, `O_PATH`.
pub fn open(path: &Path, last: LastSymlink) -> Result<OwnedFd, PathError> {
    match walk(start(path)?, path, last)? {
        OpenedTarget::Handle(handle) => Ok(handle),
        // As a place of the host it has no name to be opened by.
        OpenedTarget::Inherited(_) => Err(Errno::ELOOP.into()),
    }
}

/// The target of a path.
#[derive(Debug)]
pub enum OpenedTarget {
    /// A handle, `O_PATH`.
    Handle(OwnedFd),
    /// A descriptor of this process, as by /dev/stdin or /dev/fd/3.
    Inherited(RawFd),
}

/// Opens what a path leads to, be it a descriptor of this process.
pub fn target(path: &Path) -> Result<OpenedTarget, PathError> {
    walk(start(path)?, path, LastSymlink::Follow)
}

/// The same from a directory that was opened before.
pub fn target_in(directory: &OwnedFd, name: &OsStr) -> Result<OpenedTarget, PathError> {
    let directory = directory.try_clone().map_err(|_| Errno::EMFILE)?;
    walk(directory, Path::new(name), LastSymlink::Follow)
}

/// The directory that a path begins at.
fn start(path: &Path) -> Result<OwnedFd, Errno> {
    let place = if path.is_absolute() { c"/" } else { c"." };
    sys::open_without_symlinks(place, libc::O_PATH | libc::O_DIRECTORY)
}

fn walk(mut here: OwnedFd, path: &Path, last: LastSymlink) -> Result<OpenedTarget, PathError> {
    let mut names: VecDeque<OsString> = VecDeque::new();
    put_before(&mut names, path);
    let mut links = 0;
    while let Some(name) = names.pop_front() {
        let next = sys::open_name(here.as_fd(), &c_string(&name))?;
        let stat = nix::sys::stat::fstat(&next)?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFLNK {
            here = next;
            continue;
        }
        links += 1;
        if links > MOST_LINKS || (last == LastSymlink::Refuse && names.is_empty()) {
            return Err(Errno::ELOOP.into());
        }
        require_trusted(&stat, &nix::sys::stat::fstat(&here)?)?;
        if names.is_empty()
            && let Some(descriptor) = descriptor(&here, &name)
        {
            return Ok(OpenedTarget::Inherited(descriptor));
        }
        let text = PathBuf::from(nix::fcntl::readlinkat(&next, c"")?);
        if text.is_absolute() {
            here = start(&text)?;
        }
        put_before(&mut names, &text);
    }
    Ok(OpenedTarget::Handle(here))
}

/// The descriptor of this process that the name stands for in /proc/self/fd.
fn descriptor(directory: &OwnedFd, name: &OsStr) -> Option<RawFd> {
    let own = format!("/proc/{}/fd", nix::unistd::getpid());
    let is_own = place_of(directory).ok()? == Path::new(&own);
    name.to_str()
        .filter(|_| is_own)
        .and_then(|name| name.parse().ok())
}

/// A descriptor of this process's own for what `descriptor` stands for, which the caller must have handed in:
/// what this process has opened itself is nobody's to name, and closed on exec.
///
/// # Errors
/// `EBADF` when it is not open, or this process's own.
pub fn inherited(descriptor: RawFd) -> Result<OwnedFd, Errno> {
    sys::duplicate_inherited(descriptor)
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

/// The canonical form of a path, without any symlink.
///
/// # Errors
/// When it leads nowhere, or over another user's symlink.
pub fn canonical(path: &Path) -> Result<PathBuf, PathError> {
    let path = std::path::absolute(path)
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EINVAL)))?;
    Ok(place_of(&open(&path, LastSymlink::Follow)?)?)
}

/// The path of an opened file or directory, without any symlink.
///
/// # Errors
/// When /proc does not say.
pub fn place_of(opened: &OwnedFd) -> Result<PathBuf, Errno> {
    let itself = format!("/proc/self/fd/{}", opened.as_raw_fd());
    nix::fcntl::readlink(itself.as_str()).map(PathBuf::from)
}

/// Puts the names of `path` before those that are there already: a walk takes them from the front.
pub fn put_before(names: &mut VecDeque<OsString>, path: &Path) {
    let of_path = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    for name in of_path.rev() {
        names.push_front(name.to_owned());
    }
}

/// Refuses links that others control: the owner of a directory, or a writer of one that is not sticky, moves links at will.
fn require_trusted(link: &FileStat, directory: &FileStat) -> Result<(), PathError> {
    if !is_trusted(link.st_uid) {
        return Err(PathError::Foreign);
    }
    let bits = directory.st_mode & (libc::S_IWOTH | libc::S_ISVTX);
    if bits == libc::S_IWOTH || !is_trusted(directory.st_uid) {
        return Err(PathError::Movable);
    }
    Ok(())
}

/// True when an owner is root or the caller, as far as the caller can tell users apart.
#[must_use]
pub fn is_trusted(owner: u32) -> bool {
    let caller = file_user().as_raw();
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
    use turnkey_expectations::expected;

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
        let refused = open(&path.join("link"), LastSymlink::Refuse).unwrap_err();
        assert_eq!(refused, PathError::System(Errno::ELOOP));
        assert!(open(&path.join("link/passwd"), LastSymlink::Refuse).is_ok());
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

    expected!(
        another_user_s_link_is_not_followed,
        a_link_that_another_user_may_have_moved_there_is_not_followed: as_root,
        "act as another user, or make files of another's"
    );
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

    #[test]
    fn a_link_that_another_user_may_have_moved_there_is_not_followed() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let (_keep, path) = directory();
        let link = path.join("link");
        symlink("/etc", &link).unwrap();
        let mode = |bits| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(bits);
            std::fs::set_permissions(&path, mode).unwrap();
        };
        for (bits, followed) in [(0o755, true), (0o1777, true), (0o777, false)] {
            mode(bits);
            assert_eq!(canonical(&link).is_ok(), followed, "{bits:o}");
        }
        mode(0o1777);
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        assert_eq!(canonical(&link), Err(PathError::Movable));
    }

    #[test]
    fn a_path_that_leads_to_a_descriptor_says_which() {
        let (_keep, path) = directory();
        symlink("/dev/stderr", path.join("link")).unwrap();
        for (path, number) in [
            (Path::new("/dev/stdin"), 0),
            (Path::new("/proc/self/fd/2"), 2),
            (&path.join("link"), 2),
        ] {
            let target = target(path).unwrap();
            assert!(
                matches!(target, OpenedTarget::Inherited(found) if found == number),
                "{target:?}"
            );
        }
        assert!(open(Path::new("/dev/stdin"), LastSymlink::Follow).is_err());
    }

    #[test]
    fn what_this_process_has_opened_is_not_inherited() {
        let (reading, _writing) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
        assert_eq!(inherited(reading.as_raw_fd()).unwrap_err(), Errno::EBADF);
        let flags = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty());
        nix::fcntl::fcntl(&reading, flags).unwrap();
        assert!(inherited(reading.as_raw_fd()).is_ok(), "the control");
    }
}
