//! The walk over both sides of the overlay, as overlayfs would merge them, without mounting it.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, readlinkat};
use nix::sys::stat::{
    FileStat, Mode, UtimensatFlags, fchmod, fstat, fstatat, futimens, mkdirat, utimensat,
};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};

use turnkey_facts::export::{DEEPEST, ExportBounds, Exported, Reason, Scope};

use super::content;
use super::links::WrittenFiles;
use crate::ids::served::umask_of;
use crate::rootfs::OverlaySides;
use crate::rootfs::changes::is_whiteout;
use crate::rootfs::decoys::PlantedDecoys;
use crate::sys;

/// Copies the workspace to `to`, which is or lies in the `destination`.
pub fn export(
    sides: &OverlaySides,
    to: &OwnedFd,
    (scope, bounds): (Scope, ExportBounds),
    destination: &OwnedFd,
) -> Exported {
    let mut walk = ExportWalk {
        scope,
        bounds,
        entries: 0,
        root: to.as_fd(),
        written: WrittenFiles::default(),
        withheld: umask_of(std::process::id()).unwrap_or(0o022),
        itself: [to, destination].map(|directory| identity(directory.as_fd())),
        decoys: &sides.decoys,
        exported: Exported::default(),
    };
    let merged = MergedDirectory {
        upper: Some(sides.upper.as_fd()),
        lower: Some(sides.lower.as_fd()),
    };
    walk.directory(merged, to.as_fd(), &mut Vec::new(), 0);
    walk.exported
}

/// A directory of the workspace: what was written, over what was there.
#[derive(Clone, Copy)]
struct MergedDirectory<'a> {
    upper: Option<BorrowedFd<'a>>,
    lower: Option<BorrowedFd<'a>>,
}

/// A name in a directory, and the side that shows.
struct MergedEntry<'a> {
    side: BorrowedFd<'a>,
    name: &'a CStr,
    stat: FileStat,
}

struct ExportWalk<'a> {
    scope: Scope,
    /// The bounds, of which the bytes go down with each file.
    bounds: ExportBounds,
    entries: usize,
    /// The directory that is written to.
    root: BorrowedFd<'a>,
    /// The files with several names that were written.
    written: WrittenFiles,
    /// The rights that the caller's umask withholds.
    withheld: u32,
    /// The directory that is written to, and the one that it lies in, may lie in the workspace.
    itself: [Option<(u64, u64)>; 2],
    decoys: &'a PlantedDecoys,
    exported: Exported,
}

