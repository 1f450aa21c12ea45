//! The view of a plan, in the order of a run: the shape of `explain --json`, and what the page for
//! people is written from.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use turnkey_jailer::namespaces::NamespaceTiming;
use turnkey_jailer::plan::io::DiskLimits;
use turnkey_jailer::{ChildStep, GroupLimit, NamespaceIds, Plan};
use turnkey_policy::{
    AllowedHost, Behaviour, BehaviourResponse, Layer, Policy, Rule, RuleAction, SpecialAddress,
    Subnet, endpoint,
};

use super::landlock::LandlockView;
use super::rules::RulesView;
use super::syscalls::SyscallsView;
use super::tree::TreeRow;
use turnkey_report::escape;

/// The version of the shape.
const SCHEMA: &str = "turnkey.plan/v1";

/// A whole plan. Every text that comes from a path, an argument or a profile is escaped.
#[derive(Debug, Serialize)]
pub struct PlanView {
    schema: &'static str,
    pub profile: ProfileView,
    pub command: CommandView,
    pub namespaces: Vec<NamespaceView>,
    pub identity: IdentityView,
    pub groups: Vec<GroupView>,
    /// The limits on disks that have no effect, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unheld: Option<String>,
    pub tree: Vec<TreeRow>,
    /// The steps of the jail's first process, each before the next.
    pub confinement: Vec<&'static str>,
    pub landlock: Option<LandlockView>,
    pub rlimits: Vec<RlimitView>,
    pub syscalls: SyscallsView,
    pub network: NetworkView,
    pub rules: RulesView,
    pub supervisor: SupervisorView,
    pub layers: LayersView,
}

#[derive(Debug, Serialize)]
pub struct ProfileView {
    pub name: String,
    pub description: String,
    pub sha256: String,
    pub mode: &'static str,
}

