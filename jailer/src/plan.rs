//! The plan: everything a run will do to the system, as data, before anything is done.
//!
//! Pure: from a policy, the facts of the host and a command to an ordered list of steps.

mod cpus;
mod environment;
mod given;
pub mod io;
pub mod network;
mod places;
mod root;
mod rootfs;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnkey_policy::{FilesystemPolicy, NetworkMode, Policy, ProcView, WORKSPACE, WorkdirPlace};

use crate::groups::limits::{self, GroupLimit};
use crate::host::Host;
use crate::ids::served::ServedUser;
use crate::ids::{NamespaceIds, identity};
use crate::landlock::{self, HandledAccess, PathUse};
use crate::layer::KeptLayer;
use crate::process::namespaces::{self, JailNamespace};
use crate::process::rlimits::{self, HardLimits, ResourceLimit};
use crate::shifted_clock::ShiftedClock;
pub use environment::DEFAULT_PATH;
use environment::{candidates, environment};
use io::DiskLimits;
use network::NetworkReach;
use places::{PlannedMount, places};
use rootfs::{RootfsBuilder, workspace_size};

/// A file in the jail's root that no Landlock rule covers: opening it proves Landlock.
pub const PROBE: &str = "/.turnkey-probe";

/// An empty file in the jail's root, which covers files that must not be read or written.
pub const EMPTY: &str = "/.turnkey-empty";

/// The certificate of the authority that vouches for whoever answers in the place of everybody under the network mode `sinkhole`, in the jail's root.
pub const AUTHORITY: &str = "/.turnkey-authority.pem";

/// The command to run, and the directory it is run from.
#[derive(Clone, Debug, Default)]
pub struct JailCommand {
    /// The program and its arguments; never empty.
    pub arguments: Vec<OsString>,
    /// The caller's environment; the policy says what passes.
    pub environment: Vec<(OsString, OsString)>,
    /// The directory that appears as the workspace: absolute, canonical.
    pub workdir: PathBuf,
    /// The directory below the workspace in which the program starts: relative, empty for the workspace itself.
    pub start: PathBuf,
}

/// The plan of a run: each mount, grant and limit, in order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The steps that fill the empty root, in order.
    pub rootfs: Vec<RootfsStep>,
    /// The namespaces of its own.
    pub namespaces: Vec<JailNamespace>,
    /// The limits of its control groups, in the order they are written.
    pub group_limits: Vec<GroupLimit>,
    /// The limits on reads and writes of disks; `None` when there are none.
    pub io: Option<DiskLimits>,
    /// The limits of each of its processes.
    pub rlimits: Vec<ResourceLimit>,
    /// The part of the network that the jail reaches.
    pub reach: NetworkReach,
    /// True when somebody decides on each of its connects.
    pub is_watched: bool,
    /// The accesses that Landlock refuses where no grant allows them; `None` on a host without Landlock.
    pub landlock: Option<HandledAccess>,
    /// The grants of Landlock, in order.
    pub grants: Vec<LandlockGrant>,
    /// The argument vector.
    pub arguments: Vec<OsString>,
    /// The environment, as `NAME=value`.
    pub environment: Vec<OsString>,
    /// The paths at which the program may be, in the order they are tried; absolute.
    pub candidates: Vec<PathBuf>,
    /// The working directory of the program.
    pub directory: PathBuf,
    /// The layer that shows below what is written, and takes it in the end.
    pub layer: Option<Arc<KeptLayer>>,
    /// The user whose rights every path of the host is opened by, where that is not this process's.
    pub served: Option<ServedUser>,
    /// A descriptor, none of the first three, that is open as long as there is a group of the jail's, also when this process is killed.
    pub outlived: Option<Arc<OwnedFd>>,
    /// The clock of the program, where it is not the host's.
    pub clock: Option<ShiftedClock>,
    /// The policy it was made from.
    pub policy: Policy,
    /// The host it was made for.
    pub host: Host,
}

