//! The receivers of alerts.

use serde::{Deserialize, Serialize};

/// A receiver of alerts, and what reached it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Sink {
    /// The receiver as `--to` named it; of a URL without its path, which may be a secret.
    pub to: String,
    /// Number of alerts that the receiver took.
    pub sent: u64,
    /// Number of alerts that it did not take, or of which nobody knows.
    pub lost: u64,
    /// The reason for the last loss. Absent where nothing was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Sink {
    /// One line about what was lost, if anything was.
    pub fn loss(&self) -> Option<String> {
        let (lost, all) = (self.lost, self.lost + self.sent);
        let error = self.error.as_deref().unwrap_or("the reason is not known");
        (lost > 0).then(|| format!("{}: {lost} of {all} alerts were lost: {error}", self.to))
    }
}
