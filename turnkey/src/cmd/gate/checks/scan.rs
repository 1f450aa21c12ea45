//! The static look at each file that is model-written, by `turnkey scan`.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use turnkey_policy::Severity;
use turnkey_report::{LARGEST, escape, visible};

use super::Workshop;
use crate::cmd::gate::commits::{Changes, FileKind};
use crate::cmd::gate::config::ScanConfig;
use crate::cmd::gate::interruption;
use crate::cmd::gate::repository;
use crate::cmd::gate::result::{GateCheck, GateFinding};
use crate::strict_json;

/// Names that a note lists.
const NAMED: usize = 5;
/// The directory with copies of the files that are scanned, and of no others.
const COPIES: &str = "scanned";

/// The answer of `turnkey scan --json`, as far as it counts here.
#[derive(Deserialize)]
struct ScanPage {
    files: Vec<ScannedFile>,
    left_out: Vec<LeftOut>,
}

#[derive(Deserialize)]
struct ScannedFile {
    path: String,
    score: u32,
    whole: bool,
    findings: Vec<ScanFinding>,
}

#[derive(Deserialize)]
struct ScanFinding {
    rule: String,
    line: u64,
    weight: u32,
    says: String,
}

#[derive(Deserialize)]
struct LeftOut {
    what: String,
    count: usize,
}

/// The only reason for which a file may be left out: it is no script.
const NO_SCRIPT: &str = "files that are neither Python nor shell";

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
    let files = of_kind(FileKind::File);
    let mut scanned = scan(&files, workshop)?;
    let mut findings = Vec::new();
    let (mut unread, mut cut) = (Vec::new(), Vec::new());
    for path in files {
        let Some(file) = scanned.remove(path) else {
            unread.push(path);
            continue;
        };
        if !file.whole {
            cut.push(path);
        }
        if file.score >= config.fail_at {
            findings.extend(of_file(path, &file, config.fail_at));
        }
    }
    note(notes, "neither Python nor shell, and not scanned", &unread);
    note(
        notes,
        "too large, too involved or not in their language, and not scanned whole",
        &cut,
    );
    note(
        notes,
        "symlinks, and not scanned",
        &of_kind(FileKind::Symlink),
    );
    note(notes, "deleted", &of_kind(FileKind::Deleted));
    let submodules = of_kind(FileKind::Submodule);
    note(notes, "commits of other repositories", &submodules);
    if findings.is_empty() && !submodules.is_empty() {
        bail!(
            "a submodule changed, and the files of another repository are not here to be scanned"
        );
    }
    if findings.is_empty() && !cut.is_empty() {
        bail!(
            "{} could not be looked at whole: turnkey scan says why; split it, or override the check",
            escape(cut[0])
        );
    }
    Ok(GateCheck::failing_by("scan", findings))
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
fn of_file(path: &[u8], file: &ScannedFile, fail_at: u32) -> Vec<GateFinding> {
    let path = escape(path);
    let scoring = file.findings.iter().filter(|finding| finding.weight > 0);
    let mut findings: Vec<GateFinding> = scoring
        .map(|finding| GateFinding {
            path: Some(path.clone()),
            line: Some(finding.line).filter(|line| *line > 0),
            ..GateFinding::new(
                &visible(&finding.rule),
                severity(finding.weight),
                &visible(&finding.says),
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

/// The word for a weight, of which 40 is grave by itself.
fn severity(weight: u32) -> Severity {
    match weight {
        0..15 => Severity::Low,
        15..40 => Severity::Medium,
        40..70 => Severity::High,
        _ => Severity::Critical,
    }
}

/// The scripts among the files, by their paths. A process of its own looks at them, so that a text which breaks a parser breaks
/// nothing here.
fn scan<'f>(
    files: &[&'f [u8]],
    workshop: &Workshop<'_>,
) -> anyhow::Result<BTreeMap<&'f [u8], ScannedFile>> {
    if files.is_empty() {
        return Ok(BTreeMap::new());
    }
    let Workshop { own, head, .. } = workshop;
    let copies = workshop.repository.checkout(head, COPIES, Some(files))?;
    let mut scan = Command::new("/proc/self/exe");
    scan.args(["scan", "--json"]).arg(&copies);
    scan.stdin(Stdio::null());
    scan.stdout(own.create("scan.json")?);
    scan.stderr(own.create("scan.stderr")?);
    let status = interruption::run(&mut scan).context("no scanner could be started")?;
    let words = own.read("scan.stderr")?;
    let words = String::from_utf8_lossy(&words);
    ensure!(
        status.success(),
        "turnkey scan ended with {status}: {}",
        words.trim()
    );
    let answer = own.read("scan.json")?;
    ensure!(answer.len() <= LARGEST, "the scanner's answer is too long");
    let page: ScanPage =
        strict_json::read(&answer).context("the scanner's answer is not understood")?;
    require_all(&page)?;
    let mut scanned: BTreeMap<String, ScannedFile> = BTreeMap::new();
    for file in page.files {
        scanned.insert(file.path.clone(), file);
    }
    let named = files.iter().filter_map(|path| {
        let copy = copies.join(repository::path(path));
        let file = scanned.remove(&escape(copy.as_os_str().as_encoded_bytes()))?;
        Some((*path, file))
    });
    let named: BTreeMap<_, _> = named.collect();
    ensure!(
        scanned.is_empty(),
        "the scanner's answer is about files that nobody asked for"
    );
    Ok(named)
}

/// Refuses an answer that leaves out a file for another reason than that it is no script.
fn require_all(page: &ScanPage) -> anyhow::Result<()> {
    let mut left_out = page.left_out.iter().filter(|it| it.what != NO_SCRIPT);
    match left_out.next() {
        Some(LeftOut { what, count }) => bail!("the scanner left out {count} {what}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_fails_has_a_finding_in_any_case() {
        let file = |findings| ScannedFile {
            path: "a.py".to_owned(),
            score: 60,
            whole: true,
            findings,
        };
        let [whole] = &of_file(b"a.py", &file(Vec::new()), 50)[..] else {
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
        let [only] = &of_file(b"a.py", &file(vec![finding(0), finding(80)]), 50)[..] else {
            panic!("a fact without weight is no finding");
        };
        assert_eq!(only.place().as_deref(), Some("a.py:3"));
        assert_eq!(only.what, "what\\nit does");
    }

    #[test]
    fn what_was_left_out_for_other_reasons_is_not_looked_at() {
        let page = |what: &str| {
            let text = format!(r#"{{"files":[],"left_out":[{{"what":"{what}","count":1}}]}}"#);
            strict_json::read::<ScanPage>(text.as_bytes()).unwrap()
        };
        assert!(require_all(&page(NO_SCRIPT)).is_ok());
        assert!(require_all(&page("directories that lie too deep")).is_err());
    }
}
