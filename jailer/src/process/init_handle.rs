//! The jail's process 1, seen from outside.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::MsgFlags;

use crate::error::JailError;
use crate::process::proof::ProofFacts;
use crate::process::wire::{ChildMessage, PACKET};
use crate::sys::{self, ChildUsage};

/// The time that the child may take from one message to the next, before the run is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// The jail's process 1, from outside. Dropping it kills it, and with it the jail.
#[derive(Debug)]
pub struct InitHandle {
    /// In the host's pid namespace.
    pub pid: libc::pid_t,
    /// pidfd_open(2)
    pub pidfd: OwnedFd,
    /// The supervisor's end of the control socket.
    pub control: OwnedFd,
    /// The supervisor's end of the lifeline. No other process may hold it: its end is the supervisor's death to the init.
    pub lifeline: OwnedFd,
    /// True when it has been waited for.
    pub ended: bool,
}

/// Descriptors that the jail's first process made where nobody else can.
#[derive(Debug, Default)]
pub struct HandedOut {
    /// The sockets that wait in the jail's network, in the order of the plan.
    pub listeners: Vec<OwnedFd>,
    /// The outer end of the program's terminal.
    pub terminal: Option<OwnedFd>,
}

impl InitHandle {
    /// The sign to go on.
    pub fn send_byte(&self) -> Result<(), JailError> {
        match send(&self.control, b'g') {
            // It is gone, and what it said last tells why.
            Err(Errno::EPIPE | Errno::ECONNRESET) => Err(self.last_words()),
            sent => sent.map_err(untold),
        }
    }

    fn last_words(&self) -> JailError {
        loop {
            match self.receive() {
                Ok(Some(ChildMessage::Failed { step, index, errno })) => {
                    return JailError::Step { step, index, errno };
                }
                Ok(Some(_)) => {}
                Ok(None) => return JailError::Died,
                Err(error) => return error,
            }
        }
    }

    /// Has a signal passed on to the program.
    pub fn pass_on(&self, signal: u8) -> Result<(), JailError> {
        send(&self.lifeline, signal).map_err(untold)
    }

    /// Kills it, and with it everything inside, and waits for its end. What all of them used is
    /// known unless the caller ignores its children.
    pub fn end(mut self) -> Option<ChildUsage> {
        self.kill_and_wait()
    }

    fn kill_and_wait(&mut self) -> Option<ChildUsage> {
        if std::mem::replace(&mut self.ended, true) {
            return None;
        }
        // ESRCH when it is gone already, which is as good.
        let _ = sys::signal(self.pidfd.as_fd(), libc::SIGKILL);
        sys::wait(self.pid).ok().map(|ended| ended.used)
    }

    /// Reads messages until the child is ready; a failure is told by its step. What it saw, and the
    /// descriptors that it handed out.
    pub fn watch_confinement(&self) -> Result<(ProofFacts, HandedOut), JailError> {
        let mut sight = ProofFacts::default();
        let mut handed_out = HandedOut::default();
        loop {
            self.wait_for_message()?;
            let (message, came) = self.receive_with()?;
            match message {
                Some(ChildMessage::Facts(facts)) => {
                    for (fact, value) in facts {
                        sight.fact(fact, value);
                    }
                }
                Some(ChildMessage::ProcText(text, piece)) => sight.append_text(text, &piece),
                Some(ChildMessage::Listener(_)) => handed_out.listeners.extend(came),
                Some(ChildMessage::Terminal) => handed_out.terminal = came,
                Some(ChildMessage::Ready) => return Ok((sight, handed_out)),
                Some(ChildMessage::Failed { step, index, errno }) => {
                    return Err(JailError::Step { step, index, errno });
                }
                Some(other) => return Err(JailError::Unexpected(format!("{other:?}"))),
                None => return Err(JailError::Died),
            }
        }
    }

    /// The failure that the child has told of after it was ready, if there is one by now.
    pub fn failure(&self) -> Option<JailError> {
        let mut waiting = [PollFd::new(self.control.as_fd(), PollFlags::POLLIN)];
        let told = poll(&mut waiting, PollTimeout::ZERO).is_ok_and(|ready| ready > 0);
        told.then(|| self.watch_confinement().err()).flatten()
    }

    fn wait_for_message(&self) -> Result<(), JailError> {
        let deadline = Instant::now() + PATIENCE;
        let timeout = PollTimeout::try_from(PATIENCE).unwrap_or(PollTimeout::MAX);
        loop {
            let mut waiting = [PollFd::new(self.control.as_fd(), PollFlags::POLLIN)];
            match poll(&mut waiting, timeout) {
                Ok(0) => return Err(JailError::Stalled(PATIENCE)),
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) if Instant::now() < deadline => {}
                Err(source) => {
                    return Err(JailError::System {
                        act: "wait for the jail's first process",
                        source,
                    });
                }
            }
        }
    }

    /// The next message; `None` when the last process that could send one is gone.
    pub fn receive(&self) -> Result<Option<ChildMessage>, JailError> {
        Ok(self.receive_with()?.0)
    }

    /// The same, with the descriptor that came with it.
    fn receive_with(&self) -> Result<(Option<ChildMessage>, Option<OwnedFd>), JailError> {
        let mut packet = [0; PACKET];
        loop {
            match sys::receive_with(self.control.as_fd(), &mut packet) {
                Ok((0, _)) => return Ok((None, None)),
                Ok((length, came)) => {
                    let message = ChildMessage::decode(&packet[..length]);
                    return message
                        .map(|message| (Some(message), came))
                        .ok_or_else(|| JailError::Unexpected(format!("{length} bytes")));
                }
                Err(Errno::EMFILE) => return Err(JailError::TooManyFiles),
                // It ended before it had read everything. The kernel says so once, and hands out
                // its last words after that.
                Err(Errno::EINTR | Errno::ECONNRESET) => {}
                Err(source) => {
                    return Err(JailError::System {
                        act: "hear the jail's first process",
                        source,
                    });
                }
            }
        }
    }
}

impl Drop for InitHandle {
    fn drop(&mut self) {
        self.kill_and_wait();
    }
}

fn send(socket: &OwnedFd, byte: u8) -> Result<(), Errno> {
    let number = std::os::fd::AsRawFd::as_raw_fd(socket);
    nix::sys::socket::send(number, &[byte], MsgFlags::MSG_NOSIGNAL).map(drop)
}

fn untold(source: Errno) -> JailError {
    JailError::System {
        act: "talk to the jail's first process",
        source,
    }
}
