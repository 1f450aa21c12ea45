//! Rules that never decide: no attempt meets them, or others always decide before them.

use std::collections::BTreeSet;

use super::field::{ComparableRules, FileState, Kind, SetDifference, kinds, states};
use super::language::BudgetExceeded;
use super::{Lint, LintFinding};
use crate::decide::{Candidate, candidates};
use crate::error::{Located, Problem, TextSpan};
use crate::model::{FileFlag, RuleAction, SameFile};
use crate::profile::{ParsedProfile, ProfileRule};
use crate::reason::PrecedenceReason;
use crate::tables::Rule;

/// The fate of a candidate.
enum CandidateFate {
    /// The candidate decides on some attempt.
    Decides,
    /// The candidate matches no attempt.
    Never,
    /// Before it, always one of these does.
    Shadowed(BTreeSet<Candidate>),
}

pub(super) fn rules(
    profile: &ParsedProfile,
    field: &ComparableRules<'_>,
) -> (Vec<LintFinding>, Vec<usize>) {
    let (mut findings, mut given_up) = (Vec::new(), Vec::new());
    for (index, rule) in profile.rules.iter().enumerate() {
        // Such a rule decides by file as well, whatever happens to its paths; a notice about a network is silent where the
        // profile gives one.
        if rule.value.rule.same_file != SameFile::No || field.rules[index].on.is_empty() {
            continue;
        }
        field.next_question();
        let fates = candidates(index, &rule.value.rule)
            .into_iter()
            .map(|candidate| {
                Ok((
                    candidate,
                    unexpected(profile, rule, fate(field, candidate)?),
                ))
            })
            .collect::<Result<Vec<_>, BudgetExceeded>>();
        match fates {
            Ok(fates) => findings.extend(finding(profile, field, rule, fates)),
            Err(BudgetExceeded) => given_up.push(index),
        }
    }
    (findings, given_up)
}

/// A rule that yields says itself that others may decide everything it speaks of. In one file that is worth a
/// word; that another profile's does, such as a notice of a shipped one, is what it is for.
fn unexpected(
    profile: &ParsedProfile,
    rule: &Located<ProfileRule>,
    fate: CandidateFate,
) -> CandidateFate {
    let is_elsewhere =
        |shadow: &Candidate| profile.rules[shadow.rule].at.source.name != rule.at.source.name;
    match fate {
        CandidateFate::Shadowed(by) if rule.value.rule.yields && by.iter().any(is_elsewhere) => {
            CandidateFate::Decides
        }
        fate => fate,
    }
}

fn fate(
    field: &ComparableRules<'_>,
    candidate: Candidate,
) -> Result<CandidateFate, BudgetExceeded> {
    let rule = &field.rules[candidate.rule];
    let mut shadows = BTreeSet::new();
    for kind in kinds(rule) {
        for state in states(rule, kind.0) {
            match in_state(field, candidate, kind, state)? {
                CandidateFate::Decides => return Ok(CandidateFate::Decides),
                CandidateFate::Never => {}
                CandidateFate::Shadowed(by) => shadows.extend(by),
            }
        }
    }
    Ok(if shadows.is_empty() {
        CandidateFate::Never
    } else {
        CandidateFate::Shadowed(shadows)
    })
}

fn in_state(
    field: &ComparableRules<'_>,
    candidate: Candidate,
    kind: Kind,
    state: FileState,
) -> Result<CandidateFate, BudgetExceeded> {
    let (before, _) = field.around(kind, candidate);
    let mut rivals = field.rivals(before, candidate, state.flag)?;
    rivals.retain(|rival| !field.may_be_silent(*rival, candidate));
    if candidate.is_whole() {
        // It also means attempts without a path or an address, on which the others say nothing.
        let first = rivals.into_iter().find(|rival| rival.is_whole());
        return Ok(first.map_or(CandidateFate::Decides, |first| shadowed([first])));
    }
    let left = field.left_over(&[candidate], &rivals, state.universe)?;
    Ok(match left {
        SetDifference::Object(_) => CandidateFate::Decides,
        SetDifference::Nothing(by) if by.is_empty() => CandidateFate::Never,
        SetDifference::Nothing(by) => shadowed(by),
    })
}

fn shadowed(by: impl IntoIterator<Item = Candidate>) -> CandidateFate {
    CandidateFate::Shadowed(by.into_iter().collect())
}

/// One finding for a rule that never decides at all, else one for each of its parts.
fn finding(
    profile: &ParsedProfile,
    field: &ComparableRules<'_>,
    rule: &Located<ProfileRule>,
    fates: Vec<(Candidate, CandidateFate)>,
) -> Vec<LintFinding> {
    let whole = fates.len() == 1;
    if !whole
        && fates
            .iter()
            .all(|(_, fate)| matches!(fate, CandidateFate::Never))
    {
        return vec![never(&rule.value, None)];
    }
    let shadows = fates.iter().filter_map(|(candidate, fate)| match fate {
        CandidateFate::Shadowed(by) => Some(by.iter().map(|shadow| (*candidate, *shadow))),
        CandidateFate::Decides | CandidateFate::Never => None,
    });
    if !fates
        .iter()
        .any(|(_, fate)| matches!(fate, CandidateFate::Decides))
        && !whole
    {
        let shadows = shadows.flatten().collect::<Vec<_>>();
        return vec![hidden(profile, field, rule, None, &shadows)];
    }
    let told = fates.iter().filter_map(|(candidate, fate)| match fate {
        CandidateFate::Decides => None,
        CandidateFate::Never => Some(never(&rule.value, Some((candidate.pattern?, whole)))),
        CandidateFate::Shadowed(by) => {
            let part = (!whole).then_some(*candidate);
            let shadows: Vec<_> = by.iter().map(|shadow| (*candidate, *shadow)).collect();
            Some(hidden(profile, field, rule, part, &shadows))
        }
    });
    told.collect()
}

