//! States that no path tells apart become one (Moore's algorithm).

use super::Automaton;
use super::hash::QuickMap;

/// The same automaton with as few states as there can be.
pub(super) fn minimized(full: &Automaton) -> Automaton {
    joined(full, &full.accept).0
}

/// An automaton with as few states as there can be when `answers`, by state, stand for those that it has; and
/// which of its states each of the old ones became.
pub(super) fn joined(full: &Automaton, answers: &[u32]) -> (Automaton, Vec<u32>) {
    let blocks = blocks(full, answers);
    let mut first: Vec<usize> = Vec::new();
    for (state, block) in blocks.iter().enumerate() {
        // Blocks are numbered in the order of their first state, so the start stays 0.
        if index(*block) == first.len() {
            first.push(state);
        }
    }
    let row = |state: &usize| {
        full.rows[*state]
            .iter()
            .map(|next| blocks[index(*next)])
            .collect()
    };
    let automaton = Automaton {
        rows: first.iter().map(row).collect(),
        accept: first.iter().map(|state| full.accept[*state]).collect(),
        classes: full.classes.clone(),
    };
    (automaton, blocks)
}

/// The block of each state: split by what states decide, then by where they lead, until nothing
/// splits any more.
fn blocks(full: &Automaton, answers: &[u32]) -> Vec<u32> {
    let mut numbers: QuickMap<u32, u32> = QuickMap::default();
    let mut blocks: Vec<u32> = answers
        .iter()
        .map(|answer| number(&mut numbers, answer))
        .collect();
    let mut count = numbers.len();
    loop {
        let (split, now) = split(full, &blocks);
        blocks = split;
        if now == count {
            return blocks;
        }
        count = now;
    }
}

/// One round: the new blocks, and how many there are.
fn split(full: &Automaton, blocks: &[u32]) -> (Vec<u32>, usize) {
    let mut numbers: QuickMap<Vec<u32>, u32> = QuickMap::default();
    let mut signature = Vec::new();
    let of_state = full.rows.iter().zip(blocks).map(|(row, block)| {
        signature.clear();
        signature.push(*block);
        signature.extend(row.iter().map(|next| blocks[index(*next)]));
        match numbers.get(&signature) {
            Some(known) => *known,
            None => number(&mut numbers, &signature),
        }
    });
    let split = of_state.collect();
    (split, numbers.len())
}

fn number<T: std::hash::Hash + Eq + Clone>(numbers: &mut QuickMap<T, u32>, thing: &T) -> u32 {
    // As many blocks as states at most, and those are bounded.
    let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
    *numbers.entry(thing.clone()).or_insert(next)
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use turnkey_policy::Glob;

    use super::super::Automaton;

    fn answer(automaton: &Automaton, path: &str) -> u32 {
        let step = |state: usize, byte: u8| {
            let class = automaton.classes.of[usize::from(byte)];
            super::index(automaton.rows[state][usize::from(class)])
        };
        automaton.accept[path.bytes().fold(0, step)]
    }

    proptest! {
        #[test]
        fn fewer_states_answer_the_same(
            patterns in prop::collection::vec("/(a|b|\\*|\\*\\*/|\\?|\\{a,b/c\\}){1,5}", 1..5),
            paths in prop::collection::vec("/[abc/]{0,8}", 1..40),
        ) {
            let globs: Vec<Glob> = patterns.iter().filter_map(|text| text.parse().ok()).collect();
            let globs: Vec<&Glob> = globs.iter().collect();
            let mut answers: Vec<BTreeSet<usize>> = Vec::new();
            let build = Automaton::build(&globs, &BTreeSet::new(), |matched| {
                let known = answers.iter().position(|one| one == matched);
                let number = known.unwrap_or_else(|| {
                    answers.push(matched.clone());
                    answers.len() - 1
                });
                u32::try_from(number).expect("few")
            });
            let full = build.expect("few patterns");
            let before: Vec<u32> = paths.iter().map(|path| answer(&full, path)).collect();
            let states = full.rows.len();
            let fewer = full.minimized();
            prop_assert!(fewer.rows.len() <= states);
            let after: Vec<u32> = paths.iter().map(|path| answer(&fewer, path)).collect();
            prop_assert_eq!(before, after);
        }
    }
}
