//! The network mode `host`: the jail is in the host's network, and what holds there still holds.
//!
//! The host of these tests is a network namespace of their own.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use turnkey_tests::{Ran, Run, Server, eventually, network_of_its_own, outside, unprivileged};

fn in_the_hosts_network() -> Run {
    Run::new().option("--network host")
}

/// Talks to each address, over TCP and UDP, and says how it went.
const TALK: &str = "import socket, sys
def tried(kind, host):
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    peer = socket.socket(family, kind)
    peer.settimeout(2)
    try:
        peer.connect((host, 8443))
        peer.send(b'x')
        if kind == socket.SOCK_STREAM: peer.shutdown(socket.SHUT_WR)
        return 'reached' if peer.recv(1) == b'x' else 'no answer'
    except OSError as error: return type(error).__name__
for host in sys.argv[1:]:
    print('tcp', host, tried(socket.SOCK_STREAM, host))
    # The server of these tests answers datagrams of version 6 from another address.
    if not host.startswith('2001'): print('udp', host, tried(socket.SOCK_DGRAM, host))";

const HOSTS: [&str; 4] = ["127.0.0.1", "203.0.113.7", "2001:db8::7", "203.0.113.8"];

fn talk(run: Run, hosts: &[&str]) -> Ran {
    run.run(&[&["python3", "-c", TALK], hosts].concat())
}

/// Answers datagrams at every address.
fn datagrams() {
    let socket = std::net::UdpSocket::bind("[::]:8443").expect("the port is free");
    std::thread::spawn(move || {
        let mut told = [0; 16];
        while let Ok((length, who)) = socket.recv_from(&mut told) {
            let _ = socket.send_to(&told[..length], who);
        }
    });
}

fn reached(ran: &Ran) -> Vec<&str> {
    let lines = ran.stdout.lines();
    lines
        .filter_map(|line| line.strip_suffix(" reached"))
        .collect()
}

fn everybody_is_reached_and_it_is_told() {
    network_of_its_own();
    let server = Server::echo(8443);
    datagrams();
    let alone = talk(Run::new(), &HOSTS);
    alone.expect(reached(&alone).is_empty(), "the control: nobody is reached");
    assert_eq!(server.came(), 0);
    let ran = talk(in_the_hosts_network(), &HOSTS);
    ran.expect_code(0);
    ran.expect(
        reached(&ran).len() == 2 * HOSTS.len() - 1,
        "everybody answers",
    );
    assert_eq!(server.came(), HOSTS.len());
    let layers = ran.list("/enforcement").iter();
    let mut layers = layers.filter(|layer| layer["layer"] == "network-namespace");
    let layer = layers.next().cloned().unwrap_or_default();
    let requested = layer["requested"].as_str().unwrap_or_default();
    ran.expect(requested.starts_with("not requested"), "it is said so");
    ran.expect(layer["effective"] == "the host's", "and what there is");
    ran.expect(layer["degraded"].is_null(), "nothing is missing");
    let told = "turnkey: in the host's network: it reached whatever this host reaches";
    ran.expect(ran.stderr.contains(told), "and the terminal says so");
    ran.expect(!alone.stderr.contains(told), "of no other");
}

#[test]
fn the_hosts_network_is_reached_and_told_as_such() {
    everybody_is_reached_and_it_is_told();
}

#[test]
fn the_hosts_network_is_reached_without_privileges() {
    unprivileged(everybody_is_reached_and_it_is_told);
}

#[test]
fn names_are_found_as_on_the_host() {
    network_of_its_own();
    let ran =
        in_the_hosts_network().python("import socket; print(socket.gethostbyname('server.test'))");
    ran.expect(ran.stdout == "203.0.113.7\n", "by the host's own list");
    let alone = Run::new().python("import socket; print(socket.gethostbyname('server.test'))");
    alone.expect(!alone.stdout.contains("203"), "the control");
}

#[test]
fn m18_rules_on_addresses_hold() {
    network_of_its_own();
    let server = Server::echo(8443);
    datagrams();
    let hosts = ["203.0.113.7", "203.0.113.8", "::ffff:203.0.113.8"];
    let before = talk(in_the_hosts_network(), &hosts);
    before.expect(reached(&before).len() == 6, "the control: without the rule");
    let came = server.came();
    let rule = "[[rule]]\nid = \"not-there\"\non = [\"connect\", \"send\"]\naddress = \"203.0.113.8\"\n\
                action = \"deny\"\nseverity = \"high\"\nwhy = \"a test\"\n";
    let ran = talk(in_the_hosts_network().profile(rule), &hosts);
    ran.expect(
        reached(&ran) == ["tcp 203.0.113.7", "udp 203.0.113.7"],
        "the other alone",
    );
    assert_eq!(server.came(), came + 1, "nobody else came");
    let seen = ran.violations().iter();
    let seen = seen.filter(|seen| seen["rule"] == "not-there");
    ran.expect(seen.count() >= 2, "every attempt is told");
    let advice = ran.violations()[0]["advice"].as_str().unwrap_or_default();
    ran.expect(
        advice.starts_with("in a profile"),
        "a rule is what is in the way",
    );
}

