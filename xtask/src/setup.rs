//! `cargo xtask setup`: installs what is missing on Debian and Ubuntu, names it elsewhere.

mod needs;
mod packages;
mod programs;
pub mod readers;

use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use clap::Args;

pub use needs::PackageList;
use needs::PackageTable;
use programs::BPF_LINKER;
pub use programs::NEXTEST;

use crate::ebpf::toolchain;

/// The arguments of `setup`.
#[derive(Args)]
pub struct SetupArguments {
    /// Install nothing; fail when something is missing
    #[arg(long)]
    check: bool,
    /// Also what builds the BPF object: a rustc with its sources, LLVM, bpf-linker
    #[arg(long)]
    ebpf: bool,
}

/// The lists of everybody; the others belong to one task.
const OF_ALL: [PackageList; 6] = [
    PackageList::Build,
    PackageList::EndToEnd,
    PackageList::Examples,
    PackageList::Fuzz,
    PackageList::Guest,
    PackageList::Reports,
];

/// Installs, or with `--check` names, whatever the tasks need.
pub fn run(arguments: &SetupArguments) -> Result<()> {
    let started = Instant::now();
    if arguments.check {
        check(arguments.ebpf)?;
    } else {
        ensure(&OF_ALL)?;
        NEXTEST.ensure()?;
        readers::ensure()?;
        if arguments.ebpf {
            ensure_ebpf()?;
        }
    }
    eprintln!("everything is there ({} ms)", started.elapsed().as_millis());
    Ok(())
}

/// Sees to it that every package of these lists is there, or says how to get it.
pub fn ensure(lists: &[PackageList]) -> Result<()> {
    let packages = PackageTable::read()?;
    let missing = packages.missing(lists);
    if !missing.is_empty() && packages::may_install()? {
        packages::install(&missing)?;
    }
    let advice = advice(lists)?;
    ensure!(advice.is_none(), "{}", advice.unwrap_or_default());
    Ok(())
}

/// The packages that are missing of these lists, and how to get them. Nobody is asked for what a task can go on without.
fn advice(lists: &[PackageList]) -> Result<Option<String>> {
    let packages = PackageTable::read()?;
    let mut missing = packages.missing(lists);
    missing.retain(|need| !need.optional);
    Ok((!missing.is_empty()).then(|| packages::advice(&packages, &missing)))
}

/// Sees to it that the BPF object can be built.
fn ensure_ebpf() -> Result<()> {
    ensure(&ebpf_needs()).map_err(|error| anyhow!("{error:#}\n\n{}", toolchain::HOW_TO_GET_ONE))?;
    BPF_LINKER.ensure()
}

/// The system's part in building the BPF object. A nightly with its sources serves as well
/// as Debian's compiler, and LLVM is needed only to build the linker.
fn ebpf_needs() -> Vec<PackageList> {
    let mut lists = Vec::new();
    if toolchain::any().is_none() {
        lists.push(PackageList::BpfCompiler);
    }
    if !BPF_LINKER.is_there() {
        lists.push(PackageList::BpfLinker);
    }
    lists
}

/// Names what is missing.
fn check(with_ebpf: bool) -> Result<()> {
    let mut lists = OF_ALL.to_vec();
    if with_ebpf {
        lists.extend(ebpf_needs());
    }
    let mut advice = Vec::from_iter(advice(&lists)?);
    if with_ebpf && toolchain::any().is_none() {
        advice.push(toolchain::HOW_TO_GET_ONE.to_owned());
    }
    advice.extend(programs::advice(with_ebpf));
    ensure!(advice.is_empty(), "{}", advice.join("\n"));
    Ok(())
}
