//! The plan: everything a run will do to the system, as data, before anything is done.
//!
//! Pure: from a policy, the facts of the host and a command to an ordered list of steps.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use turnkey_policy::{Filesystem, HostPath, Network, Policy, Scratch, WORKSPACE, Workdir};

use crate::group_limits::{self, GroupLimit};
use crate::host::{Host, PathFact};
use crate::identity::{self, account_files};
use crate::landlock::{self, Handled, Use};
use crate::namespaces::{self, Namespace};
use crate::rlimits::{self, ResourceLimit};

/// A file in the jail's root that no Landlock rule covers: opening it proves Landlock.
pub const PROBE: &str = "/.turnkey-probe";
/// The directories a command is looked up in when the policy sets no PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The memory that /dev/shm may hold, bytes.
const SHARED_MEMORY: u64 = 64 << 20;
/// The most that thrown-away writes to the working directory may hold, bytes; they count against
/// the memory limit all the same.
const OVERLAY: u64 = 1 << 30;

/// What to run, and from where.
#[derive(Clone, Debug)]
pub struct Command {
    /// The program and its arguments; never empty.
    pub arguments: Vec<OsString>,
    /// The caller's environment; the policy says what passes.
    pub environment: Vec<(OsString, OsString)>,
    /// The directory that appears as the workspace: absolute, canonical.
    pub workdir: PathBuf,
}

/// Everything a run will do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The steps that fill the empty root, in order.
    pub tree: Vec<TreeStep>,
    /// The namespaces of its own.
    pub namespaces: Vec<Namespace>,
    /// The limits of its control groups, in the order they are written.
    pub group_limits: Vec<GroupLimit>,
    /// The limits of each of its processes.
    pub rlimits: Vec<ResourceLimit>,
    /// What Landlock refuses wherever no grant allows it; `None` on a host without Landlock.
    pub landlock: Option<Handled>,
    /// What Landlock allows, in order.
    pub grants: Vec<Grant>,
    /// The argument vector.
    pub arguments: Vec<OsString>,
    /// The environment, as `NAME=value`.
    pub environment: Vec<OsString>,
    /// Where the program may be, in the order they are tried; absolute.
    pub candidates: Vec<PathBuf>,
    /// Where the program starts.
    pub directory: PathBuf,
    /// The policy it was made from.
    pub policy: Policy,
    /// The host it was made for.
    pub host: Host,
}

/// One step of filling the root. Every path is absolute as seen from inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeStep {
    /// An empty directory on the root's own tmpfs.
    Directory(PathBuf),
    /// A symlink on the root's own tmpfs.
    Symlink {
        /// Where.
        path: PathBuf,
        /// Its text.
        text: PathBuf,
    },
    /// A file on the root's own tmpfs.
    File {
        /// Where.
        path: PathBuf,
        /// What it holds.
        content: Vec<u8>,
    },
    /// A host path, with everything mounted below it.
    Bind {
        /// On the host.
        source: PathBuf,
        /// Inside.
        path: PathBuf,
        /// Whether it is a directory.
        directory: bool,
        /// Whether it can be written.
        writable: bool,
        /// Whether the caller's files belong to the jail's user.
        owned: bool,
    },
    /// A device of the host, such as /dev/null.
    Device {
        /// The same on the host and inside.
        path: PathBuf,
        /// Major and minor number it must have.
        number: (u32, u32),
    },
    /// A fresh tmpfs.
    Tmpfs {
        /// Where.
        path: PathBuf,
        /// Bytes.
        size: u64,
    },
    /// A fresh procfs of the jail's pid namespace, read-only.
    Proc(PathBuf),
    /// A fresh instance of pseudo-terminals.
    Terminals(PathBuf),
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

/// One Landlock rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// As seen from inside.
    pub path: PathBuf,
    /// For what.
    pub place: Use,
    /// Whether it is a directory.
    pub directory: bool,
}

/// Why there is no plan. Every message names the fix.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    /// A path of the profile is not on this host.
    #[error(
        "{0} does not exist on this host; remove it from the profile or mark it `optional = true`"
    )]
    Missing(PathBuf),
    /// Sockets and devices are doors, not files.
    #[error("{0} is a socket, a pipe or a device, and cannot be given to a jail")]
    Special(PathBuf),
    /// A path that turnkey itself provides.
    #[error("{0} is made fresh in every jail and cannot be replaced by the host's")]
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
    /// A command without a name.
    #[error("the command is empty; give the program after `--`")]
    EmptyCommand,
}

