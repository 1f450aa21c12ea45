//! The changes that the program made to the caller's directory, read from the overlay's upper side.
//!
//! The tree is hostile: it may hold FIFOs, devices, symlinks anywhere, a million files, names with
//! any byte. Nothing is followed, only regular files are opened, and every walk is bounded.

mod content;

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::dir::Dir;
use nix::sys::stat::{FileStat, fstatat};
use sha2::{Digest, Sha256};

use self::content::ContentLook;
use crate::rootfs::decoys::PlantedDecoys;
use crate::rootfs::{OverlaySides, WrittenPlace};
use crate::sys;
use turnkey_facts::{Change, ChangedFile};

/// The most entries that are told.
pub const MOST_ENTRIES: usize = 10_000;
/// The deepest directory that is looked into.
const DEEPEST: usize = 64;
/// Content up to this many bytes is digested.
const LARGEST_DIGESTED: u64 = 64 << 20;

/// The changes on the writable side.
#[derive(Debug, Default)]
pub struct WorkspaceChanges {
    /// At most [`MOST_ENTRIES`], sorted by path.
    pub files: Vec<ChangedFile>,
    /// The number of changes beyond these. What lies in a directory below [`DEEPEST`] others counts as one.
    pub omitted: u64,
}

/// Lists the changes, and counts those that it does not list: of the workspace by paths relative to it, of other places by whole
/// paths.
pub fn collect(workspace: Option<&OverlaySides>, places: &[WrittenPlace]) -> WorkspaceChanges {
    let workspace = workspace.map(|sides| (sides, Vec::new()));
    let whole = |place: &WrittenPlace| place.path.as_os_str().as_bytes().to_vec();
    let others = places.iter().map(|place| (&place.sides, whole(place)));
    let mut found = WorkspaceChanges::default();
    for (sides, mut path) in workspace.into_iter().chain(others) {
        let mut walk = ChangesWalk {
            lower: sides.lower.as_fd(),
            above_lower: [&sides.kept, &sides.absent].map(|side| side.as_ref().map(AsFd::as_fd)),
            decoys: &sides.decoys,
            above: path.len(),
            found: WorkspaceChanges {
                omitted: found.omitted,
                ..WorkspaceChanges::default()
            },
            room: MOST_ENTRIES - found.files.len(),
        };
        walk.directory(sides.upper.as_fd(), &mut path, 0);
        sides.decoys.forget(&mut walk.found.files);
        found.files.append(&mut walk.found.files);
        found.omitted = walk.found.omitted;
    }
    found.files.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

struct ChangesWalk<'a> {
    lower: BorrowedFd<'a>,
    /// The side that was kept, and that with marks for names that the jail lacks.
    above_lower: [Option<BorrowedFd<'a>>; 2],
    decoys: &'a PlantedDecoys,
    /// The length of the path of the place itself.
    above: usize,
    found: WorkspaceChanges,
    /// The entries that can still be listed.
    room: usize,
}

impl<'a> ChangesWalk<'a> {
    fn directory(&mut self, directory: BorrowedFd<'_>, path: &mut Vec<u8>, depth: usize) {
        let Some(mut listing) = listing(directory) else {
            return;
        };
        let names = listing.iter().filter_map(Result::ok);
        let names = names.map(|entry| entry.file_name().to_owned());
        let mut names = names.filter(|name| name.as_c_str() != c"." && name.as_c_str() != c"..");
        // In order as far as they can be told; a directory of millions is not held in memory.
        let mut first: Vec<CString> = names.by_ref().take(MOST_ENTRIES).collect();
        first.sort();
        for name in first.into_iter().chain(names) {
            let length = path.len();
            if length > 0 && path.last() != Some(&b'/') {
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
        let before = self.before(path);
        let existed = before.is_some();
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
            self.record(
                || describe((directory, name), path, change, &stat, before),
                path,
            );
        }
        if !is_directory {
            return;
        }
        let opened = sys::open_beneath(directory, name, libc::O_RDONLY | libc::O_DIRECTORY, 0);
        match opened {
            Ok(inner) if depth < DEEPEST => self.directory(inner.as_fd(), path, depth + 1),
            Ok(inner) => self.found.omitted += u64::from(holds_anything(inner.as_fd())),
            Err(_) => {}
        }
    }

    /// Lists a change while there is room, and counts it from then on.
    fn record(&mut self, describe: impl FnOnce() -> ChangedFile, path: &[u8]) {
        if self.found.files.len() < self.room {
            self.found.files.push(describe());
        } else if !self.decoys.is_planted_at(path) || !self.decoys.is_untouched(&describe()) {
            self.found.omitted += 1;
        }
    }

    /// The file that was at a path before the run, whatever it is.
    fn before(&self, path: &[u8]) -> Option<EarlierFile<'a>> {
        let inside = path.get(self.above..).unwrap_or_default();
        let inside = inside.strip_prefix(b"/").unwrap_or(inside);
        let path = CString::new(inside).ok()?;
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        for side in self.above_lower.into_iter().flatten().chain([self.lower]) {
            match sys::open_beneath(side, &path, flags, 0) {
                Ok(shown) => {
                    let stat = nix::sys::stat::fstat(&shown).ok()?;
                    return (!is_whiteout(&stat)).then_some(EarlierFile { side, path });
                }
                // A mark stands on the way, or a file: what lies below is hidden.
                Err(nix::errno::Errno::ENOTDIR) => return None,
                Err(_) => {}
            }
        }
        None
    }
}

/// A character device 0:0 stands for a name that is gone: overlayfs.
pub(crate) fn is_whiteout(stat: &FileStat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFCHR && stat.st_rdev == 0
}

fn describe(
    (directory, name): (BorrowedFd<'_>, &CStr),
    path: &[u8],
    change: Change,
    stat: &FileStat,
    before: Option<EarlierFile<'_>>,
) -> ChangedFile {
    let regular = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
    let size = if regular {
        u64::try_from(stat.st_size).ok()
    } else {
        None
    };
    let digested = size.filter(|size| *size <= LARGEST_DIGESTED);
    let content = digested.and_then(|_| ContentDigest::of_file(directory, name));
    let compared = content.as_ref().and_then(|after| {
        let (before, modified) = before.and_then(|file| file.look())?;
        let backdated = !before.is_same(&after.look) && is_put_back(modified, modified_ns(stat));
        Some((before.fate(&after.look), backdated))
    });
    let (fate, backdated) = compared.unwrap_or_default();
    ChangedFile {
        path: path.to_vec(),
        change,
        size,
        sha256: content.map(ContentDigest::hex),
        content: fate,
        backdated,
    }
}

/// The time of the last change of a file's content, in nanoseconds.
fn modified_ns(stat: &FileStat) -> i128 {
    i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec)
}

/// True for a time that is the one before, as precisely as it was put back: a number of seconds with a fraction has less than a
/// microsecond of error, and a date of JavaScript or of stat(1) ends with its milliseconds or seconds.
fn is_put_back(before: i128, after: i128) -> bool {
    const MICROSECOND: i128 = 1_000;
    const COARSE: [i128; 2] = [1_000_000, 1_000_000_000];
    let differs = (before - after).abs();
    let is_whole = |unit: &i128| (after + MICROSECOND) % unit < 2 * MICROSECOND;
    differs < MICROSECOND || COARSE.iter().any(|unit| is_whole(unit) && differs < *unit)
}

/// A file that was there before the run: a side of the overlay, and the path below it.
struct EarlierFile<'a> {
    side: BorrowedFd<'a>,
    path: CString,
}

