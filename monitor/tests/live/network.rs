//! Sockets: a refused act reaches no peer, and is told.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::Command;

use turnkey_expectations::expected;
use turnkey_facts::{Address, Kind, NetworkAct};
use turnkey_monitor::Tier;
use turnkey_policy::RuleAction;

use super::harness::{Seen, policy, python, rule, tier};

const EPERM: i32 = 1;

fn network(kind: &Kind) -> Option<(NetworkAct, Address, i32)> {
    match kind {
        Kind::Network {
            act,
            address,
            errno,
            ..
        } => Some((*act, address.clone(), *errno)),
        _ => None,
    }
}

/// A program that prints the errno of what it does with sockets.
fn errno_of(statement: &str) -> String {
    format!(
        "import socket, sys\ns = socket.socket()\nu = socket.socket(type=socket.SOCK_DGRAM)\ns6 = socket.socket(socket.AF_INET6)\nu6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\ntry:\n {statement}\n print('through')\nexcept OSError as error:\n print(error.errno)"
    )
}

#[track_caller]
fn assert_told(seen: &Seen, act: NetworkAct, address: &str, errno: i32) {
    let address: SocketAddr = address.parse().expect("an address");
    let expected = (act, Address::Inet(address), errno);
    assert!(
        seen.kinds(network).contains(&expected),
        "{expected:?} in\n{}",
        seen.tell()
    );
    assert_eq!(seen.kinds(network).len(), 1, "told once:\n{}", seen.tell());
}

#[test]
fn without_network_a_connect_never_arrives() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    listener.set_nonblocking(true).expect("it can");
    let port = listener.local_addr().expect("it is bound").port();
    let statement = format!("s.connect(('127.0.0.1', {port}))");
    let seen = python(&policy(""), &errno_of(&statement));
    seen.assert_lived();
    assert_eq!(seen.stdout(), "1\n");
    assert_told(
        &seen,
        NetworkAct::Connect,
        &format!("127.0.0.1:{port}"),
        EPERM,
    );
    assert!(listener.accept().is_err(), "nobody came");
}

#[test]
fn without_network_a_datagram_never_arrives() {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    receiver.set_nonblocking(true).expect("it can");
    let port = receiver.local_addr().expect("it is bound").port();
    for statement in [
        format!("u.sendto(b'secret', ('127.0.0.1', {port}))"),
        format!("u.sendmsg([b'secret'], [], 0, ('127.0.0.1', {port}))"),
    ] {
        let seen = python(&policy(""), &errno_of(&statement));
        assert_eq!(seen.stdout(), "1\n");
        assert_told(&seen, NetworkAct::Send, &format!("127.0.0.1:{port}"), EPERM);
        assert!(receiver.recv(&mut [0; 16]).is_err(), "nothing came");
    }
}

/// In a network namespace of its own a program reaches its own servers, and by a socket that it has of another, where somebody
/// listens too, nobody.
#[test]
fn without_network_a_server_is_its_own_only_where_its_socket_and_its_task_are() {
    let program = "import ctypes, fcntl, socket, struct
def alone():
    assert ctypes.CDLL(None).unshare(0x40000000) == 0
    fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh14x', b'lo', 1))
alone()
server, mine, later = socket.create_server(('127.0.0.1', 0)), socket.socket(), socket.socket()
print(mine.connect_ex(server.getsockname()))
alone()
print(later.connect_ex(server.getsockname()))";
    let seen = python(&policy(""), program);
    seen.assert_lived();
    assert_eq!(seen.stdout(), "0\n1\n", "{}", seen.tell());
}

#[test]
fn ipv6_is_no_way_round() {
    let seen = python(&policy(""), &errno_of("s6.connect(('2001:db8::1', 443))"));
    assert_eq!(seen.stdout(), "1\n");
    assert_told(&seen, NetworkAct::Connect, "[2001:db8::1]:443", EPERM);
    let seen = python(
        &policy(""),
        &errno_of("s6.connect(('::ffff:127.0.0.1', 80))"),
    );
    assert_eq!(seen.stdout(), "1\n");
    assert_told(&seen, NetworkAct::Connect, "[::ffff:127.0.0.1]:80", EPERM);
    let seen = python(
        &policy(""),
        &errno_of("u6.sendto(b'x', ('2001:db8::2', 53))"),
    );
    assert_eq!(seen.stdout(), "1\n");
    assert_told(&seen, NetworkAct::Send, "[2001:db8::2]:53", EPERM);
}

