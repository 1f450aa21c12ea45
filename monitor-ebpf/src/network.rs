//! connect(2), bind(2), and sends with an address.
//!
//! Internet addresses are decided on by the cgroup hooks, which see the kernel's own copy and can
//! refuse the act. Everything else, and what seccomp refused before any hook, is told at exit
//! from the argument in user memory.

mod create;
mod listen;

use aya_ebpf::bindings::bpf_sock_addr;
use turnkey_abi::syscalls::{class, on};
use turnkey_abi::{ADDRESS, Record, act, action, column, flag, kind, magic, network};

use crate::actor;
use crate::addresses::{self, LOOPBACK_V4, LOOPBACK_V6, Words};
use crate::automaton::{self, Verdict, decide_kind};
use crate::emit::{self, Current};
use crate::open;
use crate::path;
use crate::peers;
use crate::read::{self, JailCell, Message, Scratch, Tuple};
use crate::verifier::{self, Bit, Forget, NOTHING, global};

use listen::local;

pub use create::{asks_for_own_interfaces, create, has_family, refuse_family};
pub use listen::{listen_hook, listened};

const EPERM: u32 = 1;
const EACCES: u32 = 13;
const ENOSYS: u32 = 38;
const ECONNREFUSED: u32 = 111;
pub const EBADF: i64 = -9;
pub const ENOTSOCK: i64 = -88;
const AT_FDCWD: i32 = -100;
const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
/// The port where name servers answer, in network byte order.
const NAME_SERVER: u32 = 53_u16.to_be() as u32;
/// Bytes of `struct sockaddr_in` that hold address and port.
const LEAST_V4: u32 = 8;
/// Bytes of `struct sockaddr_in6` that hold address and port.
const LEAST_V6: u32 = 24;

/// A record with room for an internet address; small enough for the stack, because these hooks
/// can be interrupted by another task of the jail.
#[repr(C)]
struct InternetRecord {
    record: Record,
    /// `struct sockaddr_in6` at most: 28 bytes, and 4 that are not part of the record.
    address: [u32; 8],
}

impl Message for InternetRecord {
    const WORDS: usize = 4;

    #[inline(always)]
    fn record(&mut self) -> &mut Record {
        &mut self.record
    }
}

/// An address as a hook sees it: in network byte order.
#[derive(Clone, Copy)]
pub struct Internet {
    family: u32,
    ip: Words,
    port: u32,
    socket_type: u32,
    /// A socket of the jail's own takes what is sent there, or is about to, in a jail that reaches nobody else.
    is_heard: Bit,
    /// A socket of the jail would, if there were one: the kernel itself answers that there is none.
    is_unheard: Bit,
    /// The number of the socket, where sockets bear one; else 0.
    number: u32,
}

impl Internet {
    #[inline(always)]
    pub fn v4((ip, port, socket_type): (u32, u32, u32)) -> Self {
        Self {
            family: AF_INET,
            ip: addresses::mapped(ip),
            port,
            socket_type,
            is_heard: Bit::FALSE,
            is_unheard: Bit::FALSE,
            number: 0,
        }
    }

    #[inline(always)]
    pub fn v6((ip, port, socket_type): (Words, u32, u32)) -> Self {
        Self {
            family: AF_INET6,
            ip,
            port,
            socket_type,
            is_heard: Bit::FALSE,
            is_unheard: Bit::FALSE,
            number: 0,
        }
    }

    /// The jail itself: 127/8, ::1, either as a mapped address, or the unspecified address, which
    /// the kernel takes for them.
    #[inline(always)]
    fn is_loopback(self) -> Bit {
        let [first, second, third, last] = self.ip.map(u32::from_be);
        let unspecified = Bit::equal(last, 0_u32);
        let v4 = Bit::equal(last >> 24, 127_u32) | unspecified;
        let v6 = Bit::equal(last, 1_u32) | unspecified;
        let is_own = Bit::equal(third, 0_u32) & v6 | Bit::equal(third, 0xffff_u32) & v4;
        Bit::equal(first | second, 0_u32) & is_own
    }

