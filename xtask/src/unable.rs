//! Tests that this machine cannot run: counted and named by `cargo xtask test`, which passes what can be passed. Where
//! all are expected to run, as in CI, the first of them is an error instead.

use std::ffi::OsStr;
use std::fmt::Write as _;

use anyhow::{Result, bail};

use crate::expectations::{Says, Words};
use crate::machine::{Machine, Shows};

/// The tests that this machine is unable to run, those that say `as_root`; nothing on one that can show everything.
#[derive(Debug)]
pub struct Unable {
    /// The one thing to change first, where there is one.
    lacks: Option<String>,
}

impl Unable {
    /// Of this machine. An error where all tests are expected to run and it cannot run some.
    pub fn on_machine(machine: &Machine) -> Result<Unable> {
        let lacks = (machine.shows() != Shows::Everything).then(|| machine.fix().to_owned());
        if let Some(fix) = &lacks
            && are_all_expected(std::env::var_os("CI").as_deref())
        {
            bail!(
                "this machine cannot run every test, and CI is set, where all are expected to: {fix}; or unset CI"
            );
        }
        Ok(Unable { lacks })
    }

    /// True when every test can run.
    pub fn nothing(&self) -> bool {
        self.lacks.is_none()
    }

    /// True when this test cannot.
    pub fn has(&self, words: &Words, binary: &str, test: &str) -> bool {
        self.lacks.is_some() && words.say(Says::AsRoot, binary, test)
    }

    /// The tests that nextest is to leave out besides, as the end of one of its filter expressions.
    pub fn filter(&self, words: &Words) -> String {
        match self.nothing() {
            true => String::new(),
            false => format!(" & not {}", words.filter(Says::AsRoot)),
        }
    }

    /// Counts and names them, by their binaries, among all tests, each given by its binary and its name; nothing
    /// where every test can run.
    pub fn told(&self, words: &Words, tests: &[(String, String)]) -> Option<String> {
        let fix = self.lacks.as_ref()?;
        let left = |(binary, test): &&(String, String)| self.has(words, binary, test);
        let all = tests.iter().filter(left).count();
        let mut text =
            format!("{all} tests, and the guest, cannot run here; for all of them, {fix}:");
        for (binary, word) in words.saying(Says::AsRoot) {
            let its = tests
                .iter()
                .filter(|(its, test)| its == binary && word.is_of(test));
            let (count, name) = (its.count(), format!("{binary} {}", word.subject()));
            let _ = write!(text, "\n  {count:>4} of {}: they {}", name.trim(), word.why);
        }
        Some(text)
    }
}

/// True when CI, as the machines of code hosts set it, says that nobody is there to read what was left out.
pub fn are_all_expected(ci: Option<&OsStr>) -> bool {
    ci.is_some_and(|value| !["", "0", "false"].iter().any(|no| value == *no))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expectations::tests::words;

    fn test(binary: &str, name: &str) -> (String, String) {
        (binary.to_owned(), name.to_owned())
    }

    #[test]
    fn what_a_machine_cannot_run_is_counted_named_and_left_out() {
        let unable = Unable {
            lacks: Some("run this as root".to_owned()),
        };
        let tests = [
            test("e2e", "bombs::one"),
            test("e2e", "limits::two"),
            test("turnkey_jailer", "plan::tests::four"),
        ];
        let told = unable.told(&words(), &tests).unwrap_or_default();
        assert!(told.starts_with("2 tests, and the guest,"), "{told}");
        assert!(told.contains("run this as root"), "{told}");
        assert!(
            told.ends_with("\n     2 of e2e: they run the command"),
            "{told}"
        );
        assert!(!unable.has(&words(), "turnkey_jailer", "plan::tests::four"));
        assert_eq!(unable.filter(&words()), " & not (binary(=e2e))");
    }

    #[test]
    fn a_whole_machine_leaves_nothing_out() {
        let unable = Unable { lacks: None };
        assert!(!unable.has(&words(), "e2e", "bombs::one"));
        assert_eq!(unable.filter(&words()), "");
        assert_eq!(unable.told(&words(), &[test("e2e", "bombs::one")]), None);
    }

    #[test]
    fn ci_is_set_where_its_value_does_not_say_no() {
        for (value, expected) in [
            (None, false),
            (Some(""), false),
            (Some("false"), false),
            (Some("0"), false),
            (Some("true"), true),
            (Some("1"), true),
        ] {
            assert_eq!(
                are_all_expected(value.map(OsStr::new)),
                expected,
                "{value:?}"
            );
        }
    }
}
