//! The control group hierarchies of this host: cgroup v2 alone, or v2 beside v1 hierarchies.
//!
//! cgroups(7). The v2 group is always made, because it names the jail for the eBPF programs and
//! kills it whole. A controller that a v1 hierarchy holds is taken from there.

mod mounting;

use std::path::{Path, PathBuf};

use crate::kernel_file;
use crate::mountinfo::{self, MountinfoLine};

/// The controllers a jail is limited by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// memory and swap
    Memory,
    /// number of tasks
    Pids,
    /// share of CPU time
    Cpu,
    /// bytes read and written in a second
    Io,
}

impl Controller {
    /// Every controller.
    pub const ALL: [Controller; 4] = [
        Controller::Memory,
        Controller::Pids,
        Controller::Cpu,
        Controller::Io,
    ];

    /// The controllers that every jail is limited by.
    pub const ALWAYS: [Controller; 3] = [Controller::Memory, Controller::Pids, Controller::Cpu];

    /// As cgroup v2 names it.
    pub fn name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Pids => "pids",
            Controller::Cpu => "cpu",
            Controller::Io => "io",
        }
    }

    /// As cgroup v1 names it.
    fn legacy_name(self) -> &'static str {
        match self {
            Controller::Io => "blkio",
            other => other.name(),
        }
    }
}

/// The place of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerHome {
    /// In the v2 hierarchy.
    Unified,
    /// In a v1 hierarchy; below this directory a group can be made.
    Legacy(PathBuf),
    /// Nowhere.
    Missing,
}

/// The directories below which a jail's groups are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupHierarchies {
    /// A directory of the v2 hierarchy.
    pub unified: PathBuf,
    /// The place of each controller that the jail is limited by.
    homes: Vec<(Controller, ControllerHome)>,
    /// Further places in which runs that are limited by more make groups.
    elsewhere: Vec<PathBuf>,
    /// True when this caller can make no group at all.
    pub closed: bool,
    /// The cause of a missing controller, with the fix, where more is known than that.
    pub(crate) lacks: Option<String>,
}

/// The limits of a jail that no control group holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UngroupedLimits {
    /// Memory and swap.
    pub memory: bool,
    /// Tasks.
    pub pids: bool,
    /// CPU time.
    pub cpu_time: bool,
}

/// The reason why a jail cannot have groups.
#[derive(Debug, thiserror::Error)]
pub enum HierarchyError {
    /// /proc does not tell.
    #[error("could not read {path}; mount procfs where it belongs: mount -t proc proc /proc")]
    Proc {
        /// The file.
        path: &'static str,
        /// The error of the system.
        source: std::io::Error,
    },
    /// No v2 hierarchy, or one that is hidden by another mount. What mounts one here.
    #[error(
        "no cgroup v2 hierarchy can be reached here; as root, mount one: {0}; or do without what control groups hold: --best-effort"
    )]
    NoUnified(String),
}

impl CgroupHierarchies {
    /// Finds those that every jail is limited by in /proc/self.
    pub fn probe() -> Result<CgroupHierarchies, HierarchyError> {
        CgroupHierarchies::probe_for(&Controller::ALWAYS)
    }

