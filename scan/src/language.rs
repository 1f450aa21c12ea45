//! The languages that are read.

use crate::judge::Judge;
use crate::{python, shell};

/// A language that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Python 3.
    Python,
    /// POSIX shell and bash.
    Shell,
}

impl Language {
    /// As files and reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Shell => "shell",
        }
    }

    /// By the first line, or else by the name.
    pub fn of(name: &str, code: &[u8]) -> Option<Language> {
        Self::of_first_line(code).or_else(|| Self::of_name(name))
    }

    fn of_first_line(code: &[u8]) -> Option<Language> {
        let line = code.strip_prefix(b"#!")?;
        let end = line
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(line.len());
        let line = String::from_utf8_lossy(&line[..end.min(256)]).into_owned();
        let words = line
            .split_ascii_whitespace()
            .map(base)
            .filter(|word| !word.starts_with('-'));
        words.into_iter().find_map(Self::of_interpreter)
    }

    /// The language of an interpreter, by its file name.
    pub fn of_interpreter(program: &str) -> Option<Language> {
        match base(program) {
            "sh" | "bash" | "dash" | "ash" | "ksh" | "zsh" => Some(Self::Shell),
            name if is_python(name) => Some(Self::Python),
            _ => None,
        }
    }

    fn of_name(name: &str) -> Option<Language> {
        match name.rsplit_once('.')?.1 {
            "py" | "pyw" => Some(Self::Python),
            "sh" | "bash" => Some(Self::Shell),
            _ => None,
        }
    }

    /// Tells the judge what a text in this language would do.
    pub(crate) fn read(self, text: &str, judge: &mut Judge) {
        match self {
            Self::Python => python::read(text, judge),
            Self::Shell => shell::read(text, judge),
        }
    }
}

/// `python`, `python3`, `python3.11`.
fn is_python(name: &str) -> bool {
    let version = name
        .strip_prefix("python")
        .or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|version| {
        version
            .chars()
            .all(|char| char.is_ascii_digit() || char == '.')
    })
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_known_by_its_first_line_or_its_name() {
        for (name, code, language) in [
            ("x", "#!/bin/sh\n", Some(Language::Shell)),
            (
                "x",
                "#!/usr/bin/env -S python3.11 -u\n",
                Some(Language::Python),
            ),
            ("x.py", "print()", Some(Language::Python)),
            ("x.sh", "#!/usr/bin/python3", Some(Language::Python)),
            ("x.bash", "", Some(Language::Shell)),
            ("x.c", "int main;", None),
            ("x", "#!", None),
        ] {
            assert_eq!(
                Language::of(name, code.as_bytes()),
                language,
                "{name} {code}"
            );
        }
    }
}
