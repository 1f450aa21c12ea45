//! The kernel's own part of a jail's time: `floor.c` makes its objects, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::stage::BenchStage;
use crate::command;

/// As it is called on the page.
pub const FLOOR: &str = "the same kernel objects, without turnkey";
/// The same with what a watcher holds of programs that are loaded.
pub const WATCHED: &str = "the same kernel objects and the monitor's, without turnkey";

const SOURCE: &str = include_str!("floor.c");
/// The beginning of its groups' names.
const PREFIX: &str = "turnkey-floor-";
const GROUPS: &str = "/sys/fs/cgroup";
/// The folder where `turnkey monitor load` leaves the programs.
const PINS: &str = "/sys/fs/bpf/turnkey";
/// Of version 1, where version 2 does not have them.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// The program, and the groups that its jails are in. What it leaves behind leaves with this.
pub struct Floor {
    program: PathBuf,
    workdir: PathBuf,
    groups: Vec<PathBuf>,
}

impl Floor {
    /// Builds it.
    pub fn new(stage: &BenchStage) -> Result<Floor> {
        let (source, program) = (stage.path("floor.c"), stage.path("floor"));
        stage.write(&source, SOURCE)?;
        let mut compiler = Command::new("cc");
        compiler
            .args(["-O2", "-Wall", "-o"])
            .args([&program, &source]);
        command::check(&mut compiler)?;
        let own = fs::read_to_string("/proc/self/cgroup").context("cannot tell the own groups")?;
        Ok(Floor {
            program,
            workdir: stage.workdir(),
            groups: groups(&own, |path| path.is_dir()),
        })
    }

    /// The words of the command for a jail with that program, which nobody watches.
    pub fn words(&self, program: &[&str]) -> Vec<String> {
        self.words_with(Path::new("-"), program)
    }

    /// The same, watched by the programs that are loaded.
    pub fn watched_words(&self, program: &[&str]) -> Vec<String> {
        self.words_with(Path::new(PINS), program)
    }

    fn words_with(&self, pins: &Path, program: &[&str]) -> Vec<String> {
        let groups = self.groups.iter().map(PathBuf::as_path);
        let front = [&*self.program, pins, &*self.workdir];
        let front = front.into_iter().chain(groups);
        let front = front.map(|path| path.to_string_lossy().into_owned());
        let words = program.iter().map(ToString::to_string);
        front.chain(["--".to_owned()]).chain(words).collect()
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let entries = self
            .groups
            .iter()
            .filter_map(|group| fs::read_dir(group).ok());
        for entry in entries.flatten().filter_map(Result::ok) {
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                // One that did not end as it should: there is nobody to tell.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

/// The directories of the groups that a jail is made in: of version 2 first, then the controllers that are of
/// version 1. `own` is /proc/self/cgroup.
fn groups(own: &str, is_there: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let of = |controller: &str| {
        let mut lines = own.lines().map(|line| line.splitn(3, ':'));
        lines.find_map(|mut line| {
            let (_, names, path) = (line.next()?, line.next()?, line.next()?);
            names
                .split(',')
                .any(|name| name == controller)
                .then_some(path)
        })
    };
    let below = |hierarchy: &str, path: &str| {
        Path::new(GROUPS)
            .join(hierarchy)
            .join(path.trim_start_matches('/'))
    };
    let unified = of("").unwrap_or_default();
    let hybrid = below("unified", unified);
    let first = if is_there(&hybrid) {
        hybrid
    } else {
        below("", unified)
    };
    let others = CONTROLLERS.into_iter();
    let others = others.filter_map(|name| Some(below(name, of(name)?)));
    std::iter::once(first).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_below_our_own_in_every_hierarchy() {
        let own = "4:memory:/some/place\n3:cpu,cpuacct:/\n2:freezer:/\n1:name=systemd:/x\n0::/y\n";
        let expected =
            ["unified/y", "memory/some/place", "cpu"].map(|path| Path::new(GROUPS).join(path));
        assert_eq!(groups(own, |_| true), expected);
        assert_eq!(
            groups("0::/mine\n", |_| false),
            [Path::new(GROUPS).join("mine")]
        );
    }
}
