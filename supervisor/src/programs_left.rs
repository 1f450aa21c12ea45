//! Programs of the caller's PATH that a program which failed was to start, and that the jail does not have: a toolchain brings in
//! what the command itself needs, and nothing for what a shell, make or npm starts in its turn.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use turnkey_jailer::plan::DEFAULT_PATH;
use turnkey_policy::Policy;
use turnkey_report::{Exit, FileAccess, LeftProgram, Report, escape};

use crate::directory::RunDirectory;
use crate::missing_hint::has_failed_by_itself;
use crate::toolchain::{self, CallerPaths};

/// Programs told at most.
const MOST: usize = 2;
/// Names that are looked up at most.
const NAMES: usize = 256;
/// The code of a shell, or the copy of itself that was to become a command, for a name that no directory of PATH has: sh(1p).
const NOT_FOUND: u8 = 127;

/// Notes them.
pub fn note(report: &mut Report, policy: &Policy, directory: &RunDirectory) {
    if !has_failed_by_itself(report) || policy.filesystem.root.is_some() {
        return;
    }
    let path = search_path(policy).to_owned();
    let caller = CallerPaths::new(&directory.environment);
    let names = names(report, &path);
    let missing = names.iter().filter(|name| !is_inside(name, &path, policy));
    let left = missing.filter_map(|name| left(name, &path, policy, directory, &caller));
    let left: Vec<LeftProgram> = left.take(MOST).collect();
    report.programs_left = left;
}

fn search_path(policy: &Policy) -> &str {
    let set = policy.environment.set.get("PATH");
    set.map_or(DEFAULT_PATH, String::as_str)
}

/// Names that were looked up in vain: those that execve(2) was given; and those that stat(2) was asked about, as a shell does that runs
/// a command, where one ended as it does without it.
fn names(report: &Report, path: &str) -> BTreeSet<String> {
    let directories: Vec<&Path> = path.split(':').map(Path::new).collect();
    let mut processes = report.processes.iter();
    let is_missed = processes.any(|process| process.exit == Some(Exit::Code(NOT_FOUND)));
    let tried = report.file_operations.iter().filter(|row| {
        let looks = row.access.contains(&FileAccess::Stat) && is_missed;
        row.errno.as_deref() == Some("ENOENT")
            && (looks || row.access.contains(&FileAccess::Execute))
    });
    let tried = tried.filter_map(|row| {
        let path = Path::new(row.path.as_deref()?);
        let is_searched = directories.contains(&path.parent()?);
        Some(path.file_name()?.to_str()?.to_owned()).filter(|_| is_searched)
    });
    tried.take(NAMES).collect()
}

/// True when a directory of the jail's PATH has it.
fn is_inside(name: &str, path: &str, policy: &Policy) -> bool {
    let mut files = path.split(':').map(|place| Path::new(place).join(name));
    files.any(|file| policy.filesystem.shows(&file) && file.exists())
}

fn left(
    name: &str,
    path: &str,
    policy: &Policy,
    directory: &RunDirectory,
    caller: &CallerPaths,
) -> Option<LeftProgram> {
    let found = toolchain::find_required(policy, OsStr::new(name), directory, caller);
    let need = found.ok()??;
    let front = need.directories.iter().map(|place| place.to_string_lossy());
    let search: Vec<_> = front.chain([path.into()]).collect();
    let read = need.prefixes.iter();
    let read: Vec<String> = read
        .map(|prefix| escape(prefix.as_os_str().as_bytes()))
        .collect();
    (!read.is_empty()).then(|| LeftProgram {
        name: name.to_owned(),
        read,
        search: search.join(":"),
    })
}
