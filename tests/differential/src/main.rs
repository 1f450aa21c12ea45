//! `cargo xtask fuzz differential`: see the library of the same name.

mod mutants;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use turnkey_differential::campaign::{Finding, Summary, read, shrink};
use turnkey_differential::jail::{Bench, Way};
use turnkey_differential::mounts;

#[derive(Parser)]
struct Arguments {
    /// The command that is looked at
    #[arg(long)]
    turnkey: PathBuf,
    /// For how long
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The number of the first program
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many disagreements end it
    #[arg(long, default_value_t = 1)]
    stop: usize,
    /// Where programs are kept on which turnkey and the observers do not agree
    #[arg(long)]
    findings: Option<PathBuf>,
    /// A program that was kept, and nothing else
    #[arg(long)]
    input: Vec<PathBuf>,
    /// How long it takes to find each change of mutants.toml, in a turnkey of its own
    #[arg(long)]
    mutants: bool,
    /// With --mutants: this one and no other
    #[arg(long, requires = "mutants")]
    only: Vec<String>,
    /// With --input: rules act
    #[arg(long)]
    enforce: bool,
    /// With --input: the jail has a loopback
    #[arg(long)]
    loopback: bool,
    /// With --input: every call is stopped
    #[arg(long)]
    stops: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything agrees.
fn run(arguments: &Arguments) -> Result<bool> {
    if arguments.mutants {
        return mutants::run(arguments).map(|()| true);
    }
    mounts::see_traces()?;
    let bench = Bench::new(&arguments.turnkey)?;
    let mut summary = Summary::default();
    for input in &arguments.input {
        let way = Way {
            enforces: arguments.enforce,
            stops: arguments.stops,
            has_loopback: arguments.loopback,
        };
        summary.add(&bench, &input.display().to_string(), &read(input)?, way)?;
    }
    if arguments.input.is_empty() {
        let time = Duration::from_secs(arguments.seconds);
        summary.generate(&bench, arguments.seed, time, arguments.stop)?;
    }
    eprint!("{summary}");
    for finding in &summary.found {
        eprintln!("{} {:?}: {}", finding.name, finding.way, finding.what);
        if let Some(folder) = arguments
            .findings
            .as_ref()
            .filter(|_| arguments.input.is_empty())
        {
            keep(&bench, finding, folder)?;
        }
    }
    Ok(summary.found.is_empty())
}

/// Makes a finding short, and writes it down.
fn keep(bench: &Bench, finding: &Finding, folder: &std::path::Path) -> Result<()> {
    let (program, what) = shrink(bench, finding)?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(format!("{}.json", finding.name.replace(' ', "-")));
    std::fs::write(&path, serde_json::to_string_pretty(&program)? + "\n")?;
    eprintln!("  shorter: {what}\n  kept as {}", path.display());
    Ok(())
}
