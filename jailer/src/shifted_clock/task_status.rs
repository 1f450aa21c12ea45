//! One followed task as /proc shows it, proc_pid_status(5): its process, its numbers, its signals.

use crate::kernel_file;

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

/// The whole text; empty for a task that is gone.
pub fn status(task: libc::pid_t) -> String {
    kernel_file::read(format!("/proc/{task}/status")).unwrap_or_default()
}

/// A line's value, by its name with the colon.
pub fn value<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(name))?;
    Some(value.trim())
}

fn is_among(status: &str, set: &str, signal: i32) -> Option<bool> {
    let set = u64::from_str_radix(value(status, set)?, 16).ok()?;
    let bit = u32::try_from(signal - 1).ok()?;
    Some(set.checked_shr(bit).unwrap_or_default() & 1 == 1)
}
