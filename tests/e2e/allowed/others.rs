//! Attempts on everybody else, each of which succeeds without the jail.

use turnkey_tests::{Server, network_of_its_own, outside, unprivileged};

use super::talking_to;

/// Tries whom it is told, and says how each went.
const TRY: &str = "import socket, sys
def tried(act):
    try: return act() or 'reached'
    except OSError as error: return 'no'
def tcp(host, port):
    peer = socket.create_connection((host, int(port)), 5)
    peer.sendall(b'x')
    peer.shutdown(socket.SHUT_WR)
    return 'reached' if peer.recv(1) == b'x' else 'no'
def udp(host, port):
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    peer.settimeout(1)
    peer.connect((host, int(port)))
    peer.send(b'x')
    return 'reached' if peer.recv(1) == b'x' else 'no'
def abstract(name, _):
    peer = socket.socket(socket.AF_UNIX)
    peer.connect('\\0' + name)
def raw(host, _):
    peer = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    peer.sendto(bytes((8, 0, 0xf7, 0xff, 0, 0, 0, 0)), (host, 0))
for kind, host, port in (entry.split(',') for entry in sys.argv[1:]):
    print(kind, host, port, tried(lambda: globals()[kind](host, port)))";

fn everybody_else_is_out_of_reach() {
    network_of_its_own();
    let servers = [8443, 8444, 22].map(Server::echo);
    let datagrams = std::net::UdpSocket::bind("0.0.0.0:8443").expect("it can be made");
    std::thread::spawn(move || {
        let mut told = [0; 16];
        while let Ok((length, who)) = datagrams.recv_from(&mut told) {
            let _ = datagrams.send_to(&told[..length], who);
        }
    });
    let name = format!("allowed-others-{}", std::process::id());
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(
            &name,
        )
        .expect("it can be made");
    let _unix = std::os::unix::net::UnixListener::bind_addr(&address).expect("it can be made");
    let tried = [
        // The port beside, the address beside, the same in version 6, and what the entries guard.
        "tcp,203.0.113.7,8444".to_owned(),
        "tcp,203.0.113.7,22".to_owned(),
        "tcp,203.0.113.8,8443".to_owned(),
        "tcp,198.51.100.1,8443".to_owned(),
        "tcp,2001:db8::7,8443".to_owned(),
        "tcp,::ffff:203.0.113.8,8443".to_owned(),
        "tcp,10.9.128.0,8443".to_owned(),
        "tcp,10.9.0.1,8444".to_owned(),
        "tcp,127.0.0.1,8443".to_owned(),
        "tcp,::1,8443".to_owned(),
        "udp,203.0.113.7,8443".to_owned(),
        "udp,203.0.113.8,8443".to_owned(),
        "raw,203.0.113.7,0".to_owned(),
        format!("abstract,{name},0"),
    ];
    let mut arguments = vec!["-c", TRY];
    arguments.extend(tried.iter().map(String::as_str));
    let (_, told) = outside("python3", &arguments);
    assert_eq!(
        told.matches(" reached\n").count(),
        tried.len(),
        "the control: {told}"
    );
    let before = servers.each_ref().map(Server::came);

    let mut program = vec!["python3"];
    program.extend(&arguments);
    let reach = "tcp,203.0.113.7,8443";
    let mapped = "tcp,::ffff:203.0.113.7,8443";
    program.extend([reach, mapped]);
    let ran = talking_to(&["203.0.113.7:8443", "10.9.0.0/17:8443"]).run(&program);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let (others, allowed) = lines.split_at(tried.len().min(lines.len()));
    ran.expect(
        others.len() == tried.len() && others.iter().all(|line| line.ends_with(" no")),
        "nobody else is reached",
    );
    ran.expect(
        allowed.len() == 2 && allowed.iter().all(|line| line.ends_with(" reached")),
        "the allowed one is, by either name",
    );
    let after = servers.each_ref().map(Server::came);
    assert_eq!(after[0], before[0] + 2, "the two that are allowed");
    assert_eq!(after[1..], before[1..], "nobody came");
    if ran.at("/events/complete") == true {
        let attempts = ran.list("/network_attempts");
        for address in [
            "203.0.113.7:8444",
            "203.0.113.8:8443",
            "[2001:db8::7]:8443",
            "[::ffff:203.0.113.8]:8443",
        ] {
            let told = attempts
                .iter()
                .any(|tried| tried["address"] == address && tried["result"] == "denied");
            ran.expect(told, address);
        }
    }
}

#[test]
fn m18_everybody_else_is_out_of_reach() {
    everybody_else_is_out_of_reach();
}

#[test]
fn m18_everybody_else_is_out_of_reach_without_privileges() {
    unprivileged(everybody_else_is_out_of_reach);
}

#[test]
fn m18_what_a_range_holds_and_never_means_is_out_of_reach() {
    network_of_its_own();
    let server = Server::echo(80);
    let everything = "0.0.0.0/0:80";
    let program = [
        "python3",
        "-c",
        TRY,
        "tcp,127.0.0.1,80",
        "tcp,127.0.0.2,80",
        "tcp,::ffff:127.0.0.1,80",
        "tcp,0.0.0.0,80",
        "tcp,169.254.169.254,80",
        "tcp,203.0.113.7,80",
    ];
    let ran = talking_to(&[everything]).run(&program);
    let reached = ran.stdout.lines().filter(|line| line.ends_with(" reached"));
    ran.expect(
        reached.eq(["tcp 203.0.113.7 80 reached"]),
        "only what a range means",
    );
    assert_eq!(server.came(), 1);
}

#[test]
fn m18_nobody_takes_the_place_of_a_listener_or_has_one() {
    network_of_its_own();
    let _server = Server::echo(8443);
    let program = "import os, socket
def bind(host, options):
    server = socket.socket(socket.AF_INET)
    for option in options: server.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        server.bind((host, 8443))
        server.listen()
        return 'stolen'
    except OSError as error: return error.errno
reuse = (socket.SO_REUSEADDR, socket.SO_REUSEPORT)
print([bind(host, options) for host in ('203.0.113.7', '0.0.0.0') for options in ((), reuse[:1], reuse)])
print([fd for fd in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + fd) and os.readlink('/proc/self/fd/' + fd).startswith('socket')])
print(open('/proc/self/net/tcp').read().count(' 0A '))";
    let ran = talking_to(&["203.0.113.7:8443"]).python(program);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    ran.expect(
        lines.first() == Some(&"[98, 98, 98, 98, 98, 98]"),
        "EADDRINUSE",
    );
    ran.expect(
        lines.get(1) == Some(&"[]"),
        "and no socket came with the start",
    );
    ran.expect(
        lines.get(2) == Some(&"1"),
        "the one that waits is turnkey's",
    );
}
