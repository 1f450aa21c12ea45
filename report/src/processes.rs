//! The tree of processes, one row for every program image of every process.

use std::collections::BTreeMap;

use turnkey_facts::{Event, File, Kind, Task};

use super::clock::Clock;
use super::model::{Actor, Executable, Exit, Process, Program};
use super::text::escape;

/// Rows kept. A jail has a few dozen tasks at once; what forks more often than this in one run
/// is counted and not listed.
const CAPACITY: usize = 1024;

/// Processes as the events show them. Fed with every event in order.
#[derive(Debug, Default)]
pub struct Processes {
    images: Vec<Image>,
    /// The newest image of each host process id.
    newest: BTreeMap<u32, usize>,
    omitted: u64,
    /// Of the event taken in last, when it is the start of a program that a rule speaks of: who asked for it.
    asker: Option<Actor>,
}

/// A process that was there before anybody watched, as /proc tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownProcess {
    /// The id in the host's namespace.
    pub pid: u32,
    /// The id in the process's own namespace.
    pub jail_pid: u32,
    /// The start, in ticks of a hundredth of a second since boot: `starttime` of proc_pid_stat(5).
    pub start_ticks: u64,
    /// The name, as in `comm`.
    pub comm: Vec<u8>,
    /// The program that it executes.
    pub executable: Option<Vec<u8>>,
    /// The arguments.
    pub argv: Vec<Vec<u8>>,
}

/// Nanoseconds in a tick of /proc: `USER_HZ` is 100.
const TICK_NS: u64 = 10_000_000;

/// The words by which a process was started.
#[derive(Clone, Copy, Debug)]
pub struct ProgramWords<'p> {
    /// The executed file.
    pub exe: &'p [u8],
    /// The arguments, all of them.
    pub argv: &'p [Vec<u8>],
}

/// The program that a process executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Executes {
    /// A program.
    Program(Program),
    /// No program of the jail yet: it starts the command.
    Nothing,
    /// A program that is not known, or not whole.
    Unknown,
}

/// The start of a process, as exactly as its teller has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessStart {
    /// As the kernel has it: `CLOCK_BOOTTIME`, nanoseconds.
    Nanoseconds(u64),
    /// As /proc tells it.
    Ticks(u64),
}

impl ProcessStart {
    fn is(self, start_ns: u64) -> bool {
        match self {
            Self::Nanoseconds(own) => own == start_ns,
            Self::Ticks(own) => own == start_ns / TICK_NS,
        }
    }
}

/// One program image of one process. Its index is its `exec_id` minus one.
#[derive(Debug)]
struct Image {
    parent: Option<usize>,
    pid: u32,
    jail_pid: u32,
    /// Of the process; with `pid` it survives pid reuse.
    process_start: ProcessStart,
    comm: Vec<u8>,
    start_ns: u64,
    end_ns: Option<u64>,
    file: Option<File>,
    /// The script that the file interprets.
    script: Option<Vec<u8>>,
    argv: Vec<Vec<u8>>,
    argv_truncated: bool,
    /// True when this image came by an exec of this process, not by a fork.
    executed: bool,
    exit: Option<Exit>,
}

impl Processes {
    /// Takes in one event and says which row its process has now, unless the list is full.
    pub fn observe(&mut self, event: &Event) -> Option<usize> {
        self.asker = self.asker(event);
        let actor = self.row_of(&event.task, event.time_ns);
        match &event.kind {
            Kind::Exec { .. } => {
                let image = self.execute(event, actor);
                self.omitted += u64::from(image.is_none());
                image
            }
            Kind::Fork {
                child_pid,
                child_jail_pid,
                child_start_ns,
            } => {
                let mut child = event.task.clone();
                child.pid = *child_pid;
                child.jail_pid = *child_jail_pid;
                child.start_ns = *child_start_ns;
                let image = self.add_fork(&child, actor, event.time_ns);
                self.omitted += u64::from(image.is_none());
                actor
            }
            Kind::Exit { status } => {
                if let Some(image) = actor.and_then(|index| self.images.get_mut(index)) {
                    image.end_ns = Some(event.time_ns);
                    image.exit = Some(exit(*status));
                }
                actor
            }
            _ => actor,
        }
    }

