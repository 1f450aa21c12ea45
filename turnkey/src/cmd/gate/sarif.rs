//! The result as SARIF 2.1.0.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use turnkey_report::formats::sarif::{SourceRoot, artifact, level, security_severity};

use super::result::{CheckVerdict, GateCheck, GateFinding, GateResult};
use crate::attestation::sha256;

/// The log: a rule for each kind of finding, and the check that could not be made as a notification.
pub fn log(result: &GateResult) -> Value {
    let findings = || {
        let of = |check: &'_ GateCheck| check.findings.len();
        let checks = result.checks.iter().filter(move |check| of(check) > 0);
        checks.flat_map(|check| check.findings.iter().map(move |finding| (check, finding)))
    };
    let rules: BTreeMap<String, Value> = findings()
        .map(|(check, finding)| (rule_id(check, finding), rule(check, finding)))
        .collect();
    let notifications: Vec<Value> = result
        .checks
        .iter()
        .filter(|check| check.verdict == CheckVerdict::Inconclusive)
        .map(|check| {
            let why = check.why.as_deref().unwrap_or_default();
            let text = message(&format!("{} could not be made: {why}", check.name));
            json!({ "level": "error", "message": { "text": text } })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "turnkey gate",
                "version": result.turnkey,
                "rules": rules.values().collect::<Vec<_>>(),
            } },
            "automationDetails": { "id": "turnkey-gate/" },
            "invocations": [{
                "executionSuccessful": notifications.is_empty(),
                "endTimeUtc": result.finished_at,
                "toolExecutionNotifications": notifications,
            }],
            "results": findings().map(|(check, finding)| self::result(check, finding)).collect::<Vec<_>>(),
            "properties": { "verdict": result.verdict, "base": result.base, "head": result.head },
        }],
    })
}

fn rule_id(check: &GateCheck, finding: &GateFinding) -> String {
    format!("{}/{}", check.name, finding.id)
}

fn rule(check: &GateCheck, finding: &GateFinding) -> Value {
    json!({
        "id": rule_id(check, finding),
        "shortDescription": { "text": message(&finding.id) },
        "properties": {
            "security-severity": security_severity(finding.severity()),
            "tags": ["security"],
        },
    })
}

fn result(check: &GateCheck, finding: &GateFinding) -> Value {
    let location = match &finding.path {
        Some(path) => json!({ "physicalLocation": {
            "artifactLocation": artifact(path, SourceRoot::new("")),
            "region": { "startLine": finding.line.unwrap_or(1) },
        } }),
        None => json!({ "logicalLocations": [{ "name": check.name }] }),
    };
    let id = rule_id(check, finding);
    let path = finding.path.as_deref().unwrap_or_default();
    // Without the line: what is written above a finding does not make it another one.
    let print = sha256(format!("{id}\n{path}\n{}", finding.what).as_bytes());
    let mut result = json!({
        "ruleId": id,
        "kind": "fail",
        "level": level(finding.severity()),
        "message": { "text": message(&finding.what) },
        "locations": [location],
        "partialFingerprints": { "turnkeyGate/v1": print },
    });
    let by = finding.overridden.as_ref().or(check.overridden.as_ref());
    if let Some(by) = by {
        let words = format!("{} ({}, until {})", by.reason, by.author, by.expires);
        result["suppressions"] = json!([{ "kind": "external", "justification": words }]);
    }
    result
}

/// A text in which viewers see no link: SARIF has links in brackets.
fn message(text: &str) -> String {
    text.replace('[', "\\[").replace(']', "\\]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::gate::markdown::tests::result;

    #[test]
    fn it_fits_the_published_schema_whatever_the_repository_is_named() {
        let schema = include_str!("../../../../tests/data/schemas/sarif-2.1.0.json");
        let schema: Value = serde_json::from_str(schema).unwrap();
        let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
        compiler.add_resource("memory:sarif", schema).unwrap();
        let index = compiler.compile("memory:sarif", &mut schemas).unwrap();
        for name in ["a b.py", "[x](http://example.org)", "%41", ""] {
            let mut result = result(name);
            result.finished_at = "2026-01-02T03:04:05.000000Z".to_owned();
            result.checks[0].findings[0].overridden = None;
            result.checks[0].findings.push(GateFinding::new(
                "r",
                turnkey_policy::Severity::Low,
                "w",
            ));
            result
                .checks
                .push(GateCheck::inconclusive(name, name.to_owned()));
            let mut log = log(&result);
            assert!(schemas.validate(&log, index).is_ok(), "{log:#}");
            let text = log["runs"][0]["results"][0]["message"]["text"]
                .as_str()
                .unwrap();
            assert!(!text.replace("\\[", "").contains('['), "{text}");
            log["runs"][0]["results"][0]["level"] = json!("grave");
            assert!(schemas.validate(&log, index).is_err(), "the control");
        }
    }
}