    /// Finds these controllers in /proc/self.
    pub fn probe_for(wanted: &[Controller]) -> Result<CgroupHierarchies, HierarchyError> {
        let read =
            |path| kernel_file::read(path).map_err(|source| HierarchyError::Proc { path, source });
        let mounts = reachable(&read("/proc/self/mountinfo")?);
        let memberships = parse_memberships(&read("/proc/self/cgroup")?);
        let unified = mounts
            .iter()
            .find(|mount| mount.unified)
            .ok_or_else(|| HierarchyError::NoUnified(mounting::unified(&mounts, &memberships)))?;
        let own = memberships
            .iter()
            .find(|membership| membership.controllers.is_empty());
        let directory = unified.below(own.map_or("/", |own| own.path.as_str()));
        let mut parent = parent_with_controllers(&unified.directory, &directory, wanted);
        // What was delegated to this process may begin below a group that could limit it.
        if !takes_groups(&parent) && takes_groups(&directory) {
            parent = directory;
        }
        let available = kernel_file::read(parent.join("cgroup.controllers")).unwrap_or_default();
        let home = |controller| home(controller, &available, &mounts, &memberships);
        let homes = wanted
            .iter()
            .map(|controller| (*controller, home(*controller)));
        let others = Controller::ALL.into_iter();
        let others = others.filter(|controller| !wanted.contains(controller));
        let elsewhere = others.filter_map(|controller| match home(controller) {
            ControllerHome::Legacy(parent) => Some(parent),
            ControllerHome::Unified | ControllerHome::Missing => None,
        });
        Ok(CgroupHierarchies {
            unified: parent,
            homes: homes.collect(),
            elsewhere: elsewhere.collect(),
            closed: false,
            lacks: mounting::legacy(&mounts, &memberships),
        })
    }

    /// The part in which this process may make groups: without a v2 group, by which a jail is killed and
    /// known by, nothing.
    pub fn delegated(&self) -> CgroupHierarchies {
        if !takes_groups(&self.unified) {
            let unified = self.unified.display();
            return CgroupHierarchies::none(Some(format!(
                "no control group can be made in {unified}, which is closed or mounted read-only here; \
                 in a container, start it with --privileged"
            )));
        }
        let can_be_passed_on = |controller| passes_on(&self.unified, controller);
        let home = |controller| match self.home(controller) {
            ControllerHome::Legacy(parent) if !takes_groups(parent) => ControllerHome::Missing,
            ControllerHome::Unified if !can_be_passed_on(controller) => ControllerHome::Missing,
            other => other.clone(),
        };
        let homes: Vec<_> = self.controllers().map(|it| (it, home(it))).collect();
        let lacks = self.lacks.clone().or_else(|| {
            (homes != self.homes).then(|| {
                format!(
                    "the control group {} hands no controllers down, because processes are in the group itself; \
                     in a container, start it with --cgroupns=host",
                    self.unified.display()
                )
            })
        });
        CgroupHierarchies {
            homes,
            lacks,
            ..self.clone()
        }
    }

    /// For a caller who can have no group; why, where that is not the caller.
    pub fn none(lacks: Option<String>) -> CgroupHierarchies {
        CgroupHierarchies {
            unified: PathBuf::new(),
            homes: Vec::new(),
            elsewhere: Vec::new(),
            closed: true,
            lacks,
        }
    }

    /// The limits that no group of this caller counts.
    pub fn ungrouped(&self) -> UngroupedLimits {
        UngroupedLimits {
            memory: *self.home(Controller::Memory) == ControllerHome::Missing,
            pids: *self.home(Controller::Pids) == ControllerHome::Missing,
            // cpu.stat is in every v2 group, with or without the controller.
            cpu_time: self.closed,
        }
    }

    /// From what is known already: a directory of the v2 hierarchy, and where each controller is.
    pub fn new(unified: PathBuf, homes: Vec<(Controller, ControllerHome)>) -> CgroupHierarchies {
        CgroupHierarchies {
            unified,
            homes,
            elsewhere: Vec::new(),
            closed: false,
            lacks: None,
        }
    }

    /// The directories in which a run may make a group.
    pub(crate) fn parents(&self) -> impl Iterator<Item = &Path> {
        let homes = self.homes.iter().filter_map(|(_, home)| match home {
            ControllerHome::Legacy(parent) => Some(parent),
            ControllerHome::Unified | ControllerHome::Missing => None,
        });
        let parents = std::iter::once(&self.unified).chain(homes);
        parents.chain(&self.elsewhere).map(PathBuf::as_path)
    }

