//! The origin of a run, and of what it was shown: under which profile, where, for whom, and by whose word.

use serde::{Deserialize, Serialize};
use turnkey_policy::EnforcementMode;

use super::Report;
use crate::words;

/// The profile that was enforced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Profile {
    /// The `name` of the profile.
    pub name: String,
    /// The file it was read from; a shipped profile has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Over the texts of all merged profiles and the overrides.
    #[cfg_attr(test, schemars(regex(pattern = crate::model::SHA256)))]
    pub sha256: String,
    /// `enforce`, or `observe` where rules that would kill or deny only told; absent in reports of earlier versions.
    #[serde(
        default,
        with = "words::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(test, schemars(schema_with = "words::schema::<EnforcementMode>"))]
    pub mode: Option<EnforcementMode>,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Host {
    /// As from `uname -r`.
    pub kernel: String,
    /// As from `uname -m`.
    pub arch: String,
}

/// The user for whom the service made a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct ServedFor {
    /// The number of the user.
    pub user: u32,
    /// The number of its group.
    pub group: u32,
    /// The limits of the run that are smaller than the profile's, because the user's own processes may have no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lowered: Vec<LoweredLimit>,
}

impl ServedFor {
    /// The service, and for whom it made the run.
    pub fn in_words(&self) -> String {
        format!("service for user {}, group {}", self.user, self.group)
    }
}

impl Report {
    /// The same behind other words; nothing for a run of the caller's own.
    pub(crate) fn served_in_words(&self) -> String {
        let served = self.served.as_ref();
        let words = served.map(|served| format!(", by the {}", served.in_words()));
        words.unwrap_or_default()
    }
}

/// A limit of a run that is smaller than the profile's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct LoweredLimit {
    /// The key of the profile, such as `memory`.
    pub limit: String,
    /// The limit of the profile and its flags, in bytes, tasks, percent of a CPU, or descriptors.
    pub asked: u64,
    /// The limit that held.
    pub given: u64,
    /// The limit of the caller's that is as small: the file of a control group, or a resource of setrlimit(2).
    pub by: String,
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

/// A program of the caller's PATH that the jail did not have when it was to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct LeftProgram {
    /// The name that was looked for.
    pub name: String,
    /// The installations that it needs.
    pub read: Vec<String>,
    /// The value of PATH by which it is found.
    pub search: String,
}

/// A variable of the caller's that the program did not have, with what its value needs to be of use in the jail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct LeftVariable {
    /// The name of the variable.
    pub name: String,
    /// The file or directory that it names, where the jail does not have that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// The proxy that it names, with its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
}
