//! `cargo xtask dist`: turnkey for those who do not compile it. One static binary, and that binary with
//! its documents as a package of Debian and as a tarball.

mod check;
mod life;
mod notices;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;

use xtask::setup::{self, PackageList};
use xtask::workspace::Programs;
use xtask::{command, workspace};

/// The arguments of `cargo xtask dist`.
#[derive(Parser)]
#[command(
    bin_name = "cargo xtask dist",
    about = "Makes a static binary, a .deb and a tarball, in target/dist"
)]
pub struct DistArguments {
    /// Also unpacks each in a root that holds nothing else, and runs it there; and installs, upgrades and removes the .deb
    #[arg(long)]
    check: bool,
}

/// A download, not an image: more than this and something was linked in that nobody asked for.
const MOST_BYTES: u64 = 12 * 1000 * 1000;

/// The packages that were made.
struct MadePackages {
    tarball: PathBuf,
    /// Only where dpkg-deb is.
    package: Option<PathBuf>,
}

/// Builds, packs, and with `--check` tries what was packed.
pub fn run(arguments: &DistArguments) -> Result<()> {
    setup::ensure(&[PackageList::Build])?;
    let folder = workspace::target_folder().join("dist");
    let turnkey = build()?;
    let size = fs::metadata(&turnkey)?.len();
    ensure!(
        size <= MOST_BYTES,
        "the binary has {size} bytes, {MOST_BYTES} are the most"
    );
    let stage = folder.join("stage");
    stage::fill(&workspace::root(), &turnkey, &stage)?;
    let made = MadePackages {
        tarball: tarball(&folder, &stage)?,
        package: match command::find_program("dpkg-deb") {
            Some(_) => Some(package(&folder, &stage, "xz")?),
            None => None,
        },
    };
    fs::copy(&turnkey, folder.join("turnkey")).context("cannot copy the binary")?;
    if arguments.check {
        check::all(&made)?;
    }
    eprintln!("in {}: {}", folder.display(), listed(&made, size));
    Ok(())
}

fn listed(made: &MadePackages, size: u64) -> String {
    let mut names = vec![format!("turnkey ({size} bytes, static)")];
    let files = [Some(&made.tarball), made.package.as_ref()];
    names.extend(files.into_iter().flatten().map(|file| name(file)));
    if made.package.is_none() {
        names.push("no .deb: dpkg-deb is not here".to_owned());
    }
    names.join(", ")
}

fn name(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The version of the workspace, which is that of every crate.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Named for the compiler, so that its flags are not those of build scripts and macros, which
/// cannot be linked statically.
fn target() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// The binary, with the C library inside and without symbols.
fn build() -> Result<PathBuf> {
    eprintln!(
        "building turnkey as one static piece: several minutes, of which most keep one CPU busy"
    );
    let target = target();
    // Packed, the fifteen thousand addresses that a static program sets at its start take six kilobytes in place of half a
    // megabyte. The C library that is linked in sets them from 2.36 on, which Debian 12 has.
    // Tables for unwinding are of no use either, where a panic ends the process.
    let tables = workspace::root().join("packaging/no-unwind-tables.ld");
    let flags = [
        "-Ctarget-feature=+crt-static".to_owned(),
        "-Clink-arg=-Wl,-z,pack-relative-relocs".to_owned(),
        "-Clink-arg=-Wl,--no-eh-frame-hdr".to_owned(),
        format!("-Clink-arg=-Wl,-T,{}", tables.display()),
    ];
    let mut build = workspace::cargo_build();
    build
        .args(["--locked", "--package", "turnkey", "--profile", "dist"])
        .args(["--target", &target, "--config"])
        .arg(format!("target.{target}.rustflags={flags:?}"))
        // Flags of the environment would take the place of these.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    let turnkey = Programs::build(&mut build)?.named("turnkey")?;
    let bytes = fs::read(&turnkey).context("cannot read the binary")?;
    if asks_for_a_loader(&bytes) {
        bail!("{} is not static", turnkey.display());
    }
    Ok(turnkey)
}

/// True when the kernel would start another program to load it: that one's path stands in the file.
fn asks_for_a_loader(program: &[u8]) -> bool {
    const LOADER: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";
    // The path of a loader is in the first page, before any code; a static C library holds it elsewhere.
    program
        .get(..4096)
        .unwrap_or(program)
        .windows(LOADER.len())
        .any(|bytes| bytes == LOADER)
}

/// The same bytes for the same files: no names, no times.
fn tarball(folder: &Path, stage: &Path) -> Result<PathBuf> {
    let name = format!("turnkey-{VERSION}-{}-linux", std::env::consts::ARCH);
    let file = folder.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--mtime=@0"])
        .args([
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--exclude=./DEBIAN",
        ])
        .arg(format!("--transform=s,^\\.,{name},"))
        .arg("--file")
        .arg(&file)
        .arg("--directory")
        .arg(stage)
        .arg(".");
    command::check(&mut tar)?;
    Ok(file)
}

/// The package of a command that is built already, made in `folder` for a guest: laid out as the one that is given away, and
/// not compressed.
pub fn package_of(turnkey: &Path, folder: &Path) -> Result<PathBuf> {
    let stage = folder.join("stage");
    stage::fill(&workspace::root(), turnkey, &stage)?;
    package(folder, &stage, "none")
}

fn package(folder: &Path, stage: &Path, compression: &str) -> Result<PathBuf> {
    let file = folder.join(format!("turnkey_{VERSION}_{}.deb", stage::architecture()));
    let mut build = Command::new("dpkg-deb");
    build
        .args(["--root-owner-group", "-Z", compression, "--build"])
        .args([stage, &file])
        .env("SOURCE_DATE_EPOCH", "0");
    command::check(&mut build)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_needs_a_loader_is_told_from_one_that_does_not() {
        let of_this_test = std::env::current_exe()
            .and_then(fs::read)
            .expect("a program");
        assert!(asks_for_a_loader(&of_this_test));
        assert!(!asks_for_a_loader(b"\x7fELF and nothing of that kind"));
    }
}
