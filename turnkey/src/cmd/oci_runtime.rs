//! `turnkey oci-runtime`: stands where an engine expects runc or crun, and has the real one call turnkey's hook.
//!
//! A command that makes a container gets the hook of [`crate::cmd::oci_hook`] into its bundle's `config.json`, in front of all others, and
//! every command goes on to the real runtime with the same words. What this does not understand it refuses: a
//! container would run that nobody watches.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use turnkey_supervisor::files::{self, CallerOutput};

use crate::cli::{OciHookArguments, OciRuntimeArguments};
use crate::cmd::oci_hook::passed_on;
use crate::failure::Failure;

/// Options of runc and crun in front of the command that the next word belongs to.
const GLOBAL_WITH_VALUE: [&str; 9] = [
    "log",
    "log-format",
    "log-level",
    "root",
    "criu",
    "rootless",
    "cgroup-manager",
    "config",
    "criu-path",
];
/// Options of the same place that stand alone.
const GLOBAL: [&str; 6] = ["debug", "systemd-cgroup", "help", "h", "version", "v"];
/// Options of `create` and `run` that the next word belongs to, but for the bundle's.
const WITH_VALUE: [&str; 3] = ["console-socket", "pid-file", "preserve-fds"];
/// Options of `create` and `run` that stand alone.
const ALONE: [&str; 9] = [
    "no-pivot",
    "no-new-keyring",
    "no-subreaper",
    "detach",
    "d",
    "keep",
    "help",
    "h",
    "no-mount-fallback",
];
/// Commands that start nothing in a container, or something in one that is watched already.
const OTHERS: [&str; 19] = [
    "checkpoint",
    "delete",
    "events",
    "exec",
    "features",
    "help",
    "h",
    "init",
    "kill",
    "list",
    "mounts",
    "pause",
    "ps",
    "resume",
    "spec",
    "start",
    "state",
    "update",
    "version",
];

/// Bytes of a `config.json` that is read at most.
const LARGEST_CONFIG: usize = 16 << 20;

/// Hands a command of an engine on to the real runtime. It returns only when that cannot be.
pub fn oci_runtime(arguments: &OciRuntimeArguments) -> Result<u8, Failure> {
    if let Some(bundle) = bundle(&arguments.words)? {
        let own = std::env::current_exe().context("turnkey does not find itself")?;
        let config = bundle.join("config.json");
        hook_in(&config, &hook(&own, &arguments.hook)?)
            .with_context(|| format!("{}: the container is not made", config.display()))?;
    }
    let error = Command::new(&arguments.runtime)
        .args(&arguments.words)
        .exec();
    Err(anyhow::Error::from(error)
        .context(format!(
            "the runtime {} cannot be started: name it with --runtime",
            arguments.runtime.display()
        ))
        .into())
}

/// The bundle of a command that makes a container; `None` of any other command.
fn bundle(words: &[OsString]) -> anyhow::Result<Option<PathBuf>> {
    let words: Vec<&str> = words
        .iter()
        .map(|word| {
            word.to_str()
                .context("a word of the runtime's command is not UTF-8")
        })
        .collect::<anyhow::Result<_>>()?;
    let mut words = words.into_iter();
    let Some(command) = command(&mut words)? else {
        return Ok(None);
    };
    match command {
        "create" | "run" => bundle_of(&mut words).map(Some),
        "restore" => bail!(
            "a container that is restored has processes before turnkey watches: restore it with the runtime itself, and use \
             `turnkey attach --container ID`"
        ),
        other if OTHERS.contains(&other) => Ok(None),
        other => bail!(
            "the command `{other}` of the runtime is not known to turnkey: it might make a container"
        ),
    }
}

/// An option's name without its dashes, with its value where it has one; `None` of another word.
fn option(word: &str) -> Option<(&str, Option<&str>)> {
    let name = word.strip_prefix('-')?;
    let name = name.strip_prefix('-').unwrap_or(name);
    Some(match name.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (name, None),
    })
}

/// The first word behind the runtime's own options; `None` when there is none.
fn command<'w>(words: &mut impl Iterator<Item = &'w str>) -> anyhow::Result<Option<&'w str>> {
    while let Some(word) = words.next() {
        match option(word) {
            None => return Ok(Some(word)),
            Some((name, value)) if GLOBAL_WITH_VALUE.contains(&name) => {
                if value.is_none() {
                    words.next();
                }
            }
            Some((name, _)) if GLOBAL.contains(&name) => {}
            Some(_) => bail!(
                "the option `{word}` of the runtime is not known to turnkey, nor whether a value follows"
            ),
        }
    }
    Ok(None)
}

