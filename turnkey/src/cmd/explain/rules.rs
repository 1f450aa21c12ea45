//! The monitor's rules, in the order in which they decide.

use serde::Serialize;
use turnkey_policy::{
    AttemptKind, Candidate, Glob, OpenAccess, Policy, Rule, SameFile, precedence,
};

use super::view::shown;

/// Every rule, and who speaks first.
#[derive(Debug, Serialize)]
pub struct RulesView {
    pub definitions: Vec<RuleDefinition>,
    pub precedence: Vec<KindPrecedence>,
}

/// One rule.
#[derive(Debug, Serialize)]
pub struct RuleDefinition {
    pub id: String,
    /// The action under the profile's mode.
    pub action: &'static str,
    /// As written, when the mode softens it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<&'static str>,
    pub severity: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub technique: Option<String>,
    /// States of a file that it speaks of alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<&'static str>,
    /// Programs whose attempts it speaks of alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exe: Vec<String>,
    /// Scripts whose attempts it speaks of alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub script: Vec<String>,
    /// The way in which its paths stand for files, by whatever name, and have to be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_file: Option<&'static str>,
    /// True when its patterns decide only where no pattern of another rule does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub yields: bool,
    /// True when it speaks only of what the profile does not show.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// True when it speaks, in places of the jail's own, only of what is there when the run begins.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub present: bool,
    pub why: String,
}

/// For one kind of attempt: the first that matches decides.
#[derive(Debug, Serialize)]
pub struct KindPrecedence {
    pub on: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<&'static str>,
    pub order: Vec<RankedRule>,
}

/// A rule, or one pattern of it.
#[derive(Debug, Serialize)]
pub struct RankedRule {
    pub rule: String,
    /// `null` speaks of every path, or of an attempt without one.
    pub pattern: Option<String>,
    /// The addresses that it means; without any, every address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The ports that it means; without any, every port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// States of the file, any of which is meant; without any, every file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<&'static str>,
    /// Programs, any of which has to act; without any, everybody.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exe: Vec<String>,
    /// Scripts, any of which has to act.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub script: Vec<String>,
    pub action: &'static str,
}

impl RulesView {
    /// Reads the policy.
    pub fn new(policy: &Policy) -> RulesView {
        let kinds = AttemptKind::ALL.iter().flat_map(|on| match on {
            AttemptKind::Open => OpenAccess::ALL
                .iter()
                .map(|access| (*on, Some(*access)))
                .collect(),
            _ => vec![(*on, None)],
        });
        RulesView {
            definitions: policy
                .rules
                .iter()
                .map(|rule| definition(rule, policy))
                .collect(),
            precedence: kinds
                .map(|(on, access)| ranking(on, access, policy))
                .filter(|ranking| !ranking.order.is_empty())
                .collect(),
        }
    }
}

/// One rule as it is shown.
pub(super) fn definition(rule: &Rule, policy: &Policy) -> RuleDefinition {
    let action = policy.enforcement.mode.apply(rule.action);
    RuleDefinition {
        id: shown(&rule.id),
        action: action.name(),
        written: (action != rule.action).then(|| rule.action.name()),
        severity: rule.severity.name(),
        technique: rule.technique.as_ref().map(shown),
        flags: flags(rule),
        exe: patterns(&rule.exe),
        script: patterns(&rule.script),
        same_file: (rule.same_file != SameFile::No).then(|| rule.same_file.name()),
        yields: rule.yields,
        hidden: rule.hidden,
        present: rule.present,
        why: shown(&rule.why),
    }
}

fn flags(rule: &Rule) -> Vec<&'static str> {
    rule.flags.iter().map(|flag| flag.name()).collect()
}

fn patterns(globs: &[Glob]) -> Vec<String> {
    globs.iter().map(|glob| shown(glob.to_string())).collect()
}

fn ranking(on: AttemptKind, access: Option<OpenAccess>, policy: &Policy) -> KindPrecedence {
    let ordered = precedence(&policy.rules, on, access);
    KindPrecedence {
        on: on.name(),
        access: access.map(OpenAccess::name),
        order: ordered
            .into_iter()
            .filter_map(|candidate| ranked(candidate, policy))
            .collect(),
    }
}

/// One candidate as it is shown.
pub(super) fn ranked(candidate: Candidate, policy: &Policy) -> Option<RankedRule> {
    let rule = policy.rules.get(candidate.rule)?;
    let pattern = candidate.glob(&policy.rules);
    Some(RankedRule {
        rule: shown(&rule.id),
        pattern: pattern.map(|glob| shown(glob.to_string())),
        address: candidate
            .subnet(&policy.rules)
            .map(|subnet| subnet.to_string()),
        port: candidate
            .ports(&policy.rules)
            .map(|ports| ports.to_string()),
        flags: flags(rule),
        exe: patterns(&rule.exe),
        script: patterns(&rule.script),
        action: policy.enforcement.mode.apply(rule.action).name(),
    })
}

impl RankedRule {
    /// The meaning of the rule in one line: the object, its state, and who acts.
    pub fn means(&self) -> String {
        let mut means = self.speaks_of();
        if !self.flags.is_empty() {
            means = format!("{means}, if {}", self.flags.join(" or "));
        }
        for (what, names) in [("by", &self.exe), ("in the script", &self.script)] {
            if !names.is_empty() {
                means = format!("{means}, {what} {}", names.join(" or "));
            }
        }
        means
    }

    fn speaks_of(&self) -> String {
        if let Some(pattern) = &self.pattern {
            return pattern.clone();
        }
        match (&self.address, &self.port) {
            (None, None) => "(any)".to_owned(),
            (Some(address), None) => address.clone(),
            (None, Some(port)) => format!("port {port}"),
            (Some(address), Some(port)) => format!("{address} port {port}"),
        }
    }
}
