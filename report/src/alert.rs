//! Alerts: what is said of a run while it lasts, and at its end, to those who keep watch.
//!
//! A finding is told with the first attempt or the acts that show it, and with every further row of `violations`; what is
//! found at the end alone is told then, and after it the verdict. Each is one JSON object, `turnkey.alert/v1` or OCSF.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use turnkey_analysis::behaviour::Found;
use turnkey_policy::{AcceptedFinding, Policy, Severity};

use super::behaviour;
use super::build::ReportInputs;
use super::clock::Clock;
use super::formats;
use super::json;
use super::model::{Attachment, Finding, Host, Report, Verdict, Violation};
use super::redact;
use super::terminal;

/// The kind of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertKind {
    /// A rule was broken, or a behaviour was recognised.
    Finding,
    /// The run is over.
    Verdict,
}

impl AlertKind {
    /// The word for it in an alert.
    pub fn name(self) -> &'static str {
        match self {
            Self::Finding => "finding",
            Self::Verdict => "verdict",
        }
    }
}

/// One alert, ready to be sent. All of it is escaped.
#[derive(Clone, Debug)]
pub struct Alert {
    /// The kind.
    pub kind: AlertKind,
    /// The id of the run, a slash and the number of the alert: a receiver that has it already has it twice.
    pub id: String,
    /// The weight of what is told.
    pub severity: Severity,
    /// One line for people.
    pub message: String,
    /// Names and values for a receiver that keeps fields, such as `RULE`.
    pub fields: Vec<(&'static str, String)>,
    /// A JSON object on one line, as turnkey has it.
    pub native: Vec<u8>,
    /// A JSON object on one line, as OCSF has it.
    pub ocsf: Vec<u8>,
}

/// Makes the alerts of one run.
#[derive(Debug)]
pub struct AlertWriter {
    /// The report as far as it is known before the end: who runs, and under what.
    known: Report,
    clock: Clock,
    accepted: Vec<AcceptedFinding>,
    redacts: bool,
    made: u64,
    /// The findings that were told.
    told: BTreeSet<String>,
}

impl AlertWriter {
    /// For a run under `policy` that is called `id`; `command` is empty for a group of others.
    pub fn new(
        policy: &Policy,
        clock: Clock,
        (id, host): (String, Host),
        command: &[Vec<u8>],
    ) -> AlertWriter {
        AlertWriter {
            known: before_the_end(policy, clock, (id, host), command),
            clock,
            accepted: policy.accepted.clone(),
            redacts: true,
            made: 0,
            told: BTreeSet::new(),
        }
    }

    /// With credentials as they are.
    pub fn unredacted(mut self) -> AlertWriter {
        self.redacts = false;
        self
    }

    /// Tells the group that turnkey is attached to.
    pub fn attached(&mut self, attached: Attachment) {
        self.known.attached = Some(attached);
    }

    /// The number of findings that were told, each counted once.
    pub fn findings(&self) -> usize {
        self.told.len()
    }

    /// A rule was broken in a way that no row of `violations` tells of yet.
    pub fn violation(&mut self, violation: &Violation) -> Option<Alert> {
        let finding = Finding {
            id: violation.rule.clone(),
            severity: violation.severity,
            score: 0,
            count: violation.count,
            technique: violation.technique.clone(),
            reason: violation.why.clone(),
            evidence: Vec::new(),
            accepted: None,
        };
        self.live(finding, Some(violation.clone()))
    }

    /// A behaviour was recognised for the first time.
    pub fn behaviour(&mut self, found: &Found) -> Option<Alert> {
        let finding = behaviour::findings(vec![found.clone()], &self.clock).next()?;
        self.live(finding, None)
    }

    /// The alerts that are left to be told at the end, when the report is whole; it is `boottime_ns` then.
    pub fn conclude(mut self, report: &Report, boottime_ns: u64) -> Vec<Alert> {
        let late = report.findings.iter();
        let late: Vec<_> = late
            .filter(|finding| !self.told.contains(&finding.id))
            .collect();
        let mut alerts: Vec<Alert> = late
            .into_iter()
            .map(|finding| self.finding(report, finding, false))
            .collect();
        let time = self.clock.date(boottime_ns);
        alerts.push(self.verdict(report, &time));
        alerts
    }

