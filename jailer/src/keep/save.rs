//! The content of a layer after a run, made of what was kept before and what the run has written.
//!
//! Regular files, directories, symlinks and the marks of removed names; no device, pipe or socket, no set-user-ID bit, no extended
//! attribute. What a run did not touch is the same file in both contents.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, readlinkat};
use nix::sys::stat::{
    FileStat, Mode, SFlag, UtimensatFlags, fchmod, fstat, fstatat, futimens, mkdirat, mknodat,
    utimensat,
};
use nix::sys::time::TimeSpec;
use nix::unistd::{fchown, fchownat, linkat, symlinkat};
use turnkey_facts::export::Reason;

use crate::export::copy;
use crate::export::links::{self, WrittenFiles};
use crate::ids::idmap::has_every_id;
use crate::layer::{MOST_DIRECTORIES, OWNER, name_of, names};
use crate::rootfs::changes::is_whiteout;
use crate::rootfs::decoys::PlantedDecoys;
use crate::rootfs::{OverlaySides, files_of};
use crate::sys;

/// Directories in each other that are kept.
const DEEPEST: usize = 64;

/// The content of a layer after a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Regular files.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Devices, pipes and sockets, and what lies too deep: not kept.
    pub left_out: u64,
}

/// The reason why nothing is kept.
#[derive(Debug)]
pub(super) enum Stop {
    Bytes,
    Entries,
    Directories,
    System(Errno),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Stop::System(errno)
    }
}

/// Fills `next` from the places that were written and the content before; places of other runs stay as they are.
pub(super) fn save(
    written: &[(&Path, &OverlaySides)],
    content: &OwnedFd,
    next: &OwnedFd,
    most: u64,
) -> Result<Saved, Stop> {
    let mut total = LayerWriter {
        most_bytes: most,
        most_entries: files_of(most),
        owner: has_every_id().then_some(OWNER),
        entries: 0,
        directories: 0,
        saved: Saved::default(),
    };
    let mut places: BTreeSet<CString> = names(content.as_fd())?.into_iter().collect();
    places.extend(written.iter().map(|(path, _)| name_of(path)));
    for name in places {
        let run = written.iter().find(|(path, _)| name_of(path) == name);
        let old = directory_of(Some(content.as_fd()), &name)?;
        let upper = run.map(|(_, sides)| sides.upper.as_fd());
        mkdirat(next, name.as_c_str(), Mode::S_IRWXU)?;
        let made = sys::open_beneath(next.as_fd(), &name, DIRECTORY, 0)?;
        let decoys = run.map_or_else(PlantedDecoys::default, |(_, sides)| sides.decoys.clone());
        let mut place = PlaceWriter {
            total: &mut total,
            root: made.as_fd(),
            linked: WrittenFiles::default(),
            is_written: run.is_some(),
            decoys,
        };
        let merged = Merged {
            upper,
            old: old.as_ref().map(AsFd::as_fd),
            below: run.map(|(_, sides)| sides.lower.as_fd()),
            absent: run.and_then(|(_, sides)| sides.absent.as_ref().map(AsFd::as_fd)),
        };
        place.directory(merged, made.as_fd(), &mut Vec::new(), 0)?;
        let shown = upper.or(old.as_ref().map(AsFd::as_fd));
        if let Some(shown) = shown {
            total.finish(&made, &fstat(shown)?)?;
        }
    }
    Ok(total.saved)
}

const DIRECTORY: i32 = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;

/// A directory as the run has written it, as it was kept before, and as the host has it below both. A mark of a name that is gone
/// belongs where there is something to hide: elsewhere overlayfs would list the mark.
#[derive(Clone, Copy)]
struct Merged<'a> {
    upper: Option<BorrowedFd<'a>>,
    old: Option<BorrowedFd<'a>>,
    below: Option<BorrowedFd<'a>>,
    /// Marks of what the host has there and the jail has not.
    absent: Option<BorrowedFd<'a>>,
}

