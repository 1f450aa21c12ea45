//! The merged profile to a [`Policy`]: defaults, and what only the whole can get wrong.

mod accepted;
mod claims;
mod temporary;

use std::collections::BTreeSet;

use crate::error::{Located, Problem};
use crate::model::{Layer, NetworkMode, ToolchainMode};
use crate::policy::Policy;
use crate::profile::ParsedProfile;
use crate::syscalls::ESSENTIAL;
use crate::tables::declare::{KeyTable as _, values};
use crate::tables::{NetworkKeys, NetworkPolicy, Rule};

/// The most rules of a profile, inherited ones among them: as many as the kernel's table holds. Those that keys of the network stand for
/// go there, too.
pub const MOST_RULES: usize = 1023;

/// The policy that a merged profile means. When `problems` grew, it is not to be used.
pub(crate) fn policy(
    profile: ParsedProfile,
    sha256: String,
    problems: &mut Vec<Problem>,
) -> Policy {
    claims::check(&profile, problems);
    check_toolchain(&profile, problems);
    check_rule_count(&profile, problems);
    check_peer_count(&profile, problems);
    check_syscalls(&profile, problems);
    accepted::check(&profile, problems);
    let mut syscalls = profile.syscalls.resolve();
    syscalls.set_id_files = profile.filesystem.write.is_empty();
    let network = network(profile.network, problems);
    syscalls.host_network = network.mode == NetworkMode::Host;
    let text = |given: Option<Located<String>>| given.map_or_else(String::new, |given| given.value);
    Policy {
        name: text(profile.name),
        description: text(profile.description),
        sha256,
        files: Vec::new(),
        filesystem: temporary::beside(profile.filesystem.resolve()),
        network,
        limits: profile.limits.resolve(),
        identity: profile.identity.resolve(),
        environment: profile.environment.resolve(),
        syscalls,
        enforcement: profile.enforcement.resolve(),
        scan: profile.scan.resolve(),
        rules: profile
            .rules
            .into_iter()
            .map(|rule| rule.value.rule)
            .collect(),
        behaviours: profile.behaviours,
        accepted: values(profile.accepted),
    }
}

/// The network, where a published port means a loopback of the jail's own.
fn network(keys: NetworkKeys, problems: &mut Vec<Problem>) -> NetworkPolicy {
    let first = keys.publish.first().map(|first| first.at.clone());
    let mut network: NetworkPolicy = keys.resolve();
    match (network.mode, first) {
        (NetworkMode::None, Some(_)) => network.mode = NetworkMode::Loopback,
        (NetworkMode::Host, Some(at)) => {
            let message = "in the host's network nothing is published: the program's ports are the host's own";
            let problem = Problem::new(message).help("leave one of them out");
            problems.push(problem.with_label(&at, "published here"));
        }
        _ => {}
    }
    network
}

/// An installation of the host needs the host's libraries.
fn check_toolchain(profile: &ParsedProfile, problems: &mut Vec<Problem>) {
    let auto = profile.filesystem.toolchain.as_ref();
    let auto = auto.filter(|toolchain| toolchain.value != ToolchainMode::None);
    if let (Some(auto), Some(root)) = (auto, &profile.filesystem.root) {
        let message = "`toolchain` brings in an installation of the host, which a `root` of its own has no use for";
        let help = "leave one of them out, and install the program in the root";
        let problem = Problem::new(message).help(help);
        problems.push(
            problem
                .with_label(&auto.at, "asked for here")
                .with_label(&root.at, "and here"),
        );
    }
}

fn check_rule_count(profile: &ParsedProfile, problems: &mut Vec<Problem>) {
    if let Some(rule) = profile.rules.get(MOST_RULES) {
        let message = format!("there are more than {MOST_RULES} rules");
        let problem =
            Problem::new(message).help("join rules that differ in nothing but their path");
        problems.push(problem.with_label(&rule.at, "the first too many"));
    }
}

/// Pairs of an address and a port of all rules: more than this are a mistake, and would not fit the
/// kernel's maps by far.
const MOST_PEERS: usize = 8192;

fn check_peer_count(profile: &ParsedProfile, problems: &mut Vec<Problem>) {
    let mut count = 0_usize;
    for rule in &profile.rules {
        let Rule { address, port, .. } = &rule.value.rule;
        count = count.saturating_add(address.len().max(1).saturating_mul(port.len()));
        if count > MOST_PEERS {
            let message =
                format!("there are more than {MOST_PEERS} pairs of an address and a port");
            let problem = Problem::new(message)
                .help("write networks in place of addresses, and ranges in place of ports");
            problems.push(problem.with_label(&rule.at, "with those of this rule"));
            return;
        }
    }
}

/// True for a profile of processes that others started: see [`Policy::makes_no_jail`].
fn is_monitor_alone(required: &BTreeSet<Layer>) -> bool {
    required.iter().eq([&Layer::Monitor])
}

/// The jail's init, and the program's process before the program, run under the program's filter.
fn check_syscalls(profile: &ParsedProfile, problems: &mut Vec<Problem>) {
    let required = profile.enforcement.required.as_ref();
    let asks_for_a_jail = required.is_none_or(|layers| !is_monitor_alone(&layers.value));
    if profile.syscalls.allow.is_empty() && !asks_for_a_jail {
        return;
    }
    let allowed = |name: &str| {
        profile
            .syscalls
            .allow
            .iter()
            .any(|some| some.value.contains(&name))
    };
    let missing: Vec<&str> = ESSENTIAL
        .iter()
        .copied()
        .filter(|name| !allowed(name))
        .collect();
    if !missing.is_empty() {
        let message = format!("no jail starts without the syscalls {}", missing.join(", "));
        let problem = Problem::new(message).help("add \"@basic\" to `syscalls.allow`");
        problems.push(match profile.syscalls.allow.first() {
            Some(first) => problem.with_label(&first.at, "they are not among these"),
            None => problem,
        });
    }
}
