//! Answers of the rules below a directory whose content is not known.
//!
//! A directory that gets another name takes all that is in it along: each file below it is asked about by
//! another path from then on. What that changes is known before the fact, and without the content: directories
//! are of one *kind* when no path that goes on from them is answered by a stronger or weaker action. Between two
//! of one kind nothing changes. Between others the strongest answer that differs counts; the kernel takes for it
//! the answers by which each of the two differs from the *plain* kind, that of a directory which no pattern tells
//! from others. What differs between two kinds differs between one of them and that one. What comes under a name is asked
//! about in the column of writing: this holds, besides, what is asked in a plain directory and less strongly here.

use std::cmp::Reverse;

use turnkey_abi::column;

use crate::automaton::{Automaton, QuickMap};
use crate::compile;
use crate::rows::{Row, Rows};

/// Two different answers, each by the number of its first row.
#[derive(Default)]
struct Differences {
    known: QuickMap<(u32, u32), usize>,
    all: Vec<(u32, u32)>,
}

impl Differences {
    fn number(&mut self, one: u32, other: u32) -> usize {
        let next = self.all.len();
        *self.known.entry((one, other)).or_insert_with(|| {
            self.all.push((one, other));
            next
        })
    }
}

/// Every pair of different states that some path leads to from a pair of them.
#[derive(Default)]
struct Pairs {
    known: QuickMap<(u32, u32), usize>,
    all: Vec<(u32, u32)>,
    /// The pairs that each one leads to, one behind the other.
    next: Vec<usize>,
    /// By pair, where those that it leads to end.
    ends: Vec<usize>,
}

impl Pairs {
    fn number(&mut self, pair: (u32, u32)) -> usize {
        let next = self.all.len();
        *self.known.entry(pair).or_insert_with(|| {
            self.all.push(pair);
            next
        })
    }

    /// All that can be reached from those that there are.
    fn follow(&mut self, automaton: &Automaton) {
        let mut of_one = Vec::new();
        while self.ends.len() < self.all.len() {
            let (one, other) = self.all[self.ends.len()];
            of_one.clear();
            automaton.next_of_both(one, other, |one, other| {
                if one != other {
                    of_one.push(self.number((one, other)));
                }
            });
            of_one.sort_unstable();
            of_one.dedup();
            self.next.extend_from_slice(&of_one);
            self.ends.push(self.next.len());
        }
    }

    /// The pairs that this one leads to.
    fn next(&self, pair: usize) -> &[usize] {
        let before = pair.checked_sub(1);
        &self.next[before.map_or(0, |before| self.ends[before])..self.ends[pair]]
    }
}

/// Differences between the two states of a pair: answers to paths of at least one byte from the one that are others from the other.
struct Behind {
    differences: Differences,
    /// The numbers of differences as bits, of one pair behind the other.
    bits: Vec<u64>,
    /// The words of one pair.
    words: usize,
}

impl Behind {
    fn of_pairs(automaton: &Automaton, pairs: &Pairs) -> Self {
        let mut differences = Differences::default();
        let own: Vec<Option<usize>> = pairs
            .all
            .iter()
            .map(|(one, other)| {
                let answers = (automaton.answer(*one), automaton.answer(*other));
                (answers.0 != answers.1).then(|| differences.number(answers.0, answers.1))
            })
            .collect();
        let words = differences.all.len().div_ceil(64);
        let mut behind = Self {
            differences,
            bits: vec![0; words * pairs.all.len()],
            words,
        };
        behind.follow(pairs, &own);
        behind
    }

    /// Adds to each pair what lies behind those that it leads to, and what those themselves are answered, until nothing is new.
    fn follow(&mut self, pairs: &Pairs, own: &[Option<usize>]) {
        let mut bits = vec![0; self.words];
        let mut changed = true;
        while changed {
            changed = false;
            // What lies behind a pair was mostly found after it.
            for pair in (0..pairs.all.len()).rev() {
                bits.copy_from_slice(self.of(pair));
                for next in pairs.next(pair) {
                    if let Some(difference) = own[*next] {
                        bits[difference / 64] |= 1 << (difference % 64);
                    }
                    for (word, other) in bits.iter_mut().zip(self.of(*next)) {
                        *word |= other;
                    }
                }
                changed |= bits != self.of(pair);
                self.bits[pair * self.words..][..self.words].copy_from_slice(&bits);
            }
        }
    }

    fn of(&self, pair: usize) -> &[u64] {
        &self.bits[pair * self.words..][..self.words]
    }

    /// For each role and column the strongest of the rules in all differences behind a pair.
    fn strongest(&self, pair: usize, rows: &Rows, strengths: &Strengths<'_>) -> Vec<Row> {
        let mut answer = vec![[0; column::COUNT]; strengths.roles];
        let bits = self.of(pair);
        let is_set = |number: &usize| bits[number / 64] >> (number % 64) & 1 != 0;
        for number in (0..self.differences.all.len()).filter(is_set) {
            let (here, plain) = self.differences.all[number];
            for (role, answer) in answer.iter_mut().enumerate() {
                let rows = (rows.row(here, role), rows.row(plain, role));
                add(answer, rows, strengths);
            }
        }
        answer
    }
}

/// Kinds of directories and answers below them, by the state that a directory's path ends in.
pub(crate) struct Below {
    /// The directory's kind.
    pub(crate) inside: Vec<u32>,
    /// The number of the first row of what may be below it.
    pub(crate) rows: Vec<u32>,
    /// The number of the first of the rows in which nothing is answered.
    pub(crate) none: u32,
}

