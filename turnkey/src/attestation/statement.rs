//! The statement: in-toto's Statement v1, with a predicate of turnkey's own.

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use turnkey_report::model::{Layer, Profile, Status, Verdict};
use turnkey_report::{Report, Stored};

use super::{Subject, sha256};
use crate::cmd::gate::result::{self as gate, CheckVerdict, GateResult, GateVerdict};
use crate::strict_json;

/// The type of the statement.
const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// The type of the predicate; a version that means something else gets another number.
const PREDICATE: &str = "urn:turnkey:attestation:v1";

/// A predicate about subjects.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    /// The things that the predicate is about.
    pub subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    /// The facts about them.
    pub predicate: Predicate,
}

/// The facts about a subject.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicate {
    /// The version of the turnkey that made the attestation.
    pub turnkey: String,
    /// The time at which it was made, RFC 3339, UTC.
    pub attested_at: String,
    /// A run.
    pub run: RunFacts,
    /// A gate, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateFacts>,
}

/// A gate, as its result tells it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct GateFacts {
    /// SHA-256 of the result's file.
    pub result_sha256: String,
    /// The judgement.
    pub verdict: GateVerdict,
    /// The id of the trusted commit.
    pub base: String,
    /// The id of the commit that was judged.
    pub head: String,
    /// SHA-256 of the config.
    pub config_sha256: String,
    /// RFC 3339, UTC.
    pub finished_at: String,
    /// Each check with its verdict.
    pub checks: Vec<CheckFacts>,
}

/// A check of a gate.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckFacts {
    /// As in the result.
    pub name: String,
    /// As in the result.
    pub verdict: CheckVerdict,
    /// The number of its findings, or 1 for it as a whole, that somebody answers for.
    pub overridden: usize,
}

impl GateFacts {
    /// The facts of a stored result.
    ///
    /// # Errors
    /// When the bytes are no result of a gate, or one that contradicts itself.
    pub fn of_result(bytes: &[u8]) -> anyhow::Result<GateFacts> {
        let result: GateResult = strict_json::read(bytes)?;
        ensure!(
            result.schema == gate::SCHEMA,
            "its schema is {:?}, and not {:?}",
            result.schema,
            gate::SCHEMA
        );
        ensure!(
            result.verdict == GateVerdict::of(&result.checks),
            "its verdict is not that of its checks"
        );
        let checks = result.checks.iter().map(|check| {
            let findings = check.findings.iter();
            let overridden = findings.filter(|it| it.overridden.is_some()).count();
            CheckFacts {
                name: check.name.clone(),
                verdict: check.verdict,
                overridden: overridden + usize::from(check.overridden.is_some()),
            }
        });
        Ok(GateFacts {
            result_sha256: sha256(bytes),
            verdict: result.verdict,
            checks: checks.collect(),
            base: result.base,
            head: result.head,
            config_sha256: result.config.sha256,
            finished_at: result.finished_at,
        })
    }
}

/// A run, as its report tells it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    /// SHA-256 of the report's file.
    pub report_sha256: String,
    /// The name of the run.
    pub id: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// The duration of the run; absent when nothing ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_seconds: Option<f64>,
    /// The way in which the run ended.
    pub status: Status,
    /// The command's own, when it called exit(2).
    pub exit_code: Option<u8>,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// The judgement on the program.
    pub verdict: Verdict,
    /// From 0 to 100.
    pub risk_score: u32,
    /// The profile, with the digest of its texts.
    pub profile: Profile,
    /// The layers that were in force, with the proof of each.
    pub enforcement: Vec<Layer>,
    /// True when no event was lost.
    pub evidence_complete: bool,
}

impl Statement {
    /// The statement that a predicate holds of the subjects.
    pub fn new(subject: Vec<Subject>, predicate: Predicate) -> Statement {
        Statement {
            kind: STATEMENT.to_owned(),
            subject,
            predicate_type: PREDICATE.to_owned(),
            predicate,
        }
    }

    /// Reads a statement that `turnkey attest` made.
    ///
    /// # Errors
    /// When it is another text, or another kind of statement.
    pub fn read(bytes: &[u8]) -> anyhow::Result<Statement> {
        let read: serde_json::Value = strict_json::read(bytes).context("it is no JSON")?;
        let kinds = [("_type", STATEMENT), ("predicateType", PREDICATE)];
        for (key, expected) in kinds {
            let found = &read[key];
            ensure!(
                found == expected,
                "its {key} is {found}, and not {expected:?}"
            );
        }
        Ok(serde_json::from_value(read)?)
    }
}

impl RunFacts {
    /// The facts of a stored report.
    ///
    /// # Errors
    /// When the bytes are no report.
    pub fn of_report(bytes: &[u8]) -> anyhow::Result<RunFacts> {
        // A report of two minds is attested by nobody.
        let _: serde_json::Value = strict_json::read(bytes)?;
        let report: Report = Stored::read(bytes)?.report;
        ensure!(
            report.status != Status::Watching,
            "it was written when turnkey began to watch, and says nothing of what was done: attest the report that follows it"
        );
        Ok(RunFacts {
            report_sha256: sha256(bytes),
            id: report.id,
            command: report.command,
            started_at: report.started_at,
            wall_seconds: report.usage.map(|usage| usage.wall_seconds),
            status: report.status,
            exit_code: report.exit_code,
            signal: report.signal,
            verdict: report.verdict,
            risk_score: report.risk_score,
            profile: report.profile,
            enforcement: report.enforcement,
            evidence_complete: report.events.complete,
        })
    }
}
