//! `turnkey profiles`: the profiles that come with it, one line each.

use anyhow::Context as _;
use serde::Serialize;
use turnkey_policy::{ShippedProfile, listed};

use crate::cli::ProfilesArguments;
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct ProfilesPage {
    schema: &'static str,
    profiles: Vec<ProfileEntry>,
}

#[derive(Serialize)]
struct ProfileEntry {
    name: &'static str,
    extends: Vec<String>,
    description: String,
}

/// Prints the list, the default profile first.
pub fn profiles(arguments: &ProfilesArguments) -> Result<u8, Failure> {
    let profiles = listed();
    let text = if arguments.json {
        json(profiles)?
    } else {
        lines(&profiles)
    };
    output::page(text.as_bytes()).context("could not write the list")?;
    Ok(0)
}

fn lines(profiles: &[ShippedProfile]) -> String {
    let line = |profile: &ShippedProfile| {
        let extends = profile.extends.join(", ");
        format!(
            "{:<10} {extends:<10} {}\n",
            profile.name, profile.description
        )
    };
    let head = format!("{:<10} {:<10} for\n", "profile", "builds on");
    profiles
        .iter()
        .fold(head, |text, profile| text + &line(profile))
}

fn json(profiles: Vec<ShippedProfile>) -> anyhow::Result<String> {
    let entry = |profile: ShippedProfile| ProfileEntry {
        name: profile.name,
        extends: profile.extends,
        description: profile.description,
    };
    let page = ProfilesPage {
        schema: "turnkey.profiles/v1",
        profiles: profiles.into_iter().map(entry).collect(),
    };
    let text = serde_json::to_string_pretty(&page).context("the list is no JSON")?;
    Ok(text + "\n")
}
