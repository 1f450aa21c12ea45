//! Rules about addresses and ports: which one decides.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;
use turnkey_policy::{
    Attempt, AttemptKind, Overrides, Policy, Ports, Rule, RuleAction, Subnet, SubnetError, address,
    decide, load,
};

/// A policy with these rules: `id action addresses… port ports…`, all on connect, send and bind.
fn rules(lines: &[&str]) -> Vec<Rule> {
    let mut text = String::from(
        "schema = \"turnkey.profile/v1\"\nname = \"x\"\n[syscalls]\nallow = \"@basic\"\n",
    );
    for line in lines {
        let (names, ports) = line.split_once(" port").unwrap_or((line, ""));
        let mut words = names.split_whitespace();
        let (id, action) = (words.next().expect("id"), words.next().expect("action"));
        let list = |key: &str, words: Vec<&str>| match words.as_slice() {
            [] => String::new(),
            words => format!("{key} = {words:?}\n"),
        };
        text.push_str(&format!(
            "[[rule]]\nid = \"{id}\"\non = [\"connect\", \"send\", \"bind\"]\naction = \"{action}\"\n{}{}",
            list("address", words.collect()),
            list("port", ports.split_whitespace().collect()),
        ));
    }
    loaded(&text).rules
}

fn loaded(text: &str) -> Policy {
    let read = |_: &str| Ok(text.to_owned());
    load("./x.toml", &read, &Overrides::default())
        .unwrap_or_else(|error| panic!("{text}{:?}", error.problems()))
}

/// The id of the rule that decides.
#[track_caller]
fn decided<'r>(rules: &'r [Rule], on: AttemptKind, peer: &str) -> Option<&'r str> {
    let attempt = Attempt {
        address: Some(peer.parse().expect("an address")),
        ..Attempt::new(on)
    };
    decide(rules, &attempt).map(|index| rules[index].id.as_str())
}

#[test]
fn the_longer_prefix_decides_before_ports_and_actions() {
    let rules = rules(&[
        "all deny",
        "net kill 10.0.0.0/8 port 443",
        "lab allow 10.1.0.0/16",
        "host log 10.1.2.3 port 1-65535",
    ]);
    let connect = |peer| decided(&rules, AttemptKind::Connect, peer);
    assert_eq!(connect("10.1.2.3:443"), Some("host"));
    assert_eq!(connect("10.1.2.4:443"), Some("lab"));
    assert_eq!(connect("10.2.0.1:443"), Some("net"));
    assert_eq!(connect("10.2.0.1:80"), Some("all"));
    assert_eq!(connect("[2001:db8::1]:443"), Some("all"));
}

#[test]
fn fewer_ports_decide_before_more_and_any_before_none() {
    let rules = rules(&[
        "one allow port 8005",
        "few kill port 8000-8010",
        "many allow port 1-65535",
        "none kill",
    ]);
    let send = |peer| decided(&rules, AttemptKind::Send, peer);
    assert_eq!(send("192.0.2.1:8005"), Some("one"));
    assert_eq!(send("[::2]:8000"), Some("few"));
    assert_eq!(send("[::2]:8011"), Some("many"));
    // The program asks the kernel to choose: no range has it.
    assert_eq!(send("192.0.2.1:0"), Some("none"));
}

#[test]
fn an_address_without_a_port_decides_before_a_port_without_an_address() {
    let rules = rules(&["port kill port 22", "net allow 0.0.0.0/0"]);
    assert_eq!(
        decided(&rules, AttemptKind::Connect, "192.0.2.1:22"),
        Some("net")
    );
    assert_eq!(
        decided(&rules, AttemptKind::Connect, "[::2]:22"),
        Some("port")
    );
}

#[test]
fn ipv4_within_ipv6_is_ipv4_and_no_network_of_ipv6_holds_it() {
    let rules = rules(&["six kill ::/0", "four deny 10.0.0.0/8"]);
    let connect = |peer| decided(&rules, AttemptKind::Connect, peer);
    assert_eq!(connect("[::ffff:10.0.0.1]:1"), Some("four"));
    assert_eq!(connect("[::ffff:11.0.0.1]:1"), None);
    assert_eq!(connect("[::fffe:10.0.0.1]:1"), Some("six"));
    assert_eq!(connect("[::10.0.0.1]:1"), Some("six"));
}