#[test]
fn tcp_fast_open_is_no_way_round() {
    // MSG_FASTOPEN connects and sends in one call.
    let seen = python(
        &policy(""),
        &errno_of("s.sendto(b'x', 0x20000000, ('192.0.2.1', 80))"),
    );
    assert_ne!(seen.stdout(), "through\n", "{}", seen.tell());
    assert!(!seen.kinds(network).is_empty(), "{}", seen.tell());
    assert!(
        seen.kinds(network).iter().all(|(_, _, errno)| *errno != 0),
        "{}",
        seen.tell()
    );
}

#[test]
fn without_network_nothing_is_bound() {
    let seen = python(&policy(""), &errno_of("s.bind(('127.0.0.1', 8080))"));
    assert_eq!(seen.stdout(), "1\n");
    assert_told(&seen, NetworkAct::Bind, "127.0.0.1:8080", EPERM);
    let seen = python(&policy(""), &errno_of("s6.bind(('::', 8080))"));
    assert_eq!(seen.stdout(), "1\n");
    assert_told(&seen, NetworkAct::Bind, "[::]:8080", EPERM);
}

#[test]
fn a_rule_kills_for_a_connect() {
    let policy = policy(&rule("out", "connect", "kill", ""));
    let seen = python(&policy, &errno_of("s.connect(('192.0.2.7', 443))"));
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
    assert_eq!(seen.decisions(), [(0, RuleAction::Kill)]);
    assert_told(&seen, NetworkAct::Connect, "192.0.2.7:443", EPERM);
}

#[test]
fn a_rule_that_denies_is_told_with_what_it_did() {
    let policy = policy(&rule("out", "connect", "deny", ""));
    let seen = python(&policy, &errno_of("s.connect(('192.0.2.7', 443))"));
    seen.assert_lived();
    assert_eq!(seen.stdout(), "1\n");
    assert_eq!(seen.decisions(), [(0, RuleAction::Deny)]);
}

#[test]
fn observing_keeps_the_network_closed() {
    let mut policy = policy(&rule("out", "connect", "kill", ""));
    policy.enforcement.mode = turnkey_policy::EnforcementMode::Observe;
    let seen = python(&policy, &errno_of("s.connect(('127.0.0.1', 443))"));
    seen.assert_lived();
    assert_eq!(seen.stdout(), "1\n");
    assert_eq!(seen.decisions(), [(0, RuleAction::Log)]);
}

