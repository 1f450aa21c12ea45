//! `cargo lab demo`: every program of `examples/` in its jail, against what its header promises.
//!
//! A hostile program is first run without the jail, where that harms nobody, and must succeed
//! there: an attack that never worked proves nothing. The last one is `examples/mission/`, two classes over the command with
//! their tests.

mod expectation;
mod header;
mod play;
mod seen;
mod stage;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::setup::PackageList;
use crate::{command, setup, workspace};
use header::{Control, Header};
use play::DemoPlace;
use seen::DemoObservation;
use stage::DemoStage;

/// The arguments of `demo`.
#[derive(Args)]
pub struct DemoArguments {
    /// Only programs whose path holds one of these words
    filter: Vec<String>,
    /// A turnkey to run instead of one that is built first
    #[arg(long, value_name = "FILE")]
    turnkey: Option<PathBuf>,
    /// Only the runs without the jail, to see that the attacks work
    #[arg(long)]
    control_only: bool,
}

/// Runs them all and prints one table. Any disagreement is an error.
pub fn run(arguments: &DemoArguments) -> Result<()> {
    let turnkey = match &arguments.turnkey {
        _ if arguments.control_only => None,
        Some(file) => Some(std::path::absolute(file)?),
        None => {
            setup::ensure(&[PackageList::Build, PackageList::Examples])?;
            Some(workspace::build_turnkey()?)
        }
    };
    let examples = workspace::root().join("examples");
    let wanted = |name: &str| {
        arguments
            .filter
            .iter()
            .any(|word| name.contains(word.as_str()))
    };
    if arguments.filter.is_empty() || !wanted(MISSION) {
        let programs = load(&examples, &arguments.filter)?;
        let mut table = table::DemoTable::begin(&programs);
        for program in &programs {
            table.add(&perform(program, turnkey.as_deref())?);
        }
        table.end()?;
    }
    match turnkey {
        Some(turnkey) if arguments.filter.is_empty() || wanted(MISSION) => {
            mission(&examples.join(MISSION), &turnkey)
        }
        _ => Ok(()),
    }
}

/// The folder of the two classes.
const MISSION: &str = "mission";

fn mission(folder: &Path, turnkey: &Path) -> Result<()> {
    let mut tests = Command::new("python3");
    tests
        .args(["-m", "unittest", "--verbose"])
        .current_dir(folder);
    tests
        .env("TURNKEY", turnkey)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command::check(&mut tests)
}

/// One row: a program, how it ended, and every fact that is not as promised.
struct DemoRow<'a> {
    program: &'a Header,
    /// The result of the run without the jail, in words, if there was one or a reason for none.
    outside: &'a str,
    /// The run in the jail, unless only the control was asked for.
    seen: Option<DemoObservation>,
    disagreements: Vec<String>,
}

/// The control, then the run in the jail, each on a stage of its own.
fn perform<'a>(program: &'a Header, turnkey: Option<&Path>) -> Result<DemoRow<'a>> {
    let mut row = DemoRow {
        program,
        outside: "",
        seen: None,
        disagreements: Vec::new(),
    };
    match &program.control {
        Control::Expect(expectation) => {
            let stage = DemoStage::set(program)?;
            let seen = play::play(&stage, DemoPlace::Outside)?;
            let wrong = expectation.disagreements(&seen, &|text| stage.fill(text));
            let said = wrong.iter().map(|it| format!("outside the jail: {it}"));
            row.disagreements.extend(said);
            row.outside = table::WORKED;
        }
        Control::Skipped(reason) => row.outside = reason,
        Control::None => {}
    }
    if let Some(turnkey) = turnkey {
        let stage = DemoStage::set(program)?;
        let seen = play::play(&stage, DemoPlace::Jail(turnkey))?;
        let wrong = program
            .expected
            .disagreements(&seen, &|text| stage.fill(text));
        row.disagreements.extend(wrong);
        row.seen = Some(seen);
    }
    Ok(row)
}

/// The programs below `examples`, the harmless ones first, each kind by name.
fn load(examples: &Path, filter: &[String]) -> Result<Vec<Header>> {
    let mut programs = Vec::new();
    for kind in ["harmless", "hostile"] {
        for file in programs_in(&examples.join(kind))? {
            let name = file.to_string_lossy();
            if filter.is_empty() || filter.iter().any(|word| name.contains(word.as_str())) {
                programs.push(Header::load(&file)?);
            }
        }
    }
    if programs.is_empty() {
        bail!("no program of {} matches", examples.display());
    }
    Ok(programs)
}

/// The files of a folder, by name.
fn programs_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder {}", folder.display()))?;
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.retain(|file| file.is_file());
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_has_a_header_that_reads() {
        let programs = load(&workspace::root().join("examples"), &[]).expect("all headers read");
        let hostile = programs.iter().filter(|it| it.is_hostile()).count();
        assert!(hostile >= 20, "{hostile} hostile programs");
        assert!(programs.len() - hostile >= 12);
    }

    #[test]
    fn every_hostile_example_says_whether_it_may_run_outside() {
        let programs = load(&workspace::root().join("examples"), &[]).expect("all headers read");
        for program in programs {
            let silent = matches!(program.control, Control::None);
            assert_eq!(silent, !program.is_hostile(), "{}", program.name());
        }
    }

    #[test]
    fn filter_that_matches_nothing_is_an_error() {
        let filter = ["no-program-has-this-name".to_owned()];
        assert!(load(&workspace::root().join("examples"), &filter).is_err());
    }
}