    /// The address with what the hook alone can find out: whether the jail itself listens there. In a network
    /// namespace other than the one that turnkey is in there are no sockets but the jail's. With a loopback that is asked of name servers.
    #[inline(always)]
    fn asked(mut self, jail: JailCell, what: u16, context: *mut bpf_sock_addr) -> Self {
        // What is found out about a copy the verifier does not note of the address, and the ways meet again here.
        let copy = Self {
            ip: self.ip.map(|word| verifier::apart(u64::from(word)) as u32),
            ..self
        };
        let is_stream = copy.socket_type == SOCK_STREAM;
        let is_none = jail.network() == network::NONE;
        let is_own = (is_none || is_stream && copy.asks_for_names(jail).is_true())
            && copy.is_loopback().is_true()
            && is_of_the_jail(jail, read::own_network(context));
        // A server at every address of such a namespace is one at its loopback.
        let is_heard = is_own
            && (on_of(what) == on::BIND
                || read::has_receiver(context, is_stream, copy.tuple())
                || what == act::CONNECT && is_stream && copy.is_where(read::bound(context)));
        self.is_heard = Bit::settled(is_heard);
        // Of other calls the verifier is to know that they are not.
        if what == act::CONNECT {
            // An address of another family the kernel refuses as such, behind this hook: tcp_v4_connect() of net/ipv4/tcp_ipv4.c.
            let is_unheard =
                is_own && !is_heard && is_stream && read::family_asked(context) == copy.family;
            self.is_unheard = Bit::settled(is_unheard);
        }
        self
    }

    /// The address of a socket that is to listen, `sock`. Without a network a jail listens to itself alone, as long as the namespace is
    /// its own: the tracepoint tier, which hears of it afterwards, lets it too.
    #[inline(always)]
    fn listening(mut self, jail: JailCell, sock: u64) -> Self {
        let is_jails = is_of_the_jail(jail, read::network_of(sock));
        let is_none = Bit::equal(jail.network(), network::NONE);
        self.is_heard = Bit::settled(is_jails) & is_none & self.is_loopback();
        self
    }

    /// The loopback address as the end of a connection for the kernel's search, and its size. An unspecified address
    /// is the loopback, as for connect(2).
    #[inline(always)]
    fn tuple(self) -> (Tuple, u32) {
        let [_, _, third, last] = self.ip;
        if third != 0 {
            let ip = if last == 0 { LOOPBACK_V4 } else { last };
            ([0, ip, self.port << 16, 0, 0, 0, 0, 0, 0], 12)
        } else {
            ([0, 0, 0, 0, 0, 0, 0, LOOPBACK_V6, self.port << 16], 36)
        }
    }

    /// True when a socket bound there meets itself at this loopback address: two that ask for each other are connected, and one
    /// can be both. RFC 9293, section 3.5.
    #[inline(always)]
    fn is_where(self, (v4, v6, port): (u32, u32, u32)) -> bool {
        let [_, _, third, last] = self.ip;
        let (bound, loopback) = if third != 0 {
            (v4, LOOPBACK_V4)
        } else {
            (v6, LOOPBACK_V6)
        };
        let asked = if last == 0 { loopback } else { last };
        port != 0
            && port == u32::from(u16::from_be(self.port as u16))
            && (bound == asked || bound == 0 && asked == loopback)
    }

    /// A datagram socket asks where a resolver without a name server does: the jail itself, where it has a network of its own. No
    /// server is there, and the question is told by name: that of an address is refused where there is no network.
    #[inline(always)]
    fn asks_nobody(self, jail: JailCell, what: u16) -> Bit {
        let has_some = self.asks_for_names(jail);
        let is_none =
            Bit::equal(jail.network(), network::NONE) & Bit::equal(self.port, NAME_SERVER);
        let asks = (is_none | has_some) & Bit::equal(what, act::CONNECT);
        (asks | has_some & Bit::equal(what, act::SEND))
            & Bit::equal(self.socket_type, SOCK_DGRAM)
            & self.is_loopback()
    }

    /// The port of name servers, in a jail that has a loopback and no name server there: in a sinkhole somebody answers.
    #[inline(always)]
    fn asks_for_names(self, jail: JailCell) -> Bit {
        let mode = |own: u32| Bit::equal(jail.network(), own);
        let is_answered = Bit::settled(jail.marks_sockets());
        (mode(network::LOOPBACK) | mode(network::ALLOW))
            & !is_answered
            & Bit::equal(self.port, NAME_SERVER)
    }

    /// True when a bind takes nothing but a port of the kernel's choice, as a send does by itself. Libraries look for IPv6 so.
    #[inline(always)]
    fn takes_any_port(self, what: u16) -> Bit {
        Bit::equal(what, act::BIND) & Bit::equal(self.port, 0_u32) & self.is_loopback()
    }

