//! Routes of the jail's network namespace, rtnetlink(7): written before the child exists, sent by it.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};
use turnkey_policy::Subnet;

/// The loopback interface is the first of every network namespace.
const LOOPBACK: u32 = 1;
/// `struct nlmsghdr`.
const HEADER: usize = 16;

/// The route of a range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeRoute {
    /// The range.
    pub net: Subnet,
    /// True for a local range, `RTN_LOCAL`; others are unreachable, `RTN_UNREACHABLE`.
    pub open: bool,
    /// True where what is sent there comes from 127.0.0.1; otherwise it comes from where it goes to. Of version 4 alone: over
    /// version 6 it comes from ::1 in any case.
    pub from_loopback: bool,
}

/// One request, as the kernel takes it.
#[derive(Debug)]
pub struct NetlinkRequest {
    bytes: Vec<u8>,
    /// For people, when it fails.
    pub place: String,
}

impl NetlinkRequest {
    /// `RTM_NEWROUTE` in the table of local addresses.
    pub fn route(route: RangeRoute) -> NetlinkRequest {
        let address = match route.net.network() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let (family, kind) = (family(route.net.network()), kind(route));
        // struct rtmsg: family, bits of destination and source, type of service, table, protocol,
        // scope, type, flags.
        let scope = if route.net.network().is_ipv4() && route.open {
            libc::RT_SCOPE_HOST
        } else {
            libc::RT_SCOPE_UNIVERSE
        };
        let mut body = vec![
            family,
            route.net.length(),
            0,
            0,
            libc::RT_TABLE_LOCAL,
            libc::RTPROT_STATIC,
            scope,
            kind,
        ];
        body.extend(0_u32.to_ne_bytes());
        attribute(&mut body, libc::RTA_DST, &address);
        if route.open {
            attribute(&mut body, libc::RTA_OIF, &LOOPBACK.to_ne_bytes());
        }
        if route.from_loopback && route.net.network().is_ipv4() {
            let source = Ipv4Addr::LOCALHOST.octets();
            attribute(&mut body, libc::RTA_PREFSRC, &source);
        }
        NetlinkRequest {
            bytes: message(libc::RTM_NEWROUTE, &body),
            place: route.net.to_string(),
        }
    }
}

fn family(address: IpAddr) -> u8 {
    let family = match address {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    };
    u8::try_from(family).unwrap_or_default()
}

fn kind(route: RangeRoute) -> u8 {
    if route.open {
        libc::RTN_LOCAL
    } else {
        libc::RTN_UNREACHABLE
    }
}

/// `struct rtattr` and its value, which ends at a multiple of four here anyway.
fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    body.extend(length.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
}

/// With the header in front. The kernel is asked to answer.
fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(u16::try_from(flags).unwrap_or_default().to_ne_bytes());
    // Number and sender: one request waits for its answer at a time.
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

/// Sends each and waits for its answer. Allocates nothing.
pub fn make(requests: &[NetlinkRequest]) -> Result<(), (u32, Errno)> {
    if requests.is_empty() {
        return Ok(());
    }
    let socket = open().map_err(|errno| (u32::MAX, errno))?;
    for (index, request) in (0..).zip(requests) {
        ask(&socket, &request.bytes).map_err(|errno| (index, errno))?;
    }
    Ok(())
}

fn open() -> Result<OwnedFd, Errno> {
    socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )
}

fn ask(socket: &OwnedFd, request: &[u8]) -> Result<(), Errno> {
    let number = socket.as_raw_fd();
    send(number, request, MsgFlags::empty())?;
    let mut answer = [0; 512];
    let length = recv(number, &mut answer, MsgFlags::empty())?;
    verdict(&answer[..length])
}

/// `struct nlmsgerr`: an errno, negative, or 0.
fn verdict(answer: &[u8]) -> Result<(), Errno> {
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok());
    let error = answer.get(HEADER..HEADER + 4);
    let error = error.and_then(|bytes| bytes.try_into().ok());
    match (kind.map(u16::from_ne_bytes), error.map(i32::from_ne_bytes)) {
        (Some(kind), Some(0)) if i32::from(kind) == libc::NLMSG_ERROR => Ok(()),
        (Some(kind), Some(error)) if i32::from(kind) == libc::NLMSG_ERROR => {
            Err(Errno::from_raw(error.saturating_neg()))
        }
        _ => Err(Errno::EPROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnkey_policy::Subnet;

    #[test]
    fn a_request_has_the_layout_of_rtnetlink() {
        let net = Subnet::new("10.1.0.0".parse().unwrap(), 16).unwrap();
        let request = NetlinkRequest::route(RangeRoute {
            net,
            open: true,
            from_loopback: false,
        });
        assert_eq!(request.place, "10.1.0.0/16");
        assert_eq!(request.bytes.len(), 16 + 12 + 8 + 8);
        assert_eq!(request.bytes[..4], 44_u32.to_ne_bytes());
        assert_eq!(request.bytes[16..24], [2, 16, 0, 0, 255, 4, 254, 2]);
        assert_eq!(request.bytes[28..36], [8, 0, 1, 0, 10, 1, 0, 0]);
        assert_eq!(request.bytes[36..44], [8, 0, 4, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn a_route_says_where_what_is_sent_comes_from() {
        let net = Subnet::new("0.0.0.0".parse().unwrap(), 0).unwrap();
        let route = RangeRoute {
            net,
            open: true,
            from_loopback: true,
        };
        let request = NetlinkRequest::route(route);
        // RTA_PREFSRC.
        assert_eq!(request.bytes[44..], [8, 0, 7, 0, 127, 0, 0, 1]);
    }

    #[test]
    fn what_is_no_answer_is_no_success() {
        assert_eq!(verdict(&[]), Err(Errno::EPROTO));
        assert_eq!(verdict(&[0; 36]), Err(Errno::EPROTO));
        let mut refused = [0; 36];
        refused[4..6].copy_from_slice(&2_u16.to_ne_bytes());
        assert_eq!(verdict(&refused), Ok(()));
        refused[16..20].copy_from_slice(&(-17_i32).to_ne_bytes());
        assert_eq!(verdict(&refused), Err(Errno::EEXIST));
    }
}
