//! The four sockets of a sinkhole in the jail's network, and datagrams that come from whom they were meant for.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use nix::fcntl::{OFlag, open};
use nix::sys::socket::sockopt::{
    IpFreebind, Ipv4OrigDstAddr, Ipv6OrigDstAddr, Ipv6V6Only, Mark, RcvBuf, ReuseAddr, SndBuf,
};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage,
    UnknownCmsg, bind, getsockopt, listen, recvmsg, setsockopt, socket, sockopt,
};
use nix::sys::stat::Mode;
use nix::unistd::write;
use nix::{cmsg_space, libc, setsockopt_impl};
use turnkey_monitor::{LookupSockets, SocketLookup};

/// Connections that wait to be taken. More are made again by the kernel of the client, which is the same.
const BACKLOG: i32 = 1024;
/// Bytes of each buffer of a connection: what lies there is in no account of the jail's.
const BUFFER: usize = 64 << 10;
/// Bytes of the buffers of datagrams.
const DATAGRAM_BUFFER: usize = 1 << 20;
/// Bytes of a datagram at most.
const LONGEST: usize = 64 << 10;

/// Has a connection that is taken bear the mark of the packet that began it, in the network of the thread that writes it.
const MARKS_CONNECTIONS: &str = "/proc/sys/net/ipv4/tcp_fwmark_accept";
/// `SO_RCVMARK` of asm-generic/socket.h: a datagram comes with its mark; Linux 5.19.
const SO_RCVMARK: libc::c_int = 75;

/// Tells the mark of each datagram beside it.
#[derive(Clone, Copy, Debug)]
struct RcvMark;
setsockopt_impl!(
    RcvMark,
    libc::SOL_SOCKET,
    SO_RCVMARK,
    bool,
    sockopt::SetBool
);

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
    /// The number of the program's socket, or 0.
    pub socket: u32,
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

/// Has connections tell which socket they come from. Its number is the mark of its packets, which the monitor has given it, and which
/// no program without privileges can set. Where the kernel cannot, the number is 0.
pub fn hear_of_clients() {
    let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    if let Ok(file) = open(MARKS_CONNECTIONS, flags, Mode::empty()) {
        let _ = write(file, b"1");
    }
}

/// The number of the socket that began a connection, or 0.
pub fn number_of_client(taken: &impl AsFd) -> u32 {
    getsockopt(taken, Mark).unwrap_or(0)
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
    // A kernel that cannot tells of datagrams without the number of their socket.
    let _ = setsockopt(&socket, RcvMark, &true);
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
    let mut control = cmsg_space!(libc::sockaddr_in6, u32);
    let (from, to, number, length) = {
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
        let number = received.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::Unknown(message) => mark(&message),
            _ => None,
        });
        let from = received.address.and_then(inet);
        (from, to, number.unwrap_or(0), received.bytes)
    };
    bytes.truncate(length);
    Ok(from.zip(to).map(|(from, to)| Datagram {
        socket: number,
        from,
        to,
        bytes,
    }))
}

/// The mark of a datagram, if this tells it.
fn mark(message: &UnknownCmsg) -> Option<u32> {
    let header = &message.cmsg_header;
    let is_mark = (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SO_MARK);
    let value = message.data_bytes.first_chunk().filter(|_| is_mark)?;
    Some(u32::from_ne_bytes(*value))
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

fn v4(address: libc::sockaddr_in) -> SocketAddr {
    let ip = Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr));
    SocketAddr::new(ip.into(), u16::from_be(address.sin_port))
}

fn v6(address: libc::sockaddr_in6) -> SocketAddr {
    let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
    SocketAddr::new(ip.into(), u16::from_be(address.sin6_port))
}
