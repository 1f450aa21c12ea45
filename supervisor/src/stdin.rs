//! The program's input: never an open file description of the caller's.
//!
//! Flags, an owner for signals, locks and an offset belong to the description, and whoever has a copy of the descriptor can
//! set them; the caller, and everybody who shares its input, would find them set afterwards. So a regular file, a pipe and the
//! null device are opened once more, and everything else, a terminal or a socket above all, is passed on through a pipe.
//!
//! A file that was opened once more is still the caller's file: for as long as the jail lives it can be locked, as any file that
//! a jail may read. Nothing of that is left when the last process of the jail is gone.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat, makedev};
use nix::sys::statfs::{FsType, fstatfs};
use nix::unistd::{Whence, lseek};
use turnkey_jailer::NamespaceIds;

use crate::relay;

/// The caller's side of the program's input.
pub enum ProgramInput {
    /// To be written to by a relay.
    Relayed(OwnedFd),
    /// The program has a description of its own.
    Reopened(ReopenedInput),
}

/// The caller's input, and the description that the program got instead.
pub struct ReopenedInput {
    theirs: OwnedFd,
    own: File,
    before: StateBefore,
}

/// The state of the file or its description that is put back.
#[derive(Clone, Copy)]
enum StateBefore {
    /// The offset at which the caller was.
    Offset(i64),
    /// Bytes that the pipe holds, which every reader can change, and its mode, where the jail's user is let in.
    Pipe(i32, Option<Mode>),
    /// No such thing.
    Nothing,
}

/// Opens the program's input; the answer is its descriptor, and what is left to do for it.
pub fn open(stdin: BorrowedFd<'_>) -> io::Result<(OwnedFd, ProgramInput)> {
    // A file that cannot be opened a second time (somebody else's, handed in open) is passed on.
    if let Some(before) = reopenable(stdin)?
        && let Ok(own) = reopen(stdin, before)
    {
        let inside = own.as_fd().try_clone_to_owned()?;
        let before = match before {
            StateBefore::Pipe(size, _) => StateBefore::Pipe(size, let_in(&own)?),
            other => other,
        };
        let theirs = stdin.try_clone_to_owned()?;
        let input = ReopenedInput {
            theirs,
            own,
            before,
        };
        return Ok((inside, ProgramInput::Reopened(input)));
    }
    let (inside, outside) = relay::pipe()?;
    Ok((inside, ProgramInput::Relayed(outside)))
}

/// Only what is open for reading alone, so that nothing is gained by opening it.
fn reopenable(stream: BorrowedFd<'_>) -> io::Result<Option<StateBefore>> {
    let flags = OFlag::from_bits_truncate(fcntl(stream, FcntlArg::F_GETFL)?);
    if flags & OFlag::O_ACCMODE != OFlag::O_RDONLY || flags.contains(OFlag::O_PATH) {
        return Ok(None);
    }
    let stat = fstat(stream)?;
    let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
    Ok(match kind {
        SFlag::S_IFREG => Some(StateBefore::Offset(lseek(stream, 0, Whence::SeekCur)?)),
        // The jail of a caller without privileges may have the caller's user: it could open the pipe for writing, and what
        // it wrote there would be read by whoever reads on after it.
        SFlag::S_IFIFO if NamespaceIds::probe() != NamespaceIds::All => None,
        SFlag::S_IFIFO => Some(StateBefore::Pipe(
            fcntl(stream, FcntlArg::F_GETPIPE_SZ)?,
            None,
        )),
        SFlag::S_IFCHR if stat.st_rdev == makedev(1, 3) => Some(StateBefore::Nothing),
        _ => None,
    })
}

