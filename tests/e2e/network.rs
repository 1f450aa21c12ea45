//! Nothing leaves the jail, and every attempt is told.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use turnkey_tests::{Run, as_nobody, binary, in_the_guest, measured, network_of_its_own, outside};

#[test]
fn a_listener_of_the_host_is_never_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    assert!(
        std::net::TcpStream::connect(address).is_ok(),
        "the control: outside it answers"
    );
    drop(listener.accept().unwrap());
    let port = address.port();
    let program = format!(
        "import socket
try:
    socket.create_connection(('127.0.0.1', {port}), 2)
    print('connected')
except OSError as e:
    print('refused', e.errno)"
    );
    let ran = Run::new().python(&program);
    listener.set_nonblocking(true).unwrap();
    ran.expect(listener.accept().is_err(), "nobody came");
    ran.expect(ran.stdout == "refused 111\n", "ECONNREFUSED");
    let attempt = format!("127.0.0.1:{port}");
    let attempts = ran.list("/network_attempts");
    ran.expect(
        attempts
            .iter()
            .any(|tried| tried["address"] == attempt.as_str()),
        "the attempt is told",
    );
}

/// What the C library does to put the addresses of a name in order is nothing that was blocked; whoever sends to the same address is told.
#[test]
fn a_name_that_is_looked_up_is_no_attempt_to_connect() {
    let look = "import socket\nsocket.getaddrinfo('localhost', None)\n";
    let ran = Run::new().option("--profile shell").python(look);
    let attempts = ran.list("/network_attempts");
    let is_sorting =
        |tried: &&serde_json::Value| tried["address"] == "[::1]:0" && tried["act"] == "connect";
    ran.expect(
        attempts.iter().any(|tried| is_sorting(&tried)),
        "the control: it asked the kernel",
    );
    ran.expect(!ran.stderr.contains("blocked"), "and was not blocked");
    let connect =
        "socket.socket().connect(('::1', 0, 0, 0))".replace("socket()", "socket(socket.AF_INET6)");
    let ran = Run::new()
        .option("--profile shell")
        .python(&format!("{look}{connect}"));
    ran.expect(
        ran.stderr.contains("[::1]:0"),
        "a stream has somebody at the other end",
    );
}

#[test]
fn the_metadata_service_is_tried_in_vain() {
    let ran =
        Run::new().python("import socket\nsocket.create_connection(('169.254.169.254', 80), 2)");
    ran.expect(ran.code == 1, "the program failed by itself");
    let attempts = ran.list("/network_attempts");
    ran.expect(
        attempts
            .iter()
            .any(|tried| tried["address"] == "169.254.169.254:80"),
        "told",
    );
}

#[test]
pub fn j36_an_abstract_socket_of_the_host_is_not_there() {
    let name = format!("turnkey-test-{}", std::process::id());
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(
            &name,
        )
        .unwrap();
    let listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    assert!(
        std::os::unix::net::UnixStream::connect_addr(&address).is_ok(),
        "the control"
    );
    drop(listener.accept().unwrap());
    let ran = Run::new().python(&format!(
        "import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')"
    ));
    listener.set_nonblocking(true).unwrap();
    ran.expect(listener.accept().is_err(), "nobody came");
    ran.expect(ran.code != 0, "the connect failed");
}

#[test]
fn a_program_talks_to_its_own_server_in_every_mode() {
    let program = "import socket, threading
server = socket.create_server(('127.0.0.1', 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b'hello'), daemon=True).start()
print(socket.create_connection(server.getsockname()).recv(5).decode())
both = socket.create_server(('::', 0), family=socket.AF_INET6, dualstack_ipv6=True)
port = both.getsockname()[1]
for address in ('::1', '127.0.0.1', '::ffff:127.0.0.1', '0.0.0.0', '::'):
    socket.create_connection((address, port)).close()
for family, to in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
    receiver, sender = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
    receiver.bind((to, 0))
    sender.sendto(b'datagram', receiver.getsockname())
    print(receiver.recv(9).decode())";
    for mode in ["loopback", "none"] {
        let option = format!("--network {mode}");
        let ran = Run::new().option(&option).python(program);
        ran.expect_code(0);
        let said = "hello\ndatagram\ndatagram\n";
        ran.expect(ran.stdout == said, "connections inside the jail");
        ran.expect(ran.report["risk_score"] == 0, "nothing is held against it");
    }
}

/// A client that tries until its own server is there, at a port that both know, by a shorter and a longer name of the address.
const WAITS: &str = "import socket, sys, threading, time
tried, port = threading.Event(), 18080
def serve():
    tried.wait()
    with socket.create_server(('127.0.0.1', port)) as server: server.accept()[0].sendall(b'hello')
