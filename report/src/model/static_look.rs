//! The words that the text of a script told before it ran.

use serde::{Deserialize, Serialize};

/// A look at the text of what the command names. No finding, score or verdict of the run depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct StaticLook {
    /// The ground that all of this stands on.
    pub stands_on: StaticGround,
    /// The script: a path as the command names it, or `the text after -c`.
    pub of: String,
    /// `python` or `shell`.
    pub language: String,
    /// 0–99, by the weights of the findings. It is no part of `risk_score`.
    #[cfg_attr(test, schemars(range(max = 99)))]
    pub score: u32,
    /// Gravest first.
    pub findings: Vec<StaticFinding>,
    /// Findings of the same kinds that are not listed.
    pub findings_left_out: usize,
    /// The modules that it imports: facts of weight 0.
    pub imports: Vec<StaticImport>,
}

/// The ground that a static look stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StaticGround {
    /// The text alone, as it was right before the run: nothing of it was seen to happen.
    Text,
}

/// A place in a script, with what it would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct StaticFinding {
    /// The rule, as docs/scan.md lists them.
    pub rule: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The technique of MITRE ATT&CK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub technique: Option<String>,
    /// The share of a hundred that it takes of what was not suspicious so far.
    pub weight: u32,
    /// The act that the code would do, in words.
    pub says: String,
}

/// A module that a script imports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct StaticImport {
    /// The module's dotted name.
    pub module: String,
    /// The line of the first import, from 1.
    pub line: usize,
}