    /// A finding of a run that lasts: its score and the verdict are not known yet.
    fn live(&mut self, mut finding: Finding, violation: Option<Violation>) -> Option<Alert> {
        behaviour::accept(
            std::slice::from_mut(&mut finding),
            &self.accepted,
            &self.clock,
        );
        self.told.insert(finding.id.clone());
        let report = Report {
            findings: vec![finding],
            violations: violation.into_iter().collect(),
            ..self.known.clone()
        };
        // A report that redaction has made no report of is nobody's to see.
        let report = match self.redacts {
            true => redact::report(report).ok()?,
            false => report,
        };
        let finding = report.findings.first()?;
        Some(self.finding(&report, finding, true))
    }

    fn finding(&mut self, report: &Report, finding: &Finding, is_live: bool) -> Alert {
        let id = self.next_id();
        let row = finding.violations(report).next();
        let mut told = json!(finding);
        let mut ocsf = formats::ocsf::event(report, finding);
        if is_live {
            without(&mut told, "score");
            without(&mut ocsf, "risk_score");
            without(&mut ocsf["unmapped"], "verdict");
            without(&mut ocsf["unmapped"], "status");
        }
        ocsf["metadata"]["uid"] = json!(id);
        let mut native = self.head(AlertKind::Finding, &id, report);
        let time = row.map(|row| row.time.as_str());
        let step = finding.evidence.first();
        let time = time.or(step.and_then(|step| step.time.as_deref()));
        native["time"] = json!(time.unwrap_or(&report.started_at));
        native["finding"] = told;
        if let Some(row) = row {
            native["violation"] = json!(row);
        }
        let what = row.map_or_else(|| formats::title(finding).to_owned(), terminal::headline);
        let mut fields = vec![
            ("RULE", finding.id.clone()),
            ("SEVERITY", finding.severity.name().to_owned()),
        ];
        let technique = finding.technique.iter().cloned();
        fields.extend(technique.map(|it| ("TECHNIQUE", it)));
        if let Some(row) = row {
            fields.push(("ACTION", row.action.name().to_owned()));
            fields.push(("COMM", row.process.comm.clone()));
            fields.push(("PID", row.process.host_pid.to_string()));
            fields.extend(row.path.iter().cloned().map(|path| ("PATH", path)));
            fields.extend(
                row.host_path
                    .iter()
                    .cloned()
                    .map(|path| ("HOST_PATH", path)),
            );
        }
        let message = format!("{}: {what}", finding.id);
        let kind = AlertKind::Finding;
        self.alert(
            (kind, finding.severity),
            (id, message, fields),
            (&native, &ocsf),
        )
    }

    fn verdict(&mut self, report: &Report, time: &str) -> Alert {
        let id = self.next_id();
        let word = formats::verdict_word(report.verdict);
        let severity = match report.verdict {
            Verdict::Clean => Severity::Info,
            Verdict::Inconclusive => Severity::Low,
            Verdict::Suspicious => Severity::Medium,
            Verdict::Violated => Severity::High,
        };
        let mut native = self.head(AlertKind::Verdict, &id, report);
        native["time"] = json!(time);
        for (key, value) in [
            ("verdict", json!(word)),
            ("status", json!(report.status)),
            ("risk_score", json!(report.risk_score)),
            ("exit_code", json!(report.exit_code)),
            ("signal", json!(report.signal)),
            ("findings", json!(report.findings)),
            ("events", json!(report.events)),
        ] {
            native[key] = value;
        }
        if let Some(error) = &report.error {
            native["error"] = json!(error);
        }
        let mut ocsf = formats::ocsf::verdict(report, severity, time);
        ocsf["metadata"]["uid"] = json!(id);
        let message = formats::summary(report).replace('\n', "; ");
        let fields = vec![
            ("VERDICT", word.to_owned()),
            ("STATUS", formats::status_word(report.status).to_owned()),
            ("RISK_SCORE", report.risk_score.to_string()),
        ];
        let kind = AlertKind::Verdict;
        self.alert((kind, severity), (id, message, fields), (&native, &ocsf))
    }

    fn next_id(&mut self) -> String {
        self.made += 1;
        format!("{}/{}", self.known.id, self.made)
    }

    fn head(&self, kind: AlertKind, id: &str, report: &Report) -> Value {
        let mut head = json!({
            "schema": "turnkey.alert/v1",
            "alert": kind.name(),
            "id": id,
            "run": report.id,
            "time": "",
            "profile": report.profile.name,
            "command": report.command,
        });
        if let Some(attached) = &report.attached {
            head["group"] = json!(attached.group);
        }
        head
    }

