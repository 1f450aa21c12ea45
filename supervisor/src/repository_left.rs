//! The repository around a workspace that is a directory of it: git inside finds none.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use turnkey_report::{Exit, Report, escape};

use crate::directory::RunDirectory;
use crate::missing_hint::has_failed_by_itself;

/// The directory by which git knows a repository.
const MARK: &str = ".git";
/// The exit code of git where it finds none.
const FATAL: u8 = 128;

/// Notes it in the report of a program that failed, and git in it, where a flag would have brought it: for the caller's own directory.
pub fn note(report: &mut Report, directory: &RunDirectory) {
    let mut processes = report.processes.iter();
    let git_failed =
        processes.any(|process| process.comm == "git" && process.exit == Some(Exit::Code(FATAL)));
    if has_failed_by_itself(report) && git_failed {
        report.repository_left = around(directory);
    }
}

fn around(directory: &RunDirectory) -> Option<String> {
    let workdir = directory.canonical().ok()?;
    let is_own = std::env::current_dir().is_ok_and(|current| current == workdir);
    let is_one = |place: &Path| place.join(MARK).symlink_metadata().is_ok();
    if !is_own || is_one(&workdir) {
        return None;
    }
    let root = workdir.ancestors().find(|above| is_one(above))?;
    let can_be_shown = root.parent().is_some();
    can_be_shown.then(|| escape(root.as_os_str().as_bytes()))
}
