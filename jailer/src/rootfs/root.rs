//! A root of the profile's own, `filesystem.root`: what is in it, looked at without following
//! anything it holds. Whoever filled it is not trusted.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, fstatat};
use turnkey_policy::{FilesystemPolicy, HostPath};

use crate::c_string::c_string;
use crate::host::PathFact;
use crate::rootfs::paths::{self, LastSymlink, PathError};
use crate::sys;

/// More entries at the top, or in /etc, are no root of a system.
const MOST_ENTRIES: usize = 2_000;

/// The contents of a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootFacts {
    /// The entries of its top, and in place of /etc those of that: absolute as seen from inside, sorted.
    pub entries: BTreeMap<PathBuf, PathFact>,
    /// The files that it has where the profile asks for mounts.
    pub places: BTreeMap<PathBuf, PathFact>,
}

/// The reason why a root cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// The root cannot be opened.
    #[error("the root {} cannot be used", .0.display())]
    Open(PathBuf, #[source] PathError),
    /// A directory of it cannot be listed.
    #[error("the root {} cannot be used: could not list {}", .0.display(), .1.display())]
    List(PathBuf, PathBuf, #[source] Errno),
    /// The root has too many entries.
    #[error("the root {} cannot be used: {} holds more than {MOST_ENTRIES} entries; name a directory that holds a system and nothing else", .0.display(), .1.display())]
    TooMany(PathBuf, PathBuf),
    /// The root's /etc leads elsewhere.
    #[error(
        "the root {} cannot be used: its /etc is no directory, and the jail's own account files belong there; make it one", .0.display()
    )]
    Etc(PathBuf),
}

/// Looks at the root that `filesystem` names.
pub fn probe(root: &Path, filesystem: &FilesystemPolicy) -> Result<RootFacts, RootError> {
    let opened = paths::open(root, LastSymlink::Refuse);
    let opened = opened.map_err(|error| RootError::Open(root.to_owned(), error))?;
    let mut entries = list(root, opened.as_fd(), Path::new("/"))?;
    let etc = Path::new("/etc");
    match entries.remove(etc) {
        None => {}
        Some(PathFact::Directory) => entries.extend(list(root, opened.as_fd(), etc)?),
        Some(_) => return Err(RootError::Etc(root.to_owned())),
    }
    let read = filesystem.read.iter().map(HostPath::place);
    let write = filesystem.write.iter().map(HostPath::place);
    let scratch = filesystem.scratch.iter().map(|scratch| &scratch.path);
    let wanted = read.chain(write).chain(scratch);
    let places = wanted.map(|path| (path.clone(), beneath(opened.as_fd(), path)));
    Ok(RootFacts {
        places: places.collect(),
        entries,
    })
}

fn list(
    root: &Path,
    opened: BorrowedFd<'_>,
    directory: &Path,
) -> Result<BTreeMap<PathBuf, PathFact>, RootError> {
    let failed = |errno| RootError::List(root.to_owned(), directory.to_owned(), errno);
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let listed = sys::open_beneath(opened, &inside(directory), flags, 0).map_err(failed)?;
    let handle = listed.try_clone().map_err(|_| failed(Errno::EMFILE))?;
    let mut entries = BTreeMap::new();
    for entry in Dir::from_fd(listed).map_err(failed)?.iter() {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if entries.len() >= MOST_ENTRIES {
            return Err(RootError::TooMany(root.to_owned(), directory.to_owned()));
        }
        let path = directory.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
        entries.insert(path, look(handle.as_fd(), name));
    }
    Ok(entries)
}

/// Relative to the root; the root itself is a dot.
fn inside(path: &Path) -> std::ffi::CString {
    let relative = path.strip_prefix("/").unwrap_or(path);
    if relative == Path::new("") {
        return c".".to_owned();
    }
    c_string(relative.as_os_str())
}

fn look(directory: BorrowedFd<'_>, name: &CStr) -> PathFact {
    let stat = fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW);
    let text = || nix::fcntl::readlinkat(directory, name).unwrap_or_default();
    stat.map_or(PathFact::Missing, |stat| kind(&stat, text))
}

fn kind(stat: &FileStat, text: impl FnOnce() -> OsString) -> PathFact {
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFDIR => PathFact::Directory,
        libc::S_IFREG => PathFact::File,
        libc::S_IFLNK => PathFact::Symlink {
            text: text().into(),
            leads_to: None,
        },
        _ => PathFact::Special,
    }
}

/// The file at `path` when nothing on the way is a symlink.
fn beneath(root: BorrowedFd<'_>, path: &Path) -> PathFact {
    let opened = sys::open_beneath(root, &inside(path), libc::O_PATH | libc::O_NOFOLLOW, 0);
    let stat = opened.and_then(|opened| nix::sys::stat::fstat(&opened));
    stat.map_or(PathFact::Missing, |stat| kind(&stat, OsString::new))
}
