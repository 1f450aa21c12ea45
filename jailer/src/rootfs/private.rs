//! The search for whatever of a directory of the host not everybody may read. It looks at every file of /usr: the CPUs share it.
//!
//! Runs as: the supervisor, in the host's namespaces, with its full privileges.

use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, fstatat};
use rustix::fs::{FileType, RawDir};

use super::{RootfsError, absent, failed};
use crate::sys;

/// More are not covered one by one.
const MOST: usize = 500;
/// Directories in each other that are looked into.
const DEEPEST: usize = 128;
/// More threads than this only wait for each other.
const MOST_THREADS: usize = 8;
/// The names of a directory are read in parts of this many bytes.
const NAMES: usize = 32 << 10;

/// Whatever of a directory not everybody may read, by its place in it.
#[derive(Default)]
pub(super) struct PrivateFiles {
    /// Files that others may use, or that lead to a place of the jail: opened as paths.
    pub used: Vec<(PathBuf, OwnedFd)>,
    /// Files that nobody else may use at all.
    pub unused: Vec<PathBuf>,
}

/// Finds the files that not everybody may read in `directory`, which is `source` on the host; `used` are the places below it that other mounts of the
/// jail, or its grants, need.
///
/// # Errors
///
/// A directory cannot be listed, or lies too deep; or too many files are found.
pub(super) fn search(
    directory: BorrowedFd<'_>,
    source: &Path,
    used: Vec<PathBuf>,
) -> Result<PrivateFiles, RootfsError> {
    // It was opened to be listed, by nobody else.
    let opened = directory.try_clone_to_owned();
    let opened = opened.map_err(|_| failed("look at", source)(Errno::EMFILE))?;
    let search = PrivateSearch {
        source,
        used,
        state: Mutex::default(),
        changed: Condvar::new(),
    };
    search.directory((&Arc::new(opened), Path::new(""), 0), &mut names())?;
    let helpers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 1..helpers.min(MOST_THREADS) {
            // Where the caller's limits allow no other thread, this one does it all.
            let _ = thread::Builder::new().spawn_scoped(scope, || search.work());
        }
        search.work();
    });
    let state = search.state.into_inner();
    let SearchState { found, failure, .. } = state.unwrap_or_else(PoisonError::into_inner);
    match failure {
        Some(failure) => Err(failure),
        None => Ok(in_order(found)),
    }
}

/// Sorts by path: the result does not depend on which thread was first.
fn in_order(mut found: PrivateFiles) -> PrivateFiles {
    found.used.sort_by(|(one, _), (other, _)| one.cmp(other));
    found.unused.sort();
    found
}

/// A directory that nobody has looked into yet: its parent, its name there, its place in all, and how deep it lies.
type UnseenDirectory = (Arc<OwnedFd>, CString, PathBuf, usize);

/// A search that several threads share.
struct PrivateSearch<'a> {
    source: &'a Path,
    used: Vec<PathBuf>,
    state: Mutex<SearchState>,
    /// There is another directory to look into, or none will come.
    changed: Condvar,
}

#[derive(Default)]
struct SearchState {
    /// The last is looked into first: a parent stays open until all of its directories were, and so few are.
    unseen: Vec<UnseenDirectory>,
    /// Threads that look into a directory.
    working: usize,
    found: PrivateFiles,
    failure: Option<RootfsError>,
}

