//! Arrows between crates point down only: crates.toml says where they may lead.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{FIRST, OTHERS, TidyProblem, cargo};
use crate::command;

/// The content of crates.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CrateTable {
    sets: BTreeMap<String, Vec<String>>,
    #[serde(rename = "crate")]
    rules: BTreeMap<String, CrateRule>,
}

/// The dependencies that a crate of ours may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CrateRule {
    below: Vec<String>,
    never: Vec<String>,
    #[serde(default, rename = "for-tests")]
    for_tests: bool,
}

/// Finds arrows that point up or sideways.
pub fn check(root: &Path) -> Result<Vec<TidyProblem>> {
    let table = CrateTable::read()?;
    let mut problems = Vec::new();
    let mut seen = Vec::new();
    for manifest in [&[FIRST], &OTHERS[..]].concat() {
        let mut metadata = cargo("metadata --no-deps --format-version 1", manifest);
        let text = command::output(metadata.current_dir(root))?;
        let metadata: Metadata =
            serde_json::from_str(&text).context("cannot read what `cargo metadata` printed")?;
        for package in metadata.packages {
            problems.extend(table.check(&package));
            seen.push(package.name);
        }
    }
    let gone = table.rules.keys().filter(|name| !seen.contains(name));
    problems.extend(gone.map(|name| problem(name, "is in crates.toml and not in the workspace")));
    Ok(problems)
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev`, `build`, or nothing for an ordinary one.
    kind: Option<String>,
}

fn problem(package: &str, message: impl Into<String>) -> TidyProblem {
    TidyProblem::new(Path::new(package), 0, message)
}

impl CrateTable {
    fn read() -> Result<CrateTable> {
        toml::from_str(include_str!("crates.toml")).context("xtask/src/tidy/crates.toml")
    }

    fn check(&self, package: &Package) -> Vec<TidyProblem> {
        let Some(rule) = self.rules.get(&package.name) else {
            let message = "is not in xtask/src/tidy/crates.toml: say there what it may depend on";
            return vec![problem(&package.name, message)];
        };
        let forbidden = |it: &&Dependency| !self.may_use(rule, it);
        let dependencies = package.dependencies.iter().filter(forbidden);
        dependencies
            .map(|it| problem(&package.name, format!("may not depend on {}", it.name)))
            .collect()
    }

    fn may_use(&self, rule: &CrateRule, dependency: &Dependency) -> bool {
        let is_of_tests = dependency.kind.as_deref() == Some("dev");
        if let Some(its) = self.rules.get(&dependency.name) {
            return rule.below.contains(&dependency.name) || its.for_tests && is_of_tests;
        }
        let names = |never: &String| match self.sets.get(never) {
            Some(set) => set.contains(&dependency.name),
            None => never == "*" || *never == dependency.name,
        };
        is_of_tests || !rule.never.iter().any(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(package: &str, dependency: &str, kind: Option<&str>) -> usize {
        let dependency = Dependency {
            name: dependency.to_owned(),
            kind: kind.map(str::to_owned),
        };
        let table = CrateTable::read().expect("a table");
        let package = Package {
            name: package.to_owned(),
            dependencies: vec![dependency],
        };
        table.check(&package).len()
    }

    #[test]
    fn arrows_down_pass() {
        for (package, dependency) in [
            ("turnkey", "turnkey-jailer"),
            ("turnkey", "turnkey-monitor"),
            ("turnkey-jailer", "turnkey-policy"),
            ("turnkey-monitor", "turnkey-abi"),
            ("monitor-ebpf", "turnkey-abi"),
            ("turnkey-jailer", "nix"),
            ("turnkey-monitor", "aya"),
        ] {
            assert_eq!(
                problems(package, dependency, None),
                0,
                "{package} → {dependency}"
            );
        }
    }

    #[test]
    fn arrows_up_and_sideways_are_found_even_in_tests() {
        for (package, dependency) in [
            ("turnkey-jailer", "turnkey-monitor"),
            ("turnkey-monitor", "turnkey-jailer"),
            ("turnkey-policy", "turnkey-jailer"),
            ("turnkey-report", "turnkey-jailer"),
            ("turnkey-supervisor", "turnkey"),
            ("turnkey-analysis", "turnkey-monitor"),
            ("turnkey-facts", "turnkey-report"),
            ("turnkey-abi", "turnkey-policy"),
            ("turnkey-tests", "turnkey-jailer"),
        ] {
            for kind in [None, Some("dev"), Some("build")] {
                assert_eq!(
                    problems(package, dependency, kind),
                    1,
                    "{package} → {dependency}"
                );
            }
        }
    }

    #[test]
    fn foreign_crates_that_a_crate_must_not_use_are_found() {
        for (package, dependency) in [
            ("turnkey-policy", "nix"),
            ("turnkey-policy", "libc"),
            ("turnkey-policy", "aya"),
            ("turnkey-analysis", "nix"),
            ("turnkey-report", "tokio"),
            ("turnkey-jailer", "aya"),
            ("turnkey-jailer", "toml"),
            ("turnkey-supervisor", "clap"),
            ("turnkey-monitor", "libseccomp"),
            ("turnkey-abi", "serde"),
            ("xtask", "plotters"),
        ] {
            assert_eq!(
                problems(package, dependency, None),
                1,
                "{package} → {dependency}"
            );
        }
        assert_eq!(problems("turnkey-abi", "proptest", Some("dev")), 0);
        let expectations = |kind| problems("turnkey-jailer", "turnkey-expectations", kind);
        assert_eq!((expectations(Some("dev")), expectations(None)), (0, 1));
    }

    #[test]
    fn crate_without_a_row_is_found() {
        assert_eq!(problems("turnkey-extra", "serde", None), 1);
    }
}
