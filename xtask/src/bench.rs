//! `cargo xtask bench`: what turnkey costs, beside others, measured in turns.
//!
//! It is not part of the tests: figures need a machine that does nothing else. Everything happens in a mount
//! namespace with a BPF file system of its own, so that turnkey's programs leave with it whatever happens.

mod baseline;
mod bpftrace;
mod cost;
mod findings;
mod goals;
mod machine;
mod page;
mod peers;
mod plots;
mod rounds;
mod stage;
mod start;
mod statistics;
mod work;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::{command, setup, workspace};
use baseline::Baseline;
use findings::Findings;
use peers::Present;
use rounds::Extent;
use stage::Stage;

/// What `bench` is given.
#[derive(Args)]
pub struct Arguments {
    /// Less of everything, in two minutes; docs/ stays as it is
    #[arg(long)]
    quick: bool,
    /// Only these sections; docs/ stays as it is
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SECTION")]
    only: Vec<Name>,
    /// Write nothing, and fail when a ratio is worse than in docs/benchmarks.json by more than the noise
    #[arg(long)]
    check: bool,
    /// Write the page and its pictures to this folder, whatever was measured
    #[arg(long, value_name = "FOLDER", conflicts_with = "check")]
    out: Option<PathBuf>,
    /// Measure this turnkey, instead of building the one of the checkout
    #[arg(long, value_name = "PROGRAM")]
    turnkey: Option<PathBuf>,
    /// Says that this process is in the namespace already
    #[arg(long, hide = true)]
    inside: bool,
}

/// A section of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Until a program that does nothing has ended
    Start,
    /// What watching costs while a program runs
    Cost,
}

/// Below the checkout.
const DOCS: &str = "docs";
const BASELINE: &str = "benchmarks.json";

/// What all sections are given.
struct Bench {
    stage: Stage,
    peers: Vec<Present>,
    quick: bool,
}

/// Measures, prints the page, and writes it where that is wanted.
pub fn run(arguments: &Arguments) -> Result<()> {
    if !arguments.inside {
        setup::ensure(&[setup::BUILD, setup::EXAMPLES, setup::PEERS])?;
        return into_a_namespace();
    }
    let started = Instant::now();
    let docs = workspace::root().join(DOCS);
    let baseline = arguments
        .check
        .then(|| Baseline::read(&docs.join(BASELINE)))
        .transpose()?;
    let turnkey = match &arguments.turnkey {
        Some(program) => program.clone(),
        None => workspace::build_turnkey()?,
    };
    let stage = Stage::new(&turnkey)?;
    let (peers, absent) = peers::present(&stage)?;
    let bench = Bench {
        stage,
        peers,
        quick: arguments.quick,
    };
    let mut findings = Findings::default();
    for &name in Name::value_variants() {
        if arguments.only.is_empty() || arguments.only.contains(&name) {
            measure(&bench, name, &mut findings)?;
            eprintln!("{name:?} after {} s", started.elapsed().as_secs());
        }
    }
    let machine = machine::here()?;
    let page = page::text(&findings, &machine, &absent);
    eprintln!("{page}");
    if let Some(baseline) = baseline {
        return compare(&baseline, &findings);
    }
    let is_whole = !arguments.quick && arguments.only.is_empty();
    let folder = arguments.out.clone().or(is_whole.then_some(docs));
    if let Some(folder) = folder {
        page::write(&folder, &page, &findings)?;
        let ratios = findings.ratios;
        let text = Baseline { machine, ratios }.text()?;
        fs::write(folder.join(BASELINE), text).context("cannot write the ratios")?;
    }
    Ok(())
}

fn measure(bench: &Bench, name: Name, findings: &mut Findings) -> Result<()> {
    let Bench { stage, peers, .. } = bench;
    match name {
        Name::Start => start::measure(stage, bench.extent(9, 11), peers, findings),
        Name::Cost => {
            let files = if bench.quick { 10_000 } else { 100_000 };
            cost::measure(stage, bench.extent(7, 1), peers, files, findings)
        }
    }
    .with_context(|| format!("{name:?} could not be measured"))
}

impl Bench {
    /// So many rounds of so many repeats, or a few when it has to be quick.
    fn extent(&self, rounds: usize, repeats: usize) -> Extent {
        if self.quick {
            Extent {
                rounds: 3,
                repeats: repeats.div_ceil(3),
            }
        } else {
            Extent { rounds, repeats }
        }
    }
}

/// Fails when something has become worse.
fn compare(baseline: &Baseline, findings: &Findings) -> Result<()> {
    let here = machine::here()?;
    if here != baseline.machine {
        eprintln!(
            "the baseline is of another machine: {}",
            baseline.machine.shown()
        );
    }
    let worse = baseline.worse(&findings.ratios);
    if !worse.is_empty() {
        bail!("worse than the baseline:\n  {}", worse.join("\n  "));
    }
    eprintln!(
        "{} ratios, none worse than the baseline",
        findings.ratios.len()
    );
    Ok(())
}

/// Becomes the same command where mounts are nobody else's.
fn into_a_namespace() -> Result<()> {
    let words: [OsString; 2] = ["--mount".into(), "--propagation=private".into()];
    let mut unshare = Command::new("unshare");
    unshare
        .args(words)
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1));
    command::become_it(unshare.arg("--inside"))
}