impl Merged<'_> {
    /// True when the jail would see something of the host's by this name.
    fn hides(self, name: &CStr) -> Result<bool, Errno> {
        Ok(!self.is_absent(name)? && look(self.below, name)?.is_some())
    }

    fn directory_below(self, name: &CStr) -> Result<Option<OwnedFd>, Errno> {
        match self.is_absent(name)? {
            true => Ok(None),
            false => directory_of(self.below, name),
        }
    }

    fn is_absent(self, name: &CStr) -> Result<bool, Errno> {
        let mark = look(self.absent, name)?;
        Ok(mark.is_some_and(|(_, stat)| is_whiteout(&stat)))
    }
}

struct LayerWriter {
    most_bytes: u64,
    most_entries: u64,
    /// The owner of what is written; the caller where there is no other.
    owner: Option<u32>,
    entries: u64,
    directories: u64,
    saved: Saved,
}

impl LayerWriter {
    fn entry(&mut self) -> Result<(), Stop> {
        self.entries += 1;
        match self.entries > self.most_entries {
            true => Err(Stop::Entries),
            false => Ok(()),
        }
    }

    fn directory(&mut self) -> Result<(), Stop> {
        self.directories += 1;
        match self.directories > MOST_DIRECTORIES {
            true => Err(Stop::Directories),
            false => Ok(()),
        }
    }

    fn file(&mut self, bytes: u64) -> Result<(), Stop> {
        self.saved.files += 1;
        self.saved.bytes += bytes;
        match self.saved.bytes > self.most_bytes {
            true => Err(Stop::Bytes),
            false => Ok(()),
        }
    }

    /// The owner, the rights without any that raise somebody, and the time.
    fn finish(&self, made: &OwnedFd, stat: &FileStat) -> Result<(), Stop> {
        let owner = self.owner;
        fchown(made, owner.map(Into::into), owner.map(Into::into))?;
        fchmod(made, Mode::from_bits_truncate(stat.st_mode & 0o1777))?;
        futimens(made, &TimeSpec::UTIME_OMIT, &changed_at(stat))?;
        Ok(())
    }
}

struct PlaceWriter<'a> {
    total: &'a mut LayerWriter,
    root: BorrowedFd<'a>,
    linked: WrittenFiles,
    /// False for a place of other runs, of which nobody knows here what is below.
    is_written: bool,
    decoys: PlantedDecoys,
}

