//! A list with a bound, in the order of first appearance.

use std::collections::BTreeMap;

/// Rows by key. What finds no room is counted: a program that does a million different things
/// costs the report a number, not memory.
#[derive(Clone, Debug)]
pub struct Table<K, R> {
    index: BTreeMap<K, usize>,
    rows: Vec<R>,
    capacity: usize,
    omitted: u64,
}

impl<K: Ord, R> Table<K, R> {
    /// Room for `capacity` rows.
    pub fn new(capacity: usize) -> Self {
        Self {
            index: BTreeMap::new(),
            rows: Vec::new(),
            capacity,
            omitted: 0,
        }
    }

    /// Changes the row of `key`, or adds the row that `first` makes while there is room. The row, when it is new.
    pub fn record(
        &mut self,
        key: K,
        first: impl FnOnce(&K) -> R,
        again: impl FnOnce(&mut R),
    ) -> Option<&mut R> {
        if let Some(index) = self.index.get(&key) {
            again(&mut self.rows[*index]);
            None
        } else if self.rows.len() == self.capacity {
            self.omitted += 1;
            None
        } else {
            self.rows.push(first(&key));
            self.index.insert(key, self.rows.len() - 1);
            self.rows.last_mut()
        }
    }

    /// The number of times that [`Table::record`] found no room.
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// The rows, in the order in which they were first recorded.
    pub fn into_rows(self) -> Vec<R> {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_order_and_count_what_has_no_room() {
        let mut table = Table::new(2);
        for key in ["b", "a", "b", "c", "c", "a"] {
            let seen_before = table.index.contains_key(key);
            let new = table.record(key, |key| (*key, 1), |row| row.1 += 1);
            assert_eq!(new.is_some(), !seen_before && key != "c");
        }
        assert_eq!(table.omitted(), 2);
        assert_eq!(table.into_rows(), [("b", 2), ("a", 2)]);
    }
}