impl Plan {
    /// Plans the run of `command` under `policy` on `host`.
    pub fn new(policy: &Policy, host: &Host, command: Command) -> Result<Plan, PlanError> {
        let mut builder = TreeBuilder::default();
        let filesystem = &policy.filesystem;
        builder.reserved_files(policy);
        for place in places(filesystem, host) {
            match place {
                Place::Host { named, writable } => builder.host_path(host, named, writable)?,
                Place::Scratch(scratch) => builder.tmpfs(&scratch.path, scratch.size),
            }
        }
        for decoy in &filesystem.decoys {
            builder.decoy(decoy)?;
        }
        builder.devices();
        builder.workdir(filesystem.workdir, &command.workdir)?;
        let environment = environment(policy, &command.environment);
        let candidates = candidates(&command.arguments, &environment)?;
        Ok(Plan {
            namespaces: namespaces::ALL.to_vec(),
            group_limits: group_limits::plan(&policy.limits, &host.hierarchies),
            rlimits: rlimits::plan(&policy.limits),
            landlock: landlock::handled(host.landlock_abi),
            tree: builder.steps,
            grants: builder.grants,
            arguments: command.arguments,
            environment,
            candidates,
            directory: PathBuf::from(WORKSPACE),
            policy: policy.clone(),
            host: host.clone(),
        })
    }

    /// What Landlock allows, as the kernel takes it; nothing on a host without Landlock.
    pub fn landlock_rules(&self) -> impl Iterator<Item = landlock::Rule> {
        let abi = self.landlock.map(|handled| handled.abi);
        self.grants.iter().filter_map(move |grant| {
            Some(landlock::Rule {
                path: grant.path.clone(),
                access: landlock::grant(grant.place, abi?, grant.directory),
            })
        })
    }

    /// Whether the jail has a loopback interface that is up.
    pub fn has_loopback(&self) -> bool {
        self.policy.network == Network::Loopback
    }
}

/// Something the profile puts into the tree.
enum Place<'a> {
    Host { named: &'a HostPath, writable: bool },
    Scratch(&'a Scratch),
}

impl Place<'_> {
    fn path(&self) -> &Path {
        match self {
            Place::Host { named, .. } => &named.path,
            Place::Scratch(scratch) => &scratch.path,
        }
    }
}

/// Directories before what they contain, or a later mount would hide an earlier one; and symlinks
/// last: most lead to where something is by then.
fn places<'a>(filesystem: &'a Filesystem, host: &Host) -> Vec<Place<'a>> {
    let read = filesystem.read.iter().map(|named| Place::Host {
        named,
        writable: false,
    });
    let write = filesystem.write.iter().map(|named| Place::Host {
        named,
        writable: true,
    });
    let mut places: Vec<_> = read
        .chain(write)
        .chain(filesystem.scratch.iter().map(Place::Scratch))
        .collect();
    let is_symlink =
        |place: &Place<'_>| matches!(host.fact(place.path()), PathFact::Symlink { .. });
    places.sort_by_key(|place| (is_symlink(place), place.path().to_owned()));
    places
}

/// Collects steps; knows which places the root already has.
#[derive(Default)]
struct TreeBuilder {
    steps: Vec<TreeStep>,
    grants: Vec<Grant>,
    made: BTreeSet<PathBuf>,
    mounted: Vec<PathBuf>,
}

/// Places that turnkey fills itself.
const RESERVED: [&str; 5] = ["/proc", "/dev", "/sys", "/run", WORKSPACE];
/// Places of which only parts can come from the host, and files turnkey writes itself.
const RESERVED_ITSELF: [&str; 6] = [
    "/",
    "/etc",
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/hostname",
];
/// Directories of the host that no program has business to be given as its own.
const NO_WORKDIR: [&str; 6] = ["/etc", "/proc", "/sys", "/dev", "/run", "/boot"];

impl TreeBuilder {
    /// What every jail has on its root, before anything of the host.
    fn reserved_files(&mut self, policy: &Policy) {
        self.grant("/", Use::List, true);
        self.directory(Path::new("/etc"));
        self.grant("/etc", Use::Read, true);
        for (path, content) in account_files(&policy.identity) {
            self.file(Path::new(path), content);
        }
        self.steps.push(TreeStep::File {
            path: PROBE.into(),
            content: Vec::new(),
        });
        self.mount(TreeStep::Proc("/proc".into()), "/proc", Use::Read);
    }

