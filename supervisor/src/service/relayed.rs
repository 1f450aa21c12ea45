//! Streams of a caller that the service does not take: relayed by the caller's own process, as itself.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::JoinHandle;

use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::isatty;
use rustix::net::sockopt::socket_type;

use super::descriptors::is_memory;
use super::line::LINE_TYPE;
use crate::relay::thread;
use turnkey_jailer::served;

/// The place of the current directory among the descriptors.
const DIRECTORY: usize = 3;
/// Bytes moved at a time.
const PIECE: usize = 64 << 10;

/// The relays of a run, and the ends of pipes that go to the service.
#[derive(Default)]
pub struct CallerRelays {
    ends: Vec<(usize, OwnedFd)>,
    outputs: Vec<JoinHandle<()>>,
}

impl CallerRelays {
    /// Starts a relay for each descriptor that needs one; for a terminal that is typed at, where the program has none of its own. Their
    /// threads heed no signals but that by which a job in the background is stopped when it reads: where it was held back, the read would
    /// fail.
    ///
    /// # Errors
    /// When the system has no pipe or no thread for it.
    pub fn start(descriptors: &[BorrowedFd<'_>], has_terminal: bool) -> io::Result<CallerRelays> {
        let mut relays = CallerRelays::default();
        for (place, stream) in descriptors.iter().enumerate() {
            let is_typed = || place == 0 && !has_terminal && isatty(*stream).unwrap_or(false);
            if place != DIRECTORY && (is_relayed(*stream, place) || is_typed()) {
                relays.add(place, *stream)?;
            }
        }
        Ok(relays)
    }

    fn add(&mut self, place: usize, stream: BorrowedFd<'_>) -> io::Result<()> {
        let own = File::from(stream.try_clone_to_owned()?);
        let (out, into) = std::io::pipe()?;
        let mut before = SigSet::empty();
        let mut held_back = SigSet::all();
        held_back.remove(Signal::SIGTTIN);
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&held_back), Some(&mut before))?;
        let started = match place {
            // Ends with this process: nobody can be made to say more.
            0 => thread(move || pass(own, into)).map(|_| out.into()),
            _ => thread(move || pass(out, own)).map(|relay| {
                self.outputs.push(relay);
                into.into()
            }),
        };
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
        self.ends.push((place, started?));
        Ok(())
    }

    /// The descriptors for the service.
    pub fn instead<'d>(&'d self, descriptors: &[BorrowedFd<'d>]) -> Vec<BorrowedFd<'d>> {
        let mut instead = descriptors.to_vec();
        for (place, end) in &self.ends {
            instead[*place] = end.as_fd();
        }
        instead
    }

    /// Waits until what was written has been passed on.
    pub fn finish(self) {
        drop(self.ends);
        for output in self.outputs {
            let _ = output.join();
        }
    }
}

/// True for a socket, but for the connection of an export, for memory that is written to, and for a file on a mount that the service
/// does not have.
fn is_relayed(stream: BorrowedFd<'_>, place: usize) -> bool {
    let kind = fstat(stream).map(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT);
    match kind {
        Ok(SFlag::S_IFSOCK) => place < DIRECTORY || socket_type(stream) != Ok(LINE_TYPE),
        Ok(SFlag::S_IFREG) if is_memory(stream) => place != 0,
        Ok(SFlag::S_IFREG) => !served::is_on_own_mount(stream).unwrap_or(true),
        _ => false,
    }
}

/// Not by `io::copy`, which splices: a datagram is to stay one.
fn pass(mut from: impl Read, mut into: impl Write) {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(length @ 1..) if into.write_all(&piece[..length]).is_ok() => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}