impl PrivateSearch<'_> {
    /// Looks into directories until nobody finds another.
    fn work(&self) {
        let mut names = names();
        while let Some((parent, name, path, depth)) = self.next() {
            let looked = self.inner(&parent, &name, &path, depth, &mut names);
            drop(parent);
            let mut state = self.state();
            state.working -= 1;
            if let Err(failure) = looked {
                state.failure.get_or_insert(failure);
            }
            self.changed.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, SearchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<UnseenDirectory> {
        let is_to_wait = |state: &mut SearchState| {
            state.failure.is_none() && state.unseen.is_empty() && state.working > 0
        };
        let state = self.changed.wait_while(self.state(), is_to_wait);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.failure.is_some() {
            return None;
        }
        let next = state.unseen.pop()?;
        state.working += 1;
        Some(next)
    }

    fn inner(
        &self,
        parent: &OwnedFd,
        name: &CStr,
        path: &Path,
        depth: usize,
        names: &mut [MaybeUninit<u8>],
    ) -> Result<(), RootfsError> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        match sys::open_on_same_mount(parent.as_fd(), name, flags) {
            Ok(opened) => self.directory((&Arc::new(opened), path, depth), names),
            // What is mounted there is covered as such; or it is gone.
            Err(Errno::EXDEV | Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Ok(()),
            Err(errno) => Err(self.unlisted(path, errno)),
        }
    }

    fn directory(
        &self,
        (directory, path, depth): (&Arc<OwnedFd>, &Path, usize),
        names: &mut [MaybeUninit<u8>],
    ) -> Result<(), RootfsError> {
        if depth >= DEEPEST {
            return Err(self.unlisted(path, Errno::ELOOP));
        }
        let mut inner = Vec::new();
        let mut found = PrivateFiles::default();
        let mut listing = RawDir::new(directory, names);
        while let Some(entry) = listing.next() {
            let unlisted = |errno: rustix::io::Errno| {
                self.unlisted(path, Errno::from_raw(errno.raw_os_error()))
            };
            let entry = entry.map_err(unlisted)?;
            let name = entry.file_name();
            let is_plain = !matches!(
                entry.file_type(),
                FileType::Symlink | FileType::Fifo | FileType::Socket
            );
            if !is_plain || name == c"." || name == c".." {
                continue;
            }
            let place = || path.join(OsStr::from_bytes(name.to_bytes()));
            let stat = match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::ENOENT) => continue,
                Err(errno) => return Err(self.unlisted(&place(), errno)),
            };
            if is_private(&stat) {
                self.note(directory, name, (place(), &stat), &mut found)?;
            } else if is_directory(&stat) {
                inner.push((directory.clone(), name.to_owned(), place(), depth + 1));
            }
        }
        self.add(inner, found)
    }

    /// Notes a private file: nobody sees what others may not use, unless it leads to what the jail needs.
    fn note(
        &self,
        directory: &OwnedFd,
        name: &CStr,
        (path, stat): (PathBuf, &FileStat),
        found: &mut PrivateFiles,
    ) -> Result<(), RootfsError> {
        let is_used = stat.st_mode & 0o7 != 0;
        if !is_used && !self.used.iter().any(|place| place.starts_with(&path)) {
            found.unused.push(path);
            return Ok(());
        }
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let opened = sys::open_beneath(directory.as_fd(), name, flags, 0);
        let opened = opened.map_err(failed("open", &self.source.join(&path)))?;
        found.used.push((path, opened));
        Ok(())
    }

    fn add(&self, inner: Vec<UnseenDirectory>, found: PrivateFiles) -> Result<(), RootfsError> {
        let mut state = self.state();
        state.found.used.extend(found.used);
        state.found.unused.extend(found.unused);
        if state.found.used.len() > MOST || state.found.unused.len() > absent::MOST {
            return Err(self.too_many());
        }
        if !inner.is_empty() {
            state.unseen.extend(inner);
            self.changed.notify_all();
        }
        Ok(())
    }

    fn unlisted(&self, path: &Path, errno: Errno) -> RootfsError {
        failed("look for private files in", &self.source.join(path))(errno)
    }

    fn too_many(&self) -> RootfsError {
        RootfsError {
            act: "write over",
            path: self.source.to_owned(),
            fix: ": too many files in it are not for everybody; leave `root_mode = \"overlay\"` out, or the directory",
            source: Errno::E2BIG,
        }
    }
}

fn names() -> Vec<MaybeUninit<u8>> {
    vec![MaybeUninit::uninit(); NAMES]
}

/// True for a file that not everybody may read, and a directory that not everybody may list and enter. The mode of an owner
/// who may not either is none: an owner changes it; and an access list may name one who owns nothing here.
fn is_private(stat: &FileStat) -> bool {
    let uses = match stat.st_mode & libc::S_IFMT {
        libc::S_IFDIR => 0o5,
        libc::S_IFREG => 0o4,
        _ => return false,
    };
    stat.st_mode & uses != uses
}

pub(super) fn is_directory(stat: &FileStat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFDIR
}
