//! Dangerous allows that nobody explains.

use std::path::Path;

use super::field::{AttemptObject, ComparableRules, FileState, Kind, SetDifference, kinds, states};
use super::language::BudgetExceeded;
use super::{Lint, LintFinding};
use crate::decide::{Candidate, candidates};
use crate::error::{Located, Problem};
use crate::model::{AttemptKind, RuleAction};
use crate::profile::{ParsedProfile, ProfileRule};
use crate::tables::{HostPath, Rule};

const FIX: &str = "add `why = \"…\"` with the reason that a reviewer would ask for, or remove it";

/// A place of the host that a jail should be given for a reason only.
struct SensitivePlace {
    path: &'static str,
    /// The depth of names below it that are sensitive as well; `None` is all.
    depth: Option<usize>,
    holds: &'static str,
}

const fn all_below(path: &'static str, holds: &'static str) -> SensitivePlace {
    SensitivePlace {
        path,
        depth: None,
        holds,
    }
}

/// Directories of people: what lies further below may be any project of theirs.
const fn homes(path: &'static str, depth: usize, holds: &'static str) -> SensitivePlace {
    SensitivePlace {
        path,
        depth: Some(depth),
        holds,
    }
}

#[rustfmt::skip]
const SENSITIVE: &[SensitivePlace] = &[
    all_below("/boot", "the kernel and what starts it"),
    all_below("/etc/shadow", "password hashes"),
    all_below("/etc/gshadow", "password hashes"),
    all_below("/etc/ssh", "the host's own keys"),
    all_below("/etc/ssl/private", "private keys"),
    all_below("/etc/sudoers", "who may become root"),
    all_below("/etc/sudoers.d", "who may become root"),
    homes("/home", 1, "what people keep: keys, tokens, mail"),
    homes("/root", 0, "what root keeps: keys, tokens, history"),
    all_below("/run", "the sockets of the host's services"),
    all_below("/sys", "the kernel's view of the host's devices"),
    all_below("/var/lib", "the data of the host's services"),
    all_below("/var/log", "what the host's services did, and for whom"),
    all_below("/var/run", "the sockets of the host's services"),
    all_below("/var/spool", "mail and jobs of the host's users"),
];

/// Directories of secrets, in whoever's home.
const SECRET_NAMES: &[(&str, &str)] = &[
    (".aws", "credentials of a cloud"),
    (".azure", "credentials of a cloud"),
    (".docker", "credentials of registries"),
    (".gnupg", "private keys"),
    (".kube", "credentials of clusters"),
    (".ssh", "private keys"),
];

/// Places of the host.
pub(super) fn places(profile: &ParsedProfile) -> Vec<LintFinding> {
    let unexplained = |entry: &&Located<HostPath>| is_blank(&entry.value.why);
    let write = profile
        .filesystem
        .write
        .iter()
        .filter(unexplained)
        .map(|entry| {
            let path = entry.value.path.display();
            let why =
                "what the program writes there stays on the host, whatever else the jail holds";
            finding(
                entry,
                format!("{path} may be written to, and nothing says why"),
                why.to_owned(),
            )
        });
    let read = profile
        .filesystem
        .read
        .iter()
        .filter(unexplained)
        .filter_map(|entry| {
            let held = held_in(&entry.value.path)?;
            let path = entry.value.path.display();
            Some(finding(
                entry,
                format!("{path} may be read, and nothing says why"),
                format!("it holds {held}"),
            ))
        });
    write.chain(read).collect()
}

fn is_blank(why: &str) -> bool {
    why.trim().is_empty()
}

fn finding(entry: &Located<HostPath>, message: String, why: String) -> LintFinding {
    LintFinding {
        lint: Lint::AllowWithoutReason,
        why,
        problem: Problem::new(message)
            .help(FIX)
            .with_label(&entry.at, "without `why`"),
    }
}

/// The sensitive thing in a place, below it, or around it.
fn held_in(path: &Path) -> Option<&'static str> {
    let named = SECRET_NAMES
        .iter()
        .find(|(name, _)| path.iter().any(|part| part == *name));
    let listed = SENSITIVE.iter().find(|known| known.meets(path));
    match named {
        Some((_, held)) => Some(*held),
        None => listed.map(|known| known.holds),
    }
}

