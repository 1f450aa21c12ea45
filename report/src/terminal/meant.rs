//! Lines of a block for those who meant the act, and for those who are afraid of what was read.

use std::borrow::Cow;

use turnkey_policy::{AttemptKind, Severity, shipped};

use crate::behaviour;
use crate::model::{Profile, Report, Violation};
use crate::stopper::Stopper;
use crate::text::quote;

/// A line that says what was opened is worthless: the behaviour that it is a part of says so.
pub fn decoy(report: &Report, violation: &Violation) -> Option<String> {
    let path = violation.path.as_deref()?;
    let words = ["opened", "tried to open"].map(|verb| format!("{verb} the decoy {path}"));
    let behaviours = report.findings.iter().filter(|one| behaviour::is_one(one));
    let mut steps = behaviours.flat_map(|one| &one.evidence);
    let is_one = steps.any(|step| words.contains(&step.what));
    is_one.then(|| format!("nothing real was read: {path} in the jail is a decoy"))
}

/// A line that says that nothing was read where a kill leaves that open: the jail shows nothing there.
pub fn not_shown(violation: &Violation) -> Option<String> {
    let path = violation.path.as_deref()?;
    let is_left_open = violation.not_shown && violation.stopped_by == Some(Stopper::Monitor);
    is_left_open.then(|| format!("nothing was read or written: the jail shows nothing at {path}"))
}

/// The place of a rule to write: a block has one line for it.
const A_RULE: &str =
    "a rule: --report FILE keeps it, turnkey report FILE --format profile writes it";

/// The advice, in one line unless the `whole` is asked for. What no program should do is not told as a rule to paste: who
/// means it asks which rule decides, and the stored report has the whole.
pub fn to_allow<'v>(report: &Report, violation: &'v Violation, whole: bool) -> Cow<'v, str> {
    let grave = violation.severity == Severity::Critical;
    let is_rule = violation.advice.contains('\n');
    if grave && is_rule {
        return Cow::Owned(explain(&report.profile, violation));
    }
    match is_rule && !whole {
        true => Cow::Owned(in_one_line(&violation.advice)),
        false => Cow::Borrowed(&violation.advice),
    }
}

/// The question which rule decides on such an attempt. A profile of the caller's own is named by its file, unless a report of an
/// earlier version does not know it.
fn explain(profile: &Profile, violation: &Violation) -> String {
    let mut words = vec!["turnkey".to_owned(), "explain".to_owned()];
    let file = profile.file.as_deref().filter(|file| !file.contains('\\'));
    match (file, shipped(&profile.name)) {
        (Some(file), _) => words.push(quote(file)),
        (None, Some(_)) if profile.name == DEFAULT => {}
        (None, Some(_)) => words.push(profile.name.clone()),
        (None, None) => words.push("FILE".to_owned()),
    }
    words.extend(["--on".to_owned(), violation.on.name().to_owned()]);
    // What was escaped is not the path itself, and asking for it would ask for another.
    let path = violation.path.as_deref();
    let path = path.filter(|path| path.starts_with('/') && !path.contains('\\'));
    match (path, violation.address.as_deref()) {
        (Some(path), _) => words.extend(["--path".to_owned(), quote(path)]),
        (None, Some(address)) => words.extend(["--address".to_owned(), address.to_owned()]),
        // An attempt on a file is asked about by its path alone.
        (None, None) if violation.on.has_path() && violation.on != AttemptKind::Map => {
            words.extend(["--path".to_owned(), "PATH".to_owned()]);
        }
        (None, None) => {}
    }
    words.join(" ")
}

/// The profile that `explain` asks when none is named.
const DEFAULT: &str = "untrusted";

/// The words that open a layer as it is, and where the rule is that follows.
fn in_one_line(advice: &str) -> String {
    let opening = advice.split("in a profile that extends").next();
    let opening = opening.unwrap_or_default();
    match opening.strip_suffix(" and, ") {
        Some(line) => format!("{line} and {A_RULE}"),
        None => format!("{opening}{A_RULE}"),
    }
}
