//! `turnkey diff`: what a run did, or a profile allows, that another profile does not allow, or another
//! run did not do.

mod allowances;
mod doings;
mod moved;
mod profiles;
mod rules;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use turnkey_policy::{Overrides, Policy};

use crate::cli::{DiffArguments, MapArgument, Moved};
use crate::failure::Failure;
use crate::output;
use allowances::SideAllowances;
use doings::RunUses;
use turnkey_report::{LARGEST, escape};
use turnkey_supervisor::files;

/// The exit status when something is new.
const NEW: u8 = 1;

/// Prints what is new to standard output.
pub fn diff(arguments: &DiffArguments) -> Result<u8, Failure> {
    let (mut a, b) = (
        DiffSubject::read(&arguments.a)?,
        DiffSubject::read(&arguments.b)?,
    );
    let mapped = a.map(&b, &arguments.map)?;
    let new = new(&a, &b);
    let page = DiffPage {
        schema: "turnkey.diff/v1",
        a: a.named(&arguments.a),
        b: b.named(&arguments.b),
        mapped: &mapped,
        new: &new,
    };
    output::rendered(&page, arguments.json, |page, text| page.write(text))
        .and_then(|page| output::page(&page))
        .context("could not write what is new")?;
    Ok(if new.is_empty() { 0 } else { NEW })
}

/// The acts of one run that another has not done, by their reports.
///
/// # Errors
/// When one is no report.
pub fn between(a: &serde_json::Value, b: &serde_json::Value) -> anyhow::Result<Vec<NewEntry>> {
    let (a, b) = (RunUses::read(a)?, RunUses::read(b)?);
    let allowances = SideAllowances::of_report(&a);
    let new: BTreeSet<NewEntry> = b.beyond(&allowances).collect();
    Ok(new.into_iter().collect())
}

/// An act or allowance of `B`, and not of `A`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NewEntry {
    /// `file`, `program`, `address`, `syscall`, `limit`, `environment`, `layer`, `rule`, `identity`, `behaviour`, `finding`
    pub kind: &'static str,
    /// The act or allowance, in words.
    pub what: String,
    /// The reason why it is new.
    pub why: String,
    /// The key of B's profile that allows it; empty for the act of a run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
}

impl NewEntry {
    /// An allowance by a key of a profile.
    fn of_key(kind: &'static str, what: &str, why: &str, key: &str) -> Self {
        Self {
            kind,
            what: what.to_owned(),
            why: why.to_owned(),
            key: key.to_owned(),
        }
    }
}

fn new(a: &DiffSubject, b: &DiffSubject) -> Vec<NewEntry> {
    let allowances = match a {
        DiffSubject::Profile(policy) => SideAllowances::of_profile(policy),
        DiffSubject::Report(doings) => SideAllowances::of_report(doings),
    };
    let new: BTreeSet<NewEntry> = match (a, b) {
        (_, DiffSubject::Report(doings)) => doings.beyond(&allowances).collect(),
        (DiffSubject::Profile(below), DiffSubject::Profile(above)) => profiles::new(below, above),
        (DiffSubject::Report(_), DiffSubject::Profile(above)) => {
            rules::rules_beyond(&allowances, above)
        }
    };
    new.into_iter().collect()
}

/// A profile, or what a stored report tells.
enum DiffSubject {
    Profile(Box<Policy>),
    Report(RunUses),
}

impl DiffSubject {
    /// A report is known by its schema, everything else is a profile.
    fn read(name: &str) -> Result<DiffSubject, Failure> {
        let bytes = match turnkey_policy::is_file(name) || Path::new(name).exists() {
            true => Some(files::read(Path::new(name), LARGEST)),
            // No profile is called so.
            false if name.ends_with(".json") => {
                return Err(anyhow::anyhow!("there is no file {name}").into());
            }
            false => None,
        };
        let bytes = bytes
            .transpose()
            .with_context(|| format!("could not read {name}"))?
            .unwrap_or_default();
        let value = serde_json::from_slice::<serde_json::Value>(&bytes).ok();
        if let Some(report) = value.filter(serde_json::Value::is_object) {
            refuse_a_beginning(name, &report)?;
            let doings = RunUses::read(&report)
                .with_context(|| format!("{name} is JSON and no report of turnkey run or learn"))?;
            return Ok(DiffSubject::Report(doings));
        }
        // Read once: what comes by a pipe is there once.
        let read = |path: &str| match path == name {
            true => files::text(bytes.clone()),
            false => files::read_text(path),
        };
        turnkey_policy::load(name, &read, &Overrides::default())
            .map(|policy| DiffSubject::Profile(Box::new(policy)))
            .map_err(|error| Failure::Profile(Box::new(error)))
    }

    /// Renames what this side used as the other has it; what was renamed.
    fn map(&mut self, b: &DiffSubject, wanted: &[MapArgument]) -> anyhow::Result<Vec<Moved>> {
        let mut mapped = Vec::new();
        for argument in wanted {
            let DiffSubject::Report(before) = self else {
                bail!(
                    "--map renames what a run used, and A is a profile: write the other paths in its rules"
                );
            };
            let moved = match (argument, b) {
                (MapArgument::Given(moved), _) => vec![moved.clone()],
                (MapArgument::Auto, DiffSubject::Report(after)) => {
                    moved::find(before.paths(), &after.paths())
                }
                (MapArgument::Auto, DiffSubject::Profile(_)) => {
                    bail!(
                        "--map auto compares what two runs used, and B is a profile: write --map FROM=TO"
                    );
                }
            };
            moved.iter().for_each(|one| before.rename(one));
            mapped.extend(moved);
        }
        Ok(mapped)
    }

    fn named(&self, name: &str) -> NamedSubject {
        NamedSubject {
            name: turnkey_report::escape(name.as_bytes()),
            is: match self {
                DiffSubject::Profile(_) => "profile",
                DiffSubject::Report(_) => "report",
            },
        }
    }
}

/// Refuses a report of a beginning: of what nobody has told yet, nothing would be new.
fn refuse_a_beginning(name: &str, report: &serde_json::Value) -> anyhow::Result<()> {
    ensure!(
        report["status"] != "watching",
        "{name} was written when turnkey began to watch, and has nothing of what was done: wait for the end of the watch, or, where \
         turnkey was killed, attach again"
    );
    Ok(())
}

#[derive(Serialize)]
struct NamedSubject {
    name: String,
    is: &'static str,
}

#[derive(Serialize)]
struct DiffPage<'p> {
    schema: &'static str,
    a: NamedSubject,
    b: NamedSubject,
    #[serde(skip_serializing_if = "<[Moved]>::is_empty")]
    mapped: &'p [Moved],
    new: &'p [NewEntry],
}

impl DiffPage<'_> {
    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let does = match self.b.is {
            "report" => "did",
            _ => "allows",
        };
        let lacks = match self.a.is {
            "report" => "was not done in",
            _ => "is not allowed by",
        };
        for Moved { from, to } in self.mapped {
            let (from, to) = (escape(from), escape(to));
            writeln!(
                out,
                "taken for the same: {from} of {} and {to} of {}",
                self.a.name, self.b.name
            )?;
        }
        if self.new.is_empty() {
            return writeln!(
                out,
                "{} {does} nothing that {lacks} {}",
                self.b.name, self.a.name
            );
        }
        writeln!(out, "{} {does} what {lacks} {}:", self.b.name, self.a.name)?;
        for NewEntry {
            kind, what, why, ..
        } in self.new
        {
            writeln!(out, "  {kind:<12}{what}: {why}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
