//! The processes of a jail, from outside: its first one, and all below.
//!
//! The tree moves while it is walked. A process that ends leaves its children to the first one, so
//! a walk under which somebody ended has not seen everybody, and is done again. A program can
//! keep moving to hide from it, which takes more and more luck the quicker a walk gets to what
//! it has found: each process is read in the moment its number is known.

use std::time::{Duration, Instant};

use crate::tally::procfs::{self, ProcessMemory, ProcessSample};

/// Processes that are looked at. A jail without a group is bounded to fewer tasks.
const MOST: usize = 8192;
/// The time that a census may go on because a process ended under each of its walks.
const PATIENCE: Duration = Duration::from_millis(5);

/// The processes that were seen.
#[derive(Debug, Default)]
pub struct ProcessCensus {
    /// The first process of the jail is the last here.
    pub processes: Vec<ProcessSample>,
    /// True when no process ended under it.
    pub whole: bool,
}

impl ProcessCensus {
    /// Of the tree below `init`, a child of this process that has not been waited for.
    pub fn take(init: libc::pid_t) -> ProcessCensus {
        let deadline = Instant::now() + PATIENCE;
        let mut best = ProcessCensus::walk(init);
        while !best.whole && Instant::now() < deadline {
            let next = ProcessCensus::walk(init);
            if next.whole || next.memory().sum() > best.memory().sum() {
                best = next;
            }
        }
        best
    }

    /// The memory of all, with pages that several share counted for each.
    pub fn memory(&self) -> ProcessMemory {
        let all = self.processes.iter().map(|process| process.memory);
        all.fold(ProcessMemory::default(), ProcessMemory::plus)
    }

    fn walk(init: libc::pid_t) -> ProcessCensus {
        let mut census = ProcessCensus {
            processes: Vec::new(),
            whole: true,
        };
        census.visit(procfs::children(init, 1));
        let mut next = 0;
        while let Some(process) = census.processes.get(next).filter(|_| next < MOST) {
            next += 1;
            let children = procfs::children(process.pid, process.tasks);
            census.visit(children);
        }
        census.visit(vec![init]);
        census
    }

    fn visit(&mut self, pids: Vec<libc::pid_t>) {
        for pid in pids {
            match procfs::process(pid) {
                Some(process) => self.processes.push(process),
                None => self.whole = false,
            }
        }
    }
}
