//! The programs of the guest: the command, the test binaries, the first process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use turnkey_guest::{BINARIES, MODULES, PACKAGE, SYSTEMD_FIRST, TESTS, TURNKEY};

use super::contents::Disk;
use super::cpio::Archive;
use super::kernel::Kernel;
use super::machines::Machine;
use xtask::expectations::Words;
use xtask::workspace::Programs as CargoPrograms;
use xtask::{command, workspace};

/// The test binaries of the guest, by the names of their targets.
const TEST_BINARIES: [&str; 4] = ["e2e", "guest", "live", "observer"];

/// The programs of the guest, as files of the host.
pub struct Programs {
    turnkey: PathBuf,
    /// The guest's first process.
    pub init: PathBuf,
    binaries: Vec<(String, PathBuf)>,
    /// Every test, by the name of its binary and its own.
    pub tests: Vec<(String, String)>,
    /// The words of the tests on where they run.
    pub words: Words,
}

/// The parts to test `turnkey` with in a guest: its tests, and a first process that is built here.
pub fn programs(turnkey: &Path, tests: &[(String, PathBuf)]) -> Result<Programs> {
    let has_part = |(name, _): &&(String, PathBuf)| TEST_BINARIES.contains(&name.as_str());
    let binaries: Vec<_> = tests.iter().filter(has_part).cloned().collect();
    let mut named = Vec::new();
    for (binary, path) in &binaries {
        let listed = command::output(Command::new(path).args(["--list", "--format", "terse"]))?;
        named.extend(names(&listed).map(|test| (binary.clone(), test.to_owned())));
    }
    Ok(Programs {
        turnkey: turnkey.to_owned(),
        init: build_init()?,
        words: Words::ask(binaries.iter().map(|(name, path)| (&**name, &**path)))?,
        tests: named,
        binaries,
    })
}

impl Programs {
    /// The places of the programs on a disk, of which some are made in `folder` first.
    pub fn in_the_guest(&self, disk: &Disk, folder: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
        let binaries = Path::new(BINARIES.trim_start_matches('/'));
        let tests = self.binaries.iter();
        let mut places: Vec<_> = tests
            .map(|(name, file)| (binaries.join(name), file.clone()))
            .collect();
        places.push((TURNKEY.trim_start_matches('/').into(), self.turnkey.clone()));
        if disk.has_systemd_first {
            let package = turnkey_packaging::package_of(&self.turnkey, folder)?;
            places.push((PACKAGE.trim_start_matches('/').into(), package));
        }
        Ok(places)
    }
}

/// The tests in what a test binary lists: `name: test`.
fn names(listed: &str) -> impl Iterator<Item = &str> {
    listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
}

/// Linked to nothing: the initramfs holds no libraries. Nobody waits for what it does; for the compiler everybody does.
fn build_init() -> Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = workspace::cargo_build();
    build
        .args(["--package", "turnkey-guest", "--target", &target])
        .args(["--profile", "quick"])
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    let programs = CargoPrograms::build(&mut build)?.of_kind("bin");
    let init = programs.into_iter().next();
    Ok(init.context("cargo built no init for the guest")?.1)
}

/// The first files of the guest: its first process, the modules, the list of tests.
pub fn initramfs(
    init: &Path,
    machine: &Machine,
    kernel: &Kernel,
    tests: &[String],
) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    archive.folder("dev");
    // Without it the first process could not say what is wrong.
    archive.device("dev/console", (5, 1));
    archive.folder(MODULES.trim_start_matches('/'));
    for (number, module) in kernel.modules.iter().enumerate() {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        let place = format!("{}/{number:02}-{name}", MODULES.trim_start_matches('/'));
        archive.file(&place, &read(module)?);
    }
    archive.file(TESTS.trim_start_matches('/'), tests.join("\n").as_bytes());
    if machine.disk.has_systemd_first {
        archive.file(SYSTEMD_FIRST.trim_start_matches('/'), b"");
    }
    archive.file("init", &read(init)?);
    Ok(archive.finish())
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_tests() {
        let listed = "limits::memory: test\nlimits::speed: benchmark\n\n2 tests, 1 benchmark\n";
        assert_eq!(names(listed).collect::<Vec<_>>(), ["limits::memory"]);
    }
}
