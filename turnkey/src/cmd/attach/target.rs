//! The group that a caller means: by its path, a process in it, a unit of systemd, a container.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use turnkey_supervisor::attachment::group::ForeignGroup;

use crate::cli::AttachTarget;

/// Engines that are asked for a container, each with the arguments that print the host's id of its first process.
const ENGINES: [(&str, &[&str]); 4] = [
    (
        "podman",
        &["container", "inspect", "--format", "{{.State.Pid}}", "--"],
    ),
    (
        "docker",
        &["container", "inspect", "--format", "{{.State.Pid}}", "--"],
    ),
    ("runc", &["state"]),
    ("crun", &["state"]),
];

/// Finds the group.
///
/// # Errors
/// When there is none of that name; the error says who was asked.
pub fn find(target: &AttachTarget) -> anyhow::Result<ForeignGroup> {
    match target {
        AttachTarget {
            cgroup: Some(path), ..
        } => ForeignGroup::find(path),
        AttachTarget { pid: Some(pid), .. } => ForeignGroup::of_process(*pid),
        AttachTarget {
            unit: Some(unit), ..
        } => of_unit(unit),
        AttachTarget {
            container: Some(container),
            ..
        } => of_container(container),
        // The command line has one of them.
        AttachTarget { .. } => bail!("name a group: --cgroup, --pid, --unit or --container"),
    }
}

fn of_unit(unit: &str) -> anyhow::Result<ForeignGroup> {
    let arguments = ["show", "--property=ControlGroup", "--value", "--", unit];
    let group = ask("systemctl", &arguments)
        .with_context(|| format!("systemd could not be asked for {unit}"))?;
    let group = group.context("systemctl is not installed here: name the group by --cgroup")?;
    anyhow::ensure!(
        !group.is_empty(),
        "systemd has no group for {unit}: start it, or correct the name (systemctl list-units)"
    );
    ForeignGroup::find(Path::new(&group))
}

fn of_container(container: &str) -> anyhow::Result<ForeignGroup> {
    let mut refusals = Vec::new();
    for (engine, arguments) in ENGINES {
        let arguments: Vec<&str> = arguments.iter().copied().chain([container]).collect();
        match ask(engine, &arguments) {
            Ok(None) => {}
            Ok(Some(answer)) => match first_process(&answer) {
                Some(pid) => return ForeignGroup::of_process(pid),
                None => refusals.push(format!("{engine}: the container does not run")),
            },
            Err(error) => refusals.push(format!("{engine}: {error}")),
        }
    }
    if refusals.is_empty() {
        bail!(
            "neither podman nor docker nor runc nor crun is installed here: name the group by --pid or --cgroup"
        );
    }
    bail!(
        "there is no running container {container}: {}",
        refusals.join("; ")
    )
}

/// The id in an answer: a bare number, or the `pid` of a runtime's state (OCI runtime specification, "State").
fn first_process(answer: &str) -> Option<u32> {
    let pid = match answer.parse() {
        Ok(pid) => pid,
        Err(_) => {
            let state: serde_json::Value = serde_json::from_str(answer).ok()?;
            u32::try_from(state.get("pid")?.as_u64()?).ok()?
        }
    };
    (pid != 0).then_some(pid)
}

/// The output of a command; `None` when it is not installed.
fn ask(program: &str, arguments: &[&str]) -> anyhow::Result<Option<String>> {
    let mut command = Command::new(program);
    let output = match command.args(arguments).stdin(Stdio::null()).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        output => output?,
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("it says nothing").trim();
        bail!("{last}");
    }
    let answer = String::from_utf8(output.stdout).context("it does not answer in UTF-8")?;
    Ok(Some(answer.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_say_the_first_process_in_two_ways() {
        assert_eq!(first_process("4711"), Some(4711));
        let state =
            r#"{"ociVersion":"1.0.2","id":"web","pid":42,"status":"running","bundle":"/b"}"#;
        assert_eq!(first_process(state), Some(42));
        // As podman and runc say of one that has ended.
        assert_eq!(first_process("0"), None);
        assert_eq!(first_process(r#"{"pid":0,"status":"stopped"}"#), None);
        assert_eq!(first_process(r#"{"pid":-1}"#), None);
    }
}
