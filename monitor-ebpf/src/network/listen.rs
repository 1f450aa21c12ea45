//! listen(2): the address that a socket waits at.

use turnkey_abi::syscalls::class;
use turnkey_abi::{act, kind};

use super::{AF_INET, AF_INET6, EBADF, ENOTSOCK, EPERM, Internet, decide, tell_internet};
use crate::actor;
use crate::automaton;
use crate::class_of;
use crate::emit::{self, Current};
use crate::path;
use crate::peers;
use crate::read::{self, JailCell, Scratch, offset};
use crate::verifier::{Forget, NOTHING, global};

/// The internet address that a `struct socket` has, if it is of such a family.
#[inline(always)]
pub(super) fn local(socket: u64) -> Option<Internet> {
    let sock = peers::sock_of(socket);
    let family: u16 = read::kernel(sock + u64::from(offset!(sock_common_skc_family)));
    let port: u16 = read::kernel(sock + u64::from(offset!(sock_common_skc_num)));
    let port = u32::from(port.to_be());
    let socket_type = u32::from(peers::type_of(socket));
    match u32::from(family) {
        AF_INET => {
            let ip: u32 = read::kernel(sock + u64::from(offset!(sock_common_skc_rcv_saddr)));
            Some(Internet::v4((ip, port, socket_type)))
        }
        AF_INET6 => {
            let place = sock + u64::from(offset!(sock_common_skc_v6_rcv_saddr));
            let ip: [u32; 4] = read::kernel(place);
            Some(Internet::v6((ip, port, socket_type)))
        }
        _ => None,
    }
}

/// At exit of listen(2): a socket that was never bound has a port now, and no program of the control
/// group was asked. So it is decided on like a bind.
#[inline(always)]
pub fn listened(scratch: &mut Scratch, jail: JailCell, result: i64) {
    global_listened(scratch, jail.memory(), result);
}

global!(global_listened(scratch, *jail, result: i64) {
    let end = (read::current_registers(), result);
    listened_inline(scratch, jail, emit::noted(), end);
    NOTHING
});

/// [`listened`], inlined into its global function.
#[inline(always)]
fn listened_inline(
    scratch: &mut Scratch,
    jail: JailCell,
    who: Current,
    (regs, result): (u64, i64),
) {
    if result == EBADF || result == ENOTSOCK {
        return;
    }
    let descriptor = read::argument(regs, 0).word();
    let socket = peers::socket_of(path::file_of(who.task, descriptor));
    let Some(address) = local(socket) else {
        return;
    };
    let (verdict, _) = decide(jail, scratch.cursor.role, act::LISTEN, address);
    let verdict = verdict.forget(scratch);
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    // In work memory: an `InternetRecord` is more than the stack has left here.
    emit::begin(&mut scratch.record, kind::NETWORK, who);
    scratch.record.what = act::LISTEN;
    scratch.record.detail = address.socket_type;
    scratch.record.errno = if result < 0 { -result as u32 } else { 0 };
    let (words, length) = address.words();
    for (place, word) in scratch.text.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    scratch.record.raw_len = length;
    emit::conclude(scratch, jail, who, verdict);
}

/// Before a socket listens; `false` refuses. What may pass is told at the exit of the call.
#[inline(always)]
pub fn listen_hook(jail: JailCell, who: Current, socket: u64) -> bool {
    let Some(address) = local(socket) else {
        return true;
    };
    let address = address.listening(jail, peers::sock_of(socket));
    let role = actor::role(jail);
    let (verdict, allowed) = decide(jail, role, act::LISTEN, address);
    if allowed {
        return true;
    }
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    if class_of(read::current_registers()) == class::LISTEN {
        emit::left(jail, read::mark_told(jail, who.thread));
    }
    tell_internet(jail, who, act::LISTEN, address, (EPERM, (verdict, role)));
    false
}
