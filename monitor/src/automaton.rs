//! One deterministic automaton for all patterns, small enough for the kernel.

mod hash;
mod minimize;
mod nfa;

use std::collections::BTreeSet;
use std::hash::Hash;

use turnkey_abi::{CELLS, STATES, Table, column};
use turnkey_policy::Glob;

use hash::QuickMap;
use nfa::{Nfa, State, Step};

/// Why the patterns do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AutomatonError {
    /// Too many states.
    #[error("their automaton has more states than the {STATES} that the table holds")]
    States,
    /// Too many transitions.
    #[error(
        "their automaton has {states} states of {classes} byte classes each, and the table holds {CELLS} transitions"
    )]
    Cells {
        /// How many states there are.
        states: usize,
        /// How many byte classes, rounded up to a power of two.
        classes: usize,
    },
}

/// For each column, the deciding rule plus one, or 0.
pub(crate) type Winners = [u16; column::COUNT];

/// The automaton. State 0 is where it starts.
#[derive(Debug)]
pub(crate) struct Automaton {
    classes: Classes,
    /// By state, then by class.
    rows: Vec<Vec<u32>>,
    accept: Vec<Winners>,
}

/// Bytes that no pattern tells apart are one class.
#[derive(Debug)]
struct Classes {
    /// By byte.
    of: [u8; 256],
    /// One byte of each class.
    examples: Vec<u8>,
}

impl Classes {
    /// Each byte that some pattern names is a class of its own, so is `/`; all others are one.
    fn of(named: &BTreeSet<u8>) -> Self {
        let mut examples: Vec<u8> = (0..=u8::MAX)
            .find(|byte| !named.contains(byte))
            .into_iter()
            .collect();
        let first_named = examples.len();
        examples.extend(named);
        let mut of = [0; 256];
        for (class, byte) in examples.iter().enumerate().skip(first_named) {
            // 256 bytes have at most 256 classes.
            of[usize::from(*byte)] = u8::try_from(class).unwrap_or(u8::MAX);
        }
        Self { of, examples }
    }
}

/// Most states before those that no path tells apart are joined: what bounds the time for
/// patterns that will not fit anyway.
const STATES_BEFORE: usize = 8 * STATES;

impl Automaton {
    /// Builds the automaton. `winners` says what a set of matching patterns, by index, decides.
    pub(crate) fn build(
        patterns: &[&Glob],
        winners: impl Fn(&BTreeSet<usize>) -> Winners,
    ) -> Result<Self, AutomatonError> {
        let nfa = Nfa::new(patterns.iter().copied());
        let mut subsets = Subsets::new(&nfa);
        let classes = Classes::of(&subsets.named_bytes());
        let (mut rows, mut accept) = (Vec::new(), Vec::new());
        while let Some(subset) = subsets.found.order.get(rows.len()).cloned() {
            if rows.len() == STATES_BEFORE {
                return Err(AutomatonError::States);
            }
            rows.push(subsets.row(&subset, &classes.examples));
            accept.push(winners(&subsets.complete(&subset)));
        }
        Ok(minimize::minimized(Self {
            classes,
            rows,
            accept,
        }))
    }

    /// Writes the automaton into a table.
    pub(crate) fn write(&self, table: &mut Table) -> Result<(), AutomatonError> {
        let states = self.rows.len();
        if states > STATES {
            return Err(AutomatonError::States);
        }
        let classes = self.classes.examples.len().next_power_of_two();
        if states * classes > CELLS {
            return Err(AutomatonError::Cells { states, classes });
        }
        table.start = 0;
        table.shift = classes.trailing_zeros();
        table.classes = self.classes.of;
        for (state, row) in self.rows.iter().enumerate() {
            table.accept[state] = self.accept[state];
            for (class, next) in row.iter().enumerate() {
                // No state exceeds STATES.
                table.transitions[state * classes + class] = u16::try_from(*next).unwrap_or(0);
            }
        }
        Ok(())
    }
}

/// The subset construction: each set of states that some path leads to is one state.
struct Subsets<'a> {
    nfa: &'a Nfa,
    closures: Vec<Vec<State>>,
    found: Numbering<Vec<State>>,
}

impl<'a> Subsets<'a> {
    fn new(nfa: &'a Nfa) -> Self {
        let closures = nfa.closures();
        let mut found = Numbering::default();
        found.number(sorted(closures[0].clone()));
        Self {
            nfa,
            closures,
            found,
        }
    }

    /// The bytes that any step tells from others.
    fn named_bytes(&self) -> BTreeSet<u8> {
        let mut named = BTreeSet::from([b'/']);
        let states = 0..self.closures.len();
        let states = states.filter_map(|state| State::try_from(state).ok());
        for (step, _) in states.flat_map(|state| self.nfa.steps(state)) {
            if let Step::Byte(byte) = step {
                named.insert(*byte);
            }
        }
        named
    }

    /// Where a set leads, by class.
    fn row(&mut self, subset: &[State], examples: &[u8]) -> Vec<u32> {
        let bytes = self.told_apart(subset);
        let mut other = None;
        let next = examples.iter().map(|byte| {
            if bytes.contains(byte) {
                return self.next(subset, *byte);
            }
            // Most bytes are not what any pattern waits for here: they all lead to one place.
            *other.get_or_insert_with(|| self.next(subset, *byte))
        });
        next.collect()
    }

    /// The bytes that lead elsewhere than most.
    fn told_apart(&self, subset: &[State]) -> BTreeSet<u8> {
        let mut bytes = BTreeSet::from([b'/']);
        for (step, _) in subset.iter().flat_map(|state| self.nfa.steps(*state)) {
            if let Step::Byte(byte) = step {
                bytes.insert(*byte);
            }
        }
        bytes
    }

    fn next(&mut self, subset: &[State], byte: u8) -> u32 {
        let steps = subset.iter().flat_map(|state| self.nfa.steps(*state));
        let taken = steps.filter(|(step, _)| step.takes(byte));
        let ends = taken.filter_map(|(_, next)| self.closures.get(usize::try_from(*next).ok()?));
        let reached = sorted(ends.flatten().copied().collect());
        self.found.number(reached)
    }

    /// The patterns that match when the path ends here.
    fn complete(&self, subset: &[State]) -> BTreeSet<usize> {
        subset
            .iter()
            .filter_map(|state| self.nfa.complete(*state))
            .collect()
    }
}

fn sorted(mut states: Vec<State>) -> Vec<State> {
    states.sort_unstable();
    states.dedup();
    states
}

/// Numbers things in the order of their first appearance.
struct Numbering<T> {
    numbers: QuickMap<T, u32>,
    order: Vec<T>,
}

impl<T> Default for Numbering<T> {
    fn default() -> Self {
        Self {
            numbers: QuickMap::default(),
            order: Vec::new(),
        }
    }
}

impl<T: Hash + Eq + Clone> Numbering<T> {
    fn number(&mut self, thing: T) -> u32 {
        let Self { numbers, order } = self;
        // At most STATES_BEFORE times the byte classes.
        let next = u32::try_from(order.len()).unwrap_or(u32::MAX);
        *numbers.entry(thing).or_insert_with_key(|thing| {
            order.push(thing.clone());
            next
        })
    }
}
