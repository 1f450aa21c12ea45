//! Words on what a run leaves behind unseen: files that are thrown away, and processes that are ended.

use std::collections::BTreeSet;

use crate::model::{Change, ChangedFile, Exit, Process, Report, Status};
use crate::text::{quote, shortened};

/// Names in one line.
const NAMED: usize = 3;
/// Characters of a name.
const LONGEST: usize = 60;

/// A line on writes in the workspace's overlay, which nobody exported, and one on those in the rest of the tree.
pub fn thrown_away(report: &Report) -> impl Iterator<Item = String> {
    let is_kept = report
        .kept
        .as_ref()
        .is_some_and(|kept| kept.error.is_none());
    let files = match is_kept {
        true => Vec::new(),
        false => written(&report.files_changed),
    };
    let (elsewhere, workspace): (Vec<&str>, Vec<&str>) =
        files.into_iter().partition(|path| path.starts_with('/'));
    let more = report.omitted.files_changed;
    let added = report.files_changed.iter();
    let added = added.filter(|one| one.change == Change::Added);
    let added: BTreeSet<&str> = added.map(|one| one.path.as_str()).collect();
    let kept = report.export.is_some();
    let places = [
        (
            workspace,
            !kept,
            "in /workspace ",
            "; keep them with run --export DIR",
        ),
        (elsewhere, true, "", "; keep them with run --keep NAME"),
    ];
    let lines = places.into_iter().filter(|(_, is_told, ..)| *is_told);
    let lines = lines.filter_map(move |(files, _, place, fix)| {
        let count = count(&files, more)?;
        let names = named(&files, more > 0);
        // Of what was there, no more is known than that something of it is another.
        let is_new = |path: &&str| added.contains(path);
        let how = match files.iter().all(is_new) {
            true => "written",
            false => "written or changed",
        };
        Some(format!(
            "{count} {how} {place}and thrown away: {names}{fix}"
        ))
    });
    lines.chain(
        (!is_kept)
            .then(|| deleted(&report.files_changed))
            .and_then(|files| {
                let count = counted(&files, more, ["file or directory", "files or directories"])?;
                let names = named(&files, more > 0);
                Some(format!(
                    "{count} deleted in the jail, and still there outside: {names}"
                ))
            }),
    )
}

fn count(files: &[&str], more: u64) -> Option<String> {
    counted(files, more, ["file", "files"])
}

fn counted(files: &[&str], more: u64, [one, many]: [&str; 2]) -> Option<String> {
    match (files.len(), more) {
        (0, _) => None,
        (1, 0) => Some(format!("1 {one}")),
        (count, 0) => Some(format!("{count} {many}")),
        (count, _) => Some(format!("more than {count} {many}")),
    }
}

/// The deleted files and directories; what a deleted directory held is deleted with it.
fn deleted(changed: &[ChangedFile]) -> Vec<&str> {
    let gone = changed.iter().filter(|one| one.change == Change::Deleted);
    let gone: BTreeSet<&str> = gone.map(|one| one.path.as_str()).collect();
    let is_within = |path: &str| {
        let mut slashes = path.match_indices('/');
        slashes.any(|(at, _)| gone.contains(&path[..at]))
    };
    gone.iter()
        .copied()
        .filter(|path| !is_within(path))
        .collect()
}

/// Without the directories that hold others of them: who makes `d/x` hardly asks for `d`.
fn written(changed: &[ChangedFile]) -> Vec<&str> {
    let is_written = |one: &&ChangedFile| match one.change {
        Change::Added => true,
        // A directory is modified by what is made in it.
        Change::Modified => one.size.is_some(),
        Change::Deleted => false,
    };
    let mut paths: Vec<&str> = changed.iter().map(|one| one.path.as_str()).collect();
    paths.sort_unstable();
    let holds_another = |path: &str| {
        let below = format!("{path}/");
        let next = paths.partition_point(|other| *other < below.as_str());
        paths
            .get(next)
            .is_some_and(|other| other.starts_with(&below))
    };
    let written = changed.iter().filter(is_written);
    let written = written.map(|one| one.path.as_str());
    written.filter(|path| !holds_another(path)).collect()
}

/// A line on processes that outlived the command, and were ended with the jail.
pub fn still_running(report: &Report) -> Option<String> {
    // Who is ended by a rule or a limit is told so, with all that belongs to them.
    if !matches!(report.status, Status::Exited | Status::Signaled) {
        return None;
    }
    let command = report.processes.first()?;
    // Only the last image of a process has an end of its own.
    let is_end = |one: &&Process| one.pid == command.pid && one.exit.is_some();
    let end = report.processes.iter().find(is_end)?.end.as_deref()?;
    // Who is ended meets the signal of that end, and not before the command met its own. Times of one
    // run are of one form, so that they are in the order of their texts.
    let ended = |one: &&Process| {
        let killed = matches!(one.exit, Some(Exit::Signal(libc::SIGKILL)));
        killed && one.pid != command.pid && one.end.as_deref().is_some_and(|other| other >= end)
    };
    let names: Vec<&str> = report
        .processes
        .iter()
        .filter(ended)
        .map(|one| one.comm.as_str())
        .collect();
    let were = match names.len() {
        0 => return None,
        1 => "1 process was".to_owned(),
        count => format!("{count} processes were"),
    };
    let names = named(&names, false);
    Some(format!(
        "{were} still running when the command ended, and ended with it: {names}"
    ))
}

/// The first few, each no longer than a line has room for.
fn named(names: &[&str], more: bool) -> String {
    let few = names
        .iter()
        .take(NAMED)
        .map(|name| shortened(&quote(name), LONGEST));
    let mut words: Vec<String> = few.collect();
    if more || names.len() > NAMED {
        words.push("…".to_owned());
    }
    words.join(", ")
}
