//! Addresses and ports of rules.

use std::net::IpAddr;

use super::ValueError;
use crate::address::{Ports, Subnet, SubnetError};

/// An address, or a network with its prefix.
pub(crate) fn subnet(text: &str) -> Result<Subnet, ValueError> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| not_an_address(text, address))?;
    let Some(length) = length else {
        return single(text, address);
    };
    let digits = length.bytes().all(|byte| byte.is_ascii_digit());
    let Some(length) = length.parse().ok().filter(|_| digits) else {
        let message = format!("{length:?} is no length of a prefix");
        let help = "write how many first bits all its addresses share, such as 10.0.0.0/8";
        return Err(ValueError::new(message, help));
    };
    Subnet::new(address, length).map_err(|error| wrong_subnet(text, address, &error))
}

fn single(text: &str, address: IpAddr) -> Result<Subnet, ValueError> {
    if address.to_canonical() == address {
        return Ok(Subnet::one(address));
    }
    Err(wrong_subnet(text, address, &SubnetError::Mapped))
}

fn wrong_subnet(text: &str, address: IpAddr, error: &SubnetError) -> ValueError {
    match error {
        SubnetError::TooLong(bits) => ValueError::new(
            format!("{text:?} has a prefix that is longer than the address"),
            format!("write a length from 0 to {bits}"),
        ),
        SubnetError::HostBits(network) => ValueError::new(
            format!("{text:?} has bits behind its prefix"),
            format!("write {network} for the network, or {address} for the one address"),
        ),
        SubnetError::Mapped => ValueError::new(
            format!("{text:?} is of IPv4, written within IPv6"),
            format!(
                "write {}: to the kernel both are the same",
                unmapped(text, address)
            ),
        ),
    }
}

/// The same as people write it.
fn unmapped(text: &str, address: IpAddr) -> String {
    let address = address.to_canonical();
    let length = text
        .split_once('/')
        .and_then(|(_, length)| length.parse().ok());
    match length.and_then(|length: u8| length.checked_sub(96)) {
        Some(length) => format!("{address}/{length}"),
        None => address.to_string(),
    }
}

fn not_an_address(text: &str, address: &str) -> ValueError {
    let message = format!("{text:?} is neither an address nor a network");
    let is_name = address
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
        && address.bytes().any(|byte| byte.is_ascii_alphabetic());
    let help = if address.contains('%') {
        "write it without an interface: a rule means the address on any of them"
    } else if address.contains(']') || address.matches(':').count() == 1 {
        "write the port as `port`, and the address without brackets"
    } else if is_name {
        "a rule sees addresses, and a name may lead to any: write the addresses it is to mean"
    } else {
        "write one such as 169.254.169.254, 10.0.0.0/8 or 2001:db8::/32"
    };
    ValueError::new(message, help)
}

/// A port, or two with a dash between them.
pub(crate) fn ports(text: &str) -> Result<Ports, ValueError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(text, first)?, port(text, last)?);
    Ports::new(first, last).ok_or_else(|| {
        ValueError::new(
            format!("{text:?} ends before it begins"),
            format!("write {last}-{first}"),
        )
    })
}

fn port(text: &str, number: &str) -> Result<u16, ValueError> {
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        let message = format!("{text:?} is neither a port nor a range of ports");
        let help = "write a number such as 443, or a range such as \"8000-8010\"";
        return Err(ValueError::new(message, help));
    }
    match number.parse() {
        Ok(0) => Err(ValueError::new(
            "port 0 is no port: with it a program asks the kernel to choose one",
            "write one from 1 to 65535; a rule without `port` speaks of such attempts, too",
        )),
        Ok(port) => Ok(port),
        Err(_) => Err(ValueError::new(
            format!("there is no port {number}"),
            "the last one is 65535",
        )),
    }
}
