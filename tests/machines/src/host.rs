//! The machine that this runs on, as one more column of the table.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::support::Ran;
use xtask::{command, setup, workspace};

/// The tests that the guests run, too.
const BINARIES: [&str; 2] = ["e2e", "live"];

/// The checks of `turnkey doctor` that the table tells of.
const TOLD: [&str; 3] = ["monitor-tier", "monitor", "default-profile"];

/// Runs every end-to-end test and every test of the monitor here. All of them must pass.
pub fn run(turnkey: &Path) -> Result<Ran> {
    setup::NEXTEST.ensure()?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut ran = Ran {
        kernel: release.trim().to_owned(),
        ..Ran::default()
    };
    let mut nextest = command::cargo();
    nextest
        .args(["nextest", "run", "--workspace", "--color", "never"])
        .args(BINARIES.iter().flat_map(|binary| ["--test", binary]))
        .env("TURNKEY_BIN", turnkey)
        .env("TURNKEY_ROOT", workspace::root())
        .current_dir(workspace::root())
        .stderr(Stdio::piped());
    let mut child = nextest.spawn().context("cannot start cargo nextest")?;
    let output = child.stderr.take().context("nextest has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        eprintln!("{line}");
        if let Some(test) = passed(&line) {
            ran.add_passed(&test);
        }
    }
    if !child.wait()?.success() || ran.passed.is_empty() {
        bail!("not every test has passed on this host");
    }
    ran.told = doctor(turnkey)?.into_iter().collect();
    Ok(ran)
}

/// Binary and name in a line such as `PASS [   0.020s] (1/9) turnkey-tests::e2e limits::memory`.
fn passed(line: &str) -> Option<String> {
    let (_, rest) = line.trim().strip_prefix("PASS [")?.split_once(']')?;
    let words: Vec<_> = rest.split_whitespace().collect();
    let [.., binary, test] = words.as_slice() else {
        return None;
    };
    let (_, binary) = binary.split_once("::")?;
    Some(format!("{binary} {test}"))
}

/// The output of `turnkey doctor --json`.
#[derive(Deserialize)]
struct Object {
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Finding {
    check: String,
    found: String,
}

/// The doctor's words about the monitor here. It exits with 1 where something is missing.
fn doctor(turnkey: &Path) -> Result<Vec<String>> {
    let output = Command::new(turnkey).args(["doctor", "--json"]).output()?;
    let object: Object = serde_json::from_slice(&output.stdout)
        .context("`turnkey doctor --json` prints no findings")?;
    let findings = object.findings.into_iter();
    Ok(findings
        .filter(|finding| TOLD.contains(&finding.check.as_str()))
        .map(|finding| format!("{}: {}", finding.check, finding.found))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_passed_is_named_with_its_binary() {
        for line in [
            "        PASS [   0.020s] turnkey-tests::e2e limits::memory",
            "        PASS [   0.020s] ( 1/99) turnkey-tests::e2e limits::memory",
        ] {
            assert_eq!(passed(line).as_deref(), Some("e2e limits::memory"));
        }
        for line in ["        FAIL [   0.020s] turnkey-tests::e2e x", "PASS", ""] {
            assert_eq!(passed(line), None);
        }
    }
}
