//! The hosts that a program means to talk to, by the names that it was given: what it asks a name server is refused where nobody
//! can be reached, so no address is ever seen.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use turnkey_policy::{AttemptKind, Endpoint, address};

use super::act::Object;
use super::model::{Actor, NetworkAttempt, Report, SocketType, Violation};
use super::stopper::{NAME_SERVER, Stopper};
use super::terminal;
use super::text::quote;

/// The file of name servers to ask, resolv.conf(5).
const NAME_SERVERS: &str = "/etc/resolv.conf";

const HTTPS: u16 = 443;
/// The schemes of addresses that people type, and the port of each (services(5)).
const SCHEMES: [(&str, u16); 9] = [
    ("ftp", 21),
    ("git", 9418),
    ("http", 80),
    ("https", HTTPS),
    ("ldaps", 636),
    ("postgresql", 5432),
    ("ssh", 22),
    ("ws", 80),
    ("wss", 443),
];

/// Programs that fetch packages, over HTTPS alone unless they are told an address with another scheme.
const FETCHERS: [&str; 17] = [
    "bundle", "bundler", "cargo", "composer", "conda", "deno", "gem", "go", "npm", "npx", "pip",
    "pip3", "pipx", "pnpm", "poetry", "uv", "yarn",
];
/// Words of a command line among which the program's name is, behind an interpreter's.
const FIRST_WORDS: usize = 3;

/// The advice where nothing says whom.
pub const ANYBODY: &str =
    "--allow NAME:PORT for each host that it means; its name is looked up for it";

/// The advice about what is no name of a host.
pub const NO_FLAG: &str = "no flag has an answer to such a question";

/// The remark beside a port that only the program knows.
const ANY_PORT: &str = "(which port it meant is not known; 443 is that of https)";

/// Names that are kept of what one process has asked for at one address.
const NAMES: usize = 16;

/// Names that are told with a flag for each.
const FLAGS: usize = 4;

/// True when it is questions about names that are answered there. A resolver without a name server asks the loopback.
pub fn is_name_server(address: &str) -> bool {
    let peer: Option<SocketAddr> = address.parse().ok();
    peer.is_some_and(|peer| peer.port() == NAME_SERVER)
}

/// The names that processes have asked for, by who asked and where.
#[derive(Debug)]
pub struct AskedNames {
    names: BTreeMap<(Option<u32>, u32, String), Vec<String>>,
    most: usize,
}

impl AskedNames {
    /// For so many askers.
    pub fn new(most: usize) -> Self {
        Self {
            names: BTreeMap::new(),
            most,
        }
    }