impl ExportWalk<'_> {
    fn directory(
        &mut self,
        merged: MergedDirectory<'_>,
        to: BorrowedFd<'_>,
        path: &mut Vec<u8>,
        depth: usize,
    ) {
        for name in self.names_of(merged, path) {
            let length = path.len();
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name.to_bytes());
            if let Err(reason) = self.entry(merged, &name, to, path, depth) {
                self.exported.skip(path, reason);
            }
            path.truncate(length);
        }
    }

    /// Both sides' names in order; a directory that cannot be listed is told.
    fn names_of(&mut self, merged: MergedDirectory<'_>, path: &[u8]) -> BTreeSet<CString> {
        let lower = merged.lower.filter(|_| self.scope == Scope::Everything);
        let mut all = BTreeSet::new();
        for side in merged.upper.into_iter().chain(lower) {
            match names(side, self.bounds.entries.saturating_add(1)) {
                Ok(names) => all.extend(names),
                Err(errno) => self.exported.skip(path, Reason::Unreadable(errno)),
            }
        }
        if all.len() > self.bounds.entries {
            // Not all were listed, and no bound on what else there is would be told.
            self.exported.skip(path, Reason::Count);
        }
        all
    }

    fn entry(
        &mut self,
        merged: MergedDirectory<'_>,
        name: &CStr,
        to: BorrowedFd<'_>,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Reason> {
        let Some(entry) = showing(merged, name)? else {
            return Ok(());
        };
        match entry.stat.st_mode & libc::S_IFMT {
            libc::S_IFDIR => self.inner(merged, &entry, to, path, depth),
            libc::S_IFREG => self.file(&entry, to, path),
            libc::S_IFLNK => self.symlink(&entry, to, path),
            libc::S_IFIFO => Err(Reason::Pipe),
            libc::S_IFSOCK => Err(Reason::Socket),
            _ => Err(Reason::Device),
        }
    }

    fn inner(
        &mut self,
        merged: MergedDirectory<'_>,
        entry: &MergedEntry<'_>,
        to: BorrowedFd<'_>,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Reason> {
        let open = |side| open_directory(side, entry.name);
        let upper = merged.upper.map(open).transpose()?.flatten();
        let hides = upper
            .as_ref()
            .is_some_and(|upper| sys::is_opaque(upper.as_fd()));
        let lower = merged.lower.filter(|_| !hides);
        let lower = lower.map(open).transpose()?.flatten();
        // What is being written must not be read as something to write.
        let lower = lower.filter(|lower| !self.itself.contains(&identity(lower.as_fd())));
        if upper.is_none() && lower.is_none() {
            return Ok(());
        }
        self.admit(entry.name)?;
        if depth >= DEEPEST {
            return Err(Reason::Depth);
        }
        mkdirat(to, entry.name, Mode::S_IRWXU).map_err(Reason::Unwritable)?;
        let made = sys::open_beneath(to, entry.name, libc::O_RDONLY | libc::O_DIRECTORY, 0)
            .map_err(Reason::Unwritable)?;
        let inner = MergedDirectory {
            upper: upper.as_ref().map(AsFd::as_fd),
            lower: lower.as_ref().map(AsFd::as_fd),
        };
        self.directory(inner, made.as_fd(), path, depth + 1);
        self.finish(&made, &entry.stat, 0o700)?;
        let in_the_way = lower.is_some() || self.decoys.has_below(path);
        if self.scope == Scope::Changes && in_the_way {
            // It was only in the way to what changed in it. When something did, it stays.
            let _ = unlinkat(to, entry.name, UnlinkatFlags::RemoveDir);
        }
        Ok(())
    }

    fn file(
        &mut self,
        entry: &MergedEntry<'_>,
        to: BorrowedFd<'_>,
        path: &[u8],
    ) -> Result<(), Reason> {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let opened = sys::open_on_same_mount(entry.side, entry.name, flags).map_err(unreadable)?;
        let stat = fstat(&opened).map_err(Reason::Unreadable)?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(Reason::Device);
        }
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if self.decoys.is_planted_at(path) && self.is_decoy(&opened, size, path) {
            return Ok(());
        }
        self.admit(entry.name)?;
        let linked = self.written.link(&stat, self.root, to, entry.name);
        if linked.map_err(Reason::Unwritable)? {
            self.exported.files += 1;
            return Ok(());
        }
        let copied = self.copy(&opened, &stat, entry.name, to).inspect_err(|_| {
            // Half a file is worse than none; that it cannot be removed either changes nothing.
            let _ = unlinkat(to, entry.name, UnlinkatFlags::NoRemoveDir);
        });
        let (written, made) = copied?;
        self.written.note(&stat, path, &made);
        self.bounds.bytes -= written;
        self.exported.files += 1;
        self.exported.bytes += written;
        Ok(())
    }

    /// A new file with the content, the rights and the time of `from`, and nothing else of it: no foreign owner, no
    /// set-user-id, no attribute. The answer is the bytes of data, and the state of the copy.
    fn copy(
        &self,
        from: &OwnedFd,
        stat: &FileStat,
        name: &CStr,
        to: BorrowedFd<'_>,
    ) -> Result<(u64, FileStat), Reason> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let made = sys::open_beneath(to, name, flags, 0o600).map_err(Reason::Unwritable)?;
        let written = content::copy(from.as_fd(), made.as_fd(), stat, self.bounds.bytes)?;
        self.finish(&made, stat, 0o600)?;
        Ok((written, fstat(&made).map_err(Reason::Unwritable)?))
    }

    /// The same text under the same name; nothing is followed. Listings show the text as they show names.
    fn symlink(
        &mut self,
        entry: &MergedEntry<'_>,
        to: BorrowedFd<'_>,
        path: &[u8],
    ) -> Result<(), Reason> {
        let text = readlinkat(entry.side, entry.name).map_err(Reason::Unreadable)?;
        if text.as_bytes().iter().any(u8::is_ascii_control) {
            return Err(Reason::SymlinkText);
        }
        self.admit(entry.name)?;
        symlinkat(text.as_os_str(), to, entry.name).map_err(Reason::Unwritable)?;
        let (before, changed) = (TimeSpec::UTIME_OMIT, changed_at(&entry.stat));
        let flags = UtimensatFlags::NoFollowSymlink;
        utimensat(to, entry.name, &before, &changed, flags).map_err(Reason::Unwritable)?;
        self.exported.symlink(path, text.as_bytes());
        Ok(())
    }

    /// Gives a file or directory the rights and the time that it had: what its owner needs to use it always, nothing that the
    /// caller's umask withholds.
    fn finish(&self, made: &OwnedFd, stat: &FileStat, always: u32) -> Result<(), Reason> {
        let rights = (stat.st_mode & 0o777 & !self.withheld) | always;
        fchmod(made, Mode::from_bits_truncate(rights)).map_err(Reason::Unwritable)?;
        futimens(made, &TimeSpec::UTIME_OMIT, &changed_at(stat)).map_err(Reason::Unwritable)
    }

    /// True for a decoy of turnkey's that is unchanged, which is no result of the program.
    fn is_decoy(&self, file: &OwnedFd, size: u64, path: &[u8]) -> bool {
        const LARGEST: u64 = 4096;
        let mut content = Vec::new();
        let read = file.try_clone().map(|copy| {
            let mut whole = File::from(copy).take(LARGEST);
            whole.read_to_end(&mut content)
        });
        let rewound = nix::unistd::lseek(file, 0, nix::unistd::Whence::SeekSet);
        size <= LARGEST
            && read.is_ok_and(|read| read.is_ok())
            && rewound.is_ok()
            && self.decoys.is_planted(path, &content)
    }

    /// Counts one more entry.
    fn admit(&mut self, name: &CStr) -> Result<(), Reason> {
        if name.to_bytes().iter().any(u8::is_ascii_control) {
            return Err(Reason::Name);
        }
        if self.entries >= self.bounds.entries {
            return Err(Reason::Count);
        }
        self.entries += 1;
        Ok(())
    }
}

