//! Decisions that fell as they did because nobody knew who acted, or on which file.

use turnkey_facts::Decision;
use turnkey_policy::{Attempt, AttemptKind, OpenAccess, Rule, asks_who_acts};

use super::act::{Object, ReportedAct};
use super::model::{FileAccess, Violation};
use super::text::unescape;

/// In a sentence about such a decision.
pub const WORDS: &str =
    "which program or script this was is not known, so the strictest of their rules counted";

/// The words of [`WORDS`] for an act on a file that was not known.
#[must_use]
pub fn file_words(on: AttemptKind) -> &'static str {
    match on {
        AttemptKind::Open => {
            "which one this was is not known: its path is too long, a directory of it is among too many names, or another thread had closed \
             it already, so the strictest rule for any file counted"
        }
        _ => {
            "which one this was is not known by a link of /proc, by a `..` behind a symlink, or behind one among too many names, so the \
             strictest rule for any file counted"
        }
    }
}

/// The words, where the file of a violation was not known.
pub fn file(told: &Violation) -> Option<String> {
    told.file_unknown.then(|| file_words(told.on).to_owned())
}

/// True when the kernel did not know who acted, and rules about such an attempt ask for that.
pub fn decided(rules: &[Rule], decision: Decision, act: &ReportedAct) -> bool {
    let rule = rules.get(decision.rule);
    decision.actor_unknown
        && (rule.is_some_and(Rule::names_actors) || act.on.is_some_and(|_| asks(rules, act)))
}

fn asks(rules: &[Rule], act: &ReportedAct) -> bool {
    let Some(on) = act.on else { return false };
    let path = act.object.path().map(unescape);
    let access: Vec<OpenAccess> = match &act.object {
        Object::File { access, .. } => access.iter().filter_map(of_rules).collect(),
        _ => Vec::new(),
    };
    let address = match &act.object {
        Object::Address { address, .. } => address.parse().ok(),
        _ => None,
    };
    let attempt = Attempt {
        path: path.as_deref(),
        access: &access,
        address,
        ..Attempt::new(on)
    };
    asks_who_acts(rules, &attempt)
}

/// The access that rules speak of.
pub fn of_rules(access: &FileAccess) -> Option<OpenAccess> {
    match access {
        FileAccess::Read => Some(OpenAccess::Read),
        FileAccess::Write => Some(OpenAccess::Write),
        _ => None,
    }
}