/// One step of filling the root. Every path is absolute as seen from inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootfsStep {
    /// An empty directory on the root's own tmpfs.
    Directory(PathBuf),
    /// The same, whose names nobody in the jail can list.
    Unlisted(PathBuf),
    /// A symlink on the root's own tmpfs.
    Symlink {
        /// The path inside the jail.
        path: PathBuf,
        /// The text of the limit.
        text: PathBuf,
    },
    /// A file on the root's own tmpfs.
    File {
        /// The path inside the jail.
        path: PathBuf,
        /// The content.
        content: Vec<u8>,
    },
    /// The same, whose content is known when there is a process of the jail: see [`Prepared::start_with`](crate::Prepared::start_with).
    Late(PathBuf),
    /// An entry of the policy's own root, with everything mounted below it, read-only.
    RootEntry {
        /// The root, on the host.
        root: PathBuf,
        /// The same below it and inside.
        path: PathBuf,
        /// True for a directory.
        directory: bool,
    },
    /// A host path, with everything mounted below it.
    Bind {
        /// On the host.
        source: PathBuf,
        /// Inside.
        path: PathBuf,
        /// True for a directory.
        directory: bool,
        /// True when it can be written.
        writable: bool,
        /// True when the caller's files belong to the jail's user.
        owned: bool,
    },
    /// A device of the host, such as /dev/null.
    Device {
        /// The same on the host and inside.
        path: PathBuf,
        /// Major and minor number it must have.
        number: (u32, u32),
    },
    /// The root itself under a layer of memory, which takes the writes to all writable directories as well.
    WritableRoot {
        /// Bytes of writes.
        size: u64,
    },
    /// A directory of the host under that memory; what is its owner's alone is absent, what is mounted in it under a cover.
    WritableDirectory {
        /// On the host.
        source: PathBuf,
        /// Inside.
        path: PathBuf,
    },
    /// A file of the host in a tree that can be written: a copy, unless it is large or not for everybody to read.
    Setting {
        /// On the host.
        source: PathBuf,
        /// Inside.
        path: PathBuf,
    },
    /// A fresh tmpfs.
    Tmpfs {
        /// The path inside the jail.
        path: PathBuf,
        /// Bytes.
        size: u64,
    },
    /// A fresh procfs of the jail's pid namespace, read-only.
    Proc {
        /// The path inside the jail.
        path: PathBuf,
        /// The parts of it that are there.
        shows: ProcView,
    },
    /// An empty, read-only cover over a part of /proc that no program needs. A kernel that has
    /// no such part needs no mask.
    Mask {
        /// The path inside the jail.
        path: PathBuf,
        /// True for a directory.
        directory: bool,
    },
    /// A file of the jail's root over another file, read-only, where that is there and no symlink.
    Cover {
        /// The file that covers.
        file: PathBuf,
        /// The file that is covered.
        path: PathBuf,
    },
    /// A fresh instance of pseudo-terminals.
    Terminals(PathBuf),
    /// A worthless file in the workspace, with the directories on the way; in the place of the
    /// caller's own file when there is one. It lands where the program's writes do.
    Decoy {
        /// The path of the workspace inside the jail.
        workspace: PathBuf,
        /// The path inside the jail.
        path: PathBuf,
        /// The content.
        content: Vec<u8>,
    },
    /// The working directory under a layer of memory that takes the writes.
    Overlay {
        /// On the host.
        source: PathBuf,
        /// Inside.
        path: PathBuf,
        /// Bytes of writes.
        size: u64,
    },
}

impl RootfsStep {
    /// The path inside the jail; `None` for the root itself.
    #[must_use]
    pub fn place(&self) -> Option<&Path> {
        match self {
            RootfsStep::Directory(path)
            | RootfsStep::Unlisted(path)
            | RootfsStep::Late(path)
            | RootfsStep::Terminals(path)
            | RootfsStep::Symlink { path, .. }
            | RootfsStep::File { path, .. }
            | RootfsStep::RootEntry { path, .. }
            | RootfsStep::Bind { path, .. }
            | RootfsStep::Device { path, .. }
            | RootfsStep::WritableDirectory { path, .. }
            | RootfsStep::Setting { path, .. }
            | RootfsStep::Tmpfs { path, .. }
            | RootfsStep::Proc { path, .. }
            | RootfsStep::Mask { path, .. }
            | RootfsStep::Cover { path, .. }
            | RootfsStep::Decoy { path, .. }
            | RootfsStep::Overlay { path, .. } => Some(path),
            RootfsStep::WritableRoot { .. } => None,
        }
    }
}