#[test]
fn an_unspecified_address_is_decided_on_as_what_the_kernel_takes_it_for() {
    let own = rules(&["own deny 127.0.0.0/8 ::1", "any allow 0.0.0.0 ::"]);
    for peer in ["0.0.0.0:1", "[::]:1", "[::ffff:0.0.0.0]:1"] {
        assert_eq!(
            decided(&own, AttemptKind::Connect, peer),
            Some("own"),
            "{peer}"
        );
        assert_eq!(
            decided(&own, AttemptKind::Send, peer),
            Some("own"),
            "{peer}"
        );
    }
    // A socket of IPv6 can be bound to an address of IPv4 before it goes to `::`.
    let four = rules(&["own deny 127.0.0.1"]);
    assert_eq!(decided(&four, AttemptKind::Connect, "[::]:1"), Some("own"));
    assert_eq!(decided(&four, AttemptKind::Connect, "[::1]:1"), None);
    // A socket on `::` takes what comes over IPv4, and one on 0.0.0.0 what is for 127.0.0.1.
    let servers = rules(&["four deny 0.0.0.0", "own kill 127.0.0.1"]);
    assert_eq!(decided(&servers, AttemptKind::Bind, "[::]:1"), Some("four"));
    assert_eq!(
        decided(&servers, AttemptKind::Bind, "0.0.0.0:1"),
        Some("four")
    );
}

#[test]
fn what_is_said_to_oneself_is_meant_by_rules_that_name_it_alone() {
    let rules = rules(&["all kill", "web deny port 80", "own log 127.0.0.1 port 81"]);
    let attempt = |peer: &str, to_itself| {
        let attempt = Attempt {
            address: Some(peer.parse().expect("an address")),
            to_itself,
            ..Attempt::new(AttemptKind::Connect)
        };
        decide(&rules, &attempt)
    };
    assert_eq!(attempt("127.0.0.1:82", true), None);
    assert_eq!(attempt("127.0.0.1:82", false), Some(0));
    assert_eq!(attempt("127.0.0.1:80", true), Some(1));
    assert_eq!(attempt("0.0.0.0:81", true), Some(2));
}

#[test]
fn of_an_attempt_without_an_address_rules_that_name_one_do_not_speak() {
    let rules = rules(&["some kill 0.0.0.0/0 ::/0 port 1-65535", "all deny"]);
    assert_eq!(decide(&rules, &Attempt::new(AttemptKind::Connect)), Some(1));
}

#[test]
fn rules_can_be_made_without_a_text() {
    let allow = Rule {
        address: vec![Subnet::one("::ffff:192.0.2.1".parse().expect("an address"))],
        port: Ports::new(443, 443).into_iter().collect(),
        why: "the name server said so".to_owned(),
        ..Rule::new(
            "allowed-host",
            [AttemptKind::Connect, AttemptKind::Send],
            RuleAction::Allow,
        )
    };
    let rules = [
        allow,
        Rule::new("rest", [AttemptKind::Connect], RuleAction::Kill),
    ];
    assert_eq!(
        decided(&rules, AttemptKind::Connect, "192.0.2.1:443"),
        Some("allowed-host")
    );
    assert_eq!(
        decided(&rules, AttemptKind::Connect, "192.0.2.1:80"),
        Some("rest")
    );
}

#[test]
fn a_subnet_is_what_it_says() {
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    let new = |text, length| Subnet::new(address(text), length);
    assert_eq!(new("10.0.0.0", 33), Err(SubnetError::TooLong(32)));
    assert_eq!(new("::ffff:10.0.0.0", 104), Err(SubnetError::Mapped));
    let right = new("10.0.0.0", 8).expect("a network");
    assert_eq!(new("10.1.0.0", 8), Err(SubnetError::HostBits(right)));
    let text = ["10.0.0.0/8", "10.1.2.3", "::/0", "2001:db8::/32", "::1"];
    for text in text {
        let only = &rules(&[&format!("x log {text}")])[0].address;
        assert_eq!(only[0].to_string(), text);
    }
    assert_eq!(Subnet::one(address("::1")).halves(), None);
}

#[test]
fn more_pairs_than_could_ever_fit_are_refused_before_they_are_made() {
    let addresses: Vec<String> = (0..9000)
        .map(|at| format!("\"10.0.{}.{}\"", at / 256, at % 256))
        .collect();
    let ports: Vec<String> = (1..9000).map(|port| port.to_string()).collect();
    let text = format!(
        "schema = \"turnkey.profile/v1\"\nname = \"x\"\n[syscalls]\nallow = \"@basic\"\n[[rule]]\nid = \"x\"\non = \"connect\"\naction = \"deny\"\naddress = [{}]\nport = [{}]\n",
        addresses.join(",\n"),
        ports.join(",\n")
    );
    let error =
        load("./x.toml", &|_| Ok(text.clone()), &Overrides::default()).expect_err("too many");
    let told = format!("{:?}", error.problems()[0]);
    assert!(told.contains("more than 8192 pairs"), "{told}");
}

