//! Advice for a command that is not in the jail, or that nothing in the jail can execute.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use turnkey_jailer::paths;
use turnkey_policy::Policy;

use crate::directory::RunDirectory;
use crate::toolchain::{ProgramPlaces, first_line};

/// The advice for a script whose first line names what the jail does not have.
pub fn interpreter(policy: &Policy, program: &OsStr, directory: &RunDirectory) -> Option<String> {
    if policy.filesystem.root.is_some() || !has_slash(program) {
        return None;
    }
    let named = ProgramPlaces::new(policy, directory).on_host(Path::new(program));
    let interpreter = first_line(&named.file)?.interpreter;
    let (named, program) = (interpreter.display(), program.display());
    Some(match interpreter.exists() {
        false => format!(
            "its first line names {named}, which this host does not have either: mend the line, or name an interpreter \
             before it, such as python3 {program}"
        ),
        true => format!(
            "its first line names {named}, which is not in the jail, or lacks its loader there: bring it in with --read"
        ),
    })
}

/// The advice for a relative path that leads out of the workspace: a workspace around both.
pub fn beside_the_workspace(program: &OsStr, directory: &RunDirectory) -> Option<String> {
    if !has_slash(program) || program.as_bytes().starts_with(b"/") {
        return None;
    }
    let workdir = directory.canonical().ok()?;
    let start = workdir.join(directory.start().ok()?);
    let named = start.join(program);
    // Of the program itself the symlink counts: a venv's leads elsewhere.
    named.symlink_metadata().ok()?;
    let place = paths::canonical(named.parent()?).ok()?;
    let around = workdir.ancestors().find(|above| place.starts_with(above))?;
    let is_outside = around != workdir && around.parent().is_some();
    let start = start.strip_prefix(around).ok()?.display();
    is_outside.then(|| {
        format!(
            "it lies outside of the workspace {}: make the directory around both the workspace, with --workdir {} --chdir {start}",
            workdir.display(),
            around.display(),
        )
    })
}

/// The advice for a program of which the host has none either, as far as anybody knows.
pub fn nowhere(policy: &Policy, program: &OsStr) -> String {
    let shown = "the jail holds what the profile's `read` names";
    match policy.environment.set.get("PATH") {
        Some(path) if !has_slash(program) => format!(
            "no directory of its PATH has it ({path}), and {shown}; install the program, or give its path"
        ),
        _ => format!("{shown}; install the program, or give its path"),
    }
}

fn has_slash(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}
