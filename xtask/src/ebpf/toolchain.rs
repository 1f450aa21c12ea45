//! Finding a compiler that can build for BPF: any rustc that has its own sources, because the BPF
//! target has no ready-made `core`, and `bpf-linker`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::lock::Identity;
use crate::command;

/// The advice for a machine that has none.
pub const HOW_TO_GET_ONE: &str = "\
Building the BPF object takes a rustc with its own sources, and bpf-linker built with the same LLVM. On Debian 12, as root
(the packages come with its security updates, so that suite has to be among apt's sources):
  cargo xtask setup --ebpf
elsewhere a nightly of May 2026 (its LLVM is 22; bpf-linker 0.13 cannot read what newer ones write) and LLVM 22:
  rustup toolchain install nightly-2026-05-20 --component rust-src
  LLVM_PREFIX=<folder of LLVM 22> cargo install bpf-linker --version 0.13.0 --locked --no-default-features --features llvm-22";

/// A compiler and all that goes with it.
pub struct Toolchain {
    /// The compiler.
    pub rustc: PathBuf,
    /// The folder of its installation, the one with `lib/rustlib`.
    pub sysroot: PathBuf,
    /// The version and the commit that it prints.
    pub identity: Identity,
}

/// Some compiler with its sources, whether or not the linker is there.
pub fn any() -> Option<PathBuf> {
    compilers().into_iter().next()
}

/// The toolchain that says it is `wanted`.
pub fn find(wanted: &Identity) -> Option<Toolchain> {
    toolchains().find(|toolchain| toolchain.identity == *wanted)
}

/// The recorded toolchain where it is present, else the first that is.
pub fn choose(recorded: Option<&Identity>) -> Result<Toolchain> {
    if let Some(toolchain) = recorded.and_then(find) {
        return Ok(toolchain);
    }
    toolchains().next().context(HOW_TO_GET_ONE)
}

/// For messages: what is present instead of the toolchain one looked for.
pub fn describe_present() -> String {
    let present: Vec<_> = toolchains()
        .map(|toolchain| format!("\n{}", toolchain.identity))
        .collect();
    if present.is_empty() {
        return "no rustc with its sources and bpf-linker".to_owned();
    }
    present.join("\nand")
}

fn toolchains() -> impl Iterator<Item = Toolchain> {
    compilers().into_iter().filter_map(|rustc| {
        let sysroot = sysroot_of(&rustc)?.to_owned();
        let identity = identify(&rustc).ok()?;
        Some(Toolchain {
            rustc,
            sysroot,
            identity,
        })
    })
}

/// Every rustc that has its sources: those of the search path first, then those of rustup, newest
/// name first.
fn compilers() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_path = std::env::split_paths(&path).map(|folder| folder.join("rustc"));
    let mut of_rustup = rustup_compilers();
    of_rustup.sort();
    of_rustup.reverse();
    let mut found: Vec<PathBuf> = Vec::new();
    // The same one is often in the search path twice: /bin is a link to /usr/bin.
    let mut known = BTreeSet::new();
    for rustc in of_path.chain(of_rustup).filter(|rustc| has_sources(rustc)) {
        if fs::canonicalize(&rustc).is_ok_and(|real| known.insert(real)) {
            found.push(rustc);
        }
    }
    found
}

fn rustup_compilers() -> Vec<PathBuf> {
    let home = std::env::var_os("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".rustup")));
    let folders = home.and_then(|home| fs::read_dir(home.join("toolchains")).ok());
    folders
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin/rustc")))
        .collect()
}

/// True when the compiler at this path lies in an installation with sources. The proxies of rustup
/// do not, and need not: their toolchains are looked at one by one.
fn has_sources(rustc: &Path) -> bool {
    rustc.is_file()
        && sysroot_of(rustc).is_some_and(|root| {
            root.join("lib/rustlib/src/rust/library/core/src/lib.rs")
                .exists()
        })
}

/// The installation of a compiler: it lies in `bin` of it.
fn sysroot_of(rustc: &Path) -> Option<&Path> {
    rustc.parent()?.parent()
}

/// Asks compiler, cargo and linker what they are.
fn identify(rustc: &Path) -> Result<Identity> {
    let verbose = command::output(Command::new(rustc).arg("-vV"))?;
    let llvm = verbose
        .lines()
        .find_map(|line| line.strip_prefix("LLVM version: "))
        .context("rustc names no LLVM version")?;
    let linker = command::find_program("bpf-linker").context("bpf-linker is not there")?;
    Ok(Identity {
        rustc: verbose.lines().next().unwrap_or_default().to_owned(),
        llvm: llvm.to_owned(),
        cargo: version(&mut command::cargo())?,
        linker: version(&mut Command::new(linker))?,
    })
}

fn version(program: &mut Command) -> Result<String> {
    let text = command::output(program.arg("--version"))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_counts_only_with_its_sources() {
        let sysroot = tempfile::tempdir().expect("a temporary folder");
        let rustc = sysroot.path().join("bin/rustc");
        fs::create_dir_all(sysroot.path().join("bin")).expect("a folder");
        fs::write(&rustc, "").expect("a file");
        assert!(!has_sources(&rustc));

        let core = sysroot.path().join("lib/rustlib/src/rust/library/core/src");
        fs::create_dir_all(&core).expect("a folder");
        fs::write(core.join("lib.rs"), "").expect("a file");
        assert!(has_sources(&rustc));
        assert!(!has_sources(&sysroot.path().join("bin/absent")));
    }
}
