//! The cost of watching while a program runs: the same work bare, in a jail, watched, and watched by others.

use std::process::Command;

use anyhow::{Context, Result};

use super::findings::{Findings, FindingsBlock, Section, Unit};
use super::peers::{self, GVISOR, Present};
use super::rounds::{BenchExtent, Contestant, Phase, Results, play};
use super::stage::{BenchStage, printed};
use super::start::{PYTHON, turnkey};
use super::statistics::Ratio;
use super::{plots, work};
use crate::command;

/// A kind of work.
pub struct CostKind {
    /// Names it among the ratios, and in its contestants' names.
    pub name: &'static str,
    /// For people.
    pub what: &'static str,
    /// Of `loops.c`.
    does: &'static str,
    /// So often it is done for one measurement.
    count: u32,
    /// So often where each time takes a hundred times as long.
    few: u32,
    /// The words of the command that does it.
    with: &'static [&'static str],
    /// The unit in which the time of one is shown.
    pub unit: Unit,
}

/// Modules that cover most of what the standard library of Python has.
const IMPORTS: &str = "import argparse, ast, asyncio, base64, bz2, calendar, cgi, codecs, collections, \
concurrent.futures, configparser, contextlib, csv, ctypes, dataclasses, datetime, decimal, difflib, email, \
email.mime.text, enum, fractions, ftplib, functools, getpass, glob, gzip, hashlib, heapq, hmac, html.parser, \
http.client, http.server, imaplib, inspect, ipaddress, itertools, json, logging.handlers, lzma, mailbox, \
multiprocessing, optparse, os, pathlib, pickle, platform, plistlib, pprint, pydoc, queue, random, re, sched, \
secrets, selectors, shelve, shlex, shutil, smtplib, socketserver, sqlite3, ssl, statistics, string, struct, \
subprocess, tarfile, tempfile, textwrap, threading, timeit, tkinter.constants, tokenize, tracemalloc, typing, \
unittest.mock, urllib.request, uuid, venv, wave, weakref, xml.dom.minidom, xml.etree.ElementTree, \
xmlrpc.client, zipfile, zoneinfo";

const PATH: &str = "/usr/bin/env";

/// All of them.
pub const KINDS: [CostKind; 10] = [
    CostKind {
        name: "open",
        what: "open and close of the same file",
        does: "open",
        count: 10_000,
        few: 400,
        with: &[PATH],
        unit: Unit::Microseconds,
    },
    CostKind {
        name: "stat",
        what: "stat of the same file",
        does: "stat",
        count: 20_000,
        few: 800,
        with: &[PATH],
        unit: Unit::Microseconds,
    },
    CostKind {
        name: "getppid",
        what: "getppid",
        does: "getppid",
        count: 100_000,
        few: 1000,
        with: &[],
        unit: Unit::Microseconds,
    },
    CostKind {
        name: "mmap",
        what: "mmap and munmap of a page",
        does: "mmap",
        count: 10_000,
        few: 400,
        with: &[],
        unit: Unit::Microseconds,
    },
    CostKind {
        name: "connect",
        what: "TCP connection over loopback, there and away",
        does: "connect",
        count: 1000,
        few: 100,
        with: &[],
        unit: Unit::Microseconds,
    },
    CostKind {
        name: "spawn",
        what: "fork and exec of `/bin/true`",
        does: "spawn",
        count: 100,
        few: 10,
        with: &["/bin/true"],
        unit: Unit::Milliseconds,
    },
    CostKind {
        name: "import",
        what: "`python3` importing its standard library",
        does: "spawn",
        count: 1,
        few: 1,
        with: &[PYTHON, "-I", "-B", "-W", "ignore", "-c", IMPORTS],
        unit: Unit::Milliseconds,
    },
    CostKind {
        name: "compile",
        what: "C compile",
        does: "spawn",
        count: 1,
        few: 1,
        with: &["/usr/bin/gcc", "-O1", "-c", work::UNIT, "-o", "unit.o"],
        unit: Unit::Milliseconds,
    },
    CostKind {
        name: "walk",
        what: "walk through a tree, stat of every file",
        does: "walk",
        count: 1,
        few: 1,
        with: &[work::TREE],
        unit: Unit::Milliseconds,
    },
    CostKind {
        name: "read",
        what: "the same, every file opened",
        does: "read",
        count: 1,
        few: 1,
        with: &[work::TREE],
        unit: Unit::Milliseconds,
    },
];

/// The name of the place without a jail.
const BARE: &str = "bare";
const IDLE: &str = "bare, turnkey loaded";
const ONE_LEVEL: &str = "bare, turnkey watches others";
const TWO_LEVELS: &str = "bare, turnkey watches others on two levels";
const FLOOR: &str = "bare, empty programs";
/// In a jail that nobody watches.
pub const JAILED: &str = "turnkey, unmonitored";
/// In a jail of turnkey.
pub const WATCHED: &str = "turnkey";
const STRACE: &str = "strace -f";
const BPFTRACE: &str = peers::BPFTRACE;
const PLACES: [&str; 10] = [
    BARE, FLOOR, IDLE, ONE_LEVEL, TWO_LEVELS, JAILED, WATCHED, STRACE, BPFTRACE, GVISOR,
];

