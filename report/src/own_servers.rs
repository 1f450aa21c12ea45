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

#[cfg(test)]
mod tests {
    use super::super::fixture::{connect, task};
    use super::*;

    /// A run that listens, successfully or not.
    fn listening(address: &str, errno: i32) -> OwnServers {
        let kind = match connect(address, errno) {
            Kind::Network {
                address,
                socket_type,
                socket,
                errno,
                ..
            } => Kind::Network {
                act: NetworkAct::Listen,
                address,
                socket_type,
                socket,
                errno,
            },
            other => other,
        };
        let mut servers = OwnServers::default();
        servers.note(&event(kind));
        servers
    }

    fn event(kind: Kind) -> Event {
        Event {
            seq: 1,
            time_ns: 0,
            last_ns: 0,
            repeated: 0,
            task: task(1),
            decision: None,
            kind,
        }
    }

    #[test]
    fn a_connect_is_explained_by_the_port_on_which_the_run_listens_alone() {
        let nobody = (Some(Stopper::NetworkNamespace), Some("ECONNREFUSED"));
        let own = listening("127.0.0.1:8000", 0);
        for (servers, address, (stopped_by, errno), is_explained) in [
            (&own, "127.0.0.1:8000", nobody, true),
            (&own, "[::1]:8000", nobody, true),
            (&own, "127.0.0.1:8001", nobody, false),
            (&own, "127.0.0.1:8000", (nobody.0, Some("EPERM")), false),
            (
                &own,
                "10.0.0.1:8000",
                (Some(Stopper::CgroupProgram), nobody.1),
                false,
            ),
            (
                &listening("0.0.0.0:8000", 0),
                "127.0.0.1:8000",
                nobody,
                true,
            ),
            // It could not listen.
            (
                &listening("127.0.0.1:8000", libc::EADDRINUSE),
                "127.0.0.1:8000",
                nobody,
                false,
            ),
            // Another host's address is no server of the jail's.
            (
                &listening("192.0.2.1:8000", 0),
                "127.0.0.1:8000",
                nobody,
                false,
            ),
            (&OwnServers::default(), "127.0.0.1:8000", nobody, false),
        ] {
            assert_eq!(
                servers.explain(address, stopped_by, errno),
                is_explained,
                "{address}, {stopped_by:?}, {errno:?}"
            );
        }
    }
}