    /// Takes in a process that was there before.
    pub fn know(&mut self, known: KnownProcess, time_ns: u64) {
        let file = known.executable.map(|path| File {
            path,
            truncated: false,
            unlinked: false,
            dev: 0,
            inode: 0,
        });
        let added = self.add(Image {
            parent: None,
            pid: known.pid,
            jail_pid: known.jail_pid,
            process_start: ProcessStart::Ticks(known.start_ticks),
            comm: known.comm,
            start_ns: time_ns,
            end_ns: None,
            file,
            script: None,
            argv: known.argv,
            argv_truncated: false,
            executed: true,
            exit: None,
        });
        self.omitted += u64::from(added.is_none());
    }

    /// The number of forks and execs that found no row.
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// For a violation.
    pub fn actor(&self, index: Option<usize>, task: &Task) -> Actor {
        let image = index.and_then(|index| self.images.get(index));
        Actor {
            exec_id: index.map(exec_id),
            pid: task.jail_pid,
            host_pid: task.pid,
            comm: escape(&task.comm),
            exe: image
                .and_then(|image| image.file.as_ref())
                .map(|file| escape(&file.path)),
            argv: image
                .map(|image| escape_all(&image.argv))
                .unwrap_or_default(),
        }
    }

    /// The process that does what the event taken in last tells of: of the start of a program, who asked for it, as it was before.
    pub fn who(&self, index: Option<usize>, task: &Task) -> Actor {
        let asker = self.asker.clone();
        asker.unwrap_or_else(|| self.actor(index, task))
    }

    /// The process that asks for a program, before it becomes that one; `None` for another event, and where it is not known.
    fn asker(&self, event: &Event) -> Option<Actor> {
        let (Kind::Exec { .. }, Some(_)) = (&event.kind, event.decision) else {
            return None;
        };
        let index = self.newest.get(&event.task.pid).copied()?;
        let image = self.images.get(index)?;
        let is_known = image.process_start.is(event.task.start_ns) && image.file.is_some();
        is_known.then(|| Actor {
            comm: escape(&image.comm),
            ..self.actor(Some(index), &event.task)
        })
    }

