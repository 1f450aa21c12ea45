//! The processes that are in a group before turnkey is: what they execute, and what they hold open.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use turnkey_policy::syscalls;
use turnkey_report::{FoundProcess, KnownProcess, OngoingCall, escape};

/// Most processes in a report, and most descriptors of each.
const MOST: usize = 100;

/// A process that was there, for the report and for the tree of processes.
pub struct SurveyedProcess {
    /// For the list of what was found.
    pub found: FoundProcess,
    /// For the tree of processes; `None` for a process that had ended meanwhile.
    pub known: Option<KnownProcess>,
}

/// The processes with these ids, as /proc tells: the first [`MOST`], in the order of their ids.
pub fn survey(mut pids: Vec<u32>) -> Vec<SurveyedProcess> {
    pids.sort_unstable();
    pids.into_iter().take(MOST).map(surveyed).collect()
}

fn surveyed(pid: u32) -> SurveyedProcess {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let living = living(&process);
    let executable = std::fs::read_link(living.join("exe")).ok();
    let executable = executable.map(|path| path.into_os_string().into_vec());
    let (open, open_count) = descriptors(&living.join("fd"));
    let (calls, thread_count) = calls(&process.join("task"));
    SurveyedProcess {
        found: FoundProcess {
            pid,
            executable: executable.as_deref().map(escape),
            open,
            open_count,
            calls,
            thread_count,
        },
        known: known(&process, pid, executable),
    }
}

/// The directory of a thread that has what the process has: a first thread that has ended has neither memory nor descriptors.
fn living(process: &Path) -> PathBuf {
    let has_memory = |thread: &PathBuf| std::fs::read_link(thread.join("exe")).is_ok();
    let first = process.to_owned();
    if has_memory(&first) {
        return first;
    }
    let threads = std::fs::read_dir(process.join("task"))
        .into_iter()
        .flatten()
        .flatten();
    let mut threads = threads.map(|thread| thread.path());
    threads.find(has_memory).unwrap_or(first)
}

/// The process by proc_pid_stat(5), proc_pid_status(5) and proc_pid_cmdline(5); `None` when it has ended.
#[expect(clippy::disallowed_methods, reason = "of /proc")]
fn known(process: &Path, pid: u32, executable: Option<Vec<u8>>) -> Option<KnownProcess> {
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    let (comm, start_ticks) = of_stat(&std::fs::read(process.join("stat")).ok()?)?;
    let arguments = std::fs::read(process.join("cmdline")).ok()?;
    Some(KnownProcess {
        pid,
        jail_pid: innermost(&status).unwrap_or(pid),
        start_ticks,
        comm,
        executable,
        argv: arguments_in(&arguments),
    })
}

/// Nanoseconds in a tick of /proc: `USER_HZ` is 100.
pub const TICK_NS: u64 = 10_000_000;

/// The start of the process that has this id now, in ticks since boot; `None` when none has.
#[expect(clippy::disallowed_methods, reason = "of /proc")]
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    of_stat(&stat).map(|(_, start)| start)
}

/// The name, which stands in parentheses and may hold any of them, and the 22nd field.
fn of_stat(stat: &[u8]) -> Option<(Vec<u8>, u64)> {
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let name = stat.get(open + 1..close)?.to_vec();
    // The third field is the first behind the name.
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let start = rest.split_ascii_whitespace().nth(22 - 3)?;
    Some((name, start.parse().ok()?))
}

/// The last id of the line `NSpid`: that in the innermost namespace.
fn innermost(status: &str) -> Option<u32> {
    let mut lines = status.lines();
    let ids = lines.find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_ascii_whitespace().next_back()?.parse().ok()
}

/// Arguments end in a zero each.
fn arguments_in(bytes: &[u8]) -> Vec<Vec<u8>> {
    let whole = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    match whole {
        [] => Vec::new(),
        whole => whole.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect(),
    }
}

