//! `cargo xtask fuzz differential`: generated programs run in jails, and observers outside say what turnkey should have.

use anyhow::Result;

use super::FuzzArguments;
use crate::setup::PackageList;
use crate::workspace::Programs;
use crate::{command, setup, test, workspace};

/// The name of the crate, and of its program.
const CRATE: &str = "turnkey-differential";

/// Builds turnkey and who looks at it, and looks for a while, or at what was kept.
pub fn run(arguments: &FuzzArguments) -> Result<()> {
    setup::ensure(&[PackageList::Build])?;
    let mut build = workspace::cargo_build();
    build.args(["--package", "turnkey", "--package", CRATE]);
    let programs = Programs::build(&mut build)?;
    let (turnkey, observer) = (programs.named("turnkey")?, programs.named(CRATE)?);
    let mut look = std::process::Command::new(observer);
    look.arg("--turnkey")
        .arg(&turnkey)
        .args(["--seconds", &arguments.seconds.to_string()])
        .arg("--findings")
        .arg(super::work().join("findings"));
    for input in &arguments.input {
        look.arg("--input").arg(std::path::absolute(input)?);
    }
    if let Some(seed) = arguments.seed {
        look.args(["--seed", &seed.to_string()]);
    }
    if arguments.mutants {
        look.arg("--mutants");
        let only = arguments.only.iter().flat_map(|name| ["--only", name]);
        return command::check(look.args(only));
    }
    command::check(&mut test::loaded_once(&turnkey, look))
}
