//! The rule that decides on an attempt, and why: `explain --path P --on KIND`.

use std::net::SocketAddr;
use std::path::Path;

use serde::Serialize;
use turnkey_policy::{
    Attempt, AttemptKind, Candidate, NetworkMode, OpenAccess, Policy, PrecedenceReason, Rule,
    address, brought_about, decide, decide_same_file, matching,
};

use super::question::ExplainQuestion;
use super::rules::{RankedRule, RuleDefinition, definition, ranked};
use super::tree::TreeRow;
use super::view::shown;
use turnkey_report::escape;

/// The version of the shape.
const SCHEMA: &str = "turnkey.decision/v1";

/// The answer to a question.
#[derive(Debug, Serialize)]
pub struct ExplainedDecision {
    schema: &'static str,
    pub profile: String,
    pub mode: &'static str,
    pub on: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flag: Option<&'static str>,
    /// The program that acts; `null` when it is not known, and every rule that names one may be meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exe: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The rule that decides; `null` when none speaks of the attempt, and it is let through.
    pub decides: Option<RuleDefinition>,
    /// The rules that match by what was tried, for each way in which the file is opened.
    pub asked: Vec<AskedAttempt>,
    /// The rule that knows the file by itself, whatever its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_file: Option<String>,
    /// Rules that say nothing because the program's home lacks the path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<String>,
    /// The row of the jail's tree that holds the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeRow>,
    /// False where there is no jail, as the rules are for processes that others started.
    #[serde(skip)]
    has_tree: bool,
}

/// One access, one address, or an attempt that has none.
#[derive(Debug, Serialize)]
pub struct AskedAttempt {
    /// The kind of attempt that an act on a name comes to besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<&'static str>,
    /// Of an unspecified address, each that is meant by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The first decides.
    pub matching: Vec<RuleMatch>,
}

/// A rule, or one pattern of it, that matches.
#[derive(Debug, Serialize)]
pub struct RuleMatch {
    #[serde(flatten)]
    pub candidate: RankedRule,
    /// The reason why the one before it comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<RankReason>,
}

/// The reason why one comes before another.
#[derive(Debug, Serialize)]
pub struct RankReason {
    pub reason: &'static str,
    /// The same, for people.
    pub words: String,
}

impl ExplainedDecision {
    /// Asks the rules as a run does, and looks where in the tree of the jail the path lies, if there is one.
    pub fn new(policy: &Policy, question: &ExplainQuestion, tree: Option<Vec<TreeRow>>) -> Self {
        let rules = &policy.rules;
        // The file that is there when the run begins is the one that is meant.
        let was: Vec<&[u8]> = question.path.as_deref().into_iter().collect();
        let attempt = placed(policy, question.attempt(&was));
        let rule = |index: usize| -> &Rule { &rules[index] };
        Self {
            schema: SCHEMA,
            profile: escape(policy.name.as_bytes()),
            mode: policy.enforcement.mode.name(),
            on: question.on.name(),
            path: question.path.as_deref().map(escape),
            address: question.address.map(|address| address.to_string()),
            flag: question.flag.map(|flag| flag.name()),
            exe: question.exe.as_deref().map(escape),
            script: question.script.as_deref().map(escape),
            decides: decide(rules, &attempt).map(|index| definition(rule(index), policy)),
            asked: asked(policy, question),
            same_file: decide_same_file(rules, &attempt).map(|index| shown(&rule(index).id)),
            silent: silent(rules, &attempt),
            has_tree: tree.is_some(),
            tree: question
                .path
                .as_deref()
                .zip(tree)
                .and_then(|(path, tree)| holding(tree, path)),
        }
    }
}

/// The rules on what is present that would match, had such a path been there when the run began.
fn silent(rules: &[Rule], attempt: &Attempt<'_>) -> Vec<String> {
    let Some(path) = attempt.path else {
        return Vec::new();
    };
    let speaks = |rule: &&Rule| {
        rule.present
            && rule.on.contains(&attempt.on)
            && rule.is_silent(path)
            && rule.path.iter().any(|glob| glob.matches(path))
    };
    let rules = rules.iter().filter(speaks);
    rules.map(|rule| shown(&rule.id)).collect()
}

