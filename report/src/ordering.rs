//! Look-ups of a name that is the jail itself, for which the C library connects a datagram socket to each of the
//! addresses, to put them in order, and sends nothing. Without a network that is refused, changes nothing, and is
//! nobody's attempt.
//!
//! Such a connect looks like any other. But a look-up reads `/etc/hosts` first and connects to each address once, so as many
//! are the library's as there were look-ups of this process; what a program connects to itself comes on top.

use std::collections::BTreeMap;

use turnkey_facts::{Address, Event, Kind, NetworkAct};
use turnkey_policy::{RuleAction, address};

/// The names that a host knows without asking anybody, hosts(5).
const HOSTS: &[u8] = b"/etc/hosts";
/// `SOCK_DGRAM`
const DATAGRAM: u32 = 2;
/// Processes that are remembered.
const PROCESSES: usize = 1024;
/// Addresses that are remembered of each.
const ADDRESSES: usize = 64;

/// Look-ups by process, and what they explain.
#[derive(Debug, Default)]
pub struct Ordering {
    by: BTreeMap<(u32, u64), LookUps>,
}

/// The look-ups of one process.
#[derive(Debug, Default)]
struct LookUps {
    count: u64,
    /// Connects by address.
    connects: BTreeMap<String, u64>,
}

impl Ordering {
    /// Takes in an event; true when it is a refused connect that a look-up explains.
    pub fn explains(&mut self, event: &Event) -> bool {
        let who = (event.task.pid, event.task.start_ns);
        let times = 1 + event.repeated;
        match &event.kind {
            Kind::Open {
                file,
                raw,
                errno: 0,
                ..
            } => {
                let path = file.as_ref().map_or(&raw.bytes, |file| &file.path);
                if path == HOSTS && (self.by.len() < PROCESSES || self.by.contains_key(&who)) {
                    self.by.entry(who).or_default().count += times;
                }
                false
            }
            Kind::Exit { .. } => {
                self.by.remove(&who);
                false
            }
            Kind::Network {
                act: NetworkAct::Connect,
                address: Address::Inet(peer),
                socket_type: DATAGRAM,
                errno: libc::EPERM,
                ..
            } if address::is_own(peer.ip()) => {
                let kills = event
                    .decision
                    .is_some_and(|one| one.action == RuleAction::Kill);
                // Who waits for connections looks up no name, and has "any address" put in order.
                if peer.ip().is_unspecified() {
                    return !kills;
                }
                let Some(look_ups) = self.by.get_mut(&who).filter(|_| !kills) else {
                    return false;
                };
                let address = peer.to_string();
                if look_ups.connects.len() >= ADDRESSES && !look_ups.connects.contains_key(&address)
                {
                    return false;
                }
                let connects = look_ups.connects.entry(address).or_default();
                *connects += times;
                *connects <= look_ups.count
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Story, opened};
    use super::*;

    fn connects(address: &str, socket_type: u32) -> Kind {
        Kind::Network {
            act: NetworkAct::Connect,
            address: Address::Inet(address.parse().expect("an address")),
            socket_type,
            socket: 0,
            errno: libc::EPERM,
        }
    }

    fn explained(kinds: impl IntoIterator<Item = (u32, Kind)>) -> Vec<bool> {
        let mut story = Story::command(&["sh"]);
        let before = story.events.len();
        for (pid, kind) in kinds {
            story.push(pid, kind);
        }
        let mut ordering = Ordering::default();
        let answers: Vec<bool> = story
            .events
            .iter()
            .map(|one| ordering.explains(one))
            .collect();
        answers[before..].to_vec()
    }

    /// getaddrinfo(3) of a server's own address has no name to look up.
    #[test]
    fn any_address_is_put_in_order_without_a_name() {
        let any = connects("0.0.0.0:8000", DATAGRAM);
        assert_eq!(explained([(2, any)]), [true]);
        assert_eq!(explained([(2, connects("0.0.0.0:8000", 1))]), [false]);
    }

    #[test]
    fn a_look_up_explains_one_connect_to_each_address_and_no_other() {
        let [v4, v6] = ["127.0.0.1:80", "[::1]:80"].map(|one| connects(one, DATAGRAM));
        let hosts = opened("/etc/hosts");
        assert_eq!(
            explained([(2, v4.clone())]),
            [false],
            "nobody looked a name up"
        );
        assert_eq!(
            explained([
                (2, hosts.clone()),
                (2, v6),
                (2, v4.clone()),
                (2, v4.clone())
            ]),
            [false, true, true, false],
            "the program's own comes on top"
        );
        assert_eq!(
            explained([
                (2, hosts.clone()),
                (2, v4.clone()),
                (2, hosts.clone()),
                (2, v4.clone())
            ]),
            [false, true, false, true],
            "another look-up"
        );
        assert_eq!(
            explained([(2, hosts.clone()), (3, v4)]),
            [false, false],
            "somebody else's"
        );
        for kind in [
            connects("127.0.0.1:80", 1),
            connects("10.0.0.1:80", DATAGRAM),
        ] {
            assert_eq!(explained([(2, hosts.clone()), (2, kind)]), [false, false]);
        }
    }
}
