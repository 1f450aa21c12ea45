//! Process 1 of the test guest. It makes the machine usable, has the tests run by a second copy of
//! itself, reaps whatever loses its parent meanwhile, and powers off.
//!
//! It never recovers: an error ends it, the kernel panics because process 1 is gone, and the host
//! sees that.

mod machine;
mod systemd;
mod tests;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::Pid;

/// The argument that makes this program run the tests instead.
const RUN_TESTS: &str = "run-tests";

/// The same, on a machine whose tests load what they need themselves.
const RUN_TESTS_ALONE: &str = "run-tests-alone";

fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some(RUN_TESTS) => tests::load_monitor().and_then(|()| tests::run()),
        Some(RUN_TESTS_ALONE) => tests::run(),
        _ => be_process_one(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("init: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn be_process_one() -> Result<()> {
    // Read before the initramfs is left behind.
    let tests = std::fs::read(turnkey_guest::TESTS).context("no list of tests")?;
    let systemd_first = Path::new(turnkey_guest::SYSTEMD_FIRST).exists();
    machine::start()?;
    std::fs::write(tests::LIST, tests).context("cannot keep the list of tests")?;
    if systemd_first {
        return systemd::become_it();
    }
    let runner = Command::new("/proc/self/exe")
        .arg(RUN_TESTS)
        .spawn()
        .context("cannot start the tests")?;
    reap_until_end_of(Pid::from_raw(runner.id().cast_signed()))?;
    reboot(RebootMode::RB_POWER_OFF).context("cannot power off")?;
    Ok(())
}

/// Whatever loses its parent becomes a child of process 1.
fn reap_until_end_of(runner: Pid) -> Result<()> {
    loop {
        let status = wait().context("the tests are lost")?;
        match status {
            WaitStatus::Exited(pid, 0) if pid == runner => return Ok(()),
            WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _) if pid == runner => {
                anyhow::bail!("the tests broke off: {status:?}")
            }
            _ => {}
        }
    }
}
