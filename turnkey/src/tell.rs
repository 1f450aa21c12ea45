//! Words on standard error. When it is closed, full or hung up nobody can be told, and the exit
//! status stays what it is: the standard library's own macros would end the process instead.

use std::io::Write;

/// A line of turnkey's own.
pub fn line(words: &str) {
    text(&format!("turnkey: {words}\n"));
}

/// A text as it is.
pub fn text(words: &str) {
    let _ = std::io::stderr().lock().write_all(words.as_bytes());
}
