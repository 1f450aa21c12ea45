//! Exports of served runs. Who makes the run reads what it left, and sends it; the caller's own process writes the files. They talk over
//! a connection of the caller's making, a record and its answer at a time.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod receiver;
mod record;
mod sender;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{MsgFlags, recv};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, UCred,
    sendmsg, socketpair,
};

use super::line::LINE_TYPE;
pub use receiver::ExportReceiver;
use record::MOST_RECORD;
pub(crate) use sender::export_to_caller;

/// An end of the connection.
#[derive(Debug)]
pub struct ExportLine(OwnedFd);

impl From<OwnedFd> for ExportLine {
    fn from(socket: OwnedFd) -> ExportLine {
        ExportLine(socket)
    }
}

impl ExportLine {
    /// A connection: the end of who writes the files, and that of who sends them.
    ///
    /// # Errors
    /// The errors of socketpair(2).
    pub fn pair() -> io::Result<(ExportLine, OwnedFd)> {
        let (own, its) = socketpair(AddressFamily::UNIX, LINE_TYPE, SocketFlags::CLOEXEC, None)?;
        Ok((own.into(), its))
    }

    /// Sends a record, as by the user who has made the connection: whoever holds its other side by now hears no root, unix(7).
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let sender = UCred {
            pid: rustix::process::getpid(),
            ..socket_peercred(&self.0)?
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !beside.push(SendAncillaryMessage::ScmCredentials(sender)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let bytes = [io::IoSlice::new(bytes)];
        sendmsg(&self.0, &bytes, &mut beside, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next record; `None` at the end of the connection. Descriptors that come with it are closed by the kernel.
    fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        // One byte more than the longest: a longer one shows as too long.
        let mut bytes = vec![0; MOST_RECORD + 1];
        let length = loop {
            match recv(self.0.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
                Err(nix::errno::Errno::EINTR) => {}
                came => break came?,
            }
        };
        bytes.truncate(length);
        Ok((length > 0).then_some(bytes))
    }
}

#[cfg(test)]
mod tests;