impl SensitivePlace {
    /// True when it lies in that place, or the place in it.
    fn meets(&self, place: &Path) -> bool {
        match place.strip_prefix(self.path) {
            Ok(below) => self.depth.is_none_or(|depth| below.iter().count() <= depth),
            Err(_) => Path::new(self.path).starts_with(place),
        }
    }
}

/// Rules that let pass what another would stop; and the rules of which it takes too long to tell.
pub(super) fn rules(
    profile: &ParsedProfile,
    field: &ComparableRules<'_>,
) -> (Vec<LintFinding>, Vec<usize>) {
    let (mut findings, mut given_up) = (Vec::new(), Vec::new());
    for (index, rule) in profile.rules.iter().enumerate() {
        let meant = &rule.value.rule;
        if stops(meant.action) || !is_blank(&meant.why) {
            continue;
        }
        let hole = match rule.value.replaced {
            Some(replaced) if stops(replaced) => Some(RuleHole::replaced(replaced)),
            _ => {
                field.next_question();
                let Ok(hole) = hole(field, index) else {
                    given_up.push(index);
                    continue;
                };
                hole.map(|hole| hole.around(profile))
            }
        };
        findings.extend(hole.map(|hole| hole.into_finding(&rule.value)));
    }
    (findings, given_up)
}

fn stops(action: RuleAction) -> bool {
    action >= RuleAction::Deny
}

/// A hole that a rule makes: attempts that would be stopped without it.
struct RuleHole {
    what: String,
    would: RuleAction,
}

/// A path or an address, and the rule that would stop it.
struct ShieldedObject {
    object: AttemptObject,
    other: usize,
    on: AttemptKind,
}

impl ShieldedObject {
    fn around(self, profile: &ParsedProfile) -> RuleHole {
        let other = &profile.rules[self.other].value.rule;
        let object = &self.object;
        let (on, id) = (self.on, &other.id);
        RuleHole {
            what: format!("what the rule {id:?} is for, such as {on} {object}"),
            would: other.action,
        }
    }
}

impl RuleHole {
    fn replaced(would: RuleAction) -> Self {
        Self {
            what: "what the inherited rule of this id is for".to_owned(),
            would,
        }
    }

    fn into_finding(self, rule: &ProfileRule) -> LintFinding {
        let Rule { id, action, .. } = &rule.rule;
        let would = match self.would {
            RuleAction::Kill => "killed",
            _ => "denied",
        };
        LintFinding {
            lint: Lint::AllowWithoutReason,
            why: format!("without this rule it would be {would}"),
            problem: Problem::new(format!(
                "the rule {id:?} lets pass {}, and nothing says why",
                self.what
            ))
            .help(FIX)
            .with_label(&rule.places.action, format!("{action} without `why`")),
        }
    }
}

fn hole(
    field: &ComparableRules<'_>,
    index: usize,
) -> Result<Option<ShieldedObject>, BudgetExceeded> {
    let rule = &field.rules[index];
    let parts = candidates(index, rule).into_iter();
    for candidate in parts.filter(|candidate| !candidate.is_whole()) {
        for kind in kinds(rule) {
            for state in states(rule, kind.0) {
                let found = in_state(field, candidate, kind, state)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
    }
    Ok(None)
}

/// Looks for a path on which this candidate decides, and a rule that stops would without it.
fn in_state(
    field: &ComparableRules<'_>,
    candidate: Candidate,
    kind: Kind,
    state: FileState,
) -> Result<Option<ShieldedObject>, BudgetExceeded> {
    let (before, after) = field.around(kind, candidate);
    let mut outside = field.rivals(before, candidate, state.flag)?;
    for other in field.rivals_of_some(after, candidate, state.flag)? {
        // Without a path, such a rule on memory does not speak of files.
        if kind.0 == AttemptKind::Map && other.is_whole() {
            continue;
        }
        if stops(field.rules[other.rule].action) {
            let left = field.left_over(&[candidate, other], &outside, state.universe)?;
            if let SetDifference::Object(object) = left {
                return Ok(Some(ShieldedObject {
                    object,
                    other: other.rule,
                    on: kind.0,
                }));
            }
        }
        if field.means_all_actors_of(other, candidate) {
            outside.push(other);
        }
    }
    Ok(None)
}
