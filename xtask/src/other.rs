//! Programs outside of this crate, so that whoever runs turnkey does not wait until they are compiled: the lab, in a
//! workspace of its own because its crates draw and count, the machines that boot other kernels, and the packages.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Seek;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
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
    let name = OsStr::new("demo").to_owned();
    let words: Vec<_> = std::iter::once(name)
        .chain(arguments.words.iter().cloned())
        .collect();
    become_lab(&words)
}

fn become_lab(words: &[OsString]) -> Result<()> {
    setup::ensure(&[PackageList::Build])?;
    let mut lab = run("lab/Cargo.toml");
    command::become_it(lab.arg("--").args(words))
}

/// Builds the program that boots other kernels, and becomes it.
pub fn machines(arguments: &ForwardedArguments) -> Result<()> {
    setup::ensure(&[PackageList::Build])?;
    command::become_it(run_package("turnkey-machines").args(&arguments.words))
}

/// Builds the program that makes packages, and becomes it.
pub fn packages(arguments: &ForwardedArguments) -> Result<()> {
    setup::ensure(&[PackageList::Build])?;
    command::become_it(run_package("turnkey-packaging").args(&arguments.words))
}

/// A machine with BPF LSM, in which the tests run that only it can run. It emulates one processor: beside it the tests of this host run.
pub struct MachineByDay {
    child: Child,
    /// The lines that it has said.
    log: File,
    started: Instant,
}

impl MachineByDay {
    /// Boots it.
    pub fn start() -> Result<MachineByDay> {
        let log = tempfile::tempfile()?;
        let mut machine = run_package("turnkey-machines");
        machine
            .arg("--by-day")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.try_clone()?);
        Ok(MachineByDay {
            child: machine.spawn().context("cannot start the guest")?,
            log,
            started: Instant::now(),
        })
    }

    /// Waits for its end, and says what it has said; how many tests have passed, and the seconds from its start.
    pub fn end(mut self) -> (Result<usize>, u64) {
        let output = self.child.wait_with_output();
        let seconds = self.started.elapsed().as_secs();
        let said = self.log.rewind();
        let said = said.and_then(|()| std::io::copy(&mut self.log, &mut std::io::stderr()));
        let passed = said.and(output).context("the guest cannot be heard");
        let passed = passed.and_then(|output| {
            ensure!(output.status.success(), "the guest: {}", output.status);
            let number = String::from_utf8_lossy(&output.stdout).trim().parse();
            number.context("no number of passed tests")
        });
        (passed, seconds)
    }
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
