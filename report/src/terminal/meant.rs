//! What a block says to who meant it, and to who is afraid of what was read.

use std::borrow::Cow;

use turnkey_policy::{RuleAction, Severity};

use crate::behaviour;
use crate::model::{Report, Violation};
use crate::text::quote;

/// That what was opened is worthless: the behaviour that it is a part of says so.
pub fn decoy(report: &Report, violation: &Violation) -> Option<String> {
    let path = violation.path.as_deref()?;
    let opened = format!("opened the decoy {path}");
    let behaviours = report.findings.iter().filter(|one| behaviour::is_one(one));
    let mut steps = behaviours.flat_map(|one| &one.evidence);
    let is_one = steps.any(|step| step.what == opened);
    is_one.then(|| format!("nothing real was read: {path} in the jail is a decoy"))
}

/// The place of a rule to write: a block has one line for it.
const A_RULE: &str =
    "a rule: --report FILE keeps it, turnkey report FILE --format profile writes it";

/// The advice, in one line unless the `whole` is asked for. What no program should do is not told as a rule to paste: who
/// means it asks which rule decides, and the report has the whole.
pub fn to_allow(violation: &Violation, whole: bool) -> Cow<'_, str> {
    let grave = violation.action == RuleAction::Kill && violation.severity == Severity::Critical;
    let is_rule = violation.advice.contains('\n');
    // What was escaped is not the path itself, and asking for it would ask for another.
    let path = violation.path.as_deref();
    match path.filter(|path| path.starts_with('/') && !path.contains('\\')) {
        Some(path) if grave && is_rule => {
            let (on, path) = (violation.on.name(), quote(path));
            Cow::Owned(format!("turnkey explain --on {on} --path {path}"))
        }
        _ if is_rule && !whole => Cow::Owned(in_one_line(&violation.advice)),
        _ => Cow::Borrowed(&violation.advice),
    }
}

/// The words that open a layer as it is, and where the rule is that follows.
fn in_one_line(advice: &str) -> String {
    let opening = advice.split("in a profile that extends").next();
    format!("{}{A_RULE}", opening.unwrap_or_default())
}