    /// The words by which the program of a row was started; none where they are not known to the last one.
    pub fn words(&self, index: Option<usize>) -> Option<ProgramWords<'_>> {
        let image = self.images.get(index?)?;
        let file = image.file.as_ref().filter(|file| !file.truncated)?;
        (!image.argv_truncated).then_some(ProgramWords {
            exe: &file.path,
            argv: &image.argv,
        })
    }

    /// The program that a task executes, as far as is known now.
    pub fn program(&self, task: &Task) -> Executes {
        let known = self.newest.get(&task.pid).map(|index| &self.images[*index]);
        let Some(image) = known.filter(|image| image.process_start.is(task.start_ns)) else {
            let has_begun = self.images.iter().any(|image| image.executed);
            return match has_begun {
                true => Executes::Unknown,
                false => Executes::Nothing,
            };
        };
        match &image.file {
            None => Executes::Nothing,
            Some(file) if file.truncated => Executes::Unknown,
            Some(file) => Executes::Program(Program {
                exe: escape(&file.path),
                script: image.script.as_deref().map(escape),
            }),
        }
    }

    /// The report's list.
    pub fn rows(&self, clock: &Clock) -> Vec<Process> {
        self.images
            .iter()
            .enumerate()
            .map(|(index, image)| image.row(index, clock))
            .collect()
    }

    /// The row of a task, made when the task is new: the first process of a run was made before
    /// anyone watched, and a fork's event can be lost.
    fn row_of(&mut self, task: &Task, time_ns: u64) -> Option<usize> {
        let known = self.newest.get(&task.pid).copied();
        match known.filter(|index| self.images[*index].process_start.is(task.start_ns)) {
            Some(index) => {
                self.images[index].comm.clone_from(&task.comm);
                Some(index)
            }
            None => {
                let parent = self.newest.get(&task.parent_pid).copied();
                self.add_fork(task, parent, time_ns)
            }
        }
    }

    /// A new process runs its parent's image.
    fn add_fork(&mut self, task: &Task, parent: Option<usize>, time_ns: u64) -> Option<usize> {
        let inherited = parent.and_then(|index| self.images.get(index));
        let image = Image {
            file: inherited.and_then(|image| image.file.clone()),
            script: inherited.and_then(|image| image.script.clone()),
            argv: inherited
                .map(|image| image.argv.clone())
                .unwrap_or_default(),
            argv_truncated: inherited.is_some_and(|image| image.argv_truncated),
            executed: false,
            ..Image::new(task, parent, time_ns)
        };
        self.add(image)
    }

    /// The first exec of a process fills the row that its fork made; a later one is a new row.
    fn execute(&mut self, event: &Event, actor: Option<usize>) -> Option<usize> {
        let Kind::Exec {
            file,
            raw,
            script,
            argv,
            argv_truncated,
            ..
        } = &event.kind
        else {
            return actor;
        };
        let fresh = actor.filter(|index| !self.images[*index].executed);
        let index = fresh.or_else(|| {
            let replaced = actor.and_then(|index| self.images.get_mut(index));
            replaced
                .into_iter()
                .for_each(|image| image.end_ns = Some(event.time_ns));
            self.add(Image::new(&event.task, actor, event.time_ns))
        })?;
        let image = &mut self.images[index];
        image.file = Some(file.clone());
        image.script = raw.clone().filter(|_| *script);
        image.argv.clone_from(argv);
        image.argv_truncated = *argv_truncated;
        image.executed = true;
        Some(index)
    }

    fn add(&mut self, image: Image) -> Option<usize> {
        if self.images.len() == CAPACITY {
            return None;
        }
        self.newest.insert(image.pid, self.images.len());
        self.images.push(image);
        Some(self.images.len() - 1)
    }
}

impl Image {
    fn new(task: &Task, parent: Option<usize>, time_ns: u64) -> Self {
        Self {
            parent,
            pid: task.pid,
            jail_pid: task.jail_pid,
            process_start: ProcessStart::Nanoseconds(task.start_ns),
            comm: task.comm.clone(),
            start_ns: time_ns,
            end_ns: None,
            file: None,
            script: None,
            argv: Vec::new(),
            argv_truncated: false,
            executed: false,
            exit: None,
        }
    }

    fn row(&self, index: usize, clock: &Clock) -> Process {
        Process {
            exec_id: exec_id(index),
            parent: self.parent.map(exec_id),
            pid: self.jail_pid,
            host_pid: self.pid,
            comm: escape(&self.comm),
            start: clock.date(self.start_ns),
            end: self.end_ns.map(|end_ns| clock.date(end_ns)),
            exe: self.file.as_ref().map(executable),
            script: self.script.as_deref().map(escape),
            argv: escape_all(&self.argv),
            argv_truncated: self.argv_truncated,
            exit: self.exit,
        }
    }
}

