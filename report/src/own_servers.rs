//! Ports on which the program itself listens. Without a network a connect to the loopback is held against the program where nobody
//! listens, since it looks for a service of the machine; who waits for a server of its own does so, too, and is told from the other
//! when the run is over. So is a server at every address: it waits for the program itself, or for somebody else. And so is a question about a
//! name that is allowed, which is known by the name alone that comes after the connect.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use turnkey_facts::{Address, Event, Kind, NetworkAct};
use turnkey_policy::{AttemptKind, EndpointHost, NetworkMode, Policy, Rule, address};

use super::errno::errno_name;
use super::model::{NetworkAttempt, Result, Violation};
use super::peers;
use super::stopper::Stopper;

/// The ports on which something in the jail has listened, and those at which it came to itself.
#[derive(Debug, Default)]
pub struct OwnServers {
    /// The names of rules about servers that apply without a network alone.
    rules: BTreeSet<String>,
    /// Of streams.
    listening: BTreeSet<u16>,
    reached: BTreeSet<u16>,
    /// The names that the program may talk to. It has their addresses in its list of hosts, and who asks a server for them all the
    /// same, as for an address of another family, learns nothing else.
    allowed: BTreeSet<String>,
}

impl OwnServers {
    /// For a run under these rules.
    pub fn new(policy: &Policy) -> Self {
        let is_one = |rule: &&Rule| rule.hidden && rule.on.contains(&AttemptKind::Bind);
        let rules = policy.rules.iter().filter(is_one);
        let hosts = match policy.network.mode {
            NetworkMode::Allow => &policy.network.allow[..],
            _ => &[],
        };
        let allowed = hosts.iter().filter_map(|host| match &host.to.peer {
            EndpointHost::Name(name) => Some(name.clone()),
            EndpointHost::Net(_) => None,
        });
        Self {
            rules: rules.map(|rule| rule.id.clone()).collect(),
            allowed: allowed.collect(),
            ..Self::default()
        }
    }

    /// Takes in an event.
    pub fn note(&mut self, event: &Event) {
        if let Kind::Network {
            act,
            address: Address::Inet(own),
            errno: 0,
            ..
        } = &event.kind
            && address::is_own(own.ip())
        {
            let ports = match act {
                NetworkAct::Listen => &mut self.listening,
                NetworkAct::Connect | NetworkAct::Send => &mut self.reached,
                NetworkAct::Bind => return,
            };
            ports.insert(own.port());
        }
    }

    /// True for connects that found nobody where the program itself has listened, earlier or later, for servers at every address of
    /// the jail's own network to which the program itself came, and for questions about names that are allowed.
    pub fn explain_violation(&self, one: &Violation) -> bool {
        if self.allow_all(&one.names) {
            return true;
        }
        let address = one.address.as_deref().unwrap_or_default();
        match one.on {
            AttemptKind::Connect => self.explain(address, one.stopped_by, one.errno.as_deref()),
            AttemptKind::Bind => self.is_own_server(&one.rule, address, one.stopped_by),
            _ => false,
        }
    }

    /// A row; one that tells of such connects as of a failure, which nobody has anything against, and of such servers without a rule.
    pub fn as_explained(&self, row: NetworkAttempt) -> NetworkAttempt {
        let rule = row.rule.as_deref().unwrap_or_default();
        if self.is_own_server(rule, &row.address, row.stopped_by) {
            return NetworkAttempt { rule: None, ..row };
        }
        let is_explained = self.explain(&row.address, row.stopped_by, row.errno.as_deref());
        if !is_explained && !self.allow_all(&peers::names(&row)) {
            return row;
        }
        NetworkAttempt {
            result: Result::Failed,
            stopped_by: None,
            rule: None,
            ..row
        }
    }

    fn allow_all(&self, names: &[String]) -> bool {
        let is_allowed = |name: &String| self.allowed.contains(&name.to_ascii_lowercase());
        !names.is_empty() && names.iter().all(is_allowed)
    }

    fn is_own_server(&self, rule: &str, address: &str, stopped_by: Option<Stopper>) -> bool {
        let port = address.parse().map(|address: SocketAddr| address.port());
        stopped_by.is_none()
            && self.rules.contains(rule)
            && port.is_ok_and(|port| self.reached.contains(&port))
    }

    fn explain(&self, address: &str, stopped_by: Option<Stopper>, errno: Option<&str>) -> bool {
        let found_nobody = stopped_by == Some(Stopper::NetworkNamespace)
            && errno == errno_name(libc::ECONNREFUSED).as_deref();
        let peer: Option<SocketAddr> = address.parse().ok();
        found_nobody && peer.is_some_and(|peer| self.listening.contains(&peer.port()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{connect, policy, task};
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
    fn a_server_at_every_address_is_explained_by_a_client_of_the_run_alone() {
        let rule = |id: &str, hidden| Rule {
            hidden,
            ..Rule::new(id, [AttemptKind::Bind], turnkey_policy::RuleAction::Log)
        };
        let servers = |address: &str, errno| {
            let mut servers = OwnServers::new(&turnkey_policy::Policy {
                rules: vec![rule("without-network", true), rule("own", false)],
                ..policy()
            });
            servers.note(&event(connect(address, errno)));
            servers
        };
        let reached = servers("127.0.0.1:8000", 0);
        for (servers, rule, address, stopped_by, is_explained) in [
            (&reached, "without-network", "0.0.0.0:8000", None, true),
            (&reached, "without-network", "[::]:8000", None, true),
            (&reached, "without-network", "0.0.0.0:8001", None, false),
            // A rule of the caller's own stands.
            (&reached, "own", "0.0.0.0:8000", None, false),
            (
                &reached,
                "without-network",
                "0.0.0.0:8000",
                Some(Stopper::CgroupProgram),
                false,
            ),
            (
                &servers("127.0.0.1:8000", libc::ECONNREFUSED),
                "without-network",
                "0.0.0.0:8000",
                None,
                false,
            ),
            (
                &servers("192.0.2.1:8000", 0),
                "without-network",
                "0.0.0.0:8000",
                None,
                false,
            ),
        ] {
            assert_eq!(
                servers.is_own_server(rule, address, stopped_by),
                is_explained,
                "{rule}, {address}, {stopped_by:?}"
            );
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
