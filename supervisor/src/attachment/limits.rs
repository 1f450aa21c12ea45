//! Limits that the caller asks for on a group of others. They are taken back when the group is let go; without a request nothing is
//! written.

use std::fs::File;
use std::io::{self, Read, Write};

use anyhow::Context;
use nix::errno::Errno;
use turnkey_report::GroupSetting;

use super::group::ForeignGroup;

/// The period of a share of CPU time, microseconds: the kernel's default.
const CPU_PERIOD: f64 = 100_000.0;

/// Less of a period is refused by the kernel: 1 ms (`min_cfs_quota_period` in kernel/sched/core.c).
const LEAST_QUOTA: f64 = 1_000.0;

/// The limits that are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupLimits {
    /// Bytes, `memory.max`.
    pub memory: Option<u64>,
    /// Processes and threads, `pids.max`.
    pub pids: Option<u32>,
    /// CPUs, `cpu.max`: 1.5 is one and a half.
    pub cpus: Option<f64>,
}

impl GroupLimits {
    /// True when no file is to be written.
    pub fn is_empty(self) -> bool {
        self.settings().next().is_none()
    }

    /// The controllers, each with its file and the text for it.
    fn settings(self) -> impl Iterator<Item = (&'static str, &'static str, String)> {
        let quota = self.cpus.map(|cpus| (cpus * CPU_PERIOD).max(LEAST_QUOTA));
        let settings = [
            (
                "memory",
                "memory.max",
                self.memory.map(|max| max.to_string()),
            ),
            ("pids", "pids.max", self.pids.map(|max| max.to_string())),
            (
                "cpu",
                "cpu.max",
                quota.map(|quota| format!("{quota:.0} {CPU_PERIOD:.0}")),
            ),
        ];
        let asked = settings.into_iter();
        asked.filter_map(|(controller, file, value)| Some((controller, file, value?)))
    }
}

/// Limits on a group, as planned or in force. Dropping it takes back what is in force.
#[derive(Debug)]
pub struct LimitedGroup<'g> {
    group: &'g ForeignGroup,
    planned: Vec<GroupSetting>,
    /// The files that were written, each with what it holds since.
    written: Vec<(&'static str, String)>,
    files: Vec<&'static str>,
}

impl<'g> LimitedGroup<'g> {
    /// Reads what is there. Nothing is written yet.
    ///
    /// # Errors
    /// When a controller is not in force for the group; with the fix.
    pub fn plan(group: &'g ForeignGroup, limits: GroupLimits) -> anyhow::Result<LimitedGroup<'g>> {
        let mut planned = Vec::new();
        let mut files = Vec::new();
        for (controller, file, value) in limits.settings() {
            let Some(before) = read(group, file)? else {
                return Err(not_in_force(group, controller, file));
            };
            files.push(file);
            planned.push(GroupSetting {
                file: file.to_owned(),
                value,
                before,
            });
        }
        Ok(LimitedGroup {
            group,
            planned,
            written: Vec::new(),
            files,
        })
    }

    /// The settings, for the report.
    pub fn settings(&self) -> &[GroupSetting] {
        &self.planned
    }

    /// Writes them, and reads each back: the kernel rounds.
    ///
    /// # Errors
    /// When the kernel refuses one; those before it are taken back with the drop.
    pub fn enforce(&mut self) -> anyhow::Result<()> {
        for (setting, file) in self.planned.iter_mut().zip(&self.files) {
            let place = || format!("{} of {}", file, self.group.name().display());
            write(self.group, file, &setting.value)
                .with_context(|| format!("the kernel takes no {} in {}", setting.value, place()))?;
            // From here on it is there to be taken back, whatever it reads as.
            self.written.push((file, setting.value.clone()));
            let now = read(self.group, file)?;
            setting.value = now.with_context(|| format!("{} was removed meanwhile", place()))?;
            if let Some((_, holds)) = self.written.last_mut() {
                holds.clone_from(&setting.value);
            }
        }
        Ok(())
    }
}

impl Drop for LimitedGroup<'_> {
    fn drop(&mut self) {
        for (file, holds) in self.written.iter().rev() {
            let before = self.planned.iter().find(|setting| setting.file == *file);
            // What somebody else has written meanwhile is theirs.
            let is_ours = read(self.group, file).is_ok_and(|now| now.as_ref() == Some(holds));
            if let Some(before) = before.filter(|_| is_ours) {
                // A group that is gone has no limits.
                let _ = write(self.group, file, &before.before);
            }
        }
    }
}

/// The text of a file of the group; `None` when there is no such file.
fn read(group: &ForeignGroup, file: &str) -> io::Result<Option<String>> {
    let mut opened = match group.open(file) {
        Err(Errno::ENOENT | Errno::ENODEV) => return Ok(None),
        opened => opened?,
    };
    let mut text = String::new();
    opened.read_to_string(&mut text)?;
    Ok(Some(text.trim_end().to_owned()))
}

fn write(group: &ForeignGroup, file: &str, value: &str) -> io::Result<()> {
    let mut opened: File = group.open_to_write(file)?;
    opened.write_all(value.as_bytes())
}

/// The reason why a group has no such file, and the fix.
fn not_in_force(group: &ForeignGroup, controller: &str, file: &str) -> anyhow::Error {
    let name = group.name().display();
    let on_host = hosts_controllers();
    match on_host
        .split_ascii_whitespace()
        .any(|one| one == controller)
    {
        true => anyhow::anyhow!(
            "{name} has no {file}: the controller `{controller}` is not enabled for it; write `+{controller}` to \
             cgroup.subtree_control of each group above it, from the root on, or leave the limit away"
        ),
        false => anyhow::anyhow!(
            "{name} has no {file}: the controller `{controller}` is not in the cgroup v2 hierarchy of this host, but in one of \
             cgroup v1 or not in the kernel; boot with systemd.unified_cgroup_hierarchy=1, or leave the limit away"
        ),
    }
}

/// The text of the root's `cgroup.controllers`.
#[expect(clippy::disallowed_methods, reason = "of the cgroup hierarchy")]
fn hosts_controllers() -> String {
    let root = turnkey_monitor::hierarchy();
    let text = root.map(|root| std::fs::read_to_string(root.join("cgroup.controllers")));
    text.and_then(Result::ok).unwrap_or_default()
}

/// A number of CPUs, as `--cpus` takes it.
///
/// # Errors
/// When it is none that a group can be held to; in words for people.
pub fn cpus(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(cpus) if (0.01..=100_000.0).contains(&cpus) => Ok(cpus),
        _ => Err("no number of CPUs: write one from 0.01 on, such as 1.5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_texts_of_the_kernels_files() {
        let limits = GroupLimits {
            memory: Some(64 << 20),
            pids: Some(20),
            cpus: Some(1.5),
        };
        let texts: Vec<_> = limits
            .settings()
            .map(|(_, file, value)| (file, value))
            .collect();
        let expected = [
            ("memory.max", "67108864"),
            ("pids.max", "20"),
            ("cpu.max", "150000 100000"),
        ];
        assert_eq!(
            texts,
            expected.map(|(file, value)| (file, value.to_owned()))
        );
        assert!(GroupLimits::default().is_empty());
    }

    #[test]
    fn shares_that_no_group_can_have_are_refused() {
        for text in ["0", "-1", "nan", "inf", "0.001", "two", ""] {
            assert!(cpus(text).is_err(), "{text}");
        }
        assert_eq!(cpus("0.5"), Ok(0.5));
    }
}
