//! A connection of packets, unix(7) `SOCK_SEQPACKET`, with descriptors beside them.

use std::io::{IoSlice, IoSliceMut};
use std::mem::{MaybeUninit, take};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketType, recvmsg, sendmsg,
};
use turnkey_jailer::foreign;

use super::packet::{HEADER, MOST_BODY, MOST_DESCRIPTORS, Packet, PacketError};

/// The type of the socket.
pub const LINE_TYPE: SocketType = SocketType::SEQPACKET;

/// An end of a connection; a [`ForeignSocket`](turnkey_jailer::foreign::ForeignSocket) where its owner must not wait for what the other
/// side has queued.
#[derive(Debug)]
pub struct PacketLine<S: AsFd = OwnedFd>(S);

/// A packet that came, and what came with it.
pub type Received = Result<(Packet, Vec<OwnedFd>), PacketError>;

impl<S: AsFd> From<S> for PacketLine<S> {
    fn from(socket: S) -> PacketLine<S> {
        PacketLine(socket)
    }
}

impl<S: AsFd> AsFd for PacketLine<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl<S: AsFd> PacketLine<S> {
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

    /// Takes the next packet, which is none of ours when descriptors come with it; those stay where they are.
    ///
    /// # Errors
    /// The errors of recvmsg(2).
    pub fn receive_bare(&self) -> std::io::Result<Option<Received>> {
        let came = self.take_into(
            RecvAncillaryBuffer::default(),
            RecvFlags::CMSG_CLOEXEC | RecvFlags::PEEK,
        )?;
        match came {
            Some(Ok(_)) => self.receive(None),
            // A peek closes no more than it has copied.
            other => Ok(other),
        }
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
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        self.take_into(RecvAncillaryBuffer::new(&mut space), flags)
    }

    fn take_into(
        &self,
        mut beside: RecvAncillaryBuffer<'_>,
        flags: RecvFlags,
    ) -> std::io::Result<Option<Received>> {
        // One byte more than the longest: a longer one shows as too long.
        let mut bytes = vec![0; HEADER + MOST_BODY + 1];
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
            foreign::give_up(descriptors);
            return Ok(Some(Err(PacketError::Length)));
        }
        let packet = Packet::decode(&bytes[..came.bytes], descriptors.len());
        if packet.is_err() {
            foreign::give_up(take(&mut descriptors));
        }
        Ok(Some(packet.map(|packet| (packet, descriptors))))
    }
}