fn changed_at(stat: &FileStat) -> TimeSpec {
    TimeSpec::new(stat.st_mtime, stat.st_mtime_nsec)
}

/// The entry that shows under a name: the upper side's, unless that says the name is gone, then the lower's.
fn showing<'a>(
    merged: MergedDirectory<'a>,
    name: &'a CStr,
) -> Result<Option<MergedEntry<'a>>, Reason> {
    for side in merged.upper.into_iter().chain(merged.lower) {
        match fstatat(side, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) if is_whiteout(&stat) => return Ok(None),
            Ok(stat) => return Ok(Some(MergedEntry { side, name, stat })),
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(Reason::Unreadable(errno)),
        }
    }
    Ok(None)
}

/// The directory of this name; `None` when there is none, or something else.
fn open_directory(side: BorrowedFd<'_>, name: &CStr) -> Result<Option<OwnedFd>, Reason> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    match sys::open_on_same_mount(side, name, flags) {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Ok(None),
        Err(errno) => Err(unreadable(errno)),
    }
}

fn unreadable(errno: Errno) -> Reason {
    match errno {
        Errno::EXDEV => Reason::OtherFileSystem,
        other => Reason::Unreadable(other),
    }
}

fn identity(directory: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let stat = fstat(directory).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// The names in a directory but its own two, at most `most`.
pub(super) fn names(directory: BorrowedFd<'_>, most: usize) -> Result<Vec<CString>, Errno> {
    let opened = sys::open_beneath(directory, c".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let mut opened = Dir::from_fd(opened)?;
    let own = |name: &CStr| name == c"." || name == c"..";
    let mut names = Vec::new();
    for entry in opened.iter() {
        let entry = entry?;
        if names.len() >= most {
            break;
        }
        if !own(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}
