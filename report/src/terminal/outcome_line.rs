//! The outcome of a run in a line, for who has no room for more.

use super::Page;
use super::order::rank;
use crate::model::Report;

/// The first line about the gravest finding, or else the verdict, without `turnkey: `: what a log has room for. What the program, or
/// who asked for the run, leaves and exports has no place in it.
#[must_use]
pub fn outcome_line(report: &Report) -> String {
    let mut page = Vec::new();
    let mut writer = Page {
        out: &mut page,
        colour: false,
        whole: false,
    };
    let mut findings: Vec<_> = report.findings.iter().collect();
    findings.sort_by_key(|finding| rank(report, finding));
    // Into memory, which does not fail.
    let _ = match (&report.error, findings.first()) {
        (Some(error), _) => writer.line(&format!("turnkey: {error}")),
        (None, Some(finding)) => writer.finding(report, finding),
        (None, None) => writer.verdict(report),
    };
    let page = String::from_utf8_lossy(&page);
    let mut lines = page
        .lines()
        .filter_map(|line| line.strip_prefix("turnkey: "));
    lines.next().unwrap_or_default().to_owned()
}
