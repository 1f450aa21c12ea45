//! The program's standard streams. It never gets a descriptor of the caller's that it could write
//! to: output goes through pipes that are counted here, and a terminal stays outside.
//!
//! One thread per stream, because a caller that does not read our standard output must not keep
//! the supervisor from enforcing the clock.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::sync::mpsc::UnboundedSender;

/// Bytes moved at a time, at most.
const PIECE: usize = 64 * 1024;
/// At first: most programs say little, and memory that nobody touches costs nothing.
const FIRST_PIECE: usize = 4 * 1024;

/// Both ends of the program's streams.
pub struct Streams {
    /// For the program: input, output, error.
    pub inside: [OwnedFd; 3],
    outside: Outside,
}

struct Outside {
    input: Option<OwnedFd>,
    output: OwnedFd,
    error: OwnedFd,
}

/// The output passed the limit.
#[derive(Clone, Copy, Debug)]
pub struct TooMuchOutput;

/// What went through one stream.
#[derive(Debug, Default)]
pub struct Relayed {
    /// The first bytes, when they were to be kept.
    pub kept: Vec<u8>,
    /// All bytes the program wrote until the limit was passed.
    pub total: u64,
    /// Why the caller did not get all of them.
    pub cut_off: Option<io::Error>,
}

/// The running relays.
pub struct Relays {
    output: JoinHandle<Relayed>,
    error: JoinHandle<Relayed>,
    /// What the program reads, until somebody feeds it.
    input: Option<OwnedFd>,
}

impl Streams {
    /// Makes the pipes.
    pub fn open() -> io::Result<Streams> {
        let (output, output_inside) = pipe()?;
        let (error, error_inside) = pipe()?;
        let stdin = io::stdin();
        let (input, input_inside) = if only_reads(stdin.as_fd())? {
            (None, stdin.as_fd().try_clone_to_owned()?)
        } else {
            let (inside, outside) = pipe()?;
            (Some(outside), inside)
        };
        let inside = [input_inside, output_inside, error_inside];
        Ok(Streams {
            inside,
            outside: Outside {
                input,
                output,
                error,
            },
        })
    }

    /// Starts the relays of both outputs; `limit` is for them together.
    pub fn relay(
        outside: OutsideStreams,
        [to_output, to_error]: [Target; 2],
        (limit, keep): (u64, bool),
        tell: &UnboundedSender<TooMuchOutput>,
    ) -> io::Result<Relays> {
        let Outside {
            input,
            output,
            error,
        } = outside.0;
        let spent = Arc::new(AtomicU64::new(0));
        let start = |from: OwnedFd, to: Target| {
            let relay = Relay {
                limit,
                spent: Arc::clone(&spent),
                keep,
                tell: tell.clone(),
            };
            thread(move || relay.run(from, &to))
        };
        Ok(Relays {
            output: start(output, to_output)?,
            error: start(error, to_error)?,
            input,
        })
    }

    /// Splits into the program's ends and ours.
    pub fn split(self) -> ([OwnedFd; 3], OutsideStreams) {
        (self.inside, OutsideStreams(self.outside))
    }
}

/// Our ends, before they are relayed.
pub struct OutsideStreams(Outside);

impl Relays {
    /// Starts to hand in what the caller has to say. Not before there is a program: what has been taken from the caller is gone.
    pub fn feed(&mut self) -> io::Result<()> {
        if let Some(input) = self.input.take() {
            // Ends with the process: nobody can be made to stop reading a terminal.
            thread(move || feed(input))?;
        }
        Ok(())
    }

    /// Waits until every process that could write is gone; output and error, in this order.
    pub fn finish(self) -> (Relayed, Relayed) {
        (
            self.output.join().unwrap_or_default(),
            self.error.join().unwrap_or_default(),
        )
    }
}

/// As std::thread::spawn, but a host that has no thread left is an error and no panic.
fn thread<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().spawn(body)
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(nix::unistd::pipe2(OFlag::O_CLOEXEC)?)
}

/// A regular file, a pipe or a null device opened for reading alone can be handed in as it is.
/// Through anything else, a terminal or a socket above all, the program could act on the caller.
fn only_reads(stream: BorrowedFd<'_>) -> io::Result<bool> {
    use nix::sys::stat::{SFlag, fstat};
    let flags = OFlag::from_bits_truncate(fcntl(stream, FcntlArg::F_GETFL)?);
    let stat = fstat(stream)?;
    let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
    let is_null = kind == SFlag::S_IFCHR && stat.st_rdev == nix::sys::stat::makedev(1, 3);
    let plain = kind == SFlag::S_IFREG || kind == SFlag::S_IFIFO || is_null;
    Ok(plain && flags & OFlag::O_ACCMODE == OFlag::O_RDONLY)
}

fn feed(into: OwnedFd) {
    let mut pipe = std::fs::File::from(into);
    // A program that stops reading, or a caller that stops typing, ends it; neither is an error.
    let _ = io::copy(&mut io::stdin().lock(), &mut pipe);
}

/// Where a stream of the program's goes.
#[derive(Clone, Copy)]
pub enum Target {
    /// To standard output.
    Output,
    /// To standard error.
    Error,
}

impl Target {
    /// On a terminal there may be a line of turnkey's own, which makes way.
    fn write(self, bytes: &[u8]) -> io::Result<()> {
        let is_terminal = match self {
            Target::Output => io::stdout().is_terminal(),
            Target::Error => io::stderr().is_terminal(),
        };
        if is_terminal {
            crate::progress::apart(bytes, || self.pass_on(bytes))
        } else {
            self.pass_on(bytes)
        }
    }

    fn pass_on(self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Target::Output => {
                let mut stream = io::stdout().lock();
                stream.write_all(bytes).and_then(|()| stream.flush())
            }
            Target::Error => io::stderr().lock().write_all(bytes),
        }
    }
}

struct Relay {
    limit: u64,
    spent: Arc<AtomicU64>,
    keep: bool,
    tell: UnboundedSender<TooMuchOutput>,
}

impl Relay {
    fn run(&self, from: OwnedFd, to: &Target) -> Relayed {
        let mut relayed = Relayed::default();
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
                relayed.cut_off = to.write(allowed).err();
            }
            if length == piece.len() {
                piece.resize(PIECE, 0);
            }
        }
    }

    /// How many of `length` bytes are still within the limit.
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
        let relay = |spent: &Arc<AtomicU64>| Relay {
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

    #[test]
    fn only_what_cannot_write_back_is_handed_in() {
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(only_reads(null.as_fd()).unwrap());
        let (reading, writing) = pipe().unwrap();
        assert!(only_reads(reading.as_fd()).unwrap());
        assert!(!only_reads(writing.as_fd()).unwrap());
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!only_reads(socket.as_fd()).unwrap());
        let zero = std::fs::File::open("/dev/zero").unwrap();
        assert!(!only_reads(zero.as_fd()).unwrap());
        let both = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap();
        assert!(!only_reads(both.as_fd()).unwrap());
    }
}
