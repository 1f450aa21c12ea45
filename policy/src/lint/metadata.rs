//! Allows that reach where clouds hand out credentials to whoever asks from inside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Lint, LintFinding};
use crate::decide::{Attempt, Candidate, decide, matching};
use crate::model::{AttemptKind, RuleAction};
use crate::profile::ParsedProfile;
use crate::tables::Rule;

/// The port of HTTP, by which all of them serve.
const PORT: u16 = 80;

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

/// The addresses of services that hand out credentials, with whose they are.
const SERVICES: &[(IpAddr, &str)] = &[
    (v4(169, 254, 169, 254), "most clouds"),
    (
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
        "Amazon's cloud",
    ),
    (v4(169, 254, 170, 2), "Amazon's containers"),
    (v4(100, 100, 100, 200), "Alibaba's cloud"),
    (v4(168, 63, 129, 16), "Microsoft's cloud"),
];

/// One finding for each rule.
pub(super) fn reached(profile: &ParsedProfile, rules: &[Rule]) -> Vec<LintFinding> {
    let mut findings: Vec<(usize, LintFinding)> = Vec::new();
    for (address, whose) in SERVICES {
        for on in [AttemptKind::Connect, AttemptKind::Send] {
            let attempt = Attempt {
                address: Some(SocketAddr::new(*address, PORT)),
                ..Attempt::new(on)
            };
            let Some(index) = decide(rules, &attempt) else {
                continue;
            };
            let first = matching(rules, &attempt, None).into_iter().next();
            let Some(candidate) = first.filter(|_| rules[index].action == RuleAction::Allow) else {
                continue;
            };
            let is_known = findings.iter().any(|(known, _)| *known == index);
            if !is_known && !is_meant(rules, candidate, *address) {
                findings.push((index, finding(profile, candidate, (*address, whose))));
            }
        }
    }
    findings.into_iter().map(|(_, finding)| finding).collect()
}

/// True when the address itself is written, with a reason.
fn is_meant(rules: &[Rule], candidate: Candidate, address: IpAddr) -> bool {
    let subnet = candidate.subnet(rules);
    let is_named = subnet.is_some_and(|subnet| subnet.halves().is_none());
    let is_explained = !rules[candidate.rule].why.trim().is_empty();
    is_named && is_explained && subnet.is_some_and(|subnet| subnet.contains(address))
}

fn finding(
    profile: &ParsedProfile,
    candidate: Candidate,
    (address, whose): (IpAddr, &str),
) -> LintFinding {
    let rule = &profile.rules[candidate.rule].value;
    let at = rule
        .places
        .span_of(candidate)
        .unwrap_or(&rule.places.action);
    let id = &rule.rule.id;
    LintFinding {
        lint: Lint::MetadataAllowed,
        why: format!("there {whose} hand out the machine's credentials to whoever asks from it"),
        problem: crate::error::Problem::new(format!(
            "the rule {id:?} lets the program reach {address}"
        ))
        .help("allow smaller networks, or add a rule that denies this address; when it is meant, allow it by itself, with `why`")
        .with_label(at, "this holds it"),
    }
}
