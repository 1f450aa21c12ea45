//! What a block says to who meant it, and to who is afraid of what was read.

use std::borrow::Cow;

use turnkey_policy::{Action, Severity};

use crate::report::behaviour;
use crate::report::model::{Report, Violation};
use crate::report::text::quote;

/// That what was opened is worthless: the behaviour that it is a part of says so.
pub fn decoy(report: &Report, violation: &Violation) -> Option<String> {
    let path = violation.path.as_deref()?;
    let opened = format!("opened the decoy {path}");
    let behaviours = report.findings.iter().filter(|one| behaviour::is_one(one));
    let mut steps = behaviours.flat_map(|one| &one.evidence);
    let is_one = steps.any(|step| step.what == opened);
    is_one.then(|| format!("nothing real was read: {path} in the jail is a decoy"))
}

/// How to allow it. What no program should do is not told as a rule to paste: who means it asks which rule decides,
/// and the report has the whole.
pub fn to_allow(violation: &Violation) -> Cow<'_, str> {
    let grave = violation.action == Action::Kill && violation.severity == Severity::Critical;
    let is_rule = violation.advice.contains('\n');
    // What was escaped is not the path itself, and asking for it would ask for another.
    let path = violation.path.as_deref();
    match path.filter(|path| path.starts_with('/') && !path.contains('\\')) {
        Some(path) if grave && is_rule => {
            let (on, path) = (violation.on.name(), quote(path));
            Cow::Owned(format!("turnkey explain --on {on} --path {path}"))
        }
        _ => Cow::Borrowed(&violation.advice),
    }
}
