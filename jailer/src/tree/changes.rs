//! What the program wrote over the caller's directory, read from the overlay's upper side.
//!
//! The tree is hostile: it may hold FIFOs, devices, symlinks anywhere, a million files, names with
//! any byte. Nothing is followed, only regular files are opened, and every walk is bounded.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::dir::Dir;
use nix::sys::stat::{FileStat, fstatat};
use sha2::{Digest, Sha256};

use crate::outcome::{Change, ChangedFile};
use crate::sys;
use crate::tree::OverlaySides;

/// The most entries that are told.
pub const MOST_ENTRIES: usize = 10_000;
/// The deepest directory that is looked into.
const DEEPEST: usize = 64;
/// Content up to this many bytes is digested.
const LARGEST_DIGESTED: u64 = 64 << 20;

/// Lists all changes, sorted by path.
pub fn collect(sides: &OverlaySides) -> Vec<ChangedFile> {
    let mut walk = Walk {
        lower: sides.lower.as_fd(),
        found: Vec::new(),
    };
    walk.directory(sides.upper.as_fd(), &mut Vec::new(), 0);
    sides.decoys.forget(&mut walk.found);
    walk.found.sort_by(|one, other| one.path.cmp(&other.path));
    walk.found
}

struct Walk<'a> {
    lower: BorrowedFd<'a>,
    found: Vec<ChangedFile>,
}

impl Walk<'_> {
    fn directory(&mut self, directory: BorrowedFd<'_>, path: &mut Vec<u8>, depth: usize) {
        for name in names(directory) {
            if self.found.len() >= MOST_ENTRIES {
                return;
            }
            let length = path.len();
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name.to_bytes());
            self.entry(directory, &name, path, depth);
            path.truncate(length);
        }
    }

    fn entry(&mut self, directory: BorrowedFd<'_>, name: &CStr, path: &mut Vec<u8>, depth: usize) {
        let Ok(stat) = fstatat(directory, name, nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW) else {
            return;
        };
        let existed = self.existed(path);
        let change = if is_whiteout(&stat) {
            Change::Deleted
        } else if existed {
            Change::Modified
        } else {
            Change::Added
        };
        let is_directory = stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
        // A directory that was there is only in the way to what changed inside it.
        if !(is_directory && existed) {
            self.found
                .push(describe(directory, name, path, change, &stat));
        }
        if is_directory && depth < DEEPEST {
            let opened = sys::open_beneath(directory, name, libc::O_RDONLY | libc::O_DIRECTORY, 0);
            if let Ok(inner) = opened {
                self.directory(inner.as_fd(), path, depth + 1);
            }
        }
    }

    fn existed(&self, path: &[u8]) -> bool {
        let Ok(path) = CString::new(path) else {
            return false;
        };
        sys::open_beneath(self.lower, &path, libc::O_PATH | libc::O_NOFOLLOW, 0).is_ok()
    }
}

/// A character device 0:0 stands for a name that is gone: overlayfs.
pub(crate) fn is_whiteout(stat: &FileStat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFCHR && stat.st_rdev == 0
}

fn describe(
    directory: BorrowedFd<'_>,
    name: &CStr,
    path: &[u8],
    change: Change,
    stat: &FileStat,
) -> ChangedFile {
    let regular = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
    let size = if regular {
        u64::try_from(stat.st_size).ok()
    } else {
        None
    };
    let digested = size.filter(|size| *size <= LARGEST_DIGESTED);
    let sha256 = digested.and_then(|_| digest(directory, name));
    ChangedFile {
        path: path.to_vec(),
        change,
        size,
        sha256,
    }
}

fn digest(directory: BorrowedFd<'_>, name: &CStr) -> Option<String> {
    let file: OwnedFd = sys::open_beneath(
        directory,
        name,
        libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK,
        0,
    )
    .ok()?;
    let mut hash = Sha256::new();
    std::io::copy(&mut std::fs::File::from(file), &mut HashWriter(&mut hash)).ok()?;
    Some(
        hash.finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    )
}

struct HashWriter<'a>(&'a mut Sha256);

impl std::io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The names in a directory, but its own two, at most as many as are ever told.
fn names(directory: BorrowedFd<'_>) -> Vec<CString> {
    let opened = sys::open_beneath(directory, c".", libc::O_RDONLY | libc::O_DIRECTORY, 0);
    let Some(mut opened) = opened.ok().and_then(|fd| Dir::from_fd(fd).ok()) else {
        return Vec::new();
    };
    let entries = opened
        .iter()
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_owned());
    let real = entries.filter(|name| name.as_c_str() != c"." && name.as_c_str() != c"..");
    let mut names: Vec<CString> = real.take(MOST_ENTRIES).collect();
    names.sort();
    names
}
