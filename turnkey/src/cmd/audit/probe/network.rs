//! Networks beyond the sandbox.

use std::io::{Error, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use nix::libc;
use nix::net::if_::InterfaceFlags;

use crate::cmd::audit::finding::{Bait, Criterion, Finding, Outcome};

use super::{Probe, raw};

/// The longest time that a connection to the same host may take.
const PATIENCE: Duration = Duration::from_millis(700);

pub fn probes() -> Vec<Probe> {
    let probes = [
        Probe::new(
            "interfaces",
            "has a network interface beside its own loopback",
            interfaces,
        ),
        Probe::new(
            "host-loopback",
            "talks to services on the host's loopback",
            |bait| connect(bait, "host-loopback", IpAddr::is_loopback),
        )
        .seen_outside(),
        Probe::new(
            "host-address",
            "talks to services on the host's other addresses",
            |bait| connect(bait, "host-address", |address| !address.is_loopback()),
        )
        .seen_outside(),
        Probe::new("datagrams", "sends UDP to the host", datagrams).seen_outside(),
        Probe::new("raw-packets", "makes packets itself", raw_packets),
    ];
    probes
        .into_iter()
        .map(|probe| probe.with_criterion(Criterion::OuterNetwork))
        .collect()
}

fn interfaces(_: &Bait) -> Finding {
    let found = match nix::ifaddrs::getifaddrs() {
        Ok(found) => found,
        Err(error) => return Finding::stopped(error.to_string()),
    };
    let outer = found.filter(|each| !each.flags.contains(InterfaceFlags::IFF_LOOPBACK));
    let mut names: Vec<String> = outer.map(|each| each.interface_name).collect();
    names.sort();
    names.dedup();
    match names.is_empty() {
        true => Finding::stopped("its own loopback at most"),
        false => Finding::open(names.join(", ")),
    }
}

fn connect(bait: &Bait, probe: &str, wanted: impl Fn(&IpAddr) -> bool) -> Finding {
    let mut last = Finding::unknown("the host has no such address");
    for address in bait
        .addresses
        .iter()
        .filter(|address| wanted(&address.ip()))
    {
        last = send_to(*address, bait, probe)
            .map(|()| address.to_string())
            .into();
        if last.outcome == Outcome::Open {
            break;
        }
    }
    last
}

/// Sends the token and the name of the probe over TCP.
pub fn send_to(address: SocketAddr, bait: &Bait, probe: &str) -> Result<(), Error> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(message(bait, probe).as_bytes())
}

/// The text that arrives outside.
pub fn message(bait: &Bait, probe: &str) -> String {
    format!("{} {probe}\n", bait.token)
}

fn datagrams(bait: &Bait) -> Finding {
    let send = |address: &SocketAddr| {
        let socket = UdpSocket::bind(match address {
            SocketAddr::V4(_) => "0.0.0.0:0",
            SocketAddr::V6(_) => "[::]:0",
        })?;
        socket.send_to(message(bait, "datagrams").as_bytes(), address)
    };
    let mut last = Finding::unknown("the host has no address");
    for address in &bait.addresses {
        match send(address) {
            Ok(_) => last = Finding::open(address.to_string()),
            Err(error) if last.outcome != Outcome::Open => {
                last = Finding::stopped(error.to_string());
            }
            Err(_) => {}
        }
    }
    last
}

fn raw_packets(_: &Bait) -> Finding {
    match raw::raw_socket(libc::AF_INET, libc::IPPROTO_ICMP) {
        Ok(()) => Finding::open("a raw socket for ICMP"),
        Err(error) => Finding::stopped(error.to_string()),
    }
}
