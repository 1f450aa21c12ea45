//! socket(2): the kinds of socket that may be made.

use aya_ebpf::bindings::bpf_sock;
use turnkey_abi::syscalls::{class, on};
use turnkey_abi::{Record, kind, network, role};

use super::{AF_INET, AF_INET6, AF_UNIX, SOCK_DGRAM, SOCK_STREAM};
use crate::automaton::Verdict;
use crate::class_of;
use crate::emit::{self, Current};
use crate::read::{self, JailCell};

const EAFNOSUPPORT: u32 = 97;
const AF_NETLINK: u32 = 16;
const IPPROTO_TCP: u32 = 6;
const IPPROTO_UDP: u32 = 17;

/// 1 when a socket may be made, else 0: only kinds that the hooks above guard, unless it has none to guard against.
#[inline(always)]
pub fn create(socket: *mut bpf_sock) -> i32 {
    let jail = read::current_jail();
    if jail.is_some_and(JailCell::marks_sockets) {
        read::mark(socket);
    }
    let (socket_type, protocol) = read::socket(socket);
    let stream = socket_type == SOCK_STREAM && protocol == IPPROTO_TCP;
    let datagram = socket_type == SOCK_DGRAM && protocol == IPPROTO_UDP;
    i32::from(stream || datagram || jail.is_some_and(JailCell::has_unruled_sockets))
}

/// True for a family of which every jail has sockets, of any protocol that the hooks above guard.
#[inline(always)]
pub fn has_family(family: u32) -> bool {
    family == AF_UNIX || family == AF_INET || family == AF_INET6
}

/// True for netlink(7) of the protocol that getifaddrs(3) speaks, in a jail whose interfaces are its own.
#[inline(always)]
pub fn asks_for_own_interfaces(jail: JailCell, (family, protocol): (u32, u32)) -> bool {
    const NETLINK_ROUTE: u32 = 0;
    family == AF_NETLINK && protocol == NETLINK_ROUTE && jail.network() != network::HOST
}

/// Tells of a socket that is refused for its family, whichever way it was asked for. No rule speaks
/// of it: every resolver asks for one.
#[inline(always)]
pub fn refuse_family(jail: JailCell, who: Current, arguments: [u64; 3]) {
    let regs = read::current_registers();
    let mut record = Record::ZERO;
    emit::begin(&mut record, kind::REFUSED, who);
    record.what = u16::from(on::CONNECT);
    record.errno = EAFNOSUPPORT;
    record.detail = read::number(regs) as u32;
    record.args = arguments;
    emit::finish_value(&mut record, jail, (Verdict::NONE, role::UNKNOWN));
    if class_of(regs) == class::SOCKET {
        emit::left(jail, read::mark_told(jail, who.thread));
    }
}
