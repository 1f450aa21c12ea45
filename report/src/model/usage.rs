//! The resources that a run used, and their limits.

use serde::{Deserialize, Serialize};

/// Resources that the whole tree of processes used; `null` where the kernel does not say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Usage {
    /// From the first instruction to the end, without the time in which the machine was suspended.
    pub wall_seconds: f64,
    /// In user mode.
    pub user_seconds: Option<f64>,
    /// In the kernel.
    pub system_seconds: Option<f64>,
    /// Waiting because the share of CPU time was used up.
    pub throttled_seconds: Option<f64>,
    /// At most, at once.
    pub memory_peak_bytes: Option<u64>,
    /// Swapped out, at most, at once.
    pub swap_peak_bytes: Option<u64>,
    /// Tasks, at most, at once.
    pub pids_peak: Option<u64>,
    /// Processes that the kernel's memory killer ended.
    pub oom_kills: u64,
    /// Read from block devices.
    pub io_read_bytes: Option<u64>,
    /// Written to block devices.
    pub io_written_bytes: Option<u64>,
    /// Times a task gave up its CPU or lost it.
    pub context_switches: Option<u64>,
}

/// The limits of the profile, for a look at the usage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Limits {
    /// On the clock.
    pub wall_seconds: f64,
    /// Of CPU time, user and system together.
    pub cpu_seconds: f64,
    /// Of one CPU; 200 is two.
    pub cpu_percent: u32,
    /// Of the whole tree.
    pub memory_bytes: u64,
    /// Swapped out.
    pub swap_bytes: u64,
    /// Tasks at once.
    pub pids: u64,
    /// On standard output and error together.
    pub output_bytes: u64,
    /// In the writable side of the workspace.
    pub disk_bytes: u64,
    /// Of one file.
    pub file_size_bytes: u64,
    /// Descriptors of one process.
    pub open_files: u64,
}