impl EarlierFile<'_> {
    /// The look of the file's content and the time of its last change, in nanoseconds, if it is a regular file and not too large.
    fn look(&self) -> Option<(ContentLook, i128)> {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let place = sys::open_beneath(self.side, &self.path, libc::O_PATH | libc::O_NOFOLLOW, 0);
        let stat = nix::sys::stat::fstat(place.ok()?).ok()?;
        let is_regular = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
        if !is_regular || u64::try_from(stat.st_size).ok()? > LARGEST_DIGESTED {
            return None;
        }
        let file = sys::open_beneath(self.side, &self.path, flags, 0).ok()?;
        let mut look = ContentLook::default();
        std::io::copy(&mut std::fs::File::from(file), &mut look).ok()?;
        Some((look, modified_ns(&stat)))
    }
}

/// The digest and the look of a file's content.
struct ContentDigest {
    hash: Sha256,
    look: ContentLook,
}

impl ContentDigest {
    fn of_file(directory: BorrowedFd<'_>, name: &CStr) -> Option<ContentDigest> {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file: OwnedFd = sys::open_beneath(directory, name, flags, 0).ok()?;
        let mut content = ContentDigest {
            hash: Sha256::new(),
            look: ContentLook::default(),
        };
        std::io::copy(&mut std::fs::File::from(file), &mut content).ok()?;
        Some(content)
    }

    fn hex(self) -> String {
        let bytes = self.hash.finalize();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl std::io::Write for ContentDigest {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.hash.update(bytes);
        self.look.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A directory, opened anew to be listed.
fn listing(directory: BorrowedFd<'_>) -> Option<Dir> {
    let opened = sys::open_beneath(directory, c".", libc::O_RDONLY | libc::O_DIRECTORY, 0);
    Dir::from_fd(opened.ok()?).ok()
}

fn holds_anything(directory: BorrowedFd<'_>) -> bool {
    let names = |mut listing: Dir| listing.iter().take(3).filter_map(Result::ok).count();
    // Its own two are the first.
    listing(directory).is_some_and(|listing| names(listing) > 2)
}
