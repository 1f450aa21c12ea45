//! One deterministic automaton for all patterns, small enough for the kernel.

mod hash;
mod minimize;
mod nfa;
mod row;

use std::collections::BTreeSet;
use std::rc::Rc;

use turnkey_abi::{CELLS, ROWS, STATES, Table};
use turnkey_policy::Glob;

pub(crate) use hash::QuickMap;
use nfa::{Nfa, State, Step};
use row::StateRow;

/// Errors of patterns that do not fit the table.
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
        /// Number of states.
        states: usize,
        /// Number of byte classes, rounded up to a power of two.
        classes: usize,
    },
    /// Too many different answers.
    #[error(
        "they are answered in {rows} ways, by whoever acts, and the table holds {ROWS}: name fewer programs and scripts"
    )]
    Rows {
        /// Number of rows.
        rows: usize,
    },
}

/// The automaton. State 0 is where it starts.
#[derive(Debug)]
pub(crate) struct Automaton {
    classes: Classes,
    /// By state; those that answer otherwise share them.
    rows: Rc<[StateRow]>,
    /// By state: what the path that ends there is answered, as a number.
    accept: Vec<u32>,
}

/// Bytes that no pattern tells apart are one class.
#[derive(Clone, Debug)]
struct Classes {
    /// By byte.
    of: [u8; 256],
    /// One byte of each class.
    examples: Vec<u8>,
}