/// Calls that strace is compared on, as each is one call and little else.
const CALLS: [&str; 3] = ["open", "stat", "getppid"];

const INTRODUCTION: &str = "The work measures itself, so starts do not count. *bpftrace* prints every open, exec and connect \
of the user whom the work belongs to. *empty programs*: the kernel calls one that returns at once where each system call \
begins, and one where it ends; whoever looks at calls there costs at least that. *turnkey loaded*: its programs are in the kernel, and nobody \
watches; *watches others*: one attachment to a group in which a process sleeps, and one more to a group below it for the second level. *strace* writes every call to `/dev/null`. Both jails of turnkey are the same, \
with the profile `untrusted` but for room enough, a loopback device and a tree of files; one is unmonitored.";

/// Measures it.
pub fn measure(
    stage: &BenchStage,
    extent: BenchExtent,
    present: &[Present],
    files: usize,
    findings: &mut Findings,
) -> Result<()> {
    work::prepare(stage, files)?;
    let mut contestants = Vec::new();
    for kind in &KINDS {
        add(stage, present, kind, &mut contestants)?;
    }
    let results = play(&mut contestants, extent, |phase| stage.enter(phase))?;
    keep(&results, findings);
    findings.sections.push(Section {
        title: "Cost while running",
        blocks: vec![
            FindingsBlock::text(format!("{INTRODUCTION} The tree has {files} files.")),
            absolute(&results),
            FindingsBlock::text("The same as multiples of bare, round by round:"),
            relative(&results),
            plots::factors("cost", "Multiples of bare", &relatives(&results))?,
            FindingsBlock::text("The commands:"),
            commands(stage),
        ],
    });
    Ok(())
}

fn add<'a>(
    stage: &'a BenchStage,
    present: &'a [Present],
    kind: &'static CostKind,
    contestants: &mut Vec<Contestant<'a>>,
) -> Result<()> {
    let often = words(stage, kind, kind.count, &[]);
    let seldom = words(stage, kind, kind.few, &[]);
    contestants.extend(jails(stage, kind));
    let mut all = vec![
        (BARE, Phase::Unloaded, stage.as_user(&often)),
        (
            FLOOR,
            Phase::Unloaded,
            stage.as_root(&words(stage, kind, kind.count, &["floor"])),
        ),
        (IDLE, Phase::Loaded, stage.as_user(&often)),
        (ONE_LEVEL, Phase::OneLevel, stage.as_user(&often)),
        (TWO_LEVELS, Phase::TwoLevels, stage.as_user(&often)),
    ];
    if command::find_program(peers::STRACE).is_some() {
        let traced = strace_words(&seldom);
        all.push((STRACE, Phase::Unloaded, stage.as_user(&traced)));
    }
    if command::find_program(peers::BPFTRACE).is_some() {
        all.push((BPFTRACE, Phase::Bpftrace, stage.as_user(&often)));
    }
    if let Some(gvisor) = present.iter().find(|peer| peer.name == GVISOR) {
        let words: Vec<&str> = seldom.iter().map(String::as_str).collect();
        all.push((GVISOR, Phase::Unloaded, gvisor.command(stage, &words)?));
    }
    let all = all.into_iter();
    contestants.extend(all.map(|(place, phase, command)| contestant(kind, place, phase, command)));
    Ok(())
}

/// The same jail twice: unwatched, and watched.
pub fn jails(stage: &BenchStage, kind: &CostKind) -> [Contestant<'static>; 2] {
    let profile = work::profile(stage);
    let work = words(stage, kind, kind.count, &[]);
    let work: Vec<&str> = work.iter().map(String::as_str).collect();
    let jail = |flags: &[&str]| {
        let flags = [&["--profile", &profile], flags].concat();
        stage.as_root(&turnkey(stage, &flags, &work))
    };
    [
        contestant(kind, JAILED, Phase::Unloaded, jail(&["--unmonitored"])),
        contestant(kind, WATCHED, Phase::Loaded, jail(&[])),
    ]
}

fn contestant(
    kind: &CostKind,
    place: &str,
    phase: Phase,
    mut command: Command,
) -> Contestant<'static> {
    let measure = move || nanoseconds(&printed(&mut command)?);
    Contestant::new(name(kind, place), phase, measure)
}

/// A contestant's name: the work, and where it is done.
pub fn name(kind: &CostKind, place: &str) -> String {
    format!("{}, {place}", kind.name)
}

/// The words of the work, of which `before` come first.
fn words(stage: &BenchStage, kind: &CostKind, count: u32, before: &[&str]) -> Vec<String> {
    let front = [&[work::LOOPS], before, &[kind.does]].concat();
    let front = front.into_iter().map(ToOwned::to_owned);
    let with = kind.with.iter().map(|word| work::resolved(stage, word));
    front.chain([count.to_string()]).chain(with).collect()
}

