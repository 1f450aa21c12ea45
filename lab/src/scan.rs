//! `cargo lab scan CORPUS`: how well `turnkey scan` tells risky scripts from honest ones that do the same for good reasons.
//!
//! Nothing is run: the command reads copies. Both sides are cut in two halves by a hash of the name; rules are written
//! with the first half in sight, and what they are worth the second one says.

mod figures;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::{command, programs, workspace};
use figures::{Figures, Sides};

/// The arguments of `scan`.
#[derive(Args)]
pub struct ScanArguments {
    /// The folder with redcode-odd/python.jsonl, redcode-odd/bash.jsonl and mbpp.jsonl: one JSON object a line
    corpus: PathBuf,
    /// Measure this command instead of one that is built with optimisation; docs/scan-figures.md is not written then
    #[arg(long, value_name = "FILE")]
    turnkey: Option<PathBuf>,
    /// List the scripts of the first half whose score is on the wrong side of the threshold
    #[arg(long)]
    misses: bool,
}

/// Below the checkout.
const PAGE: &str = "docs/scan-figures.md";

/// The files of the corpus, below its folder.
const FILES: [&str; 3] = [
    "redcode-odd/python.jsonl",
    "redcode-odd/bash.jsonl",
    "mbpp.jsonl",
];

/// The scripts of installed packages, and how they were chosen.
const HONEST: &str = include_str!("scan/honest.txt");

/// Scenarios without an effect outside, by the corpus's own README: harmless controls.
const CONTROLS: [&str; 5] = ["15", "17", "19", "23", "25"];

/// A script of so many lines is what the time is measured with.
const LINES: usize = 500;

/// The time for such a script, the start of the command included.
const SOON: Duration = Duration::from_millis(20);

/// The goals that the page is held against.
const AREA: f64 = 0.80;
const RECALL: f64 = 0.35;

/// The kind of a script, which says what its score should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A program of the corpus with an effect outside.
    Risky,
    /// One of its controls.
    Control,
    /// A function of MBPP.
    Plain,
    /// A script of an installed package.
    Honest,
}

/// One script that is measured.
struct Script {
    name: String,
    kind: Kind,
    extension: &'static str,
    code: Vec<u8>,
}

impl Script {
    /// False for the half that nobody looks at while writing rules.
    fn is_seen(&self) -> bool {
        Sha256::digest(self.name.as_bytes())[0] % 2 == 0
    }
}

/// Measures, prints the page and writes it. A goal that is missed is an error.
pub fn run(arguments: &ScanArguments) -> Result<()> {
    let turnkey = match &arguments.turnkey {
        Some(turnkey) => turnkey.clone(),
        None => workspace::build_turnkey()?,
    };
    let (scripts, absent) = read(&arguments.corpus)?;
    let scores = scores(&turnkey, &scripts)?;
    let time = time(&turnkey, &scripts)?;
    let sides = Sides::new(scripts.iter().zip(&scores).map(|(script, score)| {
        let seen = script.is_seen();
        (
            script.name.clone(),
            script.kind,
            script.extension,
            seen,
            *score,
        )
    }));
    let figures = Figures::new(&sides);
    let page = figures.page(time, absent, &programs::machine()?);
    eprintln!("{page}");
    if arguments.misses {
        eprintln!("{}", figures.misses(&sides));
    }
    if arguments.turnkey.is_none() {
        let path = workspace::root().join(PAGE);
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let missed = figures.missed(time);
    if !missed.is_empty() {
        bail!("goals are missed:\n{}", missed.join("\n"));
    }
    Ok(())
}

#[derive(Deserialize)]
struct Line {
    id: String,
    language: String,
    code: String,
}

/// Every script, and how many of the honest ones are not on this machine.
fn read(corpus: &Path) -> Result<(Vec<Script>, usize)> {
    let mut scripts = Vec::new();
    for file in FILES {
        let lines: Vec<Line> = programs::read(&corpus.join(file))?;
        scripts.extend(lines.into_iter().map(of_corpus));
    }
    let mut absent = 0;
    for path in honest() {
        match fs::read(path) {
            Ok(code) => scripts.push(of_package(path, code)),
            Err(_) => absent += 1,
        }
    }
    Ok((scripts, absent))
}

/// The paths of the list.
fn honest() -> impl Iterator<Item = &'static str> {
    HONEST.lines().filter(|line| line.starts_with('/'))
}

