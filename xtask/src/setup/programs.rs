//! Programs that cargo itself installs.

use std::process::Command;

use anyhow::Result;

use crate::command::{self, shown};

/// A program of crates.io.
pub struct CargoProgram {
    name: &'static str,
    /// The version that was tried. One that is already there is left alone, whatever its version.
    version: &'static str,
    options: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

/// The test runner: one process per test, because confinement cannot be undone.
pub const NEXTEST: CargoProgram = CargoProgram {
    name: "cargo-nextest",
    version: "0.9.151",
    // Unoptimised it builds in less than half the time, and it spends its life waiting for tests.
    options: &["--debug", "--no-default-features"],
    environment: &[],
};

/// Links LLVM bitcode to a BPF object.
pub const BPF_LINKER: CargoProgram = CargoProgram {
    name: "bpf-linker",
    version: "0.13.0",
    options: &["--no-default-features", "--features", "llvm-22"],
    environment: &[("LLVM_PREFIX", "/usr/lib/llvm-22")],
};

/// For each that is missing, the command that installs it.
pub fn advice(with_ebpf: bool) -> Vec<String> {
    let wanted = [NEXTEST, BPF_LINKER].into_iter();
    let wanted = wanted.take(if with_ebpf { 2 } else { 1 });
    let missing = wanted.filter(|program| !program.is_there());
    let advice = |it: CargoProgram| {
        format!(
            "missing: {}. Install it with: {}",
            it.name,
            shown(&it.installation())
        )
    };
    missing.map(advice).collect()
}

impl CargoProgram {
    /// True when it is installed.
    pub fn is_there(&self) -> bool {
        command::find_program(self.name).is_some()
    }

    /// Sees to it that it is there.
    pub fn ensure(&self) -> Result<()> {
        if self.is_there() {
            return Ok(());
        }
        eprintln!("building {}, once: this takes some minutes", self.name);
        command::check(&mut self.installation())
    }

    fn installation(&self) -> Command {
        let mut install = command::cargo();
        install
            .args(["install", self.name, "--version", self.version, "--locked"])
            .args(self.options)
            .envs(self.environment.iter().copied())
            // Its build products are of no use to the workspace.
            .env_remove("CARGO_TARGET_DIR");
        install
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_what_one_would_type() {
        assert_eq!(
            shown(&BPF_LINKER.installation()),
            "LLVM_PREFIX=/usr/lib/llvm-22 cargo install bpf-linker --version 0.13.0 --locked \
             --no-default-features --features llvm-22"
        );
    }

    #[test]
    fn installation_pins_version_and_dependencies() {
        let install = NEXTEST.installation();
        let words: Vec<_> = install.get_args().collect();
        assert!(
            words
                .windows(2)
                .any(|pair| pair == ["--version", "0.9.151"])
        );
        assert!(words.contains(&"--locked".as_ref()));
    }
}