    /// A datagram socket connected to port 0 reaches no peer and sends nothing: getaddrinfo(3) puts its addresses in order so.
    #[inline(always)]
    fn is_nobody(self, what: u16) -> bool {
        what == act::CONNECT && self.socket_type == SOCK_DGRAM && self.port == 0
    }

    /// The address as `struct sockaddr_in` or `sockaddr_in6`, and its size.
    #[inline(always)]
    fn words(self) -> ([u32; 8], u16) {
        let head = self.family | self.port << 16;
        let [first, second, third, last] = self.ip;
        if self.family == AF_INET {
            ([head, last, 0, 0, 0, 0, 0, 0], 16)
        } else {
            ([head, 0, first, second, third, last, 0, 0], 28)
        }
    }
}

/// True for the cookie of a network namespace that is not turnkey's.
#[inline(always)]
fn is_of_the_jail(jail: JailCell, own: u64) -> bool {
    let outside = jail.outside();
    own != 0 && outside != 0 && own != outside
}

#[inline(always)]
fn on_of(what: u16) -> u8 {
    match what {
        act::CONNECT => on::CONNECT,
        act::BIND | act::LISTEN => on::BIND,
        _ => on::SEND,
    }
}

/// The verdict of the rules, and true when rules and network mode let the act go on.
#[inline(always)]
fn decide(jail: JailCell, role: u32, what: u16, address: Internet) -> (Verdict, bool) {
    let Some(table) = emit::table(jail) else {
        return (Verdict::NONE, false);
    };
    let mode = |known: u32| Bit::equal(jail.network(), known);
    let allows_others = mode(network::ALLOW) | mode(network::HOST);
    let has_loopback = mode(network::ALLOW) | mode(network::LOOPBACK) | address.is_heard;
    let inside = address.is_loopback();
    // Connecting and sending to oneself is no attempt to get out.
    let is_server = Bit::equal(on_of(what), on::BIND);
    let asks_nobody = address.asks_nobody(jail, what) | address.is_unheard;
    let ours = has_loopback & inside & !is_server | asks_nobody;
    // Where there is more than loopback, the rules say what of it.
    let reachable = allows_others
        | has_loopback & (inside | is_server)
        | address.takes_any_port(what)
        | asks_nobody;
    let port = u16::from_be(address.port as u16);
    let verdict = addresses::decide(table, role, on_of(what), (address.ip, port), ours);
    if (asks_nobody & !Bit::some(verdict.rule)).is_true() {
        // A rule on every address refuses what gets somewhere: it is violated, and nothing is refused.
        let verdict = automaton::decide_kind(table, role, on_of(what));
        return (verdict, !verdict.kills());
    }
    let refused = Bit::less(action::LOG, verdict.action);
    (verdict, (reachable & !refused).is_true())
}

/// A hook's answer: 1 lets the act go on, 0 fails it with EPERM.
#[inline(always)]
pub fn hook(what: u16, address: Internet, context: *mut bpf_sock_addr) -> i32 {
    // A socket of the jail in the hands of a process outside: no rule is for that.
    let Some(jail) = read::current_jail() else {
        return 0;
    };
    let who = emit::current();
    let role = actor::role(jail);
    let mut address = address.asked(jail, what, context);
    if jail.marks_sockets() {
        address.number = read::number_of(context);
    }
    let (mut verdict, allowed) = decide(jail, role, what, address);
    if address.is_nobody(what) {
        verdict = Verdict::NONE;
    }
    if verdict.kills() {
        // The signal follows when the syscall leaves; this kind of program cannot send it.
        automaton::condemn_for_rule(jail, who.thread);
    }
    if what == act::CONNECT && allowed && address.port == NAME_SERVER {
        read::look_at_writes();
    }
    emit::left(jail, read::mark_address(jail, who.thread));
    let errno = if allowed {
        ECONNREFUSED * u64::from(address.is_unheard) as u32
    } else {
        EPERM
    };
    tell_internet(jail, who, what, address, (errno, (verdict, role)));
    i32::from(allowed)
}