/// `exec_id` counts from 1.
pub fn exec_id(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

/// Every argument, escaped.
pub fn escape_all(argv: &[Vec<u8>]) -> Vec<String> {
    argv.iter().map(|argument| escape(argument)).collect()
}

/// As the report names it.
pub fn executable(file: &File) -> Executable {
    Executable {
        path: escape(&file.path),
        truncated: file.truncated,
        unlinked: file.unlinked,
        device: device(file.dev),
        inode: file.inode,
    }
}

/// The kernel keeps 12 bits of major above 20 bits of minor.
fn device(dev: u32) -> String {
    format!("{}:{}", dev >> 20, dev & 0xf_ffff)
}

/// A status of wait(2) in words; a core dump's bit says nothing here, there are none.
pub fn exit(status: i32) -> Exit {
    match status & 0x7f {
        0 => Exit::Code(u8::try_from((status >> 8) & 0xff).unwrap_or(u8::MAX)),
        signal => Exit::Signal(signal),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Story, clock, exec, fork, opened, task};
    use super::*;
    use turnkey_policy::RuleAction;

    fn rows(story: &Story) -> Vec<Process> {
        let mut processes = Processes::default();
        for event in &story.events {
            processes.observe(event);
        }
        processes.rows(&clock())
    }

    #[test]
    fn fork_and_exec_are_one_row_and_a_second_exec_another() {
        let mut story = Story::command(&["sh"]);
        story.push(2, fork(3));
        story.push(3, exec(&["env", "cat"]));
        story.push(3, exec(&["cat"]));
        story.push(3, Kind::Exit { status: 1 << 8 });
        let rows = rows(&story);
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row.exec_id, row.parent, row.pid, row.argv.join(" ")))
            .collect();
        assert_eq!(
            told,
            [
                (1, None, 2, "sh".to_owned()),
                (2, Some(1), 3, "env cat".to_owned()),
                (3, Some(2), 3, "cat".to_owned())
            ]
        );
        // The replaced image ended when the next one began, and did not exit.
        assert_eq!(rows[1].end.as_ref(), Some(&rows[2].start));
        assert_eq!((rows[1].exit, rows[2].exit), (None, Some(Exit::Code(1))));
        assert_eq!(rows[0].end, None);
    }

    #[test]
    fn a_fork_without_exec_runs_its_parents_image() {
        let mut story = Story::command(&["sh"]);
        story.push(2, fork(3));
        story.push(3, opened("/usr/lib/x"));
        let rows = rows(&story);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].exe, rows[0].exe);
        assert_eq!(rows[1].argv, ["sh"]);
    }

    #[test]
    fn a_process_whose_fork_was_lost_is_found_by_its_parent() {
        let mut story = Story::command(&["sh"]);
        story.push(7, opened("/usr/lib/x"));
        assert_eq!(rows(&story)[1].parent, Some(1));
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let mut story = Story::command(&["sh"]);
        story.push(2, fork(3));
        story.push(3, Kind::Exit { status: 0 });
        story.push(3, opened("/usr/lib/x"));
        let last = story.events.last_mut().unwrap();
        last.task.start_ns += 1;
        assert_eq!(rows(&story).len(), 3);
    }

    #[test]
    fn more_processes_than_rows_are_counted() {
        let mut story = Story::command(&["sh"]);
        (3..3 + 1100).for_each(|pid| story.push(2, fork(pid)));
        let mut processes = Processes::default();
        for event in &story.events {
            processes.observe(event);
        }
        assert_eq!(processes.rows(&clock()).len(), CAPACITY);
        assert_eq!(processes.omitted(), 1101 - 1024);
        // Its violations still name it, as far as they can.
        let actor = processes.actor(None, &task(1100));
        assert_eq!((actor.exec_id, actor.pid, actor.exe), (None, 1100, None));
    }

    #[test]
    fn who_asks_for_a_program_is_who_it_was_before() {
        let mut story = Story::command(&["sh"]);
        story.push(2, fork(3));
        story.decided(3, exec(&["harmless"]), 0, RuleAction::Kill);
        story.push(3, opened("/usr/lib/x"));
        let mut processes = Processes::default();
        let mut words = |event: &Event| {
            let row = processes.observe(event);
            processes.who(row, &event.task).argv.join(" ")
        };
        let all: Vec<String> = story.events.iter().map(&mut words).collect();
        assert_eq!(all[all.len() - 2..], ["sh", "harmless"]);
    }

    #[test]
    fn a_wait_status_is_a_code_or_a_signal() {
        assert_eq!(exit(0), Exit::Code(0));
        assert_eq!(exit(255 << 8), Exit::Code(255));
        assert_eq!(exit(9), Exit::Signal(9));
        // With the bit of a core dump.
        assert_eq!(exit(0x80 | 11), Exit::Signal(11));
    }

    #[test]
    fn devices_are_major_and_minor() {
        assert_eq!(device(8 << 20 | 1), "8:1");
    }
}
