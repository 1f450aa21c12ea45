//! Attempts that a layer of the jail stopped and no rule decided on.

use std::path::Path;

use super::{on_words, use_of};
use crate::act::Object;
use crate::advice;
use crate::model::{FileOperation, NetworkAttempt, Process, RefusedCall, Report, Status};
use crate::peers;
use crate::stopper::Stopper;
use turnkey_policy::syscalls;

/// An operation of that kind.
pub struct Blocked<'r> {
    /// The act and its object, in words.
    pub what: String,
    /// The number of attempts.
    pub count: u64,
    /// The process that did so first, where it is known.
    pub process: Option<&'r Process>,
    /// The layer, in words.
    pub stopped_by: &'static str,
    /// The advice, where there is some.
    pub advice: Option<String>,
    /// For a file.
    pub path: Option<&'r str>,
}

/// All that is worth telling, files first.
pub fn all(report: &Report) -> Vec<Blocked<'_>> {
    let files = report.file_operations.iter();
    let files = files.filter_map(|row| Blocked::file(report, row));
    let addresses = report.network_attempts.iter();
    let addresses =
        addresses.filter(|row| !peers::is_told_by_name(report, row) && !peers::is_nobody(row));
    let addresses = addresses.filter_map(|row| Blocked::network(report, row));
    let calls = report.refused_calls.iter();
    let calls = calls.filter_map(|row| Blocked::call(report, row));
    files.chain(addresses).chain(calls).collect()
}

/// The row of `processes` with this number.
fn process(report: &Report, exec_id: Option<u32>) -> Option<&Process> {
    let processes = &mut report.processes.iter();
    processes.find(|process| Some(process.exec_id) == exec_id)
}

impl<'r> Blocked<'r> {
    fn file(report: &'r Report, row: &'r FileOperation) -> Option<Self> {
        let stopped_by = row
            .stopped_by
            .filter(|stopper| row.rule.is_none() && is_telling(*stopper))?;
        let path = row.path.as_deref();
        if path.is_some_and(|path| is_in_passing(path, report)) {
            return None;
        }
        let process = process(report, row.first_exec_id);
        Some(Self {
            what: format!("{} {}", use_of(&row.access), path.unwrap_or(UNREADABLE)),
            count: row.count,
            process,
            stopped_by: words(stopped_by, row.for_arguments),
            advice: row.advice.clone(),
            path,
        })
    }

    fn network(report: &'r Report, row: &NetworkAttempt) -> Option<Self> {
        let stopped_by = row
            .stopped_by
            .filter(|stopper| row.rule.is_none() && is_telling(*stopper))?;
        let object = Object::Address {
            address: row.address.clone(),
            socket: row.socket,
            name: row.name.clone(),
        };
        let process = process(report, row.first_exec_id);
        // A jail reaches no name server: the names of hosts are looked up for it.
        let advice = if peers::is_name_server(&row.address) {
            let argv = process.map_or(&[][..], |process| &process.argv);
            Some(peers::to_allow(argv, &peers::names(row)))
        } else {
            advice::for_layer(stopped_by, &object, None)
        };
        let what = match &row.name {
            Some(name) => peers::looking_up(name, &row.address),
            None => format!("{} {}", on_words(row.act), row.address),
        };
        Some(Self {
            what,
            count: row.count,
            process,
            stopped_by: peers::words(stopped_by, &row.address),
            advice,
            path: None,
        })
    }

    /// Calls that the filter hides from a program with another error than `EPERM`, programs do without; but a program that failed may
    /// have done so for a kind of socket, or for the last call that it was refused.
    fn call(report: &'r Report, row: &RefusedCall) -> Option<Self> {
        let stopped_by = row.stopped_by.filter(|_| row.rule.is_none())?;
        let may_have_ended =
            || has_failed(report) && (row.syscall == "socket" || is_last_refused(report, row));
        let counts = |errno: &&str| *errno == "EPERM" || may_have_ended();
        let errno = row.errno.as_deref().filter(counts)?;
        let process = process(report, row.first_exec_id);
        Some(Self {
            what: format!("calling {} ({errno})", row.syscall),
            count: row.count,
            process,
            stopped_by: words(stopped_by, row.for_arguments),
            advice: row.advice.clone(),
            path: None,
        })
    }
}

/// The layer that refused a call, or these arguments of it.
fn words(stopped_by: Stopper, for_arguments: bool) -> &'static str {
    match for_arguments {
        true => "seccomp: it refuses these arguments of that syscall",
        false => stopped_by.words(),
    }
}

/// True when the program ended by itself, and says or shows that something was wrong.
fn has_failed(report: &Report) -> bool {
    match report.status {
        Status::Exited => report.exit_code.is_some_and(|code| code != 0),
        Status::Signaled => true,
        _ => false,
    }
}

/// True for what nothing was refused after, unless it is a call that C libraries fall back from.
fn is_last_refused(report: &Report, row: &RefusedCall) -> bool {
    let name = row.syscall.as_str();
    let has_fallback = name == "clone3" || syscalls::ABSENT_WITHOUT_SET_ID.contains(&name);
    let mut rows = report.refused_calls.iter();
    !has_fallback && rows.all(|other| other.last_time <= row.last_time)
}

/// True for the setting of a process's own core dumps, which no jail makes: every JVM tries to write it, and does without. So do libraries
/// without the system's caches, which they try to make; a program that failed may have needed them.
fn is_in_passing(path: &str, report: &Report) -> bool {
    let is_cache = Path::new(path).starts_with("/var/cache");
    path == "/proc/self/coredump_filter" || is_cache && !has_failed(report)
}

/// The words for it.
pub const UNREADABLE: &str = "(a path that could not be read)";

/// Programs look for files that are not there and try what they may not all day long; only what
/// a layer refused although it is there is worth a block.
fn is_telling(stopper: Stopper) -> bool {
    !matches!(stopper, Stopper::MountNamespace | Stopper::FilePermissions)
}
