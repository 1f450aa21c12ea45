//! `cargo xtask test`: the tests for people who wait: the pure ones and the end-to-end ones on the real kernel, then
//! in one guest those that only its kernel can run. `--nightly` runs here what takes longer.

mod served;
mod times;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Deserialize;

use crate::expectations::{Says, Words};
use crate::machine::{self, Shows};
use crate::setup::PackageList;
use crate::unable::Unable;
use crate::{command, fuzz, other, roll_call, setup, workspace};
use times::Times;

/// The arguments of `test`.
#[derive(Args)]
pub struct TestArguments {
    /// Also the tests of this host that take longer, the examples in the documentation, and the fuzzer for a while
    #[arg(long)]
    nightly: bool,
    /// Instead of all tests the end-to-end ones, with every run by a service for an ordinary user
    #[arg(long, conflicts_with_all = ["nightly", "filters"])]
    served: bool,
    /// Filters and options of `cargo nextest run`; with any, these tests alone, here
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    filters: Vec<OsString>,
}

/// The crate that runs the command from outside; without it nothing was tested end to end.
const END_TO_END: &str = "turnkey-tests";

/// Installs what is missing, builds, and runs the tests.
pub fn run(arguments: &TestArguments) -> Result<()> {
    let machine = machine::look();
    eprintln!("{machine}");
    let unable = Unable::on_machine(&machine)?;
    setup::ensure(match unable.nothing() {
        true => &[
            PackageList::Build,
            PackageList::Examples,
            PackageList::EndToEnd,
            PackageList::Reports,
        ],
        false => &[PackageList::Build],
    })?;
    setup::NEXTEST.ensure()?;
    if !arguments.filters.is_empty() {
        let turnkey = &workspace::build_tests()?.turnkey;
        let nextest = nextest(turnkey, "run");
        return command::become_it(loaded_once(turnkey, nextest).args(&arguments.filters));
    }
    if arguments.served {
        let turnkey = workspace::build_tests()?.turnkey;
        return served::run(&turnkey, &listing(&turnkey)?);
    }
    if unable.nothing() {
        setup::readers::ensure()?;
    }
    let mut times = Times::read();
    eprintln!(
        "first turnkey and its tests are built{}; then the tests of this host run{}",
        times.last("build"),
        if unable.nothing() {
            ", and those of one guest"
        } else {
            ""
        }
    );
    let built = times.take("build", workspace::build_tests_of_guests)?;
    let turnkey = &built.turnkey;
    let listing = listing(turnkey)?;
    refuse_unrun(&listing)?;
    let named = listing.names();
    let words = Words::ask(listing.binaries())?;
    let by_day = |(binary, test): &&(String, String)| !words.say(Says::AtNight, binary, test);
    let named_by_day: Vec<&(String, String)> = named.iter().filter(by_day).collect();
    call_the_roll(&named_by_day)?;
    let left_out = unable.told(&words, &named);
    let here = named.iter().filter(|test| {
        let is_wanted = arguments.nightly || by_day(test);
        is_wanted && !unable.has(&words, &test.0, &test.1)
    });
    let here = here.count();
    eprintln!("{here} tests on this host{}", times.last("host"));
    if let Some(left_out) = &left_out {
        eprintln!("{left_out}");
    }
    let on_host = times.take("host", || {
        on_this_host(turnkey, arguments.nightly, &words, &unable)
    });
    let in_guest = if unable.nothing() {
        eprintln!("a guest with BPF LSM{}", times.last("guest"));
        times.take("guest", other::machine_by_day)
    } else {
        Ok(0)
    };
    if arguments.nightly {
        examples_in_documentation()?;
        fuzz::run_briefly()?;
    }
    times.write();
    if let (Err(_), Err(error)) = (&on_host, &in_guest) {
        eprintln!("error: {error:#}");
    }
    on_host?;
    let passed = here + in_guest?;
    eprintln!("{}", times.told());
    if let Some(left_out) = &left_out {
        eprintln!("{left_out}");
    }
    // What a machine that runs the tests looks for at the end.
    eprintln!("{passed} passed, 0 failed");
    Ok(())
}

fn nextest(turnkey: &Path, subcommand: &str) -> Command {
    let mut nextest = command::cargo();
    nextest
        .args(["nextest", subcommand, "--workspace"])
        // A second process of nextest for each test, against a race of Ctrl-Z alone, took a twentieth of the time.
        .env("NEXTEST_DOUBLE_SPAWN", "0")
        .env("NEXTEST_TEST_THREADS", threads())
        .env("TURNKEY_BIN", turnkey)
        .env("TURNKEY_ROOT", workspace::root())
        .current_dir(workspace::root());
    if let Some(readers) = setup::readers::installed() {
        nextest.env("TURNKEY_READERS", readers);
    }
    nextest
}

