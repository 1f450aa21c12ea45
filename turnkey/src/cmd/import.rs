//! `turnkey import`: a profile from what another tool is told, and what of it has no place in a profile.
//!
//! Nothing is carried over approximately. What turnkey can do only otherwise is either done as turnkey
//! does it where that is stricter, or left out; both are said, on standard error and in the profile.

mod page;
mod seccomp;
mod settings;
mod unique;

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use turnkey_monitor::Tier;
use turnkey_policy::Overrides;

use crate::cli::ImportArguments;
use crate::failure::Failure;
use crate::output;
use page::ProfilePage;
use turnkey_supervisor::files;
use turnkey_supervisor::files::CallerOutput;
use unique::UniqueKeys;

/// The exit status when something was left behind.
const LEFT_BEHIND: u8 = 1;

/// Reads the file and prints the profile, or writes it to a new file.
pub fn import(arguments: &ImportArguments) -> Result<u8, Failure> {
    let file = &arguments.file;
    let text = files::read_text(&file.to_string_lossy())
        .map_err(|error| anyhow!("could not read {}: {error}", file.display()))?;
    let home = std::env::var("HOME").ok();
    let read = |whole: bool| {
        let page = read(&text, &named(file), home.as_deref(), whole);
        page.with_context(|| format!("could not import {}", file.display()))
    };
    let mut page = read(true)?;
    if verify(&page.text()).is_err() {
        page = read(false)?;
        verify(&page.text())?;
    }
    let profile = page.text();
    match &arguments.out {
        Some(out) => write_new(out, &profile)?,
        None => output::page(profile.as_bytes()).context("could not write the profile")?,
    }
    for note in page.notes() {
        output::line(&format!("not as it was: {note}"));
    }
    Ok(if page.notes().is_empty() {
        0
    } else {
        LEFT_BEHIND
    })
}

/// The file's own name, for the profile's description.
fn named(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Reads a file of the kind that its keys show; `whole` as [`settings::read`] has it.
fn read(text: &str, file: &str, home: Option<&str>, whole: bool) -> anyhow::Result<ProfilePage> {
    let UniqueKeys(value) = serde_json::from_str(text).context("it cannot be read as JSON")?;
    if value.get("defaultAction").is_some() {
        return seccomp::read(value, file);
    }
    if value.get("filesystem").is_some() || value.get("network").is_some() {
        return settings::read(value, file, home, whole);
    }
    bail!(
        "it is neither a seccomp profile of the OCI, which has the key `defaultAction`, nor settings of \
         sandbox-runtime, which have `filesystem` and `network`"
    )
}

/// A profile that cannot be used would be found out only later, by somebody else.
fn verify(profile: &str) -> Result<(), Failure> {
    let place = "./imported.toml";
    let read = |path: &str| match path {
        path if path == place => Ok(profile.to_owned()),
        other => Err(format!("{other} is not part of it")),
    };
    let policy = turnkey_policy::load(place, &read, &Overrides::default())
        .map_err(|error| Failure::Profile(Box::new(error)))?;
    for tier in [Tier::Lsm, Tier::Tracepoint] {
        turnkey_monitor::compile(&policy, tier).context("the profile would not be usable")?;
    }
    Ok(())
}

/// A profile that somebody wrote is never written over.
fn write_new(out: &Path, profile: &str) -> anyhow::Result<()> {
    let written = CallerOutput::find(out)
        .and_then(CallerOutput::open)
        .and_then(|out| out.write_new(profile.as_bytes()));
    written.with_context(|| {
        format!(
            "could not make {}: name a file that does not exist",
            out.display()
        )
    })
}

#[cfg(test)]
#[path = "import/tests.rs"]
mod tests;
