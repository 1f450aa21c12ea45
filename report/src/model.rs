//! The report as it is written: `schema = "turnkey.report/v1"`.
//!
//! `docs/report.schema.json` says the same to machines. Every text that began as bytes of the
//! jail or the kernel is escaped by [`super::text`], with the one exception of captured output.
//! Lists stand in the order in which their rows were first seen. A key whose value is `null` is
//! one that the kernel did not answer in this run.

mod argument;
mod attachment;
mod call;
mod changed;
mod counts;
mod finding;
mod network;
mod origin;
mod sink;
mod sinkhole;
mod static_look;
mod usage;
mod watcher;

use serde::{Deserialize, Serialize};

use super::export::Export;
use super::kept::Kept;
use super::stopper::Stopper;
use super::words;

pub use argument::Argument;
pub use attachment::{Attachment, AttachmentInterference, FoundProcess, GroupSetting, OngoingCall};
pub use call::RefusedCall;
pub use changed::{Change, ChangedFile};
pub use counts::{Events, Omitted};
pub use finding::{Acceptance, EvidenceStep, Finding, StepProcess};
pub use network::{NetworkAttempt, Passed, PublishedPort, SocketType};
pub use origin::{BroughtIn, Host, LeftProgram, LeftVariable, LoweredLimit, Profile, ServedFor};
pub use sink::Sink;
pub use sinkhole::{Sinkhole, SinkholeConversation};
pub use static_look::{StaticFinding, StaticGround, StaticImport, StaticLook};
pub use usage::{Limits, Usage};
pub use watcher::{OtherWatcher, WatcherPlace};

/// An instant as the report writes it, for its schema: RFC 3339, UTC, microseconds.
#[cfg(test)]
const TIME: &str = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$";
/// A digest as the report writes it, for its schema.
#[cfg(test)]
const SHA256: &str = "^[0-9a-f]{64}$";

/// The value of `schema`: any other is another kind of file, or a version that this turnkey cannot read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Schema {
    /// The only version there is.
    #[default]
    #[serde(rename = "turnkey.report/v1")]
    Report1,
}

/// One run, told afterwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields, title = "turnkey.report/v1")
)]
pub struct Report {
    /// Always `turnkey.report/v1`.
    pub schema: Schema,
    /// Names the run; no two runs of a machine share it.
    pub id: String,
    /// RFC 3339, UTC.
    #[cfg_attr(test, schemars(regex(pattern = crate::model::TIME)))]
    pub started_at: String,
    /// The program and its arguments as they were given.
    pub command: Vec<String>,
    /// The profile that was enforced.
    pub profile: Profile,
    /// The machine on which the command ran.
    pub host: Host,
    /// The way in which the run ended, in one word.
    pub status: Status,
    /// The command's own, when it called exit(2).
    pub exit_code: Option<u8>,
    /// The signal that ended the command.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub signal: Option<i32>,
    /// The reason why nothing ran, for people; only with `setup_failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The judgement on the program, in one word.
    pub verdict: Verdict,
    /// 0–100; the sum of `findings[].score`.
    #[cfg_attr(test, schemars(range(max = 100)))]
    pub risk_score: u32,
    /// The parts of the score, the heaviest first.
    pub findings: Vec<Finding>,
    /// True when the verdict is `clean`.
    pub is_safe: bool,
    /// The group that turnkey was attached to; it started no command then, and made no jail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<Attachment>,
    /// The user for whom the service made the run; absent when turnkey itself was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<ServedFor>,
    /// Other turnkeys that watched the same processes, each by rules of its own; the first hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watchers: Vec<OtherWatcher>,
    /// True when the program had a terminal, which both of its outputs went to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminal: bool,
    /// With `--capture`; with a terminal, what was shown there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Output>,
    /// With `--capture`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Output>,
    /// With `--scan`: what the text of the script told before it ran.
    #[serde(default, rename = "static", skip_serializing_if = "Option::is_none")]
    pub static_look: Option<StaticLook>,
    /// The resources that the whole tree of processes used; absent when nothing ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The limits of the profile on the whole tree; absent in reports of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Every layer, as asked for and as it was.
    pub enforcement: Vec<Layer>,
    /// Places of the host that the jail was shown beyond the profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brought_in: Vec<BroughtIn>,
    /// Ports of the jail that the host's loopback led to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedPort>,
    /// With the network mode `sinkhole`: what the program sent to whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sinkhole: Option<Sinkhole>,
    /// Attempts that a rule speaks of, except those it allows.
    pub violations: Vec<Violation>,
    /// Every program image of every process.
    pub processes: Vec<Process>,
    /// Opens and executions, one row for what differs in nothing but time and process.
    pub file_operations: Vec<FileOperation>,
    /// connect, bind and send with an address, aggregated in the same way.
    pub network_attempts: Vec<NetworkAttempt>,
    /// System calls that were refused as such, not for a file or an address; aggregated in the same way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_calls: Vec<RefusedCall>,
    /// Names of the system calls that were made, in alphabetical order; only where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syscalls: Option<Vec<String>>,
    /// Differences of the throw-away overlay to the caller's directory, and of a writable tree to the host's.
    pub files_changed: Vec<ChangedFile>,
    /// Paths that a program that failed looked for in vain, and the host has: the first few, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_host: Vec<String>,
    /// Directories of the host that the jail does not have, and in which a program that failed was to write: the first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_host_to_write: Vec<String>,
    /// The repository around the workspace, where git failed outside of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository_left: Option<String>,
    /// Programs of the caller's PATH that a program which failed was to start, and did not find: the first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs_left: Vec<LeftProgram>,
    /// Variables of the caller's about proxies and certificates that a program which failed did not have, and may have needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables_left: Vec<LeftVariable>,
    /// Mount points below the working directory, relative to it: the overlay over that directory shows what lies beneath them.
    /// The first hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts_hidden: Vec<String>,
    /// With `--export`; absent when nothing ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<Export>,
    /// With `--keep` or `--layer`; absent when nothing ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// Receivers of alerts, with what reached each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sinks: Vec<Sink>,
    /// Counts of the acts that were seen and lost.
    pub events: Events,
    /// Counts of what the bounds of the lists left out.
    pub omitted: Omitted,
    /// Turnkey's own exit code; of a report that was read, 0.
    #[serde(skip)]
    pub(super) exit: u8,
}