impl ExplainedDecision {
    /// True when the answer depends on who acts, and that is not known.
    pub fn is_about_nobody(&self, asked: &AskedAttempt) -> bool {
        let names =
            |one: &RuleMatch| !one.candidate.exe.is_empty() || !one.candidate.script.is_empty();
        self.exe.is_none() && asked.matching.iter().any(names)
    }

    /// True when the question is about a path of the jail's tree; a memory file lies outside.
    pub fn is_in_the_tree(&self) -> bool {
        self.has_tree && self.path.as_ref().is_some_and(|path| path.starts_with('/'))
    }
}

fn asked(policy: &Policy, question: &ExplainQuestion) -> Vec<AskedAttempt> {
    let accesses: Vec<Option<OpenAccess>> = match question.access.as_slice() {
        [] => vec![None],
        accesses => accesses.iter().copied().map(Some).collect(),
    };
    let attempt = placed(policy, question.attempt(&[]));
    if let Some(peer) = attempt.address {
        let meant = address::meant(attempt.on, peer.ip());
        return meant
            .into_iter()
            .map(|ip| asked_to(policy, &attempt, SocketAddr::new(ip, peer.port())))
            .collect();
    }
    let own = accesses
        .into_iter()
        .map(|access| asked_about(policy, None, &attempt, access));
    let with = brought_about(&attempt);
    let besides = with.iter().flat_map(|one| {
        let accesses: Vec<Option<OpenAccess>> = match one.access {
            [] => vec![None],
            accesses => accesses.iter().copied().map(Some).collect(),
        };
        let of = |access| asked_about(policy, Some(one.on.name()), one, access);
        accesses.into_iter().map(of).collect::<Vec<AskedAttempt>>()
    });
    own.chain(besides.filter(|asked| !asked.matching.is_empty()))
        .collect()
}

fn asked_about(
    policy: &Policy,
    on: Option<&'static str>,
    attempt: &Attempt<'_>,
    access: Option<OpenAccess>,
) -> AskedAttempt {
    AskedAttempt {
        on,
        access: access.map(OpenAccess::name),
        address: None,
        matching: in_order(policy, &matching(&policy.rules, attempt, access)),
    }
}

fn asked_to(policy: &Policy, attempt: &Attempt<'_>, peer: SocketAddr) -> AskedAttempt {
    let attempt = Attempt {
        address: Some(peer),
        ..*attempt
    };
    AskedAttempt {
        on: None,
        access: None,
        address: Some(peer.to_string()),
        matching: in_order(policy, &matching(&policy.rules, &attempt, None)),
    }
}

/// Says of an address whether the jail has it for itself.
fn placed<'a>(policy: &Policy, attempt: Attempt<'a>) -> Attempt<'a> {
    Attempt {
        to_itself: matches!(
            policy.network.mode,
            NetworkMode::Loopback | NetworkMode::Sinkhole | NetworkMode::Allow
        ) && attempt.on != AttemptKind::Bind
            && attempt
                .address
                .is_some_and(|peer| address::is_own(peer.ip())),
        ..attempt
    }
}

fn in_order(policy: &Policy, candidates: &[Candidate]) -> Vec<RuleMatch> {
    let before = std::iter::once(None).chain(candidates.iter().copied().map(Some));
    let pairs = before.zip(candidates.iter().copied());
    pairs
        .filter_map(|(before, candidate)| {
            Some(RuleMatch {
                candidate: ranked(candidate, policy)?,
                after: before.map(|first| RankReason::new(&policy.rules, first, candidate)),
            })
        })
        .collect()
}

impl RankReason {
    fn new(rules: &[Rule], first: Candidate, second: Candidate) -> Self {
        let reason = PrecedenceReason::between(rules, first, second);
        Self {
            reason: reason.name(),
            words: reason.to_string(),
        }
    }
}

/// The step that filled the place last: the deepest, and of two the later.
fn holding(tree: Vec<TreeRow>, path: &[u8]) -> Option<TreeRow> {
    let path = String::from_utf8_lossy(path).into_owned();
    let holds = |row: &TreeRow| Path::new(&path).starts_with(&row.path);
    tree.into_iter()
        .filter(holds)
        .max_by_key(|row| Path::new(&row.path).components().count())
}
