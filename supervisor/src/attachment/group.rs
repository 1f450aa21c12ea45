//! A control group that others made and fill, held by a descriptor.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::libc::CGROUP2_SUPER_MAGIC;
use nix::sys::stat::{Mode, fstat};
use nix::sys::statfs::fstatfs;
use nix::unistd::UnlinkatFlags;
use rustix::fs::{FlockOperation, flock};
use turnkey_jailer::{CurrentUsage, sweep};

/// The inode of the host's own cgroup namespace: `PROC_CGROUP_INIT_INO` of `linux/proc_ns.h`.
const HOSTS_NAMESPACE: u64 = 0xEFFF_FFFB;

/// Most groups below a group that are walked: a workload that makes more of them is told so.
const MOST_GROUPS: usize = 100_000;

/// The file by which the kernel kills a whole group, cgroups-v2.
const KILL: &str = "cgroup.kill";
const TYPE: &str = "cgroup.type";

/// The file in which the kernel says whether a process is in a group or below.
const EVENTS: &str = "cgroup.events";

/// More than that file holds: two lines.
const EVENTS_AT_MOST: usize = 256;

/// The flags by which a directory of the hierarchy is opened.
const DIRECTORY: OFlag = OFlag::O_DIRECTORY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// A group of the v2 hierarchy, which is found once, by its path, and is used by its descriptor from there on: its name may
/// be another group's by then.
#[derive(Debug)]
pub struct ForeignGroup {
    directory: OwnedFd,
    /// `cgroup.events` and `cgroup.kill`, opened beforehand: whoever lowers the watcher's limit of descriptors takes neither the
    /// answer nor the kill away.
    events: File,
    kill: File,
    /// The group as `/proc/PID/cgroup` writes it.
    name: PathBuf,
    id: u64,
}

impl ForeignGroup {
    /// The group at `path`: as `/proc/PID/cgroup` has it, or below where the hierarchy is mounted.
    ///
    /// # Errors
    /// When there is none, or it is one that cannot be attached to; the error names the fix.
    pub fn find(path: &Path) -> anyhow::Result<ForeignGroup> {
        let root = turnkey_monitor::hierarchy()
            .context("no cgroup v2 hierarchy is mounted: mount -t cgroup2 none /sys/fs/cgroup")?;
        own_namespace()?;
        let name = match path.strip_prefix(&root) {
            Ok(below) => Path::new("/").join(below),
            Err(_) => path.to_owned(),
        };
        ensure!(
            name.is_absolute() && name.components().all(is_plain),
            "{} is no group's path: write it as /proc/PID/cgroup does, such as /system.slice/cron.service",
            path.display()
        );
        let below = name.strip_prefix("/").unwrap_or(&name);
        ensure!(
            below.components().next().is_some(),
            "the root group holds every process of the host, turnkey among them: attach to a group below it"
        );
        let place = root.join(below);
        let directory = nix::fcntl::open(&place, DIRECTORY, Mode::empty())
            .with_context(|| format!("there is no group {}", place.display()))?;
        let kind = fstatfs(&directory)?.filesystem_type().0;
        ensure!(
            kind == CGROUP2_SUPER_MAGIC,
            "{} is no directory of the cgroup v2 hierarchy",
            place.display()
        );
        let id = fstat(&directory)?.st_ino;
        let opened = |file: &str, how: OFlag| {
            let flags = how | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let opened = openat(&directory, file, flags, Mode::empty()).map(File::from);
            opened.with_context(|| format!("{file} of {} could not be opened", name.display()))
        };
        let events = opened(EVENTS, OFlag::O_RDONLY)?;
        let kill = opened(KILL, OFlag::O_WRONLY)?;
        let group = ForeignGroup {
            directory,
            events,
            kill,
            name,
            id,
        };
        group.require_without_us()?;
        group.require_domain()?;
        Ok(group)
    }

