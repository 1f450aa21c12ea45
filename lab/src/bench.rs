//! `cargo lab bench`: what turnkey costs, beside others, measured in turns.
//!
//! It is not part of the tests: figures need a machine that does nothing else. Everything happens in a mount
//! namespace with a BPF file system of its own, so that turnkey's programs leave with it whatever happens.

mod alive;
mod attached;
mod baseline;
mod bpftrace;
mod cost;
mod events;
mod findings;
mod flat;
mod floor;
mod goals;
mod kill;
mod leak;
pub mod machine;
mod page;
mod pairs;
pub mod peers;
mod plots;
pub mod rounds;
mod scale;
mod served;
pub mod stage;
mod start;
mod statistics;
mod steps;
mod work;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::setup::PackageList;
use crate::{command, setup, workspace};
use baseline::Baseline;
use findings::Findings;
use floor::Floor;
use peers::Present;
use rounds::BenchExtent;
use stage::BenchStage;

/// The arguments of `bench`.
#[derive(Args)]
pub struct BenchArguments {
    /// Less of everything, in two minutes; docs/ stays as it is
    #[arg(long)]
    quick: bool,
    /// Only these sections; docs/ stays as it is
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SECTION")]
    only: Vec<PartName>,
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
enum PartName {
    /// Until a program that does nothing has ended
    Start,
    /// The cost of watching while a program runs
    Cost,
    /// The addition to programs, beside the same jail unwatched
    Programs,
    /// The time until an offender is dead, and everybody with it
    Kill,
    /// The amount of evidence that can be taken
    Events,
    /// Many jails, one after another and side by side
    Scale,
    /// The traces that many runs leave behind
    Leak,
    /// Many runs through the service, the last ones beside the first ones
    Flat,
}

/// Below the checkout.
const DOCS: &str = "docs";
const BASELINE: &str = "benchmarks.json";

/// The means that all sections are given.
struct Bench {
    stage: BenchStage,
    peers: Vec<Present>,
    floor: Floor,
    quick: bool,
}

/// Measures, prints the page, and writes it where that is wanted.
pub fn run(arguments: &BenchArguments) -> Result<()> {
    if !arguments.inside {
        return into_a_namespace(&[PackageList::Build, PackageList::Examples]);
    }
    let docs = workspace::root().join(DOCS);
    let baseline = arguments
        .check
        .then(|| Baseline::read(&docs.join(BASELINE)));
    let baseline = baseline.transpose()?;
    let (bench, mut absent) = Bench::new(arguments)?;
    let mut findings = Findings::default();
    let failed = measure_all(&bench, &arguments.only, &mut findings);
    absent.extend(failed.iter().cloned());
    let machine = machine::here()?;
    let page = page::text(&findings, &machine, &absent);
    eprintln!("{page}");
    let is_whole = !arguments.quick && arguments.only.is_empty();
    let folder = arguments.out.clone().or(is_whole.then_some(docs));
    match (baseline, folder) {
        (Some(baseline), _) => compare(&baseline, &findings)?,
        (None, Some(folder)) => {
            page::write(&folder, &page, &findings)?;
            let ratios = findings.ratios;
            let text = Baseline { machine, ratios }.text()?;
            fs::write(folder.join(BASELINE), text).context("cannot write the ratios")?;
        }
        (None, None) => {}
    }
    all_measured(&failed)
}

/// Measures what is asked for, and says what could not be. One that fails takes nothing from the others: a whole run
/// takes long.
fn measure_all(bench: &Bench, only: &[PartName], findings: &mut Findings) -> Vec<String> {
    let started = Instant::now();
    let mut failed = Vec::new();
    for &name in PartName::value_variants() {
        if only.is_empty() || only.contains(&name) {
            if let Err(error) = measure(bench, name, findings) {
                failed.push(format!("{error:#}"));
            }
            eprintln!("{name:?} after {} s", started.elapsed().as_secs());
        }
    }
    failed
}

fn all_measured(failed: &[String]) -> Result<()> {
    if !failed.is_empty() {
        bail!("not everything was measured:\n  {}", failed.join("\n  "));
    }
    Ok(())
}

fn measure(bench: &Bench, name: PartName, findings: &mut Findings) -> Result<()> {
    let Bench {
        stage,
        peers,
        floor,
        ..
    } = bench;
    match name {
        PartName::Start => start::measure(stage, bench.extent(9, 11), peers, floor, findings),
        PartName::Cost => {
            let files = if bench.quick { 10_000 } else { 100_000 };
            cost::measure(stage, bench.extent(5, 1), peers, files, findings)
        }
        PartName::Programs => pairs::measure(stage, bench.extent(25, 3), findings),
        PartName::Kill => kill::measure(stage, if bench.quick { 5 } else { 50 }, findings),
        PartName::Events => {
            let milliseconds = if bench.quick { 300 } else { 2000 };
            events::measure(stage, bench.extent(5, 3), milliseconds, findings)
        }
        PartName::Scale => scale::measure(stage, bench.scale(), peers, floor, findings),
        PartName::Flat => flat::measure(stage, if bench.quick { 400 } else { 10_000 }, findings),
        PartName::Leak => leak::measure(stage, if bench.quick { 300 } else { 10_000 }, findings),
    }
    .with_context(|| format!("{name:?} could not be measured"))
}

impl Bench {
    /// With everything that is measured, and the names of those who are not there.
    fn new(arguments: &BenchArguments) -> Result<(Bench, Vec<String>)> {
        let turnkey = match &arguments.turnkey {
            Some(program) => program.clone(),
            None => workspace::build_turnkey()?,
        };
        let stage = BenchStage::new(&turnkey)?;
        let (peers, mut absent) = peers::present(&stage)?;
        absent.extend(peers::absent_watchers());
        let quick = arguments.quick;
        let bench = Bench {
            floor: Floor::new(&stage)?,
            stage,
            peers,
            quick,
        };
        Ok((bench, absent))
    }

    /// So many rounds of so many repeats, or a few when it has to be quick.
    fn extent(&self, rounds: usize, repeats: usize) -> BenchExtent {
        if self.quick {
            BenchExtent {
                rounds: 3,
                repeats: repeats.div_ceil(3),
            }
        } else {
            BenchExtent { rounds, repeats }
        }
    }

    /// The number of jails.
    fn scale(&self) -> scale::Size {
        let (milliseconds, alive, mounts, starts) = if self.quick {
            (200, 50, 500, 5)
        } else {
            (1000, 500, 4000, 25)
        };
        scale::Size {
            extent: self.extent(5, 1),
            window: Duration::from_millis(milliseconds),
            alive,
            mounts,
            starts,
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

/// Becomes the same command, with everybody installed who can be, where mounts are nobody else's.
/// Becomes this command again, with `--inside`, in a mount namespace of its own.
pub fn into_a_namespace(needs: &[PackageList]) -> Result<()> {
    let ours = fs::metadata("/proc/self").context("cannot tell which user this is")?;
    if ours.uid() != 0 {
        bail!("only root loads programs into the kernel, and becomes somebody else");
    }
    setup::ensure(needs)?;
    if let Err(error) = setup::ensure(&[PackageList::Peers]) {
        eprintln!("goes on without: {error:#}");
    }
    let words: [OsString; 2] = ["--mount".into(), "--propagation=private".into()];
    let mut unshare = Command::new("unshare");
    unshare
        .args(words)
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1));
    command::become_it(unshare.arg("--inside"))
}
