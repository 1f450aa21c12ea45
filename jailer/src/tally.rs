//! The use of a jail, counted and limited: by control groups where they can be had, and where not, by
//! looks at its processes from outside.
//!
//! Runs as: the supervisor. Dropping a tally kills what is in its groups and removes them.

mod census;
mod locks;
mod procfs;
pub(crate) mod sample;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use turnkey_policy::{JailLimits, LimitResponse};

use crate::error::JailError;
use crate::groups::JailCgroups;
use crate::groups::hierarchy::UngroupedLimits;
use crate::process::init_handle::InitHandle;
use crate::process::keeper::Keeper;
use crate::sys::{self, ChildUsage};
use crate::tally::locks::LockLooks;
use crate::tally::sample::UsageSampler;
use turnkey_facts::{Limit, MetLimit, Usage};

/// The counter of a jail's use.
// The order of the fields is the order of the end: groups, then the keeper that looks after them.
#[derive(Debug)]
pub struct UsageTally {
    grouped: Option<KeptGroups>,
    sampler: Option<UsageSampler>,
    /// The jail's first process, when it is there.
    init: Option<libc::pid_t>,
    /// The same, when it is in a network of its own.
    networked: Option<libc::pid_t>,
    /// The most bytes that waited in sockets of the kernel's which no group counts.
    unread: u64,
    locks: LockLooks,
    ungrouped: UngroupedLimits,
    limits: JailLimits,
    /// CPU time at the last look.
    used: Option<Duration>,
    still: bool,
    /// The limits that the kernel held by refusing more, as of the last look.
    met: Vec<MetLimit>,
}

/// The groups of a jail, and who removes them when this process cannot.
#[derive(Debug)]
pub struct KeptGroups {
    groups: JailCgroups,
    keeper: Keeper,
}

impl KeptGroups {
    /// The keeper was there before the groups were.
    pub fn new(groups: JailCgroups, keeper: Keeper) -> KeptGroups {
        KeptGroups { groups, keeper }
    }
}

impl UsageTally {
    /// For a jail that has no process yet, of which no group counts what is `ungrouped`.
    pub fn new(
        grouped: Option<KeptGroups>,
        ungrouped: UngroupedLimits,
        limits: &JailLimits,
    ) -> UsageTally {
        UsageTally {
            grouped,
            sampler: None,
            init: None,
            networked: None,
            unread: 0,
            locks: LockLooks::default(),
            ungrouped,
            limits: limits.clone(),
            used: None,
            still: false,
            met: Vec::new(),
        }
    }

    /// The groups, if there are any.
    pub fn groups(&self) -> Option<&JailCgroups> {
        self.grouped.as_ref().map(|grouped| &grouped.groups)
    }

    /// Takes note of the jail's first process, of its network being its own, and of the file system that takes its
    /// writes.
    pub fn begin(
        &mut self,
        (init, own_network): (libc::pid_t, bool),
        written: Option<BorrowedFd<'_>>,
    ) -> Result<(), JailError> {
        self.init = Some(init);
        self.networked = own_network.then_some(init);
        if self.ungrouped != UngroupedLimits::default() {
            let written = written.map(|written| written.try_clone_to_owned());
            let written = written.transpose().map_err(|error| JailError::System {
                act: "keep a descriptor of what is written",
                source: Errno::from_raw(error.raw_os_error().unwrap_or(0)),
            })?;
            self.sampler = Some(UsageSampler::new(init, written));
        }
        Ok(())
    }

    /// The limit that has been passed and ends the run, if any; `elapsed` since the release.
    pub fn exceeded(&mut self, elapsed: Duration) -> Option<Limit> {
        let used = self.groups().and_then(JailCgroups::cpu_time);
        self.still = used.is_some() && used == self.used && self.sampler.is_none();
        self.used = used;
        self.note_met(elapsed);
        let limits = &self.limits;
        let ends = |limit| response_of_limit(limit, limits) == LimitResponse::Kill;
        let met = self
            .met
            .iter()
            .map(|met| met.limit)
            .find(|limit| ends(*limit));
        met.or_else(|| counted(self.groups()?, used, limits))
            .or_else(|| self.unread())
            .or_else(|| self.locked(used))
            .or_else(|| self.seen())
    }

    /// The limits that the kernel held by refusing more, until `elapsed` after the release.
    pub fn met(&mut self, elapsed: Duration) -> Vec<MetLimit> {
        self.note_met(elapsed);
        self.met.clone()
    }

