//! The program's terminal, seen from its caller's: bytes both ways, and the size of the window.
//!
//! The jail has the inner end of a pair of its own, [`turnkey_jailer::StandardStreams::Terminal`]; this is who sits at the outer one.
//! One thread shows what the program writes, by way of the [filter](escape); another types what the caller does, a Ctrl-C
//! among it, which the jail's terminal turns into a signal to the job in the foreground there.

mod escape;
mod job;
mod modes;
mod screen;

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::termios::SpecialCodeIndex;

use crate::relay::{RelayedStream, Sink, StreamRelay, thread};
use escape::EscapeFilter;
use screen::CallerScreen;
pub use screen::restore_all;

/// Bytes typed at a time, at most.
const PIECE: usize = 4096;
/// Milliseconds between two looks at a terminal that another job has.
const AWAY: u8 = 50;

/// The caller's side of a terminal for the program. Neither end need be a terminal itself. Of one that is, the program's gets
/// the settings and the size; while the program runs it is raw, and afterwards as it was before.
#[derive(Debug)]
pub struct Terminal {
    /// The source of what is typed. At its end the program's terminal gets the character for that, Ctrl-D in most cases.
    pub input: OwnedFd,
    /// Shows what the program writes, but for what has a terminal answer, or act beyond its screen.
    pub output: OwnedFd,
    /// The process whose terminal it is, where that is not this one: the kernel holds this one to no job control there. What is typed while
    /// that process is stopped, or a job in the background, is not read.
    pub job: Option<u32>,
}

impl Terminal {
    /// A terminal on standard input of this process, and on `output`.
    ///
    /// # Errors
    /// The errors of copying a descriptor.
    pub fn with_output(output: impl AsFd) -> io::Result<Terminal> {
        Ok(Terminal {
            input: io::stdin().as_fd().try_clone_to_owned()?,
            output: output.as_fd().try_clone_to_owned()?,
            job: None,
        })
    }

    /// Copies of both descriptors.
    pub(crate) fn try_clone(&self) -> io::Result<Terminal> {
        Ok(Terminal {
            input: self.input.try_clone()?,
            output: self.output.try_clone()?,
            job: self.job,
        })
    }
}

/// The threads at the outer end of the program's terminal. Dropping it waits for them, and gives the caller's back.
pub struct TerminalProxy {
    screen: Arc<CallerScreen>,
    outer: Arc<OwnedFd>,
    /// Keeps the terminal open when the program closes it for a moment; the end of the jail ends what is shown.
    inner: Option<OwnedFd>,
    /// The typing thread ends when it is closed.
    typing: Option<OwnedFd>,
    shows: Option<JoinHandle<RelayedStream>>,
    types: Option<JoinHandle<()>>,
}

