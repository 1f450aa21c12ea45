//! A profile as it was read, and how profiles that build on each other become one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::behaviour::{AcceptedFinding, Behaviour, BehaviourResponse};
use crate::decide::Candidate;
use crate::endpoint::AllowedHost;
use crate::error::{Located, Problem, TextSpan};
use crate::identity::IdentityKeys;
use crate::limits::LimitKeys;
use crate::model::{
    EnforcementMode, HostPath, Layer, NetworkMode, OnLoss, ProcView, Rule, RuleAction,
    ScratchMount, ToolchainMode, WorkdirMode,
};

/// One text as it was read; what it does not say is `None` or empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParsedProfile {
    pub(crate) name: Option<Located<String>>,
    pub(crate) description: Option<Located<String>>,
    pub(crate) extends: Vec<Located<String>>,
    /// True when what the profiles below list for the jail's file system falls away.
    pub(crate) own_tree: bool,
    pub(crate) root: Option<Located<PathBuf>>,
    pub(crate) toolchain: Option<Located<ToolchainMode>>,
    pub(crate) proc: Option<Located<ProcView>>,
    pub(crate) read: Vec<Located<HostPath>>,
    pub(crate) write: Vec<Located<HostPath>>,
    pub(crate) scratch: Vec<Located<ScratchMount>>,
    pub(crate) workdir: Option<Located<WorkdirMode>>,
    pub(crate) decoys: Vec<Located<PathBuf>>,
    pub(crate) network: Option<Located<NetworkMode>>,
    /// The reason for that mode.
    pub(crate) network_why: Option<Located<String>>,
    pub(crate) allow: Vec<Located<AllowedHost>>,
    pub(crate) limits: LimitKeys,
    pub(crate) identity: IdentityKeys,
    pub(crate) pass: Vec<Located<String>>,
    pub(crate) set: BTreeMap<String, String>,
    /// True when what the profiles below allow falls away.
    pub(crate) own_syscalls: bool,
    pub(crate) syscalls: Vec<Located<Vec<&'static str>>>,
    pub(crate) required: Option<Located<BTreeSet<Layer>>>,
    pub(crate) on_loss: Option<Located<OnLoss>>,
    pub(crate) mode: Option<Located<EnforcementMode>>,
    pub(crate) behaviours: BTreeMap<Behaviour, BehaviourResponse>,
    pub(crate) accepted: Vec<Located<AcceptedFinding>>,
    pub(crate) rules: Vec<Located<ProfileRule>>,
}

/// A rule, and whether it means to take another's place.
#[derive(Clone, Debug)]
pub(crate) struct ProfileRule {
    pub(crate) rule: Rule,
    pub(crate) replaces: bool,
    /// The action of the rule whose place it took.
    pub(crate) replaced: Option<RuleAction>,
    pub(crate) places: RulePlaces,
}

/// The places of a rule's parts.
#[derive(Clone, Debug)]
pub(crate) struct RulePlaces {
    pub(crate) id: TextSpan,
    pub(crate) action: TextSpan,
    /// One for each pattern.
    pub(crate) path: Vec<TextSpan>,
    /// One for each address.
    pub(crate) address: Vec<TextSpan>,
    /// One for each range of ports.
    pub(crate) port: Vec<TextSpan>,
    /// One for each pattern of programs.
    pub(crate) exe: Vec<TextSpan>,
    /// One for each pattern of scripts.
    pub(crate) script: Vec<TextSpan>,
}

impl RulePlaces {
    /// The place of what a candidate is about; `None` for one that is about everything.
    pub(crate) fn span_of(&self, candidate: Candidate) -> Option<&TextSpan> {
        let path = candidate.pattern.map(|index| &self.path[index]);
        let address = candidate.address.map(|index| &self.address[index]);
        let port = candidate.port.map(|index| &self.port[index]);
        path.or(address).or(port)
    }
}

impl ParsedProfile {
    /// Lays another profile over this one, key by key: a single value takes the place of the one
    /// below, a list is appended unless it starts over. A path given again, or a rule that `replaces`, takes the place
    /// of the entry below instead.
    pub(crate) fn lay_over(&mut self, above: Self, problems: &mut Vec<Problem>) {
        override_with(&mut self.name, above.name);
        override_with(&mut self.description, above.description);
        override_with(&mut self.workdir, above.workdir);
        if above.network.is_some() {
            // A reason is for the mode that it stands beside.
            self.network_why = None;
        }
        override_with(&mut self.network, above.network);
        override_with(&mut self.network_why, above.network_why);
        self.limits.lay_over(above.limits);
        self.identity.lay_over(above.identity);
        override_with(&mut self.required, above.required);
        override_with(&mut self.on_loss, above.on_loss);
        override_with(&mut self.mode, above.mode);
        if above.own_tree {
            self.read.clear();
            self.write.clear();
            self.scratch.clear();
            self.decoys.clear();
        }
        if above.own_syscalls {
            self.syscalls.clear();
        }
        if above.root.is_some() {
            // What was to be read below spoke of the host's root.
            self.read.clear();
        }
        override_with(&mut self.root, above.root);
        override_with(&mut self.toolchain, above.toolchain);
        override_with(&mut self.proc, above.proc);
        append(&mut self.read, above.read, |entry| &entry.path);
        append(&mut self.write, above.write, |entry| &entry.path);
        append(&mut self.scratch, above.scratch, |entry| &entry.path);
        append(&mut self.decoys, above.decoys, |path| path);
        append(&mut self.allow, above.allow, |entry| &entry.to);
        append(&mut self.pass, above.pass, |name| name);
        self.syscalls.extend(above.syscalls);
        self.set.extend(above.set);
        self.behaviours.extend(above.behaviours);
        append(&mut self.accepted, above.accepted, |entry| &entry.finding);
        for rule in above.rules {
            self.add_rule(rule, problems);
        }
    }

    /// A rule never disappears by accident: taking another's place has to be said.
    fn add_rule(&mut self, mut new: Located<ProfileRule>, problems: &mut Vec<Problem>) {
        let id = &new.value.rule.id;
        let inherited = self.rules.iter().position(|rule| rule.value.rule.id == *id);
        match (inherited, new.value.replaces) {
            (None, false) => self.rules.push(new),
            (Some(index), true) => {
                new.value.replaced = Some(self.rules[index].value.rule.action);
                self.rules[index] = new;
            }
            (None, true) => problems.push(
                Problem::new(format!("there is no rule {id:?} to replace"))
                    .help("remove `replaces`, or write the id of an inherited rule")
                    .with_label(&new.at, "replaces nothing"),
            ),
            (Some(index), false) => {
                let first = &self.rules[index];
                let mut problem = Problem::new(format!("there are two rules {id:?}"))
                    .help("choose another id, or add `replaces = true` to the later one")
                    .with_label(&new.at, "the second");
                if first.at.source == new.at.source {
                    problem = problem.with_label(&first.at, "the first");
                }
                problems.push(problem);
            }
        }
    }
}

fn override_with<T>(below: &mut Option<T>, above: Option<T>) {
    if above.is_some() {
        *below = above;
    }
}

/// Appends what is new; what is there already is replaced in its place.
fn append<T, K: PartialEq>(
    below: &mut Vec<Located<T>>,
    above: Vec<Located<T>>,
    key: impl Fn(&T) -> &K,
) {
    for entry in above {
        match below
            .iter_mut()
            .find(|old| key(&old.value) == key(&entry.value))
        {
            Some(old) => *old = entry,
            None => below.push(entry),
        }
    }
}
