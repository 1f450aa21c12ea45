//! Ports on which the program itself listens. Without a network a connect to the loopback is held against the program where nobody
//! listens, since it looks for a service of the machine; who waits for a server of its own does so, too, and is told from the other
//! when the run is over.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use turnkey_facts::{Address, Event, Kind, NetworkAct};
use turnkey_policy::{AttemptKind, address};

use super::errno::errno_name;
use super::model::{NetworkAttempt, Result, Violation};
use super::stopper::Stopper;

/// The ports of streams that something in the jail has listened on.
#[derive(Debug, Default)]
pub struct OwnServers {
    ports: BTreeSet<u16>,
}

impl OwnServers {
    /// Takes in an event.
    pub fn note(&mut self, event: &Event) {
        if let Kind::Network {
            act: NetworkAct::Listen,
            address: Address::Inet(own),
            errno: 0,
            ..
        } = &event.kind
            && address::is_own(own.ip())
        {
            self.ports.insert(own.port());
        }
    }

    /// True for connects that found nobody where the program itself has listened, earlier or later.
    pub fn explain_violation(&self, one: &Violation) -> bool {
        let address = one.address.as_deref().unwrap_or_default();
        one.on == AttemptKind::Connect
            && self.explain(address, one.stopped_by, one.errno.as_deref())
    }

    /// A row; one that tells of such connects as of a failure, which nobody has anything against.
    pub fn as_explained(&self, row: NetworkAttempt) -> NetworkAttempt {
        if !self.explain(&row.address, row.stopped_by, row.errno.as_deref()) {
            return row;
        }
        NetworkAttempt {
            result: Result::Failed,
            stopped_by: None,
            rule: None,
            ..row
        }
    }

    fn explain(&self, address: &str, stopped_by: Option<Stopper>, errno: Option<&str>) -> bool {
        let found_nobody = stopped_by == Some(Stopper::NetworkNamespace)
            && errno == errno_name(libc::ECONNREFUSED).as_deref();
        let peer: Option<SocketAddr> = address.parse().ok();
        found_nobody && peer.is_some_and(|peer| self.ports.contains(&peer.port()))
    }
}
