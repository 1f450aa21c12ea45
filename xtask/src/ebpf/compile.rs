//! One build of the BPF programs.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use fs_err as fs;

use super::stage;
use super::toolchain::Toolchain;
use crate::workspace::Programs;
use crate::{command, workspace};

const TARGET: &str = "bpfel-unknown-none";

/// Builds the programs of the checkout at `root` in `folder`, as a change of their copy makes them, and returns the object
/// without debugging information. `features` are those of the programs.
pub fn compile(
    root: &Path,
    folder: &Path,
    toolchain: &Toolchain,
    features: &[&str],
    change: impl FnOnce(&Path) -> Result<()>,
) -> Result<Vec<u8>> {
    let stage = folder.join("stage");
    stage::fill(root, &stage)?;
    change(&stage)?;
    let mut build = cargo_build(&stage, toolchain)?;
    build.arg("--target-dir").arg(folder.join("target"));
    if !features.is_empty() {
        build.arg("--features").arg(features.join(","));
    }
    let object = Programs::build(&mut build)?.named("turnkey-bpf")?;
    without_debugging(root, &object, &folder.join("stripped.o"))
}

/// The object without what only debuggers read. The program that takes it out is built for this alone.
fn without_debugging(root: &Path, object: &Path, to: &Path) -> Result<Vec<u8>> {
    let mut strip = command::cargo();
    strip
        .args(["run", "--quiet", "--package", "turnkey-strip", "--"])
        .args([object, to])
        .current_dir(root);
    command::check(&mut strip)?;
    Ok(fs::read(to)?)
}

fn cargo_build(stage: &Path, toolchain: &Toolchain) -> Result<Command> {
    let mut build = workspace::cargo_build();
    build
        // Target and `build-std` stand in the configuration that was copied with the sources.
        .args(["--release", "--locked"])
        .arg("--config")
        .arg(remapping(stage, toolchain)?)
        .current_dir(stage);
    forget_settings(&mut build);
    build
        .env("RUSTC", &toolchain.rustc)
        // This workspace's own compiler is called by a script, whose place would be in the name of each item: cargo looks for
        // settings above the folder as well.
        .env("RUSTC_WORKSPACE_WRAPPER", "")
        // Lets a compiler that is not a nightly build `core` from source.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("PATH", path_with_cargo_programs()?);
    Ok(build)
}

/// Clears the environment's settings for compiling: they are meant for other code, and would change bytes.
fn forget_settings(build: &mut Command) {
    let unwanted = |name: &str| {
        name.ends_with("RUSTFLAGS")
            || name.starts_with("CARGO_BUILD_")
            || name.starts_with("CARGO_PROFILE_")
            || name.starts_with("CARGO_TARGET_")
            || name.starts_with("RUSTC_")
            || name == "CARGO_INCREMENTAL"
    };
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(unwanted) {
            build.env_remove(name);
        }
    }
}

/// The places that differ between machines get fixed names in everything that is recorded.
/// Written as configuration, it is joined with the flags of `monitor-ebpf/.cargo/config.toml`.
fn remapping(stage: &Path, toolchain: &Toolchain) -> Result<String> {
    let cargo_home = command::cargo_home().context("there is no home folder")?;
    let library = toolchain.sysroot.join("lib/rustlib/src/rust");
    let mut places = vec![
        (fs::canonicalize(stage)?, "/turnkey"),
        (cargo_home.join("registry/src"), "/crates"),
        (fs::canonicalize(&library)?, "/rust"),
        (library, "/rust"),
    ];
    if let Ok(real_home) = fs::canonicalize(&cargo_home) {
        places.push((real_home.join("registry/src"), "/crates"));
    }
    let flags = places
        .iter()
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    let flags = toml::Value::Array(flags.map(toml::Value::String).collect());
    Ok(format!("target.{TARGET}.rustflags={flags}"))
}

/// bpf-linker may lie where cargo installs programs and nobody put that folder on the path.
fn path_with_cargo_programs() -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let programs = command::cargo_home().map(|home| home.join("bin"));
    std::env::join_paths(std::env::split_paths(&path).chain(programs))
        .context("the search path cannot be extended")
}
