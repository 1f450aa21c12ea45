//! Numbers of acts: seen, lost, left out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Completeness of the evidence, in numbers of acts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Events {
    /// Number of acts by kind, whether or not they are lost.
    pub seen: BTreeMap<String, u64>,
    /// Number of those acts that are in no event, by kind; `unknown` for those of which only the gap in `seq` tells.
    pub lost: BTreeMap<String, u64>,
    /// True when the monitor watched from the first instruction to the end and nothing is lost.
    pub complete: bool,
}

/// Counts of what found no row because a list was full; `events.seen` and `findings` count those of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Omitted {
    /// Attempts without a row in `violations`.
    pub violations: u64,
    /// Forks and executions without a row in `processes`.
    pub processes: u64,
    /// Operations without a row in `file_operations`.
    pub file_operations: u64,
    /// Attempts without a row in `network_attempts`.
    pub network_attempts: u64,
    /// Files without a row in `files_changed`; what lies in a directory below 64 others counts as one.
    pub files_changed: u64,
    /// Turnkeys without a row in `watchers`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub watchers: u64,
}

pub(super) fn is_zero(count: &u64) -> bool {
    *count == 0
}
