//! The program's terminal: a pair of the jail's own devpts, pty(7).
//!
//! The inner end is the program's, and controls its session. The outer end goes to the supervisor and is closed in the jail
//! before there is a program. Nothing of the caller's terminal is handed in: what is typed into this one, by whatever
//! request, is typed into the jail.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use rustix::fs::{FileType, OFlags};

use crate::error::JailError;
use crate::landlock::{self, HandledAccess, PathUse};
use crate::process::wire::ChildSender;

/// The program's standard input, output and error.
#[derive(Debug)]
pub enum StandardStreams {
    /// Three descriptors, in this order.
    Given([OwnedFd; 3]),
    /// A terminal of the jail's own on all three, which controls the program's session.
    /// [`Held::take_terminal`](crate::Held::take_terminal) answers its outer end.
    Terminal,
}

impl StandardStreams {
    /// The same streams once more, for a jail that is made anew.
    ///
    /// # Errors
    /// The errors of copying a descriptor.
    pub fn try_clone(&self) -> io::Result<StandardStreams> {
        let StandardStreams::Given([input, output, error]) = self else {
            return Ok(StandardStreams::Terminal);
        };
        Ok([input.try_clone()?, output.try_clone()?, error.try_clone()?].into())
    }
}

impl StandardStreams {
    /// The access to a file that is standard input, which may be read by a name as well (`/dev/stdin`): `LANDLOCK_ACCESS_FS_*`.
    pub(crate) fn input_access(&self, handled: Option<HandledAccess>) -> Option<u64> {
        let (Some(handled), StandardStreams::Given([input, ..])) = (handled, self) else {
            return None;
        };
        let is_file = rustix::fs::fstat(input)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file());
        let is_read = rustix::fs::fcntl_getfl(input)
            .is_ok_and(|flags| flags & OFlags::RWMODE != OFlags::WRONLY);
        (is_file && is_read).then(|| landlock::grant(PathUse::Read, handled.abi, false))
    }
}

impl From<[OwnedFd; 3]> for StandardStreams {
    fn from(streams: [OwnedFd; 3]) -> StandardStreams {
        StandardStreams::Given(streams)
    }
}

/// The streams as the first process has them.
pub enum ArrangedStreams<'a> {
    /// Three that were given.
    Given(&'a [OwnedFd; 3]),
    /// The inner end of the terminal.
    Terminal(OwnedFd),
}

impl ArrangedStreams<'_> {
    /// Input, output, error.
    pub fn each(&self) -> [BorrowedFd<'_>; 3] {
        match self {
            ArrangedStreams::Given(streams) => streams.each_ref().map(AsFd::as_fd),
            ArrangedStreams::Terminal(inner) => [inner.as_fd(); 3],
        }
    }
}

/// The first terminal of the jail's devpts, which nobody has used before.
const INNER: &std::ffi::CStr = c"/dev/pts/0";

/// Makes the terminal, where there is to be one, and hands its outer end out. Runs as: the jail's first process, in its own
/// tree; allocates nothing.
pub fn arrange<'a>(
    streams: &'a StandardStreams,
    sender: ChildSender<'_>,
) -> Result<ArrangedStreams<'a>, Errno> {
    let StandardStreams::Given(given) = streams else {
        return pair(sender).map(ArrangedStreams::Terminal);
    };
    Ok(ArrangedStreams::Given(given))
}

fn pair(sender: ChildSender<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let outer = nix::fcntl::open(c"/dev/pts/ptmx", flags, Mode::empty())?;
    rustix::pty::unlockpt(&outer).map_err(errno)?;
    let inner = nix::fcntl::open(INNER, flags, Mode::empty())?;
    sender.terminal(outer.as_fd())?;
    Ok(inner)
}

/// Makes the terminal that of this session, which this process leads. Runs as: the program's process; by an open without
/// `O_NOCTTY`, since a filter need not allow ioctl(2).
pub fn take_control() -> Result<(), Errno> {
    let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC;
    nix::fcntl::open(INNER, flags, Mode::empty()).map(drop)
}

/// Holds what came out against what was asked for, and asks the kernel whether the terminal controls a session. Runs as:
/// the supervisor.
pub fn prove(streams: &StandardStreams, outer: Option<&OwnedFd>) -> Result<(), JailError> {
    match (streams, outer) {
        (StandardStreams::Given(_), None) => Ok(()),
        (StandardStreams::Terminal, Some(outer)) => {
            let session = rustix::termios::tcgetsid(outer).map_err(errno);
            session.map(drop).map_err(|source| JailError::System {
                act: "see that the program's terminal controls its session",
                source,
            })
        }
        (_, came) => Err(JailError::Unexpected(format!("the terminal {came:?}"))),
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_raw(error.raw_os_error())
}
