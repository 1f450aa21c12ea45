//! Questions to name servers: the data of sends to port 53, also of those that were refused, and of writes to a socket that is connected
//! there, as Go's resolver asks.
//!
//! No hook of the control group sees data, so it is read from the argument when the call returns.
//! By then another thread may have written something else there: it is told, and never decided on.

use turnkey_abi::syscalls::class;
use turnkey_abi::{QUESTION, flag, kind};

use crate::automaton::Verdict;
use crate::emit::{self, Current};
use crate::network::{self, EBADF, ENOTSOCK};
use crate::path;
use crate::peers;
use crate::read::{self, JailCell, Scratch, offset};
use crate::verifier::{Forget, NOTHING, Passage, global};

/// The family that sends over IPv4 take for `AF_INET`.
const AF_UNSPEC: u16 = 0;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// `sizeof(struct sockaddr_in)`
const SIZE_V4: u32 = 16;
/// `sizeof(struct sockaddr_in6)`
const SIZE_V6: u32 = 28;
const PORT: u16 = 53;

/// The number of write(2), which takes its data as sendto(2) does.
const WRITE: i32 = 1;
/// The number of writev(2), which takes pieces.
const WRITEV: i32 = 20;
/// The fewest bytes of a question: the head of a message, the shortest name, type and class; RFC 1035, section 4.1.
const FEWEST: i64 = 17;

/// The destination of a send: its family, and the port in network byte order.
#[derive(Clone, Copy)]
struct Peer {
    family: u16,
    port: u16,
}

/// The data of a send: where it begins, how long it is, and whether there is more elsewhere.
#[derive(Clone, Copy)]
struct Data {
    address: u64,
    length: u64,
    more: bool,
}

impl Peer {
    /// The size of its address; 0 for one that is no name server's.
    #[inline(always)]
    fn size(self) -> u32 {
        match (self.family, u16::from_be(self.port)) {
            (AF_UNSPEC | AF_INET, PORT) => SIZE_V4,
            (AF_INET6, PORT) => SIZE_V6,
            _ => 0,
        }
    }
}

/// The peer that the call names.
#[inline(always)]
fn named(address: u64) -> Peer {
    Peer {
        family: read::user::<u16>(address).0,
        port: read::user::<u16>(address + 2).0,
    }
}

impl Forget for Data {
    #[inline(always)]
    fn forget(self, memory: &mut impl Passage) -> Self {
        Self {
            address: self.address.forget(memory),
            length: self.length.forget(memory),
            more: self.more.forget(memory),
        }
    }
}

/// The peer that a `struct sock` is connected to.
#[inline(always)]
fn connected(sock: u64) -> Peer {
    Peer {
        family: read::kernel(sock + u64::from(offset!(sock_common_skc_family))),
        port: read::kernel(sock + u64::from(offset!(sock_common_skc_dport))),
    }
}

/// Writes the address of the peer that a `struct sock` is connected to, as a `struct sockaddr`.
#[inline(always)]
fn write_connected(scratch: &mut Scratch, sock: u64, peer: Peer) {
    let [first, second] = peer.family.to_ne_bytes();
    let [third, fourth] = peer.port.to_ne_bytes();
    let mut bytes = [0; SIZE_V6 as usize];
    bytes[..4].copy_from_slice(&[first, second, third, fourth]);
    if peer.family == AF_INET {
        let ip: [u8; 4] = read::kernel(sock + u64::from(offset!(sock_common_skc_daddr)));
        bytes[4..8].copy_from_slice(&ip);
    } else {
        let ip: [u8; 16] = read::kernel(sock + u64::from(offset!(sock_common_skc_v6_daddr)));
        bytes[8..24].copy_from_slice(&ip);
    }
    scratch.text[..SIZE_V6 as usize].copy_from_slice(&bytes);
}

/// The data of a call; of several pieces the first.
#[inline(always)]
fn data(call: u8, regs: u64) -> Data {
    let second = read::argument(regs, 1).long();
    if call == class::SENDTO {
        return Data {
            address: second,
            length: read::argument(regs, 2).long(),
            more: false,
        };
    }
    // `msg_iov` and `msg_iovlen` of struct msghdr.
    let ([first, count], _) = read::words(second + 2 * read::word());
    pieces(first, count)
}

/// The first of so many pieces, which begin with its `iov_base` and `iov_len`.
#[inline(always)]
fn pieces(first: u64, count: u64) -> Data {
    let ([address, length], _) = read::words(first);
    Data {
        address,
        length,
        more: count > 1,
    }
}

