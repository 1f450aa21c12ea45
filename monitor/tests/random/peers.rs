//! Rules about addresses and ports, and such addresses, at random.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;
use turnkey_policy::{AttemptKind, Ports, Rule, RuleAction, Subnet, SubnetError};

/// Some that are near each other, and those that the kernel takes for others.
const ADDRESSES: [&str; 16] = [
    "10.0.0.0",
    "10.0.0.1",
    "10.0.0.2",
    "10.0.1.1",
    "11.0.0.1",
    "127.0.0.1",
    "127.0.0.2",
    "0.0.0.0",
    "2001:db8::1",
    "2001:db8::2",
    "2001:db8:1::1",
    "::1",
    "::",
    "::2",
    "::10.0.0.1",
    "::fffe:10.0.0.1",
];

fn address() -> impl Strategy<Value = IpAddr> {
    prop::sample::select(&ADDRESSES[..]).prop_map(|text| text.parse().expect("an address"))
}

/// An address of an attempt: one of IPv4 may be written within IPv6.
pub fn peer() -> impl Strategy<Value = SocketAddr> {
    let port = prop_oneof![1 => Just(0), 9 => 1..7_u16];
    (address(), any::<bool>(), port).prop_map(|(ip, within, port)| {
        let ip = match ip {
            IpAddr::V4(v4) if within => v4.to_ipv6_mapped().into(),
            ip => ip,
        };
        SocketAddr::new(ip, port)
    })
}

fn subnet() -> impl Strategy<Value = Subnet> {
    let lengths = prop_oneof![4 => 0..3_u8, 2 => 0..26_u8, 1 => 0..129_u8];
    (address(), lengths).prop_filter_map("no subnet", |(ip, less)| {
        let length = Subnet::one(ip).length().checked_sub(less)?;
        match Subnet::new(ip, length) {
            Ok(subnet) | Err(SubnetError::HostBits(subnet)) => Some(subnet),
            Err(_) => None,
        }
    })
}

fn ports() -> impl Strategy<Value = Ports> {
    (1..7_u16, prop_oneof![Just(0), 0..6_u16, Just(65_000)])
        .prop_filter_map("none", |(first, more)| Ports::new(first, first + more))
}

/// A rule for connecting, binding, sending or some of them.
pub fn any_peer_rule() -> impl Strategy<Value = Rule> {
    let on = prop::sample::subsequence(
        vec![AttemptKind::Connect, AttemptKind::Bind, AttemptKind::Send],
        1..=3,
    );
    let action = prop::sample::select(RuleAction::ALL);
    let address = prop::collection::vec(subnet(), 0..4);
    let port = prop::collection::vec(ports(), 0..3);
    (on, action, address, port).prop_map(|(on, action, address, port)| Rule {
        address,
        port,
        ..Rule::new("any", on, action)
    })
}
