//! The places of things in the checkout, and the build of the command.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::command;

/// The folder of the checkout.
pub fn root() -> PathBuf {
    // Set by `cargo run`; the value of the build serves when the program is started by hand.
    let manifest_folder = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    // Of any package below: the lab's has a workspace of its own, so the manifest tells nothing.
    let is_root = |folder: &&Path| folder.join("rust-toolchain.toml").exists();
    let root = manifest_folder.ancestors().find(is_root);
    root.map_or_else(|| manifest_folder.clone(), Path::to_path_buf)
}

/// Builds the command with optimisation and returns the path of the binary.
pub fn build_turnkey() -> Result<PathBuf> {
    let hint = "with optimisation, once: several minutes, of which most keep one CPU busy";
    build("release", hint, &[])
}

/// Builds the command for somebody who waits for it, and returns the path of the binary.
pub fn build_quick(parts: Parts) -> Result<PathBuf> {
    match parts {
        Parts::All => build(QUICK, "once: two minutes on 2 CPUs", &[]),
        Parts::WithoutScan => build(
            QUICK,
            "without what reads scripts, once: one to two minutes on 2 CPUs",
            &["--no-default-features"],
        ),
    }
}

/// The extent of the command that is compiled.
#[derive(Clone, Copy)]
pub enum Parts {
    /// The command with all of its parts.
    All,
    /// The command without `turnkey scan` and `run --scan`, whose parser is a fifth of the work.
    WithoutScan,
}

/// True when that was built before, maybe from older sources.
pub fn is_quick_built() -> bool {
    is_built(QUICK)
}

fn is_built(profile: &str) -> bool {
    target_folder().join(profile).join("turnkey").exists()
}

/// The profile of Cargo.toml that compiles fast.
const QUICK: &str = "quick";

fn build(profile: &str, hint: &str, words: &[&str]) -> Result<PathBuf> {
    if !is_built(profile) {
        eprintln!("building turnkey, {hint}");
    }
    let mut build = cargo_build();
    build.args(["--package", "turnkey", "--profile", profile]);
    build.args(words);
    Programs::build(&mut build)?.named("turnkey")
}

/// The programs that the tests are made of.
pub struct Built {
    /// The command, built as quickly as the tests.
    pub turnkey: PathBuf,
    /// The test binaries by the names of their targets.
    pub tests: Vec<(String, PathBuf)>,
}

/// Builds the command and the tests of this host: what they share is compiled once, with the same features.
pub fn build_tests() -> Result<Built> {
    let programs = Programs::build(cargo_build().args(["--workspace", "--bins", "--tests"]))?;
    Ok(Built {
        turnkey: programs.named("turnkey")?,
        tests: programs.of_kind("test"),
    })
}

/// Builds the same, and the tests that only guests run: they are built by their name alone.
pub fn build_tests_of_guests() -> Result<Built> {
    let mut built = build_tests()?;
    let mut build = cargo_build();
    build.args(["--workspace", "--test", "guest", "--test", "observer"]);
    built
        .tests
        .extend(Programs::build(&mut build)?.of_kind("test"));
    Ok(built)
}

/// A shell that runs the script in a mount namespace of its own; what is added to the command are `$0`, `$1`, ….
#[must_use]
pub fn in_own_mounts(script: &str) -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args("--mount --propagation private -- /bin/sh -ec".split(' '));
    unshare.arg(script);
    unshare
}

/// The folder of build products that are not cargo's own business.
pub fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A `cargo build` in this workspace, for [`Programs::build`].
#[must_use]
pub fn cargo_build() -> Command {
    let mut build = command::cargo();
    build
        .args(["build", "--message-format=json-render-diagnostics"])
        .current_dir(root());
    build
}

/// The programs that a build has made, as cargo names them: the folder of them may be set in many places.
pub struct Programs(Vec<CargoMessage>);

/// A line of cargo's output; other kinds of messages lack these keys.
#[derive(Deserialize)]
struct CargoMessage {
    executable: PathBuf,
    target: CargoTarget,
}

#[derive(Deserialize)]
struct CargoTarget {
    name: String,
    kind: Vec<String>,
}

impl Programs {
    /// Runs a [`cargo_build`].
    pub fn build(build: &mut Command) -> Result<Programs> {
        Ok(Self::from_messages(&command::output(build)?))
    }

    /// From cargo's messages, one JSON object per line.
    fn from_messages(messages: &str) -> Programs {
        let messages = messages.lines().map(serde_json::from_str);
        Programs(messages.filter_map(Result::ok).collect())
    }

    /// Name and path of those of a kind of target.
    pub fn of_kind(&self, kind: &str) -> Vec<(String, PathBuf)> {
        let is_one = |message: &&CargoMessage| message.target.kind.iter().any(|its| its == kind);
        let found = self.0.iter().filter(is_one);
        found
            .map(|message| (message.target.name.clone(), message.executable.clone()))
            .collect()
    }

    /// The path of the command, or the example, of that name.
    pub fn named(&self, name: &str) -> Result<PathBuf> {
        let mut all = self.of_kind("bin");
        all.extend(self.of_kind("example"));
        // With tests, cargo builds commands with the harness of tests besides.
        let is_one = |(its, path): &(String, PathBuf)| {
            its == name && !path.parent().is_some_and(|folder| folder.ends_with("deps"))
        };
        let found = all.into_iter().find(is_one);
        found
            .map(|(_, path)| path)
            .with_context(|| format!("cargo built no program named {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_the_one_with_an_executable() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"build-script-build","kind":["custom-build"]},"executable":"/t/other"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"turnkey","kind":["lib"]},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"turnkey","kind":["bin"]},"executable":"/t/turnkey"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
            "\nnot json\n",
        );
        let programs = Programs::from_messages(messages);
        let path = programs.named("turnkey").expect("it is there");
        assert_eq!(path, Path::new("/t/turnkey"));
        assert_eq!(programs.of_kind("bin"), [("turnkey".to_owned(), path)]);
        assert!(programs.named("turnkeys").is_err());
    }

    #[test]
    fn root_is_the_folder_of_the_workspace() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("a manifest");
        assert!(manifest.starts_with("[workspace]"));
    }
}
