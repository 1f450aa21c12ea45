//! The remains of many runs: nothing, if all is well.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::findings::{Findings, FindingsBlock, Section};
use super::plots;
use super::rounds::Phase;
use super::stage::{BenchStage, printed, timed};
use super::start::turnkey;
use super::statistics::Ratio;
use crate::workspace::{self, Programs};

const TRUE: [&str; 1] = ["/bin/true"];
/// Before the first look: seats, caches and pools are made once.
const FIRST: usize = 20;
/// Looks on the way.
const LOOKS: usize = 10;

/// The folder of control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// Everything that could stay. Whoever else works on the host makes and unmakes the same.
const KINDS: [&str; 8] = [
    "BPF programs",
    "BPF maps",
    "BPF links",
    "open files",
    "control groups",
    "mounts",
    "processes",
    "kernel memory that cannot be reclaimed, KiB",
];

/// The columns of what stays until somebody takes it away: programs, maps, links, groups, mounts.
const OBJECTS: [usize; 5] = [0, 1, 2, 4, 5];

/// Measures it.
pub fn measure(stage: &BenchStage, runs: usize, findings: &mut Findings) -> Result<()> {
    let counter = build_counter()?;
    let mut run = stage.as_root(&turnkey(stage, &[], &TRUE));
    stage.enter(Phase::Loaded)?;
    for _ in 0..FIRST {
        timed(&mut run)?;
    }
    let mut looks = vec![(0, look(&counter)?)];
    for part in 1..=LOOKS {
        for _ in 0..runs / LOOKS {
            timed(&mut run)?;
        }
        looks.push((part * (runs / LOOKS), look(&counter)?));
    }
    findings.keep("leak.objects", Some(Ratio::exact(growth(&looks)?)));
    findings.sections.push(Section {
        title: "What stays",
        blocks: vec![
            FindingsBlock::text(format!(
                "Warm runs of `/bin/true`, {runs} one after another; what the whole host has before, in between and after:"
            )),
            table(&looks),
            picture(&looks)?,
        ],
    });
    Ok(())
}

/// One figure for each kind.
type Look = [u64; KINDS.len()];

/// The number of programs, maps, links, groups and mounts that came in addition until the end.
fn growth(looks: &[(usize, Look)]) -> Result<f64> {
    let (Some((_, first)), Some((_, last))) = (looks.first(), looks.last()) else {
        return Ok(0.0);
    };
    let more = OBJECTS
        .iter()
        .map(|&kind| last[kind].saturating_sub(first[kind]));
    Ok(f64::from(u32::try_from(more.sum::<u64>())?))
}

fn table(looks: &[(usize, Look)]) -> FindingsBlock {
    let chosen: Vec<_> = [0, looks.len() / 2, looks.len() - 1]
        .map(|index| &looks[index])
        .into();
    let head = std::iter::once(String::new())
        .chain(chosen.iter().map(|(runs, _)| format!("after {runs}")));
    let rows = KINDS.iter().enumerate().map(|(kind, name)| {
        let figures = chosen.iter().map(|(_, look)| look[kind].to_string());
        std::iter::once((*name).to_owned()).chain(figures).collect()
    });
    FindingsBlock::Table(head.collect(), rows.collect())
}

fn picture(looks: &[(usize, Look)]) -> Result<FindingsBlock> {
    let line = |kind: usize| -> Result<(String, Vec<(f64, f64)>)> {
        let points = looks.iter().map(|(runs, look)| {
            let figure = u32::try_from(look[kind])?;
            Ok((f64::from(u32::try_from(*runs)?), f64::from(figure)))
        });
        Ok((KINDS[kind].to_owned(), points.collect::<Result<_>>()?))
    };
    let lines = [line(0)?, line(1)?, line(4)?, line(5)?];
    plots::lines("what-stays", "What the host has", "runs", &lines)
}

fn look(counter: &Path) -> Result<Look> {
    let loaded: Value = serde_json::from_str(&printed(&mut Command::new(counter))?)?;
    let of = |kind: &str| {
        loaded[kind]
            .as_u64()
            .with_context(|| format!("no count of {kind}"))
    };
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("cannot read {path}"));
    let files = read("/proc/sys/fs/file-nr")?;
    let files = files.split('\t').next().and_then(|open| open.parse().ok());
    let processes = fs::read_dir("/proc")?.filter_map(Result::ok);
    let processes = processes.filter(|entry| entry.path().join("stat").exists());
    Ok([
        of("programs")?,
        of("maps")?,
        of("links")?,
        files.context("no count of open files")?,
        folders(Path::new(GROUPS)),
        counted(read("/proc/self/mounts")?.lines()),
        counted(processes),
        unreclaimable(&read("/proc/meminfo")?),
    ])
}

fn counted<I: Iterator>(all: I) -> u64 {
    u64::try_from(all.count()).unwrap_or(u64::MAX)
}

/// The number of folders below that one. One that is gone meanwhile has none.
fn folders(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries
        .filter(is_folder)
        .map(|entry| 1 + folders(&entry.path()))
        .sum()
}

/// Slabs, page tables, stacks, and what each CPU has for itself.
fn unreclaimable(text: &str) -> u64 {
    let keys = ["SUnreclaim:", "PageTables:", "KernelStack:", "Percpu:"];
    let values = text.lines().filter_map(|line| {
        let rest = keys.iter().find_map(|key| line.strip_prefix(key))?;
        rest.trim().trim_end_matches(" kB").parse::<u64>().ok()
    });
    values.sum()
}

/// Only a program that speaks to the kernel can ask for what is loaded, and this one is built without such.
fn build_counter() -> Result<PathBuf> {
    let mut build = workspace::cargo_build();
    build.args(["--package", "turnkey-monitor", "--example", "loaded"]);
    Programs::build(&mut build)?.named("loaded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_counted_at_every_depth() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("a/b/c")).expect("made");
        fs::write(folder.path().join("a/file"), "").expect("written");
        assert_eq!(folders(folder.path()), 3);
        assert_eq!(folders(Path::new("/nowhere")), 0);
    }

    #[test]
    fn kernel_memory_is_what_nobody_can_take_back() {
        let text = "SReclaimable: 9 kB\nSUnreclaim:   100 kB\nPercpu:  20 kB\nPageTables: 3 kB\n";
        assert_eq!(unreclaimable(text), 123);
    }

    #[test]
    fn what_stays_is_counted_and_open_files_are_not() {
        let first: Look = [5; KINDS.len()];
        let mut last = first;
        last[1] += 2;
        last[3] += 100;
        last[4] -= 1;
        let growth = growth(&[(0, first), (10, last)]).expect("a number");
        assert!((growth - 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_table_shows_beginning_middle_and_end() {
        let looks: Vec<(usize, Look)> =
            (0..=10).map(|part| (part * 10, [7; KINDS.len()])).collect();
        let text = table(&looks).markdown();
        assert!(
            text.starts_with("|  | after 0 | after 50 | after 100 |\n"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 2 + KINDS.len());
    }
}
