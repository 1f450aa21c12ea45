//! An argument of a system call.

use serde::{Deserialize, Serialize};

/// An argument read from the program's memory: an allegation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Argument {
    /// As far as it was read.
    pub text: String,
    /// Longer than a record holds.
    pub truncated: bool,
    /// The memory could not be read at that moment.
    pub unreadable: bool,
}