fn strace_words(program: &[String]) -> Vec<String> {
    let front = [peers::STRACE, "-f", "-qq", "-o", "/dev/null"];
    front
        .iter()
        .map(ToString::to_string)
        .chain(program.iter().cloned())
        .collect()
}

/// The work prints how many nanoseconds one took.
fn nanoseconds(text: &str) -> Result<f64> {
    let line = text.lines().last().unwrap_or_default();
    let nanoseconds: f64 = line
        .parse()
        .with_context(|| format!("no number: {line:?}"))?;
    Ok(nanoseconds * 1e-9)
}

/// Keeps the figures that the goals and `--check` are about.
fn keep(results: &Results, findings: &mut Findings) {
    let of = |kind: &str| KINDS.iter().find(|known| known.name == kind);
    let ratio = |kind: &str, ours: &str, theirs: &str| {
        let kind = of(kind)?;
        results.ratio(&name(kind, ours), &name(kind, theirs))
    };
    for kind in &KINDS {
        if !super::pairs::are_of(kind) {
            let watched = ratio(kind.name, WATCHED, BARE);
            findings.keep(&format!("cost.{}.watched", kind.name), watched);
        }
        let outside = [
            (IDLE, "idle"),
            (ONE_LEVEL, "outside"),
            (TWO_LEVELS, "levels"),
        ];
        for (place, named) in outside {
            let outside = ratio(kind.name, place, BARE);
            findings.keep(&format!("cost.{}.{named}", kind.name), outside);
        }
        let floor = ratio(kind.name, FLOOR, BARE);
        findings.keep(&format!("cost.{}.floor", kind.name), floor);
        let jailed = ratio(kind.name, JAILED, BARE);
        findings.keep(&format!("cost.{}.jailed", kind.name), jailed);
    }
    let least = |ours: &str| {
        let against = CALLS.iter().filter_map(|kind| ratio(kind, STRACE, ours));
        against.min_by(|one, other| one.value.total_cmp(&other.value))
    };
    findings.keep("cost.strace", least(WATCHED));
    findings.keep("cost.strace.jailed", least(JAILED));
}

fn absolute(results: &Results) -> FindingsBlock {
    rows(results, |kind, place| {
        let summary = results.summary(&name(kind, place))?;
        let [median, _] = kind.unit.shown(summary);
        Some(median)
    })
}

fn relative(results: &Results) -> FindingsBlock {
    rows(results, |kind, place| {
        let ratio = to_bare(results, kind, place)?;
        Some(format!("{:.2} ± {:.2}", ratio.value, ratio.noise))
    })
}

fn to_bare(results: &Results, kind: &CostKind, place: &str) -> Option<Ratio> {
    results.ratio(&name(kind, place), &name(kind, BARE))
}

/// For the picture: a row of multiples for each place but the bare one.
fn relatives(results: &Results) -> Vec<(String, Vec<(String, f64)>)> {
    let places = PLACES.iter().filter(|place| **place != BARE);
    let rows = places.map(|place| {
        let all = KINDS.iter().filter_map(|kind| {
            let ratio = to_bare(results, kind, place)?;
            Some((kind.name.to_owned(), ratio.value))
        });
        ((*place).to_owned(), all.collect::<Vec<_>>())
    });
    rows.filter(|(_, row)| !row.is_empty()).collect()
}

/// A row for every kind, a column for every place that was measured.
fn rows(results: &Results, cell: impl Fn(&CostKind, &str) -> Option<String>) -> FindingsBlock {
    let is_there = |place: &&&str| results.summary(&name(&KINDS[0], place)).is_some();
    let places: Vec<_> = PLACES.iter().filter(is_there).copied().collect();
    let head = [&[""], &*places].concat();
    let rows = KINDS.iter().map(|kind| {
        let cells = places
            .iter()
            .map(|place| cell(kind, place).unwrap_or_default());
        std::iter::once(kind.what.to_owned()).chain(cells).collect()
    });
    FindingsBlock::table(&head, rows.collect())
}

fn commands(stage: &BenchStage) -> FindingsBlock {
    let loops = [work::LOOPS.to_owned(), "KIND".into(), "COUNT".into()];
    let words: Vec<&str> = loops.iter().map(String::as_str).collect();
    let profile = work::profile(stage);
    let watched = turnkey(stage, &["--profile", &profile], &words);
    let unwatched = turnkey(stage, &["--profile", &profile, "--unmonitored"], &words);
    let strace = strace_words(&loops);
    let lines = [watched, unwatched, strace].map(|words| stage.shown(&words));
    let mut lines = Vec::from(lines);
    lines.push(stage.shown(&super::bpftrace::words(super::bpftrace::WATCH)));
    FindingsBlock::Commands(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_figure() {
        let seconds = nanoseconds("something else\n1500.5\n").expect("a number");
        assert!((seconds - 1.5005e-6).abs() < 1e-12);
        assert!(nanoseconds("lived\n").is_err());
    }

    #[test]
    fn kinds_are_told_apart_by_name() {
        let mut names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KINDS.len());
    }
}
