//! The origin of a run, and of what it was shown: for whom, and by whose word.

use serde::{Deserialize, Serialize};

/// The user for whom the service made a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct ServedFor {
    /// The number of the user.
    pub user: u32,
    /// The number of its group.
    pub group: u32,
}

/// A place of the host that the jail was shown beyond the profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct BroughtIn {
    /// The path, the same inside and outside.
    pub path: String,
    /// The key that allows it, such as `toolchain`.
    pub key: String,
    /// The source that named the place, such as the caller's `PATH`.
    pub by: String,
}
