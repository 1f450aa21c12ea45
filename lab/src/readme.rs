//! `cargo lab readme`: runs the hostile example of README.md and puts there what it said, so that nobody
//! reads of a kill that never was.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::setup::{self, PackageList};
use crate::workspace::{self, Parts};

/// The arguments of `readme`.
#[derive(Args)]
pub struct ReadmeArguments {
    /// Write nothing; fail when README.md says something else
    #[arg(long)]
    check: bool,
}

const EXAMPLE: &str = "examples/hostile/shadow_direct.py";
/// The exit code of turnkey when it killed for what a program did.
const KILLED: i32 = 121;
const BEGIN: &str = "<!-- Written by `cargo lab readme`. -->\n";
const END: &str = "<!-- End of what it wrote. -->";

/// Writes the block, or compares it.
pub fn run(arguments: &ReadmeArguments) -> Result<()> {
    setup::ensure(&[PackageList::Build, PackageList::Examples])?;
    let path = workspace::root().join("README.md");
    let text = fs::read_to_string(&path).context("cannot read README.md")?;
    let (before, old, after) = parts(&text)?;
    let block = block()?;
    if arguments.check {
        ensure!(
            without_times(old) == without_times(&block),
            "README.md shows another block than a run does: `cargo lab readme`"
        );
        return Ok(());
    }
    let text = format!("{before}{BEGIN}{block}{END}{after}");
    fs::write(&path, text).context("cannot write README.md")
}

/// Before the block, the block, and after it.
fn parts(text: &str) -> Result<(&str, &str, &str)> {
    let begin = text.split_once(BEGIN);
    let parts = begin.and_then(|(before, rest)| {
        let (block, after) = rest.split_once(END)?;
        Some((before, block, after))
    });
    parts.context("README.md has no place for the block")
}

/// The command and what the run said, from a program that is run.
fn block() -> Result<String> {
    let turnkey = workspace::build_quick(Parts::All)?;
    let run = Command::new(turnkey)
        .args(["run", "--color", "never", "--", "python3", EXAMPLE])
        .current_dir(workspace::root())
        .stdin(Stdio::null())
        .output()
        .context("cannot start turnkey")?;
    let said = String::from_utf8(run.stderr).context("turnkey said what is not UTF-8")?;
    if run.status.code() != Some(KILLED) {
        bail!("the example was not killed: {}\n{said}", run.status);
    }
    Ok(format!(
        "```console\n# turnkey run -- python3 {EXAMPLE}\n{}\n# echo $?\n{KILLED}\n```\n",
        said.trim_end()
    ))
}

/// No run takes as long as another.
fn without_times(block: &str) -> String {
    let words = block.split(' ').map(|word| {
        if word.parse::<f64>().is_ok() {
            "?"
        } else {
            word
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let text = format!("a\n{BEGIN}old\n{END}\nb\n");
        let (before, old, after) = parts(&text).expect("three parts");
        assert_eq!((before, old, after), ("a\n", "old\n", "\nb\n"));
        assert!(parts("no marks").is_err());
    }

    #[test]
    fn a_run_that_took_longer_said_the_same() {
        let same = without_times("killed after 0.05 s, score 100");
        assert_eq!(same, without_times("killed after 1.21 s, score 100"));
        assert_ne!(same, without_times("exited after 0.05 s, score 100"));
    }

    #[test]
    fn readme_has_the_place() {
        let text = fs::read_to_string(workspace::root().join("README.md")).expect("README.md");
        let (_, block, _) = parts(&text).expect("its place");
        assert!(block.contains(EXAMPLE));
    }
}
