//! `cargo xtask tidy`: the rules of the house as checks.
//!
//! Every check is a plain function from text to problems, so that its own tests can show it
//! a violation.

mod comments;
mod cycles;
mod dependencies;
mod length;
mod links;
mod locks;
mod prototypes;
mod tree;
mod unsafety;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::setup::List;
use crate::{command, fuzz, setup, workspace};
use tree::File;

/// A place that breaks a rule.
#[derive(Debug, PartialEq)]
pub struct Problem {
    /// The file's path in the checkout.
    path: PathBuf,
    /// Counted from 1; 0 when it is about the whole file.
    line: usize,
    /// The rule, and what to do.
    message: String,
}

impl Problem {
    fn new(path: &Path, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.path.display())?;
        if self.line > 0 {
            write!(formatter, ":{}", self.line)?;
        }
        write!(formatter, ": {}", self.message)
    }
}

/// The checks of single files, in the order of their messages.
const FILE_CHECKS: [fn(&File) -> Vec<Problem>; 6] = [
    unsafety::check,
    words::check,
    comments::check,
    prototypes::check,
    length::check,
    locks::check,
];

/// Runs every check; fails when one finds something.
pub fn run() -> Result<()> {
    let root = workspace::root();
    let files = tree::tracked(&root)?;
    let mut problems = dependencies::check(&root)?;
    problems.extend(unsafety::check_table(&files));
    for check in FILE_CHECKS {
        problems.extend(files.iter().flat_map(check));
    }
    problems.extend(cycles::check(&files));
    problems.extend(links::check(&files, |path| root.join(path).exists()));
    for problem in &problems {
        eprintln!("{problem}");
    }
    let mut failed: Vec<&str> = Vec::new();
    if !problems.is_empty() {
        failed.push("the rules above");
    }
    if format(&root).is_err() {
        failed.push("rustfmt: run `cargo fmt --all`, and again in fuzz, lab and monitor-ebpf");
    }
    let locked = lock_of(&root, "fuzz");
    if locked.is_err() {
        failed.push("fuzz/Cargo.lock: run `cargo update --workspace` in fuzz");
    }
    if lock_of(&root, "lab").is_err() {
        failed.push("lab/Cargo.lock: run `cargo update --workspace` in lab");
    }
    if lint(&root).is_err() {
        failed.push("clippy");
    }
    if locked.is_ok() && fuzz::check().is_err() {
        failed.push("what the fuzzer runs");
    }
    if !failed.is_empty() {
        bail!("not tidy: {}", failed.join("; "));
    }
    eprintln!("tidy: {} files", files.len());
    Ok(())
}

/// Looks at every workspace even when the first is not formatted.
fn format(root: &Path) -> Result<()> {
    let check = |arguments: &[&str]| {
        let mut format = command::cargo();
        command::check(format.arg("fmt").args(arguments).current_dir(root))
    };
    let ours = check(&["--all", "--check"]);
    let elsewhere = |manifest| check(&["--check", "--manifest-path", manifest]);
    let others = [
        elsewhere("fuzz/Cargo.toml"),
        elsewhere("lab/Cargo.toml"),
        elsewhere("monitor-ebpf/Cargo.toml"),
    ];
    others.into_iter().fold(ours, Result::and)
}

/// Checks the lock file of the fuzzer or the lab, which are not built with every change: it could miss a dependency.
fn lock_of(root: &Path, workspace: &str) -> Result<()> {
    let mut metadata = command::cargo();
    metadata
        .args(["metadata", "--locked", "--format-version", "1"])
        .arg("--manifest-path")
        .arg(Path::new(workspace).join("Cargo.toml"))
        .current_dir(root);
    command::output(&mut metadata).map(drop)
}

fn lint(root: &Path) -> Result<()> {
    // Build scripts run and look for libraries.
    setup::ensure(&[List::Build])?;
    let clippy = |arguments: &[&str]| {
        let mut clippy = command::cargo();
        clippy
            .args(["clippy", "--all-targets", "--quiet"])
            .args(arguments)
            .arg("--target-dir")
            .arg(workspace::target_folder())
            .args(["--", "--deny", "warnings"])
            .current_dir(root);
        command::check(&mut clippy)
    };
    let lab = clippy(&["--locked", "--manifest-path", "lab/Cargo.toml"]);
    clippy(&["--workspace"]).and(lab)
}
