//! `cargo xtask test`: every test of the workspace, the end-to-end ones on the real kernel, and
//! before that in the guest.

use std::collections::BTreeMap;
use std::ffi::OsString;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;

use crate::{command, fuzz, roll_call, setup, vm, workspace};

/// What `test` is given.
#[derive(Args)]
pub struct Arguments {
    /// Filters and options of `cargo nextest run`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    filters: Vec<OsString>,
}

/// The crate that runs the command from outside; without it nothing was tested end to end.
const END_TO_END: &str = "turnkey-tests";

/// Installs what is missing, builds, and becomes the test runner, so that its summary is the last
/// line and its exit code ours.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::ensure(&[
        setup::BUILD,
        setup::EXAMPLES,
        setup::PROFILES,
        setup::REPORTS,
    ])?;
    setup::ensure_nextest()?;
    let turnkey = workspace::build_turnkey()?;
    let nextest = |subcommand: &str| {
        let mut nextest = command::cargo();
        nextest
            .args(["nextest", subcommand, "--workspace"])
            .env("TURNKEY_BIN", &turnkey)
            .env("TURNKEY_ROOT", workspace::root())
            .current_dir(workspace::root());
        nextest
    };
    let listing = command::output(nextest("list").args(["--message-format", "json"]))?;
    let listing = read(&listing)?;
    refuse_unrun(&listing)?;
    call_the_roll(&listing)?;
    // Who asks for some tests works on those, here.
    if arguments.filters.is_empty() {
        examples_in_documentation()?;
        fuzz::run_briefly()?;
        vm::run_all(&turnkey)?;
    }
    command::become_it(nextest("run").args(&arguments.filters))
}

/// nextest knows nothing of them, and an example that does not compile teaches the wrong thing.
fn examples_in_documentation() -> Result<()> {
    let mut cargo = command::cargo();
    cargo
        .args(["test", "--doc", "--quiet"])
        .args(["--package", "turnkey-policy", "--package", "turnkey-jailer"])
        .current_dir(workspace::root());
    command::check(&mut cargo)
}

/// What `cargo nextest list` prints.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Listing {
    rust_suites: BTreeMap<String, Suite>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Suite {
    package_name: String,
    testcases: BTreeMap<String, Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Case {
    ignored: bool,
    filter_match: FilterMatch,
}

#[derive(Deserialize)]
struct FilterMatch {
    status: String,
}

fn read(listing: &str) -> Result<Listing> {
    serde_json::from_str(listing).context("cannot read the list of `cargo nextest list`")
}

/// Lists every attack on jail and monitor with the tests that show it survived.
fn call_the_roll(listing: &Listing) -> Result<()> {
    let read = |name: &str| {
        let path = workspace::root().join(name);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (catalogue, security) = (read("docs/attacks.md")?, read("SECURITY.md")?);
    let suites = listing.rust_suites.values();
    let tests: Vec<String> = suites
        .flat_map(|suite| suite.testcases.keys().cloned())
        .collect();
    eprintln!("{}", roll_call::call(&tests, &catalogue, &security)?);
    Ok(())
}

/// Refuses a listing in which some test would not run, or with no end-to-end test at all.
fn refuse_unrun(listing: &Listing) -> Result<()> {
    let mut unrun = Vec::new();
    let mut end_to_end = 0;
    for (suite_name, suite) in &listing.rust_suites {
        for (name, case) in &suite.testcases {
            if case.ignored || case.filter_match.status != "matches" {
                unrun.push(format!("{suite_name} {name}"));
            } else if suite.package_name == END_TO_END {
                end_to_end += 1;
            }
        }
    }
    if !unrun.is_empty() {
        bail!("these tests would not run:\n  {}", unrun.join("\n  "));
    }
    if end_to_end == 0 {
        bail!("no end-to-end test: the crate {END_TO_END} has none");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(package: &str, ignored: bool, status: &str) -> String {
        serde_json::json!({ "rust-suites": { "suite": {
            "package-name": package,
            "testcases": { "kills": {
                "ignored": ignored,
                "filter-match": { "status": status },
            } },
        } } })
        .to_string()
    }

    fn refuse_unrun(listing: &str) -> Result<()> {
        super::refuse_unrun(&read(listing)?)
    }

    #[test]
    fn test_that_runs_is_accepted() {
        refuse_unrun(&listing(END_TO_END, false, "matches")).expect("nothing is left out");
    }

    #[test]
    fn ignored_or_filtered_test_is_named() {
        for (ignored, status) in [(true, "matches"), (false, "mismatch")] {
            let error = refuse_unrun(&listing(END_TO_END, ignored, status)).expect_err("left out");
            assert!(error.to_string().contains("suite kills"), "{error}");
        }
    }

    #[test]
    fn run_without_end_to_end_tests_is_refused() {
        assert!(refuse_unrun(&listing("turnkey-policy", false, "matches")).is_err());
    }
}