/// Lets the jail's user open the pipe by the name of the program's descriptor, `/dev/stdin`, as whoever made it could: to read,
/// and no more. Nobody else comes to it, since the way is a process that has it (proc_pid_fd(5)). The answer is the mode before.
/// A FIFO with a name of its own stays as it is, as does a pipe whose mode the caller may not change.
fn let_in(pipe: &File) -> io::Result<Option<Mode>> {
    let mode = Mode::from_bits_truncate(fstat(pipe)?.st_mode);
    let is_nameless = fstatfs(pipe)?.filesystem_type() == PIPES;
    let is_changed =
        is_nameless && !mode.contains(Mode::S_IROTH) && fchmod(pipe, mode | Mode::S_IROTH).is_ok();
    Ok(is_changed.then_some(mode))
}

/// `PIPEFS_MAGIC`: the file system of pipes without a name.
const PIPES: FsType = FsType(0x5049_5045);

/// At the same place of the same file.
#[expect(
    clippy::disallowed_methods,
    reason = "the descriptor itself, by no name"
)]
fn reopen(stream: BorrowedFd<'_>, before: StateBefore) -> io::Result<File> {
    // Without waiting: a FIFO whose writers have gone would be waited for.
    let mut own = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY)
        .open(format!("/proc/self/fd/{}", stream.as_raw_fd()))?;
    fcntl(&own, FcntlArg::F_SETFL(OFlag::empty()))?;
    if let StateBefore::Offset(offset) = before {
        own.seek(SeekFrom::Start(offset.cast_unsigned()))?;
    }
    Ok(own)
}

impl ReopenedInput {
    /// Puts back what a reader leaves behind, and nothing else, once nobody can use the program's description.
    ///
    /// A shell reads on where its commands stopped reading. So the caller's offset goes as far as the program has read,
    /// and neither back nor beyond the end of the file.
    pub fn give_back(mut self) {
        // Who has closed or changed its own end meanwhile wants nothing back.
        match self.before {
            StateBefore::Offset(offset) => drop(self.advance(offset)),
            StateBefore::Pipe(size, mode) => {
                let _ = fcntl(&self.theirs, FcntlArg::F_SETPIPE_SZ(size));
                if let Some(mode) = mode {
                    let _ = fchmod(&self.own, mode);
                }
            }
            StateBefore::Nothing => {}
        }
    }

    fn advance(&mut self, before: i64) -> io::Result<()> {
        let reached = self.own.stream_position()?.min(self.own.metadata()?.len());
        let reached = i64::try_from(reached).unwrap_or(before);
        // Somebody else who reads from there has the last word.
        if reached > before && lseek(&self.theirs, 0, Whence::SeekCur)? == before {
            lseek(&self.theirs, reached, Whence::SeekSet)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_reopened(stream: impl AsFd) -> bool {
        matches!(open(stream.as_fd()).unwrap().1, ProgramInput::Reopened(_))
    }

    #[test]
    fn only_what_cannot_write_back_is_opened_again() {
        let both = || OpenOptions::new().read(true).write(true).clone();
        assert!(is_reopened(File::open("/dev/null").unwrap()));
        assert!(!is_reopened(both().open("/dev/null").unwrap()));
        assert!(!is_reopened(File::open("/dev/zero").unwrap()));
        let path = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_PATH)
            .open("/dev/null");
        assert!(!is_reopened(path.unwrap()));
        let (reading, writing) = nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
        assert_eq!(
            is_reopened(reading),
            NamespaceIds::probe() == NamespaceIds::All
        );
        assert!(!is_reopened(writing));
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!is_reopened(socket));
    }

    #[test]
    fn an_offset_goes_forward_and_no_further_than_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &[b'x'; 100]).unwrap();
        let file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        for (from, to, left) in [(10, 30, 30), (30, 5, 30), (30, 1 << 40, 100)] {
            (&file).seek(SeekFrom::Start(from)).unwrap();
            let (inside, input) = open(file.as_fd()).unwrap();
            let mut inside = File::from(inside);
            assert_eq!(inside.stream_position().unwrap(), from);
            inside.seek(SeekFrom::Start(to)).unwrap();
            let ProgramInput::Reopened(input) = input else {
                panic!("a regular file is opened again");
            };
            input.give_back();
            assert_eq!((&file).stream_position().unwrap(), left, "{from} to {to}");
        }
    }
}
