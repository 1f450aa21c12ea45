//! `cargo xtask run`: from a bare machine to a running jail in one command.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::{command, setup, workspace};

/// What `run` is given.
#[derive(Args)]
pub struct Arguments {
    /// Arguments of turnkey, after `--`
    #[arg(last = true, required = true, value_name = "ARGUMENTS OF TURNKEY")]
    turnkey: Vec<OsString>,
}

/// Installs what is missing, builds, and becomes turnkey.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::ensure(&[setup::BUILD, setup::EXAMPLES])?;
    let turnkey = workspace::build_turnkey()?;
    command::become_it(Command::new(turnkey).args(&arguments.turnkey))
}
