//! Limits on reads and writes of disks per second: the disks, and the writes that
//! no control group holds back.

use std::collections::BTreeSet;
use std::path::Path;

use turnkey_policy::JailLimits;
use turnkey_policy::quantity::format_size;

use super::RootfsStep;
use crate::groups::hierarchy::{CgroupHierarchies, Controller, ControllerHome};
use crate::host::Host;
use crate::host::storage::{BlockDevice, MountedStorage, StorageBacking};

/// File systems whose delayed writes the kernel charges to the group that wrote: those that set
/// `SB_I_CGROUPWB`.
const CHARGED: &[&str] = &["btrfs", "ext2", "ext3", "ext4", "f2fs", "xfs"];

/// The limits of one run on disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskLimits {
    /// Bytes in a second from each disk; `None` is no limit.
    pub read: Option<u64>,
    /// Bytes in a second to each disk.
    pub write: Option<u64>,
    /// The whole disks behind what the jail sees.
    pub disks: BTreeSet<BlockDevice>,
    /// File systems that the jail sees and no disk of this host is known to be behind, in words.
    pub out_of_reach: Vec<String>,
    /// The reason why some writes are not held back, in words.
    pub delayed: Option<String>,
}

impl DiskLimits {
    /// For a tree of these steps; `None` when the policy sets no such limit.
    pub(super) fn new(
        limits: &JailLimits,
        steps: &[RootfsStep],
        host: &Host,
    ) -> Option<DiskLimits> {
        if !limits.limit_io() {
            return None;
        }
        let mut io = DiskLimits {
            read: limits.io_read,
            write: limits.io_write,
            disks: BTreeSet::new(),
            out_of_reach: Vec::new(),
            delayed: None,
        };
        let mut written = BTreeSet::new();
        for seen in steps.iter().filter_map(ShownPath::from_step) {
            for mount in host.storage.under(&seen.path, seen.recursive) {
                io.add(mount);
                if seen.writable && matches!(mount.backing, StorageBacking::Disks(_)) {
                    written.insert(mount.kind.as_str());
                }
            }
        }
        if io.write.is_some() {
            io.delayed = delayed(&written, &host.hierarchies);
        }
        Some(io)
    }

    fn add(&mut self, mount: &MountedStorage) {
        match &mount.backing {
            StorageBacking::Memory => {}
            StorageBacking::Disks(disks) => self.disks.extend(disks),
            StorageBacking::OutOfReach => {
                let place = format!("{} at {}", mount.kind, mount.place.display());
                if !self.out_of_reach.contains(&place) {
                    self.out_of_reach.push(place);
                }
            }
        }
    }

    /// The policy's wish.
    pub fn requested(&self) -> String {
        let part =
            |bytes: Option<u64>, what| bytes.map(|bytes| format!("{} {what}", format_size(bytes)));
        let parts = [part(self.read, "read"), part(self.write, "written")];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        format!("{} in a second and on each disk", parts.join(" and "))
    }

    /// The effect where the controller is there.
    pub fn effective(&self) -> String {
        if self.disks.is_empty() {
            return "nothing: no disk of this host is known to be behind what the jail sees".into();
        }
        let disks: Vec<_> = self.disks.iter().map(BlockDevice::to_string).collect();
        let except = self.degraded().map(|reason| format!("; {reason}"));
        let except = except.unwrap_or_default();
        format!("{}: {}{except}", self.requested(), disks.join(", "))
    }

    /// The traffic that is not held back although it should be.
    pub fn degraded(&self) -> Option<String> {
        let reasons: Vec<_> = self
            .unreached()
            .into_iter()
            .chain(self.delayed.clone())
            .collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// The traffic that no group on this host can limit, with the fix.
    pub fn unreached(&self) -> Option<String> {
        let places = self.out_of_reach.join(", ");
        (!places.is_empty()).then(|| {
            format!(
                "no disk of this host is known to be behind {places}, so nothing there is held back; \
                 keep it out of the jail, or name the layers in `enforcement.required` without `io`"
            )
        })
    }
}

/// The path of the host that a step shows.
struct ShownPath {
    path: std::path::PathBuf,
    recursive: bool,
    writable: bool,
}

impl ShownPath {
    fn from_step(step: &RootfsStep) -> Option<ShownPath> {
        let seen = |path: &Path, recursive, writable| ShownPath {
            path: path.to_owned(),
            recursive,
            writable,
        };
        Some(match step {
            RootfsStep::Bind {
                source, writable, ..
            } => seen(source, true, *writable),
            RootfsStep::RootEntry { root, .. } => seen(root, true, false),
            // What is mounted below the working directory does not show.
            RootfsStep::Overlay { source, .. } | RootfsStep::WritableDirectory { source, .. } => {
                seen(source, false, false)
            }
            _ => return None,
        })
    }
}

/// Writes through the page cache, which the kernel's own threads bring to the disk later.
fn delayed(kinds: &BTreeSet<&str>, hierarchies: &CgroupHierarchies) -> Option<String> {
    let home = |controller| hierarchies.home(controller);
    if kinds.is_empty() || *home(Controller::Io) == ControllerHome::Missing {
        return None;
    }
    if let ControllerHome::Legacy(_) = home(Controller::Io) {
        return Some(
            "control groups of version 1 do not hold back what is written through the page cache, only what \
             goes past it or is waited for; boot with version 2 alone: systemd.unified_cgroup_hierarchy=1"
                .to_owned(),
        );
    }
    if *home(Controller::Memory) != ControllerHome::Unified {
        return Some(
            "what is written through the page cache is not held back while the controller `memory` is in a \
             hierarchy of version 1; boot with version 2 alone: systemd.unified_cgroup_hierarchy=1"
                .to_owned(),
        );
    }
    let others: Vec<_> = kinds
        .iter()
        .filter(|kind| !CHARGED.contains(kind))
        .collect();
    (!others.is_empty()).then(|| {
        let others: Vec<_> = others.into_iter().map(|kind| (*kind).to_owned()).collect();
        format!(
            "what is written through the page cache of {} is not held back: this file system does not tell \
             the kernel who wrote; write to ext4, xfs or btrfs",
            others.join(", ")
        )
    })
}
