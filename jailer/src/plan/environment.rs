//! The program's environment, and where in the jail the program may be.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use turnkey_policy::{NamedLimits, Policy};

use super::PlanError;

/// The directories a command is looked up in when the policy sets no PATH.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The variables that pass from the caller, then those that the policy sets, which win.
pub(super) fn environment(
    policy: &Policy,
    caller: &[(OsString, OsString)],
    cpus: usize,
) -> Vec<OsString> {
    let limits = NamedLimits::of_jail(policy.limits.memory, policy.limits.cpu, cpus);
    let set = &policy.environment.set;
    let passes = |name: &OsStr| {
        let named = |pass: &String| name == OsStr::new(pass);
        policy.environment.pass.iter().any(named) && !set.keys().any(|key| name == OsStr::new(key))
    };
    let passed = caller
        .iter()
        .filter(|(name, _)| passes(name))
        .map(|(name, value)| variable(name, value));
    let fixed = set.iter().map(|(name, value)| {
        let filled = turnkey_policy::filled(value, limits);
        // What is none was refused when it was read.
        let filled = filled.as_ref().unwrap_or(value);
        variable(OsStr::new(name), OsStr::new(filled))
    });
    passed.chain(fixed).collect()
}

fn variable(name: &OsStr, value: &OsStr) -> OsString {
    let mut variable = name.to_owned();
    variable.push("=");
    variable.push(value);
    variable
}

/// The paths at which the program may be inside: a name with a slash is itself, relative ones below the
/// directory in which it starts; any other is looked up in the jail's PATH, as execvp(3) would.
pub(super) fn candidates(
    arguments: &[OsString],
    environment: &[OsString],
    start: &Path,
) -> Result<Vec<PathBuf>, PlanError> {
    let program = arguments
        .first()
        .filter(|program| !program.is_empty())
        .ok_or(PlanError::EmptyCommand)?;
    if program.as_bytes().contains(&b'/') {
        return Ok(vec![lexically_normal(&start.join(program))]);
    }
    let path = environment
        .iter()
        .find_map(|variable| variable.as_bytes().strip_prefix(b"PATH="));
    let path = path.unwrap_or(DEFAULT_PATH.as_bytes());
    let directories = path
        .split(|byte| *byte == b':')
        .filter(|directory| directory.starts_with(b"/"));
    Ok(directories
        .map(|directory| Path::new(OsStr::from_bytes(directory)).join(program))
        .collect())
}

/// Without `.` components; `..` stays, because what is above a symlink is not known here.
fn lexically_normal(path: &Path) -> PathBuf {
    path.components()
        .filter(|component| *component != Component::CurDir)
        .collect()
}
