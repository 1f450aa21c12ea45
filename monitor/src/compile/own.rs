//! Answers in places of the jail's own, where rules on what is present say nothing.
//!
//! The automaton does not tell such a place from others: with the `**` that these rules begin with, it would have nearly all its
//! states twice. A state has another one beside it, by which the programs answer when the path begins with such a place. Whatever
//! they ask about a directory, they ask of what would be if those rules were not there. A link that leads from there to elsewhere
//! ends at a state that answers as everywhere.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;

use turnkey_abi::{OwnPlace, STATES, Table};
use turnkey_policy::{LackingPlace, Rule};

use crate::automaton::{Automaton, AutomatonError};
use crate::below::Below;

/// The places, and the rules that say nothing there.
pub(super) struct OwnPlaces {
    places: Vec<OwnPlace>,
    silent: Vec<bool>,
}

impl OwnPlaces {
    /// The places that the rules know of. One that does not fit the table is a place like others.
    pub(super) fn of(rules: &[Rule]) -> Self {
        let known = rules.iter().find(|rule| !rule.lacking.is_empty());
        let known = known.map_or(&[][..], |rule| &rule.lacking);
        let entry = |place: &LackingPlace| OwnPlace::of(place.path.as_os_str().as_bytes());
        let places: Vec<_> = known.iter().filter_map(entry).collect();
        let silent = rules.iter().map(|rule| rule.lacking == known);
        Self {
            silent: silent
                .map(|is_silent| is_silent && !places.is_empty())
                .collect(),
            places,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn silences(&self, rule: usize) -> bool {
        self.silent[rule]
    }

    /// Writes the places, and behind the states that there are `before` one for each way to answer there.
    pub(super) fn write(
        &self,
        table: &mut Table,
        before: usize,
        (by_own, below): (&Automaton, &Below),
    ) -> Result<(), AutomatonError> {
        // Of two that begin alike the later one is a place like others.
        for place in self.places.iter().rev() {
            let [_, second, ..] = place.path[0].to_ne_bytes();
            table.places[OwnPlace::index(second)] = *place;
        }
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
            let kind = first_kind + small(below.inside[state]);
            let next = before + written.len();
            let own = *written.entry((accept, row, kind)).or_insert(next);
            if own + 1 >= STATES {
                return Err(AutomatonError::States);
            }
            (table.accept[own], table.below[own], table.inside[own]) = (accept, row, kind);
            table.own[state] = u16::try_from(own).unwrap_or(0);
        }
        Ok(())
    }
}

/// Answers here and there, each pair once.
#[derive(Default)]
pub(super) struct Answers {
    pairs: Vec<(u32, u32)>,
    known: HashMap<(u32, u32), u32>,
}

impl Answers {
    /// The number of an answer elsewhere and the one in a place of the jail's own.
    pub(super) fn number(&mut self, elsewhere: u32, own: u32) -> u32 {
        let next = u32::try_from(self.pairs.len()).unwrap_or(u32::MAX);
        *self.known.entry((elsewhere, own)).or_insert_with(|| {
            self.pairs.push((elsewhere, own));
            next
        })
    }

    pub(super) fn elsewhere(&self, number: u32) -> u32 {
        self.pair(number).0
    }

    pub(super) fn own(&self, number: u32) -> u32 {
        self.pair(number).1
    }

    fn pair(&self, number: u32) -> (u32, u32) {
        self.pairs[usize::try_from(number).unwrap_or(usize::MAX)]
    }
}
