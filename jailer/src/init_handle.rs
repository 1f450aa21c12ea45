//! The jail's process 1, seen from outside.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::JailError;
use crate::proof::Sight;
use crate::sys;
use crate::wire::{Message, PACKET};

/// How long the child may take from one message to the next, before the run is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// The jail's process 1, from outside. Dropping it kills it, and with it the jail.
#[derive(Debug)]
pub struct InitHandle {
    /// In the host's pid namespace.
    pub pid: libc::pid_t,
    /// pidfd_open(2)
    pub pidfd: OwnedFd,
    /// Our end of the control socket.
    pub control: OwnedFd,
}

impl InitHandle {
    /// The sign to go on.
    pub fn send_byte(&self) -> Result<(), JailError> {
        let sent = nix::sys::socket::send(
            std::os::fd::AsRawFd::as_raw_fd(&self.control),
            b"g",
            nix::sys::socket::MsgFlags::MSG_NOSIGNAL,
        );
        sent.map(drop).map_err(|source| JailError::System {
            act: "talk to the jail's first process",
            source,
        })
    }

    /// Reads messages until the child is ready; a failure is told by its step.
    pub fn watch_confinement(&self) -> Result<Sight, JailError> {
        let mut sight = Sight::default();
        loop {
            self.wait_for_message()?;
            match self.receive()? {
                Some(Message::Fact(fact, value)) => sight.fact(fact, value),
                Some(Message::Text(text, piece)) => sight.text(text, &piece),
                Some(Message::Ready) => return Ok(sight),
                Some(Message::Failed { step, index, errno }) => {
                    return Err(JailError::Step { step, index, errno });
                }
                Some(other) => return Err(JailError::Unexpected(format!("{other:?}"))),
                None => return Err(JailError::Died),
            }
        }
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
    pub fn receive(&self) -> Result<Option<Message>, JailError> {
        let mut packet = [0; PACKET];
        loop {
            match nix::unistd::read(&self.control, &mut packet) {
                Ok(0) | Err(Errno::ECONNRESET) => return Ok(None),
                Ok(length) => {
                    let message = Message::decode(&packet[..length]);
                    return message
                        .map(Some)
                        .ok_or_else(|| JailError::Unexpected(format!("{length} bytes")));
                }
                Err(Errno::EINTR) => {}
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
        // ESRCH when it is gone already, which is as good.
        let _ = sys::signal(self.pidfd.as_fd(), libc::SIGKILL);
        while nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(self.pid), None)
            == Err(Errno::EINTR)
        {}
    }
}
