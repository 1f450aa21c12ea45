//! A look at whether anything of a jail runs: as long as it does, no time goes by that the program could have used.

use std::time::{Duration, Instant};

use crate::kernel_file;

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
    /// ran gave up its processor, and that is counted.
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

/// True when a task has a handler for a signal; `true` as well when that cannot be told.
pub fn handles(task: libc::pid_t, signal: i32) -> bool {
    is_among(&status(task), "SigCgt:", signal).unwrap_or(true)
}

/// True when a signal waits for a process, or for the thread itself.
pub fn is_pending(task: libc::pid_t, signal: i32) -> bool {
    let status = status(task);
    let mut sets = ["SigPnd:", "ShdPnd:"].into_iter();
    sets.any(|set| is_among(&status, set, signal) == Some(true))
}

/// True when a signal is about to break off whatever a task waits for.
pub fn is_called(task: libc::pid_t) -> bool {
    let status = status(task);
    let set = |name: &str| u64::from_str_radix(value(&status, name).unwrap_or_default(), 16);
    let set = |name: &str| set(name).unwrap_or_default();
    (set("SigPnd:") | set("ShdPnd:")) & !set("SigBlk:") != 0
}

/// The process of a task.
pub fn process_of(task: libc::pid_t) -> Option<libc::pid_t> {
    value(&status(task), "Tgid:")?.parse().ok()
}

/// The thread of a process that has this number in the jail.
pub fn thread_of(process: libc::pid_t, number: i32) -> Option<libc::pid_t> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let mut threads = threads
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    threads.find(|thread| {
        let status = status(*thread);
        let innermost = value(&status, "NSpid:").and_then(|numbers| numbers.rsplit('\t').next());
        innermost == Some(&number.to_string())
    })
}

fn status(task: libc::pid_t) -> String {
    kernel_file::read(format!("/proc/{task}/status")).unwrap_or_default()
}

fn value<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(name))?;
    Some(value.trim())
}

fn is_among(status: &str, set: &str, signal: i32) -> Option<bool> {
    let set = u64::from_str_radix(value(status, set)?, 16).ok()?;
    let bit = u32::try_from(signal - 1).ok()?;
    Some(set.checked_shr(bit).unwrap_or_default() & 1 == 1)
}
