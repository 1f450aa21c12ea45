//! A look at whether anything of a jail runs: as long as it does, no time goes by that the program could have used.

use std::time::{Duration, Instant};

use super::task_status::{status, value};

/// The time for which nothing runs in a jail that waits for nobody outside, when nothing more will happen there. What waits asks the
/// kernel once more meanwhile: it may have been told something at the end of its last slice.
const OF_JAIL: Duration = Duration::from_millis(2);
/// The same in a jail that a thread of turnkey's answers: a packet between the two is on its way for less.
const WITH_THREAD: Duration = Duration::from_millis(20);
/// The same in a jail that others answer from outside.
const WITH_OTHERS: Duration = Duration::from_millis(400);

/// The last look at the tasks that wait for no time.
#[derive(Debug)]
pub struct IdleWatch {
    /// The time for which nothing may have run.
    quiet: Duration,
    /// The thread that answers what is asked in the jail.
    answerer: Option<libc::pid_t>,
    since: Instant,
    switches: u64,
}

impl IdleWatch {
    /// A watch that knows of no look yet.
    pub fn new(is_answered: bool, answerer: Option<libc::pid_t>) -> IdleWatch {
        let quiet = match (is_answered, answerer) {
            (true, _) => WITH_OTHERS,
            (false, Some(_)) => WITH_THREAD,
            (false, None) => OF_JAIL,
        };
        IdleWatch {
            quiet,
            answerer,
            since: Instant::now(),
            switches: u64::MAX,
        }
    }

    /// True when nobody outside of the jail is waited for.
    pub fn is_of_jail(&self) -> bool {
        self.quiet <= OF_JAIL
    }

    /// True when none of these tasks, nor the thread that answers them, has run for the quiet time, and none is about to. A task that
    /// ran gave up its CPU, and that is counted.
    pub fn is_quiet(&mut self, others: impl Iterator<Item = libc::pid_t>) -> bool {
        let mut switches = 0_u64;
        let mut is_asleep = true;
        for task in others.chain(self.answerer) {
            // A task that is gone does nothing.
            let status = status(task);
            let value = |name: &str| value(&status, name);
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
