//! The gate's result: `schema = "turnkey.gate/v1"`. Every text is escaped as in reports.

use serde::{Deserialize, Serialize};
use turnkey_policy::{NamedVariants as _, Severity};

use super::overrides::Overridden;

/// The value of `schema`.
pub const SCHEMA: &str = "turnkey.gate/v1";

/// The judgement on what is between two commits.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct GateResult {
    /// Always `turnkey.gate/v1`.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    pub schema: String,
    /// The version of turnkey.
    pub turnkey: String,
    /// RFC 3339, UTC.
    pub finished_at: String,
    /// The judgement, in one word.
    pub verdict: GateVerdict,
    /// The id of the trusted commit.
    pub base: String,
    /// The id of the commit that was judged.
    pub head: String,
    /// The config.
    pub config: ConfigSource,
    /// The number of commits that the head has and the base has not.
    pub commits: usize,
    /// The commits that are model-written.
    pub model_commits: Vec<ModelCommit>,
    /// Files that the base and the head do not have alike, and that count as model-written; deleted ones are among them.
    pub files: Vec<String>,
    /// Every check of the config.
    pub checks: Vec<GateCheck>,
    /// Remarks on what else should be known, a sentence each.
    pub notes: Vec<String>,
}

/// The config that was read.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct ConfigSource {
    /// `COMMIT:PATH`, or the path of a file outside of the repository.
    pub from: String,
    /// SHA-256 of its text.
    pub sha256: String,
}

/// A commit that a rule calls model-written.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct ModelCommit {
    /// The id of the commit.
    pub id: String,
    /// The first line of its message.
    pub subject: String,
    /// The rule that says so.
    pub why: String,
}

/// The judgement on all checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum GateVerdict {
    /// Every check was made, and none failed.
    Pass,
    /// A check failed.
    Fail,
    /// No check failed, and one could not be made.
    Inconclusive,
}

/// The judgement of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CheckVerdict {
    /// No finding counts.
    Pass,
    /// A finding does.
    Fail,
    /// The check could not be made.
    Inconclusive,
    /// The check had nothing to look at: no commit and no file is model-written.
    Skipped,
}

/// One check, and what came of it.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct GateCheck {
    /// `scan`, `tests:NAME` or `behaviour:NAME`.
    pub name: String,
    /// The judgement.
    pub verdict: CheckVerdict,
    /// The reason, where there is more to say than its findings do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Findings that count, and those that are overridden.
    pub findings: Vec<GateFinding>,
    /// The person who answers for the check as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overridden: Option<Overridden>,
}

/// A reason against the change.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct GateFinding {
    /// The rule.
    pub id: String,
    /// low, medium, high or critical.
    pub severity: String,
    /// A file of the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// From 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// In words.
    pub what: String,
    /// The person who answers for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overridden: Option<Overridden>,
}

impl GateVerdict {
    /// The word of the result.
    pub fn word(self) -> &'static str {
        match self {
            GateVerdict::Pass => "pass",
            GateVerdict::Fail => "fail",
            GateVerdict::Inconclusive => "inconclusive",
        }
    }

    /// The verdict on all checks: a failure before a check that could not be made, and that before all is well.
    pub fn of(checks: &[GateCheck]) -> GateVerdict {
        let any = |verdict| checks.iter().any(|check| check.verdict == verdict);
        match (any(CheckVerdict::Fail), any(CheckVerdict::Inconclusive)) {
            (true, _) => GateVerdict::Fail,
            (false, true) => GateVerdict::Inconclusive,
            (false, false) => GateVerdict::Pass,
        }
    }
}

impl CheckVerdict {
    /// The word of the result.
    pub fn word(self) -> &'static str {
        match self {
            CheckVerdict::Pass => "pass",
            CheckVerdict::Fail => "fail",
            CheckVerdict::Inconclusive => "inconclusive",
            CheckVerdict::Skipped => "skipped",
        }
    }
}

impl GateCheck {
    fn new(name: &str, verdict: CheckVerdict, why: Option<String>) -> GateCheck {
        GateCheck {
            name: name.to_owned(),
            verdict,
            why,
            findings: Vec::new(),
            overridden: None,
        }
    }

    /// A check that was made, and fails when something was found.
    pub fn failing_by(name: &str, findings: Vec<GateFinding>) -> GateCheck {
        let verdict = match findings.is_empty() {
            true => CheckVerdict::Pass,
            false => CheckVerdict::Fail,
        };
        GateCheck {
            findings,
            ..GateCheck::new(name, verdict, None)
        }
    }

    /// A check that could not be made.
    pub fn inconclusive(name: &str, why: String) -> GateCheck {
        GateCheck::new(name, CheckVerdict::Inconclusive, Some(why))
    }

    /// A check that had nothing to look at.
    pub fn skipped(name: &str) -> GateCheck {
        let why = "nothing is model-written".to_owned();
        GateCheck::new(name, CheckVerdict::Skipped, Some(why))
    }

    /// Judges again when overrides were applied: a check fails by findings that count. One that could not be made stays so,
    /// unless it is overridden as a whole.
    pub fn settle(&mut self) {
        let counts = self.findings.iter().any(|it| it.overridden.is_none());
        self.verdict = match self.verdict {
            CheckVerdict::Fail | CheckVerdict::Inconclusive if self.overridden.is_some() => {
                CheckVerdict::Pass
            }
            CheckVerdict::Fail if !counts => CheckVerdict::Pass,
            as_it_is => as_it_is,
        };
    }
}

impl GateFinding {
    /// A finding without a place.
    pub fn new(id: &str, severity: Severity, what: &str) -> GateFinding {
        GateFinding {
            id: id.to_owned(),
            severity: severity.name().to_owned(),
            path: None,
            line: None,
            what: what.to_owned(),
            overridden: None,
        }
    }

    /// As it was given; of a word that is none, the gravest.
    pub fn severity(&self) -> Severity {
        Severity::from_name(&self.severity).unwrap_or(Severity::Critical)
    }

    /// `PATH:LINE`, as far as it has them.
    pub fn place(&self) -> Option<String> {
        let path = self.path.as_deref()?;
        Some(match self.line {
            Some(line) => format!("{path}:{line}"),
            None => path.to_owned(),
        })
    }
}
