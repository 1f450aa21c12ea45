//! The control groups of one jail: made, limited, read back, killed, removed.
#![expect(
    clippy::disallowed_methods,
    reason = "of control groups, which root or the caller has"
)]

pub mod allowance;
pub mod hierarchy;
pub(crate) mod limits;
pub(crate) mod own;
pub(crate) mod proof;
pub(crate) mod sweep;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::groups::hierarchy::{CgroupHierarchies, Controller, ControllerHome};
use crate::groups::limits::GroupLimit;
use crate::groups::sweep::sweep;
use crate::host::fix;
use crate::kernel_file;
use turnkey_facts::Usage;

/// The time that the processes of a killed group may take to be gone, before that is an error.
const GONE_WITHIN: Duration = Duration::from_secs(10);

const ENABLE: &str = "enable a controller in";

/// An error with a control group.
#[derive(Debug, thiserror::Error)]
#[error("could not {act} {path}{fix}")]
pub struct GroupError {
    act: &'static str,
    path: String,
    fix: &'static str,
    source: io::Error,
}

impl GroupError {
    /// The fix; `None` where the message says it.
    pub(crate) fn fix(&self) -> Option<String> {
        self.fix
            .is_empty()
            .then(|| fix::by_errno(fix::errno_of(&self.source)))
    }
}

fn failed(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> GroupError {
    let path = path.display().to_string();
    move |source| {
        let fix = match source.kind() {
            io::ErrorKind::PermissionDenied => ": run as root, or have the group delegated to you",
            io::ErrorKind::ReadOnlyFilesystem => {
                ": the cgroup file system is mounted read-only here; remount it read-write, or start the container with --privileged"
            }
            // cgroups(7), "no internal processes".
            io::ErrorKind::ResourceBusy if act == ENABLE => {
                ": there are processes in that group; move them into a group below it, or start turnkey in one that was made for it; in a container, start it with --cgroupns=host"
            }
            _ => "",
        };
        GroupError {
            act,
            path,
            fix,
            source,
        }
    }
}

/// The names of the directories a jail's groups have, whether they exist yet or not. The keeper
/// knows them before they are made, so that none can be forgotten.
#[derive(Clone, Debug)]
pub struct GroupNames {
    unified: PathBuf,
    legacy: Vec<(Controller, PathBuf)>,
    missing: Vec<Controller>,
    /// The controllers that the v2 parent hands down.
    handed_down: Vec<Controller>,
    /// Further directories in which killed runs may have left groups.
    elsewhere: Vec<PathBuf>,
}

impl GroupNames {
    /// For a jail called `name`.
    pub fn new(hierarchies: &CgroupHierarchies, name: &str) -> GroupNames {
        let mut names = GroupNames {
            unified: hierarchies.unified.join(name),
            legacy: Vec::new(),
            missing: Vec::new(),
            handed_down: Vec::new(),
            elsewhere: hierarchies.elsewhere().to_vec(),
        };
        for controller in hierarchies.controllers() {
            match hierarchies.home(controller) {
                ControllerHome::Unified => names.handed_down.push(controller),
                ControllerHome::Legacy(parent) => {
                    names.legacy.push((controller, parent.join(name)))
                }
                ControllerHome::Missing => names.missing.push(controller),
            }
        }
        names
    }

    /// The v2 directory.
    pub fn unified(&self) -> &Path {
        &self.unified
    }

    /// All directories, the v2 one first.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.unified.as_path())
            .chain(self.legacy.iter().map(|(_, path)| path.as_path()))
    }
}

/// Makes a group that nobody but its owner and root can open: whoever could, could hold the lock on it that says that it has an
/// owner (see sweep.rs), for as long as they like.
fn make(path: &Path) -> Result<(), GroupError> {
    let made = fs::DirBuilder::new().mode(0o700).create(path);
    made.map_err(failed("make the control group", path))
}

