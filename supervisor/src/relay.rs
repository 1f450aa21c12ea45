//! The program's standard streams. It never gets a descriptor of the caller's: output goes through pipes that are
//! counted here, input comes from [`crate::stdin`].
//!
//! One thread per stream, because a caller that does not read our standard output must not keep
//! the supervisor from enforcing the clock.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fchmod};
use tokio::sync::mpsc::UnboundedSender;
use turnkey_jailer::StandardStreams;

use crate::stdin::{self, ProgramInput, ReopenedInput};

/// Bytes moved at a time, at most.
const PIECE: usize = 64 * 1024;
/// At first: most programs say little, and memory that nobody touches costs nothing.
const FIRST_PIECE: usize = 4 * 1024;

/// Both ends of the program's streams.
pub struct ProgramStreams {
    /// For the program: input, output, error.
    pub inside: StandardStreams,
    outside: RelayEnds,
}

struct RelayEnds {
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
}

/// The running relays.
pub struct StreamRelays {
    output: JoinHandle<RelayedStream>,
    error: JoinHandle<RelayedStream>,
    /// The writing end of the program's input, until it is fed.
    unfed: Option<OwnedFd>,
    reopened: Option<ReopenedInput>,
}

impl ProgramStreams {
    /// Makes the pipes.
    pub fn open() -> io::Result<ProgramStreams> {
        let (output, output_inside) = pipe()?;
        let (error, error_inside) = pipe()?;
        let (input_inside, input) = stdin::open(io::stdin().as_fd())?;
        let inside = [input_inside, output_inside, error_inside];
        Ok(ProgramStreams {
            inside: inside.into(),
            outside: RelayEnds {
                input,
                output,
                error,
            },
        })
    }

    /// Starts the relays of both outputs; `limit` is for them together.
    pub fn relay(
        outside: OutsideStreams,
        [to_output, to_error]: [Sink; 2],
        (limit, keep): (u64, bool),
        tell: &UnboundedSender<TooMuchOutput>,
    ) -> io::Result<StreamRelays> {
        let RelayEnds {
            input,
            output,
            error,
        } = outside.0;
        let spent = Arc::new(AtomicU64::new(0));
        let start = |from: OwnedFd, to: Sink| {
            let relay = StreamRelay {
                limit,
                spent: Arc::clone(&spent),
                keep,
                tell: tell.clone(),
            };
            thread(move || relay.run(from, &to))
        };
        let (unfed, reopened) = match input {
            ProgramInput::Relayed(unfed) => (Some(unfed), None),
            ProgramInput::Reopened(reopened) => (None, Some(reopened)),
        };
        Ok(StreamRelays {
            output: start(output, to_output)?,
            error: start(error, to_error)?,
            unfed,
            reopened,
        })
    }

    /// Splits into the program's ends and ours.
    pub fn split(self) -> (StandardStreams, OutsideStreams) {
        (self.inside, OutsideStreams(self.outside))
    }
}

/// The outer ends of the streams, before they are relayed.
pub struct OutsideStreams(RelayEnds);

impl StreamRelays {
    /// Starts to hand in what the caller has to say. Not before there is a program: what has been taken from the caller is gone.
    pub fn feed(&mut self) -> io::Result<()> {
        if let Some(input) = self.unfed.take() {
            // Ends with the process: nobody can be made to stop reading a terminal.
            thread(move || feed(input))?;
        }
        Ok(())
    }

    /// Waits until every process that could write is gone; output and error, in this order.
    pub fn finish(self) -> [RelayedStream; 2] {
        let relayed = [self.output, self.error].map(|relay| relay.join().unwrap_or_default());
        if let Some(reopened) = self.reopened {
            reopened.give_back();
        }
        relayed
    }
}

/// As std::thread::spawn, but a host that has no thread left is an error and no panic.
fn thread<T: Send + 'static>(
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
        let mut stream = io::stdout().lock();
        stream.write_all(bytes).and_then(|()| stream.flush())
    })
}

/// Writes to this process's standard error.
pub fn standard_error() -> Sink {
    Arc::new(|bytes| io::stderr().lock().write_all(bytes))
}

struct StreamRelay {
    limit: u64,
    spent: Arc<AtomicU64>,
    keep: bool,
    tell: UnboundedSender<TooMuchOutput>,
}

impl StreamRelay {
    fn run(&self, from: OwnedFd, to: &Sink) -> RelayedStream {
        let mut relayed = RelayedStream::default();
        let mut piece = vec![0; FIRST_PIECE];
        let mut from = std::fs::File::from(from);
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
            if self.keep {
                relayed.kept.extend_from_slice(allowed);
            }
            // A caller that hung up or has no room does not change what the program may do: it is
            // still read, counted and kept.
            if relayed.cut_off.is_none() {
                relayed.cut_off = to(allowed).err();
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
            keep: false,
            tell: tell.clone(),
        };
        let (output, error) = (relay(&spent), relay(&spent));
        assert_eq!(output.allowance(6), 6);
        assert_eq!(error.allowance(6), 4);
        assert_eq!(output.allowance(1), 0);
    }
}
