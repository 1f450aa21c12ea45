//! `turnkey monitor`: the programs in the kernel, loaded once for all runs.

use anyhow::Context;
use serde::Serialize;
use turnkey_monitor::Available;
use turnkey_monitor::shared::{self, Outcome, SharedVersion};

use crate::cli::{MonitorCommand, StatusArguments, UnloadArguments};
use crate::failure::Failure;
use crate::output;
use turnkey_supervisor::object;

/// The exit status of `status` when the programs of this turnkey are not loaded.
const NOT_LOADED: u8 = 1;

/// Does what is asked.
pub fn monitor(command: &MonitorCommand) -> Result<u8, Failure> {
    if !nix::unistd::geteuid().is_root() {
        let error =
            "what is loaded into the kernel is root's, and nobody else sees it; run it as root";
        return Err(anyhow::Error::msg(error).into());
    }
    match command {
        MonitorCommand::Load => load(),
        MonitorCommand::Status(arguments) => status(arguments),
        MonitorCommand::Unload(arguments) => unload(arguments),
    }
}

fn load() -> Result<u8, Failure> {
    let available = Available::here();
    let outcome = shared::load(object(), available.tier).map_err(anyhow::Error::from)?;
    let what = match outcome {
        Outcome::Loaded => {
            "loaded for every run until the next boot, or `turnkey monitor unload`; called only while a run is watched"
        }
        Outcome::Already => "loaded already",
    };
    output::line(&format!("{}: {what}", available.tier));
    Ok(0)
}

fn unload(arguments: &UnloadArguments) -> Result<u8, Failure> {
    let object = (!arguments.all).then(object);
    let gone = shared::unload(object.as_ref()).map_err(anyhow::Error::from)?;
    if gone.is_empty() {
        let others = shared::status(self::object()).map_err(anyhow::Error::from)?;
        output::line(match others.len() {
            0 => "nothing was loaded",
            _ => {
                "nothing of this version was loaded; what others have loaded is taken away with --all"
            }
        });
    }
    for name in gone {
        output::line(&format!("unloaded {name}"));
    }
    Ok(0)
}

fn status(arguments: &StatusArguments) -> Result<u8, Failure> {
    let versions = shared::status(object()).map_err(anyhow::Error::from)?;
    let page = if arguments.json {
        json(&versions)?
    } else {
        text(&versions)
    };
    output::page(page.as_bytes()).context("could not write what is loaded")?;
    let is_loaded = versions.iter().any(|version| version.current);
    Ok(if is_loaded { 0 } else { NOT_LOADED })
}

/// The page that `status --json` prints.
#[derive(Serialize)]
struct StatusPage<'a> {
    schema: &'static str,
    versions: Vec<LoadedVersion<'a>>,
}

#[derive(Serialize)]
struct LoadedVersion<'a> {
    name: &'a str,
    current: bool,
    tier: &'static str,
    programs: usize,
    slots: usize,
    watching: Option<bool>,
    jails: Option<Vec<WatchedJailView>>,
}

#[derive(Serialize)]
struct WatchedJailView {
    cgroup_id: u64,
    cgroup: Option<String>,
    condemned: bool,
    records: u64,
    lost: u64,
}

fn json(versions: &[SharedVersion]) -> anyhow::Result<String> {
    let page = StatusPage {
        schema: "turnkey.monitor/v1",
        versions: versions.iter().map(version).collect(),
    };
    Ok(serde_json::to_string_pretty(&page)? + "\n")
}

fn version(version: &SharedVersion) -> LoadedVersion<'_> {
    let jails = version.jails.as_ref().map(|jails| {
        let jail = |jail: &shared::WatchedJail| WatchedJailView {
            cgroup_id: jail.cgroup_id,
            cgroup: place(jail),
            condemned: jail.condemned,
            records: jail.records,
            lost: jail.lost,
        };
        jails.iter().map(jail).collect()
    });
    LoadedVersion {
        name: &version.name,
        current: version.current,
        tier: version.tier.name(),
        programs: version.programs,
        slots: version.slots,
        watching: version.watching,
        jails,
    }
}

/// The path of the jail's group, fit for a terminal.
fn place(jail: &shared::WatchedJail) -> Option<String> {
    let path = jail.cgroup.as_ref()?;
    Some(path.to_string_lossy().escape_debug().to_string())
}

fn text(versions: &[SharedVersion]) -> String {
    if versions.is_empty() {
        return String::from("not loaded: every run loads the programs for itself\n");
    }
    let mut text = String::new();
    for version in versions {
        text += &format!(
            "{} {}: {} programs, tier {}, {} slots{}\n",
            version.name,
            if version.current {
                "(current)"
            } else {
                "(another version)"
            },
            version.programs,
            version.tier,
            version.slots,
            match version.watching {
                Some(true) => ", attached",
                Some(false) => ", attached to no tracepoint",
                None => "",
            },
        );
        match &version.jails {
            None => text += "  its jails are told by the turnkey that loaded it\n",
            Some(jails) if jails.is_empty() => text += "  no jail\n",
            Some(jails) => jails.iter().for_each(|jail| text += &line(jail)),
        }
    }
    text
}

fn line(jail: &shared::WatchedJail) -> String {
    format!(
        "  jail {}: {} records, {} lost{}\n",
        place(jail).unwrap_or_else(|| format!("(group {} is gone)", jail.cgroup_id)),
        jail.records,
        jail.lost,
        if jail.condemned { ", condemned" } else { "" },
    )
}

#[cfg(test)]
mod tests {
    use turnkey_monitor::Tier;
    use turnkey_monitor::shared::WatchedJail;

    use super::*;

    fn loaded() -> SharedVersion {
        SharedVersion {
            name: String::from("2-0011223344556677"),
            current: true,
            tier: Tier::Lsm,
            programs: 48,
            slots: 4,
            watching: Some(true),
            jails: Some(vec![WatchedJail {
                cgroup_id: 77,
                cgroup: Some("/sys/fs/cgroup/turnkey\u{1b}[31m".into()),
                condemned: true,
                records: 5,
                lost: 1,
            }]),
        }
    }

    #[test]
    fn what_is_loaded_is_told_with_its_jails() {
        let told = text(&[loaded()]);
        assert!(
            told.contains("2-0011223344556677 (current): 48 programs, tier lsm, 4 slots, attached")
        );
        assert!(told.contains("5 records, 1 lost, condemned"));
        assert!(
            !told.contains('\u{1b}'),
            "a group's name cannot speak to the terminal"
        );
        assert!(text(&[]).starts_with("not loaded"));
    }

    #[test]
    fn jails_of_another_version_are_unknown_and_not_none() {
        let other = SharedVersion {
            current: false,
            watching: None,
            jails: None,
            ..loaded()
        };
        let page: serde_json::Value = serde_json::from_str(&json(&[other]).unwrap()).unwrap();
        assert_eq!(page["schema"], "turnkey.monitor/v1");
        assert!(page["versions"][0]["jails"].is_null());
        let page: serde_json::Value = serde_json::from_str(&json(&[loaded()]).unwrap()).unwrap();
        assert_eq!(page["versions"][0]["jails"][0]["lost"], 1);
    }
}
