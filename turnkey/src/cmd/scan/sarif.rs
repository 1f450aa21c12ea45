//! The findings as SARIF 2.1.0, for tools that show results of analyses.

use serde_json::{Value, json};
use turnkey_report::formats::sarif::{SourceRoot, artifact};
use turnkey_scan::Finding;
use turnkey_scan::rule::{self, Rule};

use super::plugin::{self, PluginFinding, PluginWord};
use super::{Scanned, ScannedScript};

/// The log. Relative paths are the repository's.
pub fn log(scanned: &Scanned) -> Value {
    let root = SourceRoot::new("");
    let results = scanned.scripts.iter().flat_map(|script| {
        let findings = script.scan.findings.iter();
        findings.map(move |finding| result(finding, &script.path, root))
    });
    let mut runs = vec![json!({
        "tool": { "driver": {
            "name": "turnkey scan",
            "version": env!("CARGO_PKG_VERSION"),
            "rules": rule::ALL.iter().map(|rule| described(rule)).collect::<Vec<_>>(),
        } },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": root.bases(),
        "results": results.collect::<Vec<_>>(),
        "properties": { "score": scanned.score() },
    })];
    let asked = scanned
        .scripts
        .first()
        .map_or(0, |script| script.others.len());
    runs.extend((0..asked).map(|index| other(&scanned.scripts, index, root)));
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": runs,
    })
}

/// The run of another scanner: a tool of its own.
fn other(scripts: &[ScannedScript], index: usize, root: SourceRoot<'_>) -> Value {
    let words: Vec<(&str, &PluginWord)> = scripts
        .iter()
        .filter_map(|script| Some((script.path.as_str(), script.others.get(index)?)))
        .collect();
    let name = words
        .first()
        .map_or_else(String::new, |(_, word)| plugin::shown(&word.by));
    let results = words.iter().flat_map(|(path, word)| {
        let findings = word.findings.iter();
        findings.map(move |finding| other_result(finding, path, root))
    });
    let notes = words.iter().filter_map(|(path, word)| {
        let why = word.failed.as_ref()?;
        Some(json!({ "level": "error", "message": { "text": format!("no answer on {path}: {why}") } }))
    });
    let notes: Vec<Value> = notes.collect();
    json!({
        "tool": { "driver": { "name": name } },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": root.bases(),
        "invocations": [{ "executionSuccessful": notes.is_empty(), "toolExecutionNotifications": notes }],
        "results": results.collect::<Vec<_>>(),
    })
}

fn other_result(finding: &PluginFinding, path: &str, root: SourceRoot<'_>) -> Value {
    json!({
        "ruleId": finding.rule,
        "level": level(finding.weight),
        "message": { "text": finding.says },
        "locations": [{ "physicalLocation": {
            "artifactLocation": artifact(path, root),
            "region": { "startLine": finding.line, "startColumn": finding.column.unwrap_or(1) },
        } }],
        "properties": { "weight": finding.weight },
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