impl Classes {
    /// Each byte that some pattern names is a class of its own, so is `/`; all others are one.
    fn from_named_bytes(named: &BTreeSet<u8>) -> Self {
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

    /// The class of a byte.
    fn class(&self, byte: u8) -> usize {
        usize::from(self.of[usize::from(byte)])
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
        let closures = nfa.closures();
        let mut subsets = Subsets::new(&nfa, &closures);
        let classes = Classes::from_named_bytes(&(bytes | &nfa.named_bytes()));
        let (mut rows, mut accept) = (Vec::new(), Vec::new());
        let mut answers: QuickMap<Vec<usize>, u32> = QuickMap::default();
        while let Some(subset) = subsets.found.order.get(rows.len()).cloned() {
            if rows.len() == STATES_BEFORE {
                return Err(AutomatonError::States);
            }
            rows.push(StateRow::of(&subsets.row(&subset, &classes)));
            let matched = subsets.complete(&subset);
            let number = match answers.get(&matched) {
                Some(known) => *known,
                None => {
                    let number = answer(&matched.iter().copied().collect());
                    answers.insert(matched, number);
                    number
                }
            };
            accept.push(number);
        }
        Ok(Self {
            classes,
            rows: rows.into(),
            accept,
        })
    }

    /// With as few states as there can be.
    pub(crate) fn minimized(self) -> Self {
        minimize::minimized(&self)
    }

    /// With as few states as there can be when only this is to be told of an answer; and which of its states
    /// each of these became.
    pub(crate) fn told_apart_by(&self, told: impl Fn(u32) -> u32) -> (Self, Vec<u32>) {
        let answers: Vec<u32> = self.accept.iter().map(|answer| told(*answer)).collect();
        minimize::joined(self, &answers)
    }

    /// The same, with another number for each answer.
    pub(crate) fn answering(&self, number: impl Fn(u32) -> u32) -> Self {
        Self {
            classes: self.classes.clone(),
            rows: Rc::clone(&self.rows),
            accept: self.accept.iter().map(|answer| number(*answer)).collect(),
        }
    }

    /// The numbers of its states.
    pub(crate) fn states(&self) -> impl Iterator<Item = u32> + use<> {
        // At most STATES_BEFORE.
        0..u32::try_from(self.rows.len()).unwrap_or(u32::MAX)
    }

    /// Takes the states that two states lead to by the same byte, each pair at least once.
    pub(crate) fn next_of_both(&self, one: u32, other: u32, take: impl FnMut(u32, u32)) {
        self.row(one).beside(self.row(other), take);
    }

    fn row(&self, state: u32) -> &StateRow {
        &self.rows[usize::try_from(state).unwrap_or(usize::MAX)]
    }

    /// The state that a slash leads to: the directory whose path ends in this state.
    pub(crate) fn into(&self, state: u32) -> u32 {
        self.row(state).to(self.classes.class(b'/'))
    }

    /// The state that a path leads to.
    pub(crate) fn state_of(&self, path: &[u8]) -> u32 {
        path.iter().fold(0, |state, byte| {
            self.row(state).to(self.classes.class(*byte))
        })
    }

    /// The number of what a path that ends in a state is answered.
    pub(crate) fn answer(&self, state: u32) -> u32 {
        self.accept[usize::try_from(state).unwrap_or(usize::MAX)]
    }

    /// The state in a directory that no pattern tells from others: deep, and below names of a byte that no
    /// pattern names.
    pub(crate) fn plain(&self) -> u32 {
        const DEPTH: usize = 16;
        let name = |state| self.row(state).to(0);
        (0..DEPTH).fold(self.into(0), |state, _| self.into(name(state)))
    }

    /// The cells of a state in a table.
    fn width(&self) -> usize {
        self.classes.examples.len().next_power_of_two()
    }

    /// Writes it into a table, behind the first `before` states of another one that tells the same bytes
    /// apart; the number of states then. Its answers are the numbers of their first rows.
    pub(crate) fn write(&self, table: &mut Table, before: usize) -> Result<usize, AutomatonError> {
        let states = before + self.rows.len();
        // The last one stands for a path that is not known.
        if states >= STATES {
            return Err(AutomatonError::States);
        }
        let classes = self.width();
        if states * classes > CELLS {
            return Err(AutomatonError::Cells { states, classes });
        }
        table.state_count = u16::try_from(states).unwrap_or(u16::MAX);
        table.shift = classes.trailing_zeros();
        table.classes = self.classes.of;
        for (state, (row, answer)) in (before..).zip(self.rows.iter().zip(&self.accept)) {
            // No state exceeds STATES, and no row ROWS.
            let small = |number: usize| u16::try_from(number).unwrap_or(0);
            let index = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
            table.accept[state] = small(index(*answer));
            let cells = &mut table.transitions[state * classes..][..self.classes.examples.len()];
            cells.fill(small(before + index(row.first)));
            for (class, next) in &row.others {
                cells[index(*class)] = small(before + index(*next));
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
    closures: &'a [Vec<State>],
    found: Numbering,
}

impl<'a> Subsets<'a> {
    fn new(nfa: &'a Nfa, closures: &'a [Vec<State>]) -> Self {
        let mut found = Numbering::default();
        let mut first = closures[0].clone();
        sort(&mut first);
        found.number(&first);
        Self {
            nfa,
            closures,
            found,
        }
    }

    /// The transitions of a set of states, by class.
    ///
    /// Most bytes are not what any pattern waits for in a state, and lead to one place; only the others are
    /// worth a look each.
    fn row(&mut self, subset: &[State], classes: &Classes) -> Vec<u32> {
        let (mut by_any, mut by_most, mut by_byte) = (Vec::new(), Vec::new(), Vec::new());
        for (step, next) in subset.iter().flat_map(|state| self.nfa.steps(*state)) {
            let next = self.closure(*next);
            match step {
                Step::Byte(byte) => by_byte.push((classes.class(*byte), next)),
                Step::NotSlash => by_most.extend(next),
                Step::Any => by_any.extend(next),
            }
        }
        by_most.extend(&by_any);
        sort(&mut by_any);
        sort(&mut by_most);
        let slash = classes.class(b'/');
        by_byte.push((slash, &[]));
        by_byte.sort_unstable_by_key(|(class, _)| *class);
        let mut reached = Vec::new();
        let other = self.found.number(&by_most);
        let mut row = vec![other; classes.examples.len()];
        for of_class in by_byte.chunk_by(|one, next| one.0 == next.0) {
            let class = of_class[0].0;
            let common = if class == slash { &by_any } else { &by_most };
            reached.clone_from(common);
            reached.extend(of_class.iter().flat_map(|(_, next)| *next));
            sort(&mut reached);
            row[class] = self.found.number(&reached);
        }
        row
    }

    fn closure(&self, state: State) -> &'a [State] {
        usize::try_from(state).map_or(&[], |state| &self.closures[state])
    }

    /// The patterns that match when the path ends here, in a fixed order.
    fn complete(&self, subset: &[State]) -> Vec<usize> {
        let complete = |state: &State| self.nfa.complete(*state);
        subset.iter().flat_map(complete).copied().collect()
    }
}

fn sort(states: &mut Vec<State>) {
    states.sort_unstable();
    states.dedup();
}

/// Numbers sets in the order of their first appearance.
#[derive(Default)]
struct Numbering {
    numbers: QuickMap<Vec<State>, u32>,
    order: Vec<Vec<State>>,
}

impl Numbering {
    fn number(&mut self, set: &[State]) -> u32 {
        if let Some(known) = self.numbers.get(set) {
            return *known;
        }
        // At most STATES_BEFORE times the byte classes.
        let next = u32::try_from(self.order.len()).unwrap_or(u32::MAX);
        self.numbers.insert(set.to_owned(), next);
        self.order.push(set.to_owned());
        next
    }
}
