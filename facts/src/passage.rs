//! Connections that the gateway passed on.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What went to one address and port, and came from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Where to.
    pub to: SocketAddr,
    /// Connections that were made.
    pub connections: u64,
    /// Bytes from the program.
    pub sent: u64,
    /// Bytes to the program.
    pub received: u64,
    /// Connections that were taken and could not be made outside, by the number of the error; 0
    /// for what has none.
    pub failures: BTreeMap<i32, u64>,
    /// Connections to an address that the list does not have.
    pub refused: u64,
    /// Of the first one, `CLOCK_BOOTTIME` in nanoseconds.
    pub first_ns: u64,
    /// Of the last one.
    pub last_ns: u64,
}
