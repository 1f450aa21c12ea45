//! Arrows between crates point down only:
//!
//! ```text
//! turnkey → supervisor → {jailer, monitor, report}
//! report → analysis → facts → policy
//! jailer → {facts, policy, vfork}
//! monitor → {facts, policy, abi, vfork}    monitor-ebpf → abi
//! ```

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Problem;
use crate::command;

/// A crate of ours and what it may depend on.
struct CrateRule {
    name: &'static str,
    /// The crates of ours that it may use.
    below: &'static [&'static str],
    /// Crates of others that would bring in what the crate knows nothing of.
    never: &'static [&'static str],
}

/// Crates that speak to the kernel: what is pure has none of them.
const SYSTEM: &[&str] = &[
    "aya",
    "aya-obj",
    "caps",
    "landlock",
    "libc",
    "libseccomp",
    "nix",
    "rustix",
    "tempfile",
    "tokio",
];
/// The same for crates that only name what the kernel has numbers for: `nix` and `libc` tell errors and signals.
const KERNEL_OBJECTS: &[&str] = &[
    "aya",
    "aya-obj",
    "caps",
    "landlock",
    "libseccomp",
    "rustix",
    "tokio",
];
const ANYTHING: &[&str] = &["*"];

const CRATES: [CrateRule; 19] = [
    CrateRule {
        name: "turnkey-abi",
        below: &[],
        never: ANYTHING,
    },
    CrateRule {
        name: "turnkey-policy",
        below: &[],
        never: SYSTEM,
    },
    // What jailer and monitor find out, and analysis and report read: data alone.
    CrateRule {
        name: "turnkey-facts",
        below: &["turnkey-policy"],
        never: KERNEL_OBJECTS,
    },
    CrateRule {
        name: "turnkey-analysis",
        below: &["turnkey-abi", "turnkey-facts", "turnkey-policy"],
        never: SYSTEM,
    },
    CrateRule {
        name: "turnkey-report",
        below: &["turnkey-analysis", "turnkey-facts", "turnkey-policy"],
        never: KERNEL_OBJECTS,
    },
    // The one thing that jailer and monitor do alike with the kernel.
    CrateRule {
        name: "turnkey-vfork",
        below: &[],
        never: &["aya", "aya-obj", "caps", "landlock", "libseccomp", "tokio"],
    },
    // Knows nothing of BPF, TOML or the command line.
    CrateRule {
        name: "turnkey-jailer",
        below: &["turnkey-facts", "turnkey-policy", "turnkey-vfork"],
        never: &["aya", "aya-obj", "clap", "miette", "toml"],
    },
    // Knows nothing of how the process was made.
    CrateRule {
        name: "turnkey-monitor",
        below: &[
            "turnkey-abi",
            "turnkey-facts",
            "turnkey-policy",
            "turnkey-vfork",
        ],
        never: &["caps", "clap", "landlock", "libseccomp", "miette", "toml"],
    },
    // The only place where jailer and monitor meet.
    CrateRule {
        name: "turnkey-supervisor",
        below: &[
            "turnkey-analysis",
            "turnkey-facts",
            "turnkey-jailer",
            "turnkey-monitor",
            "turnkey-policy",
            "turnkey-report",
        ],
        never: &[
            "aya-obj",
            "clap",
            "landlock",
            "libseccomp",
            "miette",
            "toml",
        ],
    },
    // The command line and the terminal: what the service would need again is not here.
    CrateRule {
        name: "turnkey",
        below: &[
            "turnkey-facts",
            "turnkey-jailer",
            "turnkey-monitor",
            "turnkey-policy",
            "turnkey-report",
            "turnkey-supervisor",
        ],
        never: &["aya", "aya-obj", "landlock", "libseccomp", "tokio"],
    },
    CrateRule {
        name: "xtask",
        below: &[],
        never: &["aya", "libseccomp", "object", "plotters"],
    },
    // What it takes to write an object again is nobody else's to compile.
    CrateRule {
        name: "turnkey-strip",
        below: &[],
        never: SYSTEM,
    },
    // Measures the command from outside, and shows it.
    CrateRule {
        name: "turnkey-lab",
        below: &["xtask"],
        never: &["aya", "libseccomp"],
    },
    // Sees the command from outside, as a user does; the version of the wire types is what it names.
    CrateRule {
        name: "turnkey-tests",
        below: &["turnkey-abi", "turnkey-policy"],
        never: &["aya", "libseccomp"],
    },
    // Sees the command from outside, and what the kernel did, which it knows from nobody else.
    CrateRule {
        name: "turnkey-differential",
        below: &["turnkey-policy"],
        never: &["aya", "libseccomp"],
    },
    // Boots other kernels, and hears what the tests there come to.
    CrateRule {
        name: "turnkey-machines",
        below: &["turnkey-guest", "xtask"],
        never: &["aya", "libseccomp"],
    },
    // Runs the tests in a guest; knows nothing of what they test.
    CrateRule {
        name: "turnkey-guest",
        below: &[],
        never: &["aya", "libseccomp"],
    },
    // Reaches into whatever reads bytes from outside.
    CrateRule {
        name: "turnkey-fuzz",
        below: &[
            "turnkey-abi",
            "turnkey-facts",
            "turnkey-jailer",
            "turnkey-monitor",
            "turnkey-policy",
        ],
        never: &["aya"],
    },
    CrateRule {
        name: "monitor-ebpf",
        below: &["turnkey-abi"],
        never: &[],
    },
];

