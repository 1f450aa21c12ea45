//! Addresses and ports that rules speak of.
//!
//! An address of IPv6 that holds one of IPv4 (`::ffff:10.0.0.1`) is that address of IPv4, here and
//! in the kernel. So a network of IPv6 holds none of them, however large it is.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::model::AttemptKind;

/// The addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subnet {
    network: IpAddr,
    length: u8,
}

/// The reason why there is no such subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubnetError {
    /// The prefix is longer than the address.
    #[error("an address of this kind has {0} bits")]
    TooLong(u8),
    /// Bits behind the prefix are set.
    #[error("the address has bits behind its prefix; the network is {0}")]
    HostBits(Subnet),
    /// A subnet that is written as IPv6 and holds addresses of IPv4.
    #[error("addresses of IPv4 are written as such")]
    Mapped,
}

impl Subnet {
    /// The addresses whose first `length` bits are those of `network`, of which all others are 0.
    ///
    /// # Errors
    /// When some are not, when there are not as many bits, and for IPv4 within IPv6.
    pub fn new(network: IpAddr, length: u8) -> Result<Self, SubnetError> {
        let bits = bits(network);
        if length > bits {
            return Err(SubnetError::TooLong(bits));
        }
        if network.to_canonical() != network {
            return Err(SubnetError::Mapped);
        }
        let subnet = Self {
            network: masked(network, length),
            length,
        };
        if subnet.network == network {
            Ok(subnet)
        } else {
            Err(SubnetError::HostBits(subnet))
        }
    }

    /// One address alone.
    #[must_use]
    pub fn one(address: IpAddr) -> Self {
        let network = address.to_canonical();
        Self {
            network,
            length: bits(network),
        }
    }

    /// The subnet's first address.
    #[must_use]
    pub const fn network(self) -> IpAddr {
        self.network
    }

    /// The length of the prefix in bits: up to 32 for IPv4, up to 128 for IPv6.
    #[must_use]
    pub const fn length(self) -> u8 {
        self.length
    }

    /// True when the subnet holds an address.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.network.is_ipv4() && masked(address, self.length) == self.network
    }

    /// True when the subnet holds every address of another.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.length <= other.length && self.contains(other.network)
    }

    /// The subnet's two halves; `None` for one address.
    #[must_use]
    pub fn halves(self) -> Option<[Self; 2]> {
        let length = self.length.checked_add(1)?;
        let behind = u32::from(bits(self.network).checked_sub(length)?);
        let second = match self.network {
            IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() | 1 << behind)),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() | 1 << behind)),
        };
        Some([self.network, second].map(|network| Self { network, length }))
    }
}

const fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The first `length` bits, and zeros.
fn masked(address: IpAddr, length: u8) -> IpAddr {
    let length = u32::from(length);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - length.min(32)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - length.min(128)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { network, length } = self;
        if *length == bits(*network) {
            return write!(formatter, "{network}");
        }
        write!(formatter, "{network}/{length}")
    }
}

/// Ports, from one to another, both included. Never 0, which asks the kernel to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// `None` when the first is 0 or behind the last.
    #[must_use]
    pub const fn new(first: u16, last: u16) -> Option<Self> {
        if first == 0 || first > last {
            return None;
        }
        Some(Self { first, last })
    }

    /// The first of them.
    #[must_use]
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The last of them.
    #[must_use]
    pub const fn last(self) -> u16 {
        self.last
    }

    /// The number of ports in the range, less one.
    #[must_use]
    pub const fn width(self) -> u16 {
        self.last - self.first
    }

    /// True when the range holds a port.
    #[must_use]
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last } = self;
        if first == last {
            return write!(formatter, "{first}");
        }
        write!(formatter, "{first}-{last}")
    }
}

/// True for an address of the jail itself, as far as it has a loopback: what is connected or sent there gets
/// nowhere else.
#[must_use]
pub fn is_own(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || address.is_unspecified()
}

/// Every address that an attempt on this one is an attempt on: itself, and what the kernel may take
/// an unspecified one for.
#[must_use]
pub fn meant(on: AttemptKind, address: IpAddr) -> Vec<IpAddr> {
    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let address = address.to_canonical();
    let others: &[IpAddr] = match address {
        _ if !address.is_unspecified() => &[],
        // A socket bound to `::` takes connections of IPv4, too.
        IpAddr::V6(_) if on == AttemptKind::Bind => &[IpAddr::V4(Ipv4Addr::UNSPECIFIED)],
        IpAddr::V4(_) if on == AttemptKind::Bind => &[],
        IpAddr::V4(_) => &[LOOPBACK],
        // A socket that is bound to an address of IPv4 goes there.
        IpAddr::V6(_) => &[IpAddr::V6(Ipv6Addr::LOCALHOST), LOOPBACK],
    };
    let mut meant = vec![address];
    meant.extend(others);
    meant
}
