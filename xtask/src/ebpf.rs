//! `cargo xtask ebpf`: the BPF object, built by whoever changes the BPF programs and committed, so
//! that everyone else needs only stable Rust.
//!
//! Beside the object lies a lock file with the digest of its sources and the toolchain, so that
//! anyone can see whether it is fresh, and whoever has that toolchain can build the same bytes.

mod compile;
mod lock;
mod sources;
mod stage;
pub mod toolchain;

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use fs_err as fs;

use crate::{command, workspace};
use lock::Lock;
use toolchain::Toolchain;

/// The arguments of `ebpf`.
#[derive(Args)]
pub struct EbpfArguments {
    /// Change nothing; fail when the committed object is not the one these sources give
    #[arg(long)]
    check: bool,
    /// Change nothing in the tree; build a turnkey whose programs write lines to standard error
    #[arg(long, conflicts_with = "check")]
    log: bool,
}

/// Builds or checks the object.
pub fn run(arguments: &EbpfArguments) -> Result<()> {
    let root = workspace::root();
    if arguments.check {
        check(&root)
    } else if arguments.log {
        build_with_log(&root)
    } else {
        build(&root)
    }
}

const OBJECT: &str = "monitor/bpf/turnkey.bpf.o";
const LOCK: &str = "monitor/bpf/turnkey.bpf.lock";

/// The toolchain of the last build where it is present, or another.
fn toolchain_of_last_build(root: &Path) -> Result<Toolchain> {
    let recorded = Lock::read(&root.join(LOCK)).ok().map(|lock| lock.toolchain);
    toolchain::choose(recorded.as_ref())
}

fn unchanged(_: &Path) -> Result<()> {
    Ok(())
}

/// Builds the object and writes it with its lock.
fn build(root: &Path) -> Result<()> {
    let toolchain = toolchain_of_last_build(root)?;
    // Kept between builds, so that only the two crates of ours are compiled again.
    let folder = workspace::target_folder().join("ebpf");
    let object = compile::compile(root, &folder, &toolchain, &[], unchanged)?;
    let lock = Lock::new(root, &object, &toolchain)?;
    fs::create_dir_all(root.join("monitor/bpf"))?;
    fs::write(root.join(OBJECT), &object)?;
    lock.write(&root.join(LOCK))?;
    eprintln!("wrote {OBJECT} ({} bytes) and its lock", object.len());
    Ok(())
}

/// Builds the programs with their lines, and a turnkey that carries them and prints what they say.
fn build_with_log(root: &Path) -> Result<()> {
    let toolchain = toolchain_of_last_build(root)?;
    let folder = workspace::target_folder().join("ebpf-log");
    let object = compile::compile(root, &folder, &toolchain, &["log"], unchanged)?;
    let path = folder.join("turnkey.bpf.o");
    fs::write(&path, object)?;
    let programs = folder.join("turnkey");
    let mut build = command::cargo();
    build
        .args(["build", "--package", "turnkey", "--features", "probe-log"])
        .arg("--target-dir")
        .arg(&programs)
        .env("TURNKEY_LOG_OBJECT", &path)
        .current_dir(root);
    command::check(&mut build)?;
    eprintln!("built {}", programs.join("debug/turnkey").display());
    Ok(())
}

/// The committed object.
pub fn committed() -> Result<Vec<u8>> {
    Ok(fs::read(workspace::root().join(OBJECT))?)
}

/// The object that the sources give when they are changed in a copy.
pub fn changed(change: impl FnOnce(&Path) -> Result<()>) -> Result<Vec<u8>> {
    let root = workspace::root();
    let toolchain = toolchain_of_last_build(&root)?;
    let folder = workspace::target_folder().join("mutants");
    compile::compile(&root, &folder, &toolchain, &[], change)
}

/// Compares sources, object and lock, and where the recorded toolchain is present a second build.
fn check(root: &Path) -> Result<()> {
    let lock = Lock::read(&root.join(LOCK))?;
    let object = fs::read(root.join(OBJECT))?;
    lock.agrees_with(&sources::digest(root)?, &object)?;
    eprintln!("the BPF object and its sources are those of the lock");

    match toolchain::find(&lock.toolchain) {
        Some(toolchain) => compare_rebuilt(root, &object, &toolchain),
        None => {
            eprintln!(
                "NOT rebuilt, only digests were compared: the object was built with\n{}\nand here is {}.",
                lock.toolchain,
                toolchain::describe_present(),
            );
            Ok(())
        }
    }
}

/// Builds from nothing in a folder of its own and compares every byte.
fn compare_rebuilt(root: &Path, object: &[u8], toolchain: &Toolchain) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let rebuilt = compile::compile(root, folder.path(), toolchain, &[], unchanged)?;
    if let Some(offset) = first_difference(object, &rebuilt) {
        bail!(
            "the same sources and toolchain gave another object: {} bytes instead of {}, the first \
             difference at {offset}. Run `cargo xtask ebpf` and commit what it wrote.",
            rebuilt.len(),
            object.len(),
        );
    }
    ensure!(!object.is_empty(), "the object is empty");
    eprintln!(
        "rebuilt with the recorded toolchain: all {} bytes are the same",
        object.len()
    );
    Ok(())
}

/// The place where two byte strings part, if they do.
fn first_difference(left: &[u8], right: &[u8]) -> Option<usize> {
    let common = left.iter().zip(right).take_while(|(l, r)| l == r).count();
    (common < left.len().max(right.len())).then_some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_is_found_wherever_it_is() {
        assert_eq!(first_difference(b"same", b"same"), None);
        assert_eq!(first_difference(b"same", b"sane"), Some(2));
        assert_eq!(first_difference(b"same", b"same and more"), Some(4));
        assert_eq!(first_difference(b"", b"x"), Some(0));
    }
}