    /// The kernel kills whole processes, and of a threaded group only its domain has those: cgroups-v2, "Threads".
    fn require_domain(&self) -> anyhow::Result<()> {
        let mut kind = String::new();
        self.open(TYPE)?.read_to_string(&mut kind)?;
        ensure!(
            !matches!(kind.trim_end(), "threaded" | "domain invalid"),
            "{} is a threaded group, which has threads and no processes: attach to its domain, the nearest group above whose \
             {TYPE} says \"domain threaded\"",
            self.name.display()
        );
        Ok(())
    }

    /// The group that a process is in.
    ///
    /// # Errors
    /// When there is no such process, or as [`ForeignGroup::find`].
    pub fn of_process(pid: u32) -> anyhow::Result<ForeignGroup> {
        let group = group_of(&format!("/proc/{pid}/cgroup"))
            .with_context(|| format!("there is no process {pid}"))?;
        ForeignGroup::find(&group)
    }

    /// Turnkey would watch, and end, itself.
    fn require_without_us(&self) -> anyhow::Result<()> {
        let own = group_of("/proc/self/cgroup")?;
        ensure!(
            !own.starts_with(&self.name),
            "turnkey itself is in {}: it would watch itself, and end with the group; start it from another group, as by \
             systemd-run --scope",
            self.name.display()
        );
        Ok(())
    }

    /// The group as `/proc/PID/cgroup` writes it.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// The path of its directory.
    ///
    /// # Errors
    /// When /proc does not tell.
    pub fn directory(&self) -> anyhow::Result<PathBuf> {
        Ok(turnkey_jailer::paths::place_of(&self.directory)?)
    }

    /// The kernel's id of it: its inode.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The level in the hierarchy, whose root is at 0.
    pub fn level(&self) -> NonZeroU32 {
        let below = self.name.components().count() - 1;
        let level = u32::try_from(below).ok().and_then(NonZeroU32::new);
        level.unwrap_or(NonZeroU32::MIN)
    }