#[test]
fn loopback_reaches_itself_and_nobody_else() {
    let rules = rule("out", "connect", "deny", "");
    let policy = policy(&format!("[network]\nmode = \"loopback\"\n{rules}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let seen = python(
        &policy,
        &errno_of(&format!("s.connect(('127.0.0.1', {port}))")),
    );
    assert_eq!(
        (seen.stdout().as_str(), seen.decisions()),
        ("through\n", vec![])
    );
    assert_told(&seen, NetworkAct::Connect, &format!("127.0.0.1:{port}"), 0);
    let seen = python(
        &policy,
        &errno_of(&format!("s6.connect(('::ffff:127.0.0.1', {port}))")),
    );
    assert_eq!(
        (seen.stdout().as_str(), seen.decisions()),
        ("through\n", vec![])
    );
    let seen = python(&policy, &errno_of("s.bind(('127.0.0.1', 0))"));
    assert_eq!(
        (seen.stdout().as_str(), seen.decisions()),
        ("through\n", vec![])
    );
    for (statement, address) in [
        ("s.connect(('192.0.2.7', 443))", "192.0.2.7:443"),
        (
            "s6.connect(('::ffff:192.0.2.7', 443))",
            "[::ffff:192.0.2.7]:443",
        ),
        ("s6.connect(('::2', 443))", "[::2]:443"),
    ] {
        let seen = python(&policy, &errno_of(statement));
        assert_eq!(seen.stdout(), "1\n");
        assert_eq!(seen.decisions(), [(0, RuleAction::Deny)]);
        assert_told(&seen, NetworkAct::Connect, address, EPERM);
    }
}

#[test]
fn a_raw_socket_cannot_be_made() {
    let program = errno_of("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)");
    let seen = python(&policy(&rule("out", "connect", "deny", "")), &program);
    assert_eq!(seen.stdout(), "1\n");
    let refused = seen.kinds(|kind| match kind {
        Kind::Refused {
            nr, errno, args, ..
        } => Some((*nr, *errno, *args)),
        _ => None,
    });
    assert_eq!(
        refused,
        [(41, EPERM, [2, 3 | 0o2_000_000, 1])],
        "{}",
        seen.tell()
    );
    assert_eq!(seen.decisions(), [(0, RuleAction::Deny)]);
}

/// Makes a socket listen that was never bound, and prints whether it has a port then.
const LISTEN: &str = "import socket
s = socket.socket()
try:
 s.listen()
 print('listens', s.getsockname()[1] != 0)
except OSError as error:
 print(error.errno, s.getsockname()[1] != 0)";

/// Runs [`LISTEN`] with network mode loopback and these rules.
fn listen_under(rules: &str) -> Seen {
    let policy = policy(&format!("[network]\nmode = \"loopback\"\n{rules}"));
    let seen = python(&policy, LISTEN);
    let told = seen.kinds(network);
    let is_listen = matches!(told[..], [(NetworkAct::Listen, Address::Inet(_), _)]);
    assert!(is_listen, "told once:\n{}", seen.tell());
    seen
}

expected!(a_listen_without_a_bind_is_decided_on_like_one: on BY_TIER);
#[test]
fn a_listen_without_a_bind_is_decided_on_like_one() {
    let control = listen_under("");
    control.assert_lived();
    assert_eq!(control.stdout(), "listens True\n");
    assert_eq!(control.decisions(), []);
    let denied = listen_under(&rule("server", "bind", "deny", ""));
    denied.assert_lived();
    let (outcome, errno) = match tier() {
        Tier::Lsm => ("1 False\n", EPERM),
        // Seen at its end, and told to have happened.
        Tier::Tracepoint => ("listens True\n", 0),
    };
    assert_eq!(denied.stdout(), outcome, "{}", denied.tell());
    assert_eq!(denied.decisions(), [(0, RuleAction::Deny)]);
    assert_eq!(denied.kinds(network)[0].2, errno, "{}", denied.tell());
    let killed = listen_under(&rule("server", "bind", "kill", ""));
    killed.assert_killed();
    assert_eq!(killed.stdout(), "");
    assert_eq!(killed.decisions(), [(0, RuleAction::Kill)]);
}

/// Makes a socket of netlink's protocol for interfaces, of one for devices, of packets, and of virtual machines, as
/// far as it may.
const FAMILIES: &str = "import socket
for family, kind, protocol in (16, 3, 0), (16, 3, 15), (17, 3, 0), (40, 1, 0):
 try:
  socket.socket(family, kind, protocol)
  print('made')
 except OSError as error:
  print(error.errno)";

#[test]
fn where_the_kernel_can_refuse_it_no_socket_of_another_family_is_made() {
    let outside = Command::new("python3").args(["-c", FAMILIES]).output();
    let outside = String::from_utf8(outside.expect("it runs").stdout).expect("it is text");
    assert!(
        outside.starts_with("made\nmade\nmade\n"),
        "the control: {outside}"
    );
    // There is no filter of syscalls in front of this jail.
    let seen = python(&policy(""), FAMILIES);
    seen.assert_lived();
    if tier() == Tier::Tracepoint {
        assert_eq!(seen.stdout(), outside, "this is for others to refuse");
        return;
    }
    assert_eq!(seen.stdout(), "made\n97\n97\n97\n", "{}", seen.tell());
    let refused = seen.kinds(|kind| match kind {
        Kind::Refused { errno, args, .. } => Some((*errno, args[0])),
        _ => None,
    });
    assert_eq!(refused, [(97, 16), (97, 17), (97, 40)], "{}", seen.tell());
    assert_eq!(seen.decisions(), []);
}

#[test]
fn unix_sockets_are_told_and_are_no_network() {
    let program = "import socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('\\0turnkey-test-abstract')\ntry:\n s.connect('/no/such/socket')\nexcept OSError as error:\n print(error.errno)";
    let seen = python(&policy(&rule("out", "connect", "kill", "")), program);
    seen.assert_lived();
    let expected = [
        (
            NetworkAct::Bind,
            Address::UnixAbstract(b"turnkey-test-abstract".to_vec()),
            0,
        ),
        (
            NetworkAct::Connect,
            Address::UnixPath(b"/no/such/socket".to_vec()),
            2,
        ),
    ];
    assert_eq!(seen.kinds(network), expected);
}

#[test]
fn the_rest_of_the_host_keeps_its_network() {
    let seen = python(&policy(""), &errno_of("s.connect(('127.0.0.1', 1))"));
    assert_eq!(seen.stdout(), "1\n");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    assert_eq!(address.ip(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    std::net::TcpStream::connect(address).expect("we are in no jail");
}
