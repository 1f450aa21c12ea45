//! The parts of the score.

use serde::{Deserialize, Serialize};

use super::{Report, Violation};
use crate::words;

/// One part of the score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Finding {
    /// The rule's id, or a name that begins with `behaviour:` or `turnkey:`.
    pub id: String,
    /// Of the rule; of the finding itself otherwise.
    #[serde(with = "words")]
    #[cfg_attr(
        test,
        schemars(schema_with = "words::schema::<turnkey_policy::Severity>")
    )]
    pub severity: turnkey_policy::Severity,
    /// Points that the finding adds to the score.
    #[cfg_attr(test, schemars(range(max = 100)))]
    pub score: u32,
    /// Number of times that it was seen.
    pub count: u64,
    /// A MITRE ATT&CK id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub technique: Option<String>,
    /// For people.
    pub reason: String,
    /// For a behaviour: the acts that show it, at most eight. Those of a rule are `violations`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(length(max = 8)))]
    pub evidence: Vec<EvidenceStep>,
    /// The acceptance by the profile; while it holds, the finding adds nothing to the score. Absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Acceptance>,
}

impl Finding {
    /// True when it speaks against the program: it is not accepted, or not any longer.
    pub fn counts(&self) -> bool {
        self.accepted
            .as_ref()
            .is_none_or(|accepted| accepted.expired)
    }
}

/// One act that shows a behaviour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct EvidenceStep {
    /// The time of the act; absent for what is known of the run as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(regex(pattern = crate::model::TIME)))]
    pub time: Option<String>,
    /// The process that acted; absent for what is known of the run as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<StepProcess>,
    /// The act, in words.
    pub what: String,
}

/// The process that acted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct StepProcess {
    /// Inside the jail.
    pub pid: u32,
    /// The kernel's short name of the task.
    pub comm: String,
}

/// The profile's statement that a finding is no reason for suspicion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Acceptance {
    /// The profile's words.
    pub why: String,
    /// The last day on which it holds, in UTC.
    #[cfg_attr(test, schemars(extend("format" = "date")))]
    pub until: String,
    /// True when that day was over when the run began, so that the finding counts.
    pub expired: bool,
}

impl Finding {
    /// The attempts that it speaks of, as far as they are listed.
    pub fn violations<'r>(&'r self, report: &'r Report) -> impl Iterator<Item = &'r Violation> {
        let all = report.violations.iter();
        all.filter(|violation| violation.rule == self.id)
    }

    /// The gravest attempt on what a rule is about. An act that only prepares one, such as a symlink made first, is of a lower
    /// severity.
    pub fn gravest<'v>(rows: &[&'v Violation]) -> Option<&'v Violation> {
        // `max_by_key` keeps the last of equals, and the first attempt tells most.
        let rows = rows.iter().rev().copied();
        rows.max_by_key(|row| (row.action, row.severity))
    }
}
