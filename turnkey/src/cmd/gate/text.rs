//! The result for people at a terminal.

use std::fmt::Write as _;

use super::overrides::Overridden;
use super::result::GateResult;

/// Commits that are listed.
const COMMITS: usize = 20;

/// The page. Nothing in it steers a terminal: the result's texts are escaped, and here again.
pub fn page(result: &GateResult) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        let _ = writeln!(text, "{}", turnkey_report::visible(&words));
    };
    let (model, all, files) = (
        result.model_commits.len(),
        result.commits,
        result.files.len(),
    );
    line(format!(
        "{model} of {all} commits are model-written; files that count as such: {files}"
    ));
    for commit in result.model_commits.iter().take(COMMITS) {
        let id = commit.id.get(..12).unwrap_or(&commit.id);
        line(format!("  {id} {} ({})", commit.subject, commit.why));
    }
    if model > COMMITS {
        line(format!("  and {} more", model - COMMITS));
    }
    for check in &result.checks {
        let why = check.why.as_ref().map(|why| format!(": {why}"));
        let by = check.overridden.as_ref().map(overridden);
        line(format!(
            "{:<13}{}{}{}",
            check.verdict.word(),
            check.name,
            why.unwrap_or_default(),
            by.unwrap_or_default()
        ));
        for finding in &check.findings {
            let place = finding.place().map(|place| format!(" {place}"));
            let by = finding.overridden.as_ref().map(overridden);
            line(format!(
                "  {} {}{}: {}{}",
                finding.severity,
                finding.id,
                place.unwrap_or_default(),
                finding.what,
                by.unwrap_or_default()
            ));
        }
    }
    for note in &result.notes {
        line(format!("note: {note}"));
    }
    line(format!("turnkey gate: {}", result.verdict.word()));
    text
}

fn overridden(by: &Overridden) -> String {
    let Overridden {
        reason,
        author,
        expires,
    } = by;
    format!(" (overridden by {author} until {expires}: {reason})")
}
