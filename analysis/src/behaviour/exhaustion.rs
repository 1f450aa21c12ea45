//! Exhaustion: when the run ended, a limit of memory, processes or disk had been reached; and fork bombs, which are refused
//! tasks again and again, or fork generation after generation of the same program until none is left, or a crowd of them lives.

use std::collections::BTreeSet;

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
    /// The secrets that a sinkhole took, each sending in words.
    pub sent: Vec<String>,
}

/// Generations of one program, of which no work has many at once: a pool of workers is one, a shell nests two or three, one in the
/// other.
const GENERATIONS: usize = 3;
/// Processes of so late a generation that live at once: a script may nest one deeply, which ends before the next begins.
const TOGETHER: usize = 4;

/// So many of them are a fork bomb although no task was refused yet.
const CROWD: usize = 16;

/// Remembers the most generations of forks without a program between them, and how many of the late ones lived at once.
#[derive(Debug, Default)]
pub struct Exhaustion {
    generations: usize,
    late: BTreeSet<(u32, u64)>,
    together: usize,
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
                if generation >= GENERATIONS && self.late.len() < CROWD {
                    self.late.insert((child_pid, child_start_ns));
                    self.together = self.together.max(self.late.len());
                }
            }
            Kind::Exec { .. } | Kind::Exit { .. } => {
                self.late.remove(&(task.pid, task.start_ns));
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
        let crowd = (self.together >= CROWD).then(|| {
            format!(
                "tasks: {CROWD} lived at once behind {GENERATIONS} generations of forks or more"
            )
        });
        if let Some(words) = end.bombed.clone().or(grown).or(crowd) {
            tell(Sighting::new(
                Behaviour::ForkBomb,
                vec![Step::of_run(words)],
            ));
        }
    }
}
