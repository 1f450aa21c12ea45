//! `HOST:PORT`: whom a jail may talk to, and which addresses no range ever means.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::address::{Ports, Subnet};
use crate::model::{AttemptKind, RuleAction, Severity};
use crate::tables::{AllowedHost, Rule};

/// A destination of TCP: a host or range of addresses, and the ports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The host or range.
    pub peer: EndpointHost,
    /// At which ports.
    pub ports: Ports,
}

impl Endpoint {
    /// From what a profile or a flag says; `None` for what neither may say.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        crate::values::endpoint(text).ok()
    }

    /// True when the endpoint is every host and port of another. A range is no special address: see [`SpecialAddress`].
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let hosts = match (&self.peer, &other.peer) {
            (EndpointHost::Net(own), EndpointHost::Net(net)) => {
                let is_special = SpecialAddress::from_address(net.network()).is_some();
                own == net || own.covers(*net) && !(is_one(*net) && is_special)
            }
            (own, host) => own == host,
        };
        hosts
            && self.ports.first() <= other.ports.first()
            && other.ports.last() <= self.ports.last()
    }
}

/// The host of a destination: a name, or a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EndpointHost {
    /// A name, lower-case, that is resolved once before the run.
    Name(String),
    /// An address, or a range of them.
    Net(Subnet),
}

/// True for a subnet of one address.
#[must_use]
pub fn is_one(net: Subnet) -> bool {
    net == Subnet::one(net.network())
}

/// As it is written in a profile.
impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.peer {
            EndpointHost::Name(name) => write!(formatter, "{name}:")?,
            EndpointHost::Net(net) if net.network().is_ipv6() => write!(formatter, "[{net}]:")?,
            EndpointHost::Net(net) => write!(formatter, "{net}:")?,
        }
        write!(formatter, "{}", self.ports)
    }
}

/// Addresses that lead to the machine itself, to its link or to who runs it: a range never means
/// them, nor does a name, but only an entry that is the very address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialAddress {
    /// The machine itself, however it is written.
    Loopback,
    /// A service of the cloud that hands out the machine's own credentials.
    Metadata,
    /// Neighbours on the wire.
    LinkLocal,
    /// Many at once, which no connection reaches.
    Group,
    /// All on the wire at once, which no connection reaches either.
    Broadcast,
}

impl SpecialAddress {
    /// The special meaning of an address; `None` for most.
    #[must_use]
    pub fn from_address(address: IpAddr) -> Option<SpecialAddress> {
        let address = match address {
            IpAddr::V6(six) => embedded(six).map_or(address, IpAddr::V4),
            IpAddr::V4(_) => address,
        };
        let found = guarded().find(|(net, _)| net.contains(address));
        found.map(|(_, special)| special)
    }

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SpecialAddress::Loopback => "loopback",
            SpecialAddress::Metadata => "the metadata of a cloud",
            SpecialAddress::LinkLocal => "link-local",
            SpecialAddress::Group => "multicast",
            SpecialAddress::Broadcast => "the limited broadcast address",
        }
    }
}

/// The special ranges; the first that holds an address says how.
const GUARDED: &[(&str, u8, SpecialAddress)] = &[
    ("169.254.169.254", 32, SpecialAddress::Metadata),
    ("169.254.170.2", 32, SpecialAddress::Metadata),
    ("100.100.100.200", 32, SpecialAddress::Metadata),
    ("192.0.0.192", 32, SpecialAddress::Metadata),
    ("168.63.129.16", 32, SpecialAddress::Metadata),
    ("fd00:ec2::254", 128, SpecialAddress::Metadata),
    ("127.0.0.0", 8, SpecialAddress::Loopback),
    ("0.0.0.0", 8, SpecialAddress::Loopback),
    ("::", 127, SpecialAddress::Loopback),
    ("169.254.0.0", 16, SpecialAddress::LinkLocal),
    ("fe80::", 10, SpecialAddress::LinkLocal),
    ("224.0.0.0", 4, SpecialAddress::Group),
    ("255.255.255.255", 32, SpecialAddress::Broadcast),
    ("ff00::", 8, SpecialAddress::Group),
];

