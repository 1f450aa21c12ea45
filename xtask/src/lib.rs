//! `cargo xtask`: everything with more than one step, one file per subcommand.
//!
//! A library, because the lab runs commands, installs packages and builds turnkey in the same way.

pub mod command;
pub mod ebpf;
pub mod expectations;
mod fuzz;
pub mod machine;
mod other;
mod roll_call;
mod run;
pub mod setup;
pub mod test;
mod tidy;
mod unable;
pub mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// The exit code of turnkey when it fails itself, before the program ran: see README.md.
const TURNKEY_FAILED: u8 = 125;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "The task runner of turnkey")]
enum Subcommand {
    /// Installs what is missing on Debian and Ubuntu, names it elsewhere
    Setup(setup::SetupArguments),
    /// Installs what is missing, builds turnkey and runs it: cargo xtask run -- run -- python3 x.py
    Run(run::RunArguments),
    /// Installs what is missing, builds turnkey and runs all tests
    Test(test::TestArguments),
    /// Runs the end-to-end tests on other kernels, in an emulated machine with pure cgroup v2
    Vm(other::ForwardedArguments),
    /// Builds what measures and shows turnkey, and becomes it: the same as `cargo lab`
    Lab(other::ForwardedArguments),
    /// Runs every example in its jail: the same as `cargo lab demo`
    Demo(other::ForwardedArguments),
    /// Makes a static binary, a .deb and a tarball, in target/dist
    Dist(other::ForwardedArguments),
    /// Builds the BPF object and its lock file, or checks that they are fresh
    Ebpf(ebpf::EbpfArguments),
    /// Gives what reads bytes from outside bytes that nobody thought of
    Fuzz(fuzz::FuzzArguments),
    /// Checks the rules of the house: format, lints, dependency direction, unsafe, words, lengths
    Tidy,
}

/// Does what the command line says.
#[must_use]
pub fn main() -> ExitCode {
    let task = Subcommand::parse();
    let code_of_failure = match task {
        // The caller of `run` reads the exit codes of turnkey, so a build that failed must not
        // look like the status of the program.
        Subcommand::Run(_) => ExitCode::from(TURNKEY_FAILED),
        _ => ExitCode::FAILURE,
    };
    match perform(&task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            code_of_failure
        }
    }
}

fn perform(task: &Subcommand) -> Result<()> {
    match task {
        Subcommand::Setup(arguments) => setup::run(arguments),
        Subcommand::Run(arguments) => run::run(arguments),
        Subcommand::Test(arguments) => test::run(arguments),
        Subcommand::Vm(arguments) => other::machines(arguments),
        Subcommand::Lab(arguments) => other::lab(arguments),
        Subcommand::Demo(arguments) => other::demo(arguments),
        Subcommand::Dist(arguments) => other::packages(arguments),
        Subcommand::Ebpf(arguments) => ebpf::run(arguments),
        Subcommand::Fuzz(arguments) => fuzz::run(arguments),
        Subcommand::Tidy => tidy::run(),
    }
}
