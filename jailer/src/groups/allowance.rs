//! The limits that hold for another process by the control groups it is in, and by those above them.
//!
//! A jail that is made for somebody else lies in other groups than that one does, so the kernel does not hold it to these limits: it gets no more
//! than each of them by itself.

use std::io;
use std::path::{Path, PathBuf};

use crate::groups::hierarchy::{CgroupMembership, CgroupMount, parse_memberships, reachable};
use crate::kernel_file;
use crate::mountinfo;

/// A limit, and the file that sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCeiling {
    /// The value, in the unit of the limit.
    pub value: u64,
    /// The file of the group.
    pub file: PathBuf,
}

/// The smallest limit of each kind; `None` where no group sets one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupAllowance {
    /// Memory, bytes.
    pub memory: Option<GroupCeiling>,
    /// Swap, bytes: v2.
    pub swap: Option<GroupCeiling>,
    /// Memory and swap together, bytes: v1.
    pub memory_and_swap: Option<GroupCeiling>,
    /// Tasks.
    pub pids: Option<GroupCeiling>,
    /// CPUs, in percent of one.
    pub cpu: Option<GroupCeiling>,
}

impl GroupAllowance {
    /// Reads the groups of a process that is in this one's control group namespace.
    ///
    /// # Errors
    /// When /proc or a group does not tell, or a group lies where this process cannot see it.
    pub fn read(pid: u32) -> io::Result<GroupAllowance> {
        let mounts = reachable(&kernel_file::read("/proc/self/mountinfo")?);
        let text = kernel_file::read(format!("/proc/{pid}/cgroup"))?;
        let mut allowance = GroupAllowance::default();
        for membership in parse_memberships(&text) {
            if membership.path.starts_with("/..") {
                let what = format!("its control group {} is out of sight", membership.path);
                return Err(io::Error::other(what));
            }
            if let Some(mount) = mount_of(&membership, &mounts) {
                allowance.lower_by(mount, &mount.below(&membership.path))?;
            }
        }
        Ok(allowance)
    }

    /// Takes the limits of a group and of those above it.
    fn lower_by(&mut self, mount: &CgroupMount, group: &Path) -> io::Result<()> {
        let up = group.ancestors();
        for directory in up.take_while(|directory| directory.starts_with(&mount.directory)) {
            let set = |file, parse| set_in(directory, file, parse);
            if mount.unified {
                keep_least(&mut self.memory, set("memory.max", number)?);
                keep_least(&mut self.swap, set("memory.swap.max", number)?);
                keep_least(&mut self.cpu, set("cpu.max", share)?);
            } else {
                keep_least(&mut self.memory, set("memory.limit_in_bytes", number)?);
                let both = set("memory.memsw.limit_in_bytes", number)?;
                keep_least(&mut self.memory_and_swap, both);
                let quota = set("cpu.cfs_quota_us", number)?;
                let period = set("cpu.cfs_period_us", number)?.map(|period| period.value);
                let percent = |quota: GroupCeiling| GroupCeiling {
                    value: in_percent(quota.value, period.unwrap_or(PERIOD)),
                    ..quota
                };
                keep_least(&mut self.cpu, quota.map(percent));
            }
            keep_least(&mut self.pids, set("pids.max", number)?);
        }
        Ok(())
    }
}

/// The kernel's own period of shares of CPU time, microseconds.
const PERIOD: u64 = 100_000;

fn mount_of<'m>(
    membership: &CgroupMembership,
    mounts: &'m [CgroupMount],
) -> Option<&'m CgroupMount> {
    mounts
        .iter()
        .find(|mount| match membership.controllers.first() {
            None => mount.unified,
            Some(held) => !mount.unified && mountinfo::has_option(&mount.options, held),
        })
}

