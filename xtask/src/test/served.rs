//! `cargo xtask test --served`: the end-to-end tests once more, with every run made by a service for an ordinary user.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{Listing, loaded_once, nextest};
use crate::expectations::{filter_of, is_of};
use crate::workspace;

/// The variable by which the harness of the tests has every run made so.
const VARIABLE: &str = "TURNKEY_TESTS_SERVED";
/// The binary with the tests of `turnkey run`.
const BINARY: &str = "e2e";
/// The tests that cannot be run so, below the checkout.
const LIST: &str = "tests/e2e/unserved.toml";

/// The list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unserved {
    reason: Vec<UnservedReason>,
}

/// A reason, and the tests that it is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnservedReason {
    why: String,
    /// A name with `::` in its end is a module.
    tests: Vec<String>,
}

impl Unserved {
    fn read() -> Result<Unserved> {
        let text = fs_err::read_to_string(workspace::root().join(LIST))?;
        toml::from_str(&text).with_context(|| format!("cannot read {LIST}"))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let tests = self.reason.iter().flat_map(|reason| &reason.tests);
        tests.map(String::as_str)
    }

    fn has(&self, test: &str) -> bool {
        self.names().any(|name| is_of(name, test))
    }

    /// Requires a reason behind each, and tests that there are.
    fn require_true(&self, tests: &[String]) -> Result<()> {
        for reason in &self.reason {
            ensure!(!reason.why.is_empty(), "{LIST}: a reason says nothing");
        }
        for name in self.names() {
            let is_there = tests.iter().any(|test| is_of(name, test));
            ensure!(is_there, "{LIST} names {name}, which is no test");
        }
        Ok(())
    }
}

/// Runs them.
pub fn run(turnkey: &Path, listing: &Listing) -> Result<()> {
    let unserved = Unserved::read()?;
    let names = listing.names().into_iter();
    let tests = names.filter(|(binary, _)| binary == BINARY);
    let tests: Vec<String> = tests.map(|(_, test)| test).collect();
    unserved.require_true(&tests)?;
    let wanted = tests.iter().filter(|test| !unserved.has(test)).count();
    eprintln!(
        "{wanted} of {} end-to-end tests with every run by a service; {LIST} says why not the others",
        tests.len()
    );
    let left_out: Vec<String> = unserved.names().map(filter_of).collect();
    let mut nextest = nextest(turnkey, "run");
    let filter = format!("binary({BINARY}) & not ({})", left_out.join(" | "));
    nextest.env(VARIABLE, "1").args(["--filter-expr", &filter]);
    let status = loaded_once(turnkey, nextest).status()?;
    ensure!(status.success(), "not every test has passed by a service");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_tests_and_modules() {
        let text = "[[reason]]\nwhy = \"they are others'\"\ntests = [\"a::\", \"b::c\"]\n";
        let unserved: Unserved = toml::from_str(text).expect("it is a list");
        let has = |test| unserved.has(test);
        assert!(has("a::b") && has("b::c"));
        assert!(!has("b::cd") && !has("ab::c"));
        let tests = ["a::b", "b::c"].map(str::to_owned);
        assert!(unserved.require_true(&tests).is_ok());
        assert!(unserved.require_true(&tests[..1]).is_err(), "one is gone");
    }
}
