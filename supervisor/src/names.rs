//! The names that a policy allows, looked up once on the host before there is a jail.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use turnkey_jailer::host::own_addresses;
use turnkey_policy::{EndpointHost, NetworkMode, Policy, endpoint};

/// Addresses of one name. A service behind more is reached by these.
const MOST_ADDRESSES: usize = 16;
/// Any port: a connect of a datagram socket sends nothing.
const ANY_PORT: u16 = 9;

/// A name that the program may talk to, and that nobody knows here.
#[derive(Debug, thiserror::Error)]
#[error(
    "{entry} is allowed, and its name cannot be resolved on this host; check the name and the network, or write the address itself"
)]
pub struct UnresolvedName {
    entry: String,
    source: std::io::Error,
}

/// Puts the addresses of each allowed name beside it, and adds the rules that the list or the mode implies.
pub fn resolve(policy: &mut Policy) -> anyhow::Result<()> {
    match policy.network.mode {
        NetworkMode::None | NetworkMode::Loopback => return Ok(()),
        NetworkMode::Host => {
            let implied = endpoint::rules_of_host(&policy.rules);
            policy.rules.extend(implied);
            return Ok(());
        }
        NetworkMode::Sinkhole => {
            let implied = endpoint::rules_of_sinkhole(&policy.rules);
            policy.rules.extend(implied);
            return Ok(());
        }
        NetworkMode::Allow => {}
    }
    look_up_all(policy)?;
    let own = own_addresses()?;
    let implied = endpoint::rules(&policy.network.allow, &own, &policy.rules);
    policy.rules.extend(implied);
    Ok(())
}

fn look_up_all(policy: &mut Policy) -> Result<(), UnresolvedName> {
    let mut known: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    for entry in &mut policy.network.allow {
        let EndpointHost::Name(name) = &entry.to.peer else {
            continue;
        };
        if !known.contains_key(name) {
            let unresolved = |source| UnresolvedName {
                entry: entry.to.to_string(),
                source,
            };
            known.insert(name.clone(), look_up(name).map_err(unresolved)?);
        }
        entry.addresses.clone_from(&known[name]);
    }
    Ok(())
}

/// The addresses of a name, as this host finds them.
pub fn look_up(name: &str) -> std::io::Result<Vec<IpAddr>> {
    let mut addresses = Vec::new();
    for found in (name, ANY_PORT).to_socket_addrs()? {
        let address = found.ip().to_canonical();
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(reachable(addresses, &has_route))
}

/// In the jail a connect succeeds before anybody is asked outside, so that a program cannot try the
/// next address when this host has no way to the first: those are left out. Where there is a way to
/// none of them, all stay, and the program hears of it.
fn reachable(addresses: Vec<IpAddr>, has_route: &dyn Fn(IpAddr) -> bool) -> Vec<IpAddr> {
    let (mut with, without): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| has_route(*address));
    if with.is_empty() {
        with = without;
    }
    with.truncate(MOST_ADDRESSES);
    with
}

fn has_route(address: IpAddr) -> bool {
    let own: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(own, 0));
    socket
        .and_then(|socket| socket.connect(SocketAddr::new(address, ANY_PORT)))
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn an_address_without_a_way_is_left_out_unless_there_is_no_other() {
        let both = addresses(&["2001:db8::7", "192.0.2.7"]);
        let v4_only = |address: IpAddr| address.is_ipv4();
        assert_eq!(reachable(both.clone(), &v4_only), addresses(&["192.0.2.7"]));
        assert_eq!(reachable(both.clone(), &|_| false), both);
        assert_eq!(reachable(both.clone(), &|_| true), both);
    }

    #[test]
    fn a_name_has_so_many_addresses() {
        let many = (0..100).map(|last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)));
        assert_eq!(reachable(many.collect(), &|_| true).len(), MOST_ADDRESSES);
    }
}