/// The use of a process tree at one moment. `None` for what is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CurrentUsage {
    /// In bytes; with the page cache of its files.
    pub memory: Option<u64>,
    /// Processes and threads, the jail's first process among them.
    pub tasks: Option<u64>,
    /// So far, user and system together.
    pub cpu_time: Option<Duration>,
}

/// The groups of one jail. Dropping them kills whatever is inside and removes them.
#[derive(Debug)]
pub struct JailCgroups {
    names: GroupNames,
    directory: File,
    // Open for the lock on them, as the v2 directory is: see sweep.rs.
    _claims: Vec<File>,
    id: u64,
    removed: bool,
}

impl JailCgroups {
    /// Makes the groups, without limits, after removing what killed runs have left beside them.
    pub fn create(names: GroupNames) -> Result<JailCgroups, GroupError> {
        names.directories().filter_map(Path::parent).for_each(sweep);
        names.elsewhere.iter().for_each(|parent| sweep(parent));
        enable_controllers(&names)?;
        make(&names.unified)?;
        let directory = claim(&names.unified)?;
        let id = directory.metadata().map(|metadata| metadata.ino());
        let id = id.map_err(failed("look at the control group", &names.unified))?;
        let mut groups = JailCgroups {
            names,
            directory,
            _claims: Vec::new(),
            id,
            removed: false,
        };
        for (_, path) in &groups.names.legacy {
            make(path)?;
            groups._claims.push(claim(path)?);
        }
        Ok(groups)
    }

    /// The answer of `bpf_get_current_cgroup_id` inside: the inode of the v2 directory. No two
    /// living groups share one.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The path of the v2 directory.
    pub fn path(&self) -> &Path {
        self.names.unified()
    }

    /// The v2 directory.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Controllers that no hierarchy of this host offers.
    pub fn missing(&self) -> &[Controller] {
        &self.names.missing
    }

    /// Sets every limit whose controller this host has.
    pub fn limit(&self, limits: &[GroupLimit]) -> Result<(), GroupError> {
        for limit in limits {
            let Some(path) = self.file(limit.controller, limit.file) else {
                continue;
            };
            // Memory without an account of swap: refused by the caller, where swap exists.
            if limit.may_be_missing && !path.exists() {
                continue;
            }
            fs::write(&path, &limit.value).map_err(failed("set the limit", &path))?;
        }
        Ok(())
    }

    /// The limits as the kernel reads them back: file and content.
    pub fn limits_in_force(
        &self,
        limits: &[GroupLimit],
        of: Controller,
    ) -> Vec<(&'static str, String)> {
        let limits = limits.iter().filter(|limit| limit.controller == of);
        limits
            .filter_map(|limit| {
                let text = self.read(of, limit.file)?;
                Some((limit.file, limit.part_of(&text)?.to_owned()))
            })
            .collect()
    }

    /// True when the group that `of` limits lists this process.
    pub fn lists_process(&self, of: Controller, process: libc::pid_t) -> bool {
        let listed = self.read(of, "cgroup.procs").unwrap_or_default();
        let process = process.to_string();
        listed.lines().any(|line| line == process)
    }

    /// True when swap of the process tree is bounded: by the group, or because the host has none.
    pub fn swap_is_bounded(&self) -> bool {
        let file = if self.is_legacy(Controller::Memory) {
            "memory.memsw.limit_in_bytes"
        } else {
            "memory.swap.max"
        };
        self.file(Controller::Memory, file)
            .is_some_and(|path| path.exists())
            || !host_has_swap()
    }

    /// True when what sockets hold is counted: by v2 with all other memory, by v1 in a file of its own.
    pub fn sockets_are_counted(&self) -> bool {
        let file = self.file(Controller::Memory, limits::SOCKETS);
        !self.is_legacy(Controller::Memory) || file.is_some_and(|path| path.exists())
    }

