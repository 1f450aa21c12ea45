//! A profile as it was read, and how profiles that build on each other become one.

use std::collections::BTreeMap;

use crate::behaviour::{Behaviour, BehaviourResponse};
use crate::error::{Located, Problem, TextSpan};
use crate::model::RuleAction;
use crate::tables::declare::{KeyTable as _, append};
use crate::tables::{
    AcceptedFinding, EnforcementKeys, EnvironmentKeys, FilesystemKeys, IdentityKeys, LimitKeys,
    NetworkKeys, Rule, ScanKeys, SyscallKeys,
};

/// One text as it was read; what it does not say is `None` or empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParsedProfile {
    pub(crate) name: Option<Located<String>>,
    pub(crate) description: Option<Located<String>>,
    pub(crate) extends: Vec<Located<String>>,
    pub(crate) filesystem: FilesystemKeys,
    pub(crate) network: NetworkKeys,
    pub(crate) limits: LimitKeys,
    pub(crate) identity: IdentityKeys,
    pub(crate) environment: EnvironmentKeys,
    pub(crate) syscalls: SyscallKeys,
    pub(crate) enforcement: EnforcementKeys,
    pub(crate) scan: ScanKeys,
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

impl ParsedProfile {
    /// Lays another profile over this one, table by table. A path given again, or a rule that `replaces`, takes the place
    /// of the entry below.
    pub(crate) fn lay_over(&mut self, above: Self, problems: &mut Vec<Problem>) {
        self.name = above.name.or(self.name.take());
        self.description = above.description.or(self.description.take());
        if above.network.mode.is_some() {
            // A reason is for the mode that it stands beside.
            self.network.why = None;
        }
        if above
            .network
            .mode
            .as_ref()
            .is_some_and(|mode| !mode.value.has_servers())
        {
            // There is no loopback of the jail's own any more.
            self.network.publish.clear();
        }
        if is_off(&above.filesystem.inherit) {
            self.filesystem.start_over();
        }
        if is_off(&above.syscalls.inherit) {
            self.syscalls.start_over();
        }
        if above.filesystem.root.is_some() {
            // What was to be read below spoke of the host's root.
            self.filesystem.read.clear();
        }
        self.filesystem.lay_over(above.filesystem);
        self.network.lay_over(above.network);
        self.limits.lay_over(above.limits);
        self.identity.lay_over(above.identity);
        self.environment.lay_over(above.environment);
        self.syscalls.lay_over(above.syscalls);
        self.enforcement.lay_over(above.enforcement);
        self.scan.lay_over(above.scan);
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

fn is_off(key: &Option<Located<bool>>) -> bool {
    key.as_ref().is_some_and(|given| !given.value)
}
