//! The network of a jail, as routes and listeners of its own network namespace.
//!
//! The namespace has nothing but loopback. Addresses that the policy allows are made local in it, so
//! that a connect to one meets a socket that is waiting there; the supervisor holds that socket, and
//! nobody inside does. Everything else has no route.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use turnkey_policy::endpoint::{self, is_one};
use turnkey_policy::{AllowedHost, EndpointHost, NetworkMode, Policy, SpecialAddress, Subnet};

use super::PlanError;
pub use crate::process::netlink::RangeRoute;

/// Sockets that wait, altogether: each is a descriptor of the supervisor's.
pub const MOST_LISTENERS: usize = 1024;

/// Addresses of the documentation, of which one that the policy does not allow proves that others
/// have no route.
const DENIED_PROBES: [IpAddr; 6] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)),
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)),
    IpAddr::V4(Ipv4Addr::new(240, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 1)),
];

/// The part of the network that a jail reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkReach {
    /// The ranges that are made local, or closed within such, in this order.
    pub routes: Vec<RangeRoute>,
    /// The addresses on which sockets wait; an unspecified one is every one of its family. Each in its order.
    pub listeners: Vec<SocketAddr>,
    /// The lines of /etc/hosts.
    pub hosts: Vec<(IpAddr, String)>,
    /// An address that must have no route; `None` when every one of those in question is allowed.
    pub denied_probe: Option<IpAddr>,
}

impl NetworkReach {
    /// The network of the policy on a host with these addresses of its own.
    pub fn new(policy: &Policy, own: &[IpAddr]) -> Result<NetworkReach, PlanError> {
        match policy.network.mode {
            NetworkMode::None | NetworkMode::Loopback => {
                return Ok(NetworkReach {
                    denied_probe: Some(DENIED_PROBES[0]),
                    ..NetworkReach::default()
                });
            }
            NetworkMode::Sinkhole => return Ok(everything()),
            // Its routes are the host's.
            NetworkMode::Host => return Ok(NetworkReach::default()),
            NetworkMode::Allow => {}
        }
        for entry in &policy.network.allow {
            check_name(entry, own)?;
        }
        let nets: BTreeSet<Subnet> = policy
            .network
            .allow
            .iter()
            .flat_map(AllowedHost::nets)
            .collect();
        Ok(NetworkReach {
            routes: routes(&policy.network.allow, &nets, own),
            listeners: listeners(&policy.network.allow)?,
            hosts: hosts(&policy.network.allow),
            denied_probe: DENIED_PROBES
                .into_iter()
                .find(|stranger| !nets.iter().any(|net| net.contains(*stranger))),
        })
    }
}

/// An address of a range, for a proof that it is local: of all addresses one that says something.
pub fn within(net: Subnet) -> IpAddr {
    let mut telling = DENIED_PROBES.into_iter();
    let everything = net.network().is_unspecified();
    let found = telling.find(|address| everything && net.contains(*address));
    found.unwrap_or(net.network())
}

/// Every address is local: what answers at each of them is the supervisor's own, and there is no other way. What a
/// program sends comes from its loopback.
fn everything() -> NetworkReach {
    let route = |every: IpAddr| {
        let net = Subnet::new(every, 0).ok()?;
        Some(RangeRoute {
            net,
            open: true,
            from_loopback: true,
        })
    };
    let every = [
        IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    ];
    NetworkReach {
        routes: every.into_iter().filter_map(route).collect(),
        ..NetworkReach::default()
    }
}

/// A name is somebody else's to define: one that leads to this machine or its credentials is not
/// what was meant.
fn check_name(entry: &AllowedHost, own: &[IpAddr]) -> Result<(), PlanError> {
    if entry.nets().next().is_none() {
        return Err(PlanError::Unresolved(entry.to.to_string()));
    }
    for address in &entry.addresses {
        let special = SpecialAddress::from_address(*address).map(SpecialAddress::name);
        let own = own.contains(address).then_some("an address of this host");
        if let Some(what) = special.or(own) {
            return Err(PlanError::Rebound {
                entry: entry.to.to_string(),
                address: *address,
                what,
            });
        }
    }
    Ok(())
}

