//! A place in a profile, as editors and programs want it.

use crate::error::TextSpan;

/// A piece of a profile's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfilePlace {
    /// The profile: a file, a shipped name, or `command line`.
    pub file: String,
    /// Of the first character; the first line is 1.
    pub line: usize,
    /// Of the first character, in characters; the first one of a line is 1.
    pub column: usize,
    /// Of the first character behind it.
    pub end_line: usize,
    /// Of the first character behind it.
    pub end_column: usize,
    /// Bytes of the file in front of it.
    pub offset: usize,
    /// The text itself.
    pub text: String,
    /// The label beside the place.
    pub label: String,
}

impl ProfilePlace {
    pub(crate) fn new(at: &TextSpan, label: &str) -> Self {
        let text = &at.source.text;
        let (line, column) = line_and_column(text, at.span.start);
        let (end_line, end_column) = line_and_column(text, at.span.end);
        Self {
            file: at.source.name.clone(),
            line,
            column,
            end_line,
            end_column,
            offset: at.span.start,
            text: text.get(at.span.clone()).unwrap_or_default().to_owned(),
            label: label.to_owned(),
        }
    }
}

/// Both count from 1.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, before[start..].chars().count() + 1)
}
