//! The four sockets of a sinkhole in the jail's network, and datagrams that come from whom they were meant for.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use nix::sys::socket::sockopt::{
    IpFreebind, Ipv4OrigDstAddr, Ipv6OrigDstAddr, Ipv6V6Only, RcvBuf, ReuseAddr, SndBuf,
};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage,
    bind, listen, recvmsg, setsockopt, socket,
};
use turnkey_monitor::{LookupSockets, SocketLookup};

/// Connections that wait to be taken. More are made again by the kernel of the client, which is the same.
const BACKLOG: i32 = 1024;
/// Bytes of each buffer of a connection: what lies there is in no account of the jail's.
const BUFFER: usize = 64 << 10;
/// Bytes of the buffers of datagrams.
const DATAGRAM_BUFFER: usize = 1 << 20;
/// Bytes of a datagram at most.
const LONGEST: usize = 64 << 10;

const FAMILIES: [AddressFamily; 2] = [AddressFamily::Inet, AddressFamily::Inet6];

/// The sockets, in the order of version 4 and version 6.
#[derive(Debug)]
pub struct Sockets {
    /// Take connections.
    pub listeners: Vec<TcpListener>,
    /// Take datagrams.
    pub datagrams: Vec<UdpSocket>,
    /// Leads everything to them, as long as it is there.
    pub lookup: SocketLookup,
}

/// A datagram: the program's socket, whom it was meant for, and the content.
#[derive(Debug)]
pub struct Datagram {
    /// The program's end.
    pub from: SocketAddr,
    /// The other end.
    pub to: SocketAddr,
    /// The content.
    pub bytes: Vec<u8>,
}

impl Sockets {
    /// Opens them in the network of this thread, and has them take everything in it.
    pub fn open(network: BorrowedFd<'_>) -> anyhow::Result<Sockets> {
        let listeners = FAMILIES.map(listener);
        let datagrams = FAMILIES.map(datagrams);
        let [first, second] = listeners;
        let listeners = [first?, second?];
        let [first, second] = datagrams;
        let datagrams = [first?, second?];
        let sockets = LookupSockets {
            streams: listeners.each_ref().map(|socket| socket.as_fd()),
            datagrams: datagrams.each_ref().map(|socket| socket.as_fd()),
        };
        let lookup = SocketLookup::attach(network, sockets)?;
        Ok(Sockets {
            listeners: listeners.map(TcpListener::from).into(),
            datagrams: datagrams.map(UdpSocket::from).into(),
            lookup,
        })
    }
}

fn listener(family: AddressFamily) -> io::Result<OwnedFd> {
    let socket = bound(family, SockType::Stream, BUFFER)?;
    listen(&socket, Backlog::new(BACKLOG)?)?;
    Ok(socket)
}

fn datagrams(family: AddressFamily) -> io::Result<OwnedFd> {
    let socket = bound(family, SockType::Datagram, DATAGRAM_BUFFER)?;
    match family {
        AddressFamily::Inet6 => setsockopt(&socket, Ipv6OrigDstAddr, &true),
        _ => setsockopt(&socket, Ipv4OrigDstAddr, &true),
    }?;
    Ok(socket)
}

/// A socket at a port that the kernel chooses, on every address.
fn bound(family: AddressFamily, of: SockType, buffer: usize) -> io::Result<OwnedFd> {
    let every: IpAddr = match family {
        AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    let socket = new(family, of)?;
    // The buffers of connections are as those of their listener.
    setsockopt(&socket, RcvBuf, &buffer)?;
    setsockopt(&socket, SndBuf, &buffer)?;
    bind(
        socket.as_raw_fd(),
        &SockaddrStorage::from(SocketAddr::new(every, 0)),
    )?;
    Ok(socket)
}

fn new(family: AddressFamily, of: SockType) -> io::Result<OwnedFd> {
    let socket = socket(
        family,
        of,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )?;
    if family == AddressFamily::Inet6 {
        setsockopt(&socket, Ipv6V6Only, &true)?;
    }
    Ok(socket)
}

/// Takes a datagram, with whom it was meant for.
pub fn receive(socket: &UdpSocket) -> io::Result<Option<Datagram>> {
    let mut bytes = vec![0; LONGEST];
    let mut control = nix::cmsg_space!(nix::libc::sockaddr_in6);
    let (from, to, length) = {
        let mut pieces = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg::<SockaddrStorage>(
            socket.as_raw_fd(),
            &mut pieces,
            Some(&mut control),
            MsgFlags::MSG_DONTWAIT,
        )?;
        let to = received.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::Ipv4OrigDstAddr(to) => Some(v4(to)),
            ControlMessageOwned::Ipv6OrigDstAddr(to) => Some(v6(to)),
            _ => None,
        });
        (received.address.and_then(inet), to, received.bytes)
    };
    bytes.truncate(length);
    Ok(from.zip(to).map(|(from, to)| Datagram { from, to, bytes }))
}

/// Answers a datagram, from whom it was meant for.
pub fn answer(datagram: &Datagram, bytes: &[u8]) -> io::Result<()> {
    let family = match datagram.to {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let socket = new(family, SockType::Datagram)?;
    // An address of version 6 that is local by its route alone is not known as one of ours.
    setsockopt(&socket, IpFreebind, &true)?;
    setsockopt(&socket, ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(datagram.to))?;
    UdpSocket::from(socket)
        .send_to(bytes, datagram.from)
        .map(drop)
}

fn inet(address: SockaddrStorage) -> Option<SocketAddr> {
    let four = address
        .as_sockaddr_in()
        .map(|four| SocketAddr::V4((*four).into()));
    four.or_else(|| {
        address
            .as_sockaddr_in6()
            .map(|six| SocketAddr::V6((*six).into()))
    })
}

fn v4(address: nix::libc::sockaddr_in) -> SocketAddr {
    let ip = Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr));
    SocketAddr::new(ip.into(), u16::from_be(address.sin_port))
}

fn v6(address: nix::libc::sockaddr_in6) -> SocketAddr {
    let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
    SocketAddr::new(ip.into(), u16::from_be(address.sin6_port))
}
