//! XML as JUnit has made it common, for build servers: a suite for the run, a case for each finding
//! and one for the verdict. A finding of severity `info` is no failure, nor is one that the profile accepts.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, TestCase, TestCaseStatus, TestSuite};
use turnkey_policy::Severity;

use super::{command_line, status_word, summary, title, verdict_word};
use crate::model::{Finding, Report, Verdict};
use crate::terminal;

/// The document.
pub fn document(report: &Report) -> String {
    let name = format!("turnkey: {}", command_line(report));
    let wall = report.usage.as_ref().map(|usage| usage.wall_seconds);
    let wall = Duration::try_from_secs_f64(wall.unwrap_or_default()).unwrap_or_default();
    let mut suite = TestSuite::new(name.as_str());
    suite.set_time(wall);
    for (name, value) in [("timestamp", &report.started_at), ("id", &report.id)] {
        suite.extra.insert(name.into(), value.as_str().into());
    }
    suite.add_properties(properties(report));
    suite.add_test_case(verdict(report));
    suite.add_test_cases(report.findings.iter().map(|finding| case(report, finding)));
    let mut junit = quick_junit::Report::new(name);
    junit.set_time(wall).add_test_suite(suite);
    // Bytes in memory take all that is written.
    junit.to_string().unwrap_or_default()
}

fn verdict(report: &Report) -> TestCase {
    let kind = match report.verdict {
        Verdict::Clean => None,
        Verdict::Suspicious | Verdict::Violated => Some(NonSuccessKind::Failure),
        // Nothing is known to be wrong with the program.
        Verdict::Inconclusive => Some(NonSuccessKind::Error),
    };
    let told = Told {
        severity: verdict_word(report.verdict),
        message: &summary(report),
        text: format!("risk score {}", report.risk_score),
    };
    told.case(report, "verdict", kind)
}

fn case(report: &Report, finding: &Finding) -> TestCase {
    let fails = finding.severity > Severity::Info && finding.counts();
    let told = Told {
        severity: &finding.severity.to_string(),
        message: title(finding),
        text: terminal::block(report, finding),
    };
    told.case(
        report,
        &finding.id,
        fails.then_some(NonSuccessKind::Failure),
    )
}

/// The words of one case.
struct Told<'a> {
    severity: &'a str,
    message: &'a str,
    text: String,
}

impl Told<'_> {
    /// The case, well without a `kind`.
    fn case(self, report: &Report, name: &str, kind: Option<NonSuccessKind>) -> TestCase {
        let status = kind.map_or_else(TestCaseStatus::success, |kind| {
            let mut status = TestCaseStatus::non_success(kind);
            status.set_type(self.severity).set_message(self.message);
            status.set_description(self.text.as_str());
            status
        });
        let mut case = TestCase::new(name, status);
        case.set_classname(format!("turnkey.{}", report.profile.name));
        if kind.is_none() {
            case.set_system_out(self.text);
        }
        case
    }
}

fn properties(report: &Report) -> [Property; 7] {
    let properties = [
        ("profile", report.profile.name.clone()),
        ("profile.sha256", report.profile.sha256.clone()),
        ("status", status_word(report.status).to_owned()),
        ("risk_score", report.risk_score.to_string()),
        ("evidence.complete", report.events.complete.to_string()),
        ("host.kernel", report.host.kernel.clone()),
        ("host.arch", report.host.arch.clone()),
    ];
    properties.map(|(name, value)| Property::new(name, value))
}
