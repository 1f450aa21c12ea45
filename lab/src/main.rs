//! `cargo lab`: what measures turnkey and shows it, one file per subcommand.

mod audit;
mod bench;
mod corpus;
mod demo;
mod programs;
mod readme;
mod scan;
mod screenshot;
mod suites;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use xtask::{command, setup, workspace};

#[derive(Parser)]
#[command(
    bin_name = "cargo lab",
    about = "Measures turnkey and shows it; writes pages of docs/"
)]
enum LabTask {
    /// Runs every example in its jail and compares what was seen with what its header promises
    Demo(demo::DemoArguments),
    /// Measures what turnkey costs, beside others, and writes docs/benchmarks.md
    Bench(bench::BenchArguments),
    /// Measures turnkey and others from inside, by `turnkey audit`, and writes docs/audit.md
    Audit(audit::Arguments),
    /// Runs a corpus of risky programs in the jail, sees from outside what becomes of each, and writes docs/corpus.md
    Corpus(corpus::CorpusArguments),
    /// Runs a hostile example and keeps what it said in README.md
    Readme(readme::ReadmeArguments),
    /// Scans a corpus of risky scripts and honest ones of installed packages, and writes docs/scan-figures.md
    Scan(scan::ScanArguments),
    /// Runs test suites of others in a jail and outside, and writes docs/suites.md
    Suites(suites::Arguments),
    /// Runs a hostile example and keeps a picture of its report as docs/report.png
    Screenshot,
}

fn main() -> ExitCode {
    match perform(&LabTask::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: &LabTask) -> Result<()> {
    match task {
        LabTask::Demo(arguments) => demo::run(arguments),
        LabTask::Bench(arguments) => bench::run(arguments),
        LabTask::Audit(arguments) => audit::run(arguments),
        LabTask::Corpus(arguments) => corpus::run(arguments),
        LabTask::Readme(arguments) => readme::run(arguments),
        LabTask::Scan(arguments) => scan::run(arguments),
        LabTask::Suites(arguments) => suites::run(arguments),
        LabTask::Screenshot => screenshot::run(),
    }
}
