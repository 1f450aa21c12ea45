//! `turnkey audit`: measures a sandbox, turnkey's own or another, from inside.

mod finding;
mod outside;
mod probe;
mod sandbox;
mod table;

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Serialize;

use crate::cli::AuditArguments;
use crate::failure::Failure;
use crate::{FAILED, output};

use finding::{Criterion, Finding};
pub use probe::probe;
use sandbox::Sandbox;

/// The schema of what `--json` prints.
const SCHEMA: &str = "turnkey.audit/v1";

/// Every sandbox, one after the other.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AuditPage {
    /// Always `turnkey.audit/v1`.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: &'static str,
    /// In the order in which they were named.
    sandboxes: Vec<Measured>,
}

/// One sandbox.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
struct Measured {
    /// The command, or the words for the place where audit was called.
    sandbox: String,
    /// The number of times that the sandbox was started: each probe that ends a run costs another one.
    runs: u32,
    /// The reason why there are no findings: the probe did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    /// By the name of the probe.
    findings: BTreeMap<&'static str, ProbeFinding>,
}

/// A probe and what came of it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProbeFinding {
    /// The subject that it belongs to.
    criterion: Criterion,
    /// The act that the program does when it can.
    does: &'static str,
    #[serde(flatten)]
    finding: Finding,
}

/// The exit code when one of several sandboxes was not measured.
const NOT_ALL: u8 = 1;

/// Measures what is named.
pub fn audit(arguments: &AuditArguments) -> Result<u8, Failure> {
    let probe =
        std::env::current_exe().context("the probe is turnkey's own program, which has no path")?;
    let sandboxes = sandboxes(arguments);
    let measured: Result<Vec<_>, _> = sandboxes
        .iter()
        .map(|sandbox| sandbox.measure(&probe))
        .collect();
    let page = AuditPage {
        schema: SCHEMA,
        sandboxes: measured?,
    };
    let text = match arguments.json {
        true => turnkey_report::json::page(&page).context("the page is no JSON")?,
        false => table::text(&page).into_bytes(),
    };
    output::page(&text).context("could not write the page")?;
    let failed = page
        .sandboxes
        .iter()
        .filter(|each| each.failed.is_some())
        .count();
    Ok(match failed {
        0 => 0,
        all if all == page.sandboxes.len() => FAILED,
        _ => NOT_ALL,
    })
}

fn sandboxes(arguments: &AuditArguments) -> Vec<Sandbox> {
    let none = arguments.sandboxes.is_empty() && arguments.profiles.is_empty();
    let here = (none || arguments.here).then_some(Sandbox::Here);
    let profiles = arguments.profiles.iter().cloned().map(Sandbox::Profile);
    let commands = arguments.sandboxes.iter().cloned().map(Sandbox::Command);
    here.into_iter().chain(profiles).chain(commands).collect()
}