/// Iterates over the special ranges; the first that holds an address says how.
pub fn guarded() -> impl Iterator<Item = (Subnet, SpecialAddress)> {
    GUARDED.iter().filter_map(|(network, length, special)| {
        let network: IpAddr = network.parse().ok()?;
        Some((Subnet::new(network, *length).ok()?, *special))
    })
}

/// The address of version 4 that one of version 6 stands for: mapped, or behind a translator
/// (64:ff9b::/96, RFC 6052).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [first, second, third, last] = words(address);
    let translated = first == 0x0064_ff9b && second == 0 && third == 0;
    if translated {
        return Some(Ipv4Addr::from_bits(last));
    }
    address.to_ipv4_mapped()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "each word is one quarter of the bits"
)]
fn words(address: Ipv6Addr) -> [u32; 4] {
    let bits = address.to_bits();
    [96, 64, 32, 0].map(|shift| (bits >> shift) as u32)
}

/// True when a list of entries allows an address and port: any range does, but for what is
/// [special](SpecialAddress) and for `own`, the host's own addresses, which only an entry that is the very
/// address, or a name that was resolved to it, means.
#[must_use]
pub fn allows(allowed: &[AllowedHost], own: &[IpAddr], address: IpAddr, port: u16) -> bool {
    // A socket of version 6 can hold an address of version 4.
    let address = address.to_canonical();
    let guarded = SpecialAddress::from_address(address).is_some() || own.contains(&address);
    allowed
        .iter()
        .filter(|entry| entry.to.ports.contains(port))
        .flat_map(AllowedHost::nets)
        .any(|net| net.contains(address) && (!guarded || is_one(net)))
}

/// The rules that the list implies. An allowed address is more specific than a rule that denies every
/// connect; a rule of the profile about some addresses decides as between any two rules. `taken` are
/// the ids of the profile's own rules.
#[must_use]
pub fn rules(allowed: &[AllowedHost], own: &[IpAddr], taken: &[Rule]) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for entry in allowed {
        let mut rule = Rule::new(
            free_id("network-allow", taken, &rules),
            [AttemptKind::Connect],
            RuleAction::Allow,
        );
        rule.address = entry.nets().collect();
        rule.port = vec![entry.to.ports];
        rule.severity = Severity::Info;
        rule.why = format!("the profile allows {}: {}", entry.to, entry.why);
        rules.push(rule);
    }
    let closed = closed(allowed, own);
    if !closed.is_empty() {
        let mut rule = Rule::new(
            free_id("network-guarded", taken, &rules),
            [AttemptKind::Connect],
            RuleAction::Deny,
        );
        rule.address = closed;
        rule.severity = Severity::High;
        "a range never means the host itself, its link or its credentials"
            .clone_into(&mut rule.why);
        rules.push(rule);
    }
    rules
}

/// The rules that the mode `host` implies: everybody is allowed who is named by no rule of the profile's
/// own, but for services that hand out the host's credentials. `rules` are the profile's own.
#[must_use]
pub fn rules_of_host(rules: &[Rule]) -> Vec<Rule> {
    let acts = [AttemptKind::Connect, AttemptKind::Send];
    let mut open = Rule::new(free_id("network-host", rules, &[]), acts, RuleAction::Allow);
    open.address = [
        IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    ]
    .into_iter()
    .filter_map(|every| Subnet::new(every, 0).ok())
    .collect();
    open.severity = Severity::Info;
    "the profile gives the program the host's network".clone_into(&mut open.why);
    let mut guarded_by = Rule::new(
        free_id("network-guarded", rules, &[]),
        acts,
        RuleAction::Deny,
    );
    let metadata = guarded().filter(|(_, special)| *special == SpecialAddress::Metadata);
    let is_named = |net: &Subnet| {
        let mut named = rules.iter().flat_map(|rule| &rule.address);
        named.any(|other| other == net)
    };
    let metadata = metadata.map(|(net, _)| net);
    guarded_by.address = metadata.filter(|net| !is_named(net)).collect();
    guarded_by.severity = Severity::High;
    "the host's network is not its credentials; a rule that names the address alone can allow it"
        .clone_into(&mut guarded_by.why);
    let mut implied = vec![open];
    if !guarded_by.address.is_empty() {
        implied.push(guarded_by);
    }
    implied
}

