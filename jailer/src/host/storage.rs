//! The storage behind the file systems of this host: disks, memory, or something unknown.
//!
//! A limit on bytes per second is one on a whole disk, so a partition stands for the disk it is on.
#![expect(
    clippy::disallowed_methods,
    reason = "of /proc and /sys, which nobody turns"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};

use crate::mountinfo::{self, MountinfoLine};

/// File systems that no disk is behind.
const NO_DISK: &[&str] = &[
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "ramfs",
    "rootfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tmpfs",
    "tracefs",
];

/// The depth to which overlays on overlays are followed.
const DEEPEST: usize = 8;

/// The number of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockDevice {
    /// The number of the driver.
    pub major: u64,
    /// The number of the device among the driver's.
    pub minor: u64,
}

impl fmt::Display for BlockDevice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.major, self.minor)
    }
}

impl From<(u32, u32)> for BlockDevice {
    fn from((major, minor): (u32, u32)) -> Self {
        Self {
            major: major.into(),
            minor: minor.into(),
        }
    }
}

/// The storage behind a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageBacking {
    /// Memory, or the kernel itself.
    Memory,
    /// Whole disks.
    Disks(BTreeSet<BlockDevice>),
    /// A server, another process, or a disk that cannot be told from here.
    OutOfReach,
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedStorage {
    /// The place.
    pub place: PathBuf,
    /// The type of its file system.
    pub kind: String,
    /// The storage behind it.
    pub backing: StorageBacking,
}

/// Every mount that this process sees, in the order they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostStorage {
    /// The mounts.
    pub mounts: Vec<MountedStorage>,
    /// The canonical form of paths; one that is not here is its own.
    pub canonical: BTreeMap<PathBuf, PathBuf>,
}

impl HostStorage {
    /// Looks at the mounts of this process, and at where `paths` lead.
    ///
    /// # Errors
    /// When /proc does not tell.
    pub fn probe<'a>(paths: impl Iterator<Item = &'a Path>) -> std::io::Result<HostStorage> {
        let lines: Vec<_> = mountinfo::lines(&fs::read("/proc/self/mountinfo")?).collect();
        let mount = |line: &MountinfoLine| MountedStorage {
            place: line.place.clone(),
            kind: line.kind.clone(),
            backing: backing(line, &lines, 0),
        };
        let canonical = paths.filter_map(|path| Some((path.to_owned(), path.canonicalize().ok()?)));
        Ok(HostStorage {
            mounts: lines.iter().map(mount).collect(),
            canonical: canonical.collect(),
        })
    }

    /// The mount that `path` lies in and, when `recursive`, those below it.
    pub fn under(&self, path: &Path, recursive: bool) -> Vec<&MountedStorage> {
        let path = self.canonical.get(path).map_or(path, PathBuf::as_path);
        let covering = covering(self.mounts.iter(), path, |mount| &mount.place);
        let below = self.mounts.iter();
        let below = below.filter(|mount| mount.place.starts_with(path) && mount.place != path);
        covering
            .into_iter()
            .chain(below.filter(|_| recursive))
            .collect()
    }
}

/// The mount points below a canonical directory, in the order of their paths; none when /proc does not tell.
pub fn mounts_below(directory: &Path) -> Vec<PathBuf> {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let places = mountinfo::lines(&text).map(|mount| mount.place);
    let below = places.filter(|place| place.starts_with(directory) && place != directory);
    let mut below: Vec<PathBuf> = below.collect();
    below.sort_unstable();
    below.dedup();
    below
}

/// The last of the innermost.
fn covering<'a, T>(
    mounts: impl Iterator<Item = &'a T>,
    path: &Path,
    place: impl Fn(&T) -> &PathBuf,
) -> Option<&'a T> {
    mounts
        .filter(|mount| path.starts_with(place(mount)))
        .max_by_key(|mount| place(mount).components().count())
}

/// `254:0`
fn number(text: &str) -> Option<BlockDevice> {
    mountinfo::device_number(text).map(BlockDevice::from)
}

fn backing(line: &MountinfoLine, all: &[MountinfoLine], depth: usize) -> StorageBacking {
    let kind = line.kind.as_str();
    if NO_DISK.contains(&kind) {
        return StorageBacking::Memory;
    }
    if kind.starts_with("fuse.") || kind == "fuse" || kind == "fuseblk" || depth > DEEPEST {
        // Another process reads for the jail.
        return StorageBacking::OutOfReach;
    }
    if kind == "overlay" {
        return layers(&line.super_options, all, depth);
    }
    let disks = if line.device.0 == 0 {
        named_disks(&line.source)
    } else {
        whole_disk(line.device.into()).map(|disk| BTreeSet::from([disk]))
    };
    disks.map_or(StorageBacking::OutOfReach, StorageBacking::Disks)
}

/// The storage of the directories of an overlay. In a container they are the host's, and not there.
fn layers(options: &[u8], all: &[MountinfoLine], depth: usize) -> StorageBacking {
    let mut disks = BTreeSet::new();
    let mut any = false;
    for path in layer_paths(options) {
        any = true;
        let Ok(path) = path.canonicalize() else {
            return StorageBacking::OutOfReach;
        };
        let Some(line) = covering(all.iter(), &path, |line| &line.place) else {
            return StorageBacking::OutOfReach;
        };
        match backing(line, all, depth + 1) {
            StorageBacking::Memory => {}
            StorageBacking::Disks(more) => disks.extend(more),
            StorageBacking::OutOfReach => return StorageBacking::OutOfReach,
        }
    }
    match (any, disks.is_empty()) {
        (false, _) => StorageBacking::OutOfReach,
        (true, true) => StorageBacking::Memory,
        (true, false) => StorageBacking::Disks(disks),
    }
}