#[derive(Debug, Serialize)]
pub struct CommandView {
    pub arguments: Vec<String>,
    /// The paths where the program is looked for, in this order.
    pub candidates: Vec<String>,
    pub directory: String,
    pub environment: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct NamespaceView {
    pub layer: &'static str,
    pub made: &'static str,
}

#[derive(Debug, Serialize)]
pub struct IdentityView {
    pub user: String,
    pub hostname: String,
    /// User and group inside.
    pub id: u32,
    /// The user and group that the host sees, in words: they depend on the group of the run.
    pub host_id: String,
    pub capabilities: &'static str,
    pub no_new_privileges: bool,
}

#[derive(Debug, Serialize)]
pub struct GroupView {
    pub controller: &'static str,
    /// `null` when no hierarchy of this host has the controller.
    pub parent: Option<String>,
    pub file: &'static str,
    pub value: String,
}

#[derive(Debug, Serialize)]
pub struct RlimitView {
    pub name: &'static str,
    pub value: u64,
    pub why: &'static str,
}

#[derive(Debug, Serialize)]
pub struct NetworkView {
    pub mode: &'static str,
    pub loopback_up: bool,
    /// The hosts that the program may talk to over TCP, through turnkey.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<HostView>,
    /// The ports of the host's loopback that lead to the program's, as `HOST:PORT`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub publish: Vec<String>,
    /// The addresses at which sockets of turnkey's wait in the jail's network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<String>,
    /// The addresses that lie in an allowed range and are not meant by it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct HostView {
    pub to: String,
    /// The addresses that a name was resolved to, just now; the run resolves it again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    pub why: String,
}

/// The conditions under which turnkey itself ends a run.
#[derive(Debug, Serialize)]
pub struct SupervisorView {
    pub wall_seconds: f64,
    pub cpu_seconds: f64,
    pub output_bytes: u64,
    pub on_loss: &'static str,
    /// Behaviours that it ends the run for, as soon as it recognises them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub behaviours: Vec<&'static str>,
    /// Behaviours that it does not look for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overlooked: Vec<&'static str>,
    /// Findings that add nothing to the score.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<AcceptedView>,
}

#[derive(Debug, Serialize)]
pub struct AcceptedView {
    pub finding: String,
    pub until: String,
    pub why: String,
}

#[derive(Debug, Serialize)]
pub struct LayersView {
    /// Without any of these the run ends with 125 before anything of the program ran.
    pub required: Vec<&'static str>,
    /// Missing ones are told in the report.
    pub optional: Vec<&'static str>,
}

impl PlanView {
    /// Reads the plan.
    pub fn new(plan: &Plan) -> PlanView {
        let policy = &plan.policy;
        PlanView {
            schema: SCHEMA,
            profile: profile(policy),
            command: command(plan),
            namespaces: plan.namespaces.iter().map(namespace).collect(),
            identity: identity(plan),
            groups: plan.group_limits.iter().map(group).collect(),
            unheld: plan.io.as_ref().and_then(DiskLimits::degraded).map(shown),
            tree: plan
                .rootfs
                .iter()
                .map(|step| TreeRow::new(step, plan))
                .collect(),
            confinement: ChildStep::ALL.iter().map(|step| step.describe()).collect(),
            landlock: LandlockView::new(plan),
            rlimits: rlimits(plan),
            syscalls: SyscallsView::new(&policy.syscalls),
            network: network(plan),
            rules: RulesView::new(policy),
            supervisor: supervisor(policy),
            layers: layers(plan),
        }
    }
}

/// A path or argument as text.
pub fn shown(text: impl AsRef<OsStr>) -> String {
    escape(text.as_ref().as_bytes())
}

fn profile(policy: &Policy) -> ProfileView {
    ProfileView {
        name: escape(policy.name.as_bytes()),
        description: escape(policy.description.as_bytes()),
        sha256: policy.sha256.clone(),
        mode: policy.enforcement.mode.name(),
    }
}

fn command(plan: &Plan) -> CommandView {
    CommandView {
        arguments: plan.arguments.iter().map(shown).collect(),
        candidates: plan.candidates.iter().map(shown).collect(),
        directory: shown(&plan.directory),
        environment: plan.environment.iter().map(shown).collect(),
    }
}

fn namespace(namespace: &turnkey_jailer::namespaces::JailNamespace) -> NamespaceView {
    NamespaceView {
        layer: namespace.layer.name(),
        made: match namespace.made {
            NamespaceTiming::AtBirth => "with the jail's first process",
            NamespaceTiming::OnceInItsGroups => "by the first process, once it is in its groups",
        },
    }
}

fn identity(plan: &Plan) -> IdentityView {
    let names = &plan.policy.identity;
    IdentityView {
        user: escape(names.user.as_bytes()),
        hostname: escape(names.hostname.as_bytes()),
        id: names.id(),
        host_id: match &plan.host.ids {
            NamespaceIds::All => turnkey_jailer::HOST_ID.to_owned(),
            NamespaceIds::Own(_) => "the caller".to_owned(),
        },
        capabilities: "none, in any set, and none to be had",
        no_new_privileges: true,
    }
}

fn group(limit: &GroupLimit) -> GroupView {
    GroupView {
        controller: limit.controller.name(),
        parent: limit.parent.as_deref().map(shown),
        file: limit.file,
        value: limit.value.clone(),
    }
}

fn network(plan: &Plan) -> NetworkView {
    let host = |entry: &AllowedHost| HostView {
        to: entry.to.to_string(),
        addresses: entry.addresses.iter().map(ToString::to_string).collect(),
        why: escape(entry.why.as_bytes()),
    };
    let policy = &plan.policy;
    let allowed = policy.network.allow.iter();
    let closed = plan.reach.routes.iter().filter(|route| !route.open);
    let closed: Vec<_> = match policy.network.mode {
        turnkey_policy::NetworkMode::Host => guarded(policy),
        _ => closed.map(|route| route.net.to_string()).collect(),
    };
    NetworkView {
        mode: policy.network.mode.name(),
        loopback_up: plan.has_loopback(),
        allow: match policy.network.mode {
            turnkey_policy::NetworkMode::Allow => allowed.map(host).collect(),
            _ => Vec::new(),
        },
        publish: policy
            .network
            .publish
            .iter()
            .map(ToString::to_string)
            .collect(),
        listeners: plan
            .reach
            .listeners
            .iter()
            .map(ToString::to_string)
            .collect(),
        closed,
    }
}

/// The addresses, handing out the host's credentials, that rules keep a jail in the host's network from.
fn guarded(policy: &Policy) -> Vec<String> {
    let metadata = endpoint::guarded().filter(|(_, special)| *special == SpecialAddress::Metadata);
    let is_denied = |net: &Subnet| {
        let denies = |rule: &&Rule| rule.action == RuleAction::Deny && rule.address.contains(net);
        policy.rules.iter().any(|rule| denies(&rule))
    };
    let nets = metadata.map(|(net, _)| net).filter(is_denied);
    nets.map(|net| net.to_string()).collect()
}

fn rlimits(plan: &Plan) -> Vec<RlimitView> {
    let limits = plan.rlimits.iter();
    limits
        .map(|limit| RlimitView {
            name: limit.name,
            value: limit.value,
            why: limit.why,
        })
        .collect()
}

fn supervisor(policy: &Policy) -> SupervisorView {
    let limits = &policy.limits;
    SupervisorView {
        wall_seconds: limits.wall.as_secs_f64(),
        cpu_seconds: limits.cpu_time.as_secs_f64(),
        output_bytes: limits.output,
        on_loss: policy.enforcement.on_loss.name(),
        behaviours: behaviours(policy, BehaviourResponse::Kill),
        overlooked: behaviours(policy, BehaviourResponse::Off),
        accepted: policy.accepted.iter().map(accepted).collect(),
    }
}

/// The behaviours with this response.
fn behaviours(policy: &Policy, response: BehaviourResponse) -> Vec<&'static str> {
    let all = Behaviour::ALL.iter();
    let those = all.filter(|one| policy.response(**one) == response);
    those.map(|one| one.name()).collect()
}

fn accepted(accepted: &turnkey_policy::AcceptedFinding) -> AcceptedView {
    AcceptedView {
        finding: accepted.finding.clone(),
        until: accepted.until.to_string(),
        why: escape(accepted.why.as_bytes()),
    }
}

fn layers(plan: &Plan) -> LayersView {
    let required = &plan.policy.enforcement.required;
    // Nothing is limited by it in a run that sets no such limit.
    let present = |layer: &&Layer| plan.io.is_some() || **layer != Layer::Io;
    let (required, optional): (Vec<Layer>, Vec<Layer>) = Layer::ALL
        .iter()
        .filter(present)
        .partition(|layer| required.contains(layer));
    let names = |layers: Vec<Layer>| layers.into_iter().map(Layer::name).collect();
    LayersView {
        required: names(required),
        optional: names(optional),
    }
}
