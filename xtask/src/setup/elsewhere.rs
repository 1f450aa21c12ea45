//! The names of Debian's packages elsewhere. Names alone: nothing here is installed unasked.

use super::needs::Need;
use crate::command;

/// A package manager that is told what to type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// Fedora and its relatives.
    Dnf,
    /// Arch Linux and its relatives.
    Pacman,
    /// Alpine Linux.
    Apk,
    /// openSUSE.
    Zypper,
}

/// In the order in which they are looked for, each with what comes before the names.
const MANAGERS: [(Manager, &str, &str); 4] = [
    (Manager::Dnf, "dnf", "sudo dnf install"),
    (Manager::Pacman, "pacman", "sudo pacman -S --needed"),
    (Manager::Apk, "apk", "sudo apk add"),
    (Manager::Zypper, "zypper", "sudo zypper install"),
];

/// Debian's name, then those for dnf, pacman, apk and zypper. Several words are several packages,
/// and an empty one means that the distribution has none.
const NAMES: &[(&str, [&str; 4])] = &[
    ("bc", ["bc"; 4]),
    ("bpftrace", ["bpftrace"; 4]),
    ("bubblewrap", ["bubblewrap"; 4]),
    ("ca-certificates", ["ca-certificates"; 4]),
    ("chromium", ["chromium"; 4]),
    ("curl", ["curl"; 4]),
    ("dbus", ["dbus-broker", "dbus", "dbus", "dbus-1"]),
    (
        "debian-archive-keyring",
        [
            "debian-keyring",
            "debian-archive-keyring",
            "debian-archive-keyring",
            "",
        ],
    ),
    (
        "default-jdk-headless",
        [
            "java-latest-openjdk-devel",
            "jdk-openjdk",
            "openjdk21-jdk",
            "java-21-openjdk-devel",
        ],
    ),
    ("e2fsprogs", ["e2fsprogs"; 4]),
    ("firejail", ["firejail"; 4]),
    (
        "fonts-dejavu-core",
        [
            "dejavu-sans-fonts",
            "ttf-dejavu",
            "font-dejavu",
            "dejavu-fonts",
        ],
    ),
    ("g++", ["gcc-c++", "gcc", "g++", "gcc-c++"]),
    ("gcc", ["gcc"; 4]),
    ("git", ["git"; 4]),
    ("golang-go", ["golang", "go", "go", "go"]),
    ("iproute2", ["iproute", "iproute2", "iproute2", "iproute2"]),
    ("less", ["less"; 4]),
    (
        "libc6-dev",
        ["glibc-devel", "glibc", "musl-dev", "glibc-devel"],
    ),
    // Where there is no static one, the build is told to link the shared one: see the advice.
    (
        "libseccomp-dev",
        [
            "libseccomp-devel libseccomp-static",
            "libseccomp",
            "libseccomp-dev libseccomp-static",
            "libseccomp-devel",
        ],
    ),
    (
        "libxml2-utils",
        ["libxml2", "libxml2", "libxml2-utils", "libxml2-tools"],
    ),
    (
        "llvm-22-dev",
        ["llvm-devel", "llvm", "llvm22-dev", "llvm22-devel"],
    ),
    ("make", ["make"; 4]),
    (
        "netcat-openbsd",
        [
            "netcat",
            "openbsd-netcat",
            "netcat-openbsd",
            "netcat-openbsd",
        ],
    ),
    ("nodejs", ["nodejs"; 4]),
    ("npm", ["npm", "npm", "npm", "npm-default"]),
    ("openssl", ["openssl"; 4]),
    (
        "pkg-config",
        ["pkgconf-pkg-config", "pkgconf", "pkgconf", "pkg-config"],
    ),
    ("procps", ["procps-ng", "procps-ng", "procps-ng", "procps"]),
    ("python3", ["python3", "python", "python3", "python3"]),
    (
        "python3-matplotlib",
        [
            "python3-matplotlib",
            "python-matplotlib",
            "py3-matplotlib",
            "python3-matplotlib",
        ],
    ),
    (
        "python3-numpy",
        [
            "python3-numpy",
            "python-numpy",
            "py3-numpy",
            "python3-numpy",
        ],
    ),
    (
        "python3-pandas",
        [
            "python3-pandas",
            "python-pandas",
            "py3-pandas",
            "python3-pandas",
        ],
    ),
    (
        "python3-psutil",
        [
            "python3-psutil",
            "python-psutil",
            "py3-psutil",
            "python3-psutil",
        ],
    ),
    (
        "python3-requests",
        [
            "python3-requests",
            "python-requests",
            "py3-requests",
            "python3-requests",
        ],
    ),
    ("python3-venv", ["python3", "python", "python3", "python3"]),
    (
        "python3-watchdog",
        [
            "python3-watchdog",
            "python-watchdog",
            "py3-watchdog",
            "python3-watchdog",
        ],
    ),
    (
        "qemu-system-x86",
        [
            "qemu-system-x86",
            "qemu-system-x86",
            "qemu-system-x86_64",
            "qemu-x86",
        ],
    ),
    ("runc", ["runc"; 4]),
    ("rust-web-src", ["rust-src", "rust-src", "rust-src", ""]),
    ("rustc-web", ["rust", "rust", "rust", "rust"]),
    ("strace", ["strace"; 4]),
    ("systemd", ["systemd", "systemd", "", "systemd"]),
    (
        "uidmap",
        ["shadow-utils", "shadow", "shadow-uidmap", "shadow"],
    ),
    ("vim-tiny", ["vim-minimal", "vim", "vim", "vim-small"]),
];

