//! Addresses of sockets and questions to name servers, as events write them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// The host whose address programs ask for.
pub const ASKED: &str = "example.com";
/// The port of name servers.
pub const PORT: u16 = 53;

/// The first `length` bytes of an address; nothing when these are not known, or are written in a way of their own.
pub fn written(bytes: &[u8], length: u32) -> Option<String> {
    let length = usize::try_from(length).ok()?;
    let is_internet = matches!(family(bytes)?, AF_INET | AF_INET6);
    // Behind what the kernel looks at comes what lies there.
    let bytes = match bytes.get(..length) {
        Some(bytes) => bytes,
        None if is_internet && length <= 128 => bytes,
        None => return None,
    };
    match family(bytes)? {
        AF_INET if bytes.len() >= 8 => {
            let ip: [u8; 4] = bytes[4..8].try_into().ok()?;
            Some(SocketAddrV4::new(Ipv4Addr::from(ip), port(bytes)?).to_string())
        }
        AF_INET6 if bytes.len() >= 24 => {
            let ip: [u8; 16] = bytes[8..24].try_into().ok()?;
            Some(SocketAddrV6::new(Ipv6Addr::from(ip), port(bytes)?, 0, 0).to_string())
        }
        AF_UNIX => {
            let path = bytes.get(2..)?;
            let end = path.iter().position(|byte| *byte == 0);
            let path = str::from_utf8(&path[..end.unwrap_or(path.len())]).ok()?;
            (!path.is_empty()).then(|| format!("unix:{path}"))
        }
        family => {
            let rest: String = bytes[2..].iter().map(|it| format!("{it:02x}")).collect();
            Some(format!("family {family}:{rest}"))
        }
    }
}

/// `sa_family`, if there is as much.
pub fn family(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?))
}

/// The port of an internet address, which stands where others have something else.
pub fn port(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?))
}

/// True for an address of IPv4, also where IPv6 writes it. Without a family the kernel takes it for one.
pub fn is_v4(bytes: &[u8]) -> bool {
    const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255];
    match family(bytes) {
        Some(0 | AF_INET) => true,
        Some(AF_INET6) => bytes.get(8..20).is_some_and(|begin| begin == MAPPED),
        _ => false,
    }
}

/// A question for the address of a name, as RFC 1035 has it.
pub fn question(name: &str) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap_or(0));
        bytes.extend(label.bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_by_their_family() {
        let v4 = [2, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(written(&v4, 16).as_deref(), Some("127.0.0.1:80"));
        assert_eq!(written(&v4, 3).as_deref(), Some("family 2:00"));
        assert_eq!(written(&v4, 200), None);
        assert_eq!(written(b"\x01\0a\0\0", 5).as_deref(), Some("unix:a"));
        assert_eq!(
            written(&[99, 0, 1, 255], 4).as_deref(),
            Some("family 99:01ff")
        );
    }
}
