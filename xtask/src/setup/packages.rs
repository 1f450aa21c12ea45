//! The package manager: install when we may, name the packages when we may not.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use anyhow::{Context, Result};

use super::needs::{PackageNeed, PackageTable, listed};
use crate::command;

/// Installs them with apt-get.
///
/// What the tasks can go on without is asked for by itself, so that a distribution that does not have it
/// gives everything else.
pub fn install(missing: &[&PackageNeed]) -> Result<()> {
    eprintln!(
        "installing what is missing, once; this takes as long as the network does:\n{}",
        listed(missing)
    );
    command::check(apt_get().arg("update"))?;
    let (optional, required): (Vec<&PackageNeed>, Vec<&PackageNeed>) =
        missing.iter().partition(|need| need.optional);
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

fn install_together(needs: &[&PackageNeed]) -> Result<()> {
    let names = needs.iter().map(|need| &need.package);
    command::check(apt_get().args(INSTALL).args(names))
}

/// The list of what is missing and how to get it, in the words of the package manager that is here.
pub fn advice(packages: &PackageTable, missing: &[&PackageNeed]) -> String {
    let is_here = |program: &str| command::find_program(program).is_some();
    let mut managers = packages.manager.iter();
    let manager = match is_here("apt-get") {
        true => None,
        false => managers.position(|manager| is_here(&manager.program)),
    };
    let how = manager.map_or_else(
        || on_debian(missing),
        |manager| elsewhere(packages, manager, missing),
    );
    format!("missing from this system:\n{}{how}", listed(missing))
}

fn on_debian(missing: &[&PackageNeed]) -> String {
    let names: Vec<&str> = missing.iter().map(|need| need.package.as_str()).collect();
    format!(
        "On Debian and Ubuntu: sudo apt-get update && sudo apt-get {} {}\n\
         On other distributions install the packages that hold the same.{}",
        INSTALL.join(" "),
        names.join(" "),
        about_seccomp(missing),
    )
}

/// The command that installs them with the manager of that number, and those that it has no package for.
fn elsewhere(packages: &PackageTable, manager: usize, missing: &[&PackageNeed]) -> String {
    let (mut words, mut without) = (Vec::new(), Vec::new());
    for PackageNeed { package, .. } in missing {
        match packages.elsewhere.get(package).map(|names| &names[manager]) {
            Some(none) if none.is_empty() => without.push(package.as_str()),
            Some(names) => words.extend(names.split(' ')),
            None => words.push(package),
        }
    }
    words.sort_unstable();
    words.dedup();
    let line = &packages.manager[manager].line;
    let mut text = format!("Type: {line} {}{}", words.join(" "), about_seccomp(missing));
    if !without.is_empty() {
        text += "\nThis distribution has nothing for: ";
        text += &without.join(", ");
    }
    text
}

/// A line for whoever has that library under another name; nothing when it is not what is missing.
fn about_seccomp(missing: &[&PackageNeed]) -> &'static str {
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
    use super::super::needs::PackageList::{self, *};
    use super::*;

    fn told(list: PackageList, tell: impl Fn(&PackageTable, &[&PackageNeed]) -> String) -> String {
        let packages = PackageTable::read().expect("a table");
        tell(&packages, &packages.needs(&[list]))
    }

    fn on(program: &str, list: PackageList) -> String {
        told(list, |packages, needs| {
            let mut managers = packages.manager.iter();
            let manager = managers.position(|manager| manager.program == program);
            elsewhere(packages, manager.expect("one of them"), needs)
        })
    }

    #[test]
    fn advice_names_every_package_its_reason_and_the_command() {
        let text = told(Build, |_, all| listed(all) + &on_debian(all));
        for told in [
            "libseccomp-dev  turnkey links it in",
            "apt-get install -y --no-install-recommends gcc libc6-dev libseccomp-dev pkg-config\n",
        ] {
            assert!(text.contains(told), "{text}");
        }
    }

    #[test]
    fn advice_elsewhere_is_one_line_to_type() {
        let text = on("pacman", Build);
        let line = "Type: sudo pacman -S --needed gcc glibc libseccomp pkgconf\n";
        assert!(text.starts_with(line), "{text}");
        assert!(text.contains("LIBSECCOMP_LINK_TYPE=dylib"), "{text}");
    }

    #[test]
    fn what_a_distribution_does_not_have_is_named() {
        let text = on("apk", Guest);
        assert!(text.ends_with("nothing for: systemd"), "{text}");
    }

    #[test]
    fn a_library_that_is_there_is_not_spoken_of() {
        for text in [told(EndToEnd, |_, all| on_debian(all)), on("apk", EndToEnd)] {
            assert!(!text.contains("LIBSECCOMP"), "{text}");
        }
    }
}
