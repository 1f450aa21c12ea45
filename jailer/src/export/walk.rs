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
use nix::sys::stat::{FileStat, fstat, fstatat};

use turnkey_facts::export::{DEEPEST, ExportBounds, Exported, Reason, Scope};

use super::ExportedPlaces;
use super::content;
use super::links;
use super::sink::{ExportSink, FileEnd, FileStamp};
use crate::ids::served::{ServedUser, umask_of};
use crate::rootfs::OverlaySides;
use crate::rootfs::changes::is_whiteout;
use crate::rootfs::decoys::PlantedDecoys;
use crate::sys;

/// Copies the workspace to a place, whose own directories `itself` are no part of it. The caller's side is read by the rights of
/// `reader`, where that is somebody else.
pub fn export(
    sides: &OverlaySides,
    (sink, itself): (&mut dyn ExportSink, ExportedPlaces),
    (scope, bounds): (Scope, ExportBounds),
    reader: Option<ServedUser>,
) -> Exported {
    let mut walk = ExportWalk {
        scope,
        bounds,
        entries: 0,
        sink,
        withheld: reader.map_or_else(
            || umask_of(std::process::id()).unwrap_or(0o022),
            |user| user.umask,
        ),
        itself,
        decoys: &sides.decoys,
        exported: Exported::default(),
    };
    let merged = MergedDirectory {
        upper: Some(WorkspaceSide::new(&sides.upper, None)),
        lower: Some(WorkspaceSide::new(&sides.lower, reader)),
    };
    walk.directory(merged, &mut Vec::new(), 0);
    walk.exported
}

/// A directory of the workspace: what was written, over what was there.
#[derive(Clone, Copy)]
struct MergedDirectory<'a> {
    upper: Option<WorkspaceSide<'a>>,
    lower: Option<WorkspaceSide<'a>>,
}

/// A directory of one side, and by whose rights it is read: this process's, where nobody is named.
#[derive(Clone, Copy)]
struct WorkspaceSide<'a> {
    directory: BorrowedFd<'a>,
    reader: Option<ServedUser>,
}

impl<'a> WorkspaceSide<'a> {
    fn new(directory: &'a OwnedFd, reader: Option<ServedUser>) -> WorkspaceSide<'a> {
        WorkspaceSide {
            directory: directory.as_fd(),
            reader,
        }
    }

    /// Looks at what the directory holds by those rights.
    fn read<T>(self, look: impl FnOnce(BorrowedFd<'a>) -> Result<T, Errno>) -> Result<T, Errno> {
        match self.reader {
            None => look(self.directory),
            Some(reader) => reader.with_rights(|| look(self.directory))?,
        }
    }
}

/// A name in a directory, and the side that shows.
struct MergedEntry<'a> {
    side: WorkspaceSide<'a>,
    name: &'a CStr,
    stat: FileStat,
}

struct ExportWalk<'a> {
    scope: Scope,
    /// The bounds, of which the bytes go down with each file.
    bounds: ExportBounds,
    entries: usize,
    sink: &'a mut dyn ExportSink,
    /// The rights that the caller's umask withholds.
    withheld: u32,
    /// The directory that is written to, and the one that it lies in, may lie in the workspace.
    itself: ExportedPlaces,
    decoys: &'a PlantedDecoys,
    exported: Exported,
}

