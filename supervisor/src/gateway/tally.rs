//! The traffic that went through, by address. Bounded: a range can have more addresses than a list has room.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use turnkey_facts::Passage;

use crate::clock;

/// Addresses that are told apart.
const MOST_ROWS: usize = 1024;

/// The rows of all addresses.
#[derive(Debug, Default)]
pub struct PassageTally {
    rows: RefCell<BTreeMap<SocketAddr, Passage>>,
}

impl PassageTally {
    /// A connection was made.
    pub fn connected(&self, to: SocketAddr) {
        self.began(to, |row| row.connections += 1);
    }

    /// The other end was not reached.
    pub fn failed(&self, to: SocketAddr, error: &io::Error) {
        let number = error.raw_os_error().unwrap_or(0);
        self.began(to, |row| *row.failures.entry(number).or_default() += 1);
    }

    /// The list does not have it.
    pub fn refused(&self, to: SocketAddr) {
        self.began(to, |row| row.refused += 1);
    }

    /// The program sent something.
    pub fn sent(&self, to: SocketAddr, bytes: u64) {
        self.known(to, |row| row.sent += bytes);
    }

    /// The program was sent something.
    pub fn received(&self, to: SocketAddr, bytes: u64) {
        self.known(to, |row| row.received += bytes);
    }

    /// All rows, in the order of the addresses.
    pub fn rows(&self) -> Vec<Passage> {
        self.rows.borrow().values().cloned().collect()
    }

    fn began(&self, to: SocketAddr, change: impl FnOnce(&mut Passage)) {
        let mut rows = self.rows.borrow_mut();
        let now = clock::boottime();
        if rows.len() >= MOST_ROWS && !rows.contains_key(&to) {
            return;
        }
        let row = rows.entry(to).or_insert_with(|| Passage {
            to,
            connections: 0,
            sent: 0,
            received: 0,
            failures: BTreeMap::new(),
            refused: 0,
            first_ns: now,
            last_ns: now,
        });
        row.last_ns = now;
        change(row);
    }

    fn known(&self, to: SocketAddr, change: impl FnOnce(&mut Passage)) {
        if let Some(row) = self.rows.borrow_mut().get_mut(&to) {
            change(row);
        }
    }
}
