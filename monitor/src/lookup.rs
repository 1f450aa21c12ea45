//! One socket for every address and port of a network namespace; `BPF_PROG_TYPE_SK_LOOKUP`,
//! `Documentation/bpf/prog_sk_lookup.rst`.
//!
//! The kernel asks the program which socket takes a packet that begins a connection, and a datagram that no connected
//! socket takes. It names one of four, by family and protocol. Packets to the loopback are for the namespace's own servers,
//! except at the port of name servers: a resolver that knows of none asks there.
//!
//! A program of a few instructions that every run which asks for it loads itself: it is no part of the object that runs share, and
//! whoever does not ask for it pays nothing.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;

use crate::sys::{AttachPoint, link_to, load_lookup, map_of_sockets, put_socket};

/// The sockets that take everything. Those of version 6 take nothing of version 4.
#[derive(Clone, Copy, Debug)]
pub struct LookupSockets<'a> {
    /// The listening stream sockets, of version 4 and of version 6.
    pub streams: [BorrowedFd<'a>; 2],
    /// The bound datagram sockets, of version 4 and of version 6.
    pub datagrams: [BorrowedFd<'a>; 2],
}

/// The reason why sockets cannot take everything.
#[derive(Debug, thiserror::Error)]
#[error("could not {act}")]
pub struct LookupError {
    act: &'static str,
    source: Errno,
}

impl LookupError {
    /// The fix.
    pub fn fix(&self) -> &'static str {
        match self.source {
            Errno::EPERM | Errno::EACCES => {
                "run turnkey as root, with CAP_BPF and CAP_NET_ADMIN of the host, or choose another network mode"
            }
            _ => {
                "boot Linux 5.13 or later, built with CONFIG_BPF_SYSCALL=y and CONFIG_INET=y, or choose another network mode"
            }
        }
    }
}

/// Sockets that take everything as long as it is not dropped.
#[derive(Debug)]
pub struct SocketLookup {
    _link: OwnedFd,
}

impl SocketLookup {
    /// Has these sockets take all that comes in a network namespace.
    ///
    /// # Errors
    /// When the kernel cannot, or not for this caller.
    pub fn attach(
        network: BorrowedFd<'_>,
        sockets: LookupSockets<'_>,
    ) -> Result<SocketLookup, LookupError> {
        let failed = |act| move |source| LookupError { act, source };
        let all = sockets.streams.into_iter().chain(sockets.datagrams);
        let map =
            map_of_sockets(SOCKETS).map_err(failed("make the map of the sinkhole's sockets"))?;
        for (index, socket) in (0..).zip(all) {
            put_socket(map.as_fd(), index, socket)
                .map_err(failed("put a socket of the sinkhole into its map"))?;
        }
        let program = load_lookup(&program(&map)).map_err(failed(
            "load the program that leads connections to the sinkhole",
        ))?;
        let link = link_to(program.as_fd(), network, AttachPoint::BPF_SK_LOOKUP)
            .map_err(failed("lead the jail's connections to the sinkhole"))?;
        // The program keeps the map, and the link the program.
        Ok(SocketLookup { _link: link })
    }
}

/// Entries of the map: streams of version 4 and 6, datagrams of version 4 and 6.
const SOCKETS: u32 = 4;

/// Fields of `struct bpf_sk_lookup`, in bytes.
mod field {
    pub const FAMILY: i16 = 8;
    pub const PROTOCOL: i16 = 12;
    pub const LOCAL_V4: i16 = 40;
    pub const LOCAL_V6: i16 = 44;
    /// In the order of the host's bytes.
    pub const LOCAL_PORT: i16 = 60;
}

/// Operations, `linux/bpf.h`.
mod op {
    pub const LOAD_IMMEDIATE: u8 = 0x18;
    pub const LOAD_WORD: u8 = 0x61;
    pub const STORE_WORD: u8 = 0x63;
    pub const ADD: u8 = 0x07;
    pub const AND: u8 = 0x57;
    pub const OR_REGISTER: u8 = 0x4f;
    pub const SET: u8 = 0xb7;
    pub const COPY: u8 = 0xbf;
    pub const GOTO: u8 = 0x05;
    pub const IF_EQUAL: u8 = 0x15;
    pub const IF_NOT: u8 = 0x55;
    pub const CALL: u8 = 0x85;
    pub const EXIT: u8 = 0x95;
}