/// The limit that a file of a group sets; `None` without a limit, or where a group has no such file.
fn set_in(
    directory: &Path,
    file: &str,
    parse: fn(&str) -> Option<u64>,
) -> io::Result<Option<GroupCeiling>> {
    let file = directory.join(file);
    let text = match kernel_file::read(&file) {
        Ok(text) => text,
        // The first group of all sets none, nor does one without the controller, nor one that is gone.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(parse(text.trim()).map(|value| GroupCeiling { value, file }))
}

/// A number; `max` and -1 are none.
fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// `QUOTA PERIOD` in percent.
fn share(text: &str) -> Option<u64> {
    let (quota, period) = text.split_once(' ')?;
    Some(in_percent(quota.parse().ok()?, period.parse().ok()?))
}

fn in_percent(quota: u64, period: u64) -> u64 {
    // A group that has less than a hundredth still has some.
    (quota.saturating_mul(100) / period.max(1)).max(1)
}

fn keep_least(known: &mut Option<GroupCeiling>, set: Option<GroupCeiling>) {
    let is_less = |set: &GroupCeiling| known.as_ref().is_none_or(|known| set.value < known.value);
    if let Some(set) = set.filter(is_less) {
        *known = Some(set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::hierarchy::parse_mounts;

    fn mount(place: &Path, kind: &str, options: &str) -> CgroupMount {
        let place = place.display();
        let line = format!("26 25 0:23 / {place} rw - {kind} {kind} rw,{options}\n");
        parse_mounts(&line).remove(0)
    }

    /// Groups, the lowest one last, each with files.
    fn groups(files: &[(&str, &str)]) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let file = place.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        place
    }

    fn lowered(place: &Path, mount: &CgroupMount) -> GroupAllowance {
        let mut allowance = GroupAllowance::default();
        let group = place.join("one/two");
        allowance.lower_by(mount, &group).unwrap();
        allowance
    }

    fn value(ceiling: Option<GroupCeiling>) -> Option<u64> {
        ceiling.map(|ceiling| ceiling.value)
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_holds() {
        let place = groups(&[
            ("memory.max", "1\n"),
            ("one/memory.max", "1000\n"),
            ("one/memory.swap.max", "max\n"),
            ("one/pids.max", "max\n"),
            ("one/cpu.max", "max 100000\n"),
            ("one/two/memory.max", "2000\n"),
            ("one/two/pids.max", "7\n"),
            ("one/two/cpu.max", "25000 50000\n"),
        ]);
        let mount = mount(place.path(), "cgroup2", "");
        let allowance = lowered(place.path(), &mount);
        // The mounted root is a group like any other where it is a container's.
        assert_eq!(value(allowance.memory.clone()), Some(1));
        std::fs::remove_file(place.path().join("memory.max")).unwrap();
        let allowance = lowered(place.path(), &mount);
        let of_one = place.path().join("one/memory.max");
        assert_eq!(
            allowance.memory,
            Some(GroupCeiling {
                value: 1000,
                file: of_one
            })
        );
        assert_eq!(value(allowance.swap), None);
        assert_eq!(value(allowance.pids), Some(7));
        assert_eq!(value(allowance.cpu), Some(50));
    }

    #[test]
    fn v1_has_other_files_for_the_same() {
        let place = groups(&[
            ("one/memory.limit_in_bytes", "1000\n"),
            ("one/memory.memsw.limit_in_bytes", "1500\n"),
            ("one/cpu.cfs_quota_us", "-1\n"),
            ("one/cpu.cfs_period_us", "100000\n"),
            ("one/two/cpu.cfs_quota_us", "50\n"),
            ("one/two/cpu.cfs_period_us", "100000\n"),
        ]);
        let allowance = lowered(place.path(), &mount(place.path(), "cgroup", "memory"));
        assert_eq!(value(allowance.memory), Some(1000));
        assert_eq!(value(allowance.memory_and_swap), Some(1500));
        assert_eq!(value(allowance.cpu), Some(1));
        assert_eq!(value(allowance.pids), None);
    }

    #[test]
    fn own_groups_are_read() {
        GroupAllowance::read(std::process::id()).unwrap();
        assert!(GroupAllowance::read(u32::MAX).is_err());
    }
}
