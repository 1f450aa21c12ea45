//! What was found as SARIF 2.1.0, for tools that show results of analyses.

use serde_json::{Value, json};
use turnkey_report::formats::sarif::{SourceRoot, artifact};
use turnkey_scan::Finding;
use turnkey_scan::rule::{self, Rule};

use super::Scanned;

/// The log. Relative paths are the repository's.
pub fn log(scanned: &Scanned) -> Value {
    let root = SourceRoot::new("");
    let results = scanned.scripts.iter().flat_map(|script| {
        let findings = script.scan.findings.iter();
        findings.map(move |finding| result(finding, &script.path, root))
    });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "turnkey scan",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rule::ALL.iter().map(|rule| described(rule)).collect::<Vec<_>>(),
            } },
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": root.bases(),
            "results": results.collect::<Vec<_>>(),
            "properties": { "score": scanned.score() },
        }],
    })
}

fn described(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "shortDescription": { "text": rule.title },
        "defaultConfiguration": { "level": level(rule.weight) },
        "properties": {
            // A number in a text from 0 to 10, by which viewers sort.
            "security-severity": format!("{:.1}", f64::from(rule.weight) / 10.0),
            "tags": std::iter::once("security").chain(rule.technique).collect::<Vec<_>>(),
        },
    })
}

fn level(weight: u32) -> &'static str {
    match weight {
        0..30 => "note",
        30..60 => "warning",
        _ => "error",
    }
}

fn result(finding: &Finding, path: &str, root: SourceRoot<'_>) -> Value {
    json!({
        "ruleId": finding.rule,
        "ruleIndex": rule::ALL.iter().position(|rule| rule.id == finding.rule),
        "level": level(finding.weight),
        "message": { "text": finding.says },
        "locations": [{ "physicalLocation": {
            "artifactLocation": artifact(path, root),
            "region": { "startLine": finding.line, "startColumn": finding.column },
        } }],
        "properties": { "weight": finding.weight },
    })
}
