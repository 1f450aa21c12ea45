//! A connection of packets, unix(7) `SOCK_SEQPACKET`, with descriptors beside them.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketType, recvmsg, sendmsg,
};

use super::packet::{HEADER, MOST_BODY, MOST_DESCRIPTORS, Packet, PacketError};

/// The type of the socket.
pub const LINE_TYPE: SocketType = SocketType::SEQPACKET;

/// One end of a connection.
#[derive(Debug)]
pub struct PacketLine(OwnedFd);

/// A packet that came, and what came with it.
pub type Received = Result<(Packet, Vec<OwnedFd>), PacketError>;

impl From<OwnedFd> for PacketLine {
    fn from(socket: OwnedFd) -> PacketLine {
        PacketLine(socket)
    }
}

impl AsFd for PacketLine {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl PacketLine {
    /// Sends a packet, without a signal to this process when nobody is there any more. Who takes none for a long time is given up
    /// where `patient` is false.
    ///
    /// # Errors
    /// The errors of sendmsg(2), and one for what is too large.
    pub fn send(
        &self,
        packet: &Packet,
        descriptors: &[BorrowedFd<'_>],
        patient: bool,
    ) -> std::io::Result<()> {
        let bytes = packet
            .encode(descriptors.len())
            .map_err(std::io::Error::other)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        let mut flags = SendFlags::NOSIGNAL;
        flags.set(SendFlags::DONTWAIT, !patient);
        sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut beside, flags)?;
        Ok(())
    }

    /// Takes the next packet, which may be none of ours; `None` at the end of the connection. Its descriptors close on exec.
    ///
    /// # Errors
    /// The errors of recvmsg(2); `TimedOut` when nothing has come by then.
    pub fn receive(&self, patience: Option<Duration>) -> std::io::Result<Option<Received>> {
        self.take(patience, RecvFlags::CMSG_CLOEXEC)
    }

    /// The next packet as [`PacketLine::receive`] has it, which stays the next one: its descriptors are copies.
    ///
    /// # Errors
    /// As there.
    pub fn peek(&self, patience: Option<Duration>) -> std::io::Result<Option<Received>> {
        self.take(patience, RecvFlags::CMSG_CLOEXEC | RecvFlags::PEEK)
    }

    fn take(
        &self,
        patience: Option<Duration>,
        flags: RecvFlags,
    ) -> std::io::Result<Option<Received>> {
        if let Some(patience) = patience {
            let mut waited = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
            if poll(&mut waited, patience)? == 0 {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
        }
        // One byte more than the longest: a longer one shows as too long.
        let mut bytes = vec![0; HEADER + MOST_BODY + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut pieces = [IoSliceMut::new(&mut bytes)];
        let came = loop {
            match recvmsg(&self.0, &mut pieces, &mut beside, flags) {
                Err(Errno::INTR) => {}
                // The other end went before it had read everything, and may have left an answer: unix_release_sock() in the kernel. The
                // error is told once.
                Err(Errno::CONNRESET) => {}
                came => break came?,
            }
        };
        let mut descriptors = Vec::new();
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if came.bytes == 0 && descriptors.is_empty() {
            return Ok(None);
        }
        let cut = ReturnFlags::TRUNC | ReturnFlags::CTRUNC;
        if came.flags.intersects(cut) {
            return Ok(Some(Err(PacketError::Length)));
        }
        let packet = Packet::decode(&bytes[..came.bytes], descriptors.len());
        Ok(Some(packet.map(|packet| (packet, descriptors))))
    }
}
