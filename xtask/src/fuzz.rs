//! `cargo xtask fuzz`: what reads bytes from outside is given bytes that nobody thought of.
//!
//! The targets in `fuzz/` are laid out as cargo-fuzz lays them out, and built without it: with the
//! compiler that builds everything else, which has all that is needed but calls it unstable.

mod differential;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use fs_err as fs;

use crate::setup::PackageList;
use crate::workspace::Programs;
use crate::{command, setup, workspace};

/// The arguments of `fuzz`.
#[derive(Args, Default)]
pub struct FuzzArguments {
    /// Seconds that each target runs
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Inputs to run alone: what was found before
    #[arg(long, requires = "target")]
    input: Vec<PathBuf>,
    /// With `differential`: the number of the first program
    #[arg(long)]
    seed: Option<u64>,
    /// With `differential`: how long it takes to find each change of tests/differential/mutants.toml
    #[arg(long, requires = "target")]
    mutants: bool,
    /// With `--mutants`: this one and no other
    #[arg(long, requires = "mutants")]
    only: Vec<String>,
    /// One of the programs in fuzz/, or `differential`; without it all of them but that
    target: Option<String>,
}

/// Longer inputs are seldom better ones. The longest record has 12 kB.
const LONGEST_INPUT: &str = "-max_len=16384";
/// A single input that takes this many seconds, or a program that takes this many megabytes, counts
/// as a failure: nothing here may depend on its input more than that.
const BOUNDS: [&str; 2] = ["-timeout=20", "-rss_limit_mb=2048"];

/// Flags with which the compiler tells the fuzzer which way an input took.
const COVERAGE: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

/// Fuzzes one target or all; a finding is an error that names the input.
pub fn run(arguments: &FuzzArguments) -> Result<()> {
    if arguments.target.as_deref() == Some("differential") {
        return differential::run(arguments);
    }
    setup::ensure(&[PackageList::Build, PackageList::Fuzz])?;
    let targets = build()?;
    let chosen = choose(&targets, arguments.target.as_deref())?;
    if let (false, [(_, program)]) = (arguments.input.is_empty(), chosen.as_slice()) {
        return command::check(Command::new(program).args(&arguments.input));
    }
    run_all(&chosen, arguments.seconds)
}

/// A short run of every target, as part of the tests.
pub fn run_briefly() -> Result<()> {
    run(&FuzzArguments {
        seconds: 10,
        ..FuzzArguments::default()
    })
}

fn choose<'a>(
    targets: &'a BTreeMap<String, PathBuf>,
    wanted: Option<&str>,
) -> Result<Vec<(&'a str, &'a Path)>> {
    let all = targets.iter().map(|(name, path)| (&**name, &**path));
    let is_wanted = |name| wanted.is_none_or(|wanted| wanted == name);
    let chosen: Vec<_> = all.filter(|(name, _)| is_wanted(*name)).collect();
    let names = || Vec::from_iter(targets.keys().map(String::as_str)).join(", ");
    let unknown = wanted.unwrap_or_default();
    ensure!(
        !chosen.is_empty(),
        "no target is named {unknown}: there are {}",
        names()
    );
    Ok(chosen)
}

fn folder() -> PathBuf {
    workspace::root().join("fuzz")
}

/// The folder of what runs leave behind: inputs that are worth to start from, and findings.
fn work() -> PathBuf {
    workspace::target_folder().join("fuzz")
}

/// Builds every target; their names and programs.
fn build() -> Result<BTreeMap<String, PathBuf>> {
    let rustc = Rustc::ask()?;
    let mut flags = COVERAGE.to_vec();
    if rustc.has_address_sanitizer {
        flags.push("-Zsanitizer=address");
    } else {
        eprintln!("fuzzing without the address sanitizer: this compiler comes without it");
    }
    let mut build = workspace::cargo_build();
    build
        .args(["--release", "--locked", "--target", &rustc.host])
        .arg("--target-dir")
        .arg(work())
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(folder());
    let programs = Programs::build(&mut build)?;
    let targets: BTreeMap<String, PathBuf> = programs.of_kind("bin").into_iter().collect();
    ensure!(
        !targets.is_empty(),
        "no target was built in {}",
        folder().display()
    );
    Ok(targets)
}

/// The facts about the compiler.
struct Rustc {
    host: String,
    has_address_sanitizer: bool,
}

impl Rustc {
    fn ask() -> Result<Self> {
        let rustc = || Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        let version = command::output(rustc().arg("-vV"))?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let libraries = command::output(rustc().args(["--print", "target-libdir"]))?;
        let libraries = fs::read_dir(libraries.trim())?.flatten();
        let mut names = libraries.map(|file| file.file_name());
        Ok(Self {
            host: host.context("rustc -vV names no host")?.to_owned(),
            has_address_sanitizer: names.any(|name| name.to_string_lossy().ends_with("asan.a")),
        })
    }
}

