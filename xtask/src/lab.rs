//! `cargo lab`: what measures turnkey and shows it, in a workspace of its own.
//!
//! Its crates draw and count, and whoever runs or tests turnkey should not wait for them.

use std::ffi::{OsStr, OsString};

use anyhow::Result;
use clap::Args;

use crate::{command, setup, workspace};

/// The arguments of the lab.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// Handed on as they are
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Builds the lab and becomes it.
pub fn run(arguments: &Arguments) -> Result<()> {
    become_lab(&arguments.words)
}

/// The same, for the one command of the lab that is part of what must hold before a change lands.
pub fn demo(arguments: &Arguments) -> Result<()> {
    let name = OsStr::new("demo").to_owned();
    let words: Vec<_> = std::iter::once(name)
        .chain(arguments.words.iter().cloned())
        .collect();
    become_lab(&words)
}

fn become_lab(words: &[OsString]) -> Result<()> {
    setup::ensure(&[setup::BUILD])?;
    let mut lab = command::cargo();
    lab.args(["run", "--profile", "quick", "--locked", "--manifest-path"])
        .arg(workspace::root().join("lab/Cargo.toml"))
        // What both workspaces use is compiled once.
        .arg("--target-dir")
        .arg(workspace::target_folder())
        .arg("--")
        .args(words);
    command::become_it(&mut lab)
}
