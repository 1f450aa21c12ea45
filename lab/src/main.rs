//! `cargo lab`: what measures turnkey and shows it, one file per subcommand.

mod bench;
mod corpus;
mod demo;
mod mbpp;
mod readme;
mod screenshot;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use xtask::{command, setup, workspace};

#[derive(Parser)]
#[command(
    bin_name = "cargo lab",
    about = "Measures turnkey and shows it; writes pages of docs/"
)]
enum Task {
    /// Runs every example in its jail and compares what was seen with what its header promises
    Demo(demo::Arguments),
    /// Runs a corpus of small Python programs in the jail and outside, and writes docs/mbpp.md
    Mbpp(mbpp::Arguments),
    /// Measures what turnkey costs, beside others, and writes docs/benchmarks.md
    Bench(bench::Arguments),
    /// Runs a corpus of risky programs in the jail, sees from outside what becomes of each, and writes docs/corpus.md
    Corpus(corpus::Arguments),
    /// Runs a hostile example and keeps what it said in README.md
    Readme(readme::Arguments),
    /// Runs a hostile example and keeps a picture of its report as docs/report.png
    Screenshot,
}

fn main() -> ExitCode {
    match perform(&Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: &Task) -> Result<()> {
    match task {
        Task::Demo(arguments) => demo::run(arguments),
        Task::Mbpp(arguments) => mbpp::run(arguments),
        Task::Bench(arguments) => bench::run(arguments),
        Task::Corpus(arguments) => corpus::run(arguments),
        Task::Readme(arguments) => readme::run(arguments),
        Task::Screenshot => screenshot::run(),
    }
}
