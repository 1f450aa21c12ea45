//! Text that no file may have, by the patterns of patterns.toml, and code that is too long.

use anyhow::{Context, Result};
use regex_lite::Regex;
use serde::Deserialize;

use super::TidyProblem;
use super::tree::TextFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PatternTable {
    pattern: Vec<Pattern>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pattern {
    /// The paths of the files that may not have it.
    files: String,
    /// Files among them that may.
    but: Option<String>,
    pattern: String,
    /// The advice.
    message: String,
}

/// Finds them.
pub fn check(files: &[TextFile]) -> Result<Vec<TidyProblem>> {
    let table: PatternTable =
        toml::from_str(include_str!("patterns.toml")).context("xtask/src/tidy/patterns.toml")?;
    let mut problems: Vec<TidyProblem> = files.iter().filter_map(length).collect();
    for pattern in &table.pattern {
        let matches = |regex: &str, text: &str| Regex::new(regex).is_ok_and(|it| it.is_match(text));
        let text = Regex::new(&pattern.pattern)?;
        for file in files {
            let path = file.path.to_string_lossy();
            let but = |but: &String| matches(but, &path);
            if matches(&pattern.files, &path) && !pattern.but.as_ref().is_some_and(but) {
                problems.extend(found(&text, file, &pattern.message));
            }
        }
    }
    Ok(problems)
}

/// The places where the pattern ends in a file.
fn found(text: &Regex, file: &TextFile, message: &str) -> Vec<TidyProblem> {
    let place = |found: regex_lite::Match| {
        let line = file.text[..found.end()].matches('\n').count() + 1;
        let words = found.as_str().lines().next_back().unwrap_or_default();
        TidyProblem::new(&file.path, line, format!("`{}`: {message}", words.trim()))
    };
    text.find_iter(&file.text).map(place).collect()
}

/// One file, one purpose: a file that grows past this length has more than one.
const MOST_LINES: usize = 600;

/// The endings of what people write and read; lock files, snapshots and licences are neither.
const CODE: [&str; 6] = ["c", "h", "py", "rs", "sh", "toml"];

fn length(file: &TextFile) -> Option<TidyProblem> {
    let lines = file.text.lines().count();
    let message = format!("{lines} lines: split it by purpose, {MOST_LINES} are the most");
    (file.has_extension(&CODE) && lines > MOST_LINES)
        .then(|| TidyProblem::new(&file.path, 0, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let problems = check(&[TextFile::new(path, text)]).expect("a table");
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn words_of_what_is_not_finished_are_found_on_their_line() {
        for word in [
            concat!("FIX", "ME"),
            concat!("XX", "X"),
            concat!("#[", "ignore]"),
            concat!("#[", "ignore = \"slow\"]"),
        ] {
            let found = problems("a.rs", &format!("fn fine() {{}}\n    {word}\n"));
            assert_eq!(found.len(), 1, "{word}: {found:?}");
            assert!(found[0].starts_with("a.rs:2: "), "{found:?}");
        }
        assert_eq!(
            problems("a.sh", concat!("mktemp /tmp/a.XX", "XXXX")),
            [""; 0]
        );
        let name = concat!("name = \"FIX", "ME\"");
        assert_eq!(problems("Cargo.lock", name), [""; 0]);
    }

    #[test]
    fn a_merge_that_was_not_finished_is_found_in_every_file() {
        let marks = [["<"; 7].concat(), [">"; 7].concat()];
        for mark in marks {
            let found = problems("docs/a.md", &format!("a\n{mark} HEAD\n"));
            assert!(found[0].starts_with("docs/a.md:2: "), "{found:?}");
        }
        assert_eq!(problems("docs/a.md", "Title\n=======\n"), [""; 0]);
    }

    #[test]
    fn the_first_word_of_a_block_is_looked_at_and_no_other() {
        let leaning = "/// Whether it is.\nfn a() {}\n/// The kind.\n/// It is one.\nfn b() {}\n";
        let found = problems("policy/src/a.rs", leaning);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("policy/src/a.rs:1: `/// Whether`"),
            "{found:?}"
        );
        assert_eq!(problems("lab/src/a.rs", leaning), [""; 0]);
        assert_eq!(problems("policy/src/a.rs", "/// Italy.\n"), [""; 0]);
        for before in [
            "",
            "fn a() {}\n",
            "\n",
            "// Why.\n",
            "    }\n",
            "//\n",
            "/\n",
        ] {
            let found = problems("policy/src/a.rs", &format!("{before}    //! It is.\n"));
            assert_eq!(found.len(), 1, "{before}");
        }
        assert_eq!(
            problems("policy/src/a.rs", "    ///\n    /// It is.\n"),
            [""; 0]
        );
    }

    #[test]
    fn icu_is_found_in_lock_files_alone() {
        let text = "[[package]]\nname = \"icu_segmenter\"\nname = \"icu_normalizer\"\n";
        let found = problems("fuzz/Cargo.lock", text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("fuzz/Cargo.lock:2: "), "{found:?}");
        assert_eq!(problems("docs/a.md", text), [""; 0]);
        assert_eq!(problems("Cargo.lock", "name = \"miette\"\n"), [""; 0]);
    }

    #[test]
    fn code_over_the_limit_is_found_and_a_lock_file_is_not() {
        let long = "x\n".repeat(MOST_LINES + 1);
        assert_eq!(problems("a.rs", &long).len(), 1);
        assert_eq!(problems("a.rs", &long[2..]), [""; 0]);
        assert_eq!(problems("Cargo.lock", &long), [""; 0]);
    }
}
