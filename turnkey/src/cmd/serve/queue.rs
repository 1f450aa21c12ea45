//! The callers that wait for a slot: bounded, and shared fairly between users.

use std::collections::VecDeque;

/// Callers in the order in which they came, each with its user.
#[derive(Debug)]
pub struct CallerQueue<T> {
    waiting: VecDeque<(u32, T)>,
    most: usize,
}

impl<T> CallerQueue<T> {
    /// A queue in which at most `most` wait.
    pub fn new(most: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            most,
        }
    }

    /// The number of those who wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The callers that wait, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter().map(|(_, caller)| caller)
    }

    /// Forgets those of whom `stays` is false.
    pub fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        self.waiting.retain(|(_, caller)| stays(caller));
    }

    /// Adds a caller of this user. Where there is no room, who has the most callers here loses its last one; the answer is who has no
    /// place, perhaps the new one.
    pub fn push(&mut self, user: u32, caller: T) -> Option<T> {
        self.waiting.push_back((user, caller));
        if self.waiting.len() <= self.most {
            return None;
        }
        // Of those with as many, the one who came last.
        let last =
            (0..self.waiting.len()).max_by_key(|place| (self.of(self.waiting[*place].0), *place));
        self.waiting.remove(last?).map(|(_, caller)| caller)
    }

    /// Takes who is next: the first caller of the user who has the fewest runs, where that has fewer than `most_running`.
    pub fn next(
        &mut self,
        running: impl Fn(u32) -> usize,
        most_running: usize,
    ) -> Option<(u32, T)> {
        let places = self.waiting.iter().enumerate();
        let counted = places.map(|(place, (user, _))| (running(*user), place));
        let free = counted.filter(|(running, _)| *running < most_running);
        let (_, place) = free.min()?;
        self.waiting.remove(place)
    }

    fn of(&self, user: u32) -> usize {
        self.waiting.iter().filter(|(own, _)| *own == user).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_flood_of_one_user_leaves_room_for_others() {
        let mut queue = CallerQueue::new(4);
        let turned_away: Vec<_> = (0..100)
            .filter_map(|number| queue.push(1, number))
            .collect();
        assert_eq!(turned_away, (4..100).collect::<Vec<_>>());
        // Each of the others takes the place of one of the flood.
        assert_eq!(queue.push(2, 200), Some(3));
        assert_eq!(queue.push(3, 300), Some(2));
        assert_eq!(queue.iter().copied().collect::<Vec<_>>(), [0, 1, 200, 300]);
    }

    #[test]
    fn the_user_with_the_fewest_runs_is_next() {
        let mut queue = CallerQueue::new(9);
        for (user, caller) in [(1, 'a'), (1, 'b'), (2, 'c'), (3, 'd')] {
            queue.push(user, caller);
        }
        let running = |user| [0, 2, 1, 1][user as usize];
        assert_eq!(queue.next(running, 2), Some((2, 'c')));
        assert_eq!(queue.next(running, 2), Some((3, 'd')));
        assert_eq!(
            queue.next(running, 2),
            None,
            "the first user has all it may have"
        );
        assert_eq!(queue.next(|_| 0, 2), Some((1, 'a')), "in its turn");
    }

    proptest! {
        #[test]
        fn nobody_loses_a_place_to_who_has_more(users in prop::collection::vec(0_u32..4, 0..40), most in 1_usize..6) {
            let mut queue = CallerQueue::new(most);
            for (number, user) in users.iter().enumerate() {
                let before: Vec<u32> = queue.iter().map(|(user, _)| *user).collect();
                let lost = queue.push(*user, (*user, number));
                prop_assert!(queue.len() <= most);
                if let Some((loser, _)) = lost {
                    let with_it: Vec<u32> = before.iter().copied().chain([*user]).collect();
                    let of = |user: u32| with_it.iter().filter(|own| **own == user).count();
                    prop_assert!((0..4).all(|other| of(other) <= of(loser)));
                }
            }
        }
    }
}
