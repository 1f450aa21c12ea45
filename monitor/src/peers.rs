//! Addresses and ports of rules, as the kernel looks them up.
//!
//! Every pair of an address and a range of ports of a rule is one entry, in the order in which they
//! decide. So the first that speaks of an attempt is the answer, and nothing is left to weigh.

use std::net::{IpAddr, SocketAddr};

use turnkey_abi::{PEERS, Peer, Table, family, role};
use turnkey_policy::{AttemptKind, Candidate, Rule, Subnet, address, peer_precedence};

use crate::compile::{CompileError, plus_one};
use crate::roles::{self, Roles};
use crate::wire::on_code;

/// Writes the rules of attempts that have an address.
pub(crate) fn write(
    rules: &[Rule],
    roles: &Roles<'_>,
    table: &mut Table,
) -> Result<(), CompileError> {
    let mut entries = Vec::new();
    // Kinds of attempt of which every one is spoken of by now.
    let mut settled = 0;
    for candidate in peer_precedence(rules) {
        let mut entry = entry(rules, candidate);
        entry.roles = roles::bits(roles, rules, candidate.rule);
        entry.on &= !settled;
        if entry.family == family::EVERY && !rules[candidate.rule].names_actors() {
            settled |= entry.on;
        }
        if entry.on != 0 {
            entries.push(entry);
        }
    }
    if entries.len() > PEERS {
        return Err(CompileError::TooManyPeers {
            count: entries.len(),
        });
    }
    table.peers.fill(Peer::NONE);
    table.peers[..entries.len()].copy_from_slice(&entries);
    // No more than PEERS.
    table.peer_count = u32::try_from(entries.len()).unwrap_or(0);
    Ok(())
}

fn entry(rules: &[Rule], candidate: Candidate) -> Peer {
    let ports = candidate.ports(rules);
    let of_kind = match candidate.subnet(rules).map(Subnet::network) {
        None if ports.is_none() => family::EVERY,
        None => family::ANY,
        Some(IpAddr::V4(_)) => family::V4,
        Some(IpAddr::V6(_)) => family::V6,
    };
    let (network, mask) = candidate
        .subnet(rules)
        .map_or(([0; 4], [0; 4]), address_and_mask);
    let kinds = rules[candidate.rule].on.iter();
    let kinds = kinds.filter(|on| on.has_address());
    Peer {
        network,
        mask,
        first: ports.map_or(0, |ports| ports.first()),
        last: ports.map_or(u16::MAX, |ports| ports.last()),
        on: kinds.fold(0, |bits, on| bits | bit(*on)),
        family: of_kind,
        rule: plus_one(Some(candidate.rule)),
        roles: 0,
    }
}

fn bit(on: AttemptKind) -> u32 {
    1 << on_code(on)
}

/// The address and the bits of it that count.
fn address_and_mask(subnet: Subnet) -> ([u32; 4], [u32; 4]) {
    let length = match subnet.network() {
        IpAddr::V4(_) => 96 + u32::from(subnet.length()),
        IpAddr::V6(_) => u32::from(subnet.length()),
    };
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
    (
        words(subnet.network()),
        in_network_order(mask.to_be_bytes()),
    )
}

/// As the kernel holds an address of IPv6; one of IPv4 as it is written there.
fn words(address: IpAddr) -> [u32; 4] {
    in_network_order(match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    })
}

fn in_network_order(bytes: [u8; 16]) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    words
}

/// The rule that decides an attempt on an address by an actor of this role: a rule plus one, or 0.
pub(crate) fn rule_of(
    table: &Table,
    role: u32,
    (on, peer): (AttemptKind, SocketAddr),
    to_itself: bool,
) -> u16 {
    let meant = address::meant(on, peer.ip());
    let asked = meant.into_iter();
    let asked = asked.map(|ip| of_one(table, role, (on, (ip, peer.port())), to_itself));
    asked
        .reduce(|one, other| stronger(table, one, other))
        .unwrap_or(0)
}

/// The rule plus one with the stronger action, and the earlier, when both are as strong.
fn stronger(table: &Table, one: u16, other: u16) -> u16 {
    let strength = |rule: u16| table.strengths[usize::from(rule)];
    let is_stronger = strength(other) > strength(one);
    let is_earlier = strength(other) == strength(one) && other < one;
    if is_stronger || is_earlier {
        other
    } else {
        one
    }
}

fn of_one(
    table: &Table,
    role: u32,
    (on, (address, port)): (AttemptKind, (IpAddr, u16)),
    to_itself: bool,
) -> u16 {
    let own = match address {
        IpAddr::V4(_) => family::V4,
        IpAddr::V6(_) => family::V6,
    };
    let address = words(address);
    let speaks = |peer: &&Peer| {
        let is_there = (0..4).all(|at| (address[at] ^ peer.network[at]) & peer.mask[at] == 0);
        let is_meant = match peer.family {
            family::EVERY => !to_itself,
            family::ANY => true,
            family => family == own,
        };
        let is_of = peer.on & bit(on) != 0 && peer.roles & 1 << role != 0;
        is_of && is_there && is_meant && (peer.first..=peer.last).contains(&port)
    };
    // No count exceeds PEERS.
    let count = usize::try_from(table.peer_count).unwrap_or(0);
    let mut answer = 0;
    for peer in table.peers[..count].iter().filter(speaks) {
        answer = stronger(table, peer.rule, answer);
        // For an unknown actor, a rule that names actors may be meant or not.
        if role != role::UNKNOWN || peer.roles == u32::MAX {
            break;
        }
    }
    answer
}