impl Report {
    /// The words for all that dies when the monitor kills.
    pub fn whole(&self) -> &'static str {
        match self.attached {
            Some(_) => "the group",
            None => "the jail",
        }
    }

    /// The exit code of turnkey itself: see [`super::verdict`] for the table.
    pub fn exit_code(&self) -> u8 {
        self.exit
    }
}

/// The way in which a run ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The command called exit(2).
    Exited,
    /// A rule, or `on_loss = "kill"`, ended the jail.
    KilledByPolicy,
    /// The wall clock or the CPU time ran out.
    TimedOut,
    /// The kernel's memory killer acted in the jail.
    OutOfMemory,
    /// Another limit ended the jail: tasks, output, file size.
    LimitExceeded,
    /// A signal ended the command, or turnkey was asked to end.
    Signaled,
    /// The command was not started.
    SetupFailed,
    /// Every process of a group that was attached to has ended.
    Ended,
    /// Turnkey let a group go, in which processes live on.
    Detached,
    /// The report was written when turnkey began to watch a group, and no other has followed: it still watches, or was killed.
    Watching,
}

/// The judgement on the program: see [`super::verdict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No evidence against the program, and everything was seen.
    Clean,
    /// Unusual acts, but none that is an attack by itself.
    Suspicious,
    /// An attempt that the profile calls an attack.
    Violated,
    /// No evidence against the program, but not everything was seen.
    Inconclusive,
}

/// Captured output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Output {
    /// The bytes, when they are UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes, when they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Number of bytes that the program wrote, as far as turnkey read them.
    pub bytes: u64,
    /// True when more was read than is kept here.
    pub truncated: bool,
}

/// One layer of the jail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Layer {
    /// As in a profile's `enforcement.required`.
    #[serde(with = "words")]
    #[cfg_attr(test, schemars(schema_with = "words::schema::<turnkey_policy::Layer>"))]
    pub layer: turnkey_policy::Layer,
    /// In words.
    pub requested: String,
    /// In words.
    pub effective: String,
    /// The sign of the layer that was seen from inside before the program started; `null` without one.
    pub proof: Option<String>,
    /// The reason why less than requested is in force; `null` when nothing is missing.
    pub degraded: Option<String>,
}