/// The rules that the mode `sinkhole` implies: everybody answers whom no rule of the profile's own names, because it is
/// turnkey who does; that the credentials of a machine were asked for is told. `rules` are the profile's own.
#[must_use]
pub fn rules_of_sinkhole(rules: &[Rule]) -> Vec<Rule> {
    let mut implied = rules_of_host(rules);
    for rule in &mut implied {
        let words = if rule.action == RuleAction::Allow {
            rule.id = free_id("network-sinkhole", rules, &[]);
            "turnkey answers in the place of everybody, and nothing leaves"
        } else {
            rule.action = RuleAction::Log;
            "the address hands out the credentials of a machine; turnkey answered in its place"
        };
        words.clone_into(&mut rule.why);
    }
    implied
}

/// The parts of allowed ranges that stay closed: special addresses, and what a jail has not for itself.
#[must_use]
pub fn closed(allowed: &[AllowedHost], own: &[IpAddr]) -> Vec<Subnet> {
    let special = guarded()
        .filter(|(_, special)| {
            matches!(
                special,
                SpecialAddress::Metadata | SpecialAddress::LinkLocal
            )
        })
        .map(|(net, _)| net);
    let own = own.iter().copied();
    let own = own
        .filter(|address| SpecialAddress::from_address(*address) != Some(SpecialAddress::Loopback));
    let mut closed: Vec<Subnet> = special.chain(own.map(Subnet::one)).collect();
    closed.sort();
    closed.dedup();
    let nets: Vec<Subnet> = allowed.iter().flat_map(AllowedHost::nets).collect();
    closed.retain(|net| {
        let within = nets.iter().any(|open| !is_one(*open) && open.covers(*net));
        within && !nets.contains(net)
    });
    closed
}

