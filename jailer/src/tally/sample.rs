//! Samples of what a jail without control groups uses, taken from outside.
//!
//! Between two looks the tree can use more than it may. Pages that several processes share are told
//! apart only when it matters; a process that is gone before that can be counted twice, so that a
//! single look at a tree in motion is a suspicion, and a row of them is not.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::unistd::SysconfVar;

use crate::tally::census::ProcessCensus;
use crate::tally::procfs::{self, ProcessMemory, ProcessSample};

/// The number of samples in a row that must find too much, when none of them was sure to count nothing twice.
const SUSPICIONS: u32 = 3;

/// One sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageSample {
    /// Bytes of memory and swap that belong to the tree alone.
    pub memory: u64,
    /// True when it is more than allowed, beyond doubt.
    pub too_much: bool,
    /// Processes and threads.
    pub tasks: u64,
    /// CPU time of the tree so far.
    pub user: Duration,
    /// The kernel's share.
    pub system: Duration,
}

/// The sampler, with all that it has seen so far.
#[derive(Debug)]
pub struct UsageSampler {
    init: libc::pid_t,
    /// The tmpfs that takes the writes to the workspace.
    written: Option<OwnedFd>,
    /// Ticks at the last look, by process and its start.
    known: BTreeMap<(libc::pid_t, u64), Ticks>,
    /// Grown from look to look, so that what a process used stays counted when it is gone.
    grown: Ticks,
    spent: Ticks,
    suspicions: u32,
    most: UsageSample,
}

/// User and system time in the kernel's ticks.
type Ticks = (u64, u64);

fn sum(one: Ticks, other: Ticks) -> Ticks {
    (one.0 + other.0, one.1 + other.1)
}

impl UsageSampler {
    /// For the tree below `init`, a child that has not been waited for.
    pub fn new(init: libc::pid_t, written: Option<OwnedFd>) -> UsageSampler {
        UsageSampler {
            init,
            written,
            known: BTreeMap::new(),
            grown: (0, 0),
            spent: (0, 0),
            suspicions: 0,
            most: UsageSample::default(),
        }
    }

    /// Looks. Memory that seems to be over `limit` is looked at closer.
    pub fn look(&mut self, limit: u64) -> UsageSample {
        let census = ProcessCensus::take(self.init);
        let (memory, certain) = self.memory(&census, limit);
        self.suspicions = if memory > limit {
            self.suspicions + 1
        } else {
            0
        };
        let (user, system) = self.cpu(&census.processes);
        let look = UsageSample {
            memory,
            too_much: memory > limit && (certain || self.suspicions >= SUSPICIONS),
            tasks: census.processes.iter().map(|process| process.tasks).sum(),
            user: duration(user),
            system: duration(system),
        };
        self.most = UsageSample {
            memory: self.most.memory.max(look.memory),
            tasks: self.most.tasks.max(look.tasks),
            ..look
        };
        look
    }

    /// The memory of the process tree, and whether nothing in it can be counted twice.
    fn memory(&self, census: &ProcessCensus, limit: u64) -> (u64, bool) {
        let written = self.written.as_ref().map_or(0, used);
        // What is written can be mapped as well.
        let sum = |memory: ProcessMemory| memory.own + memory.shared.max(written);
        let all = sum(census.memory());
        if all <= limit {
            return (all, census.whole);
        }
        let mut certain = census.whole;
        let shares = census.processes.iter().map(|process| {
            procfs::share(process).unwrap_or_else(|| {
                certain = false;
                process.memory
            })
        });
        let shares = sum(shares.fold(ProcessMemory::default(), ProcessMemory::plus));
        (shares, certain)
    }

    /// The most that was ever found.
    pub fn most(&self) -> UsageSample {
        self.most
    }

    /// Two counts that each miss something: what living processes and the children they waited
    /// for used, and what was seen to grow. The larger one is true to more.
    fn cpu(&mut self, processes: &[ProcessSample]) -> Ticks {
        let mut living = (0, 0);
        let mut known = BTreeMap::new();
        for process in processes {
            let key = (process.pid, process.started);
            let before = self.known.get(&key).copied().unwrap_or_default();
            let user = process.own.0.saturating_sub(before.0);
            let system = process.own.1.saturating_sub(before.1);
            self.grown = sum(self.grown, (user, system));
            known.insert(key, process.own);
            living = sum(living, sum(process.own, process.waited));
        }
        self.known = known;
        for count in [living, self.grown] {
            if count.0 + count.1 > self.spent.0 + self.spent.1 {
                self.spent = count;
            }
        }
        self.spent
    }
}

/// Bytes in a file system.
fn used(place: &OwnedFd) -> u64 {
    let Ok(now) = nix::sys::statfs::fstatfs(place) else {
        return 0;
    };
    let block = u64::try_from(now.block_size()).unwrap_or(0);
    now.blocks()
        .saturating_sub(now.blocks_free())
        .saturating_mul(block)
}

/// True when this kernel lists a process's children: a matter of its build.
pub fn is_possible() -> bool {
    std::path::Path::new("/proc/thread-self/children").exists()
}

fn per_second() -> u64 {
    let known = nix::unistd::sysconf(SysconfVar::CLK_TCK).ok().flatten();
    known
        .and_then(|number| u64::try_from(number).ok())
        .unwrap_or(100)
        .max(1)
}

fn duration(ticks: u64) -> Duration {
    Duration::from_micros(ticks.saturating_mul(1_000_000 / per_second()))
}