    /// The controllers that were looked for.
    pub fn controllers(&self) -> impl Iterator<Item = Controller> {
        self.homes.iter().map(|(controller, _)| *controller)
    }

    /// The place of `controller`; one that was not looked for is missing.
    pub fn home(&self, controller: Controller) -> &ControllerHome {
        let mut homes = self.homes.iter();
        let found = homes.find(|(known, _)| *known == controller);
        found.map_or(&ControllerHome::Missing, |(_, home)| home)
    }

    /// The cause of a missing controller, with the fix, where more is known than that.
    pub fn lacks(&self) -> Option<&str> {
        self.lacks.as_deref()
    }

    /// Directories of v1 in which runs that are limited by more make groups.
    pub fn elsewhere(&self) -> &[PathBuf] {
        &self.elsewhere
    }
}

fn home(
    controller: Controller,
    available: &str,
    mounts: &[CgroupMount],
    memberships: &[CgroupMembership],
) -> ControllerHome {
    let name = controller.name();
    if available.split_whitespace().any(|offered| offered == name) {
        return ControllerHome::Unified;
    }
    let name = controller.legacy_name();
    let held_by =
        |mount: &&CgroupMount| !mount.unified && mountinfo::has_option(&mount.options, name);
    let Some(mount) = mounts.iter().find(held_by) else {
        return ControllerHome::Missing;
    };
    let own = memberships
        .iter()
        .find(|membership| membership.controllers.iter().any(|held| held == name));
    ControllerHome::Legacy(mount.below(own.map_or("/", |own| own.path.as_str())))
}

/// The nearest group at or above our own that may have limited children: cgroups(7) forbids both
/// processes and controlled children in one group, except in the root.
fn parent_with_controllers(root: &Path, own: &Path, wanted: &[Controller]) -> PathBuf {
    let has_all = |directory: &Path| {
        let offered = kernel_file::read(directory.join("cgroup.controllers")).unwrap_or_default();
        let enabled =
            kernel_file::read(directory.join("cgroup.subtree_control")).unwrap_or_default();
        let has = |list: &str, name: &str| list.split_whitespace().any(|item| item == name);
        wanted.iter().all(|controller| {
            let name = controller.name();
            !has(&offered, name) || has(&enabled, name)
        })
    };
    own.ancestors()
        .take_while(|directory| directory.starts_with(root))
        .find(|directory| has_all(directory))
        .unwrap_or(root)
        .to_owned()
}

/// True when this process may make a group in `parent` and move a process there from within it,
/// cgroups(7) "Delegation".
fn takes_groups(parent: &Path) -> bool {
    use nix::unistd::{AccessFlags, eaccess};
    eaccess(parent, AccessFlags::W_OK).is_ok()
        && eaccess(&parent.join("cgroup.procs"), AccessFlags::W_OK).is_ok()
}

/// True when children of `parent` can have the controller: they have it already, or there is no
/// process in `parent` itself, cgroups(7) "no internal processes". The first group of all, the only one
/// without a type, is exempt.
fn passes_on(parent: &Path, controller: Controller) -> bool {
    let read = |file| kernel_file::read(parent.join(file)).unwrap_or_default();
    let enabled = read("cgroup.subtree_control");
    enabled
        .split_whitespace()
        .any(|name| name == controller.name())
        || !parent.join("cgroup.type").exists()
        || read("cgroup.procs").trim().is_empty()
}

/// One cgroup file system.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CgroupMount {
    /// The kernel's number of it.
    id: u64,
    /// The group that is its root, as /proc/self/cgroup would name it.
    root: String,
    /// The mount point.
    pub(crate) directory: PathBuf,
    /// v2
    pub(crate) unified: bool,
    /// Options of the super block; v1 names its controllers here.
    pub(crate) options: Vec<u8>,
}