fn free_id(name: &str, taken: &[Rule], rules: &[Rule]) -> String {
    let is_free = |id: &String| !taken.iter().chain(rules).any(|rule| rule.id == *id);
    let others = (2_u32..).map(|number| format!("{name}-{number}"));
    let mut ids = std::iter::once(name.to_owned()).chain(others);
    ids.find(is_free).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::decide::{Attempt, decide};
    use crate::values::endpoint;

    fn allowed(text: &str) -> AllowedHost {
        AllowedHost {
            to: endpoint(text).unwrap(),
            why: String::new(),
            addresses: Vec::new(),
        }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in [
            "example.org:443",
            "10.1.0.0/16:8000-8010",
            "[2001:db8::/32]:443",
            "[::1]:1-65535",
            "192.0.2.1:80",
            "0.0.0.0/0:443",
        ] {
            assert_eq!(endpoint(text).unwrap().to_string(), text);
        }
        assert_eq!(
            endpoint("Example.ORG.:443").unwrap().to_string(),
            "example.org:443"
        );
        assert_eq!(
            endpoint("192.0.2.1/32:80").unwrap().to_string(),
            "192.0.2.1:80"
        );
    }

    #[test]
    fn what_is_no_endpoint_is_refused_with_the_fix() {
        for (text, fix) in [
            ("example.org", "such as example.org:443"),
            ("https://example.org/x", "example.org:443"),
            ("*.example.org:443", "name each host"),
            ("10.1.2.3/16:80", "10.1.0.0/16"),
            ("10.1.0.0/33:80", "0 to 32"),
            ("10.1.0.0/-1:80", "how many first bits"),
            ("2001:db8::1:443", "[2001:db8::1]"),
            ("[2001:db8::1]", "behind the bracket"),
            ("[::ffff:10.0.0.1]:80", "write 10.0.0.1"),
            ("[::ffff:0:0/96]:80", "0.0.0.0/0"),
            ("example.org:0", "1 to 65535"),
            ("example.org:70000", "65535"),
            ("example.org:https", "443"),
            ("example.org:90-80", "80-90"),
            ("127.0.0.0/8:80", "the one address"),
            ("169.254.169.0/24:80", "the one address"),
            ("[fe80::/64]:80", "the one address"),
            ("0x7f.1:80", "version 4"),
            ("2130706433:80", "version 4"),
            ("10.1:80", "version 4"),
            ("224.0.0.1:80", "a single host"),
            ("0.0.0.0:80", "127.0.0.1"),
            ("[fe80::1%eth0]:80", "without an interface"),
            ("exa mple.org:80", "letters"),
            (":80", "letters"),
            ("-a.org:80", "letters"),
        ] {
            let wrong = endpoint(text).unwrap_err();
            let told = format!("{} | {}", wrong.message, wrong.help);
            assert!(told.contains(fix), "{text}: {told}");
        }
    }

    #[test]
    fn a_range_holds_its_edges_and_nothing_beside_them() {
        let list = [allowed("10.1.0.0/16:8000-8010")];
        let means = |text: &str, port| allows(&list, &[], address(text), port);
        assert!(means("10.1.0.0", 8000) && means("10.1.255.255", 8010));
        assert!(!means("10.0.255.255", 8000) && !means("10.2.0.0", 8000));
        assert!(!means("10.1.0.0", 7999) && !means("10.1.0.0", 8011));
        assert!(means("::ffff:10.1.2.3", 8005), "the same, mapped");
        let six = [allowed("[2001:db8::/33]:443")];
        assert!(allows(&six, &[], address("2001:db8:7fff::1"), 443));
        assert!(!allows(&six, &[], address("2001:db8:8000::"), 443));
    }

    #[test]
    fn a_range_never_means_what_is_special() {
        let everything = [allowed("0.0.0.0/0:1-65535"), allowed("[::/0]:1-65535")];
        let own = [address("10.0.0.5"), address("2001:db8::5")];
        for text in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "169.254.1.1",
            "169.254.169.254",
            "100.100.100.200",
            "192.0.0.192",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::7f00:1",
            "10.0.0.5",
            "::ffff:10.0.0.5",
            "2001:db8::5",
        ] {
            assert!(!allows(&everything, &own, address(text), 80), "{text}");
        }
        assert!(allows(&everything, &own, address("10.0.0.6"), 80));
        assert!(allows(&everything, &own, address("2001:db8::6"), 80));
    }

    #[test]
    fn the_limited_broadcast_is_no_multicast() {
        let name =
            |text: &str| SpecialAddress::from_address(address(text)).map(SpecialAddress::name);
        assert_eq!(
            name("255.255.255.255"),
            Some("the limited broadcast address")
        );
        assert_eq!(
            name("::ffff:255.255.255.255"),
            Some("the limited broadcast address")
        );
        for text in ["224.0.0.1", "239.255.255.255", "ff02::1"] {
            assert_eq!(name(text), Some("multicast"), "{text}");
        }
        assert_eq!(name("255.255.255.254"), None);
    }

    #[test]
    fn what_is_special_is_meant_when_it_is_named() {
        let own = [address("10.0.0.5")];
        for (entry, text) in [
            ("127.0.0.1:80", "127.0.0.1"),
            ("169.254.169.254:80", "169.254.169.254"),
            ("[::1]:80", "::1"),
            ("10.0.0.5:80", "10.0.0.5"),
        ] {
            let list = [allowed(entry)];
            assert!(allows(&list, &own, address(text), 80), "{text}");
            assert!(!allows(&list, &own, address("127.0.0.2"), 80), "{text}");
        }
    }

    #[test]
    fn the_implied_rules_say_what_the_list_says() {
        let list = [
            allowed("10.0.0.0/8:8000-8010"),
            allowed("0.0.0.0/0:443"),
            allowed("169.254.169.254:80"),
        ];
        let own = [address("10.0.0.5"), address("127.0.0.1")];
        let deny = Rule::new("network-allow", [AttemptKind::Connect], RuleAction::Deny);
        let mut rules = vec![deny.clone()];
        rules.extend(super::rules(&list, &own, &[deny]));
        let ids: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
        assert_eq!(
            ids[1..],
            [
                "network-allow-2",
                "network-allow-3",
                "network-allow-4",
                "network-guarded"
            ]
        );
        for host in [
            "10.0.0.5",
            "10.0.0.6",
            "192.0.2.1",
            "169.254.1.1",
            "169.254.169.254",
            "::ffff:10.0.0.6",
        ] {
            for port in [80, 443, 8000, 8011] {
                let host = address(host);
                let attempt = Attempt {
                    address: Some(SocketAddr::new(host, port)),
                    ..Attempt::new(AttemptKind::Connect)
                };
                let action = decide(&rules, &attempt).map(|index| rules[index].action);
                let means = allows(&list, &own, host, port);
                // The one address that is named is allowed at its port alone, though a range holds it.
                assert_eq!(action == Some(RuleAction::Allow), means, "{host}:{port}");
            }
        }
    }

    #[test]
    fn a_sinkhole_is_everybody_and_who_asks_for_credentials_is_told() {
        let deny = Rule::new("network-connect", [AttemptKind::Connect], RuleAction::Deny);
        let mut own = Rule::new("own", [AttemptKind::Connect], RuleAction::Kill);
        own.address = vec![Subnet::new(address("10.0.0.0"), 8).unwrap()];
        let mut rules = vec![deny, own];
        rules.extend(rules_of_sinkhole(&rules));
        let answer = |host: &str| {
            let attempt = Attempt {
                address: Some(SocketAddr::new(address(host), 80)),
                ..Attempt::new(AttemptKind::Connect)
            };
            decide(&rules, &attempt).map(|index| (rules[index].id.as_str(), rules[index].action))
        };
        let everybody = Some(("network-sinkhole", RuleAction::Allow));
        assert_eq!(answer("192.0.2.1"), everybody);
        assert_eq!(answer("2001:db8::1"), everybody);
        assert_eq!(
            answer("169.254.169.254"),
            Some(("network-guarded", RuleAction::Log))
        );
        assert_eq!(answer("10.1.2.3"), Some(("own", RuleAction::Kill)));
    }

    #[test]
    fn the_hosts_network_is_everybody_but_its_credentials_and_whom_a_rule_names() {
        let deny = Rule::new(
            "network-connect",
            [AttemptKind::Connect, AttemptKind::Send],
            RuleAction::Deny,
        );
        let mut neighbours = Rule::new("neighbours", [AttemptKind::Connect], RuleAction::Deny);
        neighbours.address = vec![Subnet::new(address("10.0.0.0"), 8).unwrap()];
        let mut meant = Rule::new("credentials", [AttemptKind::Connect], RuleAction::Allow);
        meant.address = vec![Subnet::one(address("100.100.100.200"))];
        let mut rules = vec![deny, neighbours, meant];
        rules.extend(rules_of_host(&rules));
        let action = |on, host: &str| {
            let attempt = Attempt {
                address: Some(SocketAddr::new(address(host), 80)),
                ..Attempt::new(on)
            };
            decide(&rules, &attempt).map(|index| rules[index].action)
        };
        for host in ["192.0.2.1", "127.0.0.1", "2001:db8::1", "::1", "0.0.0.0"] {
            assert_eq!(
                action(AttemptKind::Connect, host),
                Some(RuleAction::Allow),
                "{host}"
            );
            assert_eq!(
                action(AttemptKind::Send, host),
                Some(RuleAction::Allow),
                "{host}"
            );
        }
        assert_eq!(
            action(AttemptKind::Connect, "10.1.2.3"),
            Some(RuleAction::Deny)
        );
        assert_eq!(
            action(AttemptKind::Connect, "169.254.169.254"),
            Some(RuleAction::Deny)
        );
        assert_eq!(
            action(AttemptKind::Send, "fd00:ec2::254"),
            Some(RuleAction::Deny)
        );
        assert_eq!(
            action(AttemptKind::Connect, "100.100.100.200"),
            Some(RuleAction::Allow)
        );
        assert_eq!(action(AttemptKind::Bind, "0.0.0.0"), None);
    }

    #[test]
    fn a_name_means_what_it_was_resolved_to() {
        let mut entry = allowed("example.org:443");
        assert!(!allows(
            std::slice::from_ref(&entry),
            &[],
            address("192.0.2.7"),
            443
        ));
        entry.addresses = vec![address("192.0.2.7")];
        let list = [entry];
        assert!(allows(&list, &[], address("192.0.2.7"), 443));
        assert!(!allows(&list, &[], address("192.0.2.8"), 443));
    }
}
