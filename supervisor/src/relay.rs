//! The program's standard streams. It never gets a descriptor of the caller's: output goes through pipes that are
//! counted here, input comes from [`crate::stdin`]; or all three are a [terminal](crate::terminal) of the jail's own.
//!
//! One thread per stream, because a caller that does not read our standard output must not keep
//! the supervisor from enforcing the clock.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::stat::{Mode, fchmod};
use tokio::sync::mpsc::UnboundedSender;
use turnkey_jailer::StandardStreams;

use crate::stdin::{self, ProgramInput, ReopenedInput};
use crate::terminal::{Terminal, TerminalProxy, TerminalWindow};

/// Bytes moved at a time, at most.
const PIECE: usize = 64 * 1024;
/// Bytes of each stream that the report of a served run has at most: six times as many in JSON, in a process that is in no group of the
/// caller's.
pub const MOST_CAPTURED: usize = 1 << 20;
/// At first: most programs say little, and memory that nobody touches costs nothing.
const FIRST_PIECE: usize = 4 * 1024;

/// The outer ends of the program's streams, before anything is passed on.
pub enum OutsideStreams {
    /// The ends of pipes.
    Pipes(PipeEnds),
    /// The ends of a terminal, whose outer end comes out of the jail; the caller's.
    Terminal(Terminal),
}

/// The outer ends of three pipes.
pub struct PipeEnds {
    input: ProgramInput,
    output: OwnedFd,
    error: OwnedFd,
}

/// The output passed the limit.
#[derive(Clone, Copy, Debug)]
pub struct TooMuchOutput;

/// The bytes that went through one stream.
#[derive(Debug, Default)]
pub struct RelayedStream {
    /// The first bytes, when they were to be kept.
    pub kept: Vec<u8>,
    /// All bytes the program wrote until the limit was passed.
    pub total: u64,
    /// The reason why the caller did not get all of them.
    pub cut_off: Option<io::Error>,
    /// The last of them; `None` for a stream that nothing was written to.
    pub last: Option<LastPiece>,
}