#[inline(always)]
fn tell_internet(
    jail: JailCell,
    who: Current,
    what: u16,
    address: Internet,
    (errno, decided): (u32, (Verdict, u32)),
) {
    let (address_words, length) = address.words();
    let mut message = InternetRecord {
        record: Record::ZERO,
        address: address_words,
    };
    let record = &mut message.record;
    emit::begin(record, kind::NETWORK, who);
    record.what = what;
    record.detail = address.socket_type;
    record.errno = errno;
    record.raw_len = length;
    record.args[0] = u64::from(address.number);
    emit::finish_value(&mut message, jail, decided);
}

/// Address and length of the argument; zeros when the call names none.
#[inline(always)]
pub fn argument(call: u8, regs: u64) -> (u64, u32) {
    let second = read::argument(regs, 1).long();
    match call {
        class::SENDTO => {
            let length = read::argument(regs, 5).word();
            (read::argument(regs, 4).long(), length)
        }
        // struct msghdr begins with the address and its length.
        class::SENDMSG => {
            let ([address, length], is_known) = read::words(second);
            if !is_known {
                // It may name a peer: nothing is at this address, and that is told.
                return (u64::MAX, 1);
            }
            (address, length as u32)
        }
        _ => {
            let length = read::argument(regs, 2).word();
            (second, length)
        }
    }
}

/// [`argument`] of a call that names an address, with as much of it as is looked at.
#[inline(always)]
fn named(call: u8, regs: u64) -> Option<(u64, u32)> {
    let (address, length) = argument(call, regs);
    let most = ADDRESS as u32;
    let length = if length > most { most } else { length };
    (address != 0 && length != 0).then_some((address, length))
}

const SENDMMSG: i32 = 307;

/// True when the filter refused a send that asked for urgent data, as it does whatever address is named. The finding
/// does not tell the verifier anything of what it has to follow afterwards.
#[inline(always)]
pub fn is_refused_urgent(nr: i32, call: u8, (regs, result): (u64, i64)) -> bool {
    const MSG_OOB: u32 = 1;
    const SENDMSG: i32 = 46;
    let (call, nr) = (
        verifier::apart(u64::from(call)) as u8,
        verifier::apart(nr as u64) as i32,
    );
    if verifier::apart(result as u64) as i64 != -i64::from(EPERM)
        || !matches!(call, class::SENDTO | class::SENDMSG)
    {
        return false;
    }
    let flags = if nr == SENDMSG {
        read::argument(regs, 2).word()
    } else {
        read::argument(regs, 3).word()
    };
    flags & MSG_OOB != 0
}

/// True when a call is a sendmmsg(2) of no message: what its argument leads to is none.
#[inline(always)]
pub fn sends_nothing(nr: i32, regs: u64) -> bool {
    nr == SENDMMSG && read::argument(regs, 2).word() == 0
}

#[inline(always)]
fn act_of(call: u8) -> u16 {
    match call {
        class::CONNECT => act::CONNECT,
        class::BIND => act::BIND,
        _ => act::SEND,
    }
}

/// At exit, of a call that no hook has told of: tells of its address.
#[inline(always)]
pub fn leave(scratch: &mut Scratch, jail: JailCell, call: u8, result: i64, verdict: Verdict) {
    let verdict = verdict.word();
    global_leave_network(scratch, jail.memory(), call.into(), result, verdict);
}

