//! The limits of each process, setrlimit(2), as data.

use nix::sys::resource::{Resource, getrlimit};
use turnkey_policy::JailLimits;

use crate::groups::hierarchy::UngroupedLimits;
use crate::ids::NamespaceIds;

/// One limit; soft and hard are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    /// `RLIMIT_…`
    pub(crate) resource: Resource,
    /// The limit's line in `/proc/self/limits`.
    pub name: &'static str,
    /// As setrlimit(2) takes it.
    pub value: u64,
    /// The purpose of the limit.
    pub why: &'static str,
}

/// The size that a thread's stack reserves and mostly never uses.
const STACK: u64 = 8 << 20;

/// More than programs use: each POSIX timer is one, and each real-time signal that waits.
const SIGNALS: u64 = 4096;
/// The kernel's own default.
const LOCKED: u64 = 8 << 20;
/// The kernel's own default.
const QUEUES: u64 = 819_200;

fn one(resource: Resource, name: &'static str, value: u64, why: &'static str) -> ResourceLimit {
    ResourceLimit {
        resource,
        name,
        value,
        why,
    }
}

/// Limits that a process has and cannot raise itself: in a jail nobody can, who has no capability there.
#[derive(Clone, Debug, Default)]
pub struct HardLimits(Vec<(Resource, u64)>);

impl HardLimits {
    /// Reads this process's limits on what a jail sets.
    pub fn probe() -> HardLimits {
        let hard = |resource| Some((resource, getrlimit(resource).ok()?.1));
        HardLimits(SET.into_iter().filter_map(hard).collect())
    }

    /// Reads those of another process, for whom a jail is made.
    ///
    /// # Errors
    /// When /proc does not tell.
    pub fn read(pid: u32) -> std::io::Result<HardLimits> {
        let text = crate::kernel_file::read(format!("/proc/{pid}/limits"))?;
        let limits = NAMED.into_iter().map(|(resource, name)| {
            let words = text.lines().find_map(|line| line.strip_prefix(name))?;
            let hard = match words.split_whitespace().nth(1)? {
                "unlimited" => libc::RLIM_INFINITY,
                number => number.parse().ok()?,
            };
            Some((resource, hard))
        });
        let read: Option<_> = limits.collect();
        read.map(HardLimits)
            .ok_or_else(|| std::io::Error::other("its limits are told in another form"))
    }

    /// Descriptors of one process at most.
    pub fn open_files(&self) -> u64 {
        self.hard_limit(Resource::RLIMIT_NOFILE)
    }

    /// Bytes of one file at most.
    pub fn file_size(&self) -> u64 {
        self.hard_limit(Resource::RLIMIT_FSIZE)
    }

    /// Tasks of its user at most.
    pub fn tasks(&self) -> u64 {
        self.hard_limit(Resource::RLIMIT_NPROC)
    }

    /// The most that can be set for `resource`.
    fn hard_limit(&self, resource: Resource) -> u64 {
        let known = self.0.iter().find(|(known, _)| *known == resource);
        known.map_or(libc::RLIM_INFINITY, |(_, hard)| *hard)
    }
}

/// The resources that a jail limits.
const SET: [Resource; 11] = [
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_CORE,
    Resource::RLIMIT_SIGPENDING,
    Resource::RLIMIT_MEMLOCK,
    Resource::RLIMIT_MSGQUEUE,
    Resource::RLIMIT_RTPRIO,
    Resource::RLIMIT_NICE,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_NPROC,
    Resource::RLIMIT_CPU,
];

/// The resources that a caller may limit for its own processes, with the lines of /proc/PID/limits.
const NAMED: [(Resource, &str); 10] = [
    (Resource::RLIMIT_NOFILE, "Max open files"),
    (Resource::RLIMIT_FSIZE, "Max file size"),
    (Resource::RLIMIT_SIGPENDING, "Max pending signals"),
    (Resource::RLIMIT_MEMLOCK, "Max locked memory"),
    (Resource::RLIMIT_MSGQUEUE, "Max msgqueue size"),
    (Resource::RLIMIT_NPROC, "Max processes"),
    (Resource::RLIMIT_AS, "Max address space"),
    (Resource::RLIMIT_DATA, "Max data size"),
    (Resource::RLIMIT_STACK, "Max stack size"),
    (Resource::RLIMIT_CPU, "Max cpu time"),
];

/// Resources that a jail sets no limit of itself, and that its processes would inherit where the caller makes it.
const INHERITED: [Resource; 4] = [
    Resource::RLIMIT_AS,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_STACK,
    Resource::RLIMIT_CPU,
];

/// Holds the processes of a jail to what its caller's own may have.
pub(crate) fn within(plan: &mut Vec<ResourceLimit>, caller: &HardLimits) {
    for limit in plan.iter_mut() {
        limit.value = limit.value.min(caller.hard_limit(limit.resource));
    }
    for (resource, name) in NAMED {
        let value = caller.hard_limit(resource);
        let is_set = plan.iter().any(|limit| limit.resource == resource);
        if INHERITED.contains(&resource) && value != libc::RLIM_INFINITY && !is_set {
            let why = "the caller's own processes may have no more";
            plan.push(one(resource, name, value, why));
        }
    }
}

/// The limits of every process in the jail, in the order they are set.
pub(crate) fn plan(
    limits: &JailLimits,
    hard: &HardLimits,
    ids: &NamespaceIds,
    ungrouped: UngroupedLimits,
) -> Vec<ResourceLimit> {
    let mut plan = always(limits);
    plan.extend(of_the_user(hard, ids));
    plan.extend(instead_of_groups(limits, ungrouped));
    for limit in &mut plan {
        limit.value = limit.value.min(hard.hard_limit(limit.resource));
    }
    plan
}