impl ExportWalk<'_> {
    fn directory(&mut self, merged: MergedDirectory<'_>, path: &mut Vec<u8>, depth: usize) {
        for name in self.names_of(merged, path) {
            let length = path.len();
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name.to_bytes());
            if let Err(reason) = self.entry(merged, &name, path, depth) {
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
            let most = self.bounds.entries.saturating_add(2);
            match side.read(|side| names(side, most)) {
                Ok(names) => all.extend(names),
                Err(errno) => self.exported.skip(path, Reason::Unreadable(errno)),
            }
        }
        if all.len() > self.bounds.entries.saturating_add(1) {
            // Not all were listed, and no bound on what else there is would be told.
            let directory = if path.is_empty() { b"." } else { path };
            self.exported.skip(directory, Reason::Listed);
        }
        all
    }

    fn entry(
        &mut self,
        merged: MergedDirectory<'_>,
        name: &CStr,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Reason> {
        let Some(entry) = showing(merged, name)? else {
            return Ok(());
        };
        match entry.stat.st_mode & libc::S_IFMT {
            libc::S_IFDIR => self.inner(merged, &entry, path, depth),
            libc::S_IFREG => self.file(&entry, path),
            libc::S_IFLNK => self.symlink(&entry, path),
            libc::S_IFIFO => Err(Reason::Pipe),
            libc::S_IFSOCK => Err(Reason::Socket),
            _ => Err(Reason::Device),
        }
    }

    fn inner(
        &mut self,
        merged: MergedDirectory<'_>,
        entry: &MergedEntry<'_>,
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
        self.sink.enter(entry.name).map_err(Reason::Unwritable)?;
        let reader = merged.lower.and_then(|lower| lower.reader);
        let inner = MergedDirectory {
            upper: upper.as_ref().map(|upper| WorkspaceSide::new(upper, None)),
            lower: lower
                .as_ref()
                .map(|lower| WorkspaceSide::new(lower, reader)),
        };
        self.directory(inner, path, depth + 1);
        let in_the_way = lower.is_some() || self.decoys.has_below(path);
        // It was only in the way to what changed in it.
        let stays_empty = self.scope != Scope::Changes || !in_the_way;
        let stamp = self.stamp(&entry.stat, 0o700);
        let left = self.sink.leave(entry.name, stamp, stays_empty);
        left.map_err(Reason::Unwritable)?;
        self.exported.stamped(path, entry.stat.st_mode);
        Ok(())
    }

    fn file(&mut self, entry: &MergedEntry<'_>, path: &[u8]) -> Result<(), Reason> {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let open = |side| sys::open_on_same_mount(side, entry.name, flags);
        let opened = entry.side.read(open).map_err(unreadable)?;
        let stat = fstat(&opened).map_err(Reason::Unreadable)?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(Reason::Device);
        }
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if self.decoys.is_planted_at(path) && self.is_decoy(&opened, size, path) {
            return Ok(());
        }
        self.admit(entry.name)?;
        if let Some(original) = links::linked(&stat) {
            let linked = self.sink.link(original, entry.name);
            if linked.map_err(Reason::Unwritable)? {
                self.exported.files += 1;
                return Ok(());
            }
        }
        self.sink.begin(entry.name).map_err(Reason::Unwritable)?;
        let copied = self.copy(&opened, &stat);
        let written = copied.inspect_err(|_| self.sink.remove(entry.name))?;
        self.bounds.bytes -= written;
        self.exported.files += 1;
        self.exported.bytes += written;
        self.exported.stamped(path, stat.st_mode);
        Ok(())
    }

    /// Writes the content, the rights and the time of `from` to the file that was begun, and nothing else of it: no foreign owner, no
    /// set-user-id, no attribute. The answer is the bytes of data.
    fn copy(&mut self, from: &OwnedFd, stat: &FileStat) -> Result<u64, Reason> {
        let (size, room) = (stat.st_size, self.bounds.bytes);
        let written = content::copy_data(from.as_fd(), size, room, |source, at, length| {
            self.sink.copy(source, at, length)
        })?;
        let end = FileEnd {
            size,
            stamp: self.stamp(stat, 0o600),
            linked: links::linked(stat),
        };
        self.sink.end(end).map_err(Reason::Unwritable)?;
        Ok(written)
    }

    /// The same text under the same name; nothing is followed. Listings show the text as they show names.
    fn symlink(&mut self, entry: &MergedEntry<'_>, path: &[u8]) -> Result<(), Reason> {
        let read = |side| readlinkat(side, entry.name);
        let text = entry.side.read(read).map_err(Reason::Unreadable)?;
        if turnkey_policy::visible::steers(text.as_bytes()) {
            return Err(Reason::SymlinkText);
        }
        self.admit(entry.name)?;
        let made = self
            .sink
            .symlink(entry.name, &text, changed_at(&entry.stat));
        made.map_err(Reason::Unwritable)?;
        self.exported.symlink(path, text.as_bytes());
        Ok(())
    }

    /// The rights and the time that a file or directory had: what its owner needs to use it always, nothing that the caller's umask
    /// withholds.
    fn stamp(&self, stat: &FileStat, always: u32) -> FileStamp {
        FileStamp {
            rights: (stat.st_mode & 0o777 & !self.withheld) | always,
            changed: changed_at(stat),
        }
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
        if turnkey_policy::visible::steers(name.to_bytes()) {
            return Err(Reason::Name);
        }
        if self.entries >= self.bounds.entries {
            return Err(Reason::Count);
        }
        self.entries += 1;
        Ok(())
    }
}

fn changed_at(stat: &FileStat) -> (i64, i64) {
    (stat.st_mtime, stat.st_mtime_nsec)
}

/// The entry that shows under a name: the upper side's, unless that says the name is gone, then the lower's.
fn showing<'a>(
    merged: MergedDirectory<'a>,
    name: &'a CStr,
) -> Result<Option<MergedEntry<'a>>, Reason> {
    for side in merged.upper.into_iter().chain(merged.lower) {
        match side.read(|side| fstatat(side, name, AtFlags::AT_SYMLINK_NOFOLLOW)) {
            Ok(stat) if is_whiteout(&stat) => return Ok(None),
            Ok(stat) => return Ok(Some(MergedEntry { side, name, stat })),
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(Reason::Unreadable(errno)),
        }
    }
    Ok(None)
}

/// The directory of this name; `None` when there is none, or something else.
fn open_directory(side: WorkspaceSide<'_>, name: &CStr) -> Result<Option<OwnedFd>, Reason> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    match side.read(|side| sys::open_on_same_mount(side, name, flags)) {
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

/// The identity of an open directory.
pub(super) fn identity(directory: BorrowedFd<'_>) -> Option<(u64, u64)> {
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
