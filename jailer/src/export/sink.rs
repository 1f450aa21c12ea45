//! The place that an export is written to: a directory that is open here, or one of another process.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::stat::{FileStat, Mode, UtimensatFlags, fchmod, fstat, futimens, mkdirat, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, ftruncate, symlinkat, unlinkat};

use super::content::{self, errno_of};
use super::links::{FileId, WrittenFiles};
use crate::sys;

/// The rights and the time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// The permission bits, without those of set-user-ID.
    pub rights: u32,
    /// The time of the last change of the content: seconds and nanoseconds.
    pub changed: (i64, i64),
}

/// The facts on a file that are known when all its data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileEnd {
    /// Bytes, holes included.
    pub size: i64,
    /// The rights and the time.
    pub stamp: FileStamp,
    /// The identity of the original, where that has other names.
    pub linked: Option<FileId>,
}

/// The place. One directory of it is the current one, and one file is written at a time.
pub trait ExportSink {
    /// Makes a directory and goes into it.
    ///
    /// # Errors
    /// When it cannot be made; the current directory is the same then.
    fn enter(&mut self, name: &CStr) -> Result<(), Errno>;
    /// Goes out of the current directory, which is called `name` in the one above it, and stamps it. One that holds nothing stays where
    /// `stays_empty` says so.
    ///
    /// # Errors
    /// When it cannot be stamped; the current directory is the one above all the same.
    fn leave(&mut self, name: &CStr, stamp: FileStamp, stays_empty: bool) -> Result<(), Errno>;
    /// Begins a new file.
    ///
    /// # Errors
    /// When it cannot be made.
    fn begin(&mut self, name: &CStr) -> Result<(), Errno>;
    /// Copies data of `source`, from this place on, to the same place of the file that was begun.
    ///
    /// # Errors
    /// When it cannot be read or written.
    fn copy(&mut self, source: &mut File, at: u64, length: u64) -> Result<u64, Errno>;
    /// Ends the file that was begun.
    ///
    /// # Errors
    /// When it cannot be made as long, or be stamped.
    fn end(&mut self, end: FileEnd) -> Result<(), Errno>;
    /// Removes what was written of a file, whether it was ended or not.
    fn remove(&mut self, name: &CStr);
    /// Gives a file that was written one more name; false when this one was not.
    ///
    /// # Errors
    /// When that cannot be done.
    fn link(&mut self, original: FileId, name: &CStr) -> Result<bool, Errno>;
    /// Makes a symlink.
    ///
    /// # Errors
    /// When it cannot be made.
    fn symlink(&mut self, name: &CStr, text: &OsStr, changed: (i64, i64)) -> Result<(), Errno>;
}

/// A directory that is open here. Nothing is followed, and no name is used that was not made in it.
pub struct DirectorySink<'r> {
    root: BorrowedFd<'r>,
    /// The directories that were entered, the current one last.
    entered: Vec<OwnedFd>,
    /// The path of the current directory.
    path: Vec<u8>,
    file: Option<(Vec<u8>, File)>,
    /// The files with several names that were written.
    written: WrittenFiles,
}

impl<'r> DirectorySink<'r> {
    /// An export to this directory.
    #[must_use]
    pub fn new(root: &'r OwnedFd) -> DirectorySink<'r> {
        DirectorySink {
            root: root.as_fd(),
            entered: Vec::new(),
            path: Vec::new(),
            file: None,
            written: WrittenFiles::default(),
        }
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.entered.last().map_or(self.root, AsFd::as_fd)
    }

    fn path_of(&self, name: &CStr) -> Vec<u8> {
        let mut path = self.path.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.to_bytes());
        path
    }

    /// Writes data to the file that was begun.
    ///
    /// # Errors
    /// When there is none, or the data cannot be written.
    pub fn write(&mut self, at: u64, data: &[u8]) -> Result<(), Errno> {
        let (_, file) = self.file.as_mut().ok_or(Errno::EBADF)?;
        let written = file
            .seek(SeekFrom::Start(at))
            .and_then(|_| file.write_all(data));
        written.map_err(|error| errno_of(&error))
    }
}

impl ExportSink for DirectorySink<'_> {
    fn enter(&mut self, name: &CStr) -> Result<(), Errno> {
        let here = self.here();
        mkdirat(here, name, Mode::S_IRWXU)?;
        let made = sys::open_beneath(here, name, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        self.path = self.path_of(name);
        self.entered.push(made);
        Ok(())
    }

    fn leave(&mut self, name: &CStr, stamp: FileStamp, stays_empty: bool) -> Result<(), Errno> {
        let left = self.entered.pop().ok_or(Errno::EBADF)?;
        let above = self.path.iter().rposition(|byte| *byte == b'/');
        self.path.truncate(above.unwrap_or(0));
        put(&left, stamp)?;
        if !stays_empty {
            // When something is in it, it stays.
            let _ = unlinkat(self.here(), name, UnlinkatFlags::RemoveDir);
        }
        Ok(())
    }

    fn begin(&mut self, name: &CStr) -> Result<(), Errno> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let made = sys::open_beneath(self.here(), name, flags, 0o600)?;
        self.file = Some((self.path_of(name), made.into()));
        Ok(())
    }

    fn copy(&mut self, source: &mut File, at: u64, length: u64) -> Result<u64, Errno> {
        let (_, file) = self.file.as_mut().ok_or(Errno::EBADF)?;
        content::piece(source, file, at, length)
    }

    fn end(&mut self, end: FileEnd) -> Result<(), Errno> {
        let (path, file) = self.file.take().ok_or(Errno::EBADF)?;
        ftruncate(&file, end.size)?;
        put(&file, end.stamp)?;
        if let Some(original) = end.linked {
            let made: FileStat = fstat(&file)?;
            self.written.note(Some(original), &path, &made);
        }
        Ok(())
    }

    fn remove(&mut self, name: &CStr) {
        self.file = None;
        // Half a file is worse than none; that it cannot be removed either changes nothing.
        let _ = unlinkat(self.here(), name, UnlinkatFlags::NoRemoveDir);
    }

    fn link(&mut self, original: FileId, name: &CStr) -> Result<bool, Errno> {
        self.written.link(original, self.root, self.here(), name)
    }

    fn symlink(&mut self, name: &CStr, text: &OsStr, changed: (i64, i64)) -> Result<(), Errno> {
        let here = self.here();
        symlinkat(text, here, name)?;
        let (before, changed) = (TimeSpec::UTIME_OMIT, TimeSpec::new(changed.0, changed.1));
        let flags = UtimensatFlags::NoFollowSymlink;
        utimensat(here, name, &before, &changed, flags)
    }
}

fn put(made: impl AsFd, stamp: FileStamp) -> Result<(), Errno> {
    fchmod(&made, Mode::from_bits_truncate(stamp.rights))?;
    let changed = TimeSpec::new(stamp.changed.0, stamp.changed.1);
    futimens(&made, &TimeSpec::UTIME_OMIT, &changed)
}
