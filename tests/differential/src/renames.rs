//! Renames by other threads while a file is opened: the observer that stops the call reads the path of the opened file when the call is
//! over, and it may be another by then.

use crate::trace::{Calls, Seen};

/// rename(2), renameat(2), renameat2(2)
const RENAMES: [i64; 3] = [82, 264, 316];

/// Microseconds that the first call of a thread, or one behind the last, is given where no other call bounds it.
const UNBOUNDED: u64 = 100_000;

/// True when a thread other than `thread` renamed something between the end of the call before `index` and the end of the call behind
/// it.
pub fn meanwhile(calls: &Calls, thread: u32, index: usize) -> bool {
    let own = calls.get(&thread).map_or(&[][..], Vec::as_slice);
    let Some((from, _)) = span(own, index) else {
        return false;
    };
    let until = own
        .get(index + 1)
        .map_or_else(|| own[index].micros + UNBOUNDED, |next| next.micros);
    let others = calls.iter().filter(|(other, _)| **other != thread);
    let mut renames = others.flat_map(|(_, calls)| {
        let done = |index: &usize| {
            let seen = &calls[*index];
            RENAMES.contains(&seen.number) && seen.result == Some(0)
        };
        (0..calls.len())
            .filter(done)
            .filter_map(|index| span(calls, index))
    });
    renames.any(|(begun, over)| begun <= until && from <= over)
}

/// The time of a call at most: from the end of the call before to its own.
fn span(calls: &[Seen], index: usize) -> Option<(u64, u64)> {
    let over = calls.get(index)?.micros;
    let before = index.checked_sub(1).map(|before| calls[before].micros);
    Some((
        before.unwrap_or_else(|| over.saturating_sub(UNBOUNDED)),
        over,
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn calls(all: &[(i64, i64, u64)]) -> Vec<Seen> {
        let seen = |(number, result, micros): &(i64, i64, u64)| Seen {
            number: *number,
            args: None,
            result: Some(*result),
            micros: *micros,
        };
        all.iter().map(seen).collect()
    }

    #[test]
    fn a_rename_counts_that_was_done_by_another_about_then() {
        let opens = calls(&[(39, 1, 1_000), (257, 3, 2_000), (39, 1, 3_000)]);
        let other = |number, result, begun, over| {
            let other = calls(&[(39, 1, begun), (number, result, over)]);
            meanwhile(&BTreeMap::from([(7, opens.clone()), (8, other)]), 7, 1)
        };
        assert!(other(82, 0, 1_500, 1_600));
        assert!(other(316, 0, 500, 1_100) && other(264, 0, 2_900, 9_000));
        assert!(!other(82, 0, 100, 900) && !other(82, 0, 3_100, 3_200));
        assert!(!other(82, -2, 1_500, 1_600) && !other(86, 0, 1_500, 1_600));
        // Its own, which are in order.
        let own = calls(&[(82, 0, 1_000), (257, 3, 1_001)]);
        assert!(!meanwhile(&BTreeMap::from([(7, own)]), 7, 1));
    }
}
