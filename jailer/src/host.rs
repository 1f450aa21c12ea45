//! Facts about this host: gathered once, so that planning is pure.

pub(crate) mod fix;
pub(crate) mod kernel;
pub mod storage;
pub mod trial;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use turnkey_policy::{Layer, NetworkMode, Policy, is_reserved};

use crate::groups::hierarchy::{CgroupHierarchies, Controller, HierarchyError};
use crate::host::storage::HostStorage;
use crate::ids::NamespaceIds;
use crate::ids::ceilings::{self, UcountCeiling};
use crate::ids::identity::NAME_SERVICES;
use crate::kernel_file;
use crate::process::rlimits::HardLimits;
use crate::rootfs::paths::{self, PathError};
use crate::rootfs::root::{self, RootError, RootFacts};

/// Facts about the host that a plan depends on.
#[derive(Clone, Debug)]
pub struct Host {
    /// The paths a policy names, and what they are here.
    pub paths: BTreeMap<PathBuf, PathFact>,
    /// The contents of the policy's own root; `None` when the host's is meant.
    pub root: Option<RootFacts>,
    /// Landlock's ABI version; 0 without Landlock.
    pub landlock_abi: u32,
    /// The control group hierarchies.
    pub hierarchies: CgroupHierarchies,
    /// The storage behind the mounted file systems; empty unless the policy limits reads or writes.
    pub storage: HostStorage,
    /// The host's own internet addresses; empty unless the policy allows hosts.
    pub addresses: Vec<IpAddr>,
    /// The files for name resolution; empty unless the policy gives the jail the host's network.
    pub names: NameResolution,
    /// The ids that a jail's user can have.
    pub ids: NamespaceIds,
    /// The ceilings on what the kernel counts for the jail's caller.
    pub ceilings: Vec<UcountCeiling>,
    /// Limits of this process that no jail of its can have more of.
    pub hard_limits: HardLimits,
    /// The highest capability that the kernel knows.
    pub last_capability: u8,
    /// The CPUs that this process may use.
    pub cpus: usize,
}

/// The kind of file at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathFact {
    /// No file.
    Missing,
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symlink: its text, and what it leads to in the end.
    Symlink {
        /// As stored.
        text: PathBuf,
        /// The canonical path, when it leads anywhere.
        leads_to: Option<PathBuf>,
    },
    /// A socket, FIFO or device: never given to a jail.
    Special,
    /// A symlink over which another user decides: never followed.
    Foreign,
    /// By way of symlinks, a place that every jail has of its own: the canonical path.
    Reserved(PathBuf),
}

/// The files by which a host finds the addresses of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameResolution {
    /// The lines of its hosts(5).
    pub hosts: Vec<(IpAddr, String)>,
    /// The host's resolv.conf(5), when there is one.
    pub resolver: Option<Vec<u8>>,
    /// The services of its nsswitch.conf(5) that find hosts.
    pub services: Option<String>,
}

