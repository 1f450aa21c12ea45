//! A group of processes that others started.

use serde::{Deserialize, Serialize};

/// A control group that turnkey was attached to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Attachment {
    /// The group, as cgroups(7) writes it in `/proc/PID/cgroup`; all groups below belong to it.
    pub group: String,
    /// The time from which on everything in it was watched: RFC 3339, UTC.
    #[cfg_attr(test, schemars(regex(pattern = crate::model::TIME)))]
    pub since: String,
    /// The time for which it was watched, in seconds.
    pub seconds: f64,
    /// Processes that were there before; no rule was asked about what they had done. The first hundred.
    pub found: Vec<FoundProcess>,
    /// Number of processes that were there before.
    pub found_count: u64,
    /// Groups below the group when it was taken.
    pub groups_below: u64,
    /// Number of processes that acted in the group and left it for another one: from then on no rule was asked about what they did.
    /// Those whose end may be among the lost events are not counted.
    #[serde(default, skip_serializing_if = "super::counts::is_zero")]
    pub left: u64,
    /// Limits on the group that were asked for, in force while it was watched, and what was there before, which is put back when the
    /// group is let go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<GroupSetting>,
    /// True when the group was to be killed if its watcher ended without letting it go (`--required`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Set when somebody took from the kernel what the group was watched by: from then on nothing of it is known for certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interference: Option<AttachmentInterference>,
    /// The parts of a jail that an attachment does not give, in words.
    pub not_given: Vec<String>,
}

/// A reach for the maps or programs by which turnkey watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AttachmentInterference {
    /// The time when it was noticed, half a second after it at most: RFC 3339, UTC.
    #[cfg_attr(test, schemars(regex(pattern = crate::model::TIME)))]
    pub noticed: String,
    /// The finding, in words.
    pub what: String,
}

/// A setting of a control group for as long as it is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct GroupSetting {
    /// The file of the group, such as `memory.max`.
    pub file: String,
    /// The text while the group was watched.
    pub value: String,
    /// The text before.
    pub before: String,
}

/// A process that was there before turnkey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct FoundProcess {
    /// The host's id of it.
    pub pid: u32,
    /// The program that it executes, as /proc/PID/exe says; absent for a process that had ended meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// The files and sockets that it had open, as /proc/PID/fd says: what it does through them needs no open, which a rule
    /// could be asked about. Sockets first; a hundred at most.
    pub open: Vec<String>,
    /// Number of descriptors that it had open.
    #[serde(default)]
    pub open_count: u64,
    /// The system calls that its threads waited in, which may have begun before: no rule was asked about them, and an event tells of
    /// them at their end at most. The first hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<OngoingCall>,
    /// Number of its threads; more than a hundred are not asked for their calls.
    #[serde(default)]
    pub thread_count: u64,
}

/// A system call that a thread was in when its group was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct OngoingCall {
    /// The host's id of the thread.
    pub thread: u32,
    /// The call by its x86_64 name, or `syscall NUMBER`.
    pub call: String,
    /// The six arguments as numbers, such as `0x3`: what they lead to is not known.
    pub arguments: Vec<String>,
}
