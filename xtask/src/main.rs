//! `cargo xtask`: everything with more than one step, one file per subcommand.

mod bench;
mod command;
mod corpus;
mod demo;
mod ebpf;
mod fuzz;
mod mbpp;
mod roll_call;
mod run;
mod screenshot;
mod setup;
mod test;
mod tidy;
mod vm;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// What turnkey answers when it fails itself, before the program ran: see the exit codes in README.md.
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
    Vm(vm::Arguments),
    /// Runs every example in its jail and compares what was seen with what its header promises
    Demo(demo::Arguments),
    /// Runs a corpus of small Python programs in the jail and outside, and writes docs/mbpp.md
    Mbpp(mbpp::Arguments),
    /// Measures what turnkey costs, beside others, and writes docs/benchmarks.md
    Bench(bench::Arguments),
    /// Runs a corpus of risky programs in the jail, sees from outside what becomes of each, and writes docs/corpus.md
    Corpus(corpus::Arguments),
    /// Runs a hostile example and keeps a picture of its report as docs/report.png
    Screenshot,
    /// Builds the BPF object and its lock file, or checks that they are fresh
    Ebpf(ebpf::Arguments),
    /// Gives what reads bytes from outside bytes that nobody thought of
    Fuzz(fuzz::Arguments),
    /// Checks the rules of the house: format, lints, dependency direction, unsafe, words, lengths
    Tidy,
}

fn main() -> ExitCode {
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
        Task::Vm(arguments) => vm::run(arguments),
        Task::Demo(arguments) => demo::run(arguments),
        Task::Mbpp(arguments) => mbpp::run(arguments),
        Task::Bench(arguments) => bench::run(arguments),
        Task::Corpus(arguments) => corpus::run(arguments),
        Task::Screenshot => screenshot::run(),
        Task::Ebpf(arguments) => ebpf::run(arguments),
        Task::Fuzz(arguments) => fuzz::run(arguments),
        Task::Tidy => tidy::run(),
    }
}
