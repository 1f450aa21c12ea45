//! Words on standard error, and pages on standard output.
//!
//! When standard error is closed, full or hung up nobody can be told, and the exit status stays what
//! it is: the standard library's own macros would end the process instead.

use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use turnkey_report::{json, visible};
use turnkey_supervisor::files::write_within;

/// A line of turnkey's own. Words of a file or of its name neither begin another line nor steer a terminal.
pub fn line(words: &str) {
    text(&as_line(words));
}

/// The text of such a line.
pub fn as_line(words: &str) -> String {
    format!("turnkey: {}\n", visible(words))
}

/// Lines of turnkey's own, as [`turnkey_supervisor::advice`] makes them: of their parts none breaks a line.
pub fn lines(words: &str) {
    let lines: Vec<String> = words.lines().map(visible).collect();
    text(&format!("turnkey: {}\n", lines.join("\n")));
}

/// A text of turnkey's own for somebody who may read nothing, and is not waited for.
pub fn text_within(words: &str, patience: Duration) {
    let mut rest = words.as_bytes();
    while let Ok(written @ 1..) = write_within(&mut std::io::stderr().lock(), rest, patience) {
        rest = &rest[written..];
    }
}

/// A text as it is: what renders a diagnostic or a report has made it visible.
pub fn text(words: &str) {
    let bytes = words.as_bytes();
    let _ = crate::progress::apart(bytes, || std::io::stderr().lock().write_all(bytes));
}

/// The page of a value: JSON where that was asked for, otherwise what `text` writes of it.
pub fn rendered<T: Serialize>(
    value: &T,
    is_json: bool,
    text: impl FnOnce(&T, &mut Vec<u8>) -> std::io::Result<()>,
) -> std::io::Result<Vec<u8>> {
    if is_json {
        return json::page(value);
    }
    let mut page = Vec::new();
    text(value, &mut page)?;
    Ok(page)
}

/// Writes the page that a command was asked for to standard output. A reader such as head(1) that has
/// seen enough is no failure.
pub fn page(page: &[u8]) -> std::io::Result<()> {
    let written = std::io::stdout().lock().write_all(page);
    written.or_else(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    })
}
