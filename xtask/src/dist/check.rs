//! Each package in a root that holds nothing else: what is static needs nothing else.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{Made, VERSION};
use crate::command;

/// Installs both and asks each for its version.
pub fn all(made: &Made) -> Result<()> {
    let ours = fs::metadata("/proc/self").context("cannot tell which user this is")?;
    if ours.uid() != 0 {
        bail!("only root installs packages, and changes its root");
    }
    let root = tempfile::tempdir().context("cannot make a root")?;
    unpack(&made.tarball, root.path())?;
    answers(root.path())?;
    if let Some(package) = &made.package {
        let root = tempfile::tempdir().context("cannot make a root")?;
        install(package, root.path())?;
        answers(root.path())?;
    }
    Ok(())
}

/// Without the folder that is named after the version.
fn unpack(tarball: &Path, root: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--file"])
        .arg(tarball)
        .arg("--directory")
        .arg(root);
    command::check(&mut tar)
}

/// By dpkg itself, whose records of that root are empty before.
fn install(package: &Path, root: &Path) -> Result<()> {
    let records = root.join("var/lib/dpkg");
    for folder in ["info", "updates", "triggers"] {
        fs::create_dir_all(records.join(folder)).context("cannot make the records of dpkg")?;
    }
    fs::write(records.join("status"), "").context("cannot make the records of dpkg")?;
    let mut dpkg = Command::new("dpkg");
    // What is in this root cannot be run by dpkg, and nothing of it has to be.
    dpkg.arg(format!("--root={}", root.display()))
        .args(["--force-not-root", "--install"])
        .arg(package);
    command::check(&mut dpkg)?;
    let status = fs::read_to_string(records.join("status"))?;
    ensure!(
        status.contains("Status: install ok installed"),
        "dpkg does not hold it for installed:\n{status}"
    );
    Ok(())
}

/// The program runs where there is nothing but itself, and names its version.
fn answers(root: &Path) -> Result<()> {
    let ask = |word: &str| {
        let mut chroot = Command::new("chroot");
        chroot.arg(root).args(["/usr/bin/turnkey", word]);
        command::output(&mut chroot)
    };
    let version = ask("version").or_else(|_| ask("--version"))?;
    ensure!(
        version.contains(VERSION),
        "it should be {VERSION} and says {version}"
    );
    eprintln!("in {}: {}", root.display(), version.trim());
    Ok(())
}