    /// Opens one of its files to be read.
    pub fn open(&self, file: &str) -> nix::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(&self.directory, file, flags, Mode::empty()).map(File::from)
    }

    /// Opens one of its files to be written.
    pub fn open_to_write(&self, file: &str) -> nix::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(&self.directory, file, flags, Mode::empty()).map(File::from)
    }

    /// Kills every process of the group and of all groups below, at once: `cgroup.kill`, cgroups-v2.
    ///
    /// # Errors
    /// When the kernel refuses; a group that is gone has no process.
    pub fn kill(&self) -> io::Result<()> {
        gone_is_dead((&self.kill).write_all(b"1"))
    }

    /// The use of the group and of those below at this moment. Memory and tasks are unknown where those controllers are of
    /// cgroup v1.
    pub fn now(&self) -> CurrentUsage {
        let read = |file: &str| {
            let mut text = String::new();
            self.open(file).ok()?.read_to_string(&mut text).ok()?;
            Some(text)
        };
        let number = |file| read(file)?.trim_end().parse().ok();
        let cpu = read("cpu.stat").and_then(|text| {
            let used = text
                .lines()
                .find_map(|line| line.strip_prefix("usage_usec "));
            used?.parse().ok()
        });
        CurrentUsage {
            memory: number("memory.current"),
            tasks: number("pids.current"),
            cpu_time: cpu.map(Duration::from_micros),
        }
    }

    /// Opens what [`ForeignGroup::kill`] writes to, for somebody else to do it.
    pub fn open_kill(&self) -> nix::Result<File> {
        self.open_to_write(KILL)
    }

    /// True unless every process of it, and of the groups below, has ended. A group that does not answer is not empty: it would be
    /// let go.
    pub fn is_populated(&self) -> bool {
        match self.events() {
            Ok(text) => !text.lines().any(|line| line == "populated 0"),
            Err(error) => !is_of_a_gone_group(&error),
        }
    }

    /// True when the group itself was removed: a new one of its name is another.
    pub fn is_gone(&self) -> bool {
        self.events().is_err_and(|error| is_of_a_gone_group(&error))
    }

    fn events(&self) -> io::Result<String> {
        let mut text = [0; EVENTS_AT_MOST];
        let length = self.events.read_at(&mut text, 0)?;
        Ok(String::from_utf8_lossy(&text[..length]).into_owned())
    }

    /// The ids of all processes in it and below, and the number of groups below.
    ///
    /// # Errors
    /// When a group cannot be read, or too many are there to be walked.
    pub fn processes(&self) -> anyhow::Result<(Vec<u32>, u64)> {
        let mut found = Vec::new();
        let mut below = 0;
        // By their paths below this one, so that no more than one is open at a time.
        let mut left = vec![PathBuf::from(".")];
        while let Some(path) = left.pop() {
            let group = match open_below(self.directory.as_fd(), &path) {
                // One that is gone meanwhile has no process.
                Err(Errno::ENOENT | Errno::ENODEV) => continue,
                opened => opened.with_context(|| self.unlisted(&path))?,
            };
            found.extend(processes_in(group.as_fd()).with_context(|| self.unlisted(&path))?);
            for name in groups_in(group.as_fd()).with_context(|| self.unlisted(&path))? {
                below += 1;
                ensure!(
                    below <= MOST_GROUPS,
                    "more than {MOST_GROUPS} groups are below {}",
                    self.name.display()
                );
                left.push(path.join(name));
            }
        }
        Ok((found, u64::try_from(below).unwrap_or(u64::MAX)))
    }

    fn unlisted(&self, path: &Path) -> String {
        let group = self.name.join(path);
        format!("the processes of {} could not be listed", group.display())
    }

    /// Tells runs that sweep what others have left that this group is waited for. Where its owner is a run that lives, nobody
    /// sweeps it, and this is tried again.
    pub fn claim(&self) {
        let shared = FlockOperation::NonBlockingLockShared;
        let _ = flock(&self.directory, shared);
    }

    /// Makes a group at the same level, with a leaf below, in which canaries fly: in a branch of its own, where they are in nobody's
    /// watched group. Another turnkey that watches a group above would see them come, and go.
    ///
    /// # Errors
    /// When the kernel does not let this process make groups there.
    pub fn canary_group(&self) -> anyhow::Result<CanaryGroup> {
        let root = turnkey_monitor::hierarchy().context("no cgroup v2 hierarchy is mounted")?;
        sweep(&root);
        let above = nix::fcntl::open(&root, DIRECTORY, Mode::empty())?;
        let name = format!("turnkey-canary-{}", std::process::id());
        make_in(above.as_fd(), &name)
            .with_context(|| format!("no group can be made in {}", root.display()))?;
        let top = openat(&above, name.as_str(), DIRECTORY, Mode::empty())?;
        // Runs that start meanwhile leave it alone, with all below.
        flock(&top, FlockOperation::NonBlockingLockExclusive)?;
        let mut made = CanaryGroup {
            groups: vec![(above, name)],
            leaf: top,
        };
        for _ in 0..self.level().get() {
            made.go_down()?;
        }
        Ok(made)
    }
}

impl AsFd for ForeignGroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// The name of each group below a [`CanaryGroup`]'s first.
const BELOW: &str = "below";

/// A branch of groups for canaries alone; removed when dropped.
pub struct CanaryGroup {
    /// Each with the one above and its name there: from the first one down.
    groups: Vec<(OwnedFd, String)>,
    /// The last one, in which canaries are.
    leaf: OwnedFd,
}

impl CanaryGroup {
    fn go_down(&mut self) -> anyhow::Result<()> {
        make_in(self.leaf.as_fd(), BELOW)?;
        let below = openat(&self.leaf, BELOW, DIRECTORY, Mode::empty())?;
        let above = std::mem::replace(&mut self.leaf, below);
        self.groups.push((above, BELOW.to_owned()));
        Ok(())
    }

