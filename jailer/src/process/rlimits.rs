//! The limits of each process, setrlimit(2), as data.

use nix::sys::resource::Resource;
use turnkey_policy::Limits;

use crate::groups::hierarchy::Ungrouped;
use crate::host::Host;
use crate::ids::Ids;

/// One limit; soft and hard are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    /// `RLIMIT_…`
    pub(crate) resource: Resource,
    /// Its line in `/proc/self/limits`.
    pub name: &'static str,
    /// As setrlimit(2) takes it.
    pub value: u64,
    /// What it is for.
    pub why: &'static str,
}

/// What a thread's stack reserves and mostly never uses.
const STACK: u64 = 8 << 20;

fn one(resource: Resource, name: &'static str, value: u64, why: &'static str) -> ResourceLimit {
    ResourceLimit {
        resource,
        name,
        value,
        why,
    }
}

/// The limits of every process in the jail, in the order they are set.
pub(crate) fn plan(limits: &Limits, host: &Host) -> Vec<ResourceLimit> {
    let mut plan = always(limits);
    plan.extend(instead_of_groups(limits, host.hierarchies.ungrouped()));
    if let Ids::Own(own) = &host.ids {
        // Without privileges nobody may set more than they have.
        for limit in &mut plan {
            limit.value = limit.value.min(own.hard_limit(limit.resource));
        }
    }
    plan
}

/// What bounds the tree between two looks where no control group does.
fn instead_of_groups(limits: &Limits, ungrouped: Ungrouped) -> Vec<ResourceLimit> {
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
pub(crate) fn data(limits: &Limits) -> u64 {
    let stacks = STACK.saturating_mul(u64::from(limits.pids));
    limits
        .memory
        .saturating_add(limits.swap)
        .saturating_add(stacks)
}

/// Tasks of the jail's user in the jail's user namespace, which is where the kernel counts them
/// since 5.14. One more than allowed: it is by the one too many that the limit shows as passed.
pub(crate) fn tasks(limits: &Limits) -> u64 {
    u64::from(limits.pids).saturating_add(1)
}

fn always(limits: &Limits) -> Vec<ResourceLimit> {
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
    ]
}
