//! The hosts that a program means to talk to, by the names that it was given: what it asks a name server is refused where nobody
//! can be reached, so no address is ever seen.

use std::net::SocketAddr;

use crate::report::model::Report;
use crate::report::text::quote;

/// The file of name servers to ask, resolv.conf(5).
const NAME_SERVERS: &str = "/etc/resolv.conf";

/// The schemes of addresses that people type, and the port of each (services(5)).
const SCHEMES: [(&str, u16); 9] = [
    ("ftp", 21),
    ("git", 9418),
    ("http", 80),
    ("https", 443),
    ("ldaps", 636),
    ("postgresql", 5432),
    ("ssh", 22),
    ("ws", 80),
    ("wss", 443),
];

/// The advice where nothing says whom.
const ANYBODY: &str = "--allow NAME:PORT for each host that it means; its name is looked up for it";

/// True when it is questions about names that are answered there: domain of services(5). A resolver without a name
/// server asks the loopback.
pub fn is_name_server(address: &str) -> bool {
    let peer: Option<SocketAddr> = address.parse().ok();
    peer.is_some_and(|peer| peer.port() == 53)
}

/// The files of the host that were looked for, without the list of name servers where one was asked in vain: with that
/// list the program would ask others in vain.
pub fn without_name_servers(report: &Report) -> Vec<String> {
    let attempts = &mut report.network_attempts.iter();
    let asks = attempts.any(|row| is_name_server(&row.address));
    let paths = report.on_host.iter();
    let is_of_use = |path: &&String| !(asks && *path == NAME_SERVERS);
    paths.filter(is_of_use).cloned().collect()
}

/// The flags that allow what a program with these arguments wants of a name server: its hosts, by name.
pub fn to_allow(argv: &[String]) -> String {
    let mut hosts: Vec<String> = Vec::new();
    for host in argv.iter().skip(1).filter_map(|word| host(word)) {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    match hosts.as_slice() {
        [] => ANYBODY.to_owned(),
        hosts => {
            let flags = hosts.iter().map(|host| format!("--allow {}", quote(host)));
            flags.collect::<Vec<_>>().join(" ")
        }
    }
}

/// Host and port of an argument that is an address with a scheme, which stands at its begin or behind a `=` or `+`.
fn host(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once("://")?;
    let scheme = scheme.rsplit(['=', '+']).next()?.to_ascii_lowercase();
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = rest[..end].rsplit('@').next()?;
    let (name, port) = match authority.split_once(':') {
        Some((name, port)) => (name, port.parse().ok().filter(|port| *port != 0)?),
        None => (authority, port_of(&scheme)?),
    };
    let is_label = |label: &str| {
        let mut bytes = label.bytes();
        !label.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_name = name.split('.').all(is_label);
    // An address is no name: whoever connects to it is told about it.
    let is_address = name
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    (is_name && !is_address).then(|| format!("{name}:{port}"))
}

fn port_of(scheme: &str) -> Option<u16> {
    let known = SCHEMES.iter().find(|(name, _)| *name == scheme);
    known.map(|(_, port)| *port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_understood_as_a_person_would() {
        for (word, meant) in [
            ("https://example.org", Some("example.org:443")),
            ("HTTP://example.org/a?b=c://d", Some("example.org:80")),
            (
                "--url=https://u:p@example.org:8443/x",
                Some("example.org:8443"),
            ),
            (
                "git+ssh://git@host-1.example/repo",
                Some("host-1.example:22"),
            ),
            ("postgresql://user:secret@db/name", Some("db:5432")),
            ("https://example.org:0/", None),
            ("https://example.org:x/", None),
            ("https://", None),
            ("https://192.0.2.1/", None),
            ("https://[2001:db8::1]/", None),
            ("file:///etc/passwd", None),
            ("unknown://example.org", None),
            ("unknown://example.org:99", Some("example.org:99")),
            ("https://ex\u{1b}ample.org", None),
            ("https://a b/", None),
            ("example.org", None),
        ] {
            assert_eq!(host(word).as_deref(), meant, "{word}");
        }
    }
}
