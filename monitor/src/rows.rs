//! Rows of the table: for each role of a state's answer a row, with a rule for each column.

use std::collections::HashMap;

use turnkey_abi::{ROWS, Table, column};

use crate::automaton::AutomatonError;

/// For each column, the deciding rule plus one, or 0.
pub(crate) type Row = [u16; column::COUNT];

/// Answers, each once.
#[derive(Default)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    known: HashMap<Vec<Row>, u32>,
}

impl Rows {
    /// The number of the first of these rows.
    pub(crate) fn place(&mut self, answer: Vec<Row>) -> u32 {
        // A number that is too large is refused when they are written.
        let next = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        *self.known.entry(answer).or_insert_with_key(|answer| {
            self.rows.extend_from_slice(answer);
            next
        })
    }

    /// A row, by the number of the first one of its answer.
    pub(crate) fn row(&self, first: u32, role: usize) -> &Row {
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        &self.rows[first + role]
    }

    pub(crate) fn write(&self, table: &mut Table) -> Result<(), AutomatonError> {
        let rows = self.rows.len();
        if rows > ROWS {
            return Err(AutomatonError::Rows { rows });
        }
        table.rows[..rows].copy_from_slice(&self.rows);
        Ok(())
    }
}
