//! A name that one process keeps as long as it lives, so that no other gives it to a file of its own meanwhile.
//!
//! The file that has the name carries a lock (fcntl(2), `F_OFD_SETLK`), which goes with the process, and which only who may write
//! the file can set: a reader keeps nobody from the name. Whoever wants the name looks for that lock first. Of several who want
//! one that nobody keeps, one gets the name beside it, as link(2) replaces nothing, and only who has that renames.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, openat, renameat};
use nix::libc;
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::{OpenOutput, OutputName};

/// The longest time that another process may take between two calls, as it renames.
const RENAMING: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(1);
/// The most bytes of the name that the name beside it has, which must not be longer than a name may be.
const MOST_BYTES: usize = 200;

impl OpenOutput {
    /// A file of another name in the same directory, with a number in front of its extension, and its path; `None` of a stream.
    pub fn beside(&self, number: u32) -> io::Result<Option<(OpenOutput, PathBuf)>> {
        let OpenOutput::File(_, place) = self else {
            return Ok(None);
        };
        let whole = numbered(&place.whole, number);
        let beside = OutputName {
            directory: place.directory.as_fd().try_clone_to_owned()?,
            name: whole.file_name().unwrap_or_default().to_owned(),
            there: None,
            whole: whole.clone(),
            kept: None,
        };
        let file = beside.unnamed()?;
        Ok(Some((OpenOutput::File(file, beside), whole)))
    }
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

impl OutputName {
    /// Gives the name to a locked file; `false` when another process keeps it.
    pub(super) fn take(&self, file: &File) -> io::Result<bool> {
        let beside = self.beside();
        let begun = Instant::now();
        while begun.elapsed() < RENAMING {
            match self.link(file, &self.name) {
                Err(Errno::EEXIST) => {}
                linked => return Ok(linked.map(|()| true)?),
            }
            if self.is_kept(&self.name) {
                return Ok(false);
            }
            match self.link(file, &beside) {
                Ok(()) => return self.replace_by(&beside),
                Err(Errno::EEXIST) if self.is_kept(&beside) => {}
                Err(Errno::EEXIST) => self.remove_left(&beside)?,
                Err(error) => return Err(error.into()),
            }
            thread::sleep(AGAIN);
        }
        Ok(false)
    }

    /// Gives the name to the file of the name beside it, which nobody else takes: whoever wants the name now waits.
    fn replace_by(&self, beside: &OsStr) -> io::Result<bool> {
        if self.is_kept(&self.name) {
            unlinkat(&self.directory, beside, UnlinkatFlags::NoRemoveDir)?;
            return Ok(false);
        }
        let renamed = renameat(&self.directory, beside, &self.directory, &*self.name);
        renamed.inspect_err(|_| {
            // The error of the rename is the one to tell.
            let _ = unlinkat(&self.directory, beside, UnlinkatFlags::NoRemoveDir);
        })?;
        Ok(true)
    }

    fn beside(&self) -> OsString {
        let name = self.name.as_bytes();
        let name = &name[..name.len().min(MOST_BYTES)];
        OsString::from_vec([b".turnkey-", name].concat())
    }

    /// Removes what a process that was killed has left beside the name. Who locks it does: another may have removed it, and have
    /// put its own there, which is locked.
    fn remove_left(&self, beside: &OsStr) -> io::Result<()> {
        let Some(left) = self.opened(beside, OFlag::O_WRONLY) else {
            return Ok(());
        };
        let locked = fcntl(&left, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_WRLCK)));
        let there = self.opened(beside, OFlag::O_RDONLY);
        let inode = |file: &OwnedFd| fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
        if locked.is_ok() && there.is_some_and(|there| inode(&there) == inode(&left)) {
            unlinkat(&self.directory, beside, UnlinkatFlags::NoRemoveDir)?;
        }
        Ok(())
    }

    /// True when a process that lives keeps the file of this name. What cannot be looked at is nobody's: it is replaced, or the
    /// kernel says why not.
    fn is_kept(&self, name: &OsStr) -> bool {
        let opened = self.opened(name, OFlag::O_RDONLY);
        opened.is_some_and(|file| is_locked(&file))
    }

    fn opened(&self, name: &OsStr, access: OFlag) -> Option<OwnedFd> {
        let flags = access | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        openat(&self.directory, name, flags, Mode::empty()).ok()
    }
}

/// A lock that other processes find, on all of the file.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the constants of fcntl(2) are below five"
)]
fn whole_file(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Locks a file that nobody else has. Where the file system has no locks, nobody keeps a name.
pub(super) fn lock(file: &File) -> io::Result<()> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_WRLCK))) {
        Err(Errno::ENOLCK | Errno::EOPNOTSUPP | Errno::EINVAL) | Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// True when a process that may write the file has locked it.
fn is_locked(file: &OwnedFd) -> bool {
    // A lock for reading is in the way of none but those for writing.
    let mut found = whole_file(libc::F_RDLCK);
    let asked = fcntl(file, FcntlArg::F_OFD_GETLK(&mut found));
    asked.is_ok() && libc::c_int::from(found.l_type) != libc::F_UNLCK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_in_front_of_the_extension() {
        for (path, expected) in [
            ("/log/web.json", "/log/web-7.json"),
            ("/log/web.service.json", "/log/web.service-7.json"),
            ("/report", "/report-7"),
        ] {
            assert_eq!(numbered(Path::new(path), 7), Path::new(expected));
        }
    }
}
