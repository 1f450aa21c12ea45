//! `cargo xtask setup`: installs what is missing on Debian and Ubuntu, names it elsewhere.

mod elsewhere;
mod needs;
mod packages;
mod programs;

use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use clap::Args;

use needs::{BPF_COMPILER, BPF_LINKER, Need};
pub use needs::{BUILD, CORPUS, END_TO_END, EXAMPLES, FUZZ, GUEST, PEERS, REPORTS};
use programs::ensure_bpf_linker;
pub use programs::ensure_nextest;

use crate::ebpf::toolchain;

/// The arguments of `setup`.
#[derive(Args)]
pub struct Arguments {
    /// Install nothing; fail when something is missing
    #[arg(long)]
    check: bool,
    /// Also what builds the BPF object: a rustc with its sources, LLVM, bpf-linker
    #[arg(long)]
    ebpf: bool,
}

/// Installs, or with `--check` names, whatever the tasks need.
pub fn run(arguments: &Arguments) -> Result<()> {
    let started = Instant::now();
    if arguments.check {
        check(arguments.ebpf)?;
    } else {
        ensure(&[BUILD, END_TO_END, EXAMPLES, FUZZ, GUEST, REPORTS])?;
        ensure_nextest()?;
        if arguments.ebpf {
            ensure_ebpf()?;
        }
    }
    eprintln!("everything is there ({} ms)", started.elapsed().as_millis());
    Ok(())
}

/// Sees to it that every package of these lists is there.
pub fn ensure(lists: &[&'static [Need]]) -> Result<()> {
    let mut missing = needs::missing(lists);
    if !packages::may_install()? {
        // Nobody is asked for what a task can go on without.
        missing.retain(|need| !need.is_optional());
    }
    if missing.is_empty() {
        return Ok(());
    }
    packages::install(&missing)?;
    let mut still = needs::missing(lists);
    still.retain(|need| !need.is_optional());
    if !still.is_empty() {
        bail!(
            "still missing after the installation:\n{}",
            needs::listed(&still)
        );
    }
    Ok(())
}

/// Sees to it that the BPF object can be built.
fn ensure_ebpf() -> Result<()> {
    ensure(&ebpf_needs()).map_err(|error| anyhow!("{error:#}\n\n{}", toolchain::HOW_TO_GET_ONE))?;
    ensure_bpf_linker()
}

/// The system's part in building the BPF object. A nightly with its sources serves as well
/// as Debian's compiler, and LLVM is needed only to build the linker.
fn ebpf_needs() -> Vec<&'static [Need]> {
    let mut lists = Vec::new();
    if toolchain::any().is_none() {
        lists.push(BPF_COMPILER);
    }
    if !programs::has_bpf_linker() {
        lists.push(BPF_LINKER);
    }
    lists
}

/// Names what is missing.
fn check(with_ebpf: bool) -> Result<()> {
    let mut lists = vec![BUILD, END_TO_END, EXAMPLES, FUZZ, GUEST, REPORTS];
    if with_ebpf {
        lists.extend(ebpf_needs());
    }
    let mut missing = needs::missing(&lists);
    missing.retain(|need| !need.is_optional());
    let mut advice = Vec::new();
    if !missing.is_empty() {
        advice.push(packages::advice(&missing));
    }
    if with_ebpf && toolchain::any().is_none() {
        advice.push(toolchain::HOW_TO_GET_ONE.to_owned());
    }
    advice.extend(programs::advice(with_ebpf));
    if advice.is_empty() {
        return Ok(());
    }
    bail!("{}", advice.join("\n"))
}
