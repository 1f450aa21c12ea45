//! OCSF 1.5.0, for lakes of security events: one Detection Finding (class 2004) for each finding, with
//! the processes, files, addresses and calls of its attempts as evidence. One event on a line.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};
use turnkey_policy::Severity;

use super::{VERSION, attack, command_line, status_word, summary, title, verdict_word};
use crate::clock;
use crate::model::{Actor, Finding, Process, Report, Violation};
use crate::terminal;

/// The events, in the order of the findings.
pub fn events(report: &Report) -> Vec<Value> {
    let findings = report.findings.iter();
    findings.map(|finding| event(report, finding)).collect()
}

/// The end of a run, for a stream of findings in which a run without any would not be seen.
pub fn verdict(report: &Report, severity: Severity, time: &str) -> Value {
    let finding = Finding {
        id: "turnkey:verdict".to_owned(),
        severity,
        score: report.risk_score,
        count: 1,
        technique: None,
        reason: summary(report),
        evidence: Vec::new(),
        accepted: None,
    };
    let mut event = event(report, &finding);
    if let Some(time) = milliseconds(time) {
        event["time"] = json!(time);
        event["finding_info"]["created_time"] = json!(time);
    }
    event
}

/// The event of one finding.
pub fn event(report: &Report, finding: &Finding) -> Value {
    let attempts: Vec<&Violation> = finding.violations(report).collect();
    let steps = finding.evidence.iter().filter_map(|it| it.time.as_deref());
    let times = attempts.iter().map(|it| it.time.as_str()).chain(steps);
    let times = times.filter_map(milliseconds);
    let time = times.min().or_else(|| milliseconds(&report.started_at));
    let time = time.unwrap_or_default();
    let (severity_id, severity) = severity(finding.severity);
    let (disposition_id, disposition) = disposition(&attempts);
    let denied = disposition_id == BLOCKED;
    let mut event = json!({
        "activity_id": 1,
        "activity_name": "Create",
        "category_uid": 2,
        "category_name": "Findings",
        "class_uid": 2004,
        "class_name": "Detection Finding",
        "type_uid": 200_401,
        "type_name": "Detection Finding: Create",
        "time": time,
        "count": finding.count,
        "message": title(finding),
        "severity_id": severity_id,
        "severity": severity,
        "risk_score": finding.score,
        "status_id": if finding.counts() { 1 } else { SUPPRESSED },
        "status": if finding.counts() { "New" } else { "Suppressed" },
        "is_alert": finding.severity >= Severity::High,
        "action_id": if denied { 2 } else { 3 },
        "action": if denied { "Denied" } else { "Observed" },
        "disposition_id": disposition_id,
        "disposition": disposition,
        "policy": { "name": report.profile.name, "uid": report.profile.sha256 },
        "metadata": {
            "version": "1.5.0",
            "profiles": ["security_control"],
            "correlation_uid": report.id,
            "product": { "name": "turnkey", "vendor_name": "turnkey", "version": VERSION },
        },
        "finding_info": {
            "uid": format!("{}/{}", report.id, finding.id),
            "title": title(finding),
            "desc": terminal::block(report, finding),
            "first_seen_time": time,
            "created_time": time,
            "analytic": { "type_id": 1, "type": "Rule", "uid": finding.id, "name": finding.id },
        },
        "evidences": evidences(report, finding, &attempts),
        "unmapped": {
            "verdict": verdict_word(report.verdict),
            "status": status_word(report.status),
            "command": command_line(report),
            "kernel": report.host.kernel,
            "arch": report.host.arch,
        },
    });
    if let Some(technique) = &finding.technique {
        event["attacks"] = json!([attack(technique)]);
        event["finding_info"]["attacks"] = json!([attack(technique)]);
    }
    if let Some(advice) = attempts
        .iter()
        .map(|it| &it.advice)
        .find(|it| !it.is_empty())
    {
        event["remediation"] = json!({ "desc": advice });
    }
    event
}

/// Since 1970; OCSF counts in milliseconds.
fn milliseconds(date: &str) -> Option<i64> {
    let date = clock::read(date)?;
    i64::try_from(date.unix_timestamp_nanos() / 1_000_000).ok()
}

fn severity(severity: Severity) -> (u8, &'static str) {
    match severity {
        Severity::Info => (1, "Informational"),
        Severity::Low => (2, "Low"),
        Severity::Medium => (3, "Medium"),
        Severity::High => (4, "High"),
        Severity::Critical => (5, "Critical"),
    }
}

const BLOCKED: u8 = 2;
/// The profile accepts it.
const SUPPRESSED: u8 = 3;