    fn host_path(
        &mut self,
        host: &Host,
        named: &HostPath,
        writable: bool,
    ) -> Result<(), PlanError> {
        let path = &named.path;
        if is_reserved(path) {
            return Err(PlanError::Reserved(path.clone()));
        }
        match host.fact(path) {
            PathFact::Missing if named.optional => Ok(()),
            PathFact::Missing => Err(PlanError::Missing(path.clone())),
            PathFact::Special => Err(PlanError::Special(path.clone())),
            kind @ (PathFact::Directory | PathFact::File) => {
                self.bind(path, *kind == PathFact::Directory, writable);
                Ok(())
            }
            PathFact::Symlink { text, leads_to } => {
                self.symlink(path, text);
                let Some(target) = leads_to else {
                    return Ok(());
                };
                let target = HostPath {
                    path: target.clone(),
                    ..named.clone()
                };
                self.host_path(host, &target, writable)
            }
        }
    }

    fn bind(&mut self, path: &Path, directory: bool, writable: bool) {
        // What a directory that is already there contains is there with it.
        if !writable && self.is_mounted(path) {
            return;
        }
        self.place(path, directory);
        self.mounted.push(path.to_owned());
        let (source, path) = (path.to_owned(), path.to_owned());
        let place = if writable {
            Use::Full
        } else {
            Use::ReadExecute
        };
        self.grants.push(Grant {
            path: path.clone(),
            place,
            directory,
        });
        self.steps.push(TreeStep::Bind {
            source,
            path,
            directory,
            writable,
            owned: writable,
        });
    }

    /// A place to mount on, unless a mounted host directory has it already.
    fn place(&mut self, path: &Path, directory: bool) {
        if self.is_mounted(path) {
            return;
        }
        if directory {
            self.directory(path);
        } else {
            self.file(path, Vec::new());
        }
    }

    fn directory(&mut self, path: &Path) {
        let mut missing: Vec<_> = path
            .ancestors()
            .take_while(|path| path.parent().is_some())
            .collect();
        missing.reverse();
        for path in missing {
            if self.made.insert(path.to_owned()) {
                self.steps.push(TreeStep::Directory(path.to_owned()));
            }
        }
    }

    fn file(&mut self, path: &Path, content: Vec<u8>) {
        if let Some(parent) = path.parent() {
            self.directory(parent);
        }
        if self.made.insert(path.to_owned()) {
            self.steps.push(TreeStep::File {
                path: path.to_owned(),
                content,
            });
        }
    }

    fn decoy(&mut self, path: &Path) -> Result<(), PlanError> {
        if self.is_mounted(path) {
            return Err(PlanError::CoveredDecoy(path.to_owned()));
        }
        self.file(path, identity::decoy(path));
        self.grant(path, Use::Read, false);
        Ok(())
    }

    /// Whether a directory of the host is there already, with all it contains.
    fn is_mounted(&self, path: &Path) -> bool {
        self.mounted.iter().any(|mounted| path.starts_with(mounted))
    }

    fn symlink(&mut self, path: &Path, text: &Path) {
        if self.is_mounted(path) {
            return;
        }
        if let Some(parent) = path.parent() {
            self.directory(parent);
        }
        if self.made.insert(path.to_owned()) {
            self.steps.push(TreeStep::Symlink {
                path: path.to_owned(),
                text: text.to_owned(),
            });
        }
    }

    fn tmpfs(&mut self, path: &Path, size: u64) {
        let step = TreeStep::Tmpfs {
            path: path.to_owned(),
            size,
        };
        self.mount(step, path, Use::Full);
    }

    fn mount(&mut self, step: TreeStep, path: impl AsRef<Path>, place: Use) {
        let path = path.as_ref();
        self.place(path, true);
        self.steps.push(step);
        self.grant(path, place, true);
    }

    fn grant(&mut self, path: impl AsRef<Path>, place: Use, directory: bool) {
        self.grants.push(Grant {
            path: path.as_ref().to_owned(),
            place,
            directory,
        });
    }