impl RelayedStream {
    /// True when nobody reads on, who wanted no more: pipe(7).
    pub fn is_hung_up(&self) -> bool {
        let failed = self.cut_off.as_ref();
        failed.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The end of what a program wrote.
#[derive(Clone, Copy, Debug)]
pub struct LastPiece {
    /// The time when it came.
    pub at: Instant,
    /// True when it ends within a line.
    pub leaves_line_open: bool,
}

impl LastPiece {
    /// True when a program has left a line open on its standard error; `together`, on whichever of its outputs came last, because both go
    /// to one place.
    pub fn of_both([output, error]: [Option<LastPiece>; 2], together: bool) -> bool {
        let other = output.filter(|_| together);
        let last = other.into_iter().chain(error).max_by_key(|piece| piece.at);
        last.is_some_and(|piece| piece.leaves_line_open)
    }
}

/// The relays of one run.
pub enum StreamRelays {
    /// The relays of pipes, which run.
    Pipes(PipeRelays),
    /// The relay of a terminal, from before the program starts on.
    Terminal(TerminalRelay),
}

/// The running relays of three pipes.
pub struct PipeRelays {
    output: JoinHandle<RelayedStream>,
    error: JoinHandle<RelayedStream>,
    /// The writing end of the program's input, until it is fed.
    unfed: Option<OwnedFd>,
    reopened: Option<ReopenedInput>,
}

/// The relay of a terminal.
pub struct TerminalRelay {
    caller: Terminal,
    relay: StreamRelay,
    proxy: Option<TerminalProxy>,
}

/// Makes the program's streams: its ends, and ours. With a terminal of the caller's they are one of the jail's own.
pub fn open(terminal: Option<&Terminal>) -> io::Result<(StandardStreams, OutsideStreams)> {
    if let Some(caller) = terminal {
        let outside = OutsideStreams::Terminal(caller.try_clone()?);
        return Ok((StandardStreams::Terminal, outside));
    }
    let (output, output_inside) = pipe()?;
    let (error, error_inside) = pipe()?;
    let (input_inside, input) = stdin::open(io::stdin().as_fd())?;
    let outside = PipeEnds {
        input,
        output,
        error,
    };
    let inside = [input_inside, output_inside, error_inside];
    Ok((inside.into(), OutsideStreams::Pipes(outside)))
}

impl StreamRelays {
    /// Starts the relays of both outputs; `limit` is for them together.
    pub fn start(
        outside: OutsideStreams,
        sinks: [Sink; 2],
        (limit, keep): (u64, usize),
        tell: &UnboundedSender<TooMuchOutput>,
    ) -> io::Result<StreamRelays> {
        let relay = StreamRelay {
            limit,
            spent: Arc::default(),
            keep,
            tell: tell.clone(),
        };
        Ok(match outside {
            OutsideStreams::Pipes(ends) => StreamRelays::Pipes(ends.relay(sinks, relay)?),
            OutsideStreams::Terminal(caller) => StreamRelays::Terminal(TerminalRelay {
                caller,
                relay,
                proxy: None,
            }),
        })
    }

    /// Starts to hand in what the caller has to say; `terminal` is the outer end of the program's. Not before there is a
    /// program: what has been taken from the caller is gone.
    pub fn feed(&mut self, terminal: Option<OwnedFd>) -> io::Result<()> {
        match (self, terminal) {
            (StreamRelays::Pipes(pipes), _) => pipes.feed(),
            (StreamRelays::Terminal(relay), Some(outer)) => {
                let proxy = TerminalProxy::start(&relay.caller, outer, relay.relay.clone())?;
                relay.proxy = Some(proxy);
                Ok(())
            }
            (StreamRelays::Terminal(_), None) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// The window that the program's terminal follows, where it has one.
    pub fn window(&self) -> Option<TerminalWindow> {
        match self {
            StreamRelays::Pipes(_) => None,
            StreamRelays::Terminal(relay) => relay.proxy.as_ref().map(TerminalProxy::window),
        }
    }

    /// Waits until every process that could write is gone; output and error, in this order. A terminal has one for both.
    pub fn finish(self) -> [RelayedStream; 2] {
        match self {
            StreamRelays::Pipes(pipes) => pipes.finish(),
            StreamRelays::Terminal(relay) => {
                let shown = relay.proxy.map(TerminalProxy::finish);
                let shown = RelayedStream {
                    // The caller's was given back at the beginning of a line.
                    last: None,
                    ..shown.unwrap_or_default()
                };
                [shown, RelayedStream::default()]
            }
        }
    }
}

impl PipeEnds {
    fn relay(self, [to_output, to_error]: [Sink; 2], relay: StreamRelay) -> io::Result<PipeRelays> {
        let start = |from: OwnedFd, to: Sink| {
            let relay = relay.clone();
            thread(move || relay.run(std::fs::File::from(from), &to))
        };
        let (unfed, reopened) = match self.input {
            ProgramInput::Relayed(unfed) => (Some(unfed), None),
            ProgramInput::Reopened(reopened) => (None, Some(reopened)),
        };
        Ok(PipeRelays {
            output: start(self.output, to_output)?,
            error: start(self.error, to_error)?,
            unfed,
            reopened,
        })
    }
}

impl PipeRelays {
    fn feed(&mut self) -> io::Result<()> {
        if let Some(input) = self.unfed.take() {
            // Ends with the process: nobody can be made to stop reading a terminal.
            thread(move || feed(input))?;
        }
        Ok(())
    }

    fn finish(self) -> [RelayedStream; 2] {
        let relayed = [self.output, self.error].map(|relay| relay.join().unwrap_or_default());
        if let Some(reopened) = self.reopened {
            reopened.give_back();
        }
        relayed
    }
}

/// As std::thread::spawn, but a host that has no thread left is an error and no panic.
pub fn thread<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().spawn(body)
}

/// A pipe of turnkey's that the jail's user may open again, as by `/dev/stderr`: its owner is turnkey's user. Nobody else
/// comes to it, since the way is a process of the jail's (proc_pid_fd(5)).
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reading, writing) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    fchmod(&reading, Mode::from_bits_truncate(0o666))?;
    Ok((reading, writing))
}

fn feed(into: OwnedFd) {
    let mut pipe = std::fs::File::from(into);
    // A program that stops reading, or a caller that stops typing, ends it; neither is an error.
    // Not by `io::copy`: it splices, and splice(2) from a silent socket holds the pipe's lock, which the program's end waits for.
    let mut stdin = io::stdin().lock();
    let mut piece = vec![0; PIECE];
    loop {
        match stdin.read(&mut piece) {
            Ok(length @ 1..) if pipe.write_all(&piece[..length]).is_ok() => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// Takes what the program writes to one of its outputs, piece by piece. Called in a thread of its own; once it has failed it is
/// called no more, and the program is read and counted all the same.
pub type Sink = Arc<dyn Fn(&[u8]) -> io::Result<()> + Send + Sync>;

/// Writes to this process's standard output.
pub fn standard_output() -> Sink {
    Arc::new(|bytes| {
        let stream = io::stdout().lock();
        write_whole(stream.as_fd(), bytes)
    })
}

/// Writes to this process's standard error.
pub fn standard_error() -> Sink {
    Arc::new(|bytes| {
        let stream = io::stderr().lock();
        write_whole(stream.as_fd(), bytes)
    })
}

/// Writes all of the bytes, as soon as there is room: the caller may have made a descriptor of its own one that does not wait.
fn write_whole(into: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match nix::unistd::write(into, bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let mut room = [PollFd::new(into, PollFlags::POLLOUT)];
                nix::poll::poll(&mut room, PollTimeout::NONE)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The account of what a program writes, on one stream or two.
#[derive(Clone)]
pub struct StreamRelay {
    limit: u64,
    spent: Arc<AtomicU64>,
    keep: usize,
    tell: UnboundedSender<TooMuchOutput>,
}

impl StreamRelay {
    /// Passes on what comes until its end, as far as the limit lets it.
    pub fn run(&self, mut from: impl Read, to: &Sink) -> RelayedStream {
        let mut relayed = RelayedStream::default();
        let mut piece = vec![0; FIRST_PIECE];
        let mut told = false;
        loop {
            let length = match from.read(&mut piece) {
                Ok(0) => return relayed,
                Ok(length) => length,
                Err(interrupted) if interrupted.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return relayed,
            };
            let allowed = &piece[..self.allowance(length)];
            if allowed.len() < length && !told {
                // The supervisor is gone only when the run is over.
                let _ = self.tell.send(TooMuchOutput);
                told = true;
            }
            relayed.total += allowed.len() as u64;
            if let Some(byte) = allowed.last() {
                relayed.last = Some(LastPiece {
                    at: Instant::now(),
                    leaves_line_open: *byte != b'\n',
                });
            }
            let room = self.keep.saturating_sub(relayed.kept.len());
            let kept = &allowed[..allowed.len().min(room)];
            relayed.kept.extend_from_slice(kept);
            // A caller that has no room does not change what the program may do: it is still read, counted and kept. One that
            // hung up ends a pipe, of which the program learns as it would without turnkey.
            if relayed.cut_off.is_none() {
                relayed.cut_off = to(allowed).err();
            }
            if self.keep == 0 && relayed.is_hung_up() {
                return relayed;
            }
            if length == piece.len() {
                piece.resize(PIECE, 0);
            }
        }
    }

    /// The number of bytes, of `length`, that are still within the limit.
    fn allowance(&self, length: usize) -> usize {
        let before = self.spent.fetch_add(length as u64, Ordering::Relaxed);
        let left = self.limit.saturating_sub(before);
        usize::try_from(left).unwrap_or(usize::MAX).min(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_one_for_both_streams() {
        let (tell, _listen) = tokio::sync::mpsc::unbounded_channel();
        let spent = Arc::new(AtomicU64::new(0));
        let relay = |spent: &Arc<AtomicU64>| StreamRelay {
            limit: 10,
            spent: Arc::clone(spent),
            keep: 0,
            tell: tell.clone(),
        };
        let (output, error) = (relay(&spent), relay(&spent));
        assert_eq!(output.allowance(6), 6);
        assert_eq!(error.allowance(6), 4);
        assert_eq!(output.allowance(1), 0);
    }
}
