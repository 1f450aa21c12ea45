//! Exhaustion: when the run ended, a limit of memory, processes or disk had been reached; and fork bombs, which are refused
//! tasks again and again, or fork generation after generation of the same program until none is left, or branch in many places at once.

use std::collections::{BTreeMap, BTreeSet};

use turnkey_policy::Behaviour;

use super::act::ObservedAct;
use super::process_state::ProcessState;
use super::{Detector, Sighting, Step};
use turnkey_facts::Kind;

/// The facts known at the end of a run besides its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The limits that the run reached, each in words.
    pub reached: Vec<String>,
    /// The limit of tasks in words, if as many again were refused as there may be.
    pub bombed: Option<String>,
    /// The limit of tasks in words, if fewer were refused.
    pub refused_tasks: Option<String>,
    /// The wall clock ended the run, and it had used less than a hundredth of that time on a
    /// CPU; in words.
    pub idle: Option<String>,
    /// The files that were there and are as if they had been encrypted.
    pub scrambled: Vec<String>,
    /// The files that were there, have another content now, and not half of their words.
    pub replaced: Vec<String>,
    /// The files that were there, were changed, and still have most of their words.
    pub kept: Vec<String>,
    /// The files that were there and all have one content now, or none.
    pub levelled: Vec<String>,
    /// The files that were there and have no content any more.
    pub emptied: Vec<String>,
    /// The files that were there and are gone.
    pub gone: Vec<String>,
    /// The files that were there, say something else now, and bear the time of their last change from before.
    pub backdated: Vec<String>,
    /// The secrets that a sinkhole took, each sending in words.
    pub sent: Vec<String>,
}

/// Generations of one program, of which no work has many at once: a pool of workers is one, a shell nests two or three, one in the
/// other.
const GENERATIONS: usize = 3;
/// Processes of so late a generation that live at once: a script may nest one deeply, which ends before the next begins.
const TOGETHER: usize = 4;

/// Copies of a program that have two copies of their own each, and live at once: so many are a fork bomb although no task was refused yet.
/// A function of a shell that calls itself has as many generations as it has steps, and each has one child that it waits for; work that
/// is halved four times has fourteen, and some more while each starts a program.
const BRANCHES: usize = 32;
/// So many are one when the program that they are copies of has ended, and waits for none of them, and so many generations: a daemon has
/// workers, which have processes of their own.
const LEFT_BRANCHES: usize = 3;
const LEFT_GENERATIONS: usize = 4;
/// Late processes, and copies with copies, that are remembered.
const REMEMBERED: usize = 256;

/// Remembers the most generations of forks without a program between them, and how many of the late ones lived at once.
#[derive(Debug, Default)]
pub struct Exhaustion {
    generations: usize,
    late: BTreeSet<(u32, u64)>,
    together: usize,
    /// The copies that live of each copy.
    copies: BTreeMap<(u32, u64), BTreeSet<(u32, u64)>>,
    branches: usize,
    /// True once a program has ended whose copies live, and the most that branch since.
    is_left: bool,
    left_branches: usize,
}

impl Detector for Exhaustion {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        _: &mut dyn FnMut(Sighting),
    ) {
        let task = &act.event.task;
        match act.event.kind {
            Kind::Fork {
                child_pid,
                child_start_ns,
                ..
            } => {
                let parent = state.process(task);
                let generation = parent.map_or(0, |parent| parent.generations) + 1;
                self.generations = self.generations.max(generation);
                let child = (child_pid, child_start_ns);
                if generation >= GENERATIONS && self.late.len() < REMEMBERED {
                    self.late.insert(child);
                    self.together = self.together.max(self.late.len());
                }
                if generation > 1 && self.copies.len() < REMEMBERED {
                    let parent = (task.pid, task.start_ns);
                    self.copies.entry(parent).or_default().insert(child);
                    let branches = self.copies.values().filter(|copies| copies.len() > 1);
                    let branches = branches.count();
                    self.branches = self.branches.max(branches);
                    if self.is_left {
                        self.left_branches = self.left_branches.max(branches);
                    }
                }
            }
            Kind::Exec { .. } | Kind::Exit { .. } => {
                let key = (task.pid, task.start_ns);
                self.late.remove(&key);
                self.copies.remove(&key);
                let process = state.process(task);
                let ends = matches!(act.event.kind, Kind::Exit { .. });
                let is_first = process.is_some_and(|process| process.generations == 0);
                let is_of_it = |copy: &(u32, u64)| state.descends(*copy, key);
                self.is_left |= ends && is_first && self.copies.keys().any(is_of_it);
                let parent = process.and_then(|process| process.parent);
                if let Some(copies) = parent.and_then(|parent| self.copies.get_mut(&parent)) {
                    copies.remove(&key);
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, end: &End, tell: &mut dyn FnMut(Sighting)) {
        let steps: Vec<Step> = end
            .reached
            .iter()
            .map(|what| Step::of_run(what.clone()))
            .collect();
        if !steps.is_empty() {
            tell(Sighting::new(Behaviour::Exhaustion, steps));
        }
        let grown = end.refused_tasks.as_ref();
        let grown = grown.filter(|_| self.together >= TOGETHER);
        let grown =
            grown.map(|words| format!("{words}, by {} generations of forks", self.generations));
        let left = Some(self.left_branches)
            .filter(|count| *count >= LEFT_BRANCHES && self.generations >= LEFT_GENERATIONS);
        let tree = Some(self.branches).filter(|count| *count >= BRANCHES);
        let tree = left.or(tree).map(|count| {
            let generations = self.generations;
            format!("tasks: {count} copies of a program had copies of their own at once, of {generations} generations of forks")
        });
        if let Some(words) = end.bombed.clone().or(grown).or(tree) {
            tell(Sighting::new(
                Behaviour::ForkBomb,
                vec![Step::of_run(words)],
            ));
        }
    }
}