    /// Takes in a question.
    pub fn note(&mut self, who: &Actor, object: &Object) {
        let Object::Address {
            address,
            name: Some(asked),
            ..
        } = object
        else {
            return;
        };
        let key = (who.exec_id, who.host_pid, address.clone());
        if self.names.len() >= self.most && !self.names.contains_key(&key) {
            return;
        }
        let names = self.names.entry(key).or_default();
        for name in asked.split(' ') {
            if names.len() < NAMES && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }

    /// Gives attempts on name servers the names that were meant, and the advice that follows from them.
    pub fn name(self, violations: &mut [Violation]) {
        for violation in violations {
            let address = violation.address.as_deref();
            let Some(address) = address.filter(|address| is_name_server(address)) else {
                continue;
            };
            let who = &violation.process;
            let key = (who.exec_id, who.host_pid, address.to_owned());
            violation.names = self.names.get(&key).cloned().unwrap_or_default();
            violation.advice = to_allow(&who.argv, &violation.names);
        }
    }
}

/// The aim of an attempt: the names that were asked for, or whatever else it was aimed at.
pub fn objects(violation: &Violation) -> impl Iterator<Item = &str> {
    let aim = terminal::object(violation).filter(|_| violation.names.is_empty());
    let names = violation.names.iter().map(String::as_str);
    names.chain(aim)
}

/// The names of a row.
pub fn names(row: &NetworkAttempt) -> Vec<String> {
    let names = row.name.iter().flat_map(|names| names.split(' '));
    names.map(str::to_owned).collect()
}

/// Asking a name server for a name, in words. Which server is of no interest where a program that knows of none asks.
pub fn looking_up(name: &str, server: &str) -> String {
    match is_own(server) {
        true => format!("looking up {name}"),
        false => format!("looking up {name} at {server}"),
    }
}

fn is_own(server: &str) -> bool {
    let server: Option<SocketAddr> = server.parse().ok();
    server.is_some_and(|server| address::is_own(server.ip()))
}

/// True for a datagram socket that was connected to port 0: nobody is there and nothing is sent. getaddrinfo(3) learns so which of
/// its addresses comes first, for whoever looks up a name; a program that sends to port 0 has a row of its own.
pub fn is_nobody(row: &NetworkAttempt) -> bool {
    let peer: Option<SocketAddr> = row.address.parse().ok();
    row.act == AttemptKind::Connect
        && row.socket == Some(SocketType::Datagram)
        && peer.is_some_and(|peer| peer.port() == 0)
}

/// True when something else tells of this attempt by the name that was asked for.
pub fn is_told_by_name(report: &Report, row: &NetworkAttempt) -> bool {
    let in_violation = |one: &&Violation| {
        !one.names.is_empty() && one.address.as_deref() == Some(row.address.as_str())
    };
    let mut violations = report.violations.iter();
    let named = |one: &NetworkAttempt| one.name.is_some() && one.address == row.address;
    let is_question = row.name.is_some();
    match is_question {
        true => violations.any(|one| in_violation(&one)),
        false => is_name_server(&row.address) && report.network_attempts.iter().any(named),
    }
}

/// The words for what stopped an attempt on an address.
pub fn words(stopper: Stopper, address: &str) -> &'static str {
    match stopper {
        Stopper::NetworkNamespace if is_own(address) => {
            "the network namespace: there is nobody in it to answer"
        }
        stopper => stopper.words(),
    }
}

/// The files of the host that were looked for, without the list of name servers where anybody was talked to: with that list the
/// program would ask in vain, and the hosts that it may talk to have their names without.
pub fn without_name_servers(report: &Report) -> Vec<String> {
    let talks = !report.network_attempts.is_empty();
    let paths = report.on_host.iter();
    let is_of_use = |path: &&String| !(talks && *path == NAME_SERVERS);
    paths.filter(is_of_use).cloned().collect()
}

/// The flags that allow what a program with these arguments wants of a name server: its hosts, by name.
/// Of those that it asked for, the ports are those of the arguments.
pub fn to_allow(argv: &[String], asked: &[String]) -> String {
    let mut typed: Vec<String> = Vec::new();
    for host in argv.iter().skip(1).filter_map(|word| host(word)) {
        if !typed.contains(&host) {
            typed.push(host);
        }
    }
    let mut hosts: Vec<String> = Vec::new();
    for name in asked.iter().filter(|name| is_allowable(name)) {
        let before = hosts.len();
        let ports = typed.iter().filter_map(|host| port_for(host, name));
        hosts.extend(ports.map(|port| format!("{name}:{port}")));
        if hosts.len() == before {
            let port = port_of_program(argv).map_or(PORT.to_owned(), |port| port.to_string());
            hosts.push(format!("{name}:{port}"));
        }
    }
    if asked.is_empty() {
        hosts = typed;
    } else if hosts.is_empty() {
        return NO_FLAG.to_owned();
    }
    match hosts.as_slice() {
        [] => ANYBODY.to_owned(),
        hosts if hosts.len() > FLAGS => ANYBODY.to_owned(),
        hosts => {
            let flags = hosts.iter().map(|host| format!("--allow {}", quote(host)));
            let flags = flags.collect::<Vec<_>>().join(" ");
            let is_open = hosts.iter().any(|host| host.ends_with(PORT));
            match is_open {
                true => format!("{flags} {ANY_PORT}"),
                false => flags,
            }
        }
    }
}

/// The port that is advised where none is known.
const PORT: &str = "PORT";

/// True when a name can be allowed: that of a host.
fn is_allowable(name: &str) -> bool {
    // The name of an address: RFC 1035, section 3.5.
    let is_of_address = name.to_ascii_lowercase().ends_with(".arpa");
    !is_of_address && Endpoint::parse(&format!("{name}:443")).is_some()
}

