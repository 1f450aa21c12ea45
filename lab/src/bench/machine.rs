//! The machine that the figures were taken on.

use std::fs;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The machine, without anything that names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchMachine {
    /// As from `uname -r`.
    pub kernel: String,
    /// As the processor calls itself.
    pub processor: String,
    /// The number of processors.
    pub processors: usize,
    /// Mebibytes of memory.
    pub memory: u64,
    /// The way in which control groups are mounted.
    pub groups: String,
}

/// The machine that this runs on.
pub fn here() -> Result<BenchMachine> {
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("cannot read {path}"));
    let kernel = read("/proc/sys/kernel/osrelease")?;
    let processor = value(&read("/proc/cpuinfo")?, "model name").unwrap_or_default();
    let memory = value(&read("/proc/meminfo")?, "MemTotal").unwrap_or_default();
    let memory = memory
        .split(' ')
        .next()
        .and_then(|kibibytes| kibibytes.parse::<u64>().ok());
    Ok(BenchMachine {
        kernel: kernel.trim().to_owned(),
        processor,
        processors: std::thread::available_parallelism()?.get(),
        memory: memory.unwrap_or_default() / 1024,
        groups: groups(&read("/proc/self/mounts")?).to_owned(),
    })
}

/// The text behind the colon of the first line that begins so.
fn value(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_once(':')
        .map(|(_, value)| value.trim().to_owned())
}

fn groups(mounts: &str) -> &'static str {
    let has = |kind: &str| {
        mounts
            .lines()
            .any(|line| line.split(' ').nth(2) == Some(kind))
    };
    match (has("cgroup2"), has("cgroup")) {
        (true, true) => "cgroups of version 2 with controllers of version 1",
        (true, false) => "cgroups of version 2",
        (false, true) => "cgroups of version 1",
        (false, false) => "no cgroups",
    }
}

impl BenchMachine {
    /// As one line of the page.
    pub fn shown(&self) -> String {
        format!(
            "Linux {}, {} × {}, {} MiB of memory, {}",
            self.kernel, self.processors, self.processor, self.memory, self.groups
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_with_their_values() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Another\n";
        assert_eq!(
            value(text, "model name").as_deref(),
            Some("Some CPU @ 2 GHz")
        );
        assert_eq!(value(text, "flags"), None);
    }

    #[test]
    fn groups_are_told_by_the_kinds_of_mounts() {
        let unified = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        let old = "cgroup /sys/fs/cgroup/memory cgroup rw 0 0\n";
        assert_eq!(groups(unified), "cgroups of version 2");
        assert!(groups(&[unified, old].concat()).ends_with("version 1"));
        assert_eq!(groups(""), "no cgroups");
    }
}