/// The manager of this machine, if it is one of those.
pub fn manager() -> Option<Manager> {
    let here = |(_, program, _): &&(Manager, &str, &str)| command::find_program(program).is_some();
    MANAGERS.iter().find(here).map(|(manager, ..)| *manager)
}

/// The command that installs these needs with that manager, and those that it has no package for.
pub fn line(manager: Manager, needs: &[&Need]) -> (String, Vec<&'static str>) {
    let (mut words, mut without) = (Vec::new(), Vec::new());
    for need in needs {
        match name(manager, need.package) {
            Some(names) => words.extend(names.split(' ')),
            None => without.push(need.package),
        }
    }
    words.sort_unstable();
    words.dedup();
    let start = MANAGERS.iter().find(|(its, ..)| *its == manager);
    let start = start.map_or("", |(.., start)| *start);
    (format!("{start} {}", words.join(" ")), without)
}

fn name(manager: Manager, package: &str) -> Option<&'static str> {
    let (_, names) = NAMES.iter().find(|(debian, _)| *debian == package)?;
    let place = MANAGERS.iter().position(|(its, ..)| *its == manager)?;
    names.get(place).copied().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::needs::{ALL, BUILD};
    use super::*;

    #[test]
    fn every_package_has_a_row_and_rows_are_sorted() {
        for need in ALL.iter().copied().flatten() {
            let rows = NAMES.iter().filter(|(name, _)| *name == need.package);
            assert_eq!(rows.count(), 1, "{}", need.package);
        }
        assert!(NAMES.is_sorted_by_key(|(name, _)| name));
    }

    #[test]
    fn line_is_what_one_would_type() {
        let needs: Vec<_> = BUILD.iter().collect();
        let (line, without) = line(Manager::Pacman, &needs);
        assert_eq!(line, "sudo pacman -S --needed gcc glibc libseccomp pkgconf");
        assert!(without.is_empty());
    }

    #[test]
    fn what_a_distribution_does_not_have_is_named() {
        let systemd: Vec<_> = ALL
            .iter()
            .copied()
            .flatten()
            .filter(|need| need.package == "systemd")
            .collect();
        let (_, without) = line(Manager::Apk, &systemd);
        assert_eq!(without, ["systemd"]);
    }
}
