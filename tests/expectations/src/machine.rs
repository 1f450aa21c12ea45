//! The names of the machines that `cargo xtask vm` boots; tests/machines/src/machines.rs says what each is.
#![expect(missing_docs, reason = "the names say it")]

/// Booted by `cargo xtask test`: what takes BPF LSM, a pure version 2 of control groups or another kernel to show, as far as that
/// takes no longer than somebody wants to wait.
pub const BY_DAY: &str = "6.12 by day";
pub const ORDINARY_6_12: &str = "6.12";
pub const LSM_6_12: &str = "6.12 lsm";
pub const OBSERVER_6_12: &str = "6.12 observer";
pub const CROWD_6_12: &str = "6.12 crowd";
pub const SYSTEMD_6_12: &str = "6.12 systemd";
pub const PACKAGED_6_12: &str = "6.12 packaged";
pub const MONITOR_6_12: &str = "6.12 monitor";
pub const TRACEPOINT_6_12: &str = "6.12 tracepoint";
pub const WITHOUT_LANDLOCK_6_12: &str = "6.12 without Landlock";
pub const MONITOR_6_1: &str = "6.1 monitor";
pub const TRACEPOINT_6_1: &str = "6.1 tracepoint";
pub const OLDEST_6_1: &str = "6.1";
pub const PREEMPT_6_12: &str = "6.12 preempt";
pub const PREEMPT_6_1: &str = "6.1 preempt";
pub const GENERAL_6_12: &str = "6.12 general";
pub const PROGRAMS_6_12: &str = "6.12 programs";
pub const NEWEST: &str = "newest";
pub const NEWEST_TRACEPOINT: &str = "newest tracepoint";
pub const NEWEST_PREEMPT: &str = "newest preempt";

/// Those with all of the monitor's own tests.
pub const WHOLE_MONITOR: &[&str] = &[MONITOR_6_12, NEWEST, NEWEST_TRACEPOINT];
/// Those with the monitor's tests of what is otherwise on the tracepoint tier, and of what its programs cost there.
pub const BY_TIER: &[&str] = &[TRACEPOINT_6_12, MONITOR_6_1, TRACEPOINT_6_1];
/// Those whose kernel interrupts a task that is in the kernel.
pub const PREEMPT: &[&str] = &[PREEMPT_6_12, PREEMPT_6_1, NEWEST, NEWEST_PREEMPT];