    fn alert(
        &self,
        (kind, severity): (AlertKind, Severity),
        (id, message, mut fields): (String, String, Vec<(&'static str, String)>),
        (native, ocsf): (&Value, &Value),
    ) -> Alert {
        fields.push(("RUN", self.known.id.clone()));
        fields.push(("PROFILE", self.known.profile.name.clone()));
        Alert {
            kind,
            id,
            severity,
            message,
            fields,
            native: line(native),
            ocsf: line(ocsf),
        }
    }
}

/// A report of all that is known before a run ends. Nothing of it is judged.
fn before_the_end(
    policy: &Policy,
    clock: Clock,
    (id, host): (String, Host),
    command: &[Vec<u8>],
) -> Report {
    let report = Report::build(ReportInputs {
        command,
        ..ReportInputs::of_nothing(policy, clock, id, host)
    });
    Report {
        error: None,
        ..report
    }
}

fn without(object: &mut Value, key: &str) {
    if let Some(object) = object.as_object_mut() {
        object.remove(key);
    }
}

fn line(value: &Value) -> Vec<u8> {
    let mut line = Vec::new();
    // Into memory, which does not fail.
    let _ = json::write_line(value, &mut line);
    line
}

#[cfg(test)]
mod tests {
    use crate::{Aggregator, Ending, NotStarted};
    use turnkey_policy::RuleAction;

    use super::super::fixture::{CREDENTIALS, Story, clock, open_failed, policy};
    use super::super::schema_validator::SchemaValidator;
    use super::*;

    const OCSF: &str = include_str!("../../tests/data/schemas/ocsf-1.5.0-detection-finding.json");

    fn writer() -> AlertWriter {
        let host = Host {
            kernel: "6.18.0".to_owned(),
            arch: "x86_64".to_owned(),
        };
        let command = [b"sh".to_vec(), b"--token=hunter2hunter2".to_vec()];
        AlertWriter::new(&policy(), clock(), ("a".to_owned(), host), &command)
    }

    /// The alerts of two opens of a file that nobody may read, by one process.
    fn alerts(mut writer: AlertWriter) -> Vec<Alert> {
        let mut story = Story::command(&["sh"]);
        for _ in 0..2 {
            let entry = open_failed("/etc/\x1b[2Jshadow\n", libc::O_RDONLY, 0);
            story.decided(2, entry, CREDENTIALS, RuleAction::Kill);
        }
        let policy = policy();
        let mut aggregator = Aggregator::new(&policy, clock());
        let mut alerts = Vec::new();
        for event in &story.events {
            let violation = aggregator.push(event);
            alerts.extend(violation.and_then(|violation| writer.violation(violation)));
        }
        let known = writer.known.clone();
        let report = Report::build(ReportInputs {
            ending: Ending::NotStarted {
                reason: NotStarted::Setup,
                message: "two\nlines".to_owned(),
            },
            observations: aggregator.finish(),
            ..ReportInputs::of_nothing(&policy, clock(), known.id, known.host)
        });
        alerts.extend(writer.conclude(&report, clock().boottime_ns() + 5_000_000));
        alerts
    }

    #[test]
    fn a_row_is_told_once_and_the_verdict_last() {
        let alerts = alerts(writer());
        let told: Vec<_> = alerts.iter().map(|it| (it.kind, it.id.as_str())).collect();
        assert_eq!(
            told,
            [(AlertKind::Finding, "a/1"), (AlertKind::Verdict, "a/2")]
        );
        for alert in &alerts {
            for line in [&alert.native, &alert.ocsf] {
                let (end, text) = line.split_last().unwrap();
                assert_eq!(*end, b'\n');
                assert!(text.iter().all(|byte| (b' '..=b'~').contains(byte)));
            }
            assert!(!alert.message.contains(['\n', '\x1b']), "{}", alert.message);
        }
        let native: Value = serde_json::from_slice(&alerts[0].native).unwrap();
        assert_eq!(native["violation"]["path"], "/etc/\\x1b[2Jshadow\\n");
        assert_eq!(native["finding"].get("score"), None);
    }

    #[test]
    fn credentials_are_hidden_unless_they_are_asked_for() {
        let has = |writer: AlertWriter| {
            let alert = alerts(writer).remove(0);
            [alert.native, alert.ocsf]
                .map(|line| String::from_utf8(line).unwrap().contains("hunter2"))
        };
        assert_eq!(has(writer()), [false, false]);
        assert_eq!(has(writer().unredacted()), [true, true]);
    }

    #[test]
    fn all_of_them_fit_the_published_schema_of_ocsf() {
        let validator = SchemaValidator::new(serde_json::from_str(OCSF).unwrap());
        for alert in alerts(writer()) {
            let event: Value = serde_json::from_slice(&alert.ocsf).unwrap();
            assert_eq!(validator.wrong(&event), "", "{event:#}");
        }
    }
}
