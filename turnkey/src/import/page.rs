//! A profile as it is written: sections, entries with their reasons, and what was left behind.

use std::collections::BTreeSet;

/// Characters of a line of a comment.
const WIDTH: usize = 96;

/// A profile that is being written.
#[derive(Debug)]
pub struct Page {
    description: String,
    sections: String,
    notes: Vec<String>,
}

impl Page {
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

    /// Says what is not as it was in the other file.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// What is not as it was.
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

/// A text as TOML writes it.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Texts as a list, one to a line.
pub fn list(texts: &BTreeSet<String>) -> String {
    let lines: String = texts
        .iter()
        .map(|text| format!("    {},\n", quoted(text)))
        .collect();
    format!("[\n{lines}]")
}

/// A note as a comment: nothing that the other file holds can end it.
fn comment(note: &str) -> String {
    let mut lines = String::new();
    let mut line = String::from("# -");
    let visible = note.replace(char::is_control, "\u{fffd}");
    for word in visible.split(' ') {
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
