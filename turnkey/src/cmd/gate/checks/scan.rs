//! The static look at each file that is model-written, by `turnkey scan`.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde::Deserialize;
use turnkey_policy::Severity;
use turnkey_report::{LARGEST, escape};

use super::Workshop;
use crate::cmd::gate::commits::{Changes, FileKind};
use crate::cmd::gate::config::ScanConfig;
use crate::cmd::gate::interruption;
use crate::cmd::gate::repository;
use crate::cmd::gate::result::{GateCheck, GateFinding};
use crate::strict_json;

/// Files of one call: all names together stay far below the limit of a command line.
const FILES: usize = 100;
/// Names that a note lists.
const NAMED: usize = 5;

/// The answer of `turnkey scan --json`, as far as it counts here.
#[derive(Deserialize)]
struct ScanPage {
    files: Vec<ScannedFile>,
}

#[derive(Deserialize)]
struct ScannedFile {
    #[serde(default)]
    language: Option<String>,
    score: u32,
    findings: Vec<ScanFinding>,
}

#[derive(Deserialize)]
struct ScanFinding {
    rule: String,
    line: u64,
    weight: u32,
    says: String,
}

/// Looks at the files.
///
/// # Errors
/// When one could not be looked at.
pub fn check(
    config: &ScanConfig,
    changes: &Changes,
    workshop: &Workshop<'_>,
    notes: &mut Vec<String>,
) -> anyhow::Result<GateCheck> {
    let of_kind = |kind| {
        let files = changes.files.iter().filter(move |file| file.kind == kind);
        files.map(|file| file.path.as_slice()).collect::<Vec<_>>()
    };
    let mut findings = Vec::new();
    let mut unread = Vec::new();
    let files = of_kind(FileKind::File);
    for files in files.chunks(FILES) {
        let scanned = scan(files, workshop)?;
        for (path, file) in files.iter().zip(scanned) {
            if file.language.is_none() {
                unread.push(*path);
            }
            if file.score >= config.fail_at {
                findings.extend(of_file(path, file, config.fail_at));
            }
        }
    }
    note(notes, "in no language that is scanned", &unread);
    note(
        notes,
        "symlinks, which are not scanned",
        &of_kind(FileKind::Symlink),
    );
    let submodules = of_kind(FileKind::Submodule);
    note(notes, "commits of other repositories", &submodules);
    let check = GateCheck::failing_by("scan", findings);
    Ok(match (submodules.is_empty(), check.findings.is_empty()) {
        (false, true) => {
            let why = "a submodule changed, and the files of another repository are not here to be scanned";
            GateCheck::inconclusive("scan", why.to_owned())
        }
        _ => check,
    })
}

fn note(notes: &mut Vec<String>, what: &str, paths: &[&[u8]]) {
    let named: Vec<String> = paths.iter().take(NAMED).map(|path| escape(path)).collect();
    let more = match paths.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    if !paths.is_empty() {
        notes.push(format!("{what}: {}{more}", named.join(", ")));
    }
}

/// The findings of a file that fails: those that score.
fn of_file(path: &[u8], file: ScannedFile, fail_at: u32) -> Vec<GateFinding> {
    let path = escape(path);
    let mut findings: Vec<GateFinding> = file
        .findings
        .iter()
        .filter(|finding| finding.weight > 0)
        .map(|finding| GateFinding {
            path: Some(path.clone()),
            line: Some(finding.line).filter(|line| *line > 0),
            ..GateFinding::new(
                &escape(finding.rule.as_bytes()),
                severity(finding.weight),
                &turnkey_report::visible(&finding.says),
            )
        })
        .collect();
    if findings.is_empty() {
        let what = format!("its score is {}, and {fail_at} fails", file.score);
        findings.push(GateFinding {
            path: Some(path),
            ..GateFinding::new("score", severity(file.score), &what)
        });
    }
    findings
}

/// The word for a weight, as for the scores of reports: 40 is grave by itself.
fn severity(weight: u32) -> Severity {
    match weight {
        0..15 => Severity::Low,
        15..40 => Severity::Medium,
        40..70 => Severity::High,
        _ => Severity::Critical,
    }
}

/// Asks a process of its own, so that a text which breaks a parser breaks nothing here. The answer has a file for each name, in
/// their order.
fn scan(files: &[&[u8]], workshop: &Workshop<'_>) -> anyhow::Result<Vec<ScannedFile>> {
    let own = workshop.own;
    let head = workshop.head()?;
    let mut scan = Command::new("/proc/self/exe");
    scan.current_dir(head).args(["scan", "--json", "--"]);
    scan.args(files.iter().map(|path| repository::path(path).as_os_str()));
    scan.stdin(Stdio::null());
    scan.stdout(own.create("scan.json")?);
    scan.stderr(own.create("scan.stderr")?);
    let status = interruption::run(&mut scan).context("no scanner could be started")?;
    let words = own.read("scan.stderr")?;
    let words = String::from_utf8_lossy(&words);
    let words = words.trim();
    ensure!(
        status.success(),
        "turnkey scan ended with {status}: {words}"
    );
    let answer = own.read("scan.json")?;
    ensure!(answer.len() <= LARGEST, "the scanner's answer is too long");
    let page: ScanPage =
        strict_json::read(&answer).context("the scanner's answer is not understood")?;
    ensure!(
        page.files.len() == files.len(),
        "the scanner answers for {} files of {}",
        page.files.len(),
        files.len()
    );
    Ok(page.files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_fails_has_a_finding_in_any_case() {
        let file = |findings| ScannedFile {
            language: None,
            score: 60,
            findings,
        };
        let [whole] = &of_file(b"a.py", file(Vec::new()), 50)[..] else {
            panic!("one for the file as a whole");
        };
        assert_eq!(
            (whole.id.as_str(), whole.severity.as_str()),
            ("score", "high")
        );
        let finding = |weight| ScanFinding {
            rule: "r".to_owned(),
            line: 3,
            weight,
            says: "what\nit does".to_owned(),
        };
        let [only] = &of_file(b"a.py", file(vec![finding(0), finding(80)]), 50)[..] else {
            panic!("a fact without weight is no finding");
        };
        assert_eq!(only.place().as_deref(), Some("a.py:3"));
        assert_eq!(only.what, "what\\nit does");
    }
}
