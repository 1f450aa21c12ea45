//! The notices of the crates that are linked into the command: their licences ask that whoever gets the program gets them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use xtask::command;

/// The part of `cargo metadata` that is read.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    /// None of a crate of the workspace.
    source: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

/// `None` is a normal dependency; the others are those of tests and build scripts.
#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

/// The beginnings of the names of files that hold a licence or a notice, in capitals.
const BEGINNINGS: [&str; 6] = [
    "COPYING",
    "COPYRIGHT",
    "LICENCE",
    "LICENSE",
    "NOTICE",
    "UNLICENSE",
];

/// The text for the package: each crate that is linked, then each licence text with the crates that carry it.
pub fn text(root: &Path) -> Result<String> {
    let mut cargo = command::cargo();
    cargo.args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--manifest-path",
    ]);
    cargo.arg(root.join("turnkey/Cargo.toml"));
    cargo.args(["--filter-platform", &crate::target()]);
    let metadata =
        command::output(&mut cargo).context("cargo does not tell which crates there are")?;
    let metadata: Metadata =
        serde_json::from_str(&metadata).context("cargo's answer is no metadata")?;
    let mut crates = linked(&metadata);
    crates.sort_by_key(|package| (&package.name, &package.version));
    let mut text = String::from("turnkey is linked with these crates:\n\n");
    let mut texts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for package in crates {
        let license = package.license.as_deref().unwrap_or("see below");
        let place = package.repository.as_deref().unwrap_or_default();
        writeln!(
            text,
            "{} {}, {license}, {place}",
            package.name, package.version
        )?;
        for licence in licences(package)? {
            texts.entry(licence).or_default().push(&package.name);
        }
    }
    for (licence, names) in texts {
        let names: BTreeSet<&str> = names.into_iter().collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        write!(
            text,
            "\n{}\n{names}\n\n{}\n",
            "=".repeat(78),
            licence.trim_end()
        )?;
    }
    Ok(text)
}

/// Crates of others that the command reaches by normal dependencies.
fn linked(metadata: &Metadata) -> Vec<&Package> {
    let nodes: BTreeMap<&str, &Node> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| (&*node.id, node))
        .collect();
    let is_command = |package: &&Package| package.source.is_none() && package.name == "turnkey";
    let mut open: Vec<&str> = metadata
        .packages
        .iter()
        .filter(is_command)
        .map(|it| &*it.id)
        .collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = open.pop() {
        let Some(node) = nodes.get(id).filter(|_| reached.insert(id)) else {
            continue;
        };
        let normal = |it: &&Dependency| it.dep_kinds.iter().any(|kind| kind.kind.is_none());
        open.extend(node.deps.iter().filter(normal).map(|it| &*it.pkg));
    }
    let packages = metadata.packages.iter();
    packages
        .filter(|it| it.source.is_some() && reached.contains(&*it.id))
        .collect()
}

/// The texts of a crate's licences. One that may be had under several carries them all.
fn licences(package: &Package) -> Result<Vec<String>> {
    let folder = package
        .manifest_path
        .parent()
        .context("a crate has no folder")?;
    let mut texts = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let holds = BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning));
        if holds && entry.file_type()?.is_file() {
            texts.push(fs::read_to_string(entry.path())?);
        }
    }
    texts.sort();
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_gets_the_command_gets_the_notices_of_what_is_linked_and_of_nothing_else() {
        let text = text(&xtask::workspace::root()).expect("cargo tells");
        let (list, notices) = text.split_once("====").expect("both parts");
        for name in ["\naya 0", "\nclap 4", "\nlibseccomp 0"] {
            assert!(list.contains(name), "{name} in {list}");
        }
        // Of tests and of build scripts alone.
        for name in ["\ninsta ", "\nproptest ", "\nautocfg "] {
            assert!(!list.contains(name), "{name} in {list}");
        }
        assert!(
            notices.contains("Permission is hereby granted, free of charge"),
            "MIT"
        );
        assert!(
            notices.contains("Redistribution and use in source and binary forms"),
            "BSD"
        );
    }
}
