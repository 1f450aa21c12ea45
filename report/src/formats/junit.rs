//! XML as JUnit has made it common, for build servers: a suite for the run, a case for each finding
//! and one for the verdict. A finding of severity `info` is no failure, nor is one that the profile accepts.

use std::fmt::Write as _;

use turnkey_policy::Severity;

use super::{command_line, status_word, summary, title};
use crate::model::{Finding, Report, Verdict};
use crate::terminal;

/// The document.
pub fn document(report: &Report) -> String {
    let mut cases: Vec<Case> = vec![verdict(report)];
    cases.extend(report.findings.iter().map(|it| case(report, it)));
    let count = |kind: &str| cases.iter().filter(|case| case.kind == Some(kind)).count();
    let (failures, errors) = (count("failure"), count("error"));
    let wall = report.usage.as_ref().map(|usage| usage.wall_seconds);
    let counts = attributes(&[
        ("name", &format!("turnkey: {}", command_line(report))),
        ("tests", &cases.len().to_string()),
        ("failures", &failures.to_string()),
        ("errors", &errors.to_string()),
        ("time", &format!("{:.3}", wall.unwrap_or_default())),
    ]);
    let id = attributes(&[("timestamp", &report.started_at), ("id", &report.id)]);
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a String cannot fail.
    let _ = writeln!(xml, "<testsuites{counts}>\n  <testsuite{counts}{id}>");
    let _ = writeln!(xml, "    <properties>");
    for (name, value) in properties(report) {
        let property = attributes(&[("name", name), ("value", &value)]);
        let _ = writeln!(xml, "      <property{property}/>");
    }
    let _ = writeln!(xml, "    </properties>");
    cases.iter().for_each(|case| case.write(report, &mut xml));
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

/// One `testcase`.
struct Case {
    name: String,
    /// `failure` or `error`, when it is not well.
    kind: Option<&'static str>,
    severity: String,
    message: String,
    text: String,
}

fn verdict(report: &Report) -> Case {
    let kind = match report.verdict {
        Verdict::Clean => None,
        Verdict::Suspicious | Verdict::Violated => Some("failure"),
        // Nothing is known to be wrong with the program.
        Verdict::Inconclusive => Some("error"),
    };
    Case {
        name: "verdict".to_owned(),
        kind,
        severity: super::verdict_word(report.verdict).to_owned(),
        message: summary(report),
        text: format!("risk score {}", report.risk_score),
    }
}

fn case(report: &Report, finding: &Finding) -> Case {
    Case {
        name: finding.id.clone(),
        kind: (finding.severity > Severity::Info && finding.counts()).then_some("failure"),
        severity: finding.severity.to_string(),
        message: title(finding).to_owned(),
        text: terminal::block(report, finding),
    }
}

impl Case {
    fn write(&self, report: &Report, xml: &mut String) {
        let class = format!("turnkey.{}", report.profile.name);
        let head = attributes(&[("name", &self.name), ("classname", &class)]);
        let text = escaped(&self.text);
        let inner = match self.kind {
            Some(kind) => {
                let what = [("type", self.severity.as_str()), ("message", &self.message)];
                format!("<{kind}{}>{text}</{kind}>", attributes(&what))
            }
            None => format!("<system-out>{text}</system-out>"),
        };
        let _ = writeln!(xml, "    <testcase{head}>{inner}</testcase>");
    }
}

fn properties(report: &Report) -> Vec<(&'static str, String)> {
    vec![
        ("profile", report.profile.name.clone()),
        ("profile.sha256", report.profile.sha256.clone()),
        ("status", status_word(report.status).to_owned()),
        ("risk_score", report.risk_score.to_string()),
        ("evidence.complete", report.events.complete.to_string()),
        ("host.kernel", report.host.kernel.clone()),
        ("host.arch", report.host.arch.clone()),
    ]
}

fn attributes(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| format!(" {name}=\"{}\"", escaped(value)))
        .collect()
}

/// XML has few special characters, and takes a break in an attribute for a blank.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            c => escaped.push(c),
        }
    }
    escaped
}