/// A name with a comma or a colon in it is cut, leads nowhere, and so is out of reach.
fn layer_paths(options: &[u8]) -> Vec<PathBuf> {
    let options = options.split(|byte| *byte == b',');
    let named = options.filter_map(|option| {
        let at = option.iter().position(|byte| *byte == b'=')?;
        let name = &option[..at];
        let is_layer = [&b"lowerdir"[..], b"lowerdir+", b"datadir+", b"upperdir"].contains(&name);
        is_layer.then_some(&option[at + 1..])
    });
    named
        .flat_map(|paths| paths.split(|byte| *byte == b':'))
        .filter(|path| !path.is_empty())
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .collect()
}

/// The disks of a file system without a device of its own, as its source names them: btrfs, and
/// others that span several.
fn named_disks(source: &Path) -> Option<BTreeSet<BlockDevice>> {
    let names = source.as_os_str().as_bytes().split(|byte| *byte == b':');
    let mut devices = BTreeSet::new();
    for name in names {
        let metadata = fs::metadata(OsStr::from_bytes(name)).ok()?;
        if !metadata.file_type().is_block_device() {
            return None;
        }
        devices.insert(BlockDevice {
            major: major(metadata.rdev()),
            minor: minor(metadata.rdev()),
        });
    }
    devices.extend(companions(&devices));
    devices.into_iter().map(whole_disk).collect()
}

/// The other devices of the same btrfs, of which a mount names one.
fn companions(known: &BTreeSet<BlockDevice>) -> BTreeSet<BlockDevice> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let file_systems = entries(Path::new("/sys/fs/btrfs"));
    let pools = file_systems.map(|file_system| {
        let devices = entries(&file_system.path().join("devices"));
        let numbers = devices
            .filter_map(|device| number(&fs::read_to_string(device.path().join("dev")).ok()?));
        numbers.collect::<BTreeSet<_>>()
    });
    pools
        .filter(|pool| !pool.is_disjoint(known))
        .flatten()
        .collect()
}

/// The disk that a partition is on, or the device itself: sysfs(5).
fn whole_disk(device: BlockDevice) -> Option<BlockDevice> {
    let place = fs::canonicalize(format!("/sys/dev/block/{device}")).ok()?;
    if !place.join("partition").exists() {
        return Some(device);
    }
    number(&fs::read_to_string(place.parent()?.join("dev")).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,discard
30 27 0:40 / /srv/a\\040b rw - nfs server:/export rw,vers=4
31 27 8:16 / /srv rw - ext4 /dev/sdb rw
";

    #[test]
    fn a_server_is_out_of_reach_and_proc_is_no_disk() {
        let lines: Vec<_> = mountinfo::lines(MOUNTS).collect();
        assert_eq!(backing(&lines[0], &lines, 0), StorageBacking::Memory);
        assert_eq!(backing(&lines[2], &lines, 0), StorageBacking::OutOfReach);
    }

    #[test]
    fn what_is_mounted_below_belongs_to_a_view_of_all() {
        let mounts = mountinfo::lines(MOUNTS).map(|line| MountedStorage {
            place: line.place,
            kind: line.kind,
            backing: StorageBacking::Memory,
        });
        let storage = HostStorage {
            mounts: mounts.collect(),
            canonical: BTreeMap::from([("/link".into(), "/srv/x".into())]),
        };
        let kinds = |path: &str, recursive| {
            let mounts = storage.under(Path::new(path), recursive);
            let places = mounts.iter().map(|mount| mount.place.to_string_lossy());
            places.map(|place| place.into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(kinds("/usr", true), ["/"]);
        assert_eq!(kinds("/srv", true), ["/srv", "/srv/a b"]);
        assert_eq!(kinds("/srv", false), ["/srv"]);
        assert_eq!(kinds("/link", true), ["/srv"]);
    }

    #[test]
    fn an_overlay_lies_where_its_directories_do() {
        let paths = layer_paths(b"rw,lowerdir=/a:/b,lowerdir+=/c,upperdir=/d,workdir=/w");
        assert_eq!(paths, ["/a", "/b", "/c", "/d"].map(PathBuf::from));
        let lines: Vec<_> = mountinfo::lines(MOUNTS).collect();
        let gone = layers(b"rw,lowerdir=/nonexistent/layer", &lines, 0);
        assert_eq!(gone, StorageBacking::OutOfReach);
    }

    #[test]
    fn every_disk_of_this_host_is_a_whole_one() {
        let storage = HostStorage::probe(std::iter::empty()).unwrap();
        for mount in &storage.mounts {
            let StorageBacking::Disks(disks) = &mount.backing else {
                continue;
            };
            for disk in disks {
                let place = PathBuf::from(format!("/sys/dev/block/{disk}"));
                assert!(place.join("queue").exists(), "{mount:?}");
                assert!(!place.join("partition").exists(), "{mount:?}");
            }
        }
    }
}