impl PlaceWriter<'_> {
    fn directory(
        &mut self,
        merged: Merged<'_>,
        to: BorrowedFd<'_>,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Stop> {
        let mut all = BTreeSet::new();
        for side in [merged.upper, merged.old].into_iter().flatten() {
            all.extend(names(side)?);
        }
        for name in all {
            let length = path.len();
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name.to_bytes());
            // A decoy is planted anew by each run.
            if !self.decoys.is_planted_at(path) {
                self.entry(merged, &name, to, path, depth)?;
            }
            path.truncate(length);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        merged: Merged<'_>,
        name: &CStr,
        to: BorrowedFd<'_>,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Stop> {
        self.total.entry()?;
        let (upper, old) = (look(merged.upper, name)?, look(merged.old, name)?);
        let Some((side, stat, is_new)) = upper
            .or(old)
            .map(|(side, stat)| (side, stat, upper.is_some()))
        else {
            return Ok(());
        };
        match stat.st_mode & libc::S_IFMT {
            libc::S_IFDIR if depth < DEEPEST => {
                let hidden = old.is_some_and(|(_, old)| !is_directory(&old));
                self.inner(merged, (name, &stat, hidden), to, path, depth)
            }
            libc::S_IFREG if is_new => self.written(side, name, to, path),
            libc::S_IFREG => {
                linkat(side, name, to, name, AtFlags::empty())?;
                self.total.file(size(&stat))
            }
            libc::S_IFLNK => self.symlink(side, name, &stat, to),
            _ if is_whiteout(&stat) => {
                if !self.is_written || merged.hides(name)? {
                    mknodat(to, name, SFlag::S_IFCHR, Mode::empty(), 0)?;
                }
                Ok(())
            }
            _ => {
                self.total.saved.left_out += 1;
                Ok(())
            }
        }
    }

    /// A directory; `hidden` when something else was kept under its name, which hides what the host has there.
    fn inner(
        &mut self,
        merged: Merged<'_>,
        (name, stat, hidden): (&CStr, &FileStat, bool),
        to: BorrowedFd<'_>,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Stop> {
        let upper = directory_of(merged.upper, name)?;
        let hides = upper
            .as_ref()
            .is_some_and(|upper| sys::is_opaque(upper.as_fd()));
        let old = match hides || hidden {
            true => None,
            false => directory_of(merged.old, name)?,
        };
        self.total.directory()?;
        let hid = old.as_ref().is_some_and(|old| sys::is_opaque(old.as_fd()));
        mkdirat(to, name, Mode::S_IRWXU)?;
        let made = sys::open_beneath(to, name, DIRECTORY, 0)?;
        let below = match hides || hidden || hid {
            true => {
                sys::set_opaque(made.as_fd())?;
                None
            }
            false => merged.directory_below(name)?,
        };
        let absent = directory_of(merged.absent, name)?;
        let inner = Merged {
            upper: upper.as_ref().map(AsFd::as_fd),
            old: old.as_ref().map(AsFd::as_fd),
            below: below.as_ref().map(AsFd::as_fd),
            absent: absent.as_ref().map(AsFd::as_fd),
        };
        self.directory(inner, made.as_fd(), path, depth + 1)?;
        self.total.finish(&made, stat)
    }

    /// A file that the run has written: a copy of it.
    fn written(
        &mut self,
        side: BorrowedFd<'_>,
        name: &CStr,
        to: BorrowedFd<'_>,
        path: &[u8],
    ) -> Result<(), Stop> {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let opened = sys::open_on_same_mount(side, name, flags)?;
        let stat = fstat(&opened)?;
        if self.linked.link(links::id(&stat), self.root, to, name)? {
            return Ok(());
        }
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let made = sys::open_beneath(to, name, flags, 0o600)?;
        let room = self.total.most_bytes.saturating_sub(self.total.saved.bytes);
        let copied = copy(opened.as_fd(), made.as_fd(), &stat, room);
        copied.map_err(|reason| match reason {
            Reason::Unreadable(errno) | Reason::Unwritable(errno) => Stop::System(errno),
            _ => Stop::Bytes,
        })?;
        self.total.finish(&made, &stat)?;
        let made = fstat(&made)?;
        self.linked.note(links::linked(&stat), path, &made);
        self.total.file(size(&made))
    }

    fn symlink(
        &mut self,
        side: BorrowedFd<'_>,
        name: &CStr,
        stat: &FileStat,
        to: BorrowedFd<'_>,
    ) -> Result<(), Stop> {
        let text = readlinkat(side, name)?;
        symlinkat(text.as_os_str(), to, name)?;
        let owner = self.total.owner.map(Into::into);
        let flags = AtFlags::AT_SYMLINK_NOFOLLOW;
        fchownat(to, name, owner, self.total.owner.map(Into::into), flags)?;
        let flags = UtimensatFlags::NoFollowSymlink;
        utimensat(to, name, &TimeSpec::UTIME_OMIT, &changed_at(stat), flags)?;
        Ok(())
    }
}

fn changed_at(stat: &FileStat) -> TimeSpec {
    TimeSpec::new(stat.st_mtime, stat.st_mtime_nsec)
}

/// Bytes on the disk: the holes of a sparse file are none.
fn size(stat: &FileStat) -> u64 {
    const BLOCK: u64 = 512;
    u64::try_from(stat.st_blocks).unwrap_or(0) * BLOCK
}

fn is_directory(stat: &FileStat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFDIR
}

/// The entry of a side, if it has one of this name.
fn look<'a>(
    side: Option<BorrowedFd<'a>>,
    name: &CStr,
) -> Result<Option<(BorrowedFd<'a>, FileStat)>, Errno> {
    let Some(side) = side else {
        return Ok(None);
    };
    match fstatat(side, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some((side, stat))),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The directory of this name; `None` when there is none, or something else.
fn directory_of(side: Option<BorrowedFd<'_>>, name: &CStr) -> Result<Option<OwnedFd>, Errno> {
    let Some(side) = side else {
        return Ok(None);
    };
    match sys::open_on_same_mount(side, name, DIRECTORY) {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Ok(None),
        Err(errno) => Err(errno),
    }
}
