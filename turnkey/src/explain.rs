//! `turnkey explain`: the plan of a run, printed instead of carried out.
//!
//! Everything shown is read out of what a run itself uses: plan, policy, the tables behind
//! the filters. Nothing here is a list of its own, and nothing is made or changed.

mod landlock;
mod rules;
mod syscalls;
mod text;
mod tree;
mod view;

use std::ffi::OsString;

use anyhow::Context;
use turnkey_jailer::rootless::{self, RootlessError};

use crate::cli::ExplainArguments;
use crate::report;
use crate::run::{self, Failure};
use crate::{advice, tell, toolchain};
use view::View;

/// Stands for a command that was not given.
const COMMAND: &str = "COMMAND";

/// Prints the plan to standard output.
pub fn explain(arguments: &ExplainArguments) -> Result<u8, Failure> {
    // A caller without privileges is shown the run of such a caller. Where even that is out of
    // reach, what is shown is the run of one who has them, and this is said.
    let entered = rootless::enter();
    let mut policy = run::load(&arguments.profile, &arguments.overrides)?;
    let mut command = arguments.command.clone();
    match command.first() {
        Some(program) => drop(toolchain::bring_in(&mut policy, program)?),
        None => command.push(OsString::from(COMMAND)),
    }
    let plan = run::plan(
        &policy,
        arguments.unmonitored,
        &command,
        arguments.workdir.as_deref(),
    )?;
    print(&View::new(&plan), arguments.json).context("could not write the plan")?;
    if let Err(error) = entered {
        tell::line(&not_this_caller(error));
    }
    Ok(0)
}

fn not_this_caller(error: RootlessError) -> String {
    let reason = advice::explain(&error.into());
    format!(
        "this is the plan of a caller with privileges; a run by this caller would not start: {reason}"
    )
}

fn print(view: &View, json: bool) -> std::io::Result<()> {
    let mut page = Vec::new();
    if json {
        report::json::write(view, &mut page)?;
    } else {
        text::write(view, &mut page)?;
    }
    tell::page(&page)
}

#[cfg(test)]
#[path = "explain/snapshots.rs"]
mod snapshots;