impl TerminalProxy {
    /// Takes the caller's terminal over, and starts both threads. `relay` counts what the program writes.
    pub fn start(
        caller: &Terminal,
        outer: OwnedFd,
        relay: StreamRelay,
    ) -> io::Result<TerminalProxy> {
        let flags = rustix::pty::OpenptFlags::RDWR
            | rustix::pty::OpenptFlags::NOCTTY
            | rustix::pty::OpenptFlags::CLOEXEC;
        let inner = rustix::pty::ioctl_tiocgptpeer(&outer, flags)?;
        // Both threads wait by poll(2): no write of one may hold up the other.
        fcntl(&outer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let outer = Arc::new(outer);
        let screen = CallerScreen::take(caller.try_clone()?, &outer)?;
        let (stop, typing) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let mut proxy = TerminalProxy {
            screen: Arc::clone(&screen),
            outer: Arc::clone(&outer),
            inner: Some(inner),
            typing: Some(typing),
            shows: None,
            types: None,
        };
        let from = OuterEnd(Arc::clone(&outer));
        let to = filtered(Arc::clone(&screen));
        proxy.shows = Some(thread(move || relay.run(from, &to))?);
        proxy.types = Some(thread(move || type_on(&screen, &outer, stop.as_fd()))?);
        Ok(proxy)
    }

    /// For whoever hears that the caller's window has changed.
    pub fn window(&self) -> TerminalWindow {
        TerminalWindow {
            screen: Arc::clone(&self.screen),
            outer: Arc::clone(&self.outer),
        }
    }

    /// Waits until no process can write any more, and gives the caller's terminal back.
    pub fn finish(mut self) -> RelayedStream {
        self.end()
    }

    fn end(&mut self) -> RelayedStream {
        drop((self.inner.take(), self.typing.take()));
        let shown = self.shows.take().map(JoinHandle::join);
        // Before the terminal is given back: what is typed from there on is the shell's.
        let _ = self.types.take().map(JoinHandle::join);
        self.screen.restore();
        shown.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for TerminalProxy {
    fn drop(&mut self) {
        self.end();
    }
}

/// The caller's window and the program's.
pub struct TerminalWindow {
    screen: Arc<CallerScreen>,
    outer: Arc<OwnedFd>,
}

impl TerminalWindow {
    /// Has the program's follow the caller's, after SIGWINCH or SIGCONT: its size; and the caller's is raw again, whatever a
    /// shell did to it while turnkey was stopped.
    pub fn follow(&self) {
        self.screen.follow(&self.outer);
    }
}

/// The outer end to read from: its end comes when the last process with the inner one is gone.
struct OuterEnd(Arc<OwnedFd>);

impl Read for OuterEnd {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        loop {
            wait([(self.0.as_fd(), PollFlags::POLLIN)])?;
            match nix::unistd::read(&*self.0, piece) {
                Err(Errno::EIO) => return Ok(0),
                Err(Errno::EAGAIN) => {}
                other => return Ok(other?),
            }
        }
    }
}

/// Writes what passes the filter to the caller's terminal.
fn filtered(screen: Arc<CallerScreen>) -> Sink {
    let filter = Mutex::new(EscapeFilter::new(screen.is_utf8()));
    Arc::new(move |bytes| {
        let mut filter = filter.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = filter.pass(bytes);
        // Before it is written: whatever ends this process then puts it back.
        screen.note(filter.state());
        write_all(screen.output(), &passed)
    })
}

/// Also where somebody else has made the open file not wait.
fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match nix::unistd::write(to, bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::EAGAIN | Errno::EINTR) => {
                wait([(to, PollFlags::POLLOUT)])?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Types what the caller does until that ends, or `stop` says so.
fn type_on(screen: &CallerScreen, outer: &OwnedFd, stop: BorrowedFd<'_>) {
    let input = screen.input();
    let mut piece = [0; PIECE];
    let mut last = b'\n';
    loop {
        if wait_for_foreground(screen, outer, stop).is_none() {
            return;
        }
        match wait([(input, PollFlags::POLLIN), (stop, PollFlags::POLLIN)]) {
            // Before each read, since a job is stopped at any time.
            Ok([_, false]) if screen.is_of_another_job() => continue,
            Ok([_, false]) => {}
            _ => return,
        }
        let length = match nix::unistd::read(input, &mut piece) {
            Ok(length @ 1..) => length,
            Err(Errno::EINTR | Errno::EAGAIN) => continue,
            // A terminal that was hung up, or the end of a file.
            _ => {
                let _ = type_all(&end_of_input(outer, last), outer, stop);
                return;
            }
        };
        last = piece[length - 1];
        if type_all(&piece[..length], outer, stop).is_none() {
            return;
        }
    }
}

/// Waits until the caller has its terminal again; `None` when it is over meanwhile.
fn wait_for_foreground(screen: &CallerScreen, outer: &OwnedFd, stop: BorrowedFd<'_>) -> Option<()> {
    if !screen.is_of_another_job() {
        return Some(());
    }
    while screen.is_of_another_job() {
        let mut stopped = [PollFd::new(stop, PollFlags::POLLIN)];
        match poll(&mut stopped, AWAY) {
            Ok(0) | Err(Errno::EINTR) => {}
            _ => return None,
        }
    }
    screen.follow(outer);
    Some(())
}

/// The character for the end of the input: in the middle of a line the first only ends the line.
fn end_of_input(outer: &OwnedFd, last: u8) -> Vec<u8> {
    let settings = rustix::termios::tcgetattr(outer);
    let end = settings.map_or(0, |settings| settings.special_codes[SpecialCodeIndex::VEOF]);
    let times = if last == b'\n' { 1 } else { 2 };
    match end {
        // _POSIX_VDISABLE
        0 => Vec::new(),
        end => vec![end; times],
    }
}

/// `None` when it is over meanwhile: a program that does not read need not be waited for.
fn type_all(mut bytes: &[u8], outer: &OwnedFd, stop: BorrowedFd<'_>) -> Option<()> {
    while !bytes.is_empty() {
        let ready = wait([
            (outer.as_fd(), PollFlags::POLLOUT),
            (stop, PollFlags::POLLIN),
        ]);
        let Ok([_, false]) = ready else {
            return None;
        };
        match nix::unistd::write(outer, bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
    Some(())
}

/// Waits until one of them is ready, or at its end; which.
fn wait<const N: usize>(descriptors: [(BorrowedFd<'_>, PollFlags); N]) -> io::Result<[bool; N]> {
    let mut all = descriptors.map(|(descriptor, ready)| PollFd::new(descriptor, ready));
    loop {
        match poll(&mut all, PollTimeout::NONE) {
            Ok(_) => return Ok(all.map(|entry| entry.any().unwrap_or(true))),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