/// The port of a host that has this name.
fn port_for<'a>(host: &'a str, name: &str) -> Option<&'a str> {
    let (typed, port) = host.rsplit_once(':')?;
    typed.eq_ignore_ascii_case(name).then_some(port)
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

/// The port of a program that is named after what it speaks, such as ssh(1), or that fetches packages.
fn port_of_program(argv: &[String]) -> Option<u16> {
    let mut names = (argv.iter().take(FIRST_WORDS)).filter_map(|word| word.rsplit('/').next());
    let name = names.next()?;
    let fetches = |name: &str| FETCHERS.contains(&name);
    if fetches(name) || names.any(fetches) {
        return Some(HTTPS);
    }
    // git(1) speaks its own protocol least of all.
    port_of(name).filter(|_| name != "git")
}

fn port_of(scheme: &str) -> Option<u16> {
    let known = SCHEMES.iter().find(|(name, _)| *name == scheme);
    known.map(|(_, port)| *port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_name_is_allowed_with_the_port_that_was_typed_for_it() {
        let typed = words(&["curl", "https://Example.org/x", "http://b.example:8080"]);
        let advice = |asked: &[&str]| to_allow(&typed, &words(asked));
        assert_eq!(advice(&["example.org"]), "--allow example.org:443");
        assert_eq!(
            advice(&["b.example", "other.example"]),
            format!("--allow b.example:8080 --allow other.example:PORT {ANY_PORT}")
        );
        assert_eq!(
            advice(&[]),
            "--allow Example.org:443 --allow b.example:8080",
            "nothing was seen to be asked for"
        );
        assert_eq!(advice(&["a", "b", "c", "d", "e"]), ANYBODY, "too many");
        assert_eq!(advice(&[r"\027.x", "."]), NO_FLAG, "no names of hosts");
        assert_eq!(advice(&["9.2.0.192.in-addr.arpa"]), NO_FLAG);
    }

    #[test]
    fn a_program_named_after_what_it_speaks_means_its_port() {
        let advice =
            |program| to_allow(&words(&[program, "git@a.example"]), &words(&["a.example"]));
        assert_eq!(advice("/usr/bin/ssh"), "--allow a.example:22");
        for fetching in [
            &["/opt/venv/bin/python3", "/opt/venv/bin/pip", "download"][..],
            &["python3", "-m", "pip"],
            &["node", "/usr/bin/npm"],
            &["cargo", "add"],
        ] {
            let advice = to_allow(&words(fetching), &words(&["a.example"]));
            assert_eq!(advice, "--allow a.example:443", "{fetching:?}");
        }
        for other in ["/usr/bin/client", "git"] {
            assert!(advice(other).contains(ANY_PORT), "{other}");
        }
    }

    #[test]
    fn whom_a_program_asks_is_told_where_it_chose_them() {
        assert_eq!(
            looking_up("a.example", "127.0.0.1:53"),
            "looking up a.example"
        );
        assert_eq!(looking_up("a.example", "[::1]:53"), "looking up a.example");
        assert_eq!(
            looking_up("a.example", "8.8.8.8:53"),
            "looking up a.example at 8.8.8.8:53"
        );
        let nobody = words_of("127.0.0.1:53");
        assert!(nobody.contains("nobody"), "{nobody}");
        assert!(words_of("8.8.8.8:53").contains("no way"));
    }

    fn words_of(address: &str) -> &'static str {
        super::words(Stopper::NetworkNamespace, address)
    }

    #[test]
    fn the_names_of_one_process_are_bounded_and_told_once() {
        let mut asked = AskedNames::new(1);
        let who = |exec_id| Actor {
            exec_id: Some(exec_id),
            ..Actor::default()
        };
        let question = |name: &str| Object::Address {
            address: "127.0.0.1:53".to_owned(),
            socket: None,
            name: Some(name.to_owned()),
        };
        for round in 0..2 * NAMES {
            asked.note(&who(1), &question(&format!("n{round} n0")));
        }
        asked.note(&who(2), &question("other"));
        let kept: Vec<_> = asked.names.values().flatten().collect();
        assert_eq!(kept.len(), NAMES);
        assert_eq!(kept[..2], ["n0", "n1"]);
    }

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
