//! Connections that the gateway passed on.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A port of the jail that the host's loopback led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The host's port.
    pub host: u16,
    /// The jail's port.
    pub inside: u16,
    /// The traffic; `None` when nobody connected.
    pub passage: Option<Passage>,
}

/// The traffic to and from one address and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The address and port outside.
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
