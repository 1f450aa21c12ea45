//! The package manager: install when we may, name the packages when we may not.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::elsewhere::{self, Manager};
use super::needs::{Need, listed};
use crate::command;

/// Installs them with apt-get, or fails with the list and the command to type.
///
/// What the tasks can go on without is asked for by itself, so that a distribution that does not have it
/// gives everything else.
pub fn install(missing: &[&Need]) -> Result<()> {
    if !may_install()? {
        bail!("{}", advice(missing));
    }
    eprintln!(
        "installing what is missing, once; this takes as long as the network does:\n{}",
        listed(missing)
    );
    command::check(apt_get().arg("update"))?;
    let (optional, required): (Vec<&Need>, Vec<&Need>) =
        missing.iter().partition(|need| need.is_optional());
    if !required.is_empty() {
        install_together(&required)?;
    }
    for need in optional {
        if let Err(error) = install_together(&[need]) {
            eprintln!("goes on without {}: {error:#}", need.package);
        }
    }
    Ok(())
}

fn install_together(needs: &[&Need]) -> Result<()> {
    command::check(
        apt_get()
            .args(INSTALL)
            .args(needs.iter().map(|need| need.package)),
    )
}

/// The list of what is missing and how to get it, in the words of the package manager that is here.
pub fn advice(missing: &[&Need]) -> String {
    let is_debian = command::find_program("apt-get").is_some();
    let manager = if is_debian {
        None
    } else {
        elsewhere::manager()
    };
    let how = manager.map_or_else(|| on_debian(missing), |manager| on(manager, missing));
    format!("missing from this system:\n{}{how}", listed(missing))
}

fn on_debian(missing: &[&Need]) -> String {
    let names: Vec<_> = missing.iter().map(|need| need.package).collect();
    format!(
        "On Debian and Ubuntu: sudo apt-get update && sudo apt-get {} {}\n\
         On other distributions install the packages that hold the same.{}",
        INSTALL.join(" "),
        names.join(" "),
        about_seccomp(missing),
    )
}

fn on(manager: Manager, missing: &[&Need]) -> String {
    let (line, without) = elsewhere::line(manager, missing);
    let mut text = format!("Type: {line}{}", about_seccomp(missing));
    if !without.is_empty() {
        text += "\nThis distribution has nothing for: ";
        text += &without.join(", ");
    }
    text
}

/// A line for whoever has that library under another name; nothing when it is not what is missing.
fn about_seccomp(missing: &[&Need]) -> &'static str {
    if missing.iter().any(|need| need.is_seccomp()) {
        "\nSet LIBSECCOMP_LIB_PATH to the folder of libseccomp.a when it is not in Debian's place, \
         or LIBSECCOMP_LINK_TYPE=dylib to link the shared one."
    } else {
        ""
    }
}

const INSTALL: [&str; 3] = ["install", "-y", "--no-install-recommends"];

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    // Nobody is there to answer a question of an installation script.
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Root with apt-get: whoever else we are, we only say what is missing.
pub fn may_install() -> Result<bool> {
    let ours = std::fs::metadata("/proc/self").context("cannot tell which user this is")?;
    Ok(ours.uid() == 0 && command::find_program("apt-get").is_some())
}

#[cfg(test)]
mod tests {
    use super::super::needs::{BUILD, END_TO_END};
    use super::*;

    #[test]
    fn advice_names_every_package_its_reason_and_the_command() {
        let all: Vec<_> = BUILD.iter().collect();
        let text = format!("{}{}", listed(&all), on_debian(&all));
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

    #[test]
    fn advice_elsewhere_is_one_line_to_type() {
        let all: Vec<_> = BUILD.iter().collect();
        let text = on(Manager::Dnf, &all);
        assert!(
            text.starts_with("Type: sudo dnf install gcc glibc-devel "),
            "{text}"
        );
        assert!(text.contains("LIBSECCOMP_LINK_TYPE=dylib"), "{text}");
    }

    #[test]
    fn a_library_that_is_there_is_not_spoken_of() {
        let others: Vec<_> = END_TO_END.iter().collect();
        for text in [on_debian(&others), on(Manager::Apk, &others)] {
            assert!(!text.contains("LIBSECCOMP"), "{text}");
        }
    }
}