/// The reason why the host's facts could not be gathered.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No usable control groups.
    #[error(transparent)]
    Hierarchy(#[from] HierarchyError),
    /// The policy's own root.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The addresses of its interfaces.
    #[error("could not ask for this host's own addresses, which a range must not mean")]
    Addresses(#[source] nix::errno::Errno),
}

impl Host {
    /// Looks at everything `policy` names, and at the kernel.
    pub fn probe(policy: &Policy) -> Result<Host, HostError> {
        let ids = NamespaceIds::probe();
        let ceilings = ceilings::below(&ids);
        let mut paths = BTreeMap::new();
        let named = policy
            .filesystem
            .read
            .iter()
            .chain(&policy.filesystem.write);
        for named in named {
            let fact = look(&named.path);
            if let PathFact::Symlink {
                leads_to: Some(target),
                ..
            } = &fact
            {
                paths.insert(target.clone(), look(target));
            }
            paths.insert(named.path.clone(), fact);
        }
        let filesystem = &policy.filesystem;
        let root_place = filesystem.root.as_deref();
        let root = root_place
            .map(|root| root::probe(root, filesystem))
            .transpose()?;
        Ok(Host {
            paths,
            root,
            landlock_abi: crate::landlock::abi(),
            hierarchies: hierarchies(&ids, policy)?,
            storage: storage(policy, root_place)?,
            addresses: addresses(policy)?,
            names: names(policy),
            ids,
            ceilings,
            hard_limits: HardLimits::probe(),
            last_capability: last_capability(),
            cpus: std::thread::available_parallelism().map_or(1, NonZero::get),
        })
    }

    /// The kind of file at `path`; only for paths the policy named.
    pub fn fact(&self, path: &Path) -> &PathFact {
        self.paths.get(path).unwrap_or(&PathFact::Missing)
    }
}

fn addresses(policy: &Policy) -> Result<Vec<IpAddr>, HostError> {
    match policy.network.mode {
        NetworkMode::Allow => own_addresses(),
        NetworkMode::None | NetworkMode::Loopback | NetworkMode::Sinkhole | NetworkMode::Host => {
            Ok(Vec::new())
        }
    }
}

/// The name server that a jail under the mode `sinkhole` is told of; every other address answers questions as well. Of the range for
/// tests of networks (RFC 2544).
pub const SINKHOLE_NAME_SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The most that is read of a file of names: a longer one is not one that people write.
const LONGEST_NAMES: u64 = 64 << 10;

/// Reads the files for name resolution: of use in the host's network alone.
#[expect(
    clippy::disallowed_methods,
    reason = "files of root's, read for their length at most"
)]
fn names(policy: &Policy) -> NameResolution {
    match policy.network.mode {
        NetworkMode::Host => {}
        NetworkMode::Sinkhole => {
            return NameResolution {
                resolver: Some(format!("nameserver {SINKHOLE_NAME_SERVER}\n").into_bytes()),
                ..NameResolution::default()
            };
        }
        _ => return NameResolution::default(),
    }
    let read = |path: &str| {
        let mut text = Vec::new();
        let file = std::fs::File::open(path).ok()?;
        file.take(LONGEST_NAMES).read_to_end(&mut text).ok()?;
        Some(text)
    };
    NameResolution {
        hosts: read("/etc/hosts")
            .map(|text| hosts(&text))
            .unwrap_or_default(),
        resolver: read("/etc/resolv.conf"),
        services: read(NAME_SERVICES).and_then(|text| services(&text)),
    }
}

/// The services behind `hosts:` in nsswitch.conf(5).
fn services(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().filter_map(|line| line.split('#').next());
    let services = lines.find_map(|line| line.trim().strip_prefix("hosts:"))?;
    Some(services.trim().to_owned())
}

/// The lines of hosts(5).
fn hosts(text: &[u8]) -> Vec<(IpAddr, String)> {
    let text = String::from_utf8_lossy(text);
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    let entries = lines.flat_map(|line| {
        let mut words = line.split_whitespace();
        let address = words.next().and_then(|word| word.parse().ok());
        let names = words.map(move |name| Some((address?, name.to_owned())));
        names.collect::<Vec<_>>()
    });
    let is_name = |name: &str| {
        let part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        name.bytes().all(part)
    };
    entries
        .flatten()
        .filter(|(_, name)| is_name(name))
        .collect()
}

/// The addresses of every interface. Without them a range could mean the host itself, so that not
/// knowing them is an error.
pub fn own_addresses() -> Result<Vec<IpAddr>, HostError> {
    let all = nix::ifaddrs::getifaddrs().map_err(HostError::Addresses)?;
    let address = |interface: nix::ifaddrs::InterfaceAddress| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    };
    Ok(all.filter_map(address).collect())
}

