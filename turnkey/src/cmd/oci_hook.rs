//! `turnkey oci-hook`: called by a container's runtime before the container's program starts, it attaches turnkey to the
//! container, or has the runtime give up.
//!
//! The runtime writes the container's state to standard input (OCI runtime specification, "State") and waits for the hook's
//! end; a status other than 0 ends the container's creation. At the stage createRuntime the container's group is made
//! and holds nothing but the runtime's own process, whose program has not started ("Lifecycle").

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::cli::OciHookArguments;
use crate::failure::Failure;

/// The annotations by which a container names its profile and mode.
const PROFILE: &str = "dev.turnkey.profile";
const MODE: &str = "dev.turnkey.mode";

/// Most bytes of a state: annotations are a few kilobytes.
const LARGEST_STATE: u64 = 1 << 20;

/// The container's state, as far as it matters here.
#[derive(Debug, Deserialize)]
struct ContainerState {
    id: String,
    #[serde(default)]
    pid: u32,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Attaches to the container whose state stands on standard input. The watcher goes on when this ends.
pub fn oci_hook(arguments: &OciHookArguments) -> Result<u8, Failure> {
    let mut text = String::new();
    let read = std::io::stdin()
        .take(LARGEST_STATE)
        .read_to_string(&mut text);
    read.context("the runtime's state could not be read")?;
    let state: ContainerState = serde_json::from_str(&text).context(
        "standard input holds no state of a container: a runtime calls this, as a createRuntime hook",
    )?;
    check(&state)?;
    let own = std::env::current_exe().context("turnkey does not find itself")?;
    let attached = attach(&own, &state, arguments).status();
    let status = attached.context("turnkey could not be started")?;
    Ok(u8::from(!status.success()))
}

fn check(state: &ContainerState) -> anyhow::Result<()> {
    ensure!(
        state.pid != 0,
        "the container {} has no process yet: turnkey is a hook of the stage createRuntime",
        state.id
    );
    ensure!(
        is_name(&state.id),
        "the container's id names no file, and its report would be one: {:?}",
        state.id
    );
    Ok(())
}

/// The command that attaches to the container.
fn attach(own: &Path, state: &ContainerState, arguments: &OciHookArguments) -> Command {
    let profile = state.annotations.get(PROFILE).unwrap_or(&arguments.profile);
    let report = arguments.reports.join(format!("{}.json", state.id));
    let mut command = Command::new(own);
    command
        .args(["attach", "--detach", "--before-program"])
        .args(["--pid", &state.pid.to_string()])
        .args(["--profile", profile])
        .arg("--report")
        .arg(report);
    if let Some(mode) = state.annotations.get(MODE) {
        command.args(["--mode", mode]);
    }
    command
}

/// True for what runtimes take as an id, which is a file's name too.
fn is_name(id: &str) -> bool {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "-_.+".contains(character);
    !id.is_empty() && !id.starts_with('.') && id.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_choose_the_profile_and_an_id_is_no_way_out_of_the_directory() {
        let state = r#"{"ociVersion":"1.0.2","id":"web","status":"creating","pid":42,"bundle":"/b",
            "annotations":{"dev.turnkey.profile":"runner","other":"x"}}"#;
        let state: ContainerState = serde_json::from_str(state).unwrap();
        let arguments = OciHookArguments {
            profile: "container".to_owned(),
            reports: "/var/log/turnkey".into(),
        };
        let command = attach(Path::new("/usr/bin/turnkey"), &state, &arguments);
        let words: Vec<_> = command
            .get_args()
            .map(|word| word.to_str().unwrap())
            .collect();
        let expected = "attach --detach --before-program --pid 42 --profile runner --report /var/log/turnkey/web.json";
        assert_eq!(words.join(" "), expected);
        assert!(is_name("0b2c") && is_name("k8s_web.1+x"));
        for id in ["", "..", "../x", "a/b", "a b", ".hidden"] {
            assert!(!is_name(id), "{id}");
        }
    }
}