/// The limits on what the kernel counts for all processes of a user together, which would otherwise be the caller's. Where
/// the jail's user counts as the caller, half of the caller's own is left.
fn of_the_user(hard: &HardLimits, ids: &NamespaceIds) -> Vec<ResourceLimit> {
    let share = |limit: ResourceLimit| {
        let half = hard.hard_limit(limit.resource) / 2;
        let value = match ids {
            NamespaceIds::All => limit.value,
            NamespaceIds::Own(_) => limit.value.min(half),
        };
        ResourceLimit { value, ..limit }
    };
    let limits = [
        one(
            Resource::RLIMIT_SIGPENDING,
            "Max pending signals",
            SIGNALS,
            "signals that wait, and POSIX timers, of the jail's user",
        ),
        one(
            Resource::RLIMIT_MEMLOCK,
            "Max locked memory",
            LOCKED,
            "bytes that cannot be swapped out, of one process",
        ),
        one(
            Resource::RLIMIT_MSGQUEUE,
            "Max msgqueue size",
            QUEUES,
            "bytes of POSIX message queues, of the jail's user",
        ),
    ];
    limits.map(share).to_vec()
}

/// The limits that bound the process tree between two looks where no control group does.
fn instead_of_groups(limits: &JailLimits, ungrouped: UngroupedLimits) -> Vec<ResourceLimit> {
    let data = one(
        Resource::RLIMIT_DATA,
        "Max data size",
        data(limits),
        "bytes of data of one process, where no control group bounds the tree",
    );
    let tasks = one(
        Resource::RLIMIT_NPROC,
        "Max processes",
        tasks(limits),
        "tasks of the jail's user namespace, where no control group bounds the tree",
    );
    let seconds = one(
        Resource::RLIMIT_CPU,
        "Max cpu time",
        limits.cpu_time.as_secs().saturating_add(2),
        "CPU time of one process, where no control group counts the tree's",
    );
    let wanted = [
        (ungrouped.memory, data),
        (ungrouped.pids, tasks),
        (ungrouped.cpu_time, seconds),
    ];
    wanted
        .into_iter()
        .filter_map(|(wanted, limit)| wanted.then_some(limit))
        .collect()
}

/// Data of one process. Stacks of threads are reserved and not used, and are no reason to refuse
/// a thread.
pub(crate) fn data(limits: &JailLimits) -> u64 {
    let stacks = STACK.saturating_mul(u64::from(limits.pids));
    limits
        .memory
        .saturating_add(limits.swap)
        .saturating_add(stacks)
}

/// Tasks of the jail's user in the jail's user namespace, which is where the kernel counts them
/// since 5.14. One more than allowed: it is by the one too many that the limit shows as passed.
pub(crate) fn tasks(limits: &JailLimits) -> u64 {
    u64::from(limits.pids).saturating_add(1)
}

fn always(limits: &JailLimits) -> Vec<ResourceLimit> {
    vec![
        one(
            Resource::RLIMIT_NOFILE,
            "Max open files",
            u64::from(limits.open_files),
            "descriptors of one process",
        ),
        one(
            Resource::RLIMIT_FSIZE,
            "Max file size",
            limits.file_size,
            "bytes of one file",
        ),
        // do_coredump() in fs/coredump.c: a limit of 0 would still start the host's crash handler.
        one(
            Resource::RLIMIT_CORE,
            "Max core file size",
            1,
            "1 byte is the kernel's sign for no core, not even through a pipe",
        ),
        // A caller who plays music has both, and no share of CPU time binds a real-time task on every kernel.
        one(
            Resource::RLIMIT_RTPRIO,
            "Max realtime priority",
            0,
            "no real-time scheduling",
        ),
        one(
            Resource::RLIMIT_NICE,
            "Max nice priority",
            0,
            "no priority above the one it starts with",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_process_are_read_as_the_kernel_has_them() {
        let read = HardLimits::read(std::process::id()).unwrap();
        assert_eq!(read.0.len(), NAMED.len());
        for (resource, hard) in read.0 {
            assert_eq!(hard, getrlimit(resource).unwrap().1, "{resource:?}");
        }
        assert!(HardLimits::read(u32::MAX).is_err());
    }

    #[test]
    fn a_caller_gets_no_more_than_it_has() {
        let policy = JailLimits::default();
        let ids = NamespaceIds::All;
        let before = plan(
            &policy,
            &HardLimits::default(),
            &ids,
            UngroupedLimits::default(),
        );
        let mut same = before.clone();
        within(&mut same, &HardLimits::default());
        assert_eq!(same, before, "who has no limits changes none");
        let few = [
            (Resource::RLIMIT_NOFILE, 20),
            (Resource::RLIMIT_FSIZE, u64::MAX >> 1),
            (Resource::RLIMIT_AS, 1 << 30),
            // The tree is counted by its group, and by the jail's own user.
            (Resource::RLIMIT_NPROC, 5),
        ];
        let mut held = before.clone();
        within(&mut held, &HardLimits(few.to_vec()));
        let value = |plan: &[ResourceLimit], name| {
            let found = plan.iter().find(|limit| limit.name == name);
            found.map(|limit| limit.value)
        };
        assert_eq!(value(&held, "Max open files"), Some(20));
        let file_size = value(&before, "Max file size");
        assert_eq!(value(&held, "Max file size"), file_size);
        assert_eq!(value(&held, "Max address space"), Some(1 << 30));
        assert_eq!(value(&held, "Max processes"), None);
    }
}
