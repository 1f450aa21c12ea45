//! Published ports: what connects to a port of the host's loopback is taken there, and dialed in the jail's network.
//!
//! The ports are taken before anything starts. The connections are served by a thread of its own that lives in the jail's
//! network namespace, and with the gateway's own bounds: no more than there is memory for, four buffers of a fixed size each.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use turnkey_facts::Publication;
use turnkey_policy::PublishedPort;

use crate::gateway::{Gateway, Service};

/// The number of times that a port is chosen which both loopback addresses have to have free.
const TRIES: usize = 16;

/// A port of the host that cannot be taken.
#[derive(Debug, thiserror::Error)]
#[error("port {port} of this host's loopback cannot lead to the jail's port {inside}")]
pub struct PublishError {
    port: u16,
    inside: u16,
    source: io::Error,
}

impl PublishError {
    /// The way out, if there is one.
    pub fn fix(&self) -> Option<String> {
        let inside = self.inside;
        let free = format!("--publish 0:{inside} takes one that is free and says which");
        match self.source.kind() {
            io::ErrorKind::AddrInUse => Some(format!(
                "end what listens there, see `ss -ltnp 'sport = {}'`; or choose another: {free}",
                self.port
            )),
            io::ErrorKind::PermissionDenied => Some(format!(
                "ports below 1024 are root's; choose another: {free}"
            )),
            _ => None,
        }
    }
}

/// A port of the host that has been taken, at each of its loopback addresses.
#[derive(Debug)]
pub struct TakenPort {
    /// The host's, as it was chosen.
    pub port: PublishedPort,
    listeners: Vec<TcpListener>,
}

/// Takes every port. What connects meanwhile waits.
pub fn take(ports: &[PublishedPort]) -> Result<Vec<TakenPort>, PublishError> {
    let taken = ports.iter().map(|port| {
        take_one(*port).map_err(|source| PublishError {
            port: port.host,
            inside: port.inside,
            source,
        })
    });
    taken.collect()
}

fn take_one(port: PublishedPort) -> io::Result<TakenPort> {
    for _ in 1..TRIES {
        match both(port) {
            // The one that was free at the first address is not at the other.
            Err(error) if port.host == 0 && error.kind() == io::ErrorKind::AddrInUse => {}
            taken => return taken,
        }
    }
    both(port)
}

/// The port at 127.0.0.1 and, where the host has it, ::1.
fn both(port: PublishedPort) -> io::Result<TakenPort> {
    let first = TcpListener::bind((Ipv4Addr::LOCALHOST, port.host))?;
    let host = first.local_addr()?.port();
    let second = match TcpListener::bind((Ipv6Addr::LOCALHOST, host)) {
        Ok(second) => Some(second),
        Err(error) if has_no_v6(&error) => None,
        Err(error) => return Err(error),
    };
    let listeners: Vec<_> = std::iter::once(first).chain(second).collect();
    for listener in &listeners {
        listener.set_nonblocking(true)?;
    }
    let port = PublishedPort { host, ..port };
    Ok(TakenPort { port, listeners })
}

fn has_no_v6(error: &io::Error) -> bool {
    let absent = [Errno::EAFNOSUPPORT, Errno::EADDRNOTAVAIL].map(|errno| errno as i32);
    error
        .raw_os_error()
        .is_some_and(|errno| absent.contains(&errno))
}

/// Ports that lead into a jail.
#[derive(Debug)]
pub struct Publisher {
    ports: Vec<PublishedPort>,
    gateway: Gateway,
}

impl Publisher {
    /// Serves what connects from here on, in `network`, and keeps `memory` bytes in the kernel at most.
    pub fn start(taken: Vec<TakenPort>, memory: u64, network: Option<OwnedFd>) -> io::Result<Self> {
        let ports: Vec<_> = taken.iter().map(|taken| taken.port).collect();
        let inside = ports.iter().map(|port| (port.host, port.inside)).collect();
        let listeners = taken.into_iter().flat_map(|taken| taken.listeners);
        let service = Service::Published(inside);
        let gateway = Gateway::start(listeners.collect(), service, (memory, network))?;
        Ok(Self { ports, gateway })
    }

    /// Ends it as [`Gateway::finish`] does: each port with what went through it.
    pub fn finish(self, drain: bool) -> Vec<Publication> {
        let mut passages = self.gateway.finish(drain);
        let publication = |port: &PublishedPort| Publication {
            host: port.host,
            inside: port.inside,
            passage: passages
                .iter()
                .position(|passage| passage.to.port() == port.host)
                .map(|index| passages.swap_remove(index)),
        };
        self.ports.iter().map(publication).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_told_with_one_that_is_free() {
        let port = PublishedPort {
            host: 0,
            inside: 80,
        };
        let taken = take(&[port]).expect("a port is free");
        let host = taken[0].port.host;
        assert_ne!(host, 0);
        let again = take(&[PublishedPort { host, inside: 80 }]).expect_err("it is taken");
        let fix = again.fix().expect("there is a way out");
        assert!(fix.contains("--publish 0:80"), "{fix}");
        drop(taken);
        take(&[PublishedPort { host, inside: 80 }]).expect("it is free again");
    }
}
