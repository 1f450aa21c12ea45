//! The package manager: install when we may, name the packages when we may not.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::needs::{Need, listed};
use crate::command;

/// Installs them with apt-get, or fails with the list and the command to type.
pub fn install(missing: &[&Need]) -> Result<()> {
    if !may_install()? {
        bail!("{}", advice(missing));
    }
    eprintln!("installing what is missing:\n{}", listed(missing));
    command::check(apt_get().arg("update"))?;
    command::check(
        apt_get()
            .args(INSTALL)
            .args(missing.iter().map(|need| need.package)),
    )
}

/// What is missing and how to get it.
pub fn advice(missing: &[&Need]) -> String {
    let names: Vec<_> = missing.iter().map(|need| need.package).collect();
    format!(
        "missing from this system:\n{}\
         On Debian and Ubuntu: sudo apt-get update && sudo apt-get {} {}\n\
         On other distributions install the packages that hold the same; set LIBSECCOMP_LIB_PATH \
         to the folder of libseccomp.a when it is not in Debian's place.",
        listed(missing),
        INSTALL.join(" "),
        names.join(" "),
    )
}

const INSTALL: [&str; 3] = ["install", "-y", "--no-install-recommends"];

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    // Nobody is there to answer a question of an installation script.
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Root with apt-get: whoever else we are, we only say what is missing.
fn may_install() -> Result<bool> {
    let ours = std::fs::metadata("/proc/self").context("cannot tell which user this is")?;
    Ok(ours.uid() == 0 && command::find_program("apt-get").is_some())
}

#[cfg(test)]
mod tests {
    use super::super::needs::BUILD;
    use super::*;

    #[test]
    fn advice_names_every_package_its_reason_and_the_command() {
        let all: Vec<_> = BUILD.iter().collect();
        let text = advice(&all);
        assert!(
            text.contains("libseccomp-dev  turnkey links it in"),
            "{text}"
        );
        assert!(
            text.contains(
                "sudo apt-get install -y --no-install-recommends gcc libc6-dev libseccomp-dev pkg-config\n"
            ),
            "{text}"
        );
    }
}
