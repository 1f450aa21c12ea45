//! The v2 group that this process itself is in.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::groups::hierarchy::{CgroupMount, Controller, parse_memberships, reachable};
use crate::kernel_file;

/// The group of this process in the v2 hierarchy.
#[derive(Clone, Debug)]
pub struct OwnGroup {
    root: PathBuf,
    directory: PathBuf,
}

impl OwnGroup {
    /// Finds it in /proc/self; `None` without a v2 hierarchy.
    pub fn find() -> Option<OwnGroup> {
        let mounts = reachable(&kernel_file::read("/proc/self/mountinfo").ok()?);
        let memberships = parse_memberships(&kernel_file::read("/proc/self/cgroup").ok()?);
        let own = memberships
            .iter()
            .find(|membership| membership.controllers.is_empty())?;
        let mount = mounts
            .into_iter()
            .find(|mount: &CgroupMount| mount.unified)?;
        Some(OwnGroup {
            directory: mount.below(&own.path),
            root: mount.directory,
        })
    }

    /// The group's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The group and every group above it.
    pub fn upwards(&self) -> impl Iterator<Item = &Path> {
        let above = self.directory.ancestors();
        above.take_while(|directory| directory.starts_with(&self.root))
    }

    /// True when memory is counted in this hierarchy, and not in one of v1.
    pub fn offers_memory(&self) -> bool {
        has(&self.root.join("cgroup.controllers"), Controller::Memory)
    }

    /// Moves this process, alone in its group, into a leaf below, and lets the group have limited
    /// children: cgroups(7), "no internal processes".
    ///
    /// # Errors
    /// When the group is not this process's to change.
    pub fn settle(&self) -> io::Result<()> {
        let leaf = self.directory.join("supervisor");
        fs::create_dir(&leaf)?;
        fs::write(leaf.join("cgroup.procs"), std::process::id().to_string())?;
        let enabled = self.directory.join("cgroup.subtree_control");
        for controller in Controller::ALL {
            if has(&self.directory.join("cgroup.controllers"), controller) {
                fs::write(&enabled, format!("+{}", controller.name()))?;
            }
        }
        Ok(())
    }
}

fn has(file: &Path, controller: Controller) -> bool {
    let list = kernel_file::read(file).unwrap_or_default();
    list.split_whitespace()
        .any(|name| name == controller.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_and_is_below_its_root() {
        let own = OwnGroup::find().unwrap();
        assert!(own.directory().join("cgroup.procs").is_file());
        assert_eq!(own.upwards().last(), Some(own.root.as_path()));
    }
}
