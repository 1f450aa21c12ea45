//! The places of things in the checkout, and the build of the command.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
    if !is_built("release") {
        eprintln!(
            "building turnkey with optimisation, once: several minutes, of which most keep one CPU busy"
        );
    }
    build("release")
}

/// Builds the command for somebody who waits for it, and returns the path of the binary.
pub fn build_quick() -> Result<PathBuf> {
    if !is_quick_built() {
        eprintln!("building turnkey, once: one to two minutes on 2 CPUs");
    }
    build(QUICK)
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

fn build(profile: &str) -> Result<PathBuf> {
    // cargo itself says where the binary is: the target folder may be set in many places.
    let mut build = command::cargo();
    build
        .args(["build", "--package", "turnkey", "--profile", profile])
        .arg("--message-format=json-render-diagnostics")
        .arg("--manifest-path")
        .arg(root().join("Cargo.toml"))
        .stderr(Stdio::inherit());
    let messages = command::output(&mut build)?;
    executables(&messages, "bin")
        .into_iter()
        .find(|(name, _)| name == "turnkey")
        .map(|(_, path)| path)
        .context("cargo built no program named turnkey")
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
    let messages = build_debug(&["--bins", "--tests"])?;
    let turnkey = executables(&messages, "bin")
        .into_iter()
        .find(|(name, path)| {
            name == "turnkey" && !path.parent().is_some_and(|it| it.ends_with("deps"))
        })
        .map(|(_, path)| path)
        .context("cargo built no program named turnkey")?;
    let tests = executables(&messages, "test");
    Ok(Built { turnkey, tests })
}

/// Builds the same, and the tests that only guests run: they are built by their name alone.
pub fn build_tests_of_guests() -> Result<Built> {
    let mut built = build_tests()?;
    let of_guests = build_debug(&["--test", "guest", "--test", "observer"])?;
    built.tests.extend(executables(&of_guests, "test"));
    Ok(built)
}

/// Builds some targets of every crate, without optimisation; cargo's messages.
fn build_debug(targets: &[&str]) -> Result<String> {
    let mut build = command::cargo();
    build
        .args([
            "build",
            "--workspace",
            "--message-format=json-render-diagnostics",
        ])
        .args(targets)
        .current_dir(root())
        .stderr(Stdio::inherit());
    command::output(&mut build)
}

/// A shell that runs the script in a mount namespace of its own; what is added to the command are `$0`, `$1`, ….
#[must_use]
pub fn in_own_mounts(script: &str) -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--mount",
        "--propagation",
        "private",
        "--",
        "/bin/sh",
        "-ec",
    ]);
    unshare.arg(script);
    unshare
}

/// The folder of build products that are not cargo's own business.
pub fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A line of cargo's output; other kinds of messages lack these keys.
#[derive(Deserialize)]
struct Message {
    executable: PathBuf,
    target: Target,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Name and path of every program of that kind among cargo's messages, one JSON object per line.
pub fn executables(messages: &str, kind: &str) -> Vec<(String, PathBuf)> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter(|message| message.target.kind.iter().any(|its| its == kind))
        .map(|message| (message.target.name, message.executable))
        .collect()
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
        assert_eq!(
            executables(messages, "bin"),
            [("turnkey".to_owned(), PathBuf::from("/t/turnkey"))]
        );
    }

    #[test]
    fn root_is_the_folder_of_the_workspace() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("a manifest");
        assert!(manifest.starts_with("[workspace]"));
    }
}
