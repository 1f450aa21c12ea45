//! `cargo xtask fuzz differential`: generated programs run in jails, and observers outside say what turnkey should have.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::{Arguments, mutants};
use crate::setup::List;
use crate::{command, setup, test, workspace};

/// The name of the crate, and of its program.
const CRATE: &str = "turnkey-differential";

/// Builds turnkey and who looks at it, and looks for a while, or at what was kept.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::ensure(&[List::Build])?;
    let (turnkey, observer) = build()?;
    if arguments.mutants {
        return mutants::run(arguments, &observer);
    }
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
    command::check(&mut test::loaded_once(&turnkey, look))
}

/// The two programs.
fn build() -> Result<(PathBuf, PathBuf)> {
    let mut build = command::cargo();
    build
        .args(["build", "--package", "turnkey", "--package", CRATE])
        .args(["--message-format=json-render-diagnostics"])
        .current_dir(workspace::root())
        .stderr(std::process::Stdio::inherit());
    let built = workspace::executables(&command::output(&mut build)?, "bin");
    let program = |wanted: &str| built.iter().find(|(name, _)| name == wanted);
    let (Some((_, turnkey)), Some((_, observer))) = (program("turnkey"), program(CRATE)) else {
        bail!("cargo built no program named turnkey, or none named {CRATE}");
    };
    Ok((turnkey.clone(), observer.clone()))
}