fn routes(allowed: &[AllowedHost], nets: &BTreeSet<Subnet>, own: &[IpAddr]) -> Vec<RangeRoute> {
    // The jail's own loopback is there already, and stays its own.
    let is_home = |net: &Subnet| {
        SpecialAddress::from_address(net.network()) == Some(SpecialAddress::Loopback)
    };
    let open = nets.iter().filter(|net| !(is_one(**net) && is_home(net)));
    let open = open.map(|net| (*net, true));
    let closed = endpoint::closed(allowed, own);
    let closed = closed.into_iter().map(|net| (net, false));
    let routes = open.chain(closed);
    routes
        .map(|(net, open)| RangeRoute {
            net,
            open,
            from_loopback: false,
        })
        .collect()
}

/// One for each port where a range is allowed, and one for each address and port elsewhere: a socket
/// for every address leaves no room beside it.
fn listeners(allowed: &[AllowedHost]) -> Result<Vec<SocketAddr>, PlanError> {
    let everywhere = |net: Subnet| match net.network() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let mut wide = BTreeSet::new();
    let mut single = BTreeSet::new();
    for entry in allowed {
        for net in entry.nets() {
            for port in entry.to.ports.first()..=entry.to.ports.last() {
                if is_one(net) {
                    single.insert(SocketAddr::new(net.network(), port));
                } else {
                    wide.insert(SocketAddr::new(everywhere(net), port));
                }
                if wide.len().max(single.len()) > 4 * MOST_LISTENERS {
                    return Err(PlanError::TooManyListeners);
                }
            }
        }
    }
    single.retain(|place| {
        let place = SocketAddr::new(everywhere(Subnet::one(place.ip())), place.port());
        !wide.contains(&place)
    });
    wide.extend(single);
    if wide.len() > MOST_LISTENERS {
        return Err(PlanError::TooManyListeners);
    }
    Ok(wide.into_iter().collect())
}