/// Attempts that differ in nothing but their time and thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Violation {
    /// Of the first one.
    #[cfg_attr(test, schemars(regex(pattern = crate::model::TIME)))]
    pub time: String,
    /// Number of attempts.
    pub count: u64,
    /// The rule that decided.
    pub rule: String,
    /// The rule's.
    #[serde(with = "words")]
    #[cfg_attr(
        test,
        schemars(schema_with = "words::schema::<turnkey_policy::Severity>")
    )]
    pub severity: turnkey_policy::Severity,
    /// The rule's, a MITRE ATT&CK id.
    pub technique: Option<String>,
    /// The answer of the kernel, after the mode was applied.
    #[serde(with = "words")]
    #[cfg_attr(
        test,
        schemars(schema_with = "words::schema::<turnkey_policy::RuleAction>")
    )]
    pub action: turnkey_policy::RuleAction,
    /// The kind of attempt, as in a rule's `on`.
    #[serde(with = "words")]
    #[cfg_attr(
        test,
        schemars(schema_with = "words::schema::<turnkey_policy::AttemptKind>")
    )]
    pub on: turnkey_policy::AttemptKind,
    /// The result; `unknown` in reports of earlier versions.
    #[serde(default)]
    pub result: Result,
    /// The kernel's word for a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<String>,
    /// The layer that kept the act from having its effect; `null` when none did.
    pub stopped_by: Option<Stopper>,
    /// True when the acting program or script was not known, so that the strongest of the possible answers was given.
    #[serde(default, skip_serializing_if = "is_false")]
    pub actor_unknown: bool,
    /// True when a link of /proc, a `..` behind a symlink or among too many names, a path that is too long, or another thread that
    /// closed it kept the kernel's programs from knowing the file, so that the strongest answer that any file has was given.
    #[serde(default, skip_serializing_if = "is_false")]
    pub file_unknown: bool,
    /// True when what was looked at is a directory of the jail's own, which shows nothing of the host's but what the profile gives.
    #[serde(default, skip_serializing_if = "is_false")]
    pub own_directory: bool,
    /// True when the jail shows nothing at this path, so that nothing could be read there, and the kill came before the kernel said so.
    #[serde(default, skip_serializing_if = "is_false")]
    pub not_shown: bool,
    /// The process that made the attempt.
    pub process: Actor,
    /// The kernel's own path when it resolved one, the argument otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The same file as the host names it, for a process whose tree is another, such as a container's; absent where the host has no name
    /// of it, or nobody could look any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_path: Option<String>,
    /// True when the path is cut: the kernel's own at its beginning, an argument at its end.
    #[serde(default, skip_serializing_if = "is_false")]
    pub path_truncated: bool,
    /// For `open`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<FileAccess>,
    /// For `map`: why no file of the tree holds what is executed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryTrait>,
    /// For `connect`, `bind` and `send`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// For an address where name servers answer: the names that the process asked for there, the first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// For everything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syscall: Option<String>,
    /// The argument as the program gave it, when it differs from `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<Argument>,
    /// For `link` and `rename`: the new name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The rule's `why`.
    pub why: String,
    /// Advice on how to allow it if it was meant.
    pub advice: String,
}

/// A process, named in a violation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Actor {
    /// The `exec_id` of the row in `processes`; `null` when that list was full.
    pub exec_id: Option<u32>,
    /// Inside the jail.
    pub pid: u32,
    /// Outside.
    pub host_pid: u32,
    /// The kernel's short name of the task.
    pub comm: String,
    /// The program's path, when its start was seen.
    pub exe: Option<String>,
    /// The arguments of the program; empty when its start was not seen.
    pub argv: Vec<String>,
}

/// One program image of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Process {
    /// Counts from 1 in the order of appearance.
    pub exec_id: u32,
    /// The image that forked it, or that it replaced when `pid` is the same.
    pub parent: Option<u32>,
    /// Inside the jail.
    pub pid: u32,
    /// Outside.
    pub host_pid: u32,
    /// The kernel's short name of the task, as last seen.
    pub comm: String,
    /// The time at which it was forked, executed or first seen.
    #[cfg_attr(test, schemars(regex(pattern = crate::model::TIME)))]
    pub start: String,
    /// The time at which it ended or was replaced; `null` when the end was not seen.
    #[cfg_attr(test, schemars(regex(pattern = crate::model::TIME)))]
    pub end: Option<String>,
    /// The file that runs; `null` when its start was not seen.
    pub exe: Option<Executable>,
    /// The script that it interprets, by the name it was started with; absent for a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Arguments.
    pub argv: Vec<String>,
    /// True when arguments are missing at the end.
    pub argv_truncated: bool,
    /// The exit code or signal; `null` when the image was replaced or its end was not seen.
    pub exit: Option<Exit>,
}