/// The directory that `create` or `run` takes the container from.
fn bundle_of<'w>(words: &mut impl Iterator<Item = &'w str>) -> anyhow::Result<PathBuf> {
    let mut bundle = PathBuf::from(".");
    while let Some(word) = words.next() {
        match option(word) {
            // The container's name, behind which runc reads no option.
            None => break,
            Some(("bundle" | "b", value)) => {
                let value = value.or_else(|| words.next());
                bundle = value.context("--bundle has no directory behind it")?.into();
            }
            Some((name, value)) if WITH_VALUE.contains(&name) => {
                if value.is_none() {
                    words.next();
                }
            }
            Some((name, _)) if ALONE.contains(&name) => {}
            Some(_) => {
                bail!("the option `{word}` is not known to turnkey: it might name another bundle")
            }
        }
    }
    ensure!(
        words.all(|word| option(word).is_none()),
        "the runtime's command has an option behind the container's name: crun reads it, runc does not; write it before the name"
    );
    Ok(bundle)
}

/// The hook, as `config.json` has it (OCI runtime specification, "POSIX-platform Hooks").
fn hook(own: &Path, arguments: &OciHookArguments) -> anyhow::Result<Value> {
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.with_context(|| format!("{} is not UTF-8", path.display()))
    };
    let mut words = vec!["turnkey".to_owned(), "oci-hook".to_owned()];
    words.extend(["--profile".to_owned(), arguments.profile.clone()]);
    for choice in &arguments.choices {
        words.extend(["--choice".to_owned(), choice.clone()]);
    }
    words.extend(["--reports".to_owned(), text(&arguments.reports)?]);
    if arguments.may_outlive_watcher {
        words.push("--may-outlive-watcher".to_owned());
    }
    for (option, value) in passed_on(arguments) {
        words.extend([option.to_owned(), text(Path::new(value))?]);
    }
    Ok(json!({ "path": text(own)?, "args": words }))
}

/// Puts the hook in front of those that the file has for its stage. The runtime reads
/// the file anew, so nobody else may change it meanwhile.
fn hook_in(config: &Path, hook: &Value) -> anyhow::Result<()> {
    require_own(config)?;
    let text = files::read(config, LARGEST_CONFIG)?;
    let mut parsed: Value = serde_json::from_slice(&text).context("no JSON")?;
    require_plain_keys(&parsed)?;
    let hooks = stage(&mut parsed)?;
    if hooks.first() == Some(hook) {
        return Ok(());
    }
    hooks.retain(|other| other != hook);
    hooks.insert(0, hook.clone());
    let replaced = CallerOutput::find(config)?.open()?;
    Ok(replaced.write(&serde_json::to_vec(&parsed)?)?)
}

/// Refuses a file that another user could change, or put another one in the place of, before the runtime reads it.
fn require_own(config: &Path) -> anyhow::Result<()> {
    const STICKY: u32 = 0o1000;
    let own = [0, nix::unistd::geteuid().as_raw()];
    let config = config.canonicalize()?;
    for path in config.ancestors() {
        let metadata = std::fs::symlink_metadata(path)?;
        let mode = metadata.mode();
        // Of what stands in a sticky directory, nobody but its owner moves it.
        let is_closed =
            mode & 0o022 == 0 || metadata.is_dir() && mode & STICKY != 0 && path != config;
        ensure!(
            own.contains(&metadata.uid()) && is_closed,
            "{} is another user's to change, who could take the hook out again: make a bundle where all directories are root's, as \
             engines do",
            path.display()
        );
    }
    Ok(())
}