    /// Bytes that sockets hold beside the other memory; 0 where they are part of it, or nobody counts them.
    pub fn socket_memory(&self) -> u64 {
        if !self.is_legacy(Controller::Memory) {
            return 0;
        }
        let used = self.read(Controller::Memory, "memory.kmem.tcp.usage_in_bytes");
        used.and_then(|used| used.parse().ok()).unwrap_or(0)
    }

    /// The files by which a thread that writes `0` enters the v1 groups; `tasks` in `Documentation/admin-guide/cgroup-v1`.
    pub fn legacy_task_files(&self) -> Result<Vec<File>, GroupError> {
        let open = |(_, path): &(Controller, PathBuf)| {
            let path = path.join("tasks");
            let opened = File::options().write(true).open(&path);
            opened.map_err(failed("open the door to", &path))
        };
        self.names.legacy.iter().map(open).collect()
    }

    /// Processes that the kernel's memory killer ended in here.
    pub fn oom_kills(&self) -> u64 {
        let file = if self.is_legacy(Controller::Memory) {
            "memory.oom_control"
        } else {
            "memory.events"
        };
        self.field(Controller::Memory, file, "oom_kill")
            .unwrap_or(0)
    }

    /// The number of times that a task could not be made because of the limit.
    pub fn pids_refused(&self) -> u64 {
        self.field(Controller::Pids, "pids.events", "max")
            .unwrap_or(0)
    }

    /// CPU time of the tree so far. cpu.stat is there in every v2 group, with or without
    /// the controller.
    pub fn cpu_time(&self) -> Option<Duration> {
        let [usage] = self.cpu_stat(["usage_usec"]);
        usage
    }

    /// The values of these keys of `cpu.stat` at one moment.
    fn cpu_stat<const N: usize>(&self, keys: [&str; N]) -> [Option<Duration>; N] {
        let text = kernel_file::read(self.names.unified.join("cpu.stat")).unwrap_or_default();
        keys.map(|key| flat_keyed(&text, key).map(Duration::from_micros))
    }

    /// The use of the process tree at this moment.
    pub fn now(&self) -> CurrentUsage {
        let number = |controller, file| self.read(controller, file)?.parse().ok();
        let memory = if self.is_legacy(Controller::Memory) {
            "memory.usage_in_bytes"
        } else {
            "memory.current"
        };
        CurrentUsage {
            memory: number(Controller::Memory, memory),
            tasks: number(Controller::Pids, "pids.current"),
            cpu_time: self.cpu_time(),
        }
    }

    /// The use of the process tree, beside what is known without groups.
    pub fn usage(&self, known: Usage) -> Usage {
        let number = |controller, file| self.read(controller, file)?.parse().ok();
        let memory_peak = if self.is_legacy(Controller::Memory) {
            "memory.max_usage_in_bytes"
        } else {
            "memory.peak"
        };
        let [user, system] = self.cpu_stat(["user_usec", "system_usec"]);
        Usage {
            user,
            system,
            throttled: self.throttled(),
            memory_peak: number(Controller::Memory, memory_peak),
            // A v1 hierarchy counts memory and swap together.
            swap_peak: number(Controller::Memory, "memory.swap.peak"),
            pids_peak: number(Controller::Pids, "pids.peak"),
            oom_kills: self.oom_kills(),
            ..known
        }
    }

    /// The time that the process tree waited because its share of CPU time was used up.
    fn throttled(&self) -> Option<Duration> {
        if self.is_legacy(Controller::Cpu) {
            let nanoseconds = self.field(Controller::Cpu, "cpu.stat", "throttled_time")?;
            return Some(Duration::from_nanos(nanoseconds));
        }
        let microseconds = self.field(Controller::Cpu, "cpu.stat", "throttled_usec")?;
        Some(Duration::from_micros(microseconds))
    }

    /// Kills every process inside, at once: `cgroup.kill`, cgroups-v2.
    pub fn kill(&self) -> Result<(), GroupError> {
        let path = self.names.unified.join("cgroup.kill");
        fs::write(&path, "1").map_err(failed("kill the jail through", &path))
    }