/// One Landlock rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LandlockGrant {
    /// As seen from inside.
    pub path: PathBuf,
    /// For what.
    pub place: PathUse,
    /// True for a directory.
    pub directory: bool,
}

/// The reason why there is no plan. Every message names the fix.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    /// A path of the profile is not on this host.
    #[error(
        "{0} does not exist on this host; remove it from the profile or mark it `optional = true`"
    )]
    Missing(PathBuf),
    /// A path of a flag is not.
    #[error("`{flag} {path}`: there is no such path on this host; {fix}")]
    MissingGiven {
        /// The flag.
        flag: &'static str,
        /// The value of the flag, made absolute.
        path: PathBuf,
        /// The words that help.
        fix: String,
    },
    /// Sockets and devices are doors, not files.
    #[error(
        "{0} is a socket, a pipe or a device, and cannot be given to a jail; leave it out, or hand its data in as a file"
    )]
    Special(PathBuf),
    /// A symlink that somebody else can turn.
    #[error(
        "{0} leads over a symlink that belongs to another user; name the place it leads to, if that is meant"
    )]
    Foreign(PathBuf),
    /// Landlock's rights are those of all that lies in a place.
    #[error(
        "{path} has `list = false`, and lies in {above}, which can be listed with all that is in it; say so of that as well, or leave it out"
    )]
    Listed {
        /// The path that is not to be listed.
        path: PathBuf,
        /// The path that it lies in.
        above: PathBuf,
    },
    /// The file was exchanged between two looks.
    #[error("{0} has changed while it was looked at; start it again")]
    Changed(PathBuf),
    /// The policy's own root has no place for it.
    #[error(
        "the profile's root has no {kind} at {path} to put it on; make one there, without a symlink on the way"
    )]
    NoPlace {
        /// Inside.
        path: PathBuf,
        /// `directory` or `file`.
        kind: &'static str,
    },
    /// A directory of the host has no place for it.
    #[error(
        "{path} would lie inside {above}, which shows a directory of the host, and turnkey makes nothing in that; choose another place with `at`"
    )]
    Covered {
        /// Inside.
        path: PathBuf,
        /// The directory around it, inside.
        above: PathBuf,
    },
    /// A path that turnkey itself provides.
    #[error("{0} is made fresh in every jail and cannot be replaced by the host's; leave it out")]
    Reserved(PathBuf),
    /// A file to plant inside a directory of the host.
    #[error(
        "the decoy {0} would lie inside a directory of the host that the profile makes visible; plant it elsewhere"
    )]
    CoveredDecoy(PathBuf),
    /// A directory of the system as working directory.
    #[error(
        "the working directory is {0}, which belongs to the system; start in a directory of your own, or name one with --workdir DIR"
    )]
    SystemWorkdir(PathBuf),
    /// A working directory that cannot stand at its own path.
    #[error(
        "the working directory {0} cannot stand at its own path in the jail: either it is no part of the jail (`workdir.mode = \"none\"`), or a `root`, an `at` or \
         /workspace itself is there; leave `--at-host-path` out (`workdir.at`), and use `--own-path always` for a symlink"
    )]
    HostPlace(PathBuf),
    /// A name that nobody has looked up.
    #[error("{0} is allowed, and its name has no address; check it, or write the address itself")]
    Unresolved(String),
    /// A name that leads to this host, its link or its credentials.
    #[error(
        "{entry} is allowed by its name, which leads to {address}: {what}; if that is meant, write the address itself"
    )]
    Rebound {
        /// As written.
        entry: String,
        /// The address.
        address: std::net::IpAddr,
        /// The special meaning of the address.
        what: &'static str,
    },
    /// A socket for each address and port.
    #[error(
        "the network that is allowed takes more than {} sockets; allow fewer ports, or a range in place of single addresses, which takes one for each port",
        network::MOST_LISTENERS
    )]
    TooManyListeners,
    /// A kernel without Landlock's scopes: nothing else keeps the host's abstract sockets from a jail in the host's network.
    #[error(
        "the network mode \"host\" needs Landlock's scope of abstract Unix sockets, without which a program could talk to services of the host that wait at one: \
         boot Linux 6.12 or later with `landlock` in `lsm=`, or name whom the program may talk to, with the mode \"allow\""
    )]
    AbstractSockets,
    /// An overlay for each directory.
    #[error(
        "`root_mode = \"overlay\"` makes at most {} directories of the host writable, and the profile shows more; name fewer under `read`",
        rootfs::MOST_WRITABLE
    )]
    TooManyWritable,
    /// The owner of the host's directories has to appear as the jail's user, which only root can arrange.
    #[error(
        "`root_mode = \"overlay\"` needs root: to an unprivileged caller's jail, the host's directories belong to somebody else; \
         run turnkey as root, leave it out, or name what has to be written with --scratch PATH=SIZE"
    )]
    WritableNeedsRoot,
    /// A root of the profile's own has too many entries to be written over one by one.
    #[error(
        "`root_mode = \"overlay\"` is for the host's directories, and the profile has a `root` of its own; leave one of them out"
    )]
    WritableRoot,
    /// The program that leads all connections to one socket is the kernel's, which takes it of root alone.
    #[error(
        "the network mode \"sinkhole\" needs root: it has the kernel lead every connection of the jail to turnkey, by a BPF program; \
         run turnkey as root, or by a service whose `networks` names it (--service), or choose --network none, which tells whom the program asks for"
    )]
    SinkholeNeedsRoot,
    /// A command without a name.
    #[error("the command is empty; give the program after `--`")]
    EmptyCommand,
}