/// The workspaces: the BPF programs are built for another target by another compiler, the fuzzer
/// with other flags, and for the lab nobody waits who does not measure.
const MANIFESTS: [&str; 4] = [
    "Cargo.toml",
    "fuzz/Cargo.toml",
    "lab/Cargo.toml",
    "monitor-ebpf/Cargo.toml",
];

/// Finds arrows that point up or sideways.
pub fn check(root: &Path) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    let mut seen = Vec::new();
    for manifest in MANIFESTS {
        let mut metadata = command::cargo();
        metadata
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .args(["--manifest-path", manifest])
            .current_dir(root);
        let text = command::output(&mut metadata)?;
        let metadata: Metadata =
            serde_json::from_str(&text).context("cannot read what `cargo metadata` printed")?;
        for package in metadata.packages {
            problems.extend(check_package(&package));
            seen.push(package.name);
        }
    }
    for rule in CRATES {
        if !seen.iter().any(|name| name == rule.name) {
            problems.push(problem(
                rule.name,
                "is in the table of xtask and not in the workspace",
            ));
        }
    }
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

fn check_package(package: &Package) -> Vec<Problem> {
    let Some(rule) = CRATES.iter().find(|rule| rule.name == package.name) else {
        let message = "is not in the table of crates in xtask: say there what it may depend on";
        return vec![problem(&package.name, message)];
    };
    let forbidden = |dependency: &&Dependency| !rule.may_use(dependency);
    let dependencies = package.dependencies.iter().filter(forbidden);
    dependencies
        .map(|it| problem(rule.name, format!("may not depend on {}", it.name)))
        .collect()
}

fn problem(package: &str, message: impl Into<String>) -> Problem {
    Problem::new(Path::new(package), 0, message)
}

impl CrateRule {
    fn may_use(&self, dependency: &Dependency) -> bool {
        if CRATES.iter().any(|rule| rule.name == dependency.name) {
            return self.below.contains(&dependency.name.as_str());
        }
        // A test may use whatever it tests with: it is not in what users run.
        let only_tests = dependency.kind.as_deref() == Some("dev");
        let named = |never: &&str| *never == "*" || *never == dependency.name;
        only_tests || !self.never.iter().any(named)
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
        check_package(&Package {
            name: package.to_owned(),
            dependencies: vec![dependency],
        })
        .len()
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
    }

    #[test]
    fn crate_without_a_row_is_found() {
        assert_eq!(problems("turnkey-extra", "serde", None), 1);
    }
}
