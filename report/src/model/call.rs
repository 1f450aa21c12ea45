//! System calls that were refused as such.

use serde::{Deserialize, Serialize};

use super::super::stopper::Stopper;
use super::{Result, is_false};

/// Attempts at one system call that failed in the same way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct RefusedCall {
    /// The kernel's name of it, or `syscall` and its number.
    pub syscall: String,
    /// Number of attempts.
    pub count: u64,
    /// Of the first one.
    #[cfg_attr(test, schemars(regex(pattern = crate::model::TIME)))]
    pub first_time: String,
    /// Of the last one.
    #[cfg_attr(test, schemars(regex(pattern = crate::model::TIME)))]
    pub last_time: String,
    /// The row of `processes` that did the first one; `null` when that list was full.
    pub first_exec_id: Option<u32>,
    /// The result of each of them.
    pub result: Result,
    /// With `denied`.
    pub stopped_by: Option<Stopper>,
    /// True when the profile allows the call, and the filter refuses these arguments of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub for_arguments: bool,
    /// The name of the error.
    pub errno: Option<String>,
    /// The rule that decided, if any did.
    pub rule: Option<String>,
    /// Advice on how to allow it, or why that cannot be; absent where a rule decided, and where no layer refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}