fn hosts(allowed: &[AllowedHost]) -> Vec<(IpAddr, String)> {
    let lines = allowed.iter().filter_map(|entry| match &entry.to.peer {
        EndpointHost::Name(name) => Some((name, &entry.addresses)),
        EndpointHost::Net(_) => None,
    });
    let lines = lines.flat_map(|(name, addresses)| {
        addresses
            .iter()
            .map(move |address| (*address, name.clone()))
    });
    let mut told: Vec<(IpAddr, String)> = Vec::new();
    for line in lines {
        if !told.contains(&line) {
            told.push(line);
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnkey_policy::{Overrides, load};

    fn policy(allow: &[&str]) -> Policy {
        let overrides = Overrides::from_flags(allow.iter().map(|text| ("allow", *text))).unwrap();
        let no_files = |_: &str| Err(String::new());
        load("untrusted", &no_files, &overrides).unwrap()
    }

    fn reach(allow: &[&str]) -> Result<NetworkReach, PlanError> {
        NetworkReach::new(&policy(allow), &["10.1.0.9".parse().unwrap()])
    }

    fn described(reach: &NetworkReach) -> (Vec<String>, Vec<String>) {
        let route = |route: &RangeRoute| {
            let sign = if route.open { "" } else { "!" };
            format!("{sign}{}", route.net)
        };
        (
            reach.routes.iter().map(route).collect(),
            reach.listeners.iter().map(ToString::to_string).collect(),
        )
    }

    #[test]
    fn a_single_address_has_a_socket_of_its_own() {
        let reach = reach(&["192.0.2.7:443", "[2001:db8::7]:80-81"]).unwrap();
        let (routes, listeners) = described(&reach);
        assert_eq!(routes, ["192.0.2.7", "2001:db8::7"]);
        assert_eq!(
            listeners,
            ["192.0.2.7:443", "[2001:db8::7]:80", "[2001:db8::7]:81"]
        );
        assert_eq!(reach.denied_probe, Some("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn a_range_has_a_socket_for_each_port_and_no_way_to_what_is_guarded() {
        let reach = reach(&["10.1.0.0/16:80-81", "192.0.2.7:80", "192.0.2.7:443"]).unwrap();
        let (routes, listeners) = described(&reach);
        assert_eq!(routes, ["10.1.0.0/16", "192.0.2.7", "!10.1.0.9"]);
        assert_eq!(listeners, ["0.0.0.0:80", "0.0.0.0:81", "192.0.2.7:443"]);
    }

    #[test]
    fn everything_leaves_out_what_is_guarded_unless_it_is_named() {
        let (routes, _) = described(&reach(&["0.0.0.0/0:80", "[::/0]:80"]).unwrap());
        assert_eq!(
            routes,
            [
                "0.0.0.0/0",
                "::/0",
                "!10.1.0.9",
                "!100.100.100.200",
                "!168.63.129.16",
                "!169.254.0.0/16",
                "!169.254.169.254",
                "!169.254.170.2",
                "!192.0.0.192",
                "!fd00:ec2::254",
                "!fe80::/10"
            ]
        );
        let named = reach(&["0.0.0.0/0:80", "169.254.169.254:80", "10.1.0.9:80"]).unwrap();
        let (routes, _) = described(&named);
        assert!(routes.contains(&"169.254.169.254".to_owned()), "{routes:?}");
        assert!(!routes.contains(&"!10.1.0.9".to_owned()), "{routes:?}");
        assert!(
            named
                .denied_probe
                .is_some_and(|stranger| stranger.is_ipv6())
        );
    }

    #[test]
    fn in_a_sinkhole_every_address_is_local_and_no_socket_of_a_list_waits() {
        let mut policy = policy(&[]);
        policy.network.mode = NetworkMode::Sinkhole;
        let reach = NetworkReach::new(&policy, &[]).unwrap();
        let (routes, listeners) = described(&reach);
        assert_eq!(routes, ["0.0.0.0/0", "::/0"]);
        assert!(reach.routes.iter().all(|route| route.from_loopback));
        assert!(listeners.is_empty() && reach.hosts.is_empty());
        assert_eq!(reach.denied_probe, None);
        let proved: Vec<String> = (reach.routes.iter())
            .map(|route| within(route.net).to_string())
            .collect();
        assert_eq!(proved, ["192.0.2.1", "2001:db8::1"]);
    }

    #[test]
    fn the_hosts_loopback_is_behind_the_jails_own() {
        let (routes, listeners) = described(&reach(&["127.0.0.1:5432"]).unwrap());
        assert_eq!(routes, Vec::<String>::new());
        assert_eq!(listeners, ["127.0.0.1:5432"]);
    }

    #[test]
    fn a_name_is_resolved_before_and_leads_nowhere_near() {
        let unresolved = reach(&["example.org:443"]);
        assert_eq!(
            unresolved,
            Err(PlanError::Unresolved("example.org:443".to_owned()))
        );
        let own = ["10.1.0.9".parse().unwrap()];
        for (address, near) in [
            ("192.0.2.7", false),
            ("10.2.0.1", false),
            ("127.0.0.1", true),
            ("169.254.169.254", true),
            ("fe80::1", true),
            ("10.1.0.9", true),
        ] {
            let mut policy = policy(&["example.org:443"]);
            policy.network.allow[0].addresses = vec![address.parse().unwrap()];
            let reach = NetworkReach::new(&policy, &own);
            assert_eq!(
                matches!(reach, Err(PlanError::Rebound { .. })),
                near,
                "{address}"
            );
            if let Ok(reach) = reach {
                let line = (address.parse().unwrap(), "example.org".to_owned());
                assert_eq!(reach.hosts, [line]);
            }
        }
    }

    #[test]
    fn there_are_only_so_many_sockets() {
        let many = |ports: &str| reach(&[&format!("10.2.0.0/16:{ports}")]);
        assert_eq!(many("1-1024").unwrap().listeners.len(), MOST_LISTENERS);
        assert_eq!(many("1-1025"), Err(PlanError::TooManyListeners));
        let whole = reach(&["192.0.2.1:1-65535", "192.0.2.2:1-65535"]);
        assert_eq!(whole, Err(PlanError::TooManyListeners));
    }
}
