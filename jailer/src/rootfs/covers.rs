//! Whatever a directory of the host does not show to everybody, where its owner appears as the jail's user. What others may not use at
//! all is absent. A view without the translation covers what they may use and not read, and what leads to another mount of the jail:
//! it stays as it is for anybody else. So does one over what is mounted there, which an overlay does not show.
//!
//! Runs as: the supervisor, in the host's namespaces, with its full privileges.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, fstat, fstatat};

use super::{ReplayStep, RootfsError, absent, attach, failed, paths, relative, view};
use crate::host::kernel;
use crate::host::storage::mounts_below;
use crate::sys;

/// More are not covered one by one.
const MOST: usize = 500;
/// Directories in each other that are looked into.
const DEEPEST: usize = 128;
/// The attributes of a view of the host that nobody changes.
pub(super) const CLOSED: u64 =
    kernel::MOUNT_ATTR_RDONLY | kernel::MOUNT_ATTR_NOSUID | kernel::MOUNT_ATTR_NODEV;

/// Whatever of a directory does not show as its owner has it.
pub(super) struct Covers {
    /// Mounts over it.
    pub views: Vec<ReplayStep>,
    /// Names that are not there, relative to the directory.
    pub absent: Vec<PathBuf>,
}

/// The covers of what lies in `directory`, which is `source` on the host and at `path` in the jail, where these places are
/// `used`.
pub(super) fn over(
    directory: BorrowedFd<'_>,
    source: &Path,
    path: &Path,
    used: &[PathBuf],
) -> Result<Covers, RootfsError> {
    let inside = |place: &PathBuf| place.strip_prefix(path).ok().map(Path::to_owned);
    let mut search = PrivateSearch {
        source,
        used: used.iter().filter_map(inside).collect(),
        found: Vec::new(),
        absent: Vec::new(),
    };
    search.directory(directory, &mut PathBuf::new(), 0)?;
    let mut covered = search.found;
    for place in mounted_in(directory, source)? {
        let is_hidden = search.absent.iter().any(|known| place.starts_with(known));
        if !is_hidden && !covered.iter().any(|(known, _)| place.starts_with(known)) {
            let opened = sys::open_beneath(directory, &relative(&place), libc::O_PATH, 0);
            match opened {
                Ok(opened) => covered.push((place, opened)),
                // Hidden by another mount, and so from the jail.
                Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                Err(errno) => return Err(failed("open", &source.join(place))(errno)),
            }
        }
    }
    let cover = |(place, opened): (PathBuf, OwnedFd)| {
        let kind = fstat(&opened).map_err(failed("look at", source))?;
        let mount = view(&opened, &source.join(&place), is_directory(&kind), CLOSED)?;
        Ok(attach(mount, &path.join(place)))
    };
    let views: Result<_, _> = covered.into_iter().map(cover).collect();
    Ok(Covers {
        views: views?,
        absent: search.absent,
    })
}

/// The outermost mount points below a directory, relative to it.
fn mounted_in(directory: BorrowedFd<'_>, source: &Path) -> Result<Vec<PathBuf>, RootfsError> {
    let copy = directory.try_clone_to_owned();
    let copy = copy.map_err(|_| failed("look at", source)(Errno::EMFILE))?;
    let place = paths::place_of(&copy).map_err(failed("look at", source))?;
    let mut outermost: Vec<PathBuf> = Vec::new();
    for mounted in mounts_below(&place) {
        let Ok(inside) = mounted.strip_prefix(&place) else {
            continue;
        };
        if !outermost.iter().any(|known| inside.starts_with(known)) {
            outermost.push(inside.to_owned());
        }
    }
    Ok(outermost)
}

/// The search for what not everybody may read in a directory.
struct PrivateSearch<'a> {
    source: &'a Path,
    /// The places below that other mounts of the jail, or its grants, need.
    used: Vec<PathBuf>,
    found: Vec<(PathBuf, OwnedFd)>,
    absent: Vec<PathBuf>,
}

impl PrivateSearch<'_> {
    fn directory(
        &mut self,
        directory: BorrowedFd<'_>,
        path: &mut PathBuf,
        depth: usize,
    ) -> Result<(), RootfsError> {
        let source = self.source;
        let unlisted = |path: &Path| failed("look for private files in", &source.join(path));
        if depth >= DEEPEST {
            return Err(unlisted(path)(Errno::ELOOP));
        }
        // It was opened to be listed, by nobody else: a second opening of each would cost a run as much as the listing.
        let copy = directory.try_clone_to_owned();
        let copy = copy.map_err(|_| unlisted(path)(Errno::EMFILE))?;
        let mut listing = Dir::from_fd(copy).map_err(unlisted(path))?;
        for entry in listing.iter() {
            let entry = entry.map_err(unlisted(path))?;
            let is_plain = !matches!(
                entry.file_type(),
                Some(Type::Symlink | Type::Fifo | Type::Socket)
            );
            let name = entry.file_name();
            if is_plain && name != c"." && name != c".." {
                path.push(OsStr::from_bytes(name.to_bytes()));
                self.entry(directory, name, path, depth)?;
                path.pop();
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        path: &mut PathBuf,
        depth: usize,
    ) -> Result<(), RootfsError> {
        let unseen = failed("look for private files in", &self.source.join(&path));
        let stat = match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::ENOENT) => return Ok(()),
            Err(errno) => return Err(unseen(errno)),
        };
        if is_private(&stat) {
            let is_used = stat.st_mode & 0o7 != 0;
            let leads_on = self.used.iter().any(|place| place.starts_with(&path));
            return match is_used || leads_on {
                true => self.cover(directory, name, path),
                false => self.leave_out(path),
            };
        }
        if !is_directory(&stat) {
            return Ok(());
        }
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        match sys::open_on_same_mount(directory, name, flags) {
            Ok(inner) => self.directory(inner.as_fd(), path, depth + 1),
            // What is mounted there is covered as such; or it is gone.
            Err(Errno::EXDEV | Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Ok(()),
            Err(errno) => Err(unseen(errno)),
        }
    }

    fn leave_out(&mut self, path: &Path) -> Result<(), RootfsError> {
        if self.absent.len() >= absent::MOST {
            return Err(self.too_many());
        }
        self.absent.push(path.to_owned());
        Ok(())
    }

    fn too_many(&self) -> RootfsError {
        RootfsError {
            act: "write over",
            path: self.source.to_owned(),
            fix: ": too many files in it are not for everybody; leave `root_mode = \"overlay\"` out, or the directory",
            source: Errno::E2BIG,
        }
    }

    fn cover(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        path: &Path,
    ) -> Result<(), RootfsError> {
        if self.found.len() >= MOST {
            return Err(self.too_many());
        }
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let name: CString = name.to_owned();
        let opened = sys::open_beneath(directory, &name, flags, 0);
        let opened = opened.map_err(failed("open", &self.source.join(path)))?;
        self.found.push((path.to_owned(), opened));
        Ok(())
    }
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

fn is_directory(stat: &FileStat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFDIR
}