fn any_subnet() -> impl Strategy<Value = Subnet> {
    let v4 = (any::<[u8; 4]>(), 0..=32_u8).prop_map(|(ip, length)| (IpAddr::from(ip), length));
    let v6 = (any::<[u8; 16]>(), 0..=128_u8).prop_map(|(ip, length)| (IpAddr::from(ip), length));
    prop_oneof![v4, v6].prop_filter_map("is of IPv4", |(network, length)| {
        match Subnet::new(network, length) {
            Ok(subnet) | Err(SubnetError::HostBits(subnet)) => Some(subnet),
            Err(_) => None,
        }
    })
}

proptest! {
    #[test]
    fn two_halves_are_the_whole(subnet in any_subnet(), ip in any::<[u8; 16]>()) {
        prop_assert!(subnet.contains(subnet.network()) && subnet.covers(subnet));
        let Some(halves) = subnet.halves() else { return Ok(()) };
        prop_assert!(halves.iter().all(|half| subnet.covers(*half) && !half.covers(subnet)));
        let ip = match subnet.network() {
            IpAddr::V4(_) => IpAddr::from([ip[0], ip[1], ip[2], ip[3]]),
            IpAddr::V6(_) => IpAddr::from(ip),
        };
        let holding = halves.iter().filter(|half| half.contains(ip)).count();
        prop_assert_eq!(holding, usize::from(subnet.contains(ip)));
    }

    /// The documented order, said once more: the best of all that match.
    #[test]
    fn the_best_match_decides(
        drawn in prop::collection::vec((any_near(), any_ports(), prop::sample::select(RuleAction::ALL)), 0..8),
        ip in near(), port in 1..6_u16,
    ) {
        let rules: Vec<Rule> = drawn.into_iter().map(|(address, port, action)| Rule {
            address, port, ..Rule::new("any", [AttemptKind::Connect], action)
        }).collect();
        let speaking = rules.iter().enumerate().filter_map(|(index, rule)| {
            let subnets = rule.address.iter().filter(|subnet| subnet.contains(ip));
            let longest = subnets.map(|subnet| subnet.length()).max();
            let ports = rule.port.iter().filter(|ports| ports.contains(port));
            let fewest = ports.map(|ports| ports.width()).min();
            let speaks = (rule.address.is_empty() || longest.is_some())
                && (rule.port.is_empty() || fewest.is_some());
            let fewest = fewest.map(std::cmp::Reverse);
            speaks.then_some((longest, fewest, rule.action, std::cmp::Reverse(index)))
        });
        let best = speaking.max().map(|(.., index)| index.0);
        let peer = Some(SocketAddr::new(ip, port));
        let attempt = Attempt { address: peer, ..Attempt::new(AttemptKind::Connect) };
        prop_assert_eq!(decide(&rules, &attempt), best);
    }
}

/// Addresses that are near each other.
fn near() -> impl Strategy<Value = IpAddr> {
    let v4 = (1..4_u8).prop_map(|last| IpAddr::from([10, 0, 0, last]));
    let v6 = (1..4_u8).prop_map(|last| {
        let mut bytes = [0; 16];
        (bytes[0], bytes[15]) = (0x20, last);
        IpAddr::from(bytes)
    });
    prop_oneof![v4, v6]
}

fn any_near() -> impl Strategy<Value = Vec<Subnet>> {
    let one = (near(), 0..6_u8).prop_filter_map("no subnet", |(ip, less)| {
        let length = Subnet::one(ip).length() - less;
        match Subnet::new(ip, length) {
            Ok(subnet) | Err(SubnetError::HostBits(subnet)) => Some(subnet),
            Err(_) => None,
        }
    });
    prop::collection::vec(one, 0..3)
}

fn any_ports() -> impl Strategy<Value = Vec<Ports>> {
    let one = (1..6_u16, 0..4_u16)
        .prop_filter_map("none", |(first, more)| Ports::new(first, first + more));
    prop::collection::vec(one, 0..3)
}

#[test]
fn meant_of_an_ordinary_address_is_itself() {
    let one: IpAddr = "192.0.2.1".parse().expect("an address");
    assert_eq!(address::meant(AttemptKind::Connect, one), [one]);
}