/// The rules as far as they matter here.
pub(crate) struct Strengths<'t> {
    /// By rule plus one.
    pub(crate) of: &'t [u8],
    /// Number of rows of an answer: one for each role.
    pub(crate) roles: usize,
}

impl Strengths<'_> {
    fn strength_of(&self, rule: u16) -> u8 {
        self.of[usize::from(rule)]
    }

    /// The stronger of two rules plus one; the earlier, when both are as strong.
    fn stronger(&self, one: u16, other: u16) -> u16 {
        std::cmp::max_by_key(one, other, |rule| (self.strength_of(*rule), Reverse(*rule)))
    }

    /// A number for how strong all that is answered is, the same for answers that are as strong.
    fn number(&self, known: &mut QuickMap<Vec<u8>, u32>, rows: &Rows, answer: u32) -> u32 {
        let all = (0..self.roles).flat_map(|role| rows.row(answer, role));
        let strengths: Vec<u8> = all.map(|rule| self.strength_of(*rule)).collect();
        let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
        *known.entry(strengths).or_insert(next)
    }
}

/// Finds out about every directory, and places rows for what is found.
pub(crate) fn below(automaton: &Automaton, rows: &mut Rows, strengths: &Strengths<'_>) -> Below {
    let mut known = QuickMap::default();
    let mut numbers: QuickMap<u32, u32> = QuickMap::default();
    for state in automaton.states() {
        let answer = automaton.answer(state);
        numbers
            .entry(answer)
            .or_insert_with(|| strengths.number(&mut known, rows, answer));
    }
    let (kinds, of_state) = automaton.told_apart_by(|answer| numbers[&answer]);
    let plain = kinds.plain();
    let mut pairs = Pairs::default();
    let inside: Vec<u32> = automaton
        .states()
        .map(|state| of_state[index(automaton.into(state))])
        .collect();
    // Which rule answers is asked of the rules themselves: those of one kind are as strong, and others.
    let by_name = automaton.plain();
    let starts: Vec<Option<usize>> = automaton
        .states()
        .zip(&inside)
        .map(|(state, kind)| {
            (*kind != plain).then(|| pairs.number((automaton.into(state), by_name)))
        })
        .collect();
    pairs.follow(automaton);
    let behind = Behind::of_pairs(automaton, &pairs);
    let mut placed: QuickMap<&[u64], u32> = QuickMap::default();
    let none = rows.place(vec![[0; column::COUNT]; strengths.roles]);
    let row_of = |start: &Option<usize>| {
        let Some(start) = start else {
            return none;
        };
        *placed.entry(behind.of(*start)).or_insert_with(|| {
            let answer = behind.strongest(*start, rows, strengths);
            rows.place(answer)
        })
    };
    let rows = starts.iter().map(row_of).collect();
    Below { inside, rows, none }
}

/// True when two directories, by the states that their paths end in, are of one kind.
pub(crate) fn are_alike(
    automaton: &Automaton,
    (one, other): (u32, u32),
    rows: &Rows,
    strengths: &Strengths<'_>,
) -> bool {
    let mut pairs = Pairs::default();
    pairs.number((automaton.into(one), automaton.into(other)));
    pairs.follow(automaton);
    let mut known = QuickMap::default();
    let mut number = |state| strengths.number(&mut known, rows, automaton.answer(state));
    pairs
        .all
        .iter()
        .all(|(one, other)| number(*one) == number(*other))
}

/// Answers, by role, of what may be below one directory, as [`below`] finds them out about all.
pub(crate) fn below_one(
    automaton: &Automaton,
    directory: u32,
    rows: &Rows,
    strengths: &Strengths<'_>,
) -> Vec<Row> {
    let mut pairs = Pairs::default();
    let start = pairs.number((automaton.into(directory), automaton.plain()));
    pairs.follow(automaton);
    Behind::of_pairs(automaton, &pairs).strongest(start, rows, strengths)
}

fn index(state: u32) -> usize {
    usize::try_from(state).unwrap_or(usize::MAX)
}

/// Adds what differs for a path below a directory, `here`, from what it would be below a plain one.
fn add(answer: &mut Row, (here, plain): (&Row, &Row), strengths: &Strengths<'_>) {
    let mut lost = 0;
    let mut shed = 0;
    for (column, cell) in (0..).zip(answer.iter_mut()) {
        let (here, plain) = (here[column], plain[column]);
        let order = strengths
            .strength_of(here)
            .cmp(&strengths.strength_of(plain));
        if order.is_eq() {
            continue;
        }
        let stronger = strengths.stronger(here, plain);
        let is_use = compile::AWAY.iter().any(|one| *one as usize == column);
        if is_use {
            lost = strengths.stronger(lost, stronger);
        }
        if is_use && order.is_lt() {
            shed = strengths.stronger(shed, plain);
        }
        *cell = strengths.stronger(*cell, stronger);
    }
    // The strongest of all uses may be the same, and one of them another.
    let away = &mut answer[column::AWAY as usize];
    *away = strengths.stronger(*away, lost);
    let written = here[column::WRITE as usize];
    if strengths.strength_of(written) > strengths.strength_of(plain[column::WRITE as usize]) {
        let guarded = &mut answer[column::GUARDED as usize];
        *guarded = strengths.stronger(*guarded, written);
    }
    // What comes here from a plain directory is no longer asked what it is asked there.
    let write = &mut answer[column::WRITE as usize];
    *write = strengths.stronger(*write, shed);
}