if sys.argv[1] == 'served': threading.Thread(target=serve).start()
for attempt in range(100):
    try:
        print(socket.create_connection(('127.0.0.1', port)).recv(5).decode()); break
    except ConnectionRefusedError:
        tried.set(); time.sleep(0.01)
        if sys.argv[1] != 'served': break";

#[test]
fn who_waits_for_a_server_of_its_own_asks_nobody_else() {
    let ran = Run::new().run(&["python3", "-c", WAITS, "served"]);
    ran.expect_code(0);
    ran.expect(
        ran.stdout == "hello\n",
        "the server is found when it is there",
    );
    ran.expect(ran.violations().is_empty(), "nothing is held against it");
    ran.expect(ran.report["risk_score"] == 0, "nor counted");
    let rows = ran.list("/network_attempts").iter();
    let refused = rows.filter(|row| row["errno"] == "ECONNREFUSED");
    let told: Vec<_> = refused
        .map(|row| (&row["result"], row["rule"].is_null()))
        .collect();
    ran.expect(
        told == [(&"failed".into(), true)],
        "that it tried before is told",
    );
    ran.expect(
        !ran.stderr.contains("blocked"),
        "and not as something that was refused",
    );
    let alone = Run::new().run(&["python3", "-c", WAITS, "alone"]);
    alone.expect(
        alone.report["risk_score"] == 60,
        "the control: nobody comes to listen there",
    );
    let violation = &alone.violations()[0];
    alone.expect(
        violation["rule"] == "network-connect",
        "that is a violation",
    );
    alone.expect(
        violation["stopped_by"] == "network-namespace",
        "stopped by that nobody is there",
    );
}

/// Serves at every address, of both families; with `client` it comes there itself.
const FOR_EVERYBODY: &str = "import socket, sys
for address, family in (('0.0.0.0', socket.AF_INET), ('::', socket.AF_INET6)):
    with socket.create_server((address, 18081), family=family) as server:
        print('made')
        if sys.argv[1] == 'client':
            with socket.create_connection((('127.0.0.1', '::1')[family == socket.AF_INET6], 18081)) as client:
                server.accept()[0].sendall(b'hello'); print(client.recv(5).decode())";

#[test]
fn a_server_for_everybody_is_told_unless_the_run_itself_comes() {
    let own = Run::new().run(&["python3", "-c", FOR_EVERYBODY, "client"]);
    own.expect(
        own.stdout == "made\nhello\nmade\nhello\n",
        "it serves itself",
    );
    own.expect(own.violations().is_empty(), "nothing is held against it");
    own.expect(own.report["risk_score"] == 0, "nor counted");
    let rows = own.list("/network_attempts").iter();
    own.expect(rows.count() > 1, "what it did is told");
    let waiting = Run::new().run(&["python3", "-c", FOR_EVERYBODY, "alone"]);
    waiting.expect(waiting.stdout == "made\nmade\n", "the control");
    waiting.expect(
        waiting.report["risk_score"] == 60,
        "it waits for somebody else",
    );
    let rules: BTreeSet<_> = waiting
        .violations()
        .iter()
        .map(|one| one["rule"].as_str().unwrap_or_default())
        .collect();
    waiting.expect(
        rules == BTreeSet::from(["network-listen"]),
        "which a rule is about",
    );
}

