//! The sockets that wait in the jail for what the program connects to, and what is seen of routes.
//!
//! Runs as: the jail's first process, while it has the capabilities of its network namespace. The
//! sockets are sent to the supervisor and closed here, long before there is a program: nobody inside
//! has one, and nobody can take their place, because none of them shares its port.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::sockopt::{IpFreebind, Ipv6V6Only};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, listen, setsockopt,
    socket,
};

use crate::process::wire::ChildSender;

/// Connections that wait to be taken, for each of them.
const BACKLOG: i32 = 128;
/// Any port: a connect of a datagram socket sends nothing.
const ANY_PORT: u16 = 9;

/// Opens each and hands it out. Allocates nothing.
pub fn hand_out(places: &[SocketAddr], sender: ChildSender<'_>) -> Result<(), (u32, Errno)> {
    for (index, place) in (0..).zip(places) {
        open(place)
            .and_then(|socket| sender.listener(index, socket.as_fd()))
            .map_err(|errno| (index, errno))?;
    }
    Ok(())
}

fn open(place: &SocketAddr) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(family(place.ip()), SockType::Stream, flags, None)?;
    if place.is_ipv6() {
        setsockopt(&socket, Ipv6V6Only, &true)?;
    }
    // An address of version 6 that is local by its route alone is not known as one of ours.
    setsockopt(&socket, IpFreebind, &true)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(*place))?;
    listen(&socket, Backlog::new(BACKLOG)?)?;
    Ok(socket)
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

/// Asks for a route to an address: connect(2) of a datagram socket looks for one and sends
/// nothing.
pub fn route_to(address: IpAddr) -> Result<(), Errno> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(family(address), SockType::Datagram, flags, None)?;
    let place = SockaddrStorage::from(SocketAddr::new(address, ANY_PORT));
    connect(socket.as_raw_fd(), &place)
}
