//! `cargo xtask setup`: installs what is missing on Debian and Ubuntu, names it elsewhere.

mod needs;
mod packages;
mod programs;

use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

pub use needs::{BUILD, EBPF, EXAMPLES, Need};
pub use programs::{ensure_bpf_linker, ensure_nextest};

use crate::ebpf::toolchain;

/// What `setup` is given.
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
        ensure(&[BUILD, EXAMPLES])?;
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
    let missing = needs::missing(lists);
    if missing.is_empty() {
        return Ok(());
    }
    packages::install(&missing)?;
    let still = needs::missing(lists);
    if !still.is_empty() {
        bail!(
            "still missing after the installation:\n{}",
            needs::listed(&still)
        );
    }
    Ok(())
}

/// Sees to it that the BPF object can be built. A nightly with its sources serves as well as
/// Debian's compiler, so that is looked for first.
fn ensure_ebpf() -> Result<()> {
    if toolchain::any().is_none() {
        ensure(&[EBPF]).context(toolchain::HOW_TO_GET_ONE)?;
    }
    ensure_bpf_linker()
}

/// Names what is missing.
fn check(with_ebpf: bool) -> Result<()> {
    let mut missing = needs::missing(&[BUILD, EXAMPLES]);
    let mut advice = Vec::new();
    if with_ebpf && toolchain::any().is_none() {
        missing.extend(needs::missing(&[EBPF]));
        advice.push(toolchain::HOW_TO_GET_ONE.to_owned());
    }
    advice.extend(programs::advice(with_ebpf));
    if !missing.is_empty() {
        advice.insert(0, packages::advice(&missing));
    }
    if advice.is_empty() {
        return Ok(());
    }
    bail!("{}", advice.join("\n"))
}
