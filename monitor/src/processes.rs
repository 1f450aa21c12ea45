//! The tree of processes, told from events.

use std::collections::HashMap;

use crate::event::{Event, File, Kind, Task};

/// A process, from its making to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// Its place in [`Tracker::processes`].
    pub id: usize,
    /// Whose child it is: a place in [`Tracker::processes`]. `None` when the parent is outside the jail or was
    /// there before anything was watched.
    pub parent: Option<usize>,
    /// Process id in the host's namespace.
    pub pid: u32,
    /// Process id in the jail.
    pub jail_pid: u32,
    /// Real user id in the host's namespace, when last seen.
    pub uid: u32,
    /// `CLOCK_BOOTTIME`, nanoseconds.
    pub start_ns: u64,
    /// `CLOCK_BOOTTIME`, nanoseconds. `None`: its end was not seen.
    pub end_ns: Option<u64>,
    /// As from wait(2). `None`: its end was not seen.
    pub status: Option<i32>,
    /// `task_struct.comm` when last seen.
    pub comm: Vec<u8>,
    /// The images it ran, one after the other. Empty: it only ever ran its parent's.
    pub images: Vec<Image>,
}

/// What one exec started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Counts the execs of the jail from 0.
    pub exec_id: usize,
    /// `CLOCK_BOOTTIME`, nanoseconds.
    pub time_ns: u64,
    /// The file that runs.
    pub file: File,
    /// The name given to execve(2) when it differs, such as a script.
    pub raw: Option<Vec<u8>>,
    /// Arguments.
    pub argv: Vec<Vec<u8>>,
    /// Whether `argv` was cut.
    pub argv_truncated: bool,
}

/// Builds the tree, event by event.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    processes: Vec<Process>,
    /// By process id and start: ids are used again, starts are not.
    known: HashMap<(u32, u64), usize>,
    /// The living process with an id.
    living: HashMap<u32, usize>,
    execs: usize,
}

impl Tracker {
    /// An empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Every process seen so far, in the order of appearance.
    #[must_use]
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// The tree itself.
    #[must_use]
    pub fn into_processes(self) -> Vec<Process> {
        self.processes
    }

    /// The process that an event is about.
    #[must_use]
    pub fn process_of(&self, task: &Task) -> Option<&Process> {
        self.known
            .get(&(task.pid, task.start_ns))
            .map(|id| &self.processes[*id])
    }

    /// Takes in an event; the place of the process it is about.
    pub fn observe(&mut self, event: &Event) -> usize {
        let id = self.seen(&event.task);
        match &event.kind {
            Kind::Fork {
                child_pid,
                child_jail_pid,
                child_start_ns,
            } => {
                self.forked(id, (*child_pid, *child_jail_pid), *child_start_ns);
            }
            Kind::Exec {
                file,
                raw,
                argv,
                argv_truncated,
            } => {
                let image = Image {
                    exec_id: self.execs,
                    time_ns: event.time_ns,
                    file: file.clone(),
                    raw: raw.clone(),
                    argv: argv.clone(),
                    argv_truncated: *argv_truncated,
                };
                self.execs += 1;
                self.processes[id].images.push(image);
            }
            Kind::Exit { status } => self.exited(id, event.time_ns, *status),
            Kind::ExecAttempt { .. }
            | Kind::Open { .. }
            | Kind::Network { .. }
            | Kind::Refused { .. } => {}
        }
        id
    }

    fn seen(&mut self, task: &Task) -> usize {
        let key = (task.pid, task.start_ns);
        let id = match self.known.get(&key) {
            Some(id) => *id,
            None => {
                let parent = self.living.get(&task.parent_pid).copied();
                self.add(key, task.jail_pid, parent)
            }
        };
        let process = &mut self.processes[id];
        process.uid = task.uid;
        process.comm.clone_from(&task.comm);
        id
    }

    fn forked(&mut self, parent: usize, (pid, jail_pid): (u32, u32), start_ns: u64) {
        let key = (pid, start_ns);
        if self.known.contains_key(&key) {
            return;
        }
        let child = self.add(key, jail_pid, Some(parent));
        // Until it is seen by itself, it is what its parent is.
        self.processes[child].uid = self.processes[parent].uid;
        self.processes[child].comm = self.processes[parent].comm.clone();
    }