    fn note_met(&mut self, elapsed: Duration) {
        let Some(groups) = self.groups() else {
            return;
        };
        let counts = [
            (Limit::Memory, groups.oom_kills()),
            (Limit::Pids, groups.pids_refused()),
        ];
        let met = counts.into_iter().filter(|(_, count)| *count > 0);
        let before = |limit| self.met.iter().find(|met| met.limit == limit);
        self.met = met
            .map(|(limit, count)| MetLimit {
                limit,
                count,
                after: before(limit).map_or(elapsed, |met| met.after),
            })
            .collect();
    }

    /// True when nothing of the jail has run between the last two looks, and the kernel itself holds it to its
    /// limits.
    pub fn is_still(&self) -> bool {
        self.still
    }

    /// Answers that the program has not read from the kernel are memory that no group counts.
    fn unread(&mut self) -> Option<Limit> {
        let unread = self.networked.map_or(0, procfs::unread_of_netlink);
        self.unread = self.unread.max(unread);
        (unread > self.limits.memory).then_some(Limit::Memory)
    }

    /// Locks on parts of files are memory that no group counts either.
    fn locked(&mut self, used: Option<Duration>) -> Option<Limit> {
        let memory = self.limits.memory;
        let locked = self.locks.look((self.init?, self.still), used, memory);
        (locked > memory).then_some(Limit::Memory)
    }

    /// Looks once at what the jail uses, and returns the limit that it passed.
    fn seen(&mut self) -> Option<Limit> {
        let memory = self.limits.memory.saturating_add(self.limits.swap);
        let ungrouped = self.ungrouped;
        let look = self.sampler.as_mut()?.look(memory);
        if ungrouped.memory && look.too_much {
            Some(Limit::Memory)
        } else if ungrouped.pids && look.tasks > u64::from(self.limits.pids) {
            Some(Limit::Pids)
        } else if ungrouped.cpu_time && look.user + look.system >= self.limits.cpu_time {
            Some(Limit::CpuTime)
        } else {
            None
        }
    }

    /// Kills every process of the jail: through its group, or by its first process, without which
    /// the kernel lets none of its pid namespace live.
    pub fn kill(&self, init: &InitHandle) -> Result<(), JailError> {
        if let Some(groups) = self.groups() {
            return Ok(groups.kill()?);
        }
        match sys::signal(init.pidfd.as_fd(), libc::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(source) => Err(JailError::System {
                act: "kill the jail's first process",
                source,
            }),
        }
    }

    /// The use of the process tree; `wall`, and what waiting for its processes told, come from the caller.
    pub fn usage(&self, wall: Duration, used: Option<ChildUsage>) -> Usage {
        let processes = Usage {
            wall,
            ..of_processes(used)
        };
        let mut usage = self
            .groups()
            .map_or(processes, |groups| groups.usage(processes));
        let uncounted = self.unread.max(self.locks.most());
        if uncounted > 0 {
            usage.memory_peak = usage.memory_peak.max(Some(uncounted));
        }
        if let Some(most) = self.sampler.as_ref().map(UsageSampler::most) {
            usage.memory_peak = usage.memory_peak.or(Some(most.memory));
            usage.pids_peak = usage.pids_peak.or(Some(most.tasks));
            usage.user = usage.user.or(Some(most.user));
            usage.system = usage.system.or(Some(most.system));
        }
        usage
    }

    /// Ends what is left in the groups and removes them.
    pub fn remove(self) -> Result<(), JailError> {
        if let Some(KeptGroups { groups, keeper }) = self.grouped {
            groups.remove()?;
            drop(keeper);
        }
        Ok(())
    }
}

/// The response to a limit that the kernel holds by refusing more.
fn response_of_limit(limit: Limit, limits: &JailLimits) -> LimitResponse {
    match limit {
        Limit::Memory => limits.on_memory,
        Limit::Pids => limits.on_pids,
        _ => LimitResponse::Kill,
    }
}

/// The limit that the kernel has counted as passed, and does not hold by itself.
fn counted(groups: &JailCgroups, used: Option<Duration>, limits: &JailLimits) -> Option<Limit> {
    // The kernel grants a socket that holds little a piece beyond its limit, which many sockets make much of.
    if groups.socket_memory() > limits.memory {
        Some(Limit::Memory)
    } else if used.is_some_and(|used| used >= limits.cpu_time) {
        Some(Limit::CpuTime)
    } else {
        None
    }
}

/// The part that waiting for the processes tells, getrusage(2).
fn of_processes(used: Option<ChildUsage>) -> Usage {
    const BLOCK: u64 = 512;
    Usage {
        io_read: used.map(|used| used.blocks_read.saturating_mul(BLOCK)),
        io_written: used.map(|used| used.blocks_written.saturating_mul(BLOCK)),
        context_switches: used.map(|used| used.context_switches),
        ..Usage::default()
    }
}
