//! States that no path tells apart become one (Moore's algorithm, which looks again at those alone that lead to what was split).

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
    let row = |state: &usize| full.rows[*state].numbered(|next| blocks[index(next)]);
    let automaton = Automaton {
        rows: first.iter().map(row).collect(),
        accept: first.iter().map(|state| full.accept[*state]).collect(),
        classes: full.classes.clone(),
    };
    (automaton, blocks)
}

/// The block of each state, numbered in the order of their first states.
fn blocks(full: &Automaton, answers: &[u32]) -> Vec<u32> {
    let partition = Partition::of_automaton(full, answers);
    let mut numbers: QuickMap<u32, u32> = QuickMap::default();
    let blocks = partition.blocks.iter();
    blocks.map(|block| number(&mut numbers, block)).collect()
}

/// States in blocks: split by what states decide, then by where they lead, until nothing splits any more.
struct Partition<'a> {
    full: &'a Automaton,
    leading: Leading,
    /// By state.
    blocks: Vec<u32>,
    /// By block.
    members: Vec<Vec<u32>>,
    /// By state: true when what it leads to was split since it was last looked at.
    is_open: Vec<bool>,
}

/// States by the state that they lead to.
struct Leading {
    /// The states that lead to one behind those that lead to another.
    all: Vec<u32>,
    /// By state, where its own begin; at last where all end.
    begins: Vec<usize>,
}

impl Leading {
    fn of_automaton(full: &Automaton) -> Self {
        let mut begins = vec![0; full.rows.len() + 1];
        let each = |take: &mut dyn FnMut(u32, usize)| {
            for state in full.states() {
                let row = &full.rows[index(state)];
                take(state, index(row.first));
                row.others
                    .iter()
                    .for_each(|(_, next)| take(state, index(*next)));
            }
        };
        each(&mut |_, next| begins[next] += 1);
        let mut end = 0;
        for begin in &mut begins {
            end += *begin;
            *begin = end;
        }
        // Filled from behind, so that each count becomes the place of the first.
        let mut all = vec![0; end];
        each(&mut |state, next| {
            begins[next] -= 1;
            all[begins[next]] = state;
        });
        Self { all, begins }
    }

    fn to(&self, state: u32) -> &[u32] {
        &self.all[self.begins[index(state)]..self.begins[index(state) + 1]]
    }
}

impl<'a> Partition<'a> {
    fn of_automaton(full: &'a Automaton, answers: &[u32]) -> Self {
        let mut numbers: QuickMap<u32, u32> = QuickMap::default();
        let blocks = answers.iter();
        let blocks: Vec<u32> = blocks.map(|answer| number(&mut numbers, answer)).collect();
        let mut partition = Self {
            full,
            leading: Leading::of_automaton(full),
            members: vec![Vec::new(); numbers.len()],
            is_open: vec![true; full.rows.len()],
            blocks,
        };
        for state in full.states() {
            partition.members[index(partition.blocks[index(state)])].push(state);
        }
        let mut open: Vec<u32> = full.states().collect();
        while !open.is_empty() {
            open = partition.round(open);
        }
        partition
    }

    /// Looks at the states that are `open`; those that are then.
    fn round(&mut self, mut open: Vec<u32>) -> Vec<u32> {
        open.sort_unstable_by_key(|state| (self.blocks[index(*state)], *state));
        let mut moved = Vec::new();
        let blocks = |state: &u32| self.blocks[index(*state)];
        for together in open.chunk_by(|one, next| blocks(one) == blocks(next)) {
            moved.extend(self.split(together));
        }
        for state in open {
            self.is_open[index(state)] = false;
        }
        self.move_to(&moved)
    }

    /// The `open` states of one block that go on otherwise than the rest of it, each part of them alike.
    fn split(&self, open: &[u32]) -> Vec<Vec<u32>> {
        let mut known: QuickMap<Vec<u32>, usize> = QuickMap::default();
        let mut parts: Vec<Vec<u32>> = Vec::new();
        let mut signature = Vec::new();
        let all = &self.members[index(self.blocks[index(open[0])])];
        if all.len() == 1 {
            return parts;
        }
        // Those that are not open go on alike.
        let quiet = all.iter().find(|state| !self.is_open[index(**state)]);
        for state in quiet.into_iter().chain(open) {
            self.sign(*state, &mut signature);
            if let Some(part) = known.get(&signature) {
                parts[*part].push(*state);
            } else {
                known.insert(signature.clone(), parts.len());
                parts.push(vec![*state]);
            }
        }
        parts.split_off(1)
    }

    /// The blocks that a state leads to.
    fn sign(&self, state: u32, signature: &mut Vec<u32>) {
        let row = &self.full.rows[index(state)];
        let first = self.blocks[index(row.first)];
        signature.clear();
        signature.push(first);
        for (class, next) in &row.others {
            let next = self.blocks[index(*next)];
            if next != first {
                signature.extend([*class, next]);
            }
        }
    }

    /// Gives each of these a block of its own; the states that lead to them.
    fn move_to(&mut self, parts: &[Vec<u32>]) -> Vec<u32> {
        let mut left = Vec::new();
        for part in parts {
            // As many blocks as states at most, and those are bounded.
            let block = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
            for state in part {
                left.push(std::mem::replace(&mut self.blocks[index(*state)], block));
            }
            self.members.push(part.clone());
        }
        left.sort_unstable();
        left.dedup();
        for block in left {
            let blocks = &self.blocks;
            self.members[index(block)].retain(|state| blocks[index(*state)] == block);
        }
        let mut open = Vec::new();
        for leading in parts.iter().flatten().map(|state| self.leading.to(*state)) {
            for state in leading {
                if !std::mem::replace(&mut self.is_open[index(*state)], true) {
                    open.push(*state);
                }
            }
        }
        open
    }
}

fn number(numbers: &mut QuickMap<u32, u32>, thing: &u32) -> u32 {
    // As many blocks as states at most, and those are bounded.
    let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
    *numbers.entry(*thing).or_insert(next)
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
            super::index(automaton.rows[state].to(usize::from(class)))
        };
        automaton.accept[path.bytes().fold(0, step)]
    }

    /// The number of blocks by rounds in which each state is compared whole.
    fn blocks_by_whole_rounds(full: &Automaton) -> usize {
        let mut blocks = full.accept.clone();
        loop {
            let whole = |state: usize| -> Vec<u32> {
                let next = (0..full.classes.examples.len()).map(|class| full.rows[state].to(class));
                let next = next.map(|next| blocks[super::index(next)]);
                std::iter::once(blocks[state]).chain(next).collect()
            };
            let all: Vec<Vec<u32>> = (0..full.rows.len()).map(whole).collect();
            let different: Vec<&Vec<u32>> =
                all.iter().collect::<BTreeSet<_>>().into_iter().collect();
            let before = blocks.iter().collect::<BTreeSet<_>>().len();
            if different.len() == before {
                return before;
            }
            let number = |one: &Vec<u32>| different.binary_search(&one).expect("it is one of them");
            blocks = all
                .iter()
                .map(|one| u32::try_from(number(one)).expect("few"))
                .collect();
        }
    }

    proptest! {
        #[test]
        fn as_few_states_as_can_be_answer_the_same(
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
            let fewest = blocks_by_whole_rounds(&full);
            let fewer = full.minimized();
            prop_assert_eq!(fewer.rows.len(), fewest);
            let after: Vec<u32> = paths.iter().map(|path| answer(&fewer, path)).collect();
            prop_assert_eq!(before, after);
        }
    }
}
