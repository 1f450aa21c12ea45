//! A stored report, read back: as far as it can be trusted to be one, and no further.
//!
//! The file may come from anywhere. Reading is bounded in bytes and depth, every key and word is
//! held against the model, and what is unprintable is escaped as [`super::text`] does it, so that
//! nothing which is rendered from it can steer a terminal. Keys that this turnkey does not know
//! are left out and counted: a later version may have added them. That a report tells the truth
//! is not checked, and cannot be.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;
use turnkey_policy::visible::is_printable;

use super::model::Report;
use super::text::{escape, shortened, visible};

/// The most bytes of a report that are read.
pub const LARGEST: usize = 64 << 20;
/// The most rows of a list: more than any run fills, so that what is made of a hostile report takes bounded
/// time.
const MOST_ROWS: usize = 16_384;
/// Characters of what a parser has to say.
const COMPLAINT: usize = 400;
/// Unknown keys that are named.
const NAMED: usize = 5;

/// The reason why a text is no report, the place of it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// A text longer than [`LARGEST`].
    #[error(
        "it is larger than {} MiB, and no more is read; fix: run again with a smaller limits.output, or without --capture",
        LARGEST >> 20
    )]
    TooLarge,
    /// A text that does not fit the model.
    #[error(
        "{place}: {complaint}; fix: give it a file that `turnkey run --report FILE` wrote, whole and unchanged"
    )]
    Wrong {
        /// Keys and numbers from the top, such as `violations[3].action`.
        place: String,
        /// With line and column.
        complaint: String,
    },
}

/// A report, and what of the file is not in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The report that was read.
    pub report: Report,
    /// The first few keys that this turnkey does not know.
    unknown: Vec<String>,
    /// The number of those keys.
    unknown_count: u64,
}

impl Stored {
    /// Reads a report from the bytes of a file.
    pub fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        if bytes.len() > LARGEST {
            return Err(Unreadable::TooLarge);
        }
        let (mut unknown, mut unknown_count) = (Vec::new(), 0);
        let mut note = |path: serde_ignored::Path<'_>| {
            unknown_count += 1;
            if unknown.len() < NAMED {
                // A question mark stands for a value that may be null.
                let path = path.to_string().replace(".?", "");
                unknown.push(shortened(&escape(path.as_bytes()), COMPLAINT));
            }
        };
        let mut track = serde_path_to_error::Track::new();
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
        let read = Report::deserialize(serde_ignored::Deserializer::new(tracked, &mut note));
        let read = read.and_then(|report| json.end().map(|()| report));
        let report = read.map_err(|error| wrong(&track.path().to_string(), &error))?;
        bounded(&report)?;
        let report = escaped(report)?;
        Ok(Self {
            report,
            unknown,
            unknown_count,
        })
    }

    /// The keys that were left out, in words; `None` when there were none.
    pub fn left_out(&self) -> Option<String> {
        let mut words = format!(
            "left out what only another version of turnkey knows: {}",
            self.unknown.join(", ")
        );
        let more = self.unknown_count - self.unknown.len() as u64;
        if more > 0 {
            // Writing to a String cannot fail.
            let _ = write!(words, " and {more} more");
        }
        (self.unknown_count > 0).then_some(words)
    }
}

fn bounded(report: &Report) -> Result<(), Unreadable> {
    let lists = [
        ("command", report.command.len()),
        ("findings", report.findings.len()),
        ("on_host", report.on_host.len()),
        ("on_host_to_write", report.on_host_to_write.len()),
        ("programs_left", report.programs_left.len()),
        ("variables_left", report.variables_left.len()),
        ("brought_in", report.brought_in.len()),
        ("mounts_hidden", report.mounts_hidden.len()),
        ("enforcement", report.enforcement.len()),
        ("violations", report.violations.len()),
        ("processes", report.processes.len()),
        ("file_operations", report.file_operations.len()),
        ("network_attempts", report.network_attempts.len()),
        ("refused_calls", report.refused_calls.len()),
        ("files_changed", report.files_changed.len()),
    ];
    match lists.iter().find(|(_, rows)| *rows > MOST_ROWS) {
        None => Ok(()),
        Some((place, rows)) => Err(Unreadable::Wrong {
            place: (*place).to_owned(),
            complaint: format!("{rows} rows, and no more than {MOST_ROWS} are read"),
        }),
    }
}

fn wrong(place: &str, error: &serde_json::Error) -> Unreadable {
    let place = match place {
        "." | "?" => "the file".to_owned(),
        place => shortened(&escape(place.as_bytes()), COMPLAINT),
    };
    Unreadable::Wrong {
        place,
        complaint: complaint(error),
    }
}

/// The parser repeats words of the file, so what it says is as hostile as they are. The place comes last,
/// and is kept.
fn complaint(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let at = format!(" at line {} column {}", error.line(), error.column());
    let what = said.strip_suffix(&at).unwrap_or(&said);
    let at = if error.line() == 0 { "" } else { &at };
    format!("{}{at}", shortened(&escape(what.as_bytes()), COMPLAINT))
}

/// The report with every text escaped that turnkey itself would have escaped.
///
/// It goes by way of a value, so that no text can be forgotten, and only when there is one to escape.
fn escaped(report: Report) -> Result<Report, Unreadable> {
    let failed = |error: serde_json::Error| wrong("?", &error);
    let mut value = serde_json::to_value(&report).map_err(failed)?;
    if !escape_all(&mut value, "") {
        return Ok(report);
    }
    serde_json::from_value(value).map_err(failed)
}

/// Keys whose texts are turnkey's or the profile's own words, in which breaks between lines are meant.
const LINES: &[&str] = &["advice", "degraded", "error", "reason", "why"];
/// The captured output, a value as it is, which no format but JSON shows.
const VALUES: &[&str] = &["stdout", "stderr"];

/// Escapes what is unprintable; whether there was anything.
fn escape_all(value: &mut Value, key: &str) -> bool {
    match value {
        Value::String(text) => escape_text(text, LINES.contains(&key)),
        Value::Array(list) => list
            .iter_mut()
            .fold(false, |changed, value| escape_all(value, key) | changed),
        Value::Object(map) => {
            let mut changed = false;
            for (key, value) in map.iter_mut() {
                changed |= !VALUES.contains(&key.as_str()) && escape_all(value, key);
            }
            escape_keys(map) | changed
        }
        _ => false,
    }
}

fn escape_text(text: &mut String, lines: bool) -> bool {
    let shown = |c: char| is_printable(c) || (lines && c == '\n');
    if text.chars().all(shown) {
        return false;
    }
    let broken: Vec<String> = match lines {
        true => text.split('\n').map(visible).collect(),
        false => vec![visible(text)],
    };
    *text = broken.join("\n");
    true
}

/// Keys of counts by name can be anything.
fn escape_keys(map: &mut serde_json::Map<String, Value>) -> bool {
    if map.keys().all(|key| key.chars().all(is_printable)) {
        return false;
    }
    *map = std::mem::take(map)
        .into_iter()
        .map(|(mut key, value)| {
            escape_text(&mut key, false);
            (key, value)
        })
        .collect();
    true
}

#[cfg(test)]
#[path = "read/tests.rs"]
mod tests;
