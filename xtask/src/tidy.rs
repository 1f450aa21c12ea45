//! `cargo xtask tidy`: the rules of the house as checks.
//!
//! Every check is a plain function from text to problems, so that its own tests can show it
//! a violation; what rustfmt, clippy and the compiler can tell, they tell.

mod claims;
mod cycles;
mod dependencies;
mod links;
mod patterns;
mod prototypes;
mod tree;
mod unsafety;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::setup::PackageList;
use crate::{command, setup, workspace};

/// A place that breaks a rule.
#[derive(Debug, PartialEq)]
pub struct TidyProblem {
    /// The file's path in the checkout.
    path: PathBuf,
    /// Counted from 1; 0 when it is about the whole file.
    line: usize,
    /// The rule, and what to do.
    message: String,
}

impl TidyProblem {
    fn new(path: &Path, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for TidyProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.path.display())?;
        if self.line > 0 {
            write!(formatter, ":{}", self.line)?;
        }
        write!(formatter, ": {}", self.message)
    }
}

/// Runs every check; fails when one finds something.
pub fn run() -> Result<()> {
    // Build scripts run and look for libraries.
    setup::ensure(&[PackageList::Build])?;
    let root = workspace::root();
    let files = tree::tracked(&root)?;
    let mut problems = dependencies::check(&root)?;
    problems.extend(files.iter().flat_map(unsafety::check));
    problems.extend(patterns::check(&files)?);
    problems.extend(prototypes::check(&files)?);
    problems.extend(claims::check(&files)?);
    problems.extend(cycles::check(&files));
    problems.extend(links::check(&files, |path| root.join(path).exists())?);
    for problem in &problems {
        eprintln!("{problem}");
    }
    let mut failed: Vec<&str> = Vec::new();
    if !problems.is_empty() {
        failed.push("the rules above");
    }
    let mut of_cargo = |what, commands: Vec<Command>| {
        // All of them, even when the first fails.
        let checked = commands
            .into_iter()
            .map(|mut it| command::check(it.current_dir(&root)));
        if checked.fold(Ok(()), Result::and).is_err() {
            failed.push(what);
        }
    };
    of_cargo(
        "rustfmt: run `cargo fmt --all`, and again in fuzz, lab and monitor-ebpf",
        format(),
    );
    of_cargo(
        "a lock file: run `cargo update --workspace` in fuzz and in lab",
        locks(),
    );
    of_cargo("clippy", lints());
    if !failed.is_empty() {
        bail!("not tidy: {}", failed.join("; "));
    }
    eprintln!("tidy: {} files", files.len());
    Ok(())
}

const FIRST: &str = "Cargo.toml";
/// The workspaces beside the first: the fuzzer is built with other flags, for the lab nobody waits who does not measure, and the BPF
/// programs are built for another target by another compiler.
#[rustfmt::skip]
const OTHERS: [&str; 3] = ["fuzz/Cargo.toml", "lab/Cargo.toml", "monitor-ebpf/Cargo.toml"];

/// cargo with these words, and a manifest.
fn cargo(words: &str, manifest: &str) -> Command {
    let mut cargo = command::cargo();
    cargo
        .args(words.split(' '))
        .args(["--manifest-path", manifest]);
    cargo
}

fn format() -> Vec<Command> {
    let others = OTHERS.map(|manifest| cargo("fmt --check", manifest));
    std::iter::once(cargo("fmt --all --check", FIRST))
        .chain(others)
        .collect()
}

/// The locks of the fuzzer and the lab, which are not built with every change: they could miss a dependency.
fn locks() -> Vec<Command> {
    let lock = |manifest: &&str| cargo("tree --quiet --locked --depth=0", manifest);
    OTHERS[..2].iter().map(lock).collect()
}

fn lints() -> Vec<Command> {
    let clippy = |words: &str, manifest| {
        let mut clippy = cargo(words, manifest);
        clippy.arg("--target-dir").arg(workspace::target_folder());
        clippy.args(["--", "--deny", "warnings"]);
        clippy
    };
    // For this machine, which has a core library: clippy sees the same program.
    let mut kernel_side = clippy("clippy --quiet --locked --release", OTHERS[2]);
    kernel_side.env("RUSTC_BOOTSTRAP", "1");
    // An engine from elsewhere, which nothing is linked with: the fuzzer's own would be built.
    let mut fuzzer = clippy("clippy --quiet --locked", OTHERS[0]);
    fuzzer.env("CUSTOM_LIBFUZZER_PATH", "/none/libnone.a");
    vec![
        clippy("clippy --quiet --all-targets --workspace", FIRST),
        // What `cargo xtask run` builds. Another choice of crates or targets would have other features, and nearly all be linted again.
        clippy(
            "clippy --quiet --all-targets --workspace --no-default-features",
            FIRST,
        ),
        clippy("clippy --quiet --all-targets --locked", OTHERS[1]),
        fuzzer,
        kernel_side,
    ]
}
