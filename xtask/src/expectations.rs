//! The words of tests on who runs them, as the test binaries list them: tests/expectations/ says what each means.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::command;

/// The words of some test binaries, by the binary's name.
#[derive(Debug, Default)]
pub struct Words(BTreeMap<String, Vec<TestWord>>);

/// One word.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TestWord {
    /// The name of a test, or the beginning of the names of a module's tests.
    of: String,
    says: Says,
    machines: Vec<String>,
    /// The reason.
    pub why: String,
}

/// The kind of a word.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[expect(missing_docs, reason = "tests/expectations/ has them")]
pub enum Says {
    AtNight,
    AsRoot,
    On,
    NotOn,
}

/// The fate of a test on a machine.
#[derive(Debug, PartialEq)]
pub enum Fate<'words> {
    /// Expected to run, and to pass.
    Runs,
    /// Not run, for this reason.
    LeftOut(&'words str),
    /// Made for other machines.
    ForOthers,
}

/// The variable with which a test binary is asked, and the beginning of the lines of its answer.
const ASKED: &str = "TURNKEY_EXPECTATIONS";
const MARK: &str = "expected: ";

impl Words {
    /// Asks the binaries, each by its name and its path.
    pub fn ask<'a>(binaries: impl IntoIterator<Item = (&'a str, &'a Path)>) -> Result<Words> {
        let mut words = Words::default();
        for (name, path) in binaries {
            let mut list = Command::new(path);
            list.args(["--list", "--format", "terse"]).env(ASKED, "1");
            words.add(name, &command::output(&mut list)?)?;
        }
        Ok(words)
    }

    fn add(&mut self, binary: &str, listed: &str) -> Result<()> {
        let words = self.0.entry(binary.to_owned()).or_default();
        for line in listed.lines().filter_map(|line| line.strip_prefix(MARK)) {
            let mut word: TestWord = serde_json::from_str(line)
                .with_context(|| format!("the tests of {binary} list no word: {line}"))?;
            // Names of tests are below that of their crate.
            let (_, below) = word.of.split_once("::").context("a word of no crate")?;
            word.of = below.to_owned();
            if !words.contains(&word) {
                words.push(word);
            }
        }
        Ok(())
    }

    /// The words of that kind, each with the name of its binary.
    pub fn saying(&self, says: Says) -> impl Iterator<Item = (&str, &TestWord)> {
        let words = self.0.iter();
        let words = words.flat_map(|(binary, words)| words.iter().map(|word| (&**binary, word)));
        words.filter(move |(_, word)| word.says == says)
    }

    /// True when a word of that kind is of that test.
    pub fn say(&self, says: Says, binary: &str, test: &str) -> bool {
        self.saying(says)
            .any(|(its, word)| its == binary && word.is_of(test))
    }

    /// The tests with a word of that kind, as a filter expression of nextest.
    pub fn filter(&self, says: Says) -> String {
        let tests = self.saying(says).map(|(binary, word)| match &*word.of {
            "" => format!("binary(={binary})"),
            of => format!("(binary(={binary}) & {})", filter_of(of)),
        });
        let tests: Vec<String> = tests.collect();
        match tests.as_slice() {
            [] => "none()".to_owned(),
            _ => format!("({})", tests.join(" | ")),
        }
    }

    /// The fate of a test on a machine: of the words about the machine, the one nearest to the test counts.
    pub fn fate(&self, machine: &str, binary: &str, test: &str) -> Fate<'_> {
        let words = self.0.get(binary).into_iter().flatten();
        let about = words.filter(|word| word.machines.iter().any(|its| its == machine));
        match about
            .filter(|word| word.is_of(test))
            .max_by_key(|word| word.of.len())
        {
            None => Fate::ForOthers,
            Some(word) if word.says == Says::On => Fate::Runs,
            Some(word) => Fate::LeftOut(&word.why),
        }
    }
}

/// True when a name is that of a test, or of the module that it is in: such a name ends in `::`, that of a whole binary is empty.
pub fn is_of(name: &str, test: &str) -> bool {
    let is_module = name.is_empty() || name.ends_with("::");
    name == test || is_module && test.starts_with(name)
}

/// The same as a filter expression of nextest.
pub fn filter_of(name: &str) -> String {
    match name.ends_with("::") {
        true => format!("test(/^{name}/)"),
        false => format!("test(={name})"),
    }
}

impl TestWord {
    /// True when it is of that test.
    pub fn is_of(&self, test: &str) -> bool {
        is_of(&self.of, test)
    }

    /// The test, or the module, for people.
    pub fn subject(&self) -> &str {
        self.of.trim_end_matches("::")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The words of an example.
    pub fn words() -> Words {
        let mut words = Words::default();
        for (of, says, machines, why) in [
            ("e2e::", "AsRoot", "", "run the command"),
            ("e2e::", "On", "\"6.12\"", ""),
            ("e2e::bombs::", "NotOn", "\"6.12\"", "slow"),
            ("e2e::bombs::short", "On", "\"6.12\",\"6.1\"", ""),
            ("e2e::bombs::long", "AtNight", "", "long"),
        ] {
            let line = format!(
                r#"{MARK}{{"of":"{of}","says":"{says}","machines":[{machines}],"why":"{why}"}}"#
            );
            // A crate of the same name may have the same word.
            for _ in 0..2 {
                words
                    .add("e2e", &format!("{line}\nbombs::long: test\n"))
                    .expect("a word");
            }
        }
        words
    }

    #[test]
    fn the_word_nearest_to_a_test_counts() {
        let words = words();
        assert_eq!(words.fate("6.12", "e2e", "limits::a"), Fate::Runs);
        assert_eq!(words.fate("6.12", "e2e", "bombs::a"), Fate::LeftOut("slow"));
        assert_eq!(words.fate("6.12", "e2e", "bombs::short"), Fate::Runs);
        assert_eq!(words.fate("6.1", "e2e", "bombs::short"), Fate::Runs);
        assert_eq!(words.fate("6.1", "e2e", "bombs::shorter"), Fate::ForOthers);
        assert_eq!(words.fate("6.12", "live", "limits::a"), Fate::ForOthers);
    }

    #[test]
    fn a_kind_of_word_is_a_filter() {
        let words = words();
        assert!(words.say(Says::AtNight, "e2e", "bombs::long"));
        assert!(!words.say(Says::AtNight, "e2e", "bombs::longer"));
        assert_eq!(words.filter(Says::AsRoot), "(binary(=e2e))");
        assert_eq!(
            words.filter(Says::AtNight),
            "((binary(=e2e) & test(=bombs::long)))"
        );
        assert_eq!(
            words.filter(Says::NotOn),
            "((binary(=e2e) & test(/^bombs::/)))"
        );
        assert_eq!(Words::default().filter(Says::AtNight), "none()");
    }

    #[test]
    fn what_is_no_word_is_an_error() {
        let line = format!("{MARK}{{\"of\":\"e2e::\",\"says\":\"Perhaps\"}}");
        assert!(Words::default().add("e2e", &line).is_err());
    }

    #[test]
    fn test_binaries_are_asked_as_they_listen() {
        assert_eq!(ASKED, turnkey_expectations::ASKED);
        assert_eq!(MARK, turnkey_expectations::MARK);
    }
}
