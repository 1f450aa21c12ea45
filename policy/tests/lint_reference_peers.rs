//! As `lint_reference`, for rules about addresses and ports: a rule is said never to decide exactly
//! when it decides on nothing that its addresses and ports can tell apart.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;

use proptest::prelude::*;
use turnkey_policy::lint::{CheckedProfile, Lint};
use turnkey_policy::{Attempt, AttemptKind, check, decide};

const SUBNETS: &[&str] = &[
    "0.0.0.0/0",
    "10.0.0.0/30",
    "10.0.0.0/31",
    "10.0.0.2/31",
    "10.0.0.1",
    "::/0",
    "2001::/127",
    "2001::",
    "2001::1",
];

const PORTS: &[&str] = &["1", "2", "1-2", "2-3", "3-65535", "1-65535"];

/// One of each sort that they tell apart.
const ADDRESSES: &[&str] = &[
    "10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3", "11.0.0.1", "2001::", "2001::1", "2001::2",
];

const TRIED: &[u16] = &[0, 1, 2, 3, 4, 65535];

#[derive(Clone, Debug)]
struct DrawnPeerRules {
    address: Vec<&'static str>,
    port: Vec<&'static str>,
    action: &'static str,
}

fn drawn() -> impl Strategy<Value = DrawnPeerRules> {
    let address = prop::collection::vec(prop::sample::select(SUBNETS), 0..3);
    let port = prop::collection::vec(prop::sample::select(PORTS), 0..3);
    let action = prop::sample::select(&["allow", "log", "deny", "kill"][..]);
    (address, port, action).prop_map(|(address, port, action)| DrawnPeerRules {
        address,
        port,
        action,
    })
}

fn checked(rules: &[DrawnPeerRules]) -> CheckedProfile {
    let mut text =
        "schema = \"turnkey.profile/v1\"\nname = \"x\"\n[syscalls]\nallow = \"@basic\"\n"
            .to_owned();
    for (index, rule) in rules.iter().enumerate() {
        let list = |key: &str, words: &[&str]| match words {
            [] => String::new(),
            words => format!("{key} = {words:?}\n"),
        };
        let (address, port) = (list("address", &rule.address), list("port", &rule.port));
        let action = rule.action;
        let _ = writeln!(
            text,
            "[[rule]]\nid = \"r{index}\"\non = \"connect\"\naction = \"{action}\"\nwhy = \"x\"\n{address}{port}"
        );
    }
    check(
        "./x.toml",
        &|_| Ok(text.clone()),
        &|_| Vec::new(),
        time::Date::MIN,
    )
    .unwrap_or_else(|error| panic!("{text}{:?}", error.problems()))
}

/// The rules that decide on some attempt.
fn deciding(checked: &CheckedProfile) -> BTreeSet<usize> {
    let rules = &checked.policy.rules;
    let peers = ADDRESSES
        .iter()
        .flat_map(|address| TRIED.iter().map(move |port| (address, *port)));
    let peers = peers.map(|(address, port)| {
        let ip: IpAddr = address.parse().expect("an address");
        Some((ip, port).into())
    });
    let decided = peers.chain([None]).filter_map(|address| {
        let attempt = Attempt {
            address,
            ..Attempt::new(AttemptKind::Connect)
        };
        decide(rules, &attempt)
    });
    decided.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_rule_is_said_never_to_decide_exactly_when_it_does_not(
        rules in prop::collection::vec(drawn(), 1..6)
    ) {
        let checked = checked(&rules);
        let deciding = deciding(&checked);
        let dead = |index: &usize| checked.findings.iter().any(|finding| {
            matches!(finding.lint(), Lint::NeverMatches | Lint::Shadowed)
                && finding.to_string().starts_with(&format!("the rule \"r{index}\" "))
        });
        let said: BTreeSet<usize> = (0..rules.len()).filter(dead).collect();
        let silent: BTreeSet<usize> =
            (0..rules.len()).filter(|rule| !deciding.contains(rule)).collect();
        prop_assert_eq!(said, silent);
    }
}