impl CgroupMount {
    pub(crate) fn below(&self, group: &str) -> PathBuf {
        let relative = group.strip_prefix(&self.root).unwrap_or("");
        let relative = relative.trim_start_matches('/');
        if relative.is_empty() {
            self.directory.clone()
        } else {
            self.directory.join(relative)
        }
    }
}

/// One line of /proc/self/cgroup.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CgroupMembership {
    pub(crate) controllers: Vec<String>,
    pub(crate) path: String,
}

/// The mounts that are met at the place where they are mounted. What was mounted over one of them, or over a directory above
/// it, hides it, and the kernel lists it all the same.
pub(crate) fn reachable(mountinfo: &str) -> Vec<CgroupMount> {
    let mut mounts = parse_mounts(mountinfo);
    mounts.retain(|mount| mounted_at(&mount.directory) == Some(mount.id));
    mounts
}

/// The number of the mount that a path leads to.
fn mounted_at(path: &Path) -> Option<u64> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let known = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    Some(known.stx_mnt_id)
}

/// The cgroup file systems among the mounts.
pub(crate) fn parse_mounts(mountinfo: &str) -> Vec<CgroupMount> {
    let lines = mountinfo::lines(mountinfo.as_bytes());
    let groups = lines.filter(|line| line.kind == "cgroup" || line.kind == "cgroup2");
    let mount = |line: MountinfoLine| CgroupMount {
        id: line.id,
        root: line.root.to_string_lossy().into_owned(),
        directory: line.place,
        unified: line.kind == "cgroup2",
        options: line.super_options,
    };
    groups.map(mount).collect()
}

/// cgroups(7): `hierarchy:controllers:path`.
pub(crate) fn parse_memberships(text: &str) -> Vec<CgroupMembership> {
    let parse = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let controllers = controllers.split(',').filter(|name| !name.is_empty());
        Some(CgroupMembership {
            controllers: controllers.map(str::to_owned).collect(),
            path: path.to_owned(),
        })
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID_MOUNTS: &str = "\
25 20 0:22 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
26 25 0:23 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
30 25 0:27 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
34 25 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const HYBRID_MEMBERSHIPS: &str = "4:memory:/service/one\n1:cpu:/\n0::/\n";

    #[test]
    fn a_controller_is_found_where_it_lives() {
        let mounts = parse_mounts(HYBRID_MOUNTS);
        let memberships = parse_memberships(HYBRID_MEMBERSHIPS);
        let find = |controller| home(controller, "hugetlb", &mounts, &memberships);
        assert_eq!(
            find(Controller::Memory),
            ControllerHome::Legacy("/sys/fs/cgroup/memory/service/one".into())
        );
        assert_eq!(
            find(Controller::Cpu),
            ControllerHome::Legacy("/sys/fs/cgroup/cpu".into())
        );
        assert_eq!(find(Controller::Pids), ControllerHome::Missing);
    }

    #[test]
    fn the_unified_hierarchy_goes_first() {
        let mounts = parse_mounts(HYBRID_MOUNTS);
        let memberships = parse_memberships(HYBRID_MEMBERSHIPS);
        assert_eq!(
            home(Controller::Memory, "cpu memory pids", &mounts, &memberships),
            ControllerHome::Unified
        );
    }

    #[test]
    fn a_group_is_relative_to_the_root_of_its_mount() {
        let line = "26 25 0:23 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate";
        let mount = &parse_mounts(line)[0];
        assert!(mount.unified);
        assert_eq!(
            mount.below("/docker/abc/inner"),
            PathBuf::from("/sys/fs/cgroup/inner")
        );
        assert_eq!(mount.below("/docker/abc"), PathBuf::from("/sys/fs/cgroup"));
    }

    #[test]
    fn lines_of_other_shapes_are_passed_over() {
        assert!(parse_mounts("\n20 1 8:1 / / rw - ext4 /dev/root rw\nnonsense\n").is_empty());
        assert!(parse_memberships("nonsense\n").is_empty());
    }
}
