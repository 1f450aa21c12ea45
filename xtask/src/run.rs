//! `cargo xtask run`: from a bare machine to a running jail in one command.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::machine::{self, Shows};
use crate::setup::PackageList;
use crate::{command, setup, workspace};

/// The arguments of `run`.
#[derive(Args)]
pub struct RunArguments {
    /// Arguments of turnkey, after `--`
    #[arg(last = true, required = true, value_name = "ARGUMENTS OF TURNKEY")]
    turnkey: Vec<OsString>,
}

/// Installs what is missing, builds, and becomes turnkey.
pub fn run(arguments: &RunArguments) -> Result<()> {
    // Before anything is installed or compiled: who cannot be shown much should know it now.
    let machine = machine::look();
    if !workspace::is_quick_built() || machine.shows() != Shows::Everything {
        eprintln!("{machine}");
    }
    let is_run = arguments.turnkey.first().is_some_and(|word| word == "run");
    if is_run && machine.shows() == Shows::Nothing {
        bail!(
            "no jail can be made here, so nothing is built: {}",
            machine.fix()
        );
    }
    setup::ensure(&[PackageList::Build, PackageList::Examples])?;
    let turnkey = workspace::build_quick()?;
    let mut words = arguments.turnkey.clone();
    if machine.shows() == Shows::JailAlone {
        weaken(&mut words, weaker_flag(&turnkey));
    }
    command::become_it(Command::new(turnkey).args(&words))
}

/// The flag with which a run goes on without what this machine cannot enforce.
fn weaker_flag(turnkey: &Path) -> &'static str {
    let help = command::output(Command::new(turnkey).args(["run", "--help"]));
    if help.is_ok_and(|help| help.contains("--best-effort")) {
        "--best-effort"
    } else {
        "--unmonitored"
    }
}

/// Adds the flag to a run whose own flags do not say already how strict it is, and says so: turnkey by
/// itself never does with less.
fn weaken(words: &mut Vec<OsString>, flag: &str) {
    let is_run = words.first().is_some_and(|word| word == "run");
    let mut own = words.iter().take_while(|word| *word != "--");
    if !is_run || own.any(|word| word == "--unmonitored" || word == "--best-effort") {
        return;
    }
    eprintln!("goes on as `turnkey run {flag} …`: without it, this machine is refused");
    words.insert(1, flag.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weakened(words: &[&str]) -> Vec<OsString> {
        let mut words = words.iter().map(OsString::from).collect();
        weaken(&mut words, "--unmonitored");
        words
    }

    #[test]
    fn a_run_goes_on_with_what_there_is() {
        let words = weakened(&["run", "--", "python3", "x.py"]);
        assert_eq!(words, ["run", "--unmonitored", "--", "python3", "x.py"]);
    }

    #[test]
    fn whoever_says_how_strict_it_is_has_the_word_and_only_runs_are_weakened() {
        for words in [
            &["run", "--unmonitored", "true"][..],
            &["run", "--best-effort", "--", "true"],
            &["doctor"],
            &[],
        ] {
            assert_eq!(weakened(words), words);
        }
        let of_the_program = weakened(&["run", "--", "tool", "--unmonitored"]);
        assert_eq!(of_the_program[1], "--unmonitored");
    }
}
