//! Regions of addresses and ports: the sets that rules are about, compared exactly.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::language::{BudgetExceeded, StepBudget};
use crate::address::Subnet;
use crate::decide::Candidate;
use crate::tables::Rule;

/// All of IPv4, or all of IPv6.
const EVERY: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
];

/// A port that people know.
const EXAMPLE: u16 = 443;

/// The addresses and ports that a candidate is about.
#[derive(Clone, Copy, Debug)]
struct PeerRegion {
    /// `None` is every address.
    subnet: Option<Subnet>,
    first: u16,
    last: u16,
}

impl PeerRegion {
    fn new(rules: &[Rule], candidate: Candidate) -> Self {
        let ports = candidate.ports(rules);
        Self {
            subnet: candidate.subnet(rules),
            // A rule without ports speaks of 0 as well.
            first: ports.map_or(0, |ports| ports.first()),
            last: ports.map_or(u16::MAX, |ports| ports.last()),
        }
    }

    fn has_port(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// The intersection, if there is one.
    fn and(self, other: Self) -> Option<Self> {
        let subnet = match (self.subnet, other.subnet) {
            (Some(one), Some(other)) if one.covers(other) => Some(other),
            (Some(one), Some(other)) if other.covers(one) => Some(one),
            (Some(_), Some(_)) => return None,
            (one, other) => one.or(other),
        };
        let (first, last) = (self.first.max(other.first), self.last.min(other.last));
        (first <= last).then_some(Self {
            subnet,
            first,
            last,
        })
    }

    fn subnets(self) -> Vec<Subnet> {
        match self.subnet {
            Some(subnet) => vec![subnet],
            None => EVERY
                .iter()
                .filter_map(|all| Subnet::new(*all, 0).ok())
                .collect(),
        }
    }
}

/// True when a candidate covers this address and port.
pub(super) fn speaks_of(rules: &[Rule], candidate: Candidate, peer: SocketAddr) -> bool {
    let region = PeerRegion::new(rules, candidate);
    region.has_port(peer.port())
        && region
            .subnet
            .is_none_or(|subnet| subnet.contains(peer.ip()))
}

/// An address and port that all of `inside` speak of and none of `outside` does.
pub(super) fn witness(
    rules: &[Rule],
    inside: &[Candidate],
    outside: &[Candidate],
    budget: &mut StepBudget,
) -> Result<Option<SocketAddr>, BudgetExceeded> {
    let regions = |of: &[Candidate]| -> Vec<PeerRegion> {
        let of = of.iter();
        of.map(|candidate| PeerRegion::new(rules, *candidate))
            .collect()
    };
    let everything = PeerRegion {
        subnet: None,
        first: 0,
        last: u16::MAX,
    };
    let both = regions(inside)
        .into_iter()
        .try_fold(everything, PeerRegion::and);
    let Some(both) = both else {
        return Ok(None);
    };
    let outside = regions(outside);
    // The first port that is left over is the first of all, or one behind a range that is not. A port
    // that people know makes the better example.
    let behind = outside
        .iter()
        .filter_map(|region| region.last.checked_add(1));
    let ports = [EXAMPLE, both.first].into_iter().chain(behind);
    for port in ports.filter(|port| both.has_port(*port)) {
        budget.spend(1 + outside.len())?;
        let there: Vec<PeerRegion> = outside
            .iter()
            .copied()
            .filter(|region| region.has_port(port))
            .collect();
        if there.iter().any(|region| region.subnet.is_none()) {
            continue;
        }
        let taken: Vec<Subnet> = there.iter().filter_map(|region| region.subnet).collect();
        for subnet in both.subnets() {
            if let Some(address) = left_over(subnet, &taken, budget)? {
                return Ok(Some(SocketAddr::new(address, port)));
            }
        }
    }
    Ok(None)
}

/// An address of a subnet that is in none of these.
fn left_over(
    subnet: Subnet,
    taken: &[Subnet],
    budget: &mut StepBudget,
) -> Result<Option<IpAddr>, BudgetExceeded> {
    budget.spend(1 + taken.len())?;
    // What remains of halving IPv6 down to where IPv4 is written.
    let is_empty = subnet.network().to_canonical() != subnet.network() && subnet.length() >= 96;
    if is_empty || taken.iter().any(|one| one.covers(subnet)) {
        return Ok(None);
    }
    let inside: Vec<Subnet> = taken
        .iter()
        .copied()
        .filter(|one| subnet.covers(*one))
        .collect();
    let Some(halves) = subnet.halves().filter(|_| !inside.is_empty()) else {
        return Ok(Some(subnet.network()));
    };
    for half in halves {
        if let Some(address) = left_over(half, &inside, budget)? {
            return Ok(Some(address));
        }
    }
    Ok(None)
}