/// Runs the targets, as many at once as there are CPUs: each takes as long as the others.
fn run_all(targets: &[(&str, &Path)], seconds: u64) -> Result<()> {
    let mut failures = 0;
    for batch in targets.chunks(std::thread::available_parallelism()?.get()) {
        std::thread::scope(|scope| {
            let run = |(name, program)| scope.spawn(move || run_one(name, program, seconds));
            let running: Vec<_> = batch.iter().copied().map(run).collect();
            for ended in running {
                if let Err(failure) = ended.join().expect("it only waits") {
                    eprintln!("{failure:#}");
                    failures += 1;
                }
            }
        });
    }
    ensure!(
        failures == 0,
        "the fuzzer found something in {failures} targets"
    );
    Ok(())
}

/// Runs one target on what it knows, on the seeds, and on what follows from them.
fn run_one(name: &str, program: &Path, seconds: u64) -> Result<()> {
    let corpus = work().join("corpus").join(name);
    let findings = work().join("findings");
    for folder in [&corpus, &findings] {
        fs::create_dir_all(folder)?;
    }
    let mut fuzzer = Command::new(program);
    fuzzer
        .arg(format!("-max_total_time={seconds}"))
        .args(["-print_final_stats=1", LONGEST_INPUT])
        .args(BOUNDS)
        .arg(format!("-artifact_prefix={}/{name}-", findings.display()))
        .arg(corpus)
        .args(seeds(name))
        .stdin(Stdio::null());
    let ended = fuzzer
        .output()
        .with_context(|| format!("cannot start the target {name}"))?;
    let log = String::from_utf8_lossy(&ended.stderr);
    if !ended.status.success() {
        bail!(
            "{log}\nthe target {name} failed: {}\n{}",
            ended.status,
            replay(name, &log)
        );
    }
    eprintln!("fuzz {name}: {}", summary(&log));
    Ok(())
}

/// The folders that a target starts from.
fn seeds(name: &str) -> Vec<PathBuf> {
    let mut folders = vec![folder().join("seeds").join(name)];
    if name == "profile" {
        folders.push(workspace::root().join("profiles"));
    }
    folders
}

/// The command that shows a finding again, from the fuzzer's own words.
fn replay(name: &str, log: &str) -> String {
    let found = log
        .lines()
        .find_map(|line| Some(line.split_once("Test unit written to ")?.1));
    found.map_or_else(String::new, |path| {
        format!("again: cargo xtask fuzz {name} --input {path}")
    })
}

/// The figures of a run that found nothing.
fn summary(log: &str) -> String {
    let statistic = |key: &str| {
        let value = log.lines().find_map(|line| line.strip_prefix(key));
        value.map_or("?", str::trim).to_owned()
    };
    let covered = log.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once("cov: ")?;
        rest.split(' ').next()
    });
    format!(
        "{} inputs, {} edges seen, {} MB",
        statistic("stat::number_of_executed_units:"),
        covered.unwrap_or("?"),
        statistic("stat::peak_rss_mb:")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_does_not_exist_is_named_with_those_that_do() {
        let targets = ["order", "record"].map(|name| (name.to_owned(), PathBuf::from(name)));
        let targets = BTreeMap::from(targets);
        assert_eq!(choose(&targets, None).expect("all").len(), 2);
        let one = choose(&targets, Some("record")).expect("it is there");
        assert_eq!(one, [("record", Path::new("record"))]);
        let error = choose(&targets, Some("recrod")).expect_err("it is not");
        assert!(error.to_string().contains("order, record"), "{error}");
    }

    #[test]
    fn a_finding_can_be_seen_again() {
        let log = "SUMMARY: x\nartifact_prefix='/f/'; Test unit written to /f/record-crash-1\n";
        let expected = "again: cargo xtask fuzz record --input /f/record-crash-1";
        assert_eq!(replay("record", log), expected);
        assert_eq!(replay("record", "no word of it"), "");
    }

    #[test]
    fn figures_are_those_of_the_end() {
        let log = "#2 INITED cov: 5 ft: 6\n#9 DONE cov: 17 ft: 6 corp: 1\n\
                   stat::number_of_executed_units: 9\nstat::peak_rss_mb:              48\n";
        assert_eq!(summary(log), "9 inputs, 17 edges seen, 48 MB");
    }

    /// A target without seeds starts from nothing, and finds nothing in ten seconds.
    #[test]
    fn every_target_has_seeds() {
        for entry in fs::read_dir(folder().join("fuzz_targets")).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            for seeds in seeds(&name) {
                let mut seeds = fs::read_dir(&seeds).expect("a folder of seeds");
                assert!(seeds.next().is_some(), "{name}");
            }
        }
    }
}