    /// True when a process is inside that has not ended.
    pub fn populated(&self) -> bool {
        kernel_file::read(self.names.unified.join("cgroup.events"))
            .is_ok_and(|text| flat_keyed(&text, "populated") == Some(1))
    }

    /// Kills what is left, waits until it is gone, and removes the groups.
    pub fn remove(mut self) -> Result<(), GroupError> {
        self.remove_all()
    }

    fn remove_all(&mut self) -> Result<(), GroupError> {
        self.removed = true;
        self.kill()?;
        let deadline = Instant::now() + GONE_WITHIN;
        let mut first_failure = None;
        for path in self.names.directories() {
            if let Err(failure) = remove_until(path, deadline) {
                first_failure.get_or_insert(failure);
            }
        }
        first_failure.map_or(Ok(()), Err)
    }

    fn is_legacy(&self, wanted: Controller) -> bool {
        self.names
            .legacy
            .iter()
            .any(|(controller, _)| *controller == wanted)
    }

    fn file(&self, wanted: Controller, file: &str) -> Option<PathBuf> {
        if self.names.missing.contains(&wanted) {
            return None;
        }
        let legacy = self
            .names
            .legacy
            .iter()
            .find(|(controller, _)| *controller == wanted);
        Some(
            legacy
                .map_or(&self.names.unified, |(_, path)| path)
                .join(file),
        )
    }

    fn read(&self, controller: Controller, file: &str) -> Option<String> {
        let text = kernel_file::read(self.file(controller, file)?).ok()?;
        Some(text.trim_end().to_owned())
    }

    fn field(&self, controller: Controller, file: &str, key: &str) -> Option<u64> {
        flat_keyed(&self.read(controller, file)?, key)
    }
}

impl Drop for JailCgroups {
    fn drop(&mut self) {
        if !self.removed {
            // The error that led here is the one to tell; the keeper tries again after us.
            let _ = self.remove_all();
        }
    }
}

/// Opens a group that has just been made and locks it, so that nobody takes it for left behind.
fn claim(group: &Path) -> Result<File, GroupError> {
    let directory = File::open(group).map_err(failed("open the control group", group))?;
    directory
        .try_lock()
        .map_err(io::Error::from)
        .map_err(failed("claim the control group", group))?;
    Ok(directory)
}

/// Lets children of the v2 parent be limited. Only ever adds, and only controllers it offers and the
/// jail is to have: in a group that was delegated together with processes in it, none can be passed on.
fn enable_controllers(names: &GroupNames) -> Result<(), GroupError> {
    let Some(parent) = names.unified.parent() else {
        return Ok(());
    };
    let file = parent.join("cgroup.subtree_control");
    let read = |path: &Path| kernel_file::read(path).map_err(failed("read", path));
    let (enabled, offered) = (read(&file)?, read(&parent.join("cgroup.controllers"))?);
    let has = |list: &str, name: &str| list.split_whitespace().any(|item| item == name);
    for name in names.handed_down.iter().map(|controller| controller.name()) {
        if has(&offered, name) && !has(&enabled, name) {
            fs::write(&file, format!("+{name}")).map_err(failed(ENABLE, &file))?;
        }
    }
    Ok(())
}

/// A killed process leaves its group only when it has died, which takes a moment.
fn remove_until(path: &Path, deadline: Instant) -> Result<(), GroupError> {
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(gone) if gone.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(busy)
                if busy.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_micros(500));
            }
            Err(other) => return Err(failed("remove the control group", path)(other)),
        }
    }
}

fn flat_keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        line.strip_prefix(key)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    })
}

fn host_has_swap() -> bool {
    // The first line of /proc/swaps is its heading.
    kernel_file::read("/proc/swaps").is_ok_and(|text| text.lines().count() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_matched_whole() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(flat_keyed(text, "oom_kill"), Some(3));
        assert_eq!(flat_keyed(text, "oom"), None);
        assert_eq!(flat_keyed("usage_usec 12\n", "usage_usec"), Some(12));
    }
}
