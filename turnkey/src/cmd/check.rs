//! `turnkey check`: what is wrong with profiles, and what in them is most likely not meant.
//!
//! Reads the profiles and nothing else: no kernel, no privileges, nothing made or changed. What no kernel's table could hold is
//! found all the same, since the table is compiled.

mod text;
mod view;

use std::path::{Path, PathBuf};

use anyhow::Context;
use turnkey_jailer::paths;
use turnkey_monitor::Tier;
use turnkey_policy::LoadError;
use turnkey_policy::lint::CheckedProfile;

use crate::cli::CheckArguments;
use crate::failure::Failure;
use crate::output;
use turnkey_supervisor::{clock, files};
use view::{CheckPage, ProfileProblems};

/// The exit status when a problem was found.
const FOUND: u8 = 1;

/// Prints what was found to standard output.
pub fn check(arguments: &CheckArguments) -> Result<u8, Failure> {
    let today = clock::now().day();
    let looked_at: Vec<_> = arguments
        .profiles
        .iter()
        .map(|name| {
            let checked = turnkey_policy::check(name, &files::read_text, &known_as, today);
            (name.as_str(), checked.and_then(fitting))
        })
        .collect();
    let mut page = Vec::new();
    let check = CheckPage::new(
        looked_at
            .iter()
            .map(|(name, outcome)| ProfileProblems::new(name, outcome)),
    );
    let written = if arguments.json {
        turnkey_report::json::write(&check, &mut page)
    } else {
        text::write(&looked_at, &mut page)
    };
    written
        .and_then(|()| output::page(&page))
        .context("could not write what was found")?;
    Ok(status(&check))
}

/// The profile, if there is a kernel that could be given its rules. BPF LSM refuses none that another kernel takes.
fn fitting(checked: CheckedProfile) -> Result<CheckedProfile, LoadError> {
    match turnkey_monitor::compile(&checked.policy, Tier::Lsm) {
        Ok(_) => Ok(checked),
        Err(error) => Err(LoadError::of_policy(error.to_string())),
    }
}

fn status(check: &CheckPage) -> u8 {
    if check.profiles.iter().any(|profile| !profile.usable) {
        return crate::FAILED;
    }
    let found = check
        .profiles
        .iter()
        .any(|profile| !profile.findings.is_empty());
    if found { FOUND } else { 0 }
}

/// As it was named, and with symlinks followed.
fn known_as(path: &Path) -> Vec<PathBuf> {
    let named = std::path::absolute(path).into_iter();
    named.chain(paths::canonical(path)).collect()
}
