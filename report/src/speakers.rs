//! The processes that opened a connection or sent a datagram, by the socket and whom it was for.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use turnkey_facts::{Address, Event, Kind, NetworkAct};

use super::processes::exec_id;

/// Sockets that are known, each with an address.
const SOCKETS: usize = 16384;
/// Processes that are known of one: several can send on a socket that they share.
const PROCESSES: usize = 8;

/// The speakers in a jail whose sockets bear a number. What is not in it is not known.
#[derive(Clone, Debug, Default)]
pub struct Speakers {
    by: BTreeMap<(u32, SocketAddr), Vec<u32>>,
}

impl Speakers {
    /// Takes in an event of the process with this row.
    pub fn note(&mut self, event: &Event, process: Option<usize>) {
        let Kind::Network {
            act: NetworkAct::Connect | NetworkAct::Send,
            address: Address::Inet(to),
            socket: socket @ 1..,
            errno: 0,
            ..
        } = event.kind
        else {
            return;
        };
        let key = (socket, canonical(to));
        if self.by.len() >= SOCKETS && !self.by.contains_key(&key) {
            return;
        }
        let Some(process) = process.map(exec_id) else {
            return;
        };
        let known = self.by.entry(key).or_default();
        if known.len() < PROCESSES && !known.contains(&process) {
            known.push(process);
        }
    }

    /// The rows of those who spoke on a socket to an address, in the order in which they did first.
    pub fn on(&self, socket: u32, to: SocketAddr) -> &[u32] {
        let known = self.by.get(&(socket, canonical(to)));
        known.map(Vec::as_slice).unwrap_or_default()
    }
}

/// The same for an address of version 4 and one of version 6 that stands for it.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