/// Only where a limit asks for it: there are hosts with thousands of mounts.
fn storage(policy: &Policy, root: Option<&Path>) -> Result<HostStorage, HostError> {
    if !policy.limits.limit_io() {
        return Ok(HostStorage::default());
    }
    let filesystem = &policy.filesystem;
    let named = filesystem.read.iter().chain(&filesystem.write);
    let named = named.map(|named| named.path.as_path()).chain(root);
    let path = "/proc/self/mountinfo";
    let unread = |source| HierarchyError::Proc { path, source };
    Ok(HostStorage::probe(named).map_err(unread)?)
}

/// To whom the policy requires what a group holds, and who has all ids, a group that cannot be made is an error of
/// its own, with a fix of its own; nobody else is kept from a jail by it.
fn hierarchies(ids: &NamespaceIds, policy: &Policy) -> Result<CgroupHierarchies, HierarchyError> {
    let found = if policy.limits.limit_io() {
        CgroupHierarchies::probe_for(&Controller::ALL)
    } else {
        CgroupHierarchies::probe()
    };
    match (found, ids) {
        (found, NamespaceIds::All) if needs_groups(policy) => found,
        (Err(HierarchyError::NoUnified(fix)), _) => Ok(CgroupHierarchies::none(Some(format!(
            "no cgroup v2 hierarchy can be reached here; as root, mount one: {fix}"
        )))),
        (found, _) => Ok(found?.delegated()),
    }
}

fn needs_groups(policy: &Policy) -> bool {
    let held = [Layer::Memory, Layer::Pids, Layer::Cpu, Layer::Monitor];
    let required = &policy.enforcement.required;
    let io = policy.limits.limit_io() && required.contains(&Layer::Io);
    io || held.iter().any(|layer| required.contains(layer))
}

fn look(path: &Path) -> PathFact {
    // By any other spelling it is as little to be given as by its own, of which the plan speaks.
    let real = paths::canonical(path).ok();
    if let Some(real) = real.filter(|real| real != path && is_reserved(real)) {
        return PathFact::Reserved(real);
    }
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return PathFact::Missing;
    };
    let kind = metadata.file_type();
    if kind.is_dir() {
        PathFact::Directory
    } else if kind.is_file() {
        PathFact::File
    } else if kind.is_symlink() {
        let text = fs::read_link(path).unwrap_or_default();
        match paths::canonical(path) {
            Err(PathError::Foreign | PathError::Movable) => PathFact::Foreign,
            leads_to => PathFact::Symlink {
                text,
                leads_to: leads_to.ok(),
            },
        }
    } else {
        PathFact::Special
    }
}

/// From /proc/sys/kernel/cap_last_cap; 63, the most that a set can hold, when it is not readable,
/// because dropping a capability that does not exist is harmless and keeping one is not.
fn last_capability() -> u8 {
    let text = kernel_file::read("/proc/sys/kernel/cap_last_cap").unwrap_or_default();
    text.trim().parse().unwrap_or(63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart_without_following() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        let link = directory.path().join("link");
        let dangling = directory.path().join("dangling");
        fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
        let leads_to = Some(file.canonicalize().unwrap());
        assert_eq!(look(directory.path()), PathFact::Directory);
        assert_eq!(look(&file), PathFact::File);
        assert_eq!(
            look(&link),
            PathFact::Symlink {
                text: "file".into(),
                leads_to
            }
        );
        assert_eq!(
            look(&dangling),
            PathFact::Symlink {
                text: "nowhere".into(),
                leads_to: None
            }
        );
        assert_eq!(look(Path::new("/dev/null")), PathFact::Special);
        let behind = directory.path().join("behind");
        std::os::unix::fs::symlink("/proc/self", &behind).unwrap();
        let own = Path::new("/proc").join(std::process::id().to_string());
        assert_eq!(look(&behind.join("fd")), PathFact::Reserved(own.join("fd")));
        assert_eq!(look(&directory.path().join("nothing")), PathFact::Missing);
    }
}