global!(global_leave_network(scratch, *jail, call: u32, result: i64, verdict: u32) {
    let end = (read::current_registers(), result);
    let verdict = Verdict::of_word(verdict);
    leave_inline(scratch, jail, emit::noted(), call as u8, end, verdict);
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
    mut verdict: Verdict,
) {
    let Some((address, length)) = named(call, regs) else {
        return;
    };
    let readable = read::user_bytes(scratch, address, length);
    let errno = if result < 0 { -result as u32 } else { 0 };
    let refused = errno == EPERM || errno == EACCES || errno == ENOSYS;
    if readable && refused {
        verdict = decide_argument(scratch, jail, act_of(call), length)
            .or(verdict)
            .forget(scratch);
    }
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    emit::begin(&mut scratch.record, kind::NETWORK, who);
    scratch.record.what = act_of(call);
    scratch.record.flags |= flag::of_lost(scratch.cursor.lost);
    scratch.record.errno = errno;
    if readable {
        scratch.record.raw_len = length as u16;
    } else {
        scratch.record.flags |= flag::RAW_UNREADABLE;
        jail.count_unreadable();
    }
    emit::finish(scratch, jail, verdict);
}

/// The rules' verdict on the file that a call makes which binds a socket.
#[inline(always)]
pub fn decide_bound(scratch: &mut Scratch, jail: JailCell) -> Verdict {
    Verdict::of_word(global_decide_bound(scratch, jail.memory()))
}

global!(global_decide_bound(scratch, *jail) {
    decide_bound_inline(scratch, jail, read::current_registers()).word()
});

/// [`decide_bound`], inlined into its global function.
#[inline(always)]
fn decide_bound_inline(scratch: &mut Scratch, jail: JailCell, regs: u64) -> Verdict {
    let Some(address) = named(class::BIND, regs) else {
        return Verdict::NONE;
    };
    decide_socket_file(scratch, jail, address)
}

/// The rules' verdict on the file that a Unix socket makes where it is bound, which is writing to it. An abstract name
/// makes none. The kernel takes the path to end where the address does. Where there are hooks they are asked.
#[inline(always)]
fn decide_socket_file(
    scratch: &mut Scratch,
    jail: JailCell,
    (address, length): (u64, u32),
) -> Verdict {
    /// Offset of the path in `struct sockaddr_un` of linux/un.h.
    const AT_PATH: u32 = 2;
    let (family, _) = read::user::<u16>(address);
    let Some(table) = emit::table(jail) else {
        return Verdict::NONE;
    };
    if u32::from(family) != AF_UNIX || length <= AT_PATH {
        return Verdict::NONE;
    }
    let path = address + u64::from(AT_PATH);
    let length = read::user_text_within(scratch, path, length - AT_PATH);
    scratch.cursor.own = 0;
    let state = open::state_of_argument(scratch, jail, (AT_FDCWD, length));
    open::doubt_steps(scratch, jail, (AT_FDCWD, length));
    let verdict = automaton::decide_state(scratch, table, state, column::WRITE);
    if scratch.cursor.magic == magic::NONE {
        return verdict.forget(scratch);
    }
    let unknown = automaton::decide_unknown(scratch, table, column::WRITE);
    scratch.cursor.lost = unknown.exceeds(verdict);
    unknown.or(verdict).forget(scratch)
}

/// The rules' verdict on an address that only the filter of syscalls has seen, the first `length` bytes of
/// [`Scratch::text`]. One that is cut is none.
#[inline(always)]
pub fn decide_argument(scratch: &mut Scratch, jail: JailCell, what: u16, length: u32) -> Verdict {
    let verdict = global_decide_address(scratch, jail.memory(), what.into(), length);
    Verdict::of_word(verdict)
}

global!(global_decide_address(scratch, *jail, what: u32, length: u32) {
    decide_argument_inline(scratch, jail, what as u16, length).word()
});

/// [`decide_argument`], inlined into its global function.
#[inline(always)]
fn decide_argument_inline(scratch: &Scratch, jail: JailCell, what: u16, length: u32) -> Verdict {
    let text = &scratch.text;
    let word = |at: usize| u32::from_ne_bytes([text[at], text[at + 1], text[at + 2], text[at + 3]]);
    let role = scratch.cursor.role;
    let family = u32::from(u16::from_ne_bytes([text[0], text[1]]));
    let port = u32::from(u16::from_ne_bytes([text[2], text[3]]));
    let address = match family {
        AF_INET if length >= LEAST_V4 => Internet::v4((word(4), port, 0)),
        AF_INET6 if length >= LEAST_V6 => {
            Internet::v6(([word(8), word(12), word(16), word(20)], port, 0))
        }
        AF_INET | AF_INET6 => {
            let table = emit::table(jail);
            return table.map_or(Verdict::NONE, |table| decide_kind(table, role, on_of(what)));
        }
        _ => return Verdict::NONE,
    };
    let (verdict, _) = decide(jail, role, what, address);
    verdict
}

/// True when a call that could speak of an address has none to tell of: a send to the peer that the socket is connected
/// to, or a descriptor that is no internet socket.
#[inline(always)]
pub fn is_aimless(call: u8, regs: u64) -> bool {
    match call {
        class::CONNECT..=class::SENDMSG => {
            let (address, length) = argument(call, regs);
            address == 0 || length == 0
        }
        class::LISTEN => {
            let descriptor = read::argument(regs, 0).word();
            let file = path::file_of(read::current_task(), descriptor);
            local(peers::socket_of(file)).is_none()
        }
        _ => false,
    }
}
