//! A report for other programs: nothing here decides anything, it only says it in their words.
//!
//! Every text was escaped long before, so that no format has to know more than its own special
//! characters; captured output is in none of them.

pub mod attack;
pub mod html;
pub mod junit;
pub mod ocsf;
pub mod sarif;
pub mod suggested_profile;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub use tests::golden;

use super::model::{Finding, Report, Status, Verdict};
use super::terminal;

/// Turnkey's own version, for formats that name the tool.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The word that the report has for it.
pub(super) fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Clean => "clean",
        Verdict::Suspicious => "suspicious",
        Verdict::Violated => "violated",
        Verdict::Inconclusive => "inconclusive",
    }
}

/// The word that the report has for it.
pub(super) fn status_word(status: Status) -> &'static str {
    match status {
        Status::Exited => "exited",
        Status::KilledByPolicy => "killed_by_policy",
        Status::TimedOut => "timed_out",
        Status::OutOfMemory => "out_of_memory",
        Status::LimitExceeded => "limit_exceeded",
        Status::Signaled => "signaled",
        Status::SetupFailed => "setup_failed",
        Status::Ended => "ended",
        Status::Detached => "detached",
        Status::Watching => "watching",
    }
}

/// The command as one line for people.
fn command_line(report: &Report) -> String {
    let words: Vec<String> = report
        .command
        .iter()
        .map(|word| super::quote(word))
        .collect();
    words.join(" ")
}

/// The verdict and how it came to it, in one line.
pub(super) fn summary(report: &Report) -> String {
    match &report.error {
        Some(error) => format!("nothing ran: {error}"),
        None => format!(
            "{}: {}",
            verdict_word(report.verdict),
            terminal::ending(report)
        ),
    }
}

/// The title of a finding, never empty.
pub(super) fn title(finding: &Finding) -> &str {
    match finding.reason.as_str() {
        "" => &finding.id,
        reason => reason,
    }
}
