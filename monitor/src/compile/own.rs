//! Answers in places of the jail's own, where rules on what is present say nothing.
//!
//! The automaton does not tell such a place from others: with the `**` that these rules begin with, it would have nearly all its
//! states twice. A state has another one beside it, by which the programs answer when the path begins with such a place. Whatever
//! they ask about a directory, they ask of what would be if those rules were not there. A link that leads from there to elsewhere
//! ends at a state that answers as everywhere.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;

use turnkey_abi::{OWN_KINDS, OwnPlace, STATES, Table};
use turnkey_policy::{LackingPlace, Rule};

use crate::automaton::{Automaton, AutomatonError};
use crate::below::{Below, Strengths, below};
use crate::rows::Rows;

/// The places, and the rules that say nothing there.
pub(super) struct OwnPlaces {
    places: Vec<OwnPlace>,
    /// By kind of place: whether each rule is silent there.
    kinds: Vec<Vec<bool>>,
}

impl OwnPlaces {
    /// The places that the rules know of. One that does not fit the table is a place like others.
    pub(super) fn from_rules(rules: &[Rule]) -> Self {
        let mut own = Self {
            places: Vec::new(),
            kinds: Vec::new(),
        };
        let mut known: Vec<&LackingPlace> = Vec::new();
        for place in rules.iter().flat_map(|rule| &rule.lacking) {
            if !known.contains(&place) {
                known.push(place);
                own.add(place, rules);
            }
        }
        own
    }

    fn add(&mut self, place: &LackingPlace, rules: &[Rule]) {
        let silent = rules.iter().map(|rule| rule.lacking.contains(place));
        let silent: Vec<bool> = silent.collect();
        let known = self.kinds.iter().position(|kind| *kind == silent);
        let kind = known.unwrap_or(self.kinds.len());
        let Some(entry) = OwnPlace::of(place.path.as_os_str().as_bytes()) else {
            return;
        };
        if kind < OWN_KINDS {
            self.places.push(OwnPlace {
                kind: u32::try_from(kind).unwrap_or(0),
                ..entry
            });
            self.kinds.extend(known.is_none().then_some(silent));
        }
    }

    /// The kinds of places, each of the rules that say nothing there.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &Vec<bool>> {
        self.kinds.iter()
    }

    /// For each kind of place, the automaton of all paths with the answers there, and those below directories.
    pub(super) fn automata(
        &self,
        by_path: &Automaton,
        answers: &Answers,
        (rows, strengths): (&mut Rows, &Strengths<'_>),
    ) -> Vec<(Automaton, Below)> {
        let of_kind = |kind: usize| {
            let by_own = by_path.answering(|number| answers.own(number, kind));
            let below = below(&by_own, rows, strengths);
            (by_own, below)
        };
        (0..self.kinds.len()).map(of_kind).collect()
    }

    /// Writes the places, and behind the states that there are `before` those that answer in them.
    pub(super) fn write(
        &self,
        table: &mut Table,
        before: usize,
        by_own: &[(Automaton, Below)],
    ) -> Result<(), AutomatonError> {
        // Of two that begin alike the later one is a place like others.
        for place in self.places.iter().rev() {
            let [_, second, ..] = place.path[0].to_ne_bytes();
            table.places[OwnPlace::index(second)] = *place;
        }
        let mut states = before;
        for (kind, by_own) in by_own.iter().enumerate() {
            states = write_answers(table, (kind, states), by_own)?;
        }
        Ok(())
    }
}

/// Writes behind the states that there are `before` one for each way to answer in places of a kind; the number of states then.
fn write_answers(
    table: &mut Table,
    (kind, before): (usize, usize),
    (by_own, below): &(Automaton, Below),
) -> Result<usize, AutomatonError> {
    let mut written = HashMap::new();
    // Kinds of directories are compared here and there among themselves alone, and no kind of the one is one of the other.
    let kinds = table.inside.iter().filter(|kind| **kind != u16::MAX);
    let first_kind = kinds.max().map_or(0, |kind| kind + 1);
    for (state, number) in by_own.states().enumerate() {
        let small = |number: u32| u16::try_from(number).unwrap_or(0);
        let (accept, row) = (small(by_own.answer(number)), small(below.rows[state]));
        if (accept, row) == (table.accept[state], table.below[state]) {
            continue;
        }
        let inside = first_kind + small(below.inside[state]);
        let next = before + written.len();
        let own = *written.entry((accept, row, inside)).or_insert(next);
        if own + 1 >= STATES {
            return Err(AutomatonError::States);
        }
        (table.accept[own], table.below[own], table.inside[own]) = (accept, row, inside);
        table.own[kind][state] = u16::try_from(own).unwrap_or(0);
    }
    Ok(before + written.len())
}

/// Answers elsewhere and in each kind of place of the jail's own.
type Quiet = (u32, [u32; OWN_KINDS]);

/// Answers to paths, all of them once; of each what it would be if no rule on what is present were silent.
#[derive(Default)]
pub(super) struct Answers {
    all: Vec<(Quiet, u32)>,
    known: HashMap<(Quiet, u32), u32>,
    quiet: HashMap<Quiet, u32>,
}

impl Answers {
    /// The number of an answer.
    pub(super) fn number(&mut self, quiet: Quiet, loud: u32) -> u32 {
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        *self.known.entry((quiet, loud)).or_insert_with(|| {
            self.all.push((quiet, loud));
            self.quiet.entry(quiet).or_insert(next);
            next
        })
    }

    pub(super) fn elsewhere(&self, number: u32) -> u32 {
        self.answer_for(number).0.0
    }

    pub(super) fn own(&self, number: u32, kind: usize) -> u32 {
        self.answer_for(number).0.1[kind]
    }

    /// The answer as it would be if no rule on what is present were silent.
    pub(super) fn loud(&self, number: u32) -> u32 {
        self.answer_for(number).1
    }

    /// The first of those that differ in nothing but that.
    pub(super) fn quiet(&self, number: u32) -> u32 {
        self.quiet[&self.answer_for(number).0]
    }

    fn answer_for(&self, number: u32) -> (Quiet, u32) {
        self.all[usize::try_from(number).unwrap_or(usize::MAX)]
    }
}
