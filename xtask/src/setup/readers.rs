//! The programs of others that read what turnkey writes for them, in an environment of Python's below `target/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::unable::are_all_expected;
use crate::{command, workspace};

/// The requirements of pip: each version, and its files by their digests.
const REQUIREMENTS: &str = include_str!("readers.txt");

/// The folder of the readers' programs, where they are installed as [`REQUIREMENTS`] says.
pub fn installed() -> Option<PathBuf> {
    let folder = folder();
    let text = std::fs::read_to_string(mark(&folder)).ok()?;
    (text == REQUIREMENTS).then(|| folder.join("bin"))
}

/// Sees to it that they are there. Where that cannot be, such as without a network or with another Python, tests say that they
/// did without; with CI set it is an error.
pub fn ensure() -> Result<()> {
    if installed().is_some() {
        return Ok(());
    }
    eprintln!(
        "installing the readers of reports, once: py-ocsf-models, sarif-tools, check-jsonschema"
    );
    match install(&folder()) {
        Err(error) if !are_all_expected(std::env::var_os("CI").as_deref()) => {
            eprintln!("goes on without the readers of reports: {error:#}");
            Ok(())
        }
        done => done,
    }
}

fn folder() -> PathBuf {
    workspace::target_folder().join("readers")
}

/// The file that is written when all of them are installed.
fn mark(folder: &Path) -> PathBuf {
    folder.join("installed")
}

fn install(folder: &Path) -> Result<()> {
    // What `sarif` draws with is the system's.
    let make = ["-m", "venv", "--system-site-packages", "--clear"];
    command::check(Command::new("/usr/bin/python3").args(make).arg(folder))
        .context("the environment of Python cannot be made")?;
    let requirements = folder.join("requirements.txt");
    std::fs::write(&requirements, REQUIREMENTS)?;
    let install =
        "-m pip install --quiet --require-hashes --no-deps --only-binary :all: --retries 1 -r";
    let mut pip = Command::new(folder.join("bin/python"));
    command::check(pip.args(install.split(' ')).arg(&requirements))
        .context("pip cannot install them")?;
    Ok(std::fs::rename(requirements, mark(folder))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_is_pinned_with_the_digest_of_a_file() {
        let blocks = REQUIREMENTS.replace(" \\\n", " ");
        let lines = blocks.lines().filter(|line| !line.starts_with('#'));
        let lines: Vec<&str> = lines.collect();
        assert!(
            lines
                .iter()
                .all(|line| line.contains("==") && line.contains(" --hash=sha256:"))
        );
        for reader in ["check-jsonschema", "py-ocsf-models", "sarif-tools"] {
            assert!(
                lines
                    .iter()
                    .any(|line| line.starts_with(&format!("{reader}=="))),
                "{reader}"
            );
        }
    }
}