    fn add(&mut self, (pid, start_ns): (u32, u64), jail_pid: u32, parent: Option<usize>) -> usize {
        let id = self.processes.len();
        self.processes.push(Process {
            id,
            parent,
            pid,
            jail_pid,
            uid: 0,
            start_ns,
            end_ns: None,
            status: None,
            comm: Vec::new(),
            images: Vec::new(),
        });
        self.known.insert((pid, start_ns), id);
        self.living.insert(pid, id);
        id
    }

    fn exited(&mut self, id: usize, time_ns: u64, status: i32) {
        let process = &mut self.processes[id];
        process.end_ns = Some(time_ns);
        process.status = Some(status);
        if self.living.get(&process.pid) == Some(&id) {
            self.living.remove(&process.pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(pid: u32, parent_pid: u32, start_ns: u64, kind: Kind) -> Event {
        let task = Task {
            pid,
            tid: pid,
            jail_pid: pid - 100,
            uid: 1000,
            parent_pid,
            start_ns,
            comm: b"name".to_vec(),
        };
        Event {
            seq: 0,
            time_ns: start_ns + 50,
            task,
            kind,
            decision: None,
        }
    }

    fn fork(child_pid: u32, child_start_ns: u64) -> Kind {
        Kind::Fork {
            child_pid,
            child_jail_pid: child_pid - 100,
            child_start_ns,
        }
    }

    fn exec(path: &[u8]) -> Kind {
        let file = File {
            path: path.to_vec(),
            truncated: false,
            unlinked: false,
            dev: 1,
            inode: 2,
        };
        Kind::Exec {
            file,
            raw: None,
            argv: vec![path.to_vec()],
            argv_truncated: false,
        }
    }

    fn track(events: &[Event]) -> Vec<Process> {
        let mut tracker = Tracker::new();
        for event in events {
            tracker.observe(event);
        }
        tracker.into_processes()
    }

    #[test]
    fn a_fork_an_exec_and_an_exit_make_one_process() {
        let processes = track(&[
            event(101, 1, 10, exec(b"/bin/sh")),
            event(101, 1, 10, fork(102, 20)),
            event(102, 101, 20, exec(b"/bin/true")),
            event(102, 101, 20, Kind::Exit { status: 256 }),
        ]);
        assert_eq!(processes.len(), 2);
        let child = &processes[1];
        assert_eq!(
            (child.id, child.parent, child.pid, child.jail_pid),
            (1, Some(0), 102, 2)
        );
        assert_eq!(
            (child.start_ns, child.end_ns, child.status),
            (20, Some(70), Some(256))
        );
        assert_eq!(child.images.len(), 1);
        assert_eq!(
            (child.images[0].exec_id, processes[0].images[0].exec_id),
            (1, 0)
        );
        assert_eq!(processes[0].end_ns, None, "its end was not seen");
    }

    #[test]
    fn an_id_that_is_used_again_is_another_process() {
        let processes = track(&[
            event(101, 1, 10, fork(102, 20)),
            event(102, 101, 20, Kind::Exit { status: 0 }),
            event(101, 1, 10, fork(102, 30)),
            event(102, 101, 30, exec(b"/bin/true")),
        ]);
        assert_eq!(processes.len(), 3);
        assert!(processes[1].images.is_empty());
        assert_eq!(processes[2].images.len(), 1);
        assert_eq!(processes[2].status, None);
    }

    #[test]
    fn a_process_whose_fork_was_lost_still_finds_its_parent() {
        let processes = track(&[
            event(101, 1, 10, exec(b"/bin/sh")),
            event(102, 101, 20, exec(b"/bin/true")),
            event(103, 999, 30, exec(b"/bin/true")),
        ]);
        assert_eq!(processes[1].parent, Some(0));
        assert_eq!(processes[2].parent, None, "nobody knows its parent");
    }

    #[test]
    fn a_child_is_what_its_parent_is_until_it_is_seen() {
        let processes = track(&[event(101, 1, 10, fork(102, 20))]);
        assert_eq!(
            (processes[1].uid, processes[1].comm.as_slice()),
            (1000, b"name".as_slice())
        );
    }
}
