//! The callers that wait: bounded, and shared fairly between users.

use std::collections::{BTreeSet, VecDeque};

/// Callers in the order in which they came.
#[derive(Debug)]
pub struct CallerQueue<T> {
    waiting: VecDeque<QueuedCaller<T>>,
    most: usize,
}

/// A caller in its place.
#[derive(Debug)]
pub struct QueuedCaller<T> {
    /// The user.
    pub user: u32,
    /// The number of its request: smaller than that of each who came later.
    pub number: u64,
    /// The caller.
    pub caller: T,
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

    /// True when one more has a place only if another one loses it.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= self.most
    }

    /// The callers that wait, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &QueuedCaller<T>> {
        self.waiting.iter()
    }

    /// Forgets those of whom `stays` is false.
    pub fn retain(&mut self, stays: impl FnMut(&QueuedCaller<T>) -> bool) {
        self.waiting.retain(stays);
    }

    /// Adds a caller in its place, which is before those who came later. Where there is no room, who has the most callers here loses its
    /// last one; the answer is who has no place, perhaps the new one.
    pub fn push(&mut self, caller: QueuedCaller<T>) -> Option<QueuedCaller<T>> {
        let place = self
            .waiting
            .partition_point(|other| other.number < caller.number);
        self.waiting.insert(place, caller);
        if self.waiting.len() <= self.most {
            return None;
        }
        // Of those with as many, the one who came last.
        let last = (0..self.waiting.len())
            .max_by_key(|place| (self.count_of(self.waiting[*place].user), *place));
        self.waiting.remove(last?)
    }

    /// True when a caller of this user waits who came before this request.
    pub fn has_before(&self, user: u32, number: u64) -> bool {
        let is_before = |other: &QueuedCaller<T>| other.user == user && other.number < number;
        self.waiting.iter().any(is_before)
    }

    /// Takes who is next: of the first caller of each user, the one with the lowest rank; where `rank` has none, that user waits.
    pub fn next(
        &mut self,
        rank: impl Fn(&QueuedCaller<T>) -> Option<usize>,
    ) -> Option<QueuedCaller<T>> {
        let mut seen = BTreeSet::new();
        let places = self.waiting.iter().enumerate();
        let firsts = places.filter(|(_, caller)| seen.insert(caller.user));
        let ranked = firsts.filter_map(|(place, caller)| Some((rank(caller)?, place)));
        let (_, place) = ranked.min()?;
        self.waiting.remove(place)
    }

    fn count_of(&self, user: u32) -> usize {
        self.waiting.iter().filter(|own| own.user == user).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn queued(user: u32, number: u64) -> QueuedCaller<()> {
        let caller = ();
        QueuedCaller {
            user,
            number,
            caller,
        }
    }

    fn numbers(queue: &CallerQueue<()>) -> Vec<u64> {
        queue.iter().map(|caller| caller.number).collect()
    }

    #[test]
    fn a_flood_of_one_user_leaves_room_for_others() {
        let mut queue = CallerQueue::new(4);
        let mut push = |user, number| queue.push(queued(user, number)).map(|lost| lost.number);
        let turned_away: Vec<_> = (0..100).filter_map(|number| push(1, number)).collect();
        assert_eq!(turned_away, (4..100).collect::<Vec<_>>());
        // Each of the others takes the place of one of the flood.
        assert_eq!(push(2, 200), Some(3));
        assert_eq!(push(3, 300), Some(2));
        assert_eq!(numbers(&queue), [0, 1, 200, 300]);
    }

    #[test]
    fn the_user_with_the_fewest_runs_is_next() {
        let mut queue = CallerQueue::new(9);
        for (user, number) in [(1, 0), (1, 1), (2, 2), (3, 3)] {
            queue.push(queued(user, number));
        }
        let running = [0, 2, 1, 1];
        let mut next = |most: usize, running: [usize; 4]| {
            let rank = |caller: &QueuedCaller<()>| Some(running[caller.user as usize]);
            let next = queue.next(|caller| rank(caller).filter(|running| *running < most));
            next.map(|caller| caller.number)
        };
        assert_eq!(next(2, running), Some(2));
        assert_eq!(next(2, running), Some(3));
        assert_eq!(next(2, running), None, "the first user has all it may have");
        assert_eq!(next(2, [0; 4]), Some(0), "in its turn");
    }

    #[test]
    fn who_comes_back_stands_where_it_stood_and_nobody_of_its_user_passes() {
        let mut queue = CallerQueue::new(9);
        for (user, number) in [(1, 2), (2, 3), (1, 0), (1, 1)] {
            queue.push(queued(user, number));
        }
        assert_eq!(numbers(&queue), [0, 1, 2, 3]);
        assert!(queue.has_before(1, 2) && !queue.has_before(2, 3));
        let too_large = |caller: &QueuedCaller<()>| (caller.number != 0).then_some(0);
        assert_eq!(queue.next(too_large).unwrap().number, 3, "of another user");
        assert!(queue.next(too_large).is_none());
        assert_eq!(queue.next(|_| Some(0)).unwrap().number, 0);
    }

    proptest! {
        #[test]
        fn nobody_loses_a_place_to_who_has_more(
            users in prop::collection::vec((0_u32..4, 0_u64..100), 0..40), most in 1_usize..6
        ) {
            let mut queue = CallerQueue::new(most);
            for (user, number) in users {
                let before: Vec<u32> = queue.iter().map(|caller| caller.user).collect();
                let lost = queue.push(queued(user, number));
                prop_assert!(queue.len() <= most);
                prop_assert!(numbers(&queue).is_sorted());
                if let Some(loser) = lost {
                    let with_it: Vec<u32> = before.iter().copied().chain([user]).collect();
                    let of = |user: u32| with_it.iter().filter(|own| **own == user).count();
                    prop_assert!((0..4).all(|other| of(other) <= of(loser.user)));
                }
            }
        }
    }
}