/// A program, as rules with `exe` and `script` know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Program {
    /// The path of the file that runs.
    pub exe: String,
    /// The script that it interprets, by the name it was started with; absent for a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
}

/// The file of a program image, as the kernel resolved it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Executable {
    /// Seen from the jail's root; `memfd:NAME` for a memory file.
    pub path: String,
    /// True when the path is cut.
    pub truncated: bool,
    /// True when no directory names the file any more.
    pub unlinked: bool,
    /// `MAJOR:MINOR` of its file system.
    pub device: String,
    /// In that file system.
    pub inode: u64,
}

/// The end of a process: an exit code or a signal, never both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// The code that the process gave to exit(2).
    Code(u8),
    /// A signal ended it.
    Signal(i32),
}

/// A way in which a file was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileAccess {
    /// Opened for reading.
    Read,
    /// Opened for writing, created or truncated.
    Write,
    /// Executed.
    Execute,
    /// Given another name besides.
    Link,
    /// Given another name instead.
    Rename,
    /// A name of it was taken away.
    Unlink,
    /// Mode or owner changed.
    Chmod,
    /// Put into memory that may be executed.
    Map,
    /// Asked about, and not opened.
    Stat,
    /// Times or extended attributes changed.
    Attribute,
}

/// A reason why no file of the tree holds what executable memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemoryTrait {
    /// Memory without a file.
    Anonymous,
    /// Memory of a file that is in memory itself: memfd_create(2), shmget(2), hugetlb.
    MemoryFile,
    /// No directory names its file any more, or one never did.
    Deleted,
    /// Memory that is or was writable, so that it can differ from its file.
    Writable,
    /// Memory that could not be looked at.
    Unknown,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Result {
    /// The attempt had its effect.
    Allowed,
    /// The layer in `stopped_by` kept it from having an effect.
    Denied,
    /// The attempt failed for a reason that is not the jail's; `errno` says which.
    Failed,
    /// The end of the attempt was not seen.
    #[default]
    Unknown,
}

/// Uses of one path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct FileOperation {
    /// The kernel's own path, else the argument; `null` when that was unreadable, and for memory without a file.
    pub path: Option<String>,
    /// True when the path is cut: the kernel's own at its beginning, an argument at its end.
    #[serde(default, skip_serializing_if = "is_false")]
    pub path_truncated: bool,
    /// Empty for `O_PATH`.
    pub access: Vec<FileAccess>,
    /// For `map`: why no file of the tree holds what is executed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryTrait>,
    /// Number of uses.
    pub count: u64,
    /// Of the first one.
    #[cfg_attr(test, schemars(regex(pattern = crate::model::TIME)))]
    pub first_time: String,
    /// Of the last one.
    #[cfg_attr(test, schemars(regex(pattern = crate::model::TIME)))]
    pub last_time: String,
    /// The row of `processes` that did the first one; `null` when that list was full.
    pub first_exec_id: Option<u32>,
    /// The programs that did so, each once: of an execution, those that asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    /// There are more, or one is not known.
    #[serde(default, skip_serializing_if = "is_false")]
    pub more_programs: bool,
    /// The result of each of them.
    pub result: Result,
    /// With `denied`.
    pub stopped_by: Option<Stopper>,
    /// True when the profile allows the call, and the filter refuses these arguments of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub for_arguments: bool,
    /// The name of the error, when there was one.
    pub errno: Option<String>,
    /// The rule that decided, if any did.
    pub rule: Option<String>,
    /// Advice on how to allow it, or why that cannot be; absent where a rule decided, where no layer refused, and where nothing of that
    /// name is in the jail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// For keys that are there only when they say something.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
pub(super) fn is_false(flag: &bool) -> bool {
    !*flag
}
