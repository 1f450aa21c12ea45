//! Ways to reach somebody that are no connect(2).

use std::net::{TcpListener, UdpSocket};

use turnkey_tests::{Ran, Run, as_nobody, compile, in_the_guest, open_to_all, scratch};

use super::{events, rule, violations};

pub const REACH: &str = include_str!("../../attacks/reach.c");

/// The ways that carry a datagram, and those that connect.
pub const DATAGRAMS: [&str; 9] = [
    "sendto",
    "sendto-unspecified",
    "sendto-mapped",
    "sendto-4-on-6",
    "sendmsg",
    "sendmmsg",
    "connect-send",
    "connect-again",
    "sendto-elsewhere",
];
pub const STREAMS: [&str; 3] = ["tcp", "tcp-mapped", "fast-open"];

/// Sockets of a kind that the jail does not have, and what is answered.
const KINDS: [(&str, i32); 6] = [
    ("raw", libc::EPERM),
    // The kernel asks who may ping before it asks anybody else.
    ("ping", libc::EACCES),
    ("multipath", libc::EPROTONOSUPPORT),
    ("packet", libc::EAFNOSUPPORT),
    ("netlink", libc::EPROTONOSUPPORT),
    ("hypervisor", libc::EAFNOSUPPORT),
];

/// Somebody on the host to be reached.
struct Peer {
    datagrams: UdpSocket,
    streams: TcpListener,
    port: String,
}

impl Peer {
    fn new() -> Peer {
        loop {
            let streams = TcpListener::bind("127.0.0.1:0").expect("the host has a loopback");
            let address = streams.local_addr().expect("the host has a loopback");
            // The same port of the other protocol may be taken.
            let Ok(datagrams) = UdpSocket::bind(address) else {
                continue;
            };
            streams
                .set_nonblocking(true)
                .expect("the host has a loopback");
            datagrams
                .set_nonblocking(true)
                .expect("the host has a loopback");
            let port = address.port().to_string();
            return Peer {
                datagrams,
                streams,
                port,
            };
        }
    }

    /// How many datagrams and connections came.
    fn came(&self) -> (usize, usize) {
        let mut text = [0; 64];
        let datagrams = std::iter::from_fn(|| self.datagrams.recv(&mut text).ok());
        let streams = std::iter::from_fn(|| self.streams.accept().ok());
        (datagrams.count(), streams.count())
    }
}

pub fn answered(told: &str, way: &str, errno: i32) -> bool {
    told.lines().any(|line| line == format!("{way} {errno}"))
}

#[test]
fn m18_nobody_is_reached_by_any_way() {
    let peer = Peer::new();
    let directory = scratch();
    open_to_all(directory.path());
    let program = directory.path().join("reach");
    compile(&program, REACH);
    let (_, control) = as_nobody(&program, &["127.0.0.1", &peer.port]);
    for way in DATAGRAMS.iter().chain(&STREAMS) {
        assert!(answered(&control, way, 0), "the control: {way}: {control}");
    }
    let came = peer.came();
    assert_eq!(came.0, DATAGRAMS.len(), "the control: datagrams came");
    assert!(came.1 >= 2, "the control: connections came");

    let run = Run::new().compiled("reach", REACH).with_events();
    let ran = run.run(&["./reach", "127.0.0.1", &peer.port]);
    assert_eq!(peer.came(), (0, 0), "nobody came");
    every_way_is_refused_and_told(&ran, ("127.0.0.1", &peer.port), libc::ECONNREFUSED);
    ran.expect(!answered(&ran.stdout, "abstract", 0), "no host's names");
    let named =
        events(&ran, "connect").any(|event| event["address"] == "unix-abstract:turnkey-reach");
    ran.expect(named, "and it is told");
}

/// On a loopback of its own: an address elsewhere is refused before anybody looks for a way there.
#[test]
fn m18_a_loopback_of_its_own_is_no_way_out() {
    let run = Run::new().compiled("reach", REACH).with_events();
    let run = run.option("--network loopback");
    let ran = run.run(&["./reach", "192.0.2.1", "443"]);
    every_way_is_refused_and_told(&ran, ("192.0.2.1", "443"), libc::EPERM);
    let control = Run::new().option("--network loopback");
    let control = control.compiled("reach", REACH);
    let control = control.run(&["./reach", "127.0.0.1", "443"]);
    control.expect(
        answered(&control.stdout, "sendto", 0),
        "the control: to itself",
    );
}

