//! The states that a state leads to. Most classes of bytes lead where the first one does, which no pattern names: only the
//! others are kept, a handful of a hundred, and whoever looks at all states many times looks at those.

/// The transitions of one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StateRow {
    /// The state that the first class leads to.
    pub(super) first: u32,
    /// The classes that lead to others, in order, each with its state.
    pub(super) others: Vec<(u32, u32)>,
}

impl StateRow {
    /// From the states by class, of which there is one at least.
    pub(super) fn of(by_class: &[u32]) -> Self {
        let first = by_class[0];
        let all = (0..).zip(by_class.iter().copied());
        Self {
            first,
            others: all.filter(|(_, next)| *next != first).collect(),
        }
    }

    /// The state that a class leads to.
    pub(super) fn to(&self, class: usize) -> u32 {
        let found = self
            .others
            .binary_search_by_key(&class, |(class, _)| at(*class));
        found.map_or(self.first, |found| self.others[found].1)
    }

    /// The row in which states have these numbers; some of them may be one.
    pub(super) fn numbered(&self, number: impl Fn(u32) -> u32) -> Self {
        let first = number(self.first);
        let others = self.others.iter();
        let others = others.map(|(class, next)| (*class, number(*next)));
        Self {
            first,
            others: others.filter(|(_, next)| *next != first).collect(),
        }
    }

    /// The states that this one and another lead to, for the first class and for each that is kept of either.
    pub(super) fn beside(&self, other: &Self) -> impl Iterator<Item = (u32, u32)> {
        let (mut here, mut there) = (&*self.others, &*other.others);
        let firsts = (self.first, other.first);
        let rest = std::iter::from_fn(move || {
            let class = [here, there]
                .iter()
                .filter_map(|left| left.first())
                .map(|(class, _)| *class)
                .min()?;
            Some((
                taken(&mut here, class).unwrap_or(firsts.0),
                taken(&mut there, class).unwrap_or(firsts.1),
            ))
        });
        std::iter::once(firsts).chain(rest)
    }
}

/// The state of a class, when the row begins with it, which it does no more then.
fn taken(row: &mut &[(u32, u32)], class: u32) -> Option<u32> {
    let ((first, next), rest) = row.split_first()?;
    if *first != class {
        return None;
    }
    *row = rest;
    Some(*next)
}

fn at(class: u32) -> usize {
    usize::try_from(class).unwrap_or(usize::MAX)
}
