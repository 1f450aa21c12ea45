//! Other turnkeys that watched the same processes.

use serde::{Deserialize, Serialize};

/// A turnkey that watched processes of this report as well, by rules of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct OtherWatcher {
    /// The place of its control group.
    pub place: WatcherPlace,
    /// The control group that it watched, as cgroups(7) writes it.
    pub group: String,
    /// The `id` of its report; absent where it could not be asked, as in a network namespace of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// True when it was seen to have condemned all of its group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub killed: bool,
}

/// The place of another watcher's group, seen from the own one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WatcherPlace {
    /// In a group that holds the own one: it saw all that was done here, too.
    Above,
    /// On the same group.
    Same,
    /// In a group inside the own one: what it saw was seen here, too.
    Below,
}

impl OtherWatcher {
    /// The watcher in words.
    pub fn name(&self) -> String {
        match &self.run {
            Some(run) => format!("run {run} on {}", self.group),
            None => format!("a turnkey on {}", self.group),
        }
    }
}