/// Until it is told the end, a server at every address of the jail's network is at none of the host's.
#[test]
fn a_server_for_everybody_is_reached_by_nobody_outside() {
    let program = "import socket
server = socket.create_server(('0.0.0.0', 18082))
print('made', flush=True)
input()";
    let reached = |port: u16| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    let control = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    assert!(
        reached(control.local_addr().unwrap().port()),
        "the control: outside of a jail it is"
    );
    let mut jail = Command::new(binary())
        .args(["run", "--", "python3", "-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(jail.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "made");
    assert!(!reached(18082), "nobody outside comes to it");
    jail.stdin.take().unwrap().write_all(b"end\n").unwrap();
    assert!(jail.wait().unwrap().success());
}

#[test]
fn where_the_jail_itself_does_not_listen_nobody_is_asked() {
    let program = "import socket
stream, datagram = socket.create_server(('127.0.0.1', 0)), socket.socket(type=socket.SOCK_DGRAM)
port = stream.getsockname()[1]
stream.close()
for attempt in (lambda: socket.create_connection(('127.0.0.1', port)),
                lambda: datagram.sendto(b'x', ('127.0.0.1', port)),
                lambda: socket.create_connection(('127.0.0.1', 6379))):
    try:
        attempt()
        print('made')
    except OSError as e:
        print(e.errno)";
    let ran = Run::new().python(program);
    ran.expect(
        ran.stdout == "111\n1\n111\n",
        "ECONNREFUSED of the kernel, and EPERM",
    );
    let findings = ran.report["findings"].as_array().unwrap();
    let told = findings.iter().any(|one| one["id"] == "network-connect");
    ran.expect(told, "the attempts are told");
}

/// Sockets that connect to an address at the port that they are bound to, and whether they have met themselves there.
const ITSELF: &str = "import socket
def meets(bound, asked, family=socket.AF_INET6):
    with socket.socket(family) as one:
        one.bind((bound, 0))
        try:
            one.connect((asked, one.getsockname()[1]))
            return one.getpeername() == one.getsockname()
        except OSError as e:
            return e.errno
v4 = socket.AF_INET
print(meets('127.0.0.1', '127.0.0.1', v4), meets('0.0.0.0', '127.0.0.1', v4), meets('127.0.0.1', '0.0.0.0', v4), meets('127.0.0.9', '127.0.0.9', v4))
print(meets('::ffff:127.0.0.1', '::ffff:127.0.0.1'), meets('::', '::ffff:127.0.0.1'), meets('::1', '::1'), meets('::', '::'))
print(meets('127.0.0.2', '127.0.0.1', v4), meets('0.0.0.0', '127.0.0.9', v4), meets('127.0.0.1', '127.0.0.2', v4))";

#[test]
fn a_socket_that_meets_itself_is_told_as_connected() {
    let meetings = "True True True True\nTrue True True True\n";
    let ran = Run::new().python(ITSELF);
    let said = format!("{meetings}111 111 111\n");
    ran.expect(
        ran.stdout == said,
        "of each socket, what the kernel says of it",
    );
    let attempts = ran.list("/network_attempts").iter();
    let refused = attempts.filter(|attempt| attempt["errno"] == "ECONNREFUSED");
    ran.expect(
        refused.count() == 3,
        "those that did not meet themselves are told as refused",
    );
    let alone = ITSELF.lines().filter(|line| !line.contains("127.0.0.2"));
    let ran = Run::new().python(&alone.collect::<Vec<_>>().join("\n"));
    ran.expect(ran.stdout == meetings, "the others alone");
    ran.expect(ran.report["risk_score"] == 0, "are held against nobody");
}

#[test]
pub fn j35_other_socket_families_do_not_exist() {
    let program = "import socket
families = ((socket.AF_PACKET, 3), (socket.AF_VSOCK, 1), (socket.AF_ALG, 5))
for family, kind in families:
    try:
        socket.socket(family, kind)
        print('made')
    except OSError as e:
        print(e.errno)";
    let (_, told) = outside("python3", &["-c", program]);
    // The guest's kernels have the modules for all of them, and load them.
    let count = if in_the_guest() { 3 } else { 1 };
    assert!(
        told.starts_with(&"made\n".repeat(count)),
        "the control: {told}"
    );
    let ran = Run::new().python(program);
    ran.expect(ran.stdout == "97\n97\n97\n", "EAFNOSUPPORT");
}

#[test]
fn a_refused_call_is_told_with_the_name_of_its_error() {
    let program = "import socket
for arguments in ((socket.AF_INET, socket.SOCK_STREAM, 132), (socket.AF_PACKET, socket.SOCK_RAW, 0)):
    try: socket.socket(*arguments)
    except OSError as error: print(error.errno)";
    let ran = Run::new().python(program);
    ran.expect(ran.stdout == "93\n97\n", "the control: both are refused");
    let rows = ran.list("/refused_calls").iter();
    let errors: Vec<_> = rows.map(|row| &row["errno"]).collect();
    ran.expect(
        errors == ["EPROTONOSUPPORT", "EAFNOSUPPORT"],
        "by name, and not by number",
    );
}

/// Listens as a hypervisor's service would, and says what it was told; until it is told the end.
const SERVE_GUESTS: &str = "import socket
server = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
server.bind((socket.VMADDR_CID_ANY, 7000))
server.listen()
print('listening', flush=True)
told = ''
while told != 'end':
    told = server.accept()[0].recv(16).decode()
    print(told, flush=True)";

/// Says something to that service.
const REACH_HYPERVISOR: &str = "import socket, sys
VMADDR_CID_LOCAL = 1
try:
    service = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    service.connect((VMADDR_CID_LOCAL, 7000))
    service.sendall(sys.argv[1].encode())
except OSError as error: print(error.errno)";

#[test]
fn j35_a_service_of_the_hypervisor_is_not_reached() {
    let say = |what| as_nobody("/usr/bin/python3", &["-c", REACH_HYPERVISOR, what]).1;
    if !in_the_guest() {
        measured(&format!(
            "a service is reached for in the guest alone: {}",
            say("x")
        ));
        return;
    }
    let mut server = Command::new("python3")
        .args(["-c", SERVE_GUESTS])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut heard = || lines.next().expect("it speaks").expect("as text");
    assert_eq!(heard(), "listening");
    assert_eq!(say("control"), "", "the control: outside it is reached");
    assert_eq!(heard(), "control");
    let ran = Run::new().run(&["python3", "-c", REACH_HYPERVISOR, "jail"]);
    assert_eq!(say("end"), "");
    assert_eq!(heard(), "end", "nobody came in between");
    ran.expect(ran.stdout == "97\n", "EAFNOSUPPORT");
    assert!(server.wait().unwrap().success());
}

/// Has the kernel compute a digest.
const USE_CIPHERS: &str = "import socket
try:
    algorithm = socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)
    algorithm.bind(('hash', 'sha256'))
    operation, _ = algorithm.accept()
    operation.sendall(b'abc')
    print(operation.recv(32).hex())
except OSError as error: print(error.errno)";

#[test]
fn j35_the_kernels_ciphers_are_not_reached() {
    let (_, told) = as_nobody("/usr/bin/python3", &["-c", USE_CIPHERS]);
    // FIPS 180-2 has the digest of these three letters.
    let is_digest = told.starts_with("ba7816bf8f01cfea");
    assert!(is_digest || !in_the_guest(), "the control: {told}");
    let ran = Run::new().python(USE_CIPHERS);
    ran.expect(ran.stdout == "97\n", "EAFNOSUPPORT");
}

#[test]
fn looking_up_an_own_name_is_no_attempt_to_get_out() {
    let program = "import socket; print(socket.gethostbyname('localhost'))";
    let ran = Run::new().python(program);
    ran.expect_code(0);
    ran.expect(ran.stdout == "127.0.0.1\n", "the jail's own hosts file");
    ran.expect(ran.violations().is_empty(), "nobody was to be reached");
    // The control: the same socket with a port to reach is one.
    let reaching = "import socket
try: socket.socket(type=socket.SOCK_DGRAM).connect(('127.0.0.1', 54))
except OSError as e: print(e.errno)";
    let ran = Run::new().python(reaching);
    ran.expect(ran.stdout == "1\n", "EPERM");
    ran.expect(ran.violations().len() == 1, "and it is told");
}

/// Sends a datagram to one address, without a connection and over one.
const DATAGRAMS: &str = "import socket
for peer in [None, ('203.0.113.7', 8443)]:
  try:
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if peer: own.connect(peer)
    print(own.send(b'x') if peer else own.sendto(b'x', ('203.0.113.7', 8443)))
  except OSError as error: print(error.errno)";

/// A program that means UDP learns that there is none: of what is refused, and of a connected socket whose datagrams reach nobody.
#[test]
fn that_hosts_are_reached_over_tcp_alone_is_said_wherever_udp_is_meant() {
    network_of_its_own();
    let word = "a jail reaches other hosts over TCP alone";
    let none = Run::new().python(DATAGRAMS);
    none.expect(none.stdout == "1\n1\n", "EPERM for both");
    let told = none.violations();
    none.expect(told.len() == 2, "the one and the other");
    for violation in told {
        let advice = violation["advice"].as_str().unwrap_or_default();
        none.expect(advice.contains(word), "the report says why");
    }
    none.expect(none.stderr.contains(word), "and so does the terminal");

    let allowed = || Run::new().option("--allow 203.0.113.7:8443");
    let ran = allowed().python(DATAGRAMS);
    ran.expect(ran.stdout == "1\n1\n", "a refusal, and one byte to nobody");
    let told = "over UDP nobody is reached at 203.0.113.7:8443: --allow is for TCP alone";
    ran.expect(ran.stderr.contains(told), "which is told");
    let looked = "import socket; socket.getaddrinfo('203.0.113.7', 8443)";
    let ran = allowed().python(looked);
    ran.expect(
        !ran.stderr.contains("UDP"),
        "and not to who looks a name up",
    );

    let asked = Run::new()
        .option("--allow udp:203.0.113.7:8443")
        .shell("true");
    asked.expect_code(125);
    asked.expect(asked.stderr.contains("asks for UDP"), "an entry is refused");
    let (_, help) = outside(binary(), &["run", "--help"]);
    assert!(
        help.contains("Allow TCP, and no UDP, to this host"),
        "{help}"
    );
}