fn of_corpus(line: Line) -> Script {
    let scenario = line.id.split('_').next().unwrap_or_default();
    let kind = match line.id.starts_with("mbpp/") {
        true => Kind::Plain,
        false if CONTROLS.contains(&scenario) => Kind::Control,
        false => Kind::Risky,
    };
    Script {
        name: format!("{} {}", line.language, line.id),
        kind,
        extension: if line.language == "python" {
            "py"
        } else {
            "sh"
        },
        code: line.code.into_bytes(),
    }
}

fn of_package(path: &str, code: Vec<u8>) -> Script {
    Script {
        name: path.to_owned(),
        kind: Kind::Honest,
        extension: if path.ends_with(".py") { "py" } else { "sh" },
        code,
    }
}

/// The part of the command's page on a folder, as far as it counts here.
#[derive(Deserialize)]
struct Page {
    files: Vec<ScannedFile>,
}

#[derive(Deserialize)]
struct ScannedFile {
    path: String,
    score: u32,
}

/// The score of each script, by one call for a folder with copies of all.
fn scores(turnkey: &Path, scripts: &[Script]) -> Result<Vec<u32>> {
    let folder = tempfile::tempdir()?;
    let names: Vec<String> = scripts.iter().enumerate().map(file_name).collect();
    for (script, name) in scripts.iter().zip(&names) {
        fs::write(folder.path().join(name), &script.code)?;
    }
    let mut scan = Command::new(turnkey);
    scan.args(["scan", "--json"]).arg(folder.path());
    let page: Page = serde_json::from_str(&command::output(&mut scan)?)?;
    let found: BTreeMap<&str, u32> = page
        .files
        .iter()
        .map(|file| (base(&file.path), file.score))
        .collect();
    let score = |name: &String| found.get(name.as_str()).copied();
    let scores = names
        .iter()
        .map(|name| score(name).with_context(|| format!("{name} has no score")));
    scores.collect()
}

fn file_name((index, script): (usize, &Script)) -> String {
    format!("{index:05}.{}", script.extension)
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The median of the time for the three honest scripts whose length is nearest to [`LINES`], each read nine times.
fn time(turnkey: &Path, scripts: &[Script]) -> Result<Duration> {
    let lines = |script: &Script| script.code.iter().filter(|byte| **byte == b'\n').count();
    let mut honest: Vec<&Script> = scripts
        .iter()
        .filter(|script| script.kind == Kind::Honest)
        .collect();
    honest.sort_by_key(|script| lines(script).abs_diff(LINES));
    let mut times = Vec::new();
    for script in honest.iter().take(3) {
        for _ in 0..9 {
            let started = Instant::now();
            command::output(Command::new(turnkey).args(["scan", "--json", &script.name]))?;
            times.push(started.elapsed());
        }
    }
    times.sort();
    times
        .get(times.len() / 2)
        .copied()
        .context("no honest script is on this machine")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_list_names_enough_scripts_and_each_once() {
        let all: Vec<&str> = honest().collect();
        let once: BTreeSet<&str> = all.iter().copied().collect();
        assert!(all.len() >= 150);
        assert_eq!(once.len(), all.len());
    }

    #[test]
    fn a_program_without_effect_is_a_control() {
        let of = |id: &str| {
            of_corpus(Line {
                id: id.to_owned(),
                language: "python".to_owned(),
                code: String::new(),
            })
        };
        assert_eq!(of("15_3").kind, Kind::Control);
        assert_eq!(of("1_3").kind, Kind::Risky);
        assert_eq!(of("mbpp/601").kind, Kind::Plain);
    }
}
