//! Reverse shell and bind shell: the process that spoke to somebody over the internet's protocols, or waits at a port, becomes a
//! shell, or forks one, that has nothing to run but what it is told: without a script and without `-c`. Or such a shell and such a
//! program run side by side, started by the same parent within two seconds, as the ends of `nc HOST PORT < fifo | sh > fifo`.
//!
//! A program that fetched something and then has a shell run one command is no such: that shell has
//! `-c` or a script. One that writes what it fetches to a shell's input is another thing: see
//! [`super::download`].

use std::collections::BTreeMap;

use turnkey_policy::Behaviour;

use super::act::{ObservedAct, Operation};
use super::download::is_fetcher;
use super::interpreter::is_shell;
use super::process_state::ProcessState;
use super::{Detector, Sighting, Step};
use turnkey_facts::Kind;

/// Programs that are remembered while they run.
const PROGRAMS: usize = 1024;
/// Nanoseconds between the starts of the two ends of a pipe.
const TOGETHER: u64 = 2_000_000_000;

/// The programs that could be an end of a pipe: those that run now, by process.
#[derive(Debug, Default)]
pub struct ReverseShell {
    running: BTreeMap<(u32, u64), Running>,
}

/// A program, since its start.
#[derive(Debug)]
struct Running {
    parent: u32,
    since: u64,
    /// A shell that waits for orders: its start.
    waits: Option<Step>,
    /// The peer that it spoke to, and when.
    speaks: Option<Step>,
}

impl Detector for ReverseShell {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let key = (act.event.task.pid, act.event.task.start_ns);
        let talks = state
            .process(&act.event.task)
            .and_then(|process| process.talks.as_deref());
        let spoke = talks.map(|talks| Step::from_event(act.event, &[talks]));
        match &act.what {
            Operation::Executed { file, script, argv } => {
                let waits = is_shell(&file.path) && script.is_none() && waits_for_orders(argv);
                let became = [b"became the shell ", &file.path[..], b" without a script"];
                let waits = waits.then(|| Step::from_event(act.event, &became));
                if let (Some(spoke), Some(became)) = (&spoke, &waits) {
                    let steps = vec![spoke.clone(), became.clone()];
                    tell(Sighting::new(Behaviour::ReverseShell, steps));
                    return;
                }
                self.start(act, key, waits);
                // What a fetcher writes to a shell's input is fetched before it runs.
                if is_fetcher(&file.path) {
                    self.running.remove(&key);
                }
            }
            Operation::Spoke { .. } | Operation::Served => {
                if let (Some(spoke), Some(program)) = (spoke, self.running.get_mut(&key)) {
                    program.speaks.get_or_insert(spoke);
                }
            }
            _ if matches!(act.event.kind, Kind::Exit { .. }) => {
                self.running.remove(&key);
                return;
            }
            _ => return,
        }
        self.look_beside(key, tell);
    }
}

impl ReverseShell {
    fn start(&mut self, act: &ObservedAct<'_>, key: (u32, u64), waits: Option<Step>) {
        if self.running.len() < PROGRAMS || self.running.contains_key(&key) {
            let program = Running {
                parent: act.event.task.parent_pid,
                since: act.event.time_ns,
                waits,
                speaks: None,
            };
            self.running.insert(key, program);
        }
    }

    /// Tells when a program and one beside it are the two ends. The shell is told of once.
    fn look_beside(&mut self, key: (u32, u64), tell: &mut dyn FnMut(Sighting)) {
        let Some(one) = self.running.get(&key) else {
            return;
        };
        let mut others = self.running.iter().filter(|(other, _)| **other != key);
        let pair = others.find_map(|(other_key, other)| {
            let near = one.parent == other.parent && one.since.abs_diff(other.since) <= TOGETHER;
            match (one, other) {
                _ if !near => None,
                (
                    Running {
                        waits: Some(waits), ..
                    },
                    Running {
                        speaks: Some(speaks),
                        ..
                    },
                ) => Some((key, speaks.clone(), waits.clone())),
                (
                    Running {
                        speaks: Some(speaks),
                        ..
                    },
                    Running {
                        waits: Some(waits), ..
                    },
                ) => Some((*other_key, speaks.clone(), waits.clone())),
                _ => None,
            }
        });
        if let Some((shell, spoke, became)) = pair {
            tell(Sighting::new(Behaviour::ReverseShell, vec![spoke, became]));
            self.running.remove(&shell);
        }
    }
}

/// True when a shell with these arguments runs what it reads from its input: only options, none of
/// them with `c`, and none that it answers and ends.
pub fn waits_for_orders(argv: &[Vec<u8>]) -> bool {
    let mut rest = argv.iter().skip(1);
    rest.all(|argument| {
        if matches!(&argument[..], b"--version" | b"--help") {
            return false;
        }
        let word = argument.starts_with(b"--");
        let letters = argument.first() == Some(&b'-') && !argument.contains(&b'c');
        word || letters
    })
}
