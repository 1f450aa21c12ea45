//! `cargo xtask`: everything with more than one step, one file per subcommand.
//!
//! A library, because the lab runs commands, installs packages and builds turnkey in the same way.

pub mod command;
mod ebpf;
mod fuzz;
pub mod machine;
mod other;
mod roll_call;
mod run;
pub mod setup;
mod test;
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
enum Task {
    /// Installs what is missing on Debian and Ubuntu, names it elsewhere
    Setup(setup::Arguments),
    /// Installs what is missing, builds turnkey and runs it: cargo xtask run -- run -- python3 x.py
    Run(run::Arguments),
    /// Installs what is missing, builds turnkey and runs all tests
    Test(test::Arguments),
    /// Runs the end-to-end tests on other kernels, in an emulated machine with pure cgroup v2
    Vm(other::Arguments),
    /// Builds what measures and shows turnkey, and becomes it: the same as `cargo lab`
    Lab(other::Arguments),
    /// Runs every example in its jail: the same as `cargo lab demo`
    Demo(other::Arguments),
    /// Makes a static binary, a .deb and a tarball, in target/dist
    Dist(other::Arguments),
    /// Builds the BPF object and its lock file, or checks that they are fresh
    Ebpf(ebpf::Arguments),
    /// Gives what reads bytes from outside bytes that nobody thought of
    Fuzz(fuzz::Arguments),
    /// Checks the rules of the house: format, lints, dependency direction, unsafe, words, lengths
    Tidy,
}

/// Does what the command line says.
#[must_use]
pub fn main() -> ExitCode {
    let task = Task::parse();
    let code_of_failure = match task {
        // The caller of `run` reads the exit codes of turnkey, so a build that failed must not
        // look like the status of the program.
        Task::Run(_) => ExitCode::from(TURNKEY_FAILED),
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

fn perform(task: &Task) -> Result<()> {
    match task {
        Task::Setup(arguments) => setup::run(arguments),
        Task::Run(arguments) => run::run(arguments),
        Task::Test(arguments) => test::run(arguments),
        Task::Vm(arguments) => other::machines(arguments),
        Task::Lab(arguments) => other::lab(arguments),
        Task::Demo(arguments) => other::demo(arguments),
        Task::Dist(arguments) => other::packages(arguments),
        Task::Ebpf(arguments) => ebpf::run(arguments),
        Task::Fuzz(arguments) => fuzz::run(arguments),
        Task::Tidy => tidy::run(),
    }
}
