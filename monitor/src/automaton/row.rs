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

    /// Takes the states that this one and another lead to, for the first class and for each that is kept of either.
    pub(super) fn beside(&self, other: &Self, mut take: impl FnMut(u32, u32)) {
        let (mut here, mut there) = (&*self.others, &*other.others);
        take(self.first, other.first);
        loop {
            match (here.split_first(), there.split_first()) {
                (Some((one, left)), Some((two, right))) if one.0 == two.0 => {
                    take(one.1, two.1);
                    (here, there) = (left, right);
                }
                (Some((one, left)), Some((two, _))) if one.0 < two.0 => {
                    take(one.1, other.first);
                    here = left;
                }
                (Some((one, left)), None) => {
                    take(one.1, other.first);
                    here = left;
                }
                (_, Some((two, right))) => {
                    take(self.first, two.1);
                    there = right;
                }
                (None, None) => return,
            }
        }
    }
}

fn at(class: u32) -> usize {
    usize::try_from(class).unwrap_or(usize::MAX)
}
