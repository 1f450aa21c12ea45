//! `HOST:PORT`, from text.

use std::net::IpAddr;

use super::ValueError;
use crate::address::Subnet;
use crate::endpoint::{Endpoint, EndpointHost, SpecialAddress, guarded, is_one};

/// RFC 1035, as people write it.
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// Reads a destination that a program may reach.
pub(crate) fn endpoint(text: &str) -> Result<Endpoint, ValueError> {
    let (host, ports) = split(text)?;
    let ports = super::ports(ports)?;
    let host = match host {
        HostText::Bracketed(inside) => net(inside, true)?,
        HostText::Plain(host) if is_numeric(host) => net(host, false)?,
        HostText::Plain(host) => EndpointHost::Name(name(host)?),
    };
    Ok(Endpoint { peer: host, ports })
}

enum HostText<'t> {
    Plain(&'t str),
    Bracketed(&'t str),
}

/// The host and its ports.
fn split(text: &str) -> Result<(HostText<'_>, &str), ValueError> {
    const FORM: &str =
        "write HOST:PORT, such as example.org:443, 10.1.0.0/16:8000-8010 or [2001:db8::/32]:443";
    let prefixed = text
        .strip_prefix("udp:")
        .is_some_and(|rest| rest.contains(':'));
    if prefixed || text.ends_with("/udp") {
        let help = "connections are passed on, over TCP; UDP is there inside the jail, and with --network host";
        return Err(ValueError::new(
            format!("{text:?} asks for UDP, which is not passed on"),
            help,
        ));
    }
    if let Some((_, rest)) = text.split_once("://") {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let port = if text.starts_with("http:") {
            "80"
        } else {
            "443"
        };
        let meant = if host.contains(':') {
            host.to_owned()
        } else {
            format!("{host}:{port}")
        };
        let help = format!("hosts are allowed, not pages: write {meant}");
        return Err(ValueError::new(format!("{text:?} is an URL"), help));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, behind) = rest.split_once(']').ok_or_else(|| {
            ValueError::new(format!("{text:?} opens a bracket and closes none"), FORM)
        })?;
        let ports = behind.strip_prefix(':').ok_or_else(|| {
            let message = format!("{text:?} has no port");
            ValueError::new(message, "write : and the port behind the bracket")
        })?;
        return Ok((HostText::Bracketed(inside), ports));
    }
    if text.matches(':').count() > 1 {
        let (address, port) = text.rsplit_once(':').unwrap_or((text, ""));
        let help = format!("write addresses of version 6 in brackets: [{address}]:{port}");
        return Err(ValueError::new(
            format!("{text:?} has too many colons"),
            help,
        ));
    }
    let (host, ports) = text
        .split_once(':')
        .ok_or_else(|| ValueError::new(format!("{text:?} has no port"), FORM))?;
    Ok((HostText::Plain(host), ports))
}

/// True for a text that can only be an address of version 4, or one in a form that people mistake: a name
/// does not end in a number.
fn is_numeric(host: &str) -> bool {
    let (host, _) = host.split_once('/').unwrap_or((host, ""));
    let last = host.rsplit('.').next().unwrap_or_default();
    let all = |digits: &str, is_digit: fn(&u8) -> bool| {
        !digits.is_empty() && digits.bytes().all(|byte| is_digit(&byte))
    };
    let hex = last.strip_prefix("0x").or(last.strip_prefix("0X"));
    all(last, u8::is_ascii_digit) || hex.is_some_and(|hex| all(hex, u8::is_ascii_hexdigit))
}

/// An address, or a range of them, of the version that was announced.
fn net(text: &str, is_v6: bool) -> Result<EndpointHost, ValueError> {
    let written = text.split('/').next().unwrap_or_default();
    let other = written
        .parse::<IpAddr>()
        .is_ok_and(|it| it.is_ipv6() != is_v6);
    let odd = !is_v6 && written.parse::<IpAddr>().is_err();
    if other || odd {
        let help = "write version 4 as four numbers, such as 10.1.2.3, and version 6 in brackets, such as [2001:db8::1]";
        return Err(ValueError::new(
            format!("{written:?} is no such address"),
            help,
        ));
    }
    let net = super::subnet(text)?;
    check(net)?;
    Ok(EndpointHost::Net(net))
}

/// Refuses a range that cannot be meant.
fn check(net: Subnet) -> Result<(), ValueError> {
    let one = is_one(net);
    if let Some((_, special)) = guarded().find(|(guarded, _)| guarded.covers(net))
        && !one
    {
        let message = format!("every address of {net} is {}", special.name());
        let help = "name the one address that is meant: a range never means such";
        return Err(ValueError::new(message, help));
    }
    if one && net.network().is_unspecified() {
        let help = "write 127.0.0.1 or [::1], if a server on this host is meant";
        return Err(ValueError::new(
            format!("{net} is the address of nobody"),
            help,
        ));
    }
    let special = SpecialAddress::from_address(net.network());
    if one
        && matches!(
            special,
            Some(SpecialAddress::Group | SpecialAddress::Broadcast)
        )
    {
        let help = "name a single host: connections have one other end";
        return Err(ValueError::new(format!("{net} is a group of hosts"), help));
    }
    Ok(())
}

/// A host's name, in lower case and without the dot of the root.
fn name(text: &str) -> Result<String, ValueError> {
    if text.contains('*') {
        let help =
            "name each host; names are resolved once, before the run, and a pattern has no address";
        return Err(ValueError::new(format!("{text:?} is a pattern"), help));
    }
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let right = name.len() <= LONGEST_NAME
        && name.split('.').all(|label| {
            (1..=LONGEST_LABEL).contains(&label.len())
                && label.bytes().all(plain)
                && !label.starts_with('-')
                && !label.ends_with('-')
        });
    if !right {
        let help =
            "write letters, digits, - and dots; names in other scripts in their ASCII form, xn--…";
        return Err(ValueError::new(
            format!("{text:?} is no name of a host"),
            help,
        ));
    }
    Ok(name)
}
