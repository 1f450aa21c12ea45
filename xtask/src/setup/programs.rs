//! Programs that cargo itself installs.

use std::process::Command;

use anyhow::Result;

use crate::command;

/// A program of crates.io.
struct CargoProgram {
    name: &'static str,
    /// The version that was tried. One that is already there is left alone, whatever its version.
    version: &'static str,
    options: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

/// The test runner: one process per test, because confinement cannot be undone.
const NEXTEST: CargoProgram = CargoProgram {
    name: "cargo-nextest",
    version: "0.9.151",
    // Unoptimised it builds in less than half the time, and it spends its life waiting for tests.
    options: &["--debug", "--no-default-features"],
    environment: &[],
};

/// Links LLVM bitcode to a BPF object.
const BPF_LINKER: CargoProgram = CargoProgram {
    name: "bpf-linker",
    version: "0.13.0",
    options: &["--no-default-features", "--features", "llvm-22"],
    environment: &[("LLVM_PREFIX", "/usr/lib/llvm-22")],
};

/// Sees to it that `cargo nextest` works.
pub fn ensure_nextest() -> Result<()> {
    NEXTEST.ensure()
}

/// True when `bpf-linker` is there.
pub fn has_bpf_linker() -> bool {
    BPF_LINKER.is_there()
}

/// Sees to it that `bpf-linker` is there.
pub fn ensure_bpf_linker() -> Result<()> {
    BPF_LINKER.ensure()
}

/// For each that is missing, the command that installs it.
pub fn advice(with_ebpf: bool) -> Vec<String> {
    let wanted: &[CargoProgram] = if with_ebpf {
        &[NEXTEST, BPF_LINKER]
    } else {
        &[NEXTEST]
    };
    wanted
        .iter()
        .filter(|program| !program.is_there())
        .map(|program| {
            format!(
                "missing: {}. Install it with: {}",
                program.name,
                program.line()
            )
        })
        .collect()
}

impl CargoProgram {
    fn is_there(&self) -> bool {
        command::find_program(self.name).is_some()
    }

    fn ensure(&self) -> Result<()> {
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

    /// The installation as one would type it.
    fn line(&self) -> String {
        let environment = self
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={value} "));
        let options = self.options.join(" ");
        format!(
            "{}cargo install {} --version {} --locked {options}",
            environment.collect::<String>(),
            self.name,
            self.version,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_what_one_would_type() {
        assert_eq!(
            BPF_LINKER.line(),
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
