//! Descriptors on their way from one process to another, unix(7) `SCM_RIGHTS`.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;

use super::{Result, Word, call, fd, owned, word};

/// The number of the first descriptor that a manager of services passes, sd_listen_fds(3).
const FIRST_PASSED: Word = 3;

/// A copy of the first descriptor that a manager of services has passed, which closes on exec, in the place of that one. For a process whose
/// environment says that it has one: then the number is nobody else's.
pub fn passed() -> Result<OwnedFd> {
    let command = Word::from(libc::F_DUPFD_CLOEXEC);
    let copy = [FIRST_PASSED, command, FIRST_PASSED, 0, 0, 0];
    let copy = call(libc::SYS_fcntl, copy).map(owned)?;
    call(libc::SYS_close, [FIRST_PASSED, 0, 0, 0, 0, 0])?;
    Ok(copy)
}

/// `struct iovec`.
#[repr(C)]
struct IoVec {
    start: *const u8,
    length: usize,
}

/// `struct msghdr`.
#[repr(C)]
struct MessageHeader {
    name: usize,
    name_length: u32,
    pieces: *const IoVec,
    piece_count: usize,
    control: *mut DescriptorMessage,
    control_length: usize,
    flags: i32,
}

/// `struct cmsghdr` with one descriptor behind it, and the padding.
#[repr(C)]
struct DescriptorMessage {
    length: usize,
    level: i32,
    kind: i32,
    descriptor: RawFd,
    padding: u32,
}

/// Header and descriptor, without the padding: `CMSG_LEN(4)`.
const ONE_DESCRIPTOR: usize = std::mem::offset_of!(DescriptorMessage, padding);

/// sendmsg(2) of a packet and a descriptor. One packet is sent whole or not at all.
pub fn send_with(socket: BorrowedFd<'_>, packet: &[u8], descriptor: BorrowedFd<'_>) -> Result<()> {
    let mut control = DescriptorMessage {
        length: ONE_DESCRIPTOR,
        level: libc::SOL_SOCKET,
        kind: libc::SCM_RIGHTS,
        descriptor: descriptor.as_raw_fd(),
        padding: 0,
    };
    let piece = piece(packet.as_ptr(), packet.len());
    let header = header(&piece, &raw mut control);
    let arguments = [
        fd(socket),
        word((&raw const header) as usize),
        Word::from(libc::MSG_NOSIGNAL),
        0,
        0,
        0,
    ];
    call(libc::SYS_sendmsg, arguments).map(drop)
}

/// recvmsg(2) of a packet, and of the descriptor that came with it. `EMFILE`: one came and this
/// process may have no more.
pub fn receive_with(socket: BorrowedFd<'_>, packet: &mut [u8]) -> Result<(usize, Option<OwnedFd>)> {
    let mut control = DescriptorMessage {
        length: 0,
        level: 0,
        kind: 0,
        descriptor: -1,
        padding: 0,
    };
    let piece = piece(packet.as_mut_ptr(), packet.len());
    let mut header = header(&piece, &raw mut control);
    let arguments = [
        fd(socket),
        word((&raw mut header) as usize),
        Word::from(libc::MSG_CMSG_CLOEXEC),
        0,
        0,
        0,
    ];
    let length = call(libc::SYS_recvmsg, arguments)?;
    if header.flags & libc::MSG_CTRUNC != 0 {
        return Err(Errno::EMFILE);
    }
    let came = control.length == ONE_DESCRIPTOR
        && control.level == libc::SOL_SOCKET
        && control.kind == libc::SCM_RIGHTS;
    let descriptor = came.then(|| owned(Word::from(control.descriptor)));
    Ok((usize::try_from(length).unwrap_or(0), descriptor))
}

/// getsockopt(2) `SO_PEERGROUPS`: the supplementary groups of who connected, at that moment.
pub fn peer_groups(socket: BorrowedFd<'_>) -> Result<Vec<u32>> {
    // As many as a process can have: `NGROUPS_MAX`.
    let mut groups = vec![0_u32; 65_536];
    let mut length = u32::try_from(size_of_val(&*groups)).unwrap_or(u32::MAX);
    let arguments = [
        fd(socket),
        Word::from(libc::SOL_SOCKET),
        Word::from(libc::SO_PEERGROUPS),
        word(groups.as_mut_ptr() as usize),
        word((&raw mut length) as usize),
        0,
    ];
    call(libc::SYS_getsockopt, arguments)?;
    groups.truncate(usize::try_from(length).unwrap_or(0) / size_of::<u32>());
    Ok(groups)
}

fn piece(start: *const u8, length: usize) -> IoVec {
    IoVec { start, length }
}

fn header(piece: &IoVec, control: *mut DescriptorMessage) -> MessageHeader {
    MessageHeader {
        name: 0,
        name_length: 0,
        pieces: piece,
        piece_count: 1,
        control,
        control_length: std::mem::size_of::<DescriptorMessage>(),
        flags: 0,
    }
}