    /// null(4), random(4), pts(4), and the links that programs expect.
    fn devices(&mut self) {
        self.directory(Path::new("/dev"));
        self.grant("/dev", Use::Device, true);
        let devices = [
            ("null", (1, 3)),
            ("zero", (1, 5)),
            ("full", (1, 7)),
            ("random", (1, 8)),
            ("urandom", (1, 9)),
        ];
        for (name, number) in devices {
            let path = Path::new("/dev").join(name);
            self.place(&path, false);
            self.steps.push(TreeStep::Device { path, number });
        }
        let links = [
            ("/dev/fd", "/proc/self/fd"),
            ("/dev/stdin", "/proc/self/fd/0"),
            ("/dev/stdout", "/proc/self/fd/1"),
            ("/dev/stderr", "/proc/self/fd/2"),
            ("/dev/ptmx", "pts/ptmx"),
        ];
        for (path, text) in links {
            self.symlink(Path::new(path), Path::new(text));
        }
        self.mount(
            TreeStep::Terminals("/dev/pts".into()),
            "/dev/pts",
            Use::Device,
        );
        self.tmpfs(Path::new("/dev/shm"), SHARED_MEMORY);
    }

    fn workdir(&mut self, workdir: Workdir, source: &Path) -> Result<(), PlanError> {
        let path = PathBuf::from(WORKSPACE);
        if workdir != Workdir::None && is_no_workdir(source) {
            return Err(PlanError::SystemWorkdir(source.to_owned()));
        }
        let source = source.to_owned();
        match workdir {
            Workdir::Overlay => {
                let step = TreeStep::Overlay {
                    source,
                    path: path.clone(),
                    size: OVERLAY,
                };
                self.mount(step, path, Use::Full);
            }
            Workdir::ReadOnly => {
                let (directory, writable, owned) = (true, false, true);
                let step = TreeStep::Bind {
                    source,
                    path: path.clone(),
                    directory,
                    writable,
                    owned,
                };
                self.mount(step, path, Use::ReadExecute);
            }
            Workdir::None => self.tmpfs(&path, OVERLAY),
        }
        Ok(())
    }
}

fn is_reserved(path: &Path) -> bool {
    let inside = RESERVED.iter().any(|reserved| path.starts_with(reserved));
    inside
        || RESERVED_ITSELF
            .iter()
            .any(|reserved| path == Path::new(reserved))
}

fn is_no_workdir(path: &Path) -> bool {
    path.parent().is_none() || NO_WORKDIR.iter().any(|system| path.starts_with(system))
}

/// What passes from the caller, then what the policy sets, which wins.
fn environment(policy: &Policy, caller: &[(OsString, OsString)]) -> Vec<OsString> {
    let set = &policy.environment.set;
    let passes = |name: &OsStr| {
        let named = |pass: &String| name == OsStr::new(pass);
        policy.environment.pass.iter().any(named) && !set.keys().any(|key| name == OsStr::new(key))
    };
    let passed = caller
        .iter()
        .filter(|(name, _)| passes(name))
        .map(|(name, value)| variable(name, value));
    let fixed = set
        .iter()
        .map(|(name, value)| variable(OsStr::new(name), OsStr::new(value)));
    passed.chain(fixed).collect()
}

fn variable(name: &OsStr, value: &OsStr) -> OsString {
    let mut variable = name.to_owned();
    variable.push("=");
    variable.push(value);
    variable
}

/// Where the program may be inside: a name with a slash is itself, relative ones below the
/// workspace; any other is looked up in the jail's PATH, as execvp(3) would.
fn candidates(arguments: &[OsString], environment: &[OsString]) -> Result<Vec<PathBuf>, PlanError> {
    let program = arguments
        .first()
        .filter(|program| !program.is_empty())
        .ok_or(PlanError::EmptyCommand)?;
    if program.as_bytes().contains(&b'/') {
        return Ok(vec![lexically_normal(&Path::new(WORKSPACE).join(program))]);
    }
    let path = environment
        .iter()
        .find_map(|variable| variable.as_bytes().strip_prefix(b"PATH="));
    let path = path.unwrap_or(DEFAULT_PATH.as_bytes());
    let directories = path
        .split(|byte| *byte == b':')
        .filter(|directory| directory.starts_with(b"/"));
    Ok(directories
        .map(|directory| Path::new(OsStr::from_bytes(directory)).join(program))
        .collect())
}

/// Without `.` components; `..` stays, because what is above a symlink is not known here.
fn lexically_normal(path: &Path) -> PathBuf {
    path.components()
        .filter(|component| *component != Component::CurDir)
        .collect()
}

/// An argument or variable for the kernel; bytes after a zero cannot be passed and are refused
/// by the caller long before.
pub(crate) fn c_string(text: &OsStr) -> std::ffi::CString {
    let bytes: Vec<u8> = text.to_owned().into_vec();
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    std::ffi::CString::new(&bytes[..end]).unwrap_or_default()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
