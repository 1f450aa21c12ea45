//! `cargo lab mbpp CORPUS`: a thousand small programs that nobody here wrote, under the profile
//! `python` and outside of any jail. What came of it is docs/mbpp.md.
//!
//! Runs as root, in a mount namespace with a BPF file system of its own: the monitor's programs are
//! loaded there once for all runs, and leave with it whatever happens.

mod play;
mod table;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::setup::PackageList;
use crate::{command, setup, workspace};
use play::{MbppPlace, MbppStage};
pub use play::{PYTHON, alike, finish, last_line, read as read_report};
use table::{MbppTable, Pair};

/// The arguments of `mbpp`.
#[derive(Args)]
pub struct MbppArguments {
    /// mbpp.jsonl, or the folder that holds it: one JSON object a line, with `id` and `code`
    corpus: PathBuf,
    /// Run every so many programs only; nothing is written then
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    every: usize,
    /// Says that this process is in the namespace already
    #[arg(long, hide = true)]
    inside: bool,
}

/// Below the checkout.
const PAGE: &str = "docs/mbpp.md";

/// So many programs are between two measurements of a start.
const STARTS_EVERY: usize = 2;

/// One program of the corpus.
#[derive(Deserialize)]
struct MbppProgram {
    id: String,
    code: String,
}

/// Runs the corpus, prints the table and writes it. What is not as it must be is an error.
pub fn run(arguments: &MbppArguments) -> Result<()> {
    if !arguments.inside {
        setup::ensure(&[PackageList::Build, PackageList::Examples])?;
        return into_a_namespace(arguments);
    }
    let programs: Vec<MbppProgram> = read(&arguments.corpus)?;
    let turnkey = workspace::build_turnkey()?;
    command::check(Command::new(&turnkey).args(["monitor", "load"]))?;
    let table = play_all(&turnkey, &programs, arguments.every)?;
    let page = table.page(&machine()?);
    eprintln!("{page}");
    if arguments.every == 1 {
        let path = workspace::root().join(PAGE);
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let missed = table.missed();
    if !missed.is_empty() {
        bail!("not as it must be:\n  {}", missed.join("\n  "));
    }
    Ok(())
}

/// Becomes the same command with a BPF file system of its own.
fn into_a_namespace(arguments: &MbppArguments) -> Result<()> {
    let mount = "mount -t bpf -o mode=0700 bpf /sys/fs/bpf && exec \"$@\"";
    let corpus = fs::canonicalize(&arguments.corpus)
        .with_context(|| format!("cannot find {}", arguments.corpus.display()))?;
    let words: [OsString; 11] = [
        "--mount".into(),
        "--propagation=private".into(),
        "sh".into(),
        "-c".into(),
        mount.into(),
        "sh".into(),
        std::env::current_exe()?.into(),
        "mbpp".into(),
        "--inside".into(),
        format!("--every={}", arguments.every).into(),
        corpus.into(),
    ];
    command::become_it(Command::new("unshare").args(words))
}

/// The lines of mbpp.jsonl, or of another file of that kind.
pub fn read<T: DeserializeOwned>(corpus: &Path) -> Result<Vec<T>> {
    let path = if corpus.is_dir() {
        corpus.join("mbpp.jsonl")
    } else {
        corpus.to_owned()
    };
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().filter(|line| !line.is_empty());
    let programs: serde_json::Result<Vec<_>> = lines.map(serde_json::from_str).collect();
    programs.with_context(|| format!("{} is not one program a line", path.display()))
}

/// Each program at both places, one right after the other, so that a busy host slows both; which comes
/// first takes turns. Between them, a program that does nothing.
fn play_all(turnkey: &Path, programs: &[MbppProgram], every: usize) -> Result<MbppTable> {
    let (started, mut table) = (Instant::now(), MbppTable::default());
    let nothing = MbppStage::new("pass\n")?;
    let chosen = programs.iter().step_by(every.max(1));
    for (number, program) in chosen.enumerate() {
        let pair = play_pair(turnkey, &MbppStage::new(&program.code)?, number)?;
        table.add(&program.id, &pair);
        if number % STARTS_EVERY == 0 {
            table.add_start(&play_pair(turnkey, &nothing, number / STARTS_EVERY)?);
        }
        if number % 100 == 99 {
            let seconds = started.elapsed().as_secs();
            eprintln!("{} programs after {seconds} s", number + 1);
        }
    }
    Ok(table)
}

fn play_pair(turnkey: &Path, stage: &MbppStage, number: usize) -> Result<Pair> {
    let jail = || play::play(stage, MbppPlace::Jail(turnkey));
    let outside = || play::play(stage, MbppPlace::Outside);
    if number.is_multiple_of(2) {
        let outside = outside()?;
        Ok(Pair {
            outside,
            inside: jail()?,
        })
    } else {
        let inside = jail()?;
        Ok(Pair {
            outside: outside()?,
            inside,
        })
    }
}

/// The machine that the figures were taken on.
pub fn machine() -> Result<String> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let python = command::output(Command::new(play::PYTHON).arg("--version"))?;
    let processors = std::thread::available_parallelism()?;
    Ok(format!(
        "Linux {}, {}, {processors} processors",
        kernel.trim(),
        python.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_is_a_file_or_its_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("mbpp.jsonl");
        fs::write(
            &file,
            "{\"id\": \"mbpp/1\", \"language\": \"python\", \"code\": \"assert 1\"}\n\n",
        )
        .expect("written");
        for path in [folder.path(), &file] {
            let programs: Vec<MbppProgram> = read(path).expect("one program");
            assert_eq!((programs.len(), &*programs[0].code), (1, "assert 1"));
        }
        fs::write(&file, "nonsense").expect("written");
        assert!(read::<MbppProgram>(&file).is_err());
    }
}
