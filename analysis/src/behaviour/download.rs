//! Download and execute: a process that spoke to the internet wrote a file, and that file was executed,
//! as a program, as a script, or by an interpreter that was given its name; or a shell without a script
//! was started beside a downloader, by the same parent, within two seconds (`curl … | sh`).
//!
//! A compiler writes what is executed next, too; it does not speak to the internet. An installer of packages does, and what it
//! puts where packages belong is what the caller had it ask a registry for.

use std::collections::{BTreeMap, BTreeSet};

use turnkey_policy::Behaviour;

use super::act::{ActOutcome, ObservedAct, Operation};
use super::interpreter::is_shell;
use super::interpreter::{installs, is_interpreter};
use super::process_state::{ProcessState, base_name};
use super::shell::waits_for_orders;
use super::{Detector, EXECUTED, Sighting, Step};

/// Files that are remembered.
const FILES: usize = 4096;
/// Downloaders that are remembered, by the process that started them.
const DOWNLOADERS: usize = 64;
/// Arguments of an interpreter, one of which may name what it runs.
const GIVEN: usize = 4;
/// Nanoseconds between the starts of the two ends of a pipe.
const TOGETHER: u64 = 2_000_000_000;

/// Programs that write what they fetch to their output.
const FETCHERS: &[&str] = &["curl", "wget", "fetch", "aria2c", "lynx", "ftp"];

/// The files written by processes that had the network, and the parents of downloaders and of waiting shells.
#[derive(Debug, Default)]
pub struct Download {
    written: BTreeMap<Vec<u8>, Step>,
    fetchers: BTreeMap<u32, Step>,
    shells: BTreeMap<u32, Step>,
    /// The files that processes opened for writing last, before they spoke to anybody: a fetcher's output, by its own hand or a shell's.
    opened: BTreeMap<u32, Vec<u8>>,
    /// A file is told of once.
    told: BTreeSet<Vec<u8>>,
}

impl Detector for Download {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        match &act.what {
            Operation::Opened(opened) if opened.writes && opened.done() => {
                if self.opened.len() < FILES {
                    self.opened.insert(act.event.task.pid, opened.path.to_vec());
                }
                self.note(act, state, &opened.path);
            }
            Operation::Spoke { done: true, .. } => self.fetch(act, state),
            Operation::Changed {
                path,
                new: Some(new),
                outcome: ActOutcome::Done,
                ..
            } => {
                if let Some(step) = self.written.get(&**path).cloned() {
                    self.remember(new, step);
                }
            }
            Operation::Executed { file, script, argv } => {
                let names = [Some(&file.path[..]), script.as_deref()];
                // To other programs such an argument is something to work on: `rustc x.rs`.
                let most = if is_interpreter(&file.path) { GIVEN } else { 0 };
                let given = argv.iter().skip(1).map(|argument| absolute(argument));
                let given: Vec<Vec<u8>> = given.take(most).collect();
                let all = names
                    .into_iter()
                    .flatten()
                    .chain(given.iter().map(Vec::as_slice));
                for path in all {
                    self.execute(act, path, tell);
                }
                self.pipe(act, &file.path, argv, tell);
            }
            _ => {}
        }
    }
}

impl Download {
    fn note(&mut self, act: &ObservedAct<'_>, state: &ProcessState, path: &[u8]) {
        let process = state.process(&act.event.task);
        let Some(peer) = process.and_then(|process| process.network.as_deref()) else {
            return;
        };
        if installs(act, state) {
            return;
        }
        let step = Step::from_event(act.event, &[b"spoke to ", peer, b" and wrote ", path]);
        self.remember(path, step);
    }

    /// Takes in that a process spoke to somebody: a fetcher, whose output was opened before.
    fn fetch(&mut self, act: &ObservedAct<'_>, state: &ProcessState) {
        let process = state.process(&act.event.task);
        if process.is_some_and(|process| is_fetcher(&process.exe))
            && let Some(path) = self.opened.remove(&act.event.task.pid)
        {
            self.note(act, state, &path);
        }
    }

    fn remember(&mut self, path: &[u8], step: Step) {
        if self.written.len() < FILES {
            self.written.insert(path.to_vec(), step);
        }
    }

    fn execute(&mut self, act: &ObservedAct<'_>, path: &[u8], tell: &mut dyn FnMut(Sighting)) {
        let Some(written) = self.written.get(path) else {
            return;
        };
        if self.told.insert(path.to_vec()) {
            let run = Step::by_outcome(act, EXECUTED, &[path]);
            let steps = vec![written.clone(), run];
            tell(Sighting::new(Behaviour::DownloadExecute, steps));
        }
    }

    /// The two ends of a pipe are started one after the other, in either order.
    fn pipe(
        &mut self,
        act: &ObservedAct<'_>,
        exe: &[u8],
        argv: &[Vec<u8>],
        tell: &mut dyn FnMut(Sighting),
    ) {
        let parent = act.event.task.parent_pid;
        let step = Step::from_event(act.event, &[b"started ", exe]);
        let fetches = is_fetcher(exe);
        let waits = is_shell(exe) && argv.len() <= 2 && waits_for_orders(argv);
        let (own, others) = match (fetches, waits) {
            (true, _) => (&mut self.fetchers, &self.shells),
            (_, true) => (&mut self.shells, &self.fetchers),
            _ => return,
        };
        let other = others
            .get(&parent)
            .filter(|other| near(other, act.event.time_ns));
        if let Some(other) = other {
            let steps = vec![other.clone(), step.clone()];
            tell(Sighting::new(Behaviour::DownloadExecute, steps));
        }
        if own.len() < DOWNLOADERS {
            own.insert(parent, step);
        }
    }
}

/// True when a program writes what it fetches to its output.
pub fn is_fetcher(exe: &[u8]) -> bool {
    FETCHERS.iter().any(|one| one.as_bytes() == base_name(exe))
}

fn near(step: &Step, now: u64) -> bool {
    step.time_ns.is_some_and(|then| then + TOGETHER >= now)
}

fn absolute(argument: &[u8]) -> Vec<u8> {
    if argument.first() == Some(&b'/') {
        return argument.to_vec();
    }
    let name = argument.strip_prefix(b"./").unwrap_or(argument);
    [turnkey_policy::WORKSPACE.as_bytes(), b"/", name].concat()
}
