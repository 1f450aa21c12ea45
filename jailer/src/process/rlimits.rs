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

/// Limits that this process has and nobody inside can raise: who sets them has no capability any more.
#[derive(Clone, Debug, Default)]
pub struct HardLimits(Vec<(Resource, u64)>);

impl HardLimits {
    /// Reads this process's limits on what a jail sets.
    pub fn probe() -> HardLimits {
        let hard = |resource| Some((resource, getrlimit(resource).ok()?.1));
        HardLimits(SET.into_iter().filter_map(hard).collect())
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
        "processor time of one process, where no control group counts the tree's",
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
        // A caller who plays music has both, and no share of processor time binds a real-time task on every kernel.
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
