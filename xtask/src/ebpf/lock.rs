//! The lock file beside the object: what it was made of and with.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::sources;
use super::toolchain::Toolchain;

/// The sources and the tools that the object was made of and with.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// SHA-256 over the source files.
    sources_sha256: String,
    /// SHA-256 of the object.
    object_sha256: String,
    /// With what it was built.
    pub toolchain: Identity,
}

/// The parts of a toolchain that can change the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// First line of `rustc -vV`.
    pub rustc: String,
    /// The LLVM that rustc emits bitcode of.
    pub llvm: String,
    /// `cargo --version`: it chooses the hashes in symbol names.
    pub cargo: String,
    /// `bpf-linker --version`.
    pub linker: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "  {}, LLVM {}\n  {}\n  {}",
            self.rustc, self.llvm, self.cargo, self.linker
        )
    }
}

const HEADER: &str = "\
# Written by `cargo xtask ebpf`, checked by `cargo xtask ebpf --check`.
# The object beside this file was built from sources with this digest, with this toolchain.

";

impl Lock {
    /// The lock of an object that was just built.
    pub fn new(root: &Path, object: &[u8], toolchain: &Toolchain) -> Result<Self> {
        Ok(Self {
            sources_sha256: sources::digest(root)?,
            object_sha256: sources::digest_of(object),
            toolchain: toolchain.identity.clone(),
        })
    }

    /// Reads a lock file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)?;
        toml::from_str(&text).with_context(|| format!("{} is no lock file", path.display()))
    }

    /// Writes it.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = toml::to_string(self).context("cannot render the lock")?;
        Ok(fs::write(path, format!("{HEADER}{text}"))?)
    }

    /// Fails with what to do when sources or object are not the recorded ones.
    pub fn agrees_with(&self, sources_sha256: &str, object: &[u8]) -> Result<()> {
        ensure!(
            self.sources_sha256 == sources_sha256,
            "the sources of the BPF object have changed since it was built: \
             run `cargo xtask ebpf` and commit what it wrote"
        );
        ensure!(
            self.object_sha256 == sources::digest_of(object),
            "the BPF object is not the one of its lock: \
             run `cargo xtask ebpf` and commit what it wrote"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> Lock {
        Lock {
            sources_sha256: "5".repeat(64),
            object_sha256: sources::digest_of(b"object"),
            toolchain: Identity {
                rustc: "rustc 1.96.0".to_owned(),
                llvm: "22.1.8".to_owned(),
                cargo: "cargo 1.95.0".to_owned(),
                linker: "bpf-linker 0.13.0".to_owned(),
            },
        }
    }

    #[test]
    fn lock_comes_back_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lock");
        lock().write(&path).expect("written");
        assert_eq!(Lock::read(&path).expect("read"), lock());
    }

    #[test]
    fn changed_sources_and_changed_object_are_refused() {
        let sources = "5".repeat(64);
        lock().agrees_with(&sources, b"object").expect("both agree");
        let error = lock().agrees_with("other", b"object").expect_err("sources");
        assert!(error.to_string().contains("sources"), "{error}");
        let error = lock().agrees_with(&sources, b"0bject").expect_err("object");
        assert!(error.to_string().contains("not the one"), "{error}");
    }
}
