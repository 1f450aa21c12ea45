//! The commands that mount control groups where they are not mounted: in a bare chroot, or a machine without an init.
//!
//! A hierarchy of v1 that exists has to be mounted with the controllers that it has, proc_pid_cgroup(5), wherever it is
//! mounted besides; cgroups(7).

use std::path::Path;

use super::{CgroupMembership, CgroupMount, Controller};
use crate::mountinfo;

/// The empty directory that the kernel has for control groups.
const PLACE: &str = "/sys/fs/cgroup";

/// The commands that mount everything, where no v2 hierarchy is mounted.
pub(super) fn unified(mounts: &[CgroupMount], memberships: &[CgroupMembership]) -> String {
    all(mounts, memberships, Path::new(PLACE).is_dir())
}

fn all(mounts: &[CgroupMount], memberships: &[CgroupMembership], has_place: bool) -> String {
    let mut commands = Vec::new();
    if !has_place {
        commands.push("mount -t sysfs sysfs /sys".to_owned());
    }
    let missing = unmounted(mounts, memberships);
    let stands_beside_others = mounts.iter().any(|mount| !mount.unified);
    if missing.is_empty() && !stands_beside_others {
        commands.push(format!("mount -t cgroup2 none {PLACE}"));
        return commands.join(" && ");
    }
    if !stands_beside_others {
        commands.push(format!("mount -t tmpfs none {PLACE}"));
    }
    commands.push(format!(
        "mkdir -p {PLACE}/unified && mount -t cgroup2 none {PLACE}/unified"
    ));
    commands.extend(each(PLACE, &missing));
    commands.join(" && ")
}

/// A sentence that hierarchies of v1 are missing beside a mounted v2, and what mounts them; `None` where none is.
pub(super) fn legacy(mounts: &[CgroupMount], memberships: &[CgroupMembership]) -> Option<String> {
    let missing = unmounted(mounts, memberships);
    // The root of v2 takes no directory that is not a group.
    let is_place = |mount: &CgroupMount| mount.unified && mount.directory == Path::new(PLACE);
    let place = match mounts.iter().any(is_place) {
        true => "/run/cgroup",
        false => PLACE,
    };
    let commands = each(place, &missing)?;
    Some(format!(
        "its hierarchy, of version 1, cannot be reached here; as root, mount it: {commands}"
    ))
}

fn each(place: &str, names: &[String]) -> Option<String> {
    let names = names.join(" ");
    (!names.is_empty()).then(|| {
        format!(
            "for c in {names}; do mkdir -p {place}/$c && mount -t cgroup -o $c none {place}/$c; done"
        )
    })
}

/// The controllers of each such hierarchy, as its mount options name them.
fn unmounted(mounts: &[CgroupMount], memberships: &[CgroupMembership]) -> Vec<String> {
    let of_jails = Controller::ALWAYS.map(Controller::legacy_name);
    let needed = memberships.iter().filter(|membership| {
        let mut held = membership.controllers.iter();
        held.any(|name| of_jails.contains(&name.as_str()))
    });
    let is_mounted = |membership: &&CgroupMembership| {
        mounts.iter().any(|mount| {
            let has = |name: &String| mountinfo::has_option(&mount.options, name);
            !mount.unified && membership.controllers.iter().all(has)
        })
    };
    needed
        .filter(|membership| !is_mounted(membership))
        .map(|membership| membership.controllers.join(","))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::hierarchy::{parse_memberships, parse_mounts};

    const V2_ALONE: &str = "0::/user.slice\n";
    const HYBRID: &str = "4:memory:/service\n3:pids:/\n2:cpu,cpuacct:/\n1:name=systemd:/\n0::/\n";
    const MEMORY: &str = "30 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    const UNIFIED: &str = "34 25 0:31 / /sys/fs/cgroup rw - cgroup2 none rw\n";

    fn commands(mounts: &str, memberships: &str, has_place: bool) -> String {
        all(
            &parse_mounts(mounts),
            &parse_memberships(memberships),
            has_place,
        )
    }

    #[test]
    fn one_hierarchy_goes_where_the_kernel_has_a_place_for_it() {
        assert_eq!(
            commands("", V2_ALONE, true),
            "mount -t cgroup2 none /sys/fs/cgroup"
        );
        assert_eq!(
            commands("", V2_ALONE, false),
            "mount -t sysfs sysfs /sys && mount -t cgroup2 none /sys/fs/cgroup"
        );
    }

    #[test]
    fn hierarchies_of_both_versions_stand_beside_each_other() {
        let told = commands("", HYBRID, true);
        let mut commands = told.split(" && ");
        assert_eq!(commands.next(), Some("mount -t tmpfs none /sys/fs/cgroup"));
        for command in [
            "mount -t cgroup2 none /sys/fs/cgroup/unified",
            "for c in memory pids cpu,cpuacct; do mkdir -p /sys/fs/cgroup/$c && \
             mount -t cgroup -o $c none /sys/fs/cgroup/$c; done",
        ] {
            assert!(told.contains(command), "{command}: {told}");
        }
        assert!(!told.contains("systemd"), "{told}");
    }

    #[test]
    fn what_is_mounted_stays_as_it_is() {
        let told = commands(MEMORY, HYBRID, true);
        assert!(
            !told.contains("tmpfs") && told.contains("in pids cpu,cpuacct;"),
            "{told}"
        );
        let told = legacy(&parse_mounts(UNIFIED), &parse_memberships(HYBRID));
        let told = told.unwrap_or_default();
        assert!(
            told.contains("for c in memory pids cpu,cpuacct; do mkdir -p /run/cgroup/$c"),
            "{told}"
        );
        let none = legacy(&parse_mounts(UNIFIED), &parse_memberships(V2_ALONE));
        assert_eq!(none, None);
    }
}
