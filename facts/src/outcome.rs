//! The outcome of a run: which layers held, how it ended, what it used and changed.

use std::time::Duration;

use turnkey_policy::Layer;

/// One layer, as asked for and as it really was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerReport {
    /// The layer.
    pub layer: Layer,
    /// The policy's request, in words.
    pub requested: String,
    /// The setting in force, in words.
    pub effective: String,
    /// The sign of it seen from inside before the program started, such as `Seccomp: 2, 1 filter`.
    pub proof: Option<String>,
    /// The reason why less than requested is in force, when the policy allows less.
    pub degraded: Option<String>,
}

/// The end of the command itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// An end by exit(2), with this status.
    Exited(u8),
    /// An end by this signal.
    Signaled(i32),
    /// An end that was not seen: the command was still running when the jail was ended, or died with it.
    Unknown,
}

/// The limit that ended the jail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The kernel's memory killer acted in the jail's group.
    Memory,
    /// A task could not be made.
    Pids,
    /// Too much on stdout and stderr.
    Output,
    /// `SIGXFSZ` ended the command.
    FileSize,
    /// The wall clock.
    Wall,
    /// The CPU time of the tree.
    CpuTime,
}

/// A limit that refused something, or cost a process, and that the run went on after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetLimit {
    /// The limit.
    pub limit: Limit,
    /// Times: tasks refused, processes killed for memory, writes cut.
    pub count: u64,
    /// The time from release by which the first of them had happened.
    pub after: Duration,
}

/// The resources that the tree used. `None` where the kernel does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// From release to the end.
    pub wall: Duration,
    /// User time.
    pub user: Option<Duration>,
    /// System time.
    pub system: Option<Duration>,
    /// Time in which the tree wanted to run and its share was used up.
    pub throttled: Option<Duration>,
    /// Bytes.
    pub memory_peak: Option<u64>,
    /// Bytes.
    pub swap_peak: Option<u64>,
    /// Tasks at once.
    pub pids_peak: Option<u64>,
    /// Processes that the kernel's memory killer ended.
    pub oom_kills: u64,
    /// Bytes read from block devices, by the processes that somebody waited for.
    pub io_read: Option<u64>,
    /// Bytes written to block devices, by the same.
    pub io_written: Option<u64>,
    /// Times one of the same gave up its CPU or lost it.
    pub context_switches: Option<u64>,
}

/// The fill level of the side of the workspace that takes the writes, after the end of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes in use, in whole pages.
    pub bytes: u64,
    /// The most bytes.
    pub most_bytes: u64,
    /// Files, directories, and names beside the first of a file.
    pub files: u64,
    /// The most of these.
    pub most_files: u64,
}

impl Written {
    /// True when it can take no more of one or the other, so that writes fail with `ENOSPC`.
    pub fn is_full(&self) -> bool {
        self.bytes >= self.most_bytes || self.files >= self.most_files
    }
}

/// One difference of the overlay's upper side to the caller's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Relative to the working directory; elsewhere in a tree that takes writes, absolute.
    pub path: Vec<u8>,
    /// The kind of change.
    pub change: Change,
    /// Bytes, for regular files that are still there.
    pub size: Option<u64>,
    /// Of the content, lower-case hex, for regular files that are still there and not over the size bound.
    pub sha256: Option<String>,
    /// The fate of the content of a file that was there.
    pub content: ContentFate,
    /// True for a file that was there, says something else now, and bears the time of its last change from before.
    pub backdated: bool,
}

/// The fate of the content of a file that was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentFate {
    /// As if it had been encrypted: it had a structure before, and has none now.
    Scrambled,
    /// The same, or one in which half of the words are still there, as after a formatter.
    Kept,
    /// Another one, which says nothing of what it said.
    Replaced,
    /// The file was not there, is not there any more, or was not compared.
    #[default]
    Unknown,
}

/// A kind of change to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The file was not there before.
    Added,
    /// Content or metadata differs, or was copied up to be written.
    Modified,
    /// The file is gone.
    Deleted,
}