/// Refuses keys that a runtime written in Go takes for those that turnkey writes: its reader of JSON tells no upper from
/// lower case, by Unicode's simple folding, and takes the last of several (encoding/json, "Unmarshal").
fn require_plain_keys(config: &Value) -> anyhow::Result<()> {
    let keys = |value: &Value| {
        let object = value.as_object().into_iter();
        object
            .flat_map(|object| object.keys().cloned().collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    let hooks = config.get("hooks").map(keys).unwrap_or_default();
    for (known, keys) in [("hooks", keys(config)), ("createRuntime", hooks)] {
        if let Some(other) = keys
            .iter()
            .find(|key| *key != known && folded(key) == folded(known))
        {
            bail!("the key {other:?} in it is one that runc takes for `{known}`: remove it");
        }
    }
    Ok(())
}

/// The letters of a key without their case; U+017F and U+212A are the only others that fold to ASCII letters.
fn folded(key: &str) -> String {
    let plain = key.replace('\u{17f}', "s").replace('\u{212a}', "k");
    plain.to_ascii_lowercase()
}

/// The hooks of the stage at which nothing of the container has started.
fn stage(config: &mut Value) -> anyhow::Result<&mut Vec<Value>> {
    let mut at = config;
    for (key, empty) in [("hooks", json!({})), ("createRuntime", json!([]))] {
        let object = at.as_object_mut().context("an object is missing in it")?;
        let value = object.entry(key).or_insert_with(|| empty.clone());
        if value.is_null() {
            *value = empty;
        }
        at = value;
    }
    at.as_array_mut().context("hooks.createRuntime is no list")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle_in(line: &str) -> anyhow::Result<Option<PathBuf>> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        bundle(&words)
    }

    #[test]
    fn commands_that_make_a_container_are_found_with_their_bundle() {
        for (line, expected) in [
            ("create --bundle /b web", "/b"),
            (
                "--root /run/x --log=/dev/null create --pid-file p -b /b web",
                "/b",
            ),
            ("--root run --systemd-cgroup run -bundle=/b -d web", "/b"),
            ("--log-format json --log create run web", "."),
            (
                "--cgroup-manager systemd create --no-pivot --console-socket s --bundle b web",
                "b",
            ),
        ] {
            let found = bundle_in(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(found.as_deref(), Some(Path::new(expected)), "{line}");
        }
        for line in [
            "",
            "--version",
            "state web",
            "--root create list",
            "exec web run",
            "delete --force web",
        ] {
            assert_eq!(bundle_in(line).unwrap(), None, "{line}");
        }
    }

    #[test]
    fn commands_that_might_make_another_container_are_refused() {
        for line in [
            "--new-option create web",
            "--new-option value create web",
            "create --bun=/b web",
            "create -b/b web",
            "create --config /c web",
            "create web --bundle /b",
            "restore --bundle /b web",
            "launch web",
            "run --bundle",
        ] {
            assert!(bundle_in(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_hook_is_the_first_of_its_stage_and_there_once() {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("config.json");
        let hook = json!({ "path": "/usr/bin/turnkey", "args": ["turnkey", "oci-hook"] });
        for (before, hooks) in [
            ("{}", 1),
            (r#"{"hooks": null}"#, 1),
            (
                r#"{"hooks": {"createRuntime": [{"path": "/x"}], "poststop": []}}"#,
                2,
            ),
        ] {
            std::fs::write(&config, before).unwrap();
            hook_in(&config, &hook).unwrap();
            hook_in(&config, &hook).unwrap();
            let after: Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
            let stage = after["hooks"]["createRuntime"].as_array().unwrap();
            assert_eq!((stage.len(), &stage[0]), (hooks, &hook), "{before}");
        }
        for broken in [
            "",
            "[]",
            r#"{"hooks": {"createRuntime": {}}}"#,
            r#"{"hooks": 1}"#,
        ] {
            std::fs::write(&config, broken).unwrap();
            assert!(hook_in(&config, &hook).is_err(), "{broken}");
            assert_eq!(
                std::fs::read(&config).unwrap(),
                broken.as_bytes(),
                "as it was"
            );
        }
        let entries = std::fs::read_dir(directory.path()).unwrap();
        assert_eq!(entries.count(), 1, "nothing is left beside it");
        std::fs::write(&config, "{}").unwrap();
        for path in [config.as_path(), directory.path()] {
            let mode = std::fs::metadata(path).unwrap().permissions();
            let mut open = mode.clone();
            std::os::unix::fs::PermissionsExt::set_mode(&mut open, 0o777);
            std::fs::set_permissions(path, open).unwrap();
            assert!(hook_in(&config, &hook).is_err(), "{}", path.display());
            std::fs::set_permissions(path, mode).unwrap();
        }
        hook_in(&config, &hook).unwrap();
    }
}
