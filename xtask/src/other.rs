//! Programs outside of this crate, so that whoever runs turnkey does not wait until they are compiled: the lab, in a
//! workspace of its own because its crates draw and count, the machines that boot other kernels, and the packages.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::setup::PackageList;
use crate::{command, setup, workspace};

/// The arguments of such a program.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct ForwardedArguments {
    /// Handed on as they are
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Builds the lab and becomes it.
pub fn lab(arguments: &ForwardedArguments) -> Result<()> {
    become_lab(&arguments.words)
}

/// The same, for the one command of the lab that is part of what must hold before a change lands.
pub fn demo(arguments: &ForwardedArguments) -> Result<()> {
    become_lab(&[&["demo".into()], &*arguments.words].concat())
}

fn become_lab(words: &[OsString]) -> Result<()> {
    setup::ensure(&[PackageList::Build])?;
    let mut lab = run("lab/Cargo.toml");
    command::become_it(lab.arg("--").args(words))
}

/// Builds the program that boots other kernels, and becomes it.
pub fn machines(arguments: &ForwardedArguments) -> Result<()> {
    become_package("turnkey-machines", arguments)
}

/// Builds the program that makes packages, and becomes it.
pub fn packages(arguments: &ForwardedArguments) -> Result<()> {
    become_package("turnkey-packaging", arguments)
}

fn become_package(name: &str, arguments: &ForwardedArguments) -> Result<()> {
    setup::ensure(&[PackageList::Build])?;
    command::become_it(run_package(name).args(&arguments.words))
}

/// Runs, in a machine with BPF LSM, the tests that only it can run; how many those are.
pub fn machine_by_day() -> Result<usize> {
    let passed = command::output(run_package("turnkey-machines").arg("--by-day"))?;
    passed.trim().parse().context("no number of passed tests")
}

fn run_package(name: &str) -> Command {
    let mut run = run("Cargo.toml");
    run.args(["--package", name, "--"]);
    run
}

/// `cargo run` in the workspace of a manifest, with the build folder of this one: what both use is compiled once.
fn run(manifest: &str) -> Command {
    let mut run = command::cargo();
    run.args(["run", "--quiet", "--profile", "quick", "--locked"])
        .arg("--manifest-path")
        .arg(workspace::root().join(manifest))
        .arg("--target-dir")
        .arg(workspace::target_folder());
    run
}
