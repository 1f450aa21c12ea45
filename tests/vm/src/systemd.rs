//! A machine that systemd runs, as Debian's does: its first process is systemd itself, and the tests are one of its services.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::RUN_TESTS_ALONE;

/// The first process, as Debian has it.
const SYSTEMD: &str = "/usr/lib/systemd/systemd";

/// A copy of this program, where the service finds it: the initramfs is left behind.
const RUNNER: &str = "/run/turnkey-guest";

/// The units of the machine's own, above those of packages.
const UNITS: &str = "/run/systemd/system";

/// The unit that runs the tests.
const TESTS: &str = "turnkey-tests.service";

/// Units that have nothing to do here: nobody logs in or answers a question, and no hardware comes.
const MASKED: [&str; 5] = [
    "getty.target",
    "serial-getty@ttyS0.service",
    "systemd-firstboot.service",
    "systemd-logind.service",
    "systemd-networkd.service",
];

/// Lays out the units and becomes systemd; returns only when that failed.
pub fn become_it() -> Result<()> {
    fs::copy("/proc/self/exe", RUNNER).context("cannot keep the program")?;
    fs::set_permissions(RUNNER, fs::Permissions::from_mode(0o755))?;
    let units = Path::new(UNITS);
    fs::create_dir_all(units).context("cannot make the folder of units")?;
    // However the tests end, so does the machine: the host knows by what they said.
    let unit = format!(
        "[Unit]\nSuccessAction=poweroff-force\nFailureAction=poweroff-force\n\
         [Service]\nType=oneshot\nTimeoutStartSec=infinity\n\
         StandardOutput=tty\nStandardError=tty\nTTYPath=/dev/ttyS0\n\
         ExecStart={RUNNER} {RUN_TESTS_ALONE}\n"
    );
    fs::write(units.join(TESTS), unit).context("cannot write the unit of the tests")?;
    for name in MASKED {
        std::os::unix::fs::symlink("/dev/null", units.join(name))?;
    }
    let wanted = units.join("multi-user.target.wants");
    fs::create_dir_all(&wanted)?;
    std::os::unix::fs::symlink(units.join(TESTS), wanted.join(TESTS))?;
    let error = Command::new(SYSTEMD)
        .args(["--system", "--unit=multi-user.target", "--show-status=no"])
        .env_clear()
        .exec();
    Err(error).context("cannot become systemd")
}
