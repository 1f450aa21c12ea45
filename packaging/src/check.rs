//! The files of each package in a root that holds nothing else: what is static needs nothing else. There it runs a program that is
//! harmless and one that is not.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::{MadePackages, VERSION, life, stage};
use xtask::command;
use xtask::machine::{self, Shows};
use xtask::workspace;

/// Installs both and tries each.
pub fn all(made: &MadePackages) -> Result<()> {
    let ours = fs::metadata("/proc/self").context("cannot tell which user this is")?;
    if ours.uid() != 0 {
        bail!("only root installs packages, and changes its root");
    }
    let root = clean_root()?;
    unpack(&made.tarball, root.path())?;
    works(root.path())?;
    if let Some(package) = &made.package {
        let root = clean_root()?;
        extract(package, root.path())?;
        works(root.path())?;
        life::lives_and_leaves(package)?;
    }
    Ok(())
}

/// A root with the folders that every distribution for this CPU has, and nothing in them.
fn clean_root() -> Result<TempDir> {
    let root = tempfile::tempdir().context("cannot make a root")?;
    for folder in [
        "dev",
        "etc",
        "old",
        "proc",
        "sys",
        "tmp",
        "usr/bin",
        "usr/lib",
        "usr/lib64",
        "usr/sbin",
    ] {
        fs::create_dir_all(root.path().join(folder)).context("cannot make a root")?;
    }
    for link in ["bin", "lib", "lib64", "sbin"] {
        symlink(Path::new("usr").join(link), root.path().join(link))
            .context("cannot make a root")?;
    }
    Ok(root)
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

/// The files alone, as dpkg lays them; its scripts need a shell, and a root with one.
fn extract(package: &Path, root: &Path) -> Result<()> {
    command::check(
        Command::new("dpkg-deb")
            .arg("--extract")
            .args([package, root]),
    )
}

/// Checks that all files lie where they are looked for, and that the program works where there is nothing else.
fn works(root: &Path) -> Result<()> {
    for file in stage::ONE_OF_EACH {
        ensure!(root.join(file).is_file(), "{file} was not installed");
    }
    let (status, version) = inside(root, &["version"])?;
    ensure!(
        status == Some(0) && version.contains(VERSION),
        "it should be {VERSION} and says {version}"
    );
    eprintln!("in {}: {}", root.display(), version.trim());
    if machine::look().shows() != Shows::Everything {
        eprintln!("not tried with a hostile program: this machine cannot watch one");
        return Ok(());
    }
    let (status, _) = inside(root, &["run", "--", "turnkey", "version"])?;
    ensure!(status == Some(0), "a harmless program came to {status:?}");
    let (status, _) = inside(root, &["run", "--", "turnkey", "check", "/etc/shadow"])?;
    ensure!(
        status == Some(KILLED_BY_POLICY),
        "who reads /etc/shadow should be killed, and came to {status:?}"
    );
    Ok(())
}

/// The exit code of README.md for that.
const KILLED_BY_POLICY: i32 = 121;

/// Makes the root that of a mount namespace, where the kernel's own file systems are, and runs the words behind it.
/// By pivot_root(2): after a chroot(2) no user namespace can be made.
const IN_ITS_OWN_ROOT: &str = r#"
mount --bind "$0" "$0"
cd "$0"
for folder in proc sys dev; do mount --rbind /$folder $folder; done
pivot_root . old
cd /tmp
exec /usr/bin/turnkey "$@""#;

/// The exit code of turnkey in that root, and what it printed. Its standard error is there to be read.
fn inside(root: &Path, words: &[&str]) -> Result<(Option<i32>, String)> {
    let mut unshare = workspace::in_own_mounts(IN_ITS_OWN_ROOT);
    unshare.arg(root).args(words).stderr(Stdio::inherit());
    let output = unshare.output().context("cannot start unshare")?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((output.status.code(), printed))
}
