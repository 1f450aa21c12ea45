//! The rules about addresses: the first in their list that speaks of an attempt decides.

use turnkey_abi::syscalls::on;
use turnkey_abi::{PEERS, Peer, Table, family, role};

use crate::automaton::{self, Verdict};
use crate::verifier::{self, Step};

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
fn is_v4(ip: Words) -> bool {
    ip[0] | ip[1] == 0 && ip[2] == MAPPED
}

/// A walk through the list.
struct Search {
    table: &'static Table,
    ip: Words,
    /// The port in the machine's byte order.
    port: u16,
    /// The bit of the kind of attempt.
    on: u32,
    to_itself: bool,
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
        if !self.is_of(peer) || !self.is_in(peer) {
            return true;
        }
        self.rule = automaton::stronger(self.table, peer.rule, self.rule);
        // For an unknown actor, a rule that names actors may be meant or not.
        self.role == IS_UNKNOWN && peer.roles != u32::MAX
    }
}

impl Search {
    #[inline(always)]
    fn is_of(&self, peer: &Peer) -> bool {
        let own = if is_v4(self.ip) {
            family::V4
        } else {
            family::V6
        };
        let is_meant = match peer.family {
            family::EVERY => !self.to_itself,
            family::ANY => true,
            family => family == own,
        };
        is_meant && peer.on & self.on != 0 && peer.roles & self.role != 0
    }

    #[inline(always)]
    fn is_in(&self, peer: &Peer) -> bool {
        let mut difference = 0;
        for at in 0..4 {
            difference |= (self.ip[at] ^ peer.network[at]) & peer.mask[at];
        }
        difference == 0 && peer.first <= self.port && self.port <= peer.last
    }

    #[inline(always)]
    fn ask(&mut self, ip: Words) -> u16 {
        self.ip = ip;
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
    to_itself: bool,
) -> Verdict {
    let mut search = Search {
        table,
        ip,
        port,
        on: 1 << (on & 31),
        to_itself,
        role: 1 << (role & 31),
        rule: 0,
    };
    let mut rule = search.ask(ip);
    let [second, third] = others(on, ip);
    if second != ip {
        rule = automaton::stronger(table, rule, search.ask(second));
        rule = automaton::stronger(table, rule, search.ask(third));
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
