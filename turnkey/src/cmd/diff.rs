//! `turnkey diff`: what a run did, or a profile allows, that another profile does not allow, or another
//! run did not do.

mod allowances;
mod doings;
mod profiles;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use turnkey_policy::{Overrides, Policy};

use crate::cli::DiffArguments;
use crate::failure::Failure;
use crate::output;
use allowances::Allowances;
use doings::Doings;
use turnkey_report::{LARGEST, json};
use turnkey_supervisor::files;

/// Something is new.
const NEW: u8 = 1;

/// Prints what is new to standard output.
pub fn diff(arguments: &DiffArguments) -> Result<u8, Failure> {
    let (a, b) = (Subject::read(&arguments.a)?, Subject::read(&arguments.b)?);
    let new = new(&a, &b);
    let page = Page {
        schema: "turnkey.diff/v1",
        a: a.named(&arguments.a),
        b: b.named(&arguments.b),
        new: &new,
    };
    let mut text = Vec::new();
    let written = match arguments.json {
        true => json::write(&page, &mut text),
        false => page.write(&mut text),
    };
    written
        .and_then(|()| output::page(&text))
        .context("could not write what is new")?;
    Ok(if new.is_empty() { 0 } else { NEW })
}

/// Something that `B` does or allows, and `A` not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct New {
    /// `file`, `program`, `address`, `syscall`, `limit`, `environment`, `layer`, `rule`
    pub kind: &'static str,
    /// What, in words.
    pub what: String,
    /// Why it is new.
    pub why: String,
}

fn new(a: &Subject, b: &Subject) -> Vec<New> {
    let allowances = match a {
        Subject::Profile(policy) => Allowances::of_profile(policy),
        Subject::Report(doings) => Allowances::of_report(doings),
    };
    let new: BTreeSet<New> = match (a, b) {
        (_, Subject::Report(doings)) => doings.beyond(&allowances).collect(),
        (Subject::Profile(below), Subject::Profile(above)) => profiles::new(below, above),
        (Subject::Report(_), Subject::Profile(above)) => profiles::rules_beyond(&allowances, above),
    };
    new.into_iter().collect()
}

/// A profile, or what a stored report tells.
enum Subject {
    Profile(Box<Policy>),
    Report(Doings),
}

impl Subject {
    /// A report is known by its schema, everything else is a profile.
    fn read(name: &str) -> Result<Subject, Failure> {
        let bytes = match turnkey_policy::is_file(name) || Path::new(name).exists() {
            true => Some(files::read(Path::new(name), LARGEST)),
            false => None,
        };
        let bytes = bytes
            .transpose()
            .with_context(|| format!("could not read {name}"))?
            .unwrap_or_default();
        let value = serde_json::from_slice::<serde_json::Value>(&bytes).ok();
        if let Some(report) = value.filter(serde_json::Value::is_object) {
            let doings = Doings::read(&report)
                .with_context(|| format!("{name} is JSON and no report of turnkey run or learn"))?;
            return Ok(Subject::Report(doings));
        }
        // Read once: what comes by a pipe is there once.
        let read = |path: &str| match path == name {
            true => files::text(bytes.clone()),
            false => files::read_text(path),
        };
        turnkey_policy::load(name, &read, &Overrides::default())
            .map(|policy| Subject::Profile(Box::new(policy)))
            .map_err(|error| Failure::Profile(Box::new(error)))
    }

    fn named(&self, name: &str) -> Named {
        Named {
            name: turnkey_report::escape(name.as_bytes()),
            is: match self {
                Subject::Profile(_) => "profile",
                Subject::Report(_) => "report",
            },
        }
    }
}

#[derive(Serialize)]
struct Named {
    name: String,
    is: &'static str,
}

#[derive(Serialize)]
struct Page<'p> {
    schema: &'static str,
    a: Named,
    b: Named,
    new: &'p [New],
}

impl Page<'_> {
    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let does = match self.b.is {
            "report" => "did",
            _ => "allows",
        };
        let lacks = match self.a.is {
            "report" => "was not done in",
            _ => "is not allowed by",
        };
        if self.new.is_empty() {
            return writeln!(
                out,
                "{} {does} nothing that {lacks} {}",
                self.b.name, self.a.name
            );
        }
        writeln!(out, "{} {does} what {lacks} {}:", self.b.name, self.a.name)?;
        for New { kind, what, why } in self.new {
            writeln!(out, "  {kind:<12}{what}: {why}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
