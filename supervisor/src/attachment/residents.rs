//! The processes of an attached group by what the monitor tells of them, so that one is missed that has left.
//!
//! Whoever may write to `cgroup.procs` of another group moves a process there, and nothing tells of it from then on, its end
//! included: it is known by its absence alone.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

use turnkey_facts::{Event, Kind};
use turnkey_report::Evidence;

use super::group::{ForeignGroup, group_of};
use super::survey;

/// Ends that are remembered: what another thread has repeated may be told after the end of its process.
const ENDS: usize = 1024;

/// Losses of which each may be the end of a process.
const LOST_ENDS: [&str; 4] = ["exit", "missed", "malformed", "faults"];

/// A process: its id, and its start in nanoseconds since boot.
type Process = (u32, u64);

/// The processes that have acted, or were made, and have not ended.
#[derive(Debug, Default)]
pub struct Residents {
    alive: BTreeSet<Process>,
    ended: VecDeque<Process>,
}

impl Residents {
    /// Takes in one event; events come in their order.
    pub fn see(&mut self, event: &Event) {
        let process = (event.task.pid, event.task.start_ns);
        match &event.kind {
            Kind::Exit { .. } => {
                self.alive.remove(&process);
                self.ended.truncate(ENDS - 1);
                self.ended.push_front(process);
            }
            _ if self.alive.contains(&process) || self.ended.contains(&process) => {}
            _ => {
                self.alive.insert(process);
            }
        }
        if let Kind::Fork {
            child_pid,
            child_start_ns,
            ..
        } = &event.kind
        {
            self.alive.insert((*child_pid, *child_start_ns));
        }
    }

    /// The processes that have not ended by what was told so far, and are not in the group now. An end may still be told of some.
    pub fn absent(&self, group: &ForeignGroup) -> Vec<Process> {
        let alive = self.alive.iter().copied();
        alive
            .filter(|process| !is_in(*process, group.name()))
            .collect()
    }

    /// The number of those who left the group for certain, of the ones that were [`absent`](Self::absent): no end is told of them, and
    /// as many ends are not lost.
    pub fn left(&self, absent: &[Process], evidence: &Evidence) -> u64 {
        let left = absent.iter().filter(|process| self.alive.contains(process));
        let left = u64::try_from(left.count()).unwrap_or(u64::MAX);
        let lost = LOST_ENDS.iter().filter_map(|kind| evidence.lost.get(*kind));
        left.saturating_sub(lost.sum())
    }
}

/// True for a process that lives, in the group or below.
fn is_in((pid, start_ns): Process, group: &Path) -> bool {
    let is_there = survey::start_ticks(pid) == Some(start_ns / survey::TICK_NS);
    is_there && group_of(&format!("/proc/{pid}/cgroup")).is_ok_and(|own| own.starts_with(group))
}

#[cfg(test)]
mod tests {
    use turnkey_facts::Task;

    use super::*;

    fn event(pid: u32, kind: Kind) -> Event {
        let task = Task {
            pid,
            tid: pid,
            jail_pid: pid,
            uid: 0,
            parent_pid: 0,
            start_ns: u64::from(pid),
            comm: Vec::new(),
        };
        Event {
            seq: 0,
            time_ns: 0,
            last_ns: 0,
            repeated: 0,
            task,
            kind,
            decision: None,
        }
    }

    fn fork(child: u32) -> Kind {
        Kind::Fork {
            child_pid: child,
            child_jail_pid: child,
            child_start_ns: u64::from(child),
        }
    }

    fn alive(events: &[(u32, Kind)]) -> Vec<u32> {
        let mut residents = Residents::default();
        for (pid, kind) in events {
            residents.see(&event(*pid, kind.clone()));
        }
        residents.alive.iter().map(|(pid, _)| *pid).collect()
    }

    #[test]
    fn who_has_not_ended_is_still_there() {
        let end = || Kind::Exit { status: 0 };
        assert_eq!(alive(&[(1, fork(2)), (2, fork(3)), (2, end())]), [1, 3]);
        assert_eq!(alive(&[(1, fork(2)), (2, end()), (1, end())]), [0; 0]);
    }

    #[test]
    fn an_end_that_may_be_lost_is_no_departure() {
        let mut residents = Residents::default();
        residents.see(&event(1, fork(2)));
        let absent = [(1, 1), (2, 2), (3, 3)];
        let lost = |kind: &str| Evidence {
            lost: [(kind.to_owned(), 1)].into(),
            ..Evidence::default()
        };
        assert_eq!(residents.left(&absent, &Evidence::default()), 2);
        assert_eq!(residents.left(&absent, &lost("open")), 2);
        assert_eq!(residents.left(&absent, &lost("exit")), 1);
    }

    #[test]
    fn what_is_told_after_an_end_revives_nobody() {
        let end = || Kind::Exit { status: 0 };
        let late = Kind::ExecAttempt {
            raw: turnkey_facts::Raw {
                base: None,
                bytes: Vec::new(),
                truncated: false,
                unreadable: false,
            },
            errno: 2,
        };
        assert_eq!(alive(&[(1, end()), (1, late)]), [0; 0]);
    }
}
