//! The order in which findings stand on a page.

use turnkey_policy::{RuleAction, Severity};

use crate::behaviour;
use crate::model::{Finding, Report, Violation};

/// The order on a page: what ended the run, and how to allow it; what else was stopped; grave courses of acts; what is grave and was
/// only noticed; the rest.
pub fn rank(report: &Report, finding: &Finding) -> u8 {
    let any = |is: fn(&Violation) -> bool| finding.violations(report).any(is);
    let is_grave = finding.severity >= Severity::High;
    match behaviour::is_one(finding) {
        false if any(|row| row.action == RuleAction::Kill) => 0,
        false if any(|row| row.action >= RuleAction::Deny) => 1,
        false if is_grave && any(|row| row.stopped_by.is_some()) => 1,
        false if finding.severity >= Severity::Critical => 1,
        true if is_grave => 2,
        false if is_grave => 3,
        false => 4,
        true => 5,
    }
}