/// True for a write that may be a question, by its number and its result, where somebody has asked before.
#[inline(always)]
pub fn may_be_written(nr: i32, result: i64) -> bool {
    (nr == WRITE || nr == WRITEV)
        && result >= FEWEST
        && result <= QUESTION as i64
        && read::writes_matter()
}

/// At exit of such a write: tells of it when it went to a socket that is connected to port 53.
#[inline(always)]
pub fn written(scratch: &mut Scratch, jail: JailCell, nr: i32) {
    global_written(scratch, jail.memory(), nr as u32);
}

global!(global_written(scratch, *jail, nr: u32) {
    let regs = read::current_registers();
    written_inline(scratch, jail, emit::current(), nr as i32, regs);
    NOTHING
});

/// [`written`], inlined into its global function.
#[inline(always)]
fn written_inline(scratch: &mut Scratch, jail: JailCell, who: Current, nr: i32, regs: u64) {
    let descriptor = read::argument(regs, 0).word();
    let file = path::file_of(who.task, descriptor);
    if !path::is_socket(file) {
        return;
    }
    let socket = peers::socket_of(file);
    let sock = peers::sock_of(socket);
    let peer = connected(sock);
    let size = peer.size().forget(scratch);
    if size == 0 || size > SIZE_V6 {
        return;
    }
    write_connected(scratch, sock, peer);
    let second = read::argument(regs, 1).long();
    let third = read::argument(regs, 2).long();
    let data = if nr == WRITEV {
        pieces(second, third)
    } else {
        Data {
            address: second,
            length: third,
            more: false,
        }
    };
    tell(scratch, jail, who, (socket, size, 0), data);
}

/// At exit: tells of what was sent, or was to be sent, to port 53.
#[inline(always)]
pub fn leave(scratch: &mut Scratch, jail: JailCell, call: u8, result: i64) {
    global_leave_question(scratch, jail.memory(), call.into(), result);
}

global!(global_leave_question(scratch, *jail, call: u32, result: i64) {
    let end = (read::current_registers(), result);
    leave_inline(scratch, jail, emit::noted(), call as u8, end);
    NOTHING
});

/// [`leave`], inlined into its global function.
#[inline(always)]
fn leave_inline(
    scratch: &mut Scratch,
    jail: JailCell,
    who: Current,
    call: u8,
    (regs, result): (u64, i64),
) {
    if (call != class::SENDTO && call != class::SENDMSG) || result == EBADF || result == ENOTSOCK {
        return;
    }
    // The calls are one from here on, for the verifier too; what differs is looked up again.
    let call = call.forget(scratch);
    let (address, length) = network::argument(call, regs);
    let address = address.forget(scratch);
    let length = u64::from(length).forget(scratch);
    let descriptor = read::argument(regs, 0).word();
    let socket = peers::socket_of(path::file_of(who.task, descriptor));
    let sock = peers::sock_of(socket);
    let is_named = address != 0 && length != 0;
    let peer = if is_named {
        named(address)
    } else {
        connected(sock)
    };
    let size = peer.size().forget(scratch);
    if size == 0 || size > SIZE_V6 {
        return;
    }
    if !is_named {
        write_connected(scratch, sock, peer);
    } else if !read::user_bytes(scratch, address, size) {
        return;
    }
    let errno = if result < 0 { -result as u32 } else { 0 };
    tell(scratch, jail, who, (socket, size, errno), data(call, regs));
}

/// Tells of a question to the address of this size that is in [`Scratch::text`].
#[inline(always)]
fn tell(
    scratch: &mut Scratch,
    jail: JailCell,
    who: Current,
    (socket, size, errno): (u64, u32, u32),
    data: Data,
) {
    emit::begin(&mut scratch.record, kind::QUESTION, who);
    scratch.record.raw_len = size as u16;
    scratch.record.detail = u32::from(peers::type_of(socket));
    scratch.record.errno = errno;
    let data = data.forget(scratch);
    attach_data(scratch, jail, size, data);
    emit::conclude(scratch, jail, who, Verdict::NONE);
}

/// Puts the data behind the address.
#[inline(always)]
fn attach_data(scratch: &mut Scratch, jail: JailCell, at: u32, data: Data) {
    let length = if data.length > QUESTION as u64 {
        QUESTION as u32
    } else {
        data.length as u32
    };
    if data.more || data.length > QUESTION as u64 {
        scratch.record.flags |= flag::PATH_TRUNCATED;
    }
    if length == 0 {
        return;
    }
    if read::append_user_bytes(scratch, at, data.address, length) {
        scratch.record.path_len = length as u16;
    } else {
        scratch.record.flags |= flag::RAW_UNREADABLE;
        jail.count_unreadable();
    }
}
