//! Attempts that a layer of the jail stopped and no rule decided on.

use std::net::SocketAddr;
use std::path::Path;

use super::{on_words, use_of};
use crate::act::Object;
use crate::advice;
use crate::model::{
    self, FileOperation, NetworkAttempt, Process, RefusedCall, Report, SocketType, Status,
};
use crate::peers;
use crate::stopper::Stopper;
use turnkey_policy::{AttemptKind, address, syscalls};

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
    /// The call that the program did without: it ended well.
    pub done_without: Option<&'r str>,
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

/// The attempts that a program may have failed of.
pub fn that_matter<'r>(rows: Vec<Blocked<'r>>) -> impl Iterator<Item = Blocked<'r>> {
    rows.into_iter().filter(|row| row.done_without.is_none())
}

/// One line on calls that the program did without: whoever ended well needs no advice.
pub fn done_without(rows: &[Blocked<'_>]) -> Option<String> {
    let named = rows.iter().filter_map(|row| {
        let name = row.done_without?;
        Some(match row.count {
            1 => name.to_owned(),
            count => format!("{name} ({count} times)"),
        })
    });
    let mut named: Vec<String> = named.collect();
    if named.is_empty() {
        return None;
    }
    let more = named.len().saturating_sub(NAMED);
    named.truncate(NAMED);
    let named = named.join(", ");
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "refused, and the program did without: {named}{more}; --report FILE tells more"
    ))
}

/// Calls that are named in one line.
const NAMED: usize = 5;

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
            done_without: None,
        })
    }

    fn network(report: &'r Report, row: &NetworkAttempt) -> Option<Self> {
        let stopped_by = row
            .stopped_by
            .filter(|stopper| row.rule.is_none() && is_telling(*stopper))?;
        if is_ordering(row) && (has_ended_well(report) || is_every_address(row)) {
            return None;
        }
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
            done_without: None,
        })
    }

    /// Calls that the filter hides from a program with another error than `EPERM`, programs do without; but a program that failed may
    /// have done so for a kind of socket, or for the last call that it was refused. Nor did it fail of one that it went on after by
    /// another way, as watchers of files do.
    fn call(report: &'r Report, row: &'r RefusedCall) -> Option<Self> {
        let stopped_by = row
            .stopped_by
            .filter(|_| row.rule.is_none() && !has_gone_on(report, row))?;
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
            done_without: has_ended_well(report).then_some(row.syscall.as_str()),
        })
    }
}

/// True for a connect by which the C library puts addresses of the jail itself in order, and sends nothing.
fn is_ordering(row: &NetworkAttempt) -> bool {
    let peer = row.address.parse::<SocketAddr>();
    row.act == AttemptKind::Connect
        && row.socket == Some(SocketType::Datagram)
        && peer.is_ok_and(|peer| address::is_own(peer.ip()))
}

/// True for an address at which a server waits and that nobody sends to.
fn is_every_address(row: &NetworkAttempt) -> bool {
    let peer = row.address.parse::<SocketAddr>();
    peer.is_ok_and(|peer| peer.ip().is_unspecified())
}

/// The layer that refused a call, or these arguments of it.
fn words(stopped_by: Stopper, for_arguments: bool) -> &'static str {
    match for_arguments {
        true => "seccomp: it refuses these arguments of that syscall",
        false => stopped_by.words(),
    }
}

/// Calls for whose effect programs have another way, and take it when they are refused: watchers of files have inotify(7).
const OTHER_WAYS: [&str; 1] = ["fanotify_init"];

/// True for one of [`OTHER_WAYS`] after which the same program went on with other files.
fn has_gone_on(report: &Report, row: &RefusedCall) -> bool {
    let opened_later = |file: &FileOperation| {
        file.first_exec_id == row.first_exec_id
            && file.result == model::Result::Allowed
            && file.first_time > row.last_time
    };
    OTHER_WAYS.contains(&row.syscall.as_str()) && report.file_operations.iter().any(opened_later)
}

fn has_ended_well(report: &Report) -> bool {
    report.status == Status::Exited && report.exit_code == Some(0)
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

/// True for settings of a process's own in /proc, which is read-only: every JVM tries to write the one of its core dumps, C libraries the
/// names of threads, browsers who is ended first when memory is short, and all do without. So do libraries without the system's caches
/// and Python without those of its modules, which they try to make; a program that failed may have needed them.
fn is_in_passing(path: &str, report: &Report) -> bool {
    let place = Path::new(path);
    let is_cache = place.starts_with("/var/cache")
        || place
            .components()
            .any(|part| part.as_os_str() == "__pycache__");
    is_own_setting(path) || is_cache && !has_failed(report)
}

fn is_own_setting(path: &str) -> bool {
    const SETTINGS: [&str; 4] = ["comm", "coredump_filter", "oom_score_adj", "timerslack_ns"];
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["", "proc", "self" | "thread-self", setting]
        | ["", "proc", "self", "task", _, setting] => SETTINGS.contains(setting),
        _ => false,
    }
}

/// The words for it.
pub const UNREADABLE: &str = "(a path that could not be read)";

/// Programs look for files that are not there and try what they may not all day long; only what
/// a layer refused although it is there is worth a block.
fn is_telling(stopper: Stopper) -> bool {
    !matches!(stopper, Stopper::MountNamespace | Stopper::FilePermissions)
}
