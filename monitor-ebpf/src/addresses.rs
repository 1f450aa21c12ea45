//! The rules about addresses: the first in their list that speaks of an attempt decides.

use turnkey_abi::syscalls::on;
use turnkey_abi::{PEERS, Peer, Table, family, role};

use crate::automaton::{self, Verdict};
use crate::verifier::{self, Bit, Step};

/// An address of IPv6, or one of IPv4 as it is written there: words in network byte order.
pub type Words = [u32; 4];

/// The bit of the role of an unknown actor.
const IS_UNKNOWN: u32 = 1 << role::UNKNOWN;

/// The third word of an address of IPv4 written within IPv6, `::ffff:0:0/96`.
const MAPPED: u32 = 0xffff_u32.to_be();
/// 127.0.0.1 in network byte order.
pub const LOOPBACK_V4: u32 = 0x7f00_0001_u32.to_be();
/// The last word of `::1` in network byte order.
pub const LOOPBACK_V6: u32 = 1_u32.to_be();

/// An address of IPv4 as one of IPv6.
#[inline(always)]
pub fn mapped(ip: u32) -> Words {
    [0, 0, MAPPED, ip]
}

/// True for an address of IPv4 written within IPv6.
#[inline(always)]
fn is_v4([first, second, third, _]: Words) -> Bit {
    Bit::equal(first | second | (third ^ MAPPED), 0_u32)
}

/// A walk through the list. One way leads through each entry: the verifier has all of them to follow, three times for an address.
struct Search {
    table: &'static Table,
    ip: Words,
    /// The port in the machine's byte order.
    port: u16,
    /// The bit of the kind of attempt.
    on: u32,
    /// Bits of [`family`]: those that the address is of.
    families: u16,
    /// The bit of the actor's role.
    role: u32,
    /// The deciding rule plus one, or 0.
    rule: u16,
}

impl Step for Search {
    #[inline(always)]
    fn step(&mut self, round: u32) -> bool {
        if round >= self.table.peer_count {
            return false;
        }
        let peer = &self.table.peers[round as usize % PEERS];
        let is_meant = self.is_of(peer) & self.is_in(peer);
        let rule = automaton::stronger(self.table, peer.rule, self.rule);
        self.rule = is_meant.either(rule, self.rule);
        // For an unknown actor, a rule that names actors may be meant or not.
        let may_be_other = Bit::equal(self.role, IS_UNKNOWN) & !Bit::equal(peer.roles, u32::MAX);
        (!is_meant | may_be_other).is_true()
    }
}

impl Search {
    /// True for an entry that speaks of such an attempt by this actor.
    #[inline(always)]
    fn is_of(&self, peer: &Peer) -> Bit {
        Bit::some(u32::from(self.families) & 1 << (peer.family & 31))
            & Bit::some(peer.on & self.on)
            & Bit::some(peer.roles & self.role)
    }

    /// True for an entry in which the address and the port are.
    #[inline(always)]
    fn is_in(&self, peer: &Peer) -> Bit {
        let mut difference = 0;
        for at in 0..4 {
            difference |= (self.ip[at] ^ peer.network[at]) & peer.mask[at];
        }
        let outside = Bit::less(self.port, peer.first) | Bit::less(peer.last, self.port);
        !Bit::some(difference) & !outside
    }

    #[inline(always)]
    fn ask(&mut self, ip: Words, of_all: u16) -> u16 {
        self.ip = ip;
        self.families = of_all | is_v4(ip).either(1 << family::V4, 1 << family::V6);
        // Zero, of which the verifier knows nothing: a rule that is found is no other case to it.
        self.rule = self.table.reserved as u16;
        verifier::repeat(PEERS as u32, self);
        self.rule
    }
}

/// The rules' verdict on an attempt of this kind on an address. `to_itself`: the jail has a loopback of its own, and
/// this is there.
#[inline(always)]
pub fn decide(
    table: &'static Table,
    role: u32,
    on: u8,
    (ip, port): (Words, u16),
    to_itself: Bit,
) -> Verdict {
    let mut search = Search {
        table,
        ip,
        port,
        on: 1 << (on & 31),
        families: 0,
        role: 1 << (role & 31),
        rule: 0,
    };
    let of_all = to_itself.either(1 << family::ANY, 1 << family::ANY | 1 << family::EVERY);
    let mut rule = search.ask(ip, of_all);
    let [second, third] = others(on, ip);
    if second != ip {
        rule = automaton::stronger(table, rule, search.ask(second, of_all));
        rule = automaton::stronger(table, rule, search.ask(third, of_all));
    }
    automaton::verdict(table, rule)
}

/// Other addresses that the kernel may take an unspecified address for. The reference is `meant` of the policy's
/// `address`.
#[inline(always)]
fn others(on: u8, ip: Words) -> [Words; 2] {
    let loopback = mapped(LOOPBACK_V4);
    if ip == mapped(0) && on != on::BIND {
        [loopback, loopback]
    } else if ip != [0; 4] {
        [ip, ip]
    } else if on == on::BIND {
        [mapped(0), mapped(0)]
    } else {
        [[0, 0, 0, LOOPBACK_V6], loopback]
    }
}