/// The disposition of the attempts: blocked only when none of them had its effect.
fn disposition(attempts: &[&Violation]) -> (u8, &'static str) {
    let stopped =
        |it: &&Violation| it.stopped_by.is_some() && it.result != crate::model::Result::Allowed;
    match attempts {
        [] => (15, "Detected"),
        attempts if attempts.iter().all(stopped) => (BLOCKED, "Blocked"),
        _ => (17, "Logged"),
    }
}

/// A technique of MITRE ATT&CK, and the one above it.
fn attack(technique: &str) -> Value {
    match technique.split_once('.') {
        Some((above, _)) => json!({
            "technique": { "uid": above, "name": attack::name(above) },
            "sub_technique": { "uid": technique, "name": attack::name(technique) },
        }),
        None => json!({ "technique": { "uid": technique, "name": attack::name(technique) } }),
    }
}

/// Of a finding without attempts and acts, the program itself is what there is to show.
fn evidences(report: &Report, finding: &Finding, attempts: &[&Violation]) -> Vec<Value> {
    if !finding.evidence.is_empty() {
        let steps = finding.evidence.iter();
        return steps
            .map(|step| json!({ "name": step.what, "data": step }))
            .collect();
    }
    if attempts.is_empty() {
        let first = report.processes.first().into_iter();
        let process = first.map(|first| json!({ "process": process(report, first) }));
        return process.collect();
    }
    attempts.iter().map(|it| evidence(report, it)).collect()
}

fn evidence(report: &Report, violation: &Violation) -> Value {
    let mut evidence = Map::new();
    let mut put = |key: &str, value: Value| evidence.insert(key.to_owned(), value);
    put("name", json!(terminal::headline(violation)));
    let process = actor(report, &violation.process);
    put("actor", json!({ "process": process }));
    put("process", process);
    if let Some(path) = &violation.path {
        put("file", file(path));
    }
    if let Some(address) = &violation.address {
        put("dst_endpoint", endpoint(address));
    }
    if let Some(syscall) = &violation.syscall {
        put("api", json!({ "operation": syscall }));
    }
    let rest = json!({
        "on": violation.on.name(),
        "action": violation.action.name(),
        "stopped_by": violation.stopped_by,
        "count": violation.count,
        "time": violation.time,
        "raw": violation.raw,
        "to": violation.to,
        "access": violation.access,
    });
    put("data", rest);
    Value::Object(evidence)
}

/// The row of the process where there is one, what the violation knows of it otherwise.
fn actor(report: &Report, actor: &Actor) -> Value {
    let rows = &mut report.processes.iter();
    if let Some(row) = rows.find(|row| Some(row.exec_id) == actor.exec_id) {
        return process(report, row);
    }
    let mut process = json!({
        "pid": actor.host_pid,
        "name": actor.comm,
        "cmd_line": line(&actor.argv),
    });
    if let Some(exe) = &actor.exe {
        process["file"] = file(exe);
    }
    process
}

fn process(report: &Report, row: &Process) -> Value {
    let mut process = alone(row);
    let rows = &mut report.processes.iter();
    if let Some(parent) = rows.find(|parent| Some(parent.exec_id) == row.parent) {
        process["parent_process"] = alone(parent);
    }
    process
}

fn alone(row: &Process) -> Value {
    let mut process = json!({
        "pid": row.host_pid,
        "uid": row.exec_id.to_string(),
        "name": row.comm,
        "cmd_line": line(&row.argv),
    });
    if let Some(exe) = &row.exe {
        process["file"] = file(&exe.path);
    }
    let end = row.end.as_deref();
    let times = [
        ("created_time", Some(row.start.as_str())),
        ("terminated_time", end),
    ];
    for (key, date) in times {
        if let Some(time) = date.and_then(milliseconds) {
            process[key] = json!(time);
        }
    }
    process
}

fn line(argv: &[String]) -> String {
    let words: Vec<String> = argv.iter().map(|word| crate::quote(word)).collect();
    words.join(" ")
}

/// A file object; its type is unknown, as it is not known to be a regular file.
fn file(path: &str) -> Value {
    let name = path
        .rsplit('/')
        .find(|name| !name.is_empty())
        .unwrap_or(path);
    json!({ "name": name, "path": path, "type_id": 0, "type": "Unknown" })
}

fn endpoint(address: &str) -> Value {
    match address.parse::<SocketAddr>() {
        Ok(peer) => json!({ "ip": peer.ip().to_string(), "port": peer.port() }),
        Err(_) => json!({ "name": address }),
    }
}
