//! Puts events in the order of their numbers.
//!
//! Two CPUs, and two rings, can hand over their events in the other order, so an event waits
//! for the number before it. A number that is lost never comes: it is given up when the kernel has
//! counted a loss for it and enough others wait, or when too much waits.

use std::collections::BTreeMap;

use turnkey_facts::Event;

/// Fewest events that wait before a lost number is given up: more than CPUs can hand over in the other order.
const WAITING: usize = 256;

/// Most bytes of records that wait: as many as the rings hold.
const BYTES: usize = (turnkey_abi::RING + turnkey_abi::VERDICT_RING) as usize;

/// Events that wait for a number before theirs.
#[derive(Debug, Default)]
pub struct Order {
    waiting: BTreeMap<u64, (Event, usize)>,
    bytes: usize,
    next_seq: u64,
    /// The number after the highest that came.
    end: u64,
    /// Numbers that were given up and have not come since.
    given_up: u64,
}

impl Order {
    /// Takes in an event, whose record had so many bytes.
    pub fn push(&mut self, event: Event, bytes: usize) {
        self.bytes += bytes;
        self.end = self.end.max(event.seq.saturating_add(1));
        // No kernel gives a number twice; if one did, the later event would have it.
        if let Some((_, before)) = self.waiting.insert(event.seq, (event, bytes)) {
            self.bytes -= before;
        }
    }

    /// Takes in an event that no ring brought, after all that came by them; the number that it got. It is `next_seq`,
    /// unless records came that were numbered after that was read.
    pub fn append(&mut self, event: Event, next_seq: u64) -> u64 {
        let seq = self.end.max(next_seq);
        self.push(Event { seq, ..event }, 0);
        seq
    }

    /// Number of events that wait, and the bytes of their records.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn held(&self) -> (usize, usize) {
        (self.waiting.len(), self.bytes)
    }

    /// The next event, unless one before it may still come. `lost` says how many numbers will
    /// never come; it is asked only when that matters.
    pub fn pop(&mut self, lost: impl FnOnce() -> u64) -> Option<Event> {
        let (first, _) = self.waiting.first_key_value()?;
        let gap = first.saturating_sub(self.next_seq);
        let ready = gap == 0
            || self.bytes > BYTES
            || self.waiting.len() > WAITING && lost() >= self.given_up + gap;
        if ready { self.take() } else { None }
    }

    /// The next event, whatever is missing before it.
    pub fn take(&mut self) -> Option<Event> {
        let (seq, (event, bytes)) = self.waiting.pop_first()?;
        self.bytes -= bytes;
        match seq.checked_sub(self.next_seq) {
            Some(gap) => {
                self.given_up += gap;
                self.next_seq = seq.saturating_add(1);
            }
            // It was given up and came after all.
            None => self.given_up = self.given_up.saturating_sub(1),
        }
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use turnkey_facts::{Kind, Task};

    fn event(seq: u64) -> Event {
        let task = Task {
            pid: 1,
            tid: 1,
            jail_pid: 1,
            uid: 0,
            parent_pid: 0,
            start_ns: 0,
            comm: Vec::new(),
        };
        Event {
            seq,
            time_ns: seq,
            last_ns: 0,
            repeated: 0,
            task,
            kind: Kind::Exit { status: 0 },
            decision: None,
        }
    }

    /// The numbers that come out when `numbers` go in, and how many waited at most.
    fn through(numbers: &[u64], lost: u64, bytes: usize) -> (Vec<u64>, usize) {
        let mut order = Order::default();
        let (mut out, mut most) = (Vec::new(), 0);
        for seq in numbers {
            order.push(event(*seq), bytes);
            while let Some(event) = order.pop(|| lost) {
                out.push(event.seq);
            }
            most = most.max(order.held().0);
        }
        out.extend(std::iter::from_fn(|| order.take()).map(|event| event.seq));
        assert_eq!(order.held(), (0, 0));
        (out, most)
    }

    #[test]
    fn a_late_event_is_waited_for_as_long_as_nothing_is_lost() {
        let mut numbers: Vec<u64> = (1..10_000).collect();
        numbers.push(0);
        let (out, most) = through(&numbers, 0, 136);
        assert!(out.is_sorted() && out.len() == 10_000);
        assert_eq!(most, 9_999);
    }

    #[test]
    fn a_lost_number_is_given_up_once_enough_wait() {
        let numbers: Vec<u64> = (0..10_000).filter(|seq| seq % 100 != 7).collect();
        let (out, most) = through(&numbers, 100, 136);
        assert_eq!(out, numbers);
        assert!(most <= WAITING, "{most}");
    }

    #[test]
    fn what_waits_is_bounded_even_when_no_loss_explains_it() {
        let numbers: Vec<u64> = (1..5_000).collect();
        let (out, most) = through(&numbers, 0, 12_000);
        assert_eq!(out, numbers);
        assert!(most <= BYTES / 12_000 + 1, "{most}");
    }

    /// Found by the fuzzer: nothing comes after the highest number, and a number can come twice.
    #[test]
    fn numbers_that_no_kernel_gives_are_taken_too() {
        let (out, _) = through(&[u64::MAX, 5, 5, u64::MAX], 0, 16 << 20);
        assert_eq!(
            out.iter().collect::<std::collections::BTreeSet<_>>().len(),
            2
        );
    }

    proptest! {
        /// An event added at the end, with a number that was read before the last records came, stands after them.
        #[test]
        fn what_is_appended_has_a_number_of_its_own(
            (arrived, read) in (0_u64..50).prop_flat_map(|arrived| (Just(arrived), 0..=arrived)),
            handed_over in any::<bool>(),
            appended in 1_u64..5,
        ) {
            let (mut order, mut out, mut next) = (Order::default(), Vec::new(), read);
            for seq in 0..arrived {
                order.push(event(seq), 136);
                if handed_over {
                    out.extend(order.pop(|| 0).map(|event| event.seq));
                }
            }
            for _ in 0..appended {
                next = order.append(event(0), next) + 1;
            }
            out.extend(std::iter::from_fn(|| order.take()).map(|event| event.seq));
            prop_assert_eq!(out, (0..arrived + appended).collect::<Vec<_>>());
            prop_assert_eq!(next, arrived + appended);
        }

        /// Whatever is lost and however records overtake each other: all that came is handed over
        /// once, in order as long as nothing is late by more than waits.
        #[test]
        fn everything_comes_out_once_and_in_order(
            kept in prop::collection::vec(any::<bool>(), 1..2000),
            swaps in prop::collection::vec((0_usize..2000, 1_usize..20), 0..200),
        ) {
            let mut numbers: Vec<u64> = (0_u64..).zip(&kept).filter(|(_, kept)| **kept).map(|(seq, _)| seq).collect();
            let sorted = numbers.clone();
            for (from, by) in swaps {
                if from + by < numbers.len() {
                    numbers.swap(from, from + by);
                }
            }
            let lost = kept.iter().filter(|kept| !**kept).count() as u64;
            let (out, _) = through(&numbers, lost, 136);
            prop_assert_eq!(out, sorted);
        }
    }
}
