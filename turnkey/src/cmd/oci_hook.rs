//! `turnkey oci-hook`: called by a container's runtime before the container's program starts, it attaches turnkey to the
//! container, or has the runtime give up.
//!
//! The runtime writes the container's state to standard input (OCI runtime specification, "State") and waits for the hook's
//! end; a status other than 0 ends the container's creation. At the stage createRuntime the container's group is made
//! and holds nothing but the runtime's own process, whose program has not started ("Lifecycle").

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::cli::OciHookArguments;
use crate::failure::Failure;

/// The annotation by which a container chooses its profile.
const PROFILE: &str = "dev.turnkey.profile";

/// Most bytes of a state: annotations are a few kilobytes.
const LARGEST_STATE: u64 = 1 << 20;

/// The container's state, as far as it matters here.
#[derive(Debug, Deserialize)]
struct ContainerState {
    id: String,
    #[serde(default)]
    pid: u32,
    #[serde(default)]
    bundle: PathBuf,
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
    let profile = profile(&state, arguments)?;
    let attached = attach(&own, &state, (profile, arguments)).status();
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

/// The command that attaches to the container. There may be another of its id, which another engine or another user of the runtime
/// has made (`--root` of runc): then it gives the report another name.
fn attach(
    own: &Path,
    state: &ContainerState,
    (profile, arguments): (&str, &OciHookArguments),
) -> Command {
    let mut command = Command::new(own);
    command
        .args(["attach", "--detach", "--before-program"])
        .args(["--pid", &state.pid.to_string()])
        .args(["--profile", profile])
        .arg("--report")
        .arg(arguments.reports.join(format!("{}.json", state.id)));
    if let Some(root) = root(&state.bundle) {
        command.arg("--rootfs").arg(root);
    }
    if !arguments.may_outlive_watcher {
        command.arg("--required");
    }
    for (option, value) in passed_on(arguments) {
        command.arg(option).arg(value);
    }
    command
}

/// The hook's options that are the watcher's own.
pub fn passed_on(arguments: &OciHookArguments) -> Vec<(&'static str, &OsStr)> {
    let mode = arguments.mode.iter().map(|mode| ("--mode", mode.as_ref()));
    let to = arguments.to.iter().map(|to| ("--to", to.as_ref()));
    let secret = arguments.webhook_secret_file.iter();
    let secret = secret.map(|file| ("--webhook-secret-file", file.as_os_str()));
    mode.chain(to).chain(secret).collect()
}

/// The container's root directory, as the host names it (`root.path`, OCI runtime specification, "Configuration"); `None` where its bundle
/// does not say, which costs no more than the host's names of files.
#[expect(clippy::disallowed_methods, reason = "the runtime has just read it")]
fn root(bundle: &Path) -> Option<PathBuf> {
    let text = std::fs::read(bundle.join("config.json")).ok()?;
    let settings: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let root = bundle.join(settings["root"]["path"].as_str()?);
    root.canonicalize().ok()
}

/// The profile of the container: what its annotation says, where the hook's own command leaves it the choice. Whoever makes
/// a container is not trusted to name a file, which turnkey would read as root, or to take the rules off.
fn profile<'a>(
    state: &'a ContainerState,
    arguments: &'a OciHookArguments,
) -> anyhow::Result<&'a str> {
    let Some(chosen) = state.annotations.get(PROFILE) else {
        return Ok(&arguments.profile);
    };
    let may_choose = [&arguments.profile].into_iter().chain(&arguments.choices);
    let known = may_choose.into_iter().any(|choice| choice == chosen);
    let is_shipped = turnkey_policy::shipped(chosen).is_some() || *chosen == arguments.profile;
    ensure!(
        known && is_shipped,
        "the container's annotation {PROFILE} asks for a profile that this hook does not leave it: add `--choice NAME` to the \
         hook's arguments for a shipped one, or take the annotation away"
    );
    Ok(chosen)
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
        let mut arguments = OciHookArguments {
            profile: "container".to_owned(),
            choices: Vec::new(),
            reports: "/var/log/turnkey".into(),
            may_outlive_watcher: false,
            mode: None,
            to: Vec::new(),
            webhook_secret_file: None,
        };
        assert!(
            profile(&state, &arguments).is_err(),
            "nobody left it the choice"
        );
        arguments.choices = vec!["runner".to_owned(), "/etc/shadow".to_owned()];
        let chosen = profile(&state, &arguments).unwrap();
        let command = attach(Path::new("/usr/bin/turnkey"), &state, (chosen, &arguments));
        let words: Vec<_> = command
            .get_args()
            .map(|word| word.to_str().unwrap())
            .collect();
        let expected = "attach --detach --before-program --pid 42 --profile runner --report /var/log/turnkey/web.json";
        assert_eq!(words.join(" "), format!("{expected} --required"));
        for file in ["/etc/shadow", "./x.toml", "observe.toml"] {
            let annotations = [(PROFILE.to_owned(), file.to_owned())].into();
            let state = ContainerState {
                annotations,
                id: "web".to_owned(),
                pid: 1,
                bundle: "/b".into(),
            };
            assert!(
                profile(&state, &arguments).is_err(),
                "{file} would be read as root"
            );
        }
        assert!(is_name("0b2c") && is_name("k8s_web.1+x"));
        for id in ["", "..", "../x", "a/b", "a b", ".hidden"] {
            assert!(!is_name(id), "{id}");
        }
    }
}