/// Tests at once: most of them wait for jails half of their time. Whoever has named a number keeps it.
fn threads() -> String {
    let named = std::env::var("NEXTEST_TEST_THREADS").ok();
    let cpus = std::thread::available_parallelism().map_or(1, |number| number.get());
    named.unwrap_or_else(|| cpus.saturating_add(cpus / 2).to_string())
}

/// Mounts a BPF file system that nobody else sees, loads the programs into it, and runs the words behind it.
const LOADED_ONCE: &str = r#"
mount -t bpf -o mode=0700 bpf /sys/fs/bpf
"$0" monitor load >&2
code=0
"$@" || code=$?
"$0" monitor unload >&2
exit $code"#;

/// The same command in a mount namespace in which the programs are loaded already: loading them takes the kernel a
/// second, which every run of every test would wait for. Tests of loading have a BPF file system of their own. Who
/// cannot load them has nothing to wait for.
pub fn loaded_once(turnkey: &Path, inner: Command) -> Command {
    if machine::look().shows() != Shows::Everything {
        return inner;
    }
    let mut outer = workspace::in_own_mounts(LOADED_ONCE);
    outer
        .arg(turnkey)
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir(workspace::root());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

fn on_this_host(turnkey: &Path, nightly: bool, words: &Words, unable: &Unable) -> Result<()> {
    let mut nextest = nextest(turnkey, "run");
    let wanted = match nightly {
        true => "all()".to_owned(),
        false => format!("not {}", words.filter(Says::AtNight)),
    };
    nextest.args([
        "--filter-expr",
        &format!("{wanted}{}", unable.filter(words)),
    ]);
    let started = Instant::now();
    let passed = loaded_once(turnkey, nextest).status()?.success();
    let seconds = started.elapsed().as_secs();
    ensure!(
        passed,
        "not every test has passed on this host, after {seconds} s"
    );
    Ok(())
}

/// nextest knows nothing of them, and an example that does not compile teaches the wrong thing.
fn examples_in_documentation() -> Result<()> {
    let crates = ["policy", "jailer", "supervisor", "expectations"];
    let mut cargo = command::cargo();
    cargo
        .args(["test", "--doc", "--quiet"])
        .args(crates.map(|name| format!("--package=turnkey-{name}")))
        .current_dir(workspace::root());
    command::check(&mut cargo)
}

/// The output of `cargo nextest list`.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Listing {
    rust_suites: BTreeMap<String, Suite>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Suite {
    package_name: String,
    binary_name: String,
    binary_path: PathBuf,
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

fn listing(turnkey: &Path) -> Result<Listing> {
    let mut list = nextest(turnkey, "list");
    read(&command::output(list.args(["--message-format", "json"]))?)
}

fn read(listing: &str) -> Result<Listing> {
    serde_json::from_str(listing).context("cannot read the list of `cargo nextest list`")
}

impl Listing {
    /// Every test, by the name of its binary and its own.
    fn names(&self) -> Vec<(String, String)> {
        let suites = self.rust_suites.values();
        let of_suite = |suite: &Suite| -> Vec<(String, String)> {
            let names = suite.testcases.keys();
            names
                .map(|test| (suite.binary_name.clone(), test.clone()))
                .collect()
        };
        suites.flat_map(of_suite).collect()
    }

    /// Every test binary, by its name.
    fn binaries(&self) -> impl Iterator<Item = (&str, &Path)> {
        let suites = self.rust_suites.values();
        suites.map(|suite| (&*suite.binary_name, &*suite.binary_path))
    }
}

/// Lists every attack on jail and monitor with the tests that show it survived, each time somebody waits for them.
fn call_the_roll(by_day: &[&(String, String)]) -> Result<()> {
    let read = |name: &str| fs_err::read_to_string(workspace::root().join(name));
    let (catalogue, security) = (read("docs/attacks.md")?, read("SECURITY.md")?);
    let tests: Vec<String> = by_day.iter().map(|(_, test)| test.clone()).collect();
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
    let unrun = unrun.join("\n  ");
    ensure!(unrun.is_empty(), "these tests would not run:\n  {unrun}");
    ensure!(
        end_to_end > 0,
        "no end-to-end test: the crate {END_TO_END} has none"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(package: &str, ignored: bool, status: &str) -> String {
        serde_json::json!({ "rust-suites": { "suite": {
            "package-name": package,
            "binary-name": "e2e",
            "binary-path": "/e2e",
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
