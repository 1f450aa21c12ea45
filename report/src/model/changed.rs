//! Files that a run has changed.

use serde::{Deserialize, Serialize};

/// The kind of difference between a file and the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The file is not there on the host.
    Added,
    /// The file is another one on the host.
    Modified,
    /// The file is there on the host alone.
    Deleted,
}

/// One difference to the caller's directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct ChangedFile {
    /// Relative to the working directory; elsewhere in a tree that takes writes, absolute.
    pub path: String,
    /// `added`, `modified` or `deleted`.
    pub change: Change,
    /// Bytes, for regular files that are still there.
    pub size: Option<u64>,
    /// Of the content, for regular files that are still there and not too large.
    #[cfg_attr(test, schemars(regex(pattern = crate::model::SHA256)))]
    pub sha256: Option<String>,
    /// True for a file that was there and whose content is as if it had been encrypted: it had a structure before, and has none now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scrambled: bool,
}
