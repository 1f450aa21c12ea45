//! What a jail without control groups uses: looked at from outside, again and again.
//!
//! A look goes from the jail's first process down its children. Between two looks the tree can use
//! more than it may; what a look finds is never more than is there, but for pages that several
//! processes share, which are told apart only when it matters.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::unistd::SysconfVar;

use crate::procfs::{self, Memory, Process};

/// Processes of one jail that are looked at. A jail without a group is bounded to fewer tasks.
const MOST: usize = 8192;
/// How often one look begins again because a process ended under it: its children have moved.
const TRIES: usize = 3;

/// What one look found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Bytes of memory and swap that belong to the tree alone.
    pub memory: u64,
    /// Processes and threads.
    pub tasks: u64,
    /// Processor time of the tree so far.
    pub user: Duration,
    /// The kernel's share.
    pub system: Duration,
}

/// Everything looked at so far.
#[derive(Debug)]
pub struct Sampler {
    init: libc::pid_t,
    /// The tmpfs that takes the writes to the workspace.
    written: Option<OwnedFd>,
    /// Ticks at the last look, by process and its start.
    known: BTreeMap<(libc::pid_t, u64), Ticks>,
    /// Grown from look to look, so that what a process used stays counted when it is gone.
    grown: Ticks,
    spent: Ticks,
    most: Look,
}

/// User and system time in the kernel's ticks.
type Ticks = (u64, u64);

fn sum(one: Ticks, other: Ticks) -> Ticks {
    (one.0 + other.0, one.1 + other.1)
}

impl Sampler {
    /// For the tree below `init`, a child that has not been waited for.
    pub fn new(init: libc::pid_t, written: Option<OwnedFd>) -> Sampler {
        Sampler {
            init,
            written,
            known: BTreeMap::new(),
            grown: (0, 0),
            spent: (0, 0),
            most: Look::default(),
        }
    }

    /// Looks. Memory that seems to be over `limit` is looked at closer.
    pub fn look(&mut self, limit: u64) -> Look {
        let processes = tree(self.init);
        let written = self.written.as_ref().map_or(0, used);
        let all = |memory: &dyn Fn(&Process) -> Memory| {
            let add = |sum: Memory, one: Memory| Memory {
                own: sum.own + one.own,
                shared: sum.shared + one.shared,
            };
            let sum = processes.iter().map(memory).fold(Memory::default(), add);
            // What is written can be mapped as well: it is not counted twice.
            sum.own + sum.shared.max(written)
        };
        let mut memory = all(&|process| process.memory);
        if memory > limit {
            memory = all(&procfs::share);
        }
        let (user, system) = self.processor(&processes);
        let look = Look {
            memory,
            tasks: processes.iter().map(|process| process.tasks).sum(),
            user: duration(user),
            system: duration(system),
        };
        self.most.memory = self.most.memory.max(look.memory);
        self.most.tasks = self.most.tasks.max(look.tasks);
        (self.most.user, self.most.system) = (look.user, look.system);
        look
    }

    /// The most that was ever found.
    pub fn most(&self) -> Look {
        self.most
    }

    /// Two counts that each miss something: what living processes and the children they waited
    /// for used, and what was seen to grow. The larger one is true to more.
    fn processor(&mut self, processes: &[Process]) -> Ticks {
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

/// The processes of the jail, its first one included.
fn tree(init: libc::pid_t) -> Vec<Process> {
    let mut found = Vec::new();
    for _ in 0..TRIES {
        let whole;
        (found, whole) = walk(init);
        if whole {
            break;
        }
    }
    found
}

/// And whether none of them ended under the look.
fn walk(init: libc::pid_t) -> (Vec<Process>, bool) {
    let mut pids = vec![init];
    let mut found = Vec::new();
    let mut next = 0;
    while let Some(pid) = pids.get(next).copied().filter(|_| next < MOST) {
        next += 1;
        pids.extend(procfs::children(pid));
        found.extend(procfs::process(pid));
    }
    let whole = found.len() == pids.len();
    (found, whole)
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

/// Whether this kernel tells who a process's children are: it is a matter of its build.
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