/// The numbers that are names in a directory, in their order.
fn numbers(directory: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// The texts of the links in such a directory, at most [`MOST`]: those of sockets first, then those of files that rules may be about;
/// and the number of links.
fn descriptors(directory: &Path) -> (Vec<String>, u64) {
    let links = numbers(directory).into_iter().filter_map(|number| {
        let text = std::fs::read_link(directory.join(number.to_string())).ok()?;
        Some((number, escape(text.as_os_str().as_bytes())))
    });
    let mut links: Vec<(u32, String)> = links.collect();
    let count = links.len() as u64;
    links.sort_by_key(|(number, link)| rank(*number, link));
    links.truncate(MOST);
    (links.into_iter().map(|(_, link)| link).collect(), count)
}

/// The place of a link among the others of its process: every process has the standard streams, and /dev/null often.
fn rank(number: u32, link: &str) -> u8 {
    const LAST_STREAM: u32 = 2;
    match link {
        _ if link.starts_with("socket:") => 0,
        _ if number <= LAST_STREAM => 3,
        _ if link.starts_with('/') && !link.starts_with("/dev/") => 1,
        _ => 2,
    }
}

/// The system calls that threads wait in, in the order of the threads, of which [`MOST`] are asked: such a call may have begun before. And
/// the number of threads.
#[expect(clippy::disallowed_methods, reason = "of /proc")]
fn calls(threads: &Path) -> (Vec<OngoingCall>, u64) {
    let all = numbers(threads);
    let count = all.len() as u64;
    let called = all.into_iter().take(MOST).filter_map(|thread| {
        let text =
            std::fs::read_to_string(threads.join(thread.to_string()).join("syscall")).ok()?;
        ongoing(thread, &text)
    });
    (called.collect(), count)
}

/// The call of a thread by proc_pid_syscall(5): the number and six arguments, `running` for a thread that does not wait, and -1 for one that
/// waits in no call.
fn ongoing(thread: u32, text: &str) -> Option<OngoingCall> {
    let mut fields = text.split_ascii_whitespace();
    let number: u32 = fields.next()?.parse().ok()?;
    let name = syscalls::name(number).map_or_else(|| format!("syscall {number}"), str::to_owned);
    Some(OngoingCall {
        thread,
        call: name,
        arguments: fields.take(6).map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_what_the_format_is_made_of() {
        let stat = b"42 (a) S (b) R 1 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
        assert_eq!(of_stat(stat), Some((b"a) S (b".to_vec(), 987_654)));
        assert_eq!(of_stat(b"42 (a"), None);
    }

    #[test]
    fn this_process_is_known_as_it_is() {
        let me = surveyed(std::process::id());
        let known = me.known.expect("it lives");
        let own: Vec<Vec<u8>> = std::env::args_os().map(OsStringExt::into_vec).collect();
        assert_eq!(known.argv, own);
        assert_eq!(
            known.executable,
            std::env::current_exe()
                .ok()
                .map(|path| path.into_os_string().into_vec())
        );
        assert!(known.start_ticks > 0);
    }

    #[test]
    fn sockets_come_first_and_the_rest_is_counted() {
        let place = tempfile::tempdir().unwrap();
        let link = |number: u32, aim: &str| {
            std::os::unix::fs::symlink(aim, place.path().join(number.to_string())).unwrap();
        };
        (0..150).for_each(|number| link(number, "/dev/null"));
        link(150, "socket:[7]");
        let (open, count) = descriptors(place.path());
        assert_eq!((open.len(), count), (MOST, 151));
        assert_eq!(open[..2], ["socket:[7]", "/dev/null"]);
    }

    #[test]
    fn files_come_before_the_standard_streams() {
        let place = tempfile::tempdir().unwrap();
        let aims = [
            "/var/log/out",
            "pipe:[1]",
            "socket:[2]",
            "/dev/null",
            "/etc/shadow",
            "socket:[5]",
        ];
        for (number, aim) in aims.iter().enumerate() {
            std::os::unix::fs::symlink(aim, place.path().join(number.to_string())).unwrap();
        }
        let (open, _) = descriptors(place.path());
        let expected = [
            "socket:[2]",
            "socket:[5]",
            "/etc/shadow",
            "/dev/null",
            "/var/log/out",
            "pipe:[1]",
        ];
        assert_eq!(open, expected);
    }

    #[test]
    fn a_thread_that_waits_is_in_a_call() {
        let waits = ongoing(7, "0 0x3 0x7ffd 0x400 0x0 0x0 0x0 0x7ffc 0x7f3b\n").unwrap();
        assert_eq!((waits.thread, waits.call.as_str()), (7, "read"));
        assert_eq!(
            waits.arguments,
            ["0x3", "0x7ffd", "0x400", "0x0", "0x0", "0x0"]
        );
        assert_eq!(ongoing(7, "running\n"), None);
        assert_eq!(ongoing(7, "-1 0x7ffc 0x7f3b\n"), None);
    }

    #[test]
    fn the_innermost_id_is_the_last() {
        assert_eq!(innermost("Name:\tx\nNSpid:\t4711\t12\t1\n"), Some(1));
        assert_eq!(innermost("Name:\tx\n"), None);
    }
}
