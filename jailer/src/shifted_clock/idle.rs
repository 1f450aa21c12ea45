//! A look at whether anything of a jail runs: as long as it does, no time goes by that the program could have used.

use std::time::{Duration, Instant};

use crate::kernel_file;

/// The time for which nothing runs in a jail that waits for nobody outside, when nothing more will happen there.
const OF_JAIL: Duration = Duration::from_millis(8);
/// The same in a jail that others answer from outside.
const WITH_OTHERS: Duration = Duration::from_millis(400);

/// The last look at the tasks that wait for no time.
#[derive(Debug)]
pub struct IdleWatch {
    /// The time for which nothing may have run.
    quiet: Duration,
    since: Instant,
    switches: u64,
}

impl IdleWatch {
    /// A watch that knows of no look yet.
    pub fn new(is_answered: bool) -> IdleWatch {
        IdleWatch {
            quiet: if is_answered { WITH_OTHERS } else { OF_JAIL },
            since: Instant::now(),
            switches: u64::MAX,
        }
    }

    /// True when nobody outside of the jail is waited for.
    pub fn is_of_jail(&self) -> bool {
        self.quiet <= OF_JAIL
    }

    /// True when none of these tasks has run for the quiet time, and none is about to. A task that ran gave up its processor, and
    /// that is counted.
    pub fn is_quiet(&mut self, others: impl Iterator<Item = libc::pid_t>) -> bool {
        let mut switches = 0_u64;
        let mut is_asleep = true;
        for task in others {
            // A task that is gone does nothing.
            let status = kernel_file::read(format!("/proc/{task}/status")).unwrap_or_default();
            let value = |name: &str| {
                let mut lines = status.lines();
                lines
                    .find_map(|line| line.strip_prefix(name))
                    .map(str::trim)
            };
            is_asleep &= !value("State:").is_some_and(|state| state.starts_with(['R', 'D', 't']));
            let counted = ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"];
            let counted = counted
                .iter()
                .filter_map(|name| value(name)?.parse::<u64>().ok());
            switches = counted.fold(switches, u64::wrapping_add);
        }
        if !is_asleep || switches != self.switches {
            (self.since, self.switches) = (Instant::now(), switches);
            return false;
        }
        self.since.elapsed() >= self.quiet
    }
}

/// True when a task has a handler for a signal; `true` as well when that cannot be told.
pub fn handles(task: libc::pid_t, signal: i32) -> bool {
    let status = kernel_file::read(format!("/proc/{task}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|caught| u64::from_str_radix(caught.trim(), 16).ok());
    let bit = u32::try_from(signal - 1).unwrap_or_default();
    caught.is_none_or(|caught| caught.checked_shr(bit).unwrap_or_default() & 1 == 1)
}