/// The content of a file that is planted: its own, or a decoy's.
fn content(filesystem: &FilesystemPolicy, path: &Path) -> Vec<u8> {
    let own = filesystem.planted.get(path);
    own.map_or_else(|| identity::decoy(path), |text| text.clone().into_bytes())
}

/// The steps that build the jail's tree, and the grants on it. A later step covers an earlier one, so their order is part of the plan.
fn plan_rootfs(
    policy: &Policy,
    host: &Host,
    reach: &NetworkReach,
    (workdir, workspace): (&Path, &Path),
) -> Result<RootfsBuilder, PlanError> {
    let mut builder = RootfsBuilder::default();
    let filesystem = &policy.filesystem;
    let most = workspace_size(&policy.limits, host);
    builder.root_mode(filesystem, host, most)?;
    builder.reserved_files(policy, reach, &host.names)?;
    builder.cpus(policy, host.cpus);
    builder.resolver(policy, &host.names);
    if let (Some(root), Some(facts)) = (&filesystem.root, &host.root) {
        builder.root(root, facts, &filesystem.decoys);
    }
    for place in places(filesystem, host, workdir) {
        match place {
            PlannedMount::Host { named, writable } => builder.host_path(host, named, writable)?,
            PlannedMount::Scratch(scratch) => builder.tmpfs(&scratch.path, scratch.size)?,
            PlannedMount::Workspace(source) => {
                builder.workdir_at_host(filesystem.workdir.mode, source, most)?
            }
        }
    }
    let in_workspace = |decoy: &&PathBuf| decoy.starts_with(WORKSPACE);
    for decoy in filesystem
        .decoys
        .iter()
        .filter(|decoy| !in_workspace(decoy))
    {
        builder.decoy(decoy, content(filesystem, decoy))?;
    }
    builder.devices()?;
    if filesystem.workdir.at == WorkdirPlace::Workspace {
        builder.workdir(filesystem.workdir.mode, workdir, workspace, most)?;
    }
    for decoy in filesystem.decoys.iter().filter(in_workspace) {
        builder.decoy_in_workspace(decoy, workspace, content(filesystem, decoy));
    }
    for path in &filesystem.names {
        builder.own_path(path, workspace);
    }
    if policy.network.mode == NetworkMode::Sinkhole {
        builder.cover_authorities();
    }
    builder.check_lists()?;
    builder.order();
    Ok(builder)
}