    /// The group at the level, which is right above the leaf, with its id.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn watched(&self) -> nix::Result<(BorrowedFd<'_>, u64)> {
        let above = self.groups.last().map_or(&self.leaf, |(above, _)| above);
        Ok((above.as_fd(), fstat(above)?.st_ino))
    }

    /// The group below it, in which canaries are.
    pub fn leaf(&self) -> BorrowedFd<'_> {
        self.leaf.as_fd()
    }
}

impl Drop for CanaryGroup {
    fn drop(&mut self) {
        // They held canaries alone, which were waited for.
        for (above, name) in self.groups.iter().rev() {
            let _ = nix::unistd::unlinkat(above, name.as_str(), UnlinkatFlags::RemoveDir);
        }
    }
}

/// As the groups of jails: to be opened, and locked, by its owner and root alone.
fn make_in(directory: BorrowedFd<'_>, name: &str) -> nix::Result<()> {
    nix::sys::stat::mkdirat(directory, name, Mode::S_IRWXU)
}

/// Opens a group below another, through no link and not above it.
fn open_below(group: BorrowedFd<'_>, path: &Path) -> nix::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(DIRECTORY)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
    openat2(group, path, how)
}

/// The ids in `cgroup.procs`; a threaded group tells none there (EOPNOTSUPP), and its processes are told by the group that
/// its threads' domain is.
fn processes_in(group: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut text = String::new();
    let read = openat(group, "cgroup.procs", flags, Mode::empty())
        .map_err(io::Error::from)
        .and_then(|file| File::from(file).read_to_string(&mut text));
    const NONE_HERE: [Errno; 3] = [Errno::EOPNOTSUPP, Errno::ENOENT, Errno::ENODEV];
    match read {
        Ok(_) => Ok(text.lines().filter_map(|line| line.parse().ok()).collect()),
        Err(error) if NONE_HERE.contains(&Errno::from_raw(error.raw_os_error().unwrap_or(0))) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

/// The names of the groups right below.
fn groups_in(group: BorrowedFd<'_>) -> anyhow::Result<Vec<std::ffi::OsString>> {
    let mut directory = match Dir::openat(group, ".", DIRECTORY, Mode::empty()) {
        Err(Errno::ENOENT | Errno::ENODEV) => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut names = Vec::new();
    for entry in directory.iter() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let is_group = entry.file_type() == Some(nix::dir::Type::Directory);
        if is_group && name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

/// The v2 group in such a file: the line `0::PATH`, cgroups(7).
#[expect(clippy::disallowed_methods, reason = "of /proc")]
pub(super) fn group_of(file: &str) -> anyhow::Result<PathBuf> {
    let text = std::fs::read(file)?;
    let mut lines = text.split(|byte| *byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(b"0::"));
    let line = line.context("this kernel has no cgroup v2 hierarchy")?;
    let deleted = line.strip_suffix(b" (deleted)");
    ensure!(deleted.is_none(), "its group was removed");
    Ok(PathBuf::from(OsStr::from_bytes(line)))
}

/// Paths in another namespace count from another root, and levels with them.
fn own_namespace() -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let own = std::fs::metadata("/proc/self/ns/cgroup").context("/proc is not mounted")?;
    if own.ino() == HOSTS_NAMESPACE {
        return Ok(());
    }
    bail!(
        "this process is in a cgroup namespace, where the levels of groups are not the host's: start turnkey on the host, or by \
         nsenter --cgroup=/proc/1/ns/cgroup"
    )
}

fn is_plain(component: std::path::Component<'_>) -> bool {
    matches!(
        component,
        std::path::Component::RootDir | std::path::Component::Normal(_)
    )
}

fn is_of_a_gone_group(error: &io::Error) -> bool {
    let gone = [Errno::ENODEV as i32, Errno::ENOENT as i32];
    error
        .raw_os_error()
        .is_some_and(|error| gone.contains(&error))
}

/// A group that was removed meanwhile has no process any more: the kernel says `ENOENT` of one that is being removed (cgroup_kill_write in
/// kernel/cgroup/cgroup.c), and `ENODEV` behind.
pub fn gone_is_dead(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if is_of_a_gone_group(&error) => Ok(()),
        written => written,
    }
}
