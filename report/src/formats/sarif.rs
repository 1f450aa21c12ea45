//! SARIF 2.1.0, for tools that show results of analyses: a rule for each finding, a result for each
//! attempt, and the run as an invocation.

mod fingerprint;
mod source_root;

use serde_json::{Map, Value, json};
use turnkey_policy::Severity;

use super::{VERSION, status_word, summary, title, verdict_word};
use crate::clock;
use crate::model::{Finding, Report, Status, Violation};

use crate::{came_of, terminal};

pub use source_root::{SourceRoot, artifact};

/// The log; paths below `root` are the repository's.
pub fn log(report: &Report, root: SourceRoot<'_>) -> Value {
    let findings = report.findings.iter().enumerate();
    let results: Vec<Value> = findings
        .flat_map(|(index, finding)| results((report, root), finding, index))
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "turnkey",
                "version": VERSION,
                "rules": report.findings.iter().map(rule).collect::<Vec<_>>(),
            } },
            "automationDetails": { "id": format!("turnkey/{}", report.id) },
            "originalUriBaseIds": root.bases(),
            "invocations": [invocation(report, root)],
            "results": results,
            "properties": {
                "verdict": verdict_word(report.verdict),
                "risk_score": report.risk_score,
                "profile": report.profile.name,
                "profile_sha256": report.profile.sha256,
                "evidence_complete": report.events.complete,
            },
        }],
    })
}

fn rule(finding: &Finding) -> Value {
    json!({
        "id": finding.id,
        "shortDescription": { "text": title(finding) },
        "defaultConfiguration": { "level": level(finding.severity) },
        "properties": {
            "severity": finding.severity.name(),
            "security-severity": security_severity(finding.severity),
            "tags": std::iter::once("security").chain(finding.technique.as_deref()).collect::<Vec<_>>(),
        },
    })
}

/// A number in a text from 0 to 10, by which viewers sort.
pub fn security_severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "0.0",
        Severity::Low => "2.0",
        Severity::Medium => "5.0",
        Severity::High => "8.0",
        Severity::Critical => "9.5",
    }
}

/// The level of a result.
pub fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Info | Severity::Low => "note",
        Severity::Medium => "warning",
        Severity::High | Severity::Critical => "error",
    }
}

fn invocation(report: &Report, root: SourceRoot<'_>) -> Value {
    let mut invocation = Map::new();
    let words = report.command.iter().skip(1);
    if let Some(program) = report.command.first() {
        let line = json!(super::command_line(report));
        invocation.insert("commandLine".to_owned(), line);
        invocation.insert(
            "executableLocation".to_owned(),
            source_root::artifact(program, root),
        );
    }
    invocation.insert("arguments".to_owned(), words.cloned().collect());
    if clock::read(&report.started_at).is_some() {
        invocation.insert("startTimeUtc".to_owned(), json!(report.started_at));
    }
    if let Some(code) = report.exit_code {
        invocation.insert("exitCode".to_owned(), json!(code));
    }
    if let Some(signal) = report.signal {
        invocation.insert("exitSignalNumber".to_owned(), json!(signal));
    }
    let ran = report.status != Status::SetupFailed;
    invocation.insert("executionSuccessful".to_owned(), json!(ran));
    let words = json!(summary(report));
    invocation.insert("exitCodeDescription".to_owned(), words);
    let status = json!({ "status": status_word(report.status) });
    invocation.insert("properties".to_owned(), status);
    Value::Object(invocation)
}

/// One for each attempt that is listed, or one for the finding as a whole.
fn results(
    (report, root): (&Report, SourceRoot<'_>),
    finding: &Finding,
    index: usize,
) -> Vec<Value> {
    let attempts = finding.violations(report);
    let mut results: Vec<Value> = attempts
        .map(|it| attempt((report, root), it, finding, index))
        .collect();
    if results.is_empty() {
        let mut whole = whole(finding, index);
        mark(&mut whole, fingerprint::finding(report, finding, root));
        results.push(whole);
    }
    results
}

/// Viewers know a result by this, in whichever run it is seen.
fn mark(result: &mut Value, fingerprint: String) {
    result["partialFingerprints"] = json!({ fingerprint::NAME: fingerprint });
}

/// The result for a finding without attempts, with the acts that show it.
fn whole(finding: &Finding, index: usize) -> Value {
    let steps = finding.evidence.iter().map(|step| step.what.as_str());
    let text: Vec<&str> = std::iter::once(title(finding)).chain(steps).collect();
    let mut result = result(finding, index, &text.join("; "), finding.count);
    if !finding.evidence.is_empty() {
        result["properties"]["evidence"] = json!(finding.evidence);
    }
    result
}

fn attempt(
    (report, root): (&Report, SourceRoot<'_>),
    violation: &Violation,
    finding: &Finding,
    index: usize,
) -> Value {
    let stopped = came_of::words(violation, report.whole());
    let headline = terminal::headline(violation);
    let actor = terminal::actor(&violation.process);
    let text = format!("{headline}, by {actor}; stopped by {stopped}");
    let mut result = result(finding, index, &text, violation.count);
    mark(&mut result, fingerprint::attempt(report, violation, root));
    let object = object(violation, root);
    match source_root::source(report, violation, root) {
        // Code hosts show a result at its first place, and only at one of the repository.
        Some(source) => {
            let file = source_root::artifact(source, root);
            let line = json!({ "startLine": 1 });
            result["locations"] =
                json!([{ "physicalLocation": { "artifactLocation": file, "region": line } }]);
            result["relatedLocations"] = json!([object]);
        }
        None => result["locations"] = json!([object]),
    }
    let properties = &mut result["properties"];
    properties["action"] = json!(violation.action.name());
    properties["stopped_by"] = json!(violation.stopped_by);
    properties["time"] = json!(violation.time);
    properties["process"] = json!(violation.process);
    properties["advice"] = json!(violation.advice);
    if let Some(technique) = &violation.technique {
        properties["technique"] = json!(technique);
    }
    result
}

fn result(finding: &Finding, index: usize, text: &str, count: u64) -> Value {
    let mut result = json!({
        "ruleId": finding.id,
        "ruleIndex": index,
        "kind": "fail",
        "level": level(finding.severity),
        "message": { "text": text },
        // The format counts from one, and no further than most programs.
        "occurrenceCount": count.clamp(1, i32::MAX.unsigned_abs().into()),
        "properties": { "severity": finding.severity.name() },
    });
    if let Some(accepted) = finding.accepted.as_ref().filter(|it| !it.expired) {
        let words = format!("{} (until {})", accepted.why, accepted.until);
        result["suppressions"] = json!([{ "kind": "external", "justification": words }]);
    }
    result
}

/// The thing that was acted on.
fn object(violation: &Violation, root: SourceRoot<'_>) -> Value {
    if let Some(path) = &violation.path {
        let file = source_root::artifact(path, root);
        return json!({ "physicalLocation": { "artifactLocation": file } });
    }
    let (kind, name) = match (&violation.address, &violation.syscall) {
        (Some(address), _) => ("resource", address.as_str()),
        (_, Some(syscall)) => ("function", syscall.as_str()),
        _ => ("resource", "unknown"),
    };
    json!({ "logicalLocations": [{ "kind": kind, "fullyQualifiedName": name }] })
}