/// `pattern` is the one meant, and whether it is the rule's only one.
fn never(rule: &ProfileRule, pattern: Option<(usize, bool)>) -> LintFinding {
    let id = &rule.rule.id;
    let message = match pattern {
        Some((_, false)) => format!("a pattern of the rule {id:?} can never match"),
        _ => format!("the rule {id:?} can never match"),
    };
    let at = match pattern {
        Some((index, _)) => &rule.places.path[index],
        None => &rule.places.id,
    };
    let (cause, fix) = cause(&rule.rule, pattern.map_or(0, |(index, _)| index));
    LintFinding {
        lint: Lint::NeverMatches,
        why: format!("{}; {cause}", consequence(rule.rule.action)),
        problem: Problem::new(message)
            .help(fix)
            .with_label(at, "no attempt is on such a path"),
    }
}

/// The consequence of a rule that never decides.
fn consequence(action: RuleAction) -> &'static str {
    match action {
        RuleAction::Allow => "what it was to allow is not allowed by it",
        RuleAction::Log => "what it was to tell of is not told",
        RuleAction::Deny | RuleAction::Kill => "what it was to stop is not stopped by it",
    }
}

/// The cause for which no path can match, and the fix.
fn cause(rule: &Rule, pattern: usize) -> (&'static str, &'static str) {
    let is_memory = rule.path[pattern].as_str().starts_with("memfd:");
    if rule.flags.contains(&FileFlag::Memfd) && !is_memory {
        return (
            "a memory file has no path but memfd:NAME",
            "write \"memfd:**\" as the path, or remove the flag",
        );
    }
    if rule.flags.contains(&FileFlag::Deleted) && is_memory {
        return (
            "a memory file does not count as deleted",
            "write the flag \"memfd\", or remove `flags`",
        );
    }
    if is_memory {
        return (
            "a memory file has no name in any directory",
            "remove the pattern, or write the rule for \"open\", \"exec\" or \"map\"",
        );
    }
    (
        "the kernel's paths have no empty part, no . and no ..",
        "write the path without doubled slashes, . and ..",
    )
}

const FIX: &str = "remove it, narrow the rule that decides first, or write more of the path out: the pattern with more literal bytes decides";

const FIX_OF_PEERS: &str = "remove it, or narrow the rule that decides first: the longer prefix decides, then the fewer ports";

/// The name of a part of a rule.
fn kind_of_part(part: Candidate) -> &'static str {
    match (part.address, part.port) {
        (None, None) => "a pattern",
        (Some(_), None) => "an address",
        (None, Some(_)) => "a port",
        (Some(_), Some(_)) => "an address with a port",
    }
}

fn hidden(
    profile: &ParsedProfile,
    field: &ComparableRules<'_>,
    rule: &Located<ProfileRule>,
    part: Option<Candidate>,
    shadows: &[(Candidate, Candidate)],
) -> LintFinding {
    let id = &rule.value.rule.id;
    let message = match part {
        Some(part) => format!("{} of the rule {id:?} never decides", kind_of_part(part)),
        None => format!("the rule {id:?} never decides"),
    };
    let places = &rule.value.places;
    let at = part.map_or(&places.id, |part| {
        places.span_of(part).unwrap_or(&places.id)
    });
    let at = match (places.path.as_slice(), places.address.as_slice()) {
        ([only], _) | ([], [only]) => only,
        _ => at,
    };
    let names_peer = shadows.iter().any(|(candidate, _)| candidate.names_peer());
    let mut problem = Problem::new(message)
        .help(if names_peer { FIX_OF_PEERS } else { FIX })
        .with_label(at, "whatever this matches");
    let mut told = BTreeSet::new();
    for (candidate, shadow) in shadows {
        if told.insert(*shadow) {
            problem = label(profile, field, (*shadow, *candidate), problem);
        }
    }
    let actions: BTreeSet<RuleAction> = told
        .iter()
        .map(|shadow| field.rules[shadow.rule].action)
        .collect();
    LintFinding {
        lint: Lint::Shadowed,
        why: outcome(rule.value.rule.action, &actions),
        problem,
    }
}

/// The outcome in place of what the rule says.
fn outcome(action: RuleAction, instead: &BTreeSet<RuleAction>) -> String {
    let stops = |action: &RuleAction| *action >= RuleAction::Deny;
    if stops(&action) && !instead.iter().all(stops) {
        return "what it was to stop is let through".to_owned();
    }
    if !stops(&action) && instead.iter().any(stops) {
        return "what it was to let through is stopped".to_owned();
    }
    "it changes nothing, and a reader is told otherwise".to_owned()
}

/// Says beside what decides first that it does, and why.
fn label(
    profile: &ParsedProfile,
    field: &ComparableRules<'_>,
    (first, behind): (Candidate, Candidate),
    problem: Problem,
) -> Problem {
    let rule = &profile.rules[first.rule].value;
    let reason = PrecedenceReason::between(field.rules, first, behind);
    let at: &TextSpan = rule.places.span_of(first).unwrap_or(&rule.places.action);
    let Rule { id, action, .. } = &rule.rule;
    problem.with_label(at, format!("{action} by {id:?} comes first: {reason}"))
}