#[test]
fn m18_the_hosts_credentials_are_not_the_hosts_network() {
    network_of_its_own();
    let server = Server::echo(8443);
    let metadata = ["169.254.169.254", "::ffff:169.254.169.254"];
    let named = "[[rule]]\nid = \"meant\"\non = [\"connect\", \"send\"]\naddress = \"169.254.169.254\"\n\
                 action = \"allow\"\nwhy = \"a test\"\n";
    let control = talk(in_the_hosts_network().profile(named), &metadata);
    control.expect(reached(&control).len() == 2, "who means it reaches it");
    let came = server.came();
    let ran = talk(in_the_hosts_network(), &metadata);
    ran.expect(reached(&ran).is_empty(), "not reached");
    assert_eq!(server.came(), came, "nobody came");
    ran.expect(
        ran.violations()[0]["rule"] == "network-guarded",
        "the attempt is told",
    );
}

fn no_abstract_socket_is_reached() {
    network_of_its_own();
    let name = format!("host-network-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let listener = UnixListener::bind_addr(&address).expect("it can be made");
    listener.set_nonblocking(true).expect("a socket");
    let program = format!(
        "import socket
peer = socket.socket(socket.AF_UNIX)
try: peer.connect('\\0{name}'); print('reached')
except OSError as error: print(error.strerror)
mail = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
try: mail.sendto(b'x', '\\0{name}'); print('reached')
except OSError as error: print(error.strerror)"
    );
    let (_, told) = outside("python3", &["-c", &program]);
    assert!(told.starts_with("reached"), "the control: {told}");
    assert!(listener.accept().is_ok(), "the control came");
    let ran = in_the_hosts_network().python(&program);
    ran.expect(
        ran.stdout.starts_with("Operation not permitted\n") && !ran.stdout.contains("reached"),
        "the host's is out of reach",
    );
    assert!(listener.accept().is_err(), "nobody came");
    if ran.at("/events/complete") == true {
        let told = ran.list("/network_attempts").iter().any(|tried| {
            let address = tried["address"].as_str().unwrap_or_default();
            address.contains(&name) && tried["result"] == "denied"
        });
        ran.expect(told, "the attempt is told");
    }
}

#[test]
fn j36_an_abstract_socket_of_the_host_is_out_of_reach_in_its_network() {
    no_abstract_socket_is_reached();
}

#[test]
fn j36_an_abstract_socket_is_out_of_reach_in_the_hosts_network_without_privileges() {
    unprivileged(no_abstract_socket_is_reached);
}

/// Reaches for the host's interfaces, its packets and its small ports.
const REACH: &str = "import fcntl, socket, struct
def tried(name, act):
    try: act(); print(name, 'done')
    except OSError as error: print(name, type(error).__name__)
tried('netlink', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
tried('packet', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
tried('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
tried('vsock', lambda: socket.socket(40, socket.SOCK_STREAM))
tried('mark', lambda: socket.socket().setsockopt(socket.SOL_SOCKET, 36, 1))
tried('small port', lambda: socket.socket().bind(('127.0.0.1', 80)))
plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
down = struct.pack('16sH14x', b'lo', 0)
tried('interface', lambda: fcntl.ioctl(plain, 0x8914, down))";

#[test]
fn j43_the_hosts_interfaces_and_packets_are_out_of_reach_in_its_network() {
    network_of_its_own();
    let server = Server::echo(8443);
    let ran = in_the_hosts_network().python(REACH);
    ran.expect_code(0);
    ran.expect(!ran.stdout.contains(" done"), "nothing of it is done");
    ran.expect(ran.stdout.lines().count() == 7, "all of it was tried");
    let still = talk(in_the_hosts_network(), &["127.0.0.1"]);
    still.expect(reached(&still).len() == 1, "the interface is up");
    assert_eq!(server.came(), 1);
    // Last, as it takes the interface down.
    let (_, told) = outside("python3", &["-c", REACH]);
    for name in [
        "netlink",
        "packet",
        "raw",
        "mark",
        "small port",
        "interface",
    ] {
        assert!(
            told.contains(&format!("{name} done")),
            "the control: {told}"
        );
    }
    let down = talk(in_the_hosts_network(), &["127.0.0.1"]);
    down.expect(reached(&down).is_empty(), "the control took it down");
}

/// What is lost: the jail waits at a port of the host. A rule takes it back.
#[test]
fn a_jail_waits_at_a_port_of_the_host_unless_a_rule_is_against_it() {
    network_of_its_own();
    let wait = "import socket
server = socket.create_server(('0.0.0.0', 9000))
server.settimeout(10)
peer, _ = server.accept()
print(peer.recv(5).decode())";
    let run = in_the_hosts_network();
    let mut command = run.command(&["python3", "-c", wait]);
    command.stdout(std::process::Stdio::piped());
    let child = command.spawn().expect("turnkey can be started");
    eventually("it is reached from outside", || {
        let peer = std::net::TcpStream::connect("127.0.0.1:9000");
        peer.is_ok_and(|mut peer| std::io::Write::write_all(&mut peer, b"hello").is_ok())
    });
    let ran = run.end(child, std::time::Instant::now());
    ran.expect(ran.stdout == "hello\n", "the jail was reached");
    let told = ran.list("/network_attempts").iter();
    let mut told =
        told.filter(|tried| tried["act"] == "bind" && tried["address"] == "0.0.0.0:9000");
    ran.expect(told.next().is_some(), "and it is told");
    let rule = "[[rule]]\nid = \"no-server\"\non = \"bind\"\naction = \"deny\"\nseverity = \"high\"\nwhy = \"a test\"\n";
    let ran = in_the_hosts_network().profile(rule).python(wait);
    ran.expect(ran.stderr.contains("PermissionError"), "refused");
    ran.expect(ran.violations()[0]["rule"] == "no-server", "and told");
}