impl Plan {
    /// Plans the run of `command` under `policy` on `host`.
    pub fn new(policy: &Policy, host: &Host, command: JailCommand) -> Result<Plan, PlanError> {
        let landlock = landlock::handled(host.landlock_abi);
        let shares_network = policy.network.mode == NetworkMode::Host;
        if shares_network && !landlock.is_some_and(HandledAccess::keeps_abstract_sockets_apart) {
            return Err(PlanError::AbstractSockets);
        }
        let is_sinkhole = policy.network.mode == NetworkMode::Sinkhole;
        if is_sinkhole && host.ids != NamespaceIds::All {
            return Err(PlanError::SinkholeNeedsRoot);
        }
        let mut reach = NetworkReach::new(policy, &host.addresses)?;
        if shares_network {
            reach.hosts.clone_from(&host.names.hosts);
        }
        let workspace = match policy.filesystem.workdir.at {
            WorkdirPlace::Workspace => Path::new(WORKSPACE),
            WorkdirPlace::Host => command.workdir.as_path(),
        };
        let builder = plan_rootfs(policy, host, &reach, (&command.workdir, workspace))?;
        let environment = environment(policy, &command.environment, host.cpus);
        // Joined with nothing, it would end in a slash.
        let directory: PathBuf = workspace
            .components()
            .chain(command.start.components())
            .collect();
        let candidates = candidates(&command.arguments, &environment, &directory)?;
        let io = DiskLimits::new(&policy.limits, &builder.steps, host);
        Ok(Plan {
            namespaces: namespaces::of_jail(shares_network),
            group_limits: limits::plan(
                &policy.limits,
                policy.network.mode,
                &host.hierarchies,
                io.as_ref(),
            ),
            io,
            rlimits: rlimits::plan(
                &policy.limits,
                &host.hard_limits,
                &host.ids,
                host.hierarchies.ungrouped(),
            ),
            reach,
            is_watched: true,
            layer: None,
            served: None,
            outlived: None,
            clock: None,
            landlock,
            rootfs: builder.steps,
            grants: builder.grants,
            arguments: command.arguments,
            environment,
            candidates,
            directory,
            policy: policy.clone(),
            host: host.clone(),
        })
    }

    /// For a jail whose connects nobody watches: Landlock refuses TCP too, where the kernel can and
    /// the policy gives no network to use it on, and not even its loopback comes up.
    #[must_use]
    pub fn unwatched(mut self) -> Plan {
        self.is_watched = false;
        if self.policy.network.mode == NetworkMode::None {
            self.landlock = self.landlock.map(HandledAccess::with_tcp);
        }
        self
    }

    /// For a caller whose own processes have these limits, and no others.
    #[must_use]
    pub fn within(mut self, caller: &HardLimits) -> Plan {
        rlimits::within(&mut self.rlimits, caller);
        self
    }

    /// The rules of Landlock, as the kernel takes them; none on a host without Landlock.
    pub fn landlock_rules(&self) -> impl Iterator<Item = landlock::LandlockRule> {
        let abi = self.landlock.map(|handled| handled.abi);
        self.grants.iter().filter_map(move |grant| {
            Some(landlock::LandlockRule {
                path: grant.path.clone(),
                access: landlock::grant(grant.place, abi?, grant.directory),
            })
        })
    }

    /// The paths that are covered where the kernel has them, in order.
    pub fn masks(&self) -> impl Iterator<Item = &Path> {
        self.rootfs.iter().filter_map(|step| match step {
            RootfsStep::Mask { path, .. } => Some(path.as_path()),
            _ => None,
        })
    }

    /// The files of the host that the sinkhole's authority covers in the jail, which shows them otherwise.
    pub fn covered(&self) -> impl Iterator<Item = PathBuf> {
        let covers = self.rootfs.iter().filter_map(|step| match step {
            RootfsStep::Cover { path, .. } => Some(path),
            _ => None,
        });
        covers.filter_map(|covered| {
            self.rootfs.iter().rev().find_map(|step| match step {
                RootfsStep::Bind { source, path, .. } => {
                    let below = covered.strip_prefix(path).ok()?;
                    // Joined with nothing, it would end in a slash.
                    Some(source.components().chain(below.components()).collect())
                }
                _ => None,
            })
        })
    }

    /// True when the jail's own loopback interface is brought up. Where there is no network, it is there for
    /// resolvers alone: what they ask there is told, and nobody answers.
    pub fn has_loopback(&self) -> bool {
        match self.policy.network.mode {
            NetworkMode::None => self.is_watched,
            NetworkMode::Loopback | NetworkMode::Sinkhole | NetworkMode::Allow => true,
            NetworkMode::Host => false,
        }
    }
}

#[cfg(test)]
mod tests;
