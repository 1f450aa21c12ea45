//! The result as a comment for a code host.
//!
//! Names of files, messages of commits and words of programs are a stranger's. Each stands in a code span of its own, in which a code host
//! sees neither Markdown nor HTML, links nor mentions.

use std::fmt::Write as _;

use turnkey_report::shortened;

use super::overrides::Overridden;
use super::result::{GateCheck, GateFinding, GateResult};

/// The mark by which whoever posts the comment finds the one before.
const MARK: &str = "<!-- turnkey gate -->";
/// Characters of one text.
const TEXT: usize = 300;
/// Rows of one list.
const ROWS: usize = 20;
/// Bytes of a comment; code hosts take 65 536 characters.
const LONGEST: usize = 60_000;

/// The comment.
pub fn comment(result: &GateResult) -> String {
    let mut text = format!(
        "{MARK}\n**turnkey gate: {}**\n\n{} of {} commits are model-written; files that count as such: {}; base {}, head {}.\n\n",
        result.verdict.word(),
        result.model_commits.len(),
        result.commits,
        result.files.len(),
        code(&result.base),
        code(&result.head),
    );
    list(&mut text, "", &result.checks, check);
    heading(&mut text, "Notes", result.notes.is_empty());
    list(&mut text, "", &result.notes, |note, _| code(note));
    heading(
        &mut text,
        "Model-written commits",
        result.model_commits.is_empty(),
    );
    list(&mut text, "", &result.model_commits, |commit, _| {
        let (id, subject, why) = (code(&commit.id), code(&commit.subject), code(&commit.why));
        format!("{id} {subject}: {why}")
    });
    cut(text)
}

/// Each line stands for itself, so that a comment can be cut between any two.
fn cut(text: String) -> String {
    if text.len() <= LONGEST {
        return text;
    }
    let mut left = LONGEST;
    let fits = |line: &&str| {
        left = left.saturating_sub(line.len());
        left > 0
    };
    let mut shown: String = text.split_inclusive('\n').take_while(fits).collect();
    shown.push_str("\nThe rest is left out here, and in the JSON.\n");
    shown
}

fn heading(text: &mut String, heading: &str, empty: bool) {
    if !empty {
        let _ = write!(text, "\n{heading}:\n\n");
    }
}

fn list<T>(
    text: &mut String,
    indent: &str,
    rows: &[T],
    mut row: impl FnMut(&T, &mut String) -> String,
) {
    for one in rows.iter().take(ROWS) {
        let mut below = String::new();
        let line = row(one, &mut below);
        let _ = write!(text, "{indent}- {line}\n{below}");
    }
    more(text, indent, rows.len(), ROWS);
}

fn more(text: &mut String, indent: &str, all: usize, shown: usize) {
    if all > shown {
        let _ = writeln!(text, "{indent}- and {} more", all - shown);
    }
}

fn check(check: &GateCheck, below: &mut String) -> String {
    list(below, "  ", &check.findings, |finding, _| {
        self::finding(finding)
    });
    let mut line = format!("**{}** {}", check.verdict.word(), code(&check.name));
    if let Some(why) = &check.why {
        let _ = write!(line, ": {}", code(why));
    }
    line + &overridden(check.overridden.as_ref())
}

fn finding(finding: &GateFinding) -> String {
    let mut line = format!("{} {}", finding.severity().name(), code(&finding.id));
    if let Some(place) = finding.place() {
        let _ = write!(line, " {}", code(&place));
    }
    let _ = write!(line, ": {}", code(&finding.what));
    line + &overridden(finding.overridden.as_ref())
}

/// The words for an override; none where there is none.
fn overridden(by: Option<&Overridden>) -> String {
    let words = |by: &Overridden| {
        let parts = [&by.author, &by.expires, &by.reason].map(|part| code(part));
        let [author, expires, reason] = parts;
        format!(", overridden by {author} until {expires}: {reason}")
    };
    by.map(words).unwrap_or_default()
}

/// A code span with the text in it: one line, between more backticks in a row than it has itself.
fn code(text: &str) -> String {
    let text = turnkey_report::visible(&shortened(text, TEXT));
    let mut longest = 0;
    let mut row = 0;
    for character in text.chars() {
        row = if character == '`' { row + 1 } else { 0 };
        longest = longest.max(row);
    }
    let fence = "`".repeat(longest + 1);
    match longest > 0 || text.trim().is_empty() {
        true => format!("{fence} {text} {fence}"),
        false => format!("{fence}{text}{fence}"),
    }
}

#[cfg(test)]
pub mod tests;