#[track_caller]
fn every_way_is_refused_and_told(ran: &Ran, (address, port): (&str, &str), of_stream: i32) {
    for way in DATAGRAMS {
        ran.expect(answered(&ran.stdout, way, libc::EPERM), way);
    }
    for way in STREAMS {
        ran.expect(answered(&ran.stdout, way, of_stream), way);
    }
    for (kind, errno) in KINDS {
        ran.expect(answered(&ran.stdout, kind, errno), kind);
    }
    let names = [
        format!("{address}:{port}"),
        format!("[::ffff:{address}]:{port}"),
    ];
    let told = |kind: &str| {
        let denied = events(ran, kind).filter(|event| event["result"] == "denied");
        let denied = denied.filter_map(|event| event["address"].as_str());
        denied
            .filter(|address| names.iter().any(|name| name == address))
            .count()
    };
    ran.expect(
        told("send") >= 7,
        "sends are told, by the address that the kernel used",
    );
    ran.expect(told("connect") >= 5, "and connects");
    let sockets = events(ran, "refused").filter(|event| event["syscall"] == "socket");
    let sockets = sockets.filter(|event| event["result"] == "denied");
    ran.expect(sockets.count() == KINDS.len(), "and kinds of sockets");
}

/// A question to a name server, which carries the secret in the name, and one through the library.
const QUERY: &str = "import socket, sys
name = b'\\x06secret\\x07example\\x03com\\x00'
query = b'\\x12\\x34\\x01\\x00\\x00\\x01' + b'\\x00' * 6 + name + b'\\x00\\x01\\x00\\x01'
try: socket.socket(type=socket.SOCK_DGRAM).sendto(query, ('127.0.0.1', int(sys.argv[1])))
except OSError as error: print(error.errno)
try: socket.getaddrinfo('secret.example.com', 443)
except OSError: print('not resolved')";

#[test]
fn m19_a_name_server_is_not_asked() {
    let peer = Peer::new();
    let (_, _) = as_nobody("python3", &["-c", QUERY, &peer.port]);
    assert_eq!(peer.came().0, 1, "the control: the question came");
    let ran = Run::new()
        .with_events()
        .run(&["python3", "-c", QUERY, &peer.port]);
    assert_eq!(peer.came().0, 0, "no question came");
    ran.expect(ran.stdout == "1\nnot resolved\n", "refused");
    let asked = |port: &str| {
        let sent = ran
            .events
            .iter()
            .filter(|event| event["result"] == "denied");
        let addresses = sent.filter_map(|event| event["address"].as_str());
        addresses.filter(|address| address.ends_with(port)).count()
    };
    ran.expect(
        asked(&format!(":{}", peer.port)) == 1,
        "the question is told",
    );
    // The guest's library knows of no name servers.
    ran.expect(in_the_guest() || asked(":53") >= 1, "and the library's");
}

#[test]
fn m23_j65_what_a_rule_kills_for_does_not_reach_anybody_first() {
    let peer = Peer::new();
    let program = format!(
        "import socket\nsocket.socket(type=socket.SOCK_DGRAM).sendto(b'leak', ('127.0.0.1', {}))\nprint('sent', flush=True)",
        peer.port
    );
    let (_, told) = as_nobody("python3", &["-c", &program]);
    assert_eq!((told.as_str(), peer.came().0), ("sent\n", 1), "the control");
    let kill = rule("network-send", "send", "kill", "replaces = true");
    let ran = Run::new().profile(&kill).python(&program);
    assert_eq!(peer.came().0, 0, "nothing came");
    ran.expect_code(121);
    ran.expect(ran.stdout.is_empty(), "dead before the call returned");
    let address = format!("127.0.0.1:{}", peer.port);
    let told = violations(&ran, "network-send").any(|one| one["address"] == address.as_str());
    ran.expect(told, "and it is told");
}
