//! `turnkey attach-guard`, the process that `--required` starts: it kills the group of a watcher that was killed.

use turnkey_supervisor::attachment::guard::GuardProgram;

use crate::failure::Failure;

/// The process that stays behind for `--required`.
pub fn run_guard() -> Result<u8, Failure> {
    turnkey_supervisor::attachment::guard::run_guard()?;
    Ok(0)
}

/// The same program once more, whatever its path leads to by now.
pub fn guard_program() -> GuardProgram {
    GuardProgram(["/proc/self/exe", GUARD].map(Into::into).to_vec())
}

/// The subcommand of it.
const GUARD: &str = "attach-guard";
