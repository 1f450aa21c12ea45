//! The peers that a run talked to over the internet's protocols, or tried to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

use turnkey_facts::{Address, Event, Kind, NetworkAct};

use super::seen::UsedBy;
use turnkey_report::asked;

/// The port of name servers.
pub const NAME_SERVER: u16 = 53;
/// Different contacts and names that are kept, each. Whatever has more is not learned from one run.
const MOST: usize = 1 << 12;
/// Names that are kept of what one process has asked for.
const NAMES: usize = 4;

/// The kind of a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContactKind {
    /// connect(2)
    Connect,
    /// A send with an address.
    Send,
    /// bind(2) or listen(2)
    Wait,
}

/// A way of talking to somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContactKey {
    /// The kind of contact.
    pub act: ContactKind,
    /// Datagrams; otherwise a stream.
    pub datagrams: bool,
    /// With whom, or where it waits. An address of version 4 is never written as one of version 6.
    pub address: SocketAddr,
}

/// The programs that made a contact, and the names that they had asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MadeBy {
    /// The programs, and how often.
    pub by: UsedBy,
    /// The names that the same process had asked name servers for before.
    pub names: BTreeSet<String>,
}

/// The contacts of a run.
#[derive(Debug, Default)]
pub struct RunContacts {
    /// In order.
    pub made: BTreeMap<ContactKey, MadeBy>,
    /// Names that a name server was asked for.
    pub asked: BTreeMap<String, UsedBy>,
    /// Contacts for which there was no room.
    pub omitted: u64,
    /// The names, by process.
    by_process: HashMap<u32, BTreeSet<String>>,
}

impl RunContacts {
    /// Begins another run, whose processes are others.
    pub fn begin_run(&mut self) {
        self.by_process.clear();
    }

    /// Takes in an event about an internet address; whether it was one.
    pub fn note_contact(&mut self, event: &Event, by: UsedBy) -> bool {
        match &event.kind {
            Kind::Network {
                act,
                address: Address::Inet(address),
                socket_type,
                errno,
                ..
            } => {
                let contact = contact(*act, *address, *socket_type);
                // A look-up is no attempt: nobody is reached.
                if contact.act == ContactKind::Connect && contact.datagrams && address.port() == 0 {
                    return true;
                }
                let by = UsedBy {
                    succeeded: *errno == 0,
                    ..by
                };
                self.add(event, contact, &by);
                true
            }
            Kind::Question {
                data,
                socket_type,
                errno,
                ..
            } => {
                let by = UsedBy {
                    succeeded: *errno == 0,
                    ..by
                };
                for question in asked(data, *socket_type) {
                    self.ask(event.task.pid, question.name, &by);
                }
                true
            }
            _ => false,
        }
    }

    fn add(&mut self, event: &Event, contact: ContactKey, by: &UsedBy) {
        if self.made.len() >= MOST && !self.made.contains_key(&contact) {
            self.omitted += 1;
            return;
        }
        let made = self.made.entry(contact).or_default();
        made.by.join(by);
        // Whoever asks a name server is not with whom it wants to talk.
        if contact.act == ContactKind::Wait || contact.address.port() == NAME_SERVER {
            return;
        }
        let names = self.by_process.get(&event.task.pid).into_iter().flatten();
        let room = NAMES.saturating_sub(made.names.len());
        made.names.extend(names.take(room).cloned());
    }

    fn ask(&mut self, process: u32, name: String, by: &UsedBy) {
        if self.asked.len() >= MOST && !self.asked.contains_key(&name) {
            self.omitted += 1;
            return;
        }
        self.asked.entry(name.clone()).or_default().join(by);
        let names = self.by_process.entry(process).or_default();
        if names.len() < NAMES {
            names.insert(name);
        }
    }
}

fn contact(act: NetworkAct, address: SocketAddr, socket_type: u32) -> ContactKey {
    ContactKey {
        act: match act {
            NetworkAct::Connect => ContactKind::Connect,
            NetworkAct::Send => ContactKind::Send,
            NetworkAct::Bind | NetworkAct::Listen => ContactKind::Wait,
        },
        // Of a call that the filter refused the kind is not known.
        datagrams: socket_type == libc::SOCK_DGRAM.cast_unsigned()
            || socket_type == 0 && act == NetworkAct::Send,
        address: SocketAddr::new(address.ip().to_canonical(), address.port()),
    }
}
