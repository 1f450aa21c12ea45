//! Commands in the jail, on checkouts: tests that must succeed, and behaviour that must not be new.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use turnkey_policy::Severity;
use turnkey_report::model::{Finding, Status, Verdict};
use turnkey_report::{LARGEST, Report, Stored, shortened, visible};

use super::Workshop;
use crate::attestation::word;
use crate::cmd::diff;
use crate::cmd::gate::config::{CommandConfig, FailOn};
use crate::cmd::gate::interruption;
use crate::cmd::gate::result::{GateCheck, GateFinding};

/// Characters of turnkey's own words that are repeated.
const WORDS: usize = 1000;
/// New acts that are listed.
const LISTED: usize = 50;

/// Runs the command on the head: it must end with 0, and its verdict must be below what fails.
///
/// # Errors
/// When the check could not be made.
pub fn tests(
    name: &str,
    check: &CommandConfig,
    workshop: &Workshop<'_>,
) -> anyhow::Result<GateCheck> {
    let head = workshop.head()?;
    let (_, report) = run(check, workshop, head)?;
    let mut findings = Vec::new();
    if (report.status, report.exit_code) != (Status::Exited, Some(0)) {
        findings.push(GateFinding::new("ended", Severity::High, &ended(&report)));
    }
    findings.extend(against(&report, check.fail_on, &BTreeSet::new()));
    Ok(judged(name, findings, &[&report]))
}

/// Runs the command on base and head: what only the head does is a finding.
///
/// # Errors
/// When the check could not be made.
pub fn behaviour(
    name: &str,
    check: &CommandConfig,
    workshop: &Workshop<'_>,
) -> anyhow::Result<GateCheck> {
    let (before, on_base) = run(check, workshop, workshop.base()?)?;
    ensure!(
        on_base.status == Status::Exited,
        "on the base, the command {}, so that there is nothing to compare with",
        ended(&on_base)
    );
    let (after, on_head) = run(check, workshop, workshop.head()?)?;
    let mut findings = Vec::new();
    if (on_head.status, on_head.exit_code) != (on_base.status, on_base.exit_code) {
        let what = format!(
            "{}, and on the base it {}",
            ended(&on_head),
            ended(&on_base)
        );
        findings.push(GateFinding::new("ended", Severity::High, &what));
    }
    let known = on_base.findings.iter().map(|finding| finding.id.as_str());
    findings.extend(against(&on_head, check.fail_on, &known.collect()));
    let new = diff::between(&before, &after)?;
    if new.len() > check.allow_new {
        let listed = new.iter().take(LISTED).map(|entry| {
            let what = format!("{}: {}", entry.what, entry.why);
            GateFinding::new(&format!("new-{}", entry.kind), Severity::Medium, &what)
        });
        findings.extend(listed);
        if new.len() > LISTED {
            let what = format!("{} more new acts are not listed", new.len() - LISTED);
            findings.push(GateFinding::new("new-more", Severity::Medium, &what));
        }
    }
    Ok(judged(name, findings, &[&on_base, &on_head]))
}

/// Findings of a report whose verdict fails, but for those that were known before.
fn against(report: &Report, fail_on: FailOn, known: &BTreeSet<&str>) -> Vec<GateFinding> {
    let fails = match report.verdict {
        Verdict::Violated => true,
        Verdict::Suspicious => fail_on == FailOn::Suspicious,
        Verdict::Clean | Verdict::Inconclusive => false,
    };
    if !fails {
        return Vec::new();
    }
    let counting = |finding: &&Finding| finding.counts() && finding.score > 0;
    let all: Vec<&Finding> = report.findings.iter().filter(counting).collect();
    let findings = all
        .iter()
        .filter(|finding| !known.contains(finding.id.as_str()))
        .map(|finding| {
            let what = match finding.reason.as_str() {
                "" => finding.id.as_str(),
                reason => reason,
            };
            GateFinding::new(&finding.id, finding.severity, what)
        });
    let mut findings: Vec<GateFinding> = findings.collect();
    if all.is_empty() {
        let what = format!("its verdict is {}", word(report.verdict));
        findings.push(GateFinding::new("verdict", Severity::High, &what));
    }
    findings
}

/// A failure where something was found; where nothing was, and not everything was seen, it is inconclusive.
fn judged(name: &str, findings: Vec<GateFinding>, reports: &[&Report]) -> GateCheck {
    let unseen = reports
        .iter()
        .any(|report| report.verdict == Verdict::Inconclusive || !report.events.complete);
    match findings.is_empty() && unseen {
        true => {
            let why = "not everything that the command did was seen";
            GateCheck::inconclusive(name, why.to_owned())
        }
        false => GateCheck::failing_by(name, findings),
    }
}

fn ended(report: &Report) -> String {
    match (report.status, report.exit_code) {
        (Status::Exited, Some(code)) => format!("ended with exit code {code}"),
        (status, _) => format!("ended as {}", word(status)),
    }
}

/// Runs the command in a jail on a checkout, which it does not change; its report, as it was written and read.
fn run(
    check: &CommandConfig,
    workshop: &Workshop<'_>,
    checkout: &Path,
) -> anyhow::Result<(serde_json::Value, Report)> {
    let own = workshop.own;
    let mut run = Command::new("/proc/self/exe");
    run.current_dir(checkout).args(["run", "--quiet"]);
    run.arg("--profile").arg(profile(&check.profile, workshop)?);
    run.arg("--report").arg(own.at("report.json"));
    run.arg("--workdir").arg(checkout);
    run.arg("--").args(&check.command);
    run.stdin(Stdio::null()).stdout(Stdio::null());
    run.stderr(own.create("run.stderr")?);
    // Of another run, a report would be taken for this one's.
    own.create("report.json")?;
    interruption::run(&mut run).context("no run could be started")?;
    let bytes = own.read("report.json")?;
    ensure!(bytes.len() <= LARGEST, "the report of the run is too long");
    if bytes.is_empty() {
        // Nothing ran, so that these are turnkey's own words.
        let words = own.read("run.stderr")?;
        let words = String::from_utf8_lossy(&words);
        bail!(
            "no run was made: {}",
            visible(&shortened(words.trim(), WORDS))
        );
    }
    let report = Stored::read(&bytes)?.report;
    if let Some(error) = &report.error {
        bail!("nothing ran: {}", shortened(error, WORDS));
    }
    Ok((serde_json::from_slice(&bytes)?, report))
}

/// A shipped profile by its name, and a file as the base has it.
fn profile(name: &str, workshop: &Workshop<'_>) -> anyhow::Result<PathBuf> {
    let path = Path::new(name);
    if !turnkey_policy::is_file(name) || path.is_absolute() {
        return Ok(path.to_owned());
    }
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    ensure!(
        path.components().all(is_plain),
        "the profile {name:?} leads out of the repository"
    );
    Ok(workshop.base()?.join(path))
}
