//! A profile as it is written: sections, entries with their reasons, and what was left behind.

use std::collections::BTreeSet;

use turnkey_policy::quoted;
use turnkey_report::{shortened, visible};

/// Characters of a line of a comment.
const WIDTH: usize = 96;
/// Characters of a word of the other file, for which no line is broken.
const WORD: usize = 400;

/// A profile that is being written.
#[derive(Debug)]
pub struct ProfilePage {
    description: String,
    sections: String,
    notes: Vec<String>,
}

impl ProfilePage {
    /// Begins one, on top of `untrusted`.
    pub fn new(description: String) -> Self {
        Self {
            description,
            sections: String::new(),
            notes: Vec::new(),
        }
    }

    /// Adds lines of TOML.
    pub fn section(&mut self, lines: &str) {
        self.sections.push('\n');
        self.sections.push_str(lines);
        self.sections.push('\n');
    }

    /// Says what is not as it was in the other file: nothing of that file ends a comment or steers a terminal.
    pub fn note(&mut self, note: impl Into<String>) {
        let words = note.into();
        let words = words.split(' ');
        let words: Vec<_> = words.map(|word| shortened(&visible(word), WORD)).collect();
        self.notes.push(words.join(" "));
    }

    /// The notes on what is not as it was.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The profile.
    pub fn text(&self) -> String {
        let mut text = format!(
            "schema = {}\nname = \"imported\"\nextends = [\"untrusted\"]\ndescription = {}\n",
            quoted(turnkey_policy::SCHEMA),
            quoted(&self.description)
        );
        text.push_str(&self.sections);
        if !self.notes.is_empty() {
            text.push_str("\n# Not as it was:\n");
        }
        for note in &self.notes {
            text.push_str(&comment(note));
        }
        text
    }
}

/// Texts as a list, one to a line.
pub fn list(texts: &BTreeSet<String>) -> String {
    let lines: String = texts
        .iter()
        .map(|text| format!("    {},\n", quoted(text)))
        .collect();
    format!("[\n{lines}]")
}

/// A note as a comment.
fn comment(note: &str) -> String {
    let mut lines = String::new();
    let mut line = String::from("# -");
    for word in note.split(' ') {
        if line.len() + word.len() > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line = String::from("#  ");
        }
        line.push(' ');
        line.push_str(word);
    }
    lines.push_str(&line);
    lines.push('\n');
    lines
}