const MAP_LOOKUP_ELEM: i32 = 1;
const SK_RELEASE: i32 = 86;
const SK_ASSIGN: i32 = 124;
/// `BPF_PSEUDO_MAP_FD`: the immediate value is a map.
const MAP: u8 = 1;
/// The verdict that the lookup goes on: with the socket that was named, or without one as ever.
const SK_PASS: i32 = 1;
const AF_INET: i32 = 2;
const IPPROTO_TCP: i32 = 6;
const NAME_SERVER: i32 = 53;
/// The place of the key on the stack, below the frame pointer, register 10.
const KEY: i16 = -4;

/// The program. Jumps count the instructions behind them; the numbers beside the lines are those.
fn program(map: &OwnedFd) -> [u64; 36] {
    let map = map.as_raw_fd();
    [
        ins(op::COPY, (6, 1), 0, 0), // 0: register 6 is the context
        ins(op::SET, (7, 0), 0, 0),  // 1: register 7 is the key
        ins(op::LOAD_WORD, (2, 6), field::PROTOCOL, 0), // 2
        ins(op::IF_EQUAL, (2, 0), 1, IPPROTO_TCP), // 3: to 5
        ins(op::SET, (7, 0), 0, 2),  // 4: datagrams come second
        ins(op::LOAD_WORD, (2, 6), field::FAMILY, 0), // 5
        ins(op::IF_EQUAL, (2, 0), 8, AF_INET), // 6: to 15
        ins(op::ADD, (7, 0), 0, 1),  // 7: of version 6
        ins(op::LOAD_WORD, (3, 6), field::LOCAL_V6, 0), // 8
        ins(op::LOAD_WORD, (4, 6), field::LOCAL_V6 + 4, 0),
        ins(op::OR_REGISTER, (3, 4), 0, 0),
        ins(op::LOAD_WORD, (4, 6), field::LOCAL_V6 + 8, 0),
        ins(op::OR_REGISTER, (3, 4), 0, 0),
        ins(op::IF_NOT, (3, 0), 6, 0), // 13: to 20, unless ::1
        ins(op::GOTO, (0, 0), 3, 0),   // 14: to 18
        ins(op::LOAD_WORD, (3, 6), field::LOCAL_V4, 0), // 15: of version 4
        ins(op::AND, (3, 0), 0, 0xff), // 16: its first byte, on the machines that turnkey runs on
        ins(op::IF_NOT, (3, 0), 2, 127), // 17: to 20, unless 127/8
        ins(op::LOAD_WORD, (2, 6), field::LOCAL_PORT, 0), // 18: the loopback
        ins(op::IF_NOT, (2, 0), 14, NAME_SERVER), // 19: to 34
        ins(op::STORE_WORD, (10, 7), KEY, 0), // 20: the socket is looked up
        ins(op::LOAD_IMMEDIATE, (1, MAP), 0, map), // 21
        0,                             // 22: the upper half of it
        ins(op::COPY, (2, 10), 0, 0),  // 23
        ins(op::ADD, (2, 0), 0, KEY as i32), // 24
        ins(op::CALL, (0, 0), 0, MAP_LOOKUP_ELEM), // 25
        ins(op::IF_EQUAL, (0, 0), 7, 0), // 26: to 34
        ins(op::COPY, (7, 0), 0, 0),   // 27
        ins(op::COPY, (1, 6), 0, 0),   // 28
        ins(op::COPY, (2, 0), 0, 0),   // 29
        ins(op::SET, (3, 0), 0, 0),    // 30
        ins(op::CALL, (0, 0), 0, SK_ASSIGN), // 31
        ins(op::COPY, (1, 7), 0, 0),   // 32
        ins(op::CALL, (0, 0), 0, SK_RELEASE), // 33
        ins(op::SET, (0, 0), 0, SK_PASS), // 34
        ins(op::EXIT, (0, 0), 0, 0),   // 35
    ]
}

/// `struct bpf_insn`: the operation, destination and source registers, an offset and an immediate value.
fn ins(operation: u8, (to, from): (u8, u8), offset: i16, value: i32) -> u64 {
    let [low, high] = offset.to_ne_bytes();
    let [first, second, third, fourth] = value.to_ne_bytes();
    // In the order of bits of the machines that turnkey runs on.
    let registers = from << 4 | to;
    u64::from_ne_bytes([
        operation, registers, low, high, first, second, third, fourth,
    ])
}
