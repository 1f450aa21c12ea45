//! `cargo xtask run`: from a bare machine to a running jail in one command.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::machine::{self, Shows};
use crate::setup::PackageList;
use crate::workspace::{self, Parts};
use crate::{command, setup};

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
    let turnkey = workspace::build_quick(parts(&arguments.turnkey))?;
    let mut words = arguments.turnkey.clone();
    if machine.shows() == Shows::JailAlone {
        weaken(&mut words);
    }
    command::become_it(Command::new(turnkey).args(&words))
}

/// The parts that the words need: a run alone needs nothing that reads scripts.
fn parts(words: &[OsString]) -> Parts {
    let mut own = words.iter().take_while(|word| *word != "--");
    let is_run = own.next().is_some_and(|word| word == "run");
    match is_run && !own.any(|word| word == "--scan") {
        true => Parts::WithoutScan,
        false => Parts::All,
    }
}

/// The flag with which a run goes on without what this machine cannot enforce.
const WEAKER: &str = "--best-effort";

/// Adds [`WEAKER`] to a run whose own flags do not say already how strict it is, and says so: turnkey by
/// itself never does with less.
fn weaken(words: &mut Vec<OsString>) {
    let is_run = words.first().is_some_and(|word| word == "run");
    let mut own = words.iter().take_while(|word| *word != "--");
    if !is_run || own.any(|word| word == "--unmonitored" || word == WEAKER) {
        return;
    }
    eprintln!("goes on as `turnkey run {WEAKER} …`: without it, this machine is refused");
    words.insert(1, WEAKER.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weakened(words: &[&str]) -> Vec<OsString> {
        let mut words = words.iter().map(OsString::from).collect();
        weaken(&mut words);
        words
    }

    #[test]
    fn a_run_goes_on_with_what_there_is() {
        let words = weakened(&["run", "--", "python3", "x.py"]);
        assert_eq!(words, ["run", "--best-effort", "--", "python3", "x.py"]);
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
        let of_the_program = weakened(&["run", "--", "tool", "--best-effort"]);
        assert_eq!(of_the_program[1], "--best-effort");
    }

    #[test]
    fn only_who_asks_for_a_look_at_scripts_waits_for_it() {
        let parts = |words: &str| parts(&words.split(' ').map(OsString::from).collect::<Vec<_>>());
        for words in [
            "run --scan python3 x.py",
            "run --quiet --scan -- true",
            "scan x.py",
            "gate",
        ] {
            assert!(matches!(parts(words), Parts::All), "{words}");
        }
        for words in ["run -- python3 x.py", "run -- tool --scan"] {
            assert!(matches!(parts(words), Parts::WithoutScan), "{words}");
        }
    }
}
