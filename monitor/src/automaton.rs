//! One deterministic automaton for all patterns, small enough for the kernel.

mod hash;
mod minimize;
mod nfa;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;

use turnkey_abi::{CELLS, ROWS, STATES, Table};
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
    /// Too many different answers.
    #[error(
        "they are answered in {rows} ways, by whoever acts, and the table holds {ROWS}: name fewer programs and scripts"
    )]
    Rows {
        /// How many there are.
        rows: usize,
    },
}

/// The automaton. State 0 is where it starts.
#[derive(Debug)]
pub(crate) struct Automaton {
    classes: Classes,
    /// By state, then by class.
    rows: Vec<Vec<u32>>,
    /// By state: what the path that ends there is answered, as a number.
    accept: Vec<u32>,
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
    /// Builds the automaton, which tells at least these bytes apart. `answer` numbers what a set of matching
    /// patterns, by index, is answered.
    pub(crate) fn build(
        patterns: &[&Glob],
        bytes: &BTreeSet<u8>,
        mut answer: impl FnMut(&BTreeSet<usize>) -> u32,
    ) -> Result<Self, AutomatonError> {
        let nfa = Nfa::new(patterns.iter().copied());
        let mut subsets = Subsets::new(&nfa);
        let classes = Classes::of(&(bytes | &nfa.named_bytes()));
        let (mut rows, mut accept) = (Vec::new(), Vec::new());
        let mut answers: BTreeMap<BTreeSet<usize>, u32> = BTreeMap::new();
        while let Some(subset) = subsets.found.order.get(rows.len()).cloned() {
            if rows.len() == STATES_BEFORE {
                return Err(AutomatonError::States);
            }
            rows.push(subsets.row(&subset, &classes.examples));
            let matched = subsets.complete(&subset);
            let known = answers.get(&matched).copied();
            let number = known.unwrap_or_else(|| answer(&matched));
            answers.insert(matched, number);
            accept.push(number);
        }
        Ok(minimize::minimized(Self {
            classes,
            rows,
            accept,
        }))
    }

    /// Writes it into a table, behind the first `before` states of another one that tells the same bytes
    /// apart; the number of states then. Its answers are the numbers of their first rows.
    pub(crate) fn write(&self, table: &mut Table, before: usize) -> Result<usize, AutomatonError> {
        let states = before + self.rows.len();
        if states > STATES {
            return Err(AutomatonError::States);
        }
        let classes = self.classes.examples.len().next_power_of_two();
        if states * classes > CELLS {
            return Err(AutomatonError::Cells { states, classes });
        }
        table.shift = classes.trailing_zeros();
        table.classes = self.classes.of;
        for (state, (row, answer)) in (before..).zip(self.rows.iter().zip(&self.accept)) {
            // No state exceeds STATES, and no row ROWS.
            let small = |number: usize| u16::try_from(number).unwrap_or(0);
            let index = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
            table.accept[state] = small(index(*answer));
            for (class, next) in row.iter().enumerate() {
                table.transitions[state * classes + class] = small(before + index(*next));
            }
        }
        Ok(states)
    }
}

/// The bytes that any of these patterns tells from others.
pub(crate) fn bytes_of(patterns: &[&Glob]) -> BTreeSet<u8> {
    Nfa::new(patterns.iter().copied()).named_bytes()
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
