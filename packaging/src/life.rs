//! The life of the package in a Debian of its own, an overlay over this one: what dpkg makes of it when it comes, is
//! replaced and goes, and that nothing of it is left then, on the disk and in the kernel.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};

use xtask::command;
use xtask::machine::{self, Shows};
use xtask::workspace;

const SCRIPT: &str = include_str!("life.sh");

/// The mark before the name of something that is left.
const LEFT: &str = "left: ";

/// Installs, upgrades, removes and purges it, with systemctl(1) and without.
pub fn lives_and_leaves(package: &Path) -> Result<()> {
    if command::find_program("deb-systemd-helper").is_none() {
        eprintln!("not installed by dpkg: this is no Debian");
        return Ok(());
    }
    if command::find_program("systemctl").is_some() {
        one_life(package, "systemctl")?;
    }
    one_life(package, "")
}

/// The life with systemctl(1), or, where its name is empty, without.
fn one_life(package: &Path, systemctl: &str) -> Result<()> {
    let place = tempfile::tempdir().context("cannot make a root")?;
    let loads = machine::look().shows() == Shows::Everything;
    let mut life = workspace::in_own_mounts(SCRIPT);
    life.arg(place.path())
        .arg(package)
        .env("LOADS", if loads { "yes" } else { "" })
        .env("SYSTEMD", systemctl)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stderr(Stdio::inherit());
    let output = life.output().context("cannot start unshare")?;
    let told = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "the package did not come and go:\n{told}"
    );
    let left = left(&told);
    if !left.is_empty() {
        bail!("the package has left behind:\n  {}", left.join("\n  "));
    }
    let with = if systemctl.is_empty() { "out" } else { "" };
    eprintln!("with{with} systemctl it came, was replaced, went, and has left nothing");
    Ok(())
}

fn left(told: &str) -> Vec<&str> {
    told.lines()
        .filter_map(|line| line.strip_prefix(LEFT))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_found_among_what_dpkg_says() {
        let told = "Removing turnkey (0.1.0) ...\nleft: etc/x\nleft: /sys/fs/bpf/y\n";
        assert_eq!(left(told), ["etc/x", "/sys/fs/bpf/y"]);
    }
}
