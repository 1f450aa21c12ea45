//! Questions to name servers: seen by name, whether or not they may leave.

use std::net::UdpSocket;

use serde_json::Value;
use turnkey_tests::{Ran, Run, as_nobody};

use super::events;

/// Asks for a name whose first label is the way it is sent, then the secret, by every way there is.
const ASK: &str = r#"
import ctypes, socket, struct, sys
server = (sys.argv[1], 53)
def question(*labels):
    name = b''.join(bytes([len(label)]) + label for label in labels) + b'\0'
    return b'\x12\x34\x01\0\0\1' + b'\0' * 6 + name + b'\0\x10\0\1'
def sendmmsg(peer, data):
    address = struct.pack('=H', 2) + struct.pack('>H', 53) + socket.inet_aton(server[0]) + bytes(8)
    kept = [ctypes.create_string_buffer(one, len(one)) for one in (address, data)]
    where = [ctypes.addressof(one) for one in kept]
    piece = ctypes.create_string_buffer(struct.pack('QQ', where[1], len(data)))
    header = struct.pack('QIxxxxQQQQIxxxxIxxxx', where[0], 16, ctypes.addressof(piece), 1, 0, 0, 0, 0)
    message = ctypes.create_string_buffer(header)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.sendmmsg(peer.fileno(), message, 1, 0) < 0: raise OSError(ctypes.get_errno(), 'sendmmsg')
ways = {
    b'sendto': lambda peer, data: peer.sendto(data, server),
    b'sendmsg': lambda peer, data: peer.sendmsg([data], [], 0, server),
    b'sendmmsg': sendmmsg,
    b'pieces': lambda peer, data: peer.sendmsg([data[:20], data[20:]], [], 0, server),
}
for way, send in ways.items():
    try:
        send(socket.socket(type=socket.SOCK_DGRAM), question(way, b'se.cr\xff\n', b'example'))
        print('sent')
    except OSError as error: print(error.errno)
"#;

/// An address of this host's loopback where nobody else listens.
const SERVER: &str = "127.0.54.53";

fn asked(ran: &Ran) -> Vec<(String, Value)> {
    let questions = events(ran, "question").flat_map(|event| {
        let questions = event["questions"].as_array().cloned().unwrap_or_default();
        let result = event["result"].clone();
        questions
            .into_iter()
            .map(move |one| (format!("{} {}", one["name"], one["type"]), result.clone()))
    });
    questions.collect()
}

#[test]
fn m19_a_question_that_may_not_leave_is_told_by_name() {
    let server = UdpSocket::bind((SERVER, 53)).unwrap();
    server.set_nonblocking(true).unwrap();
    let came = || std::iter::from_fn(|| server.recv(&mut [0; 512]).ok()).count();
    let (_, control) = as_nobody("python3", &["-c", ASK, SERVER]);
    assert_eq!(
        control,
        "sent\n".repeat(4),
        "the control: outside they leave"
    );
    assert_eq!(came(), 4, "and come");

    let ran = Run::new()
        .with_events()
        .run(&["python3", "-c", ASK, SERVER]);
    assert_eq!(came(), 0, "nothing came");
    ran.expect(ran.stdout == "1\n".repeat(4), "each is refused");
    let expected = ["sendto", "sendmsg", "sendmmsg"].map(|way| {
        let name = format!(r#""{way}.se\\046cr\\255\\010.example" "TXT""#);
        (name, Value::from("denied"))
    });
    ran.expect(asked(&ran) == expected, "and told by name");
    let pieces = events(&ran, "question").filter(|event| event["truncated"] == true);
    ran.expect(pieces.count() == 1, "what is in pieces is told to be cut");
    for way in ["sendto", "sendmsg", "sendmmsg"] {
        let name = format!(r"{way}.se\046cr\255\010.example");
        let mut rows = ran.list("/network_attempts").iter();
        let row = rows.find(|row| row["name"] == name.as_str());
        let told = row.is_some_and(|row| {
            row["result"] == "denied" && row["address"] == format!("{SERVER}:53").as_str()
        });
        ran.expect(told, "the report has it, too");
    }
}

/// The resolver of the C library, whose only name server is the jail itself.
const RESOLVE: &str = r#"
import ctypes, socket, struct, sys
libc = ctypes.CDLL(None)
socket.getaddrinfo('localhost', 1)
libc.__res_init()
libc.__res_state.restype = ctypes.c_void_p
state = libc.__res_state()
server = struct.pack('=iH', 1, 2) + struct.pack('>H', 53) + socket.inet_aton('127.0.0.1') + bytes(8)
# nscount and nsaddr_list[0], behind retrans, retry and options.
ctypes.memmove(state + 16, server, len(server))
try: socket.getaddrinfo('secret.example.com', 443, type=socket.SOCK_STREAM)
except OSError as error: print('not resolved')
"#;

#[test]
fn m19_a_question_of_the_resolver_is_told_by_name() {
    let run = Run::new().with_events().option("--network loopback");
    let ran = run.run(&["python3", "-c", RESOLVE]);
    ran.expect(ran.stdout == "not resolved\n", "nobody may answer there");
    let name = r#""secret.example.com" "A""#.to_owned();
    let told = asked(&ran).contains(&(name, Value::from("denied")));
    ran.expect(
        told,
        "the question is told, of a socket that was connected before",
    );
    let row = (ran.list("/network_attempts").iter())
        .any(|row| row["name"] == "secret.example.com" && row["address"] == "127.0.0.1:53");
    ran.expect(row, "and stands in the report");
}

/// Looks a name up; prints the errors and whether that was quick.
const LOOK_UP: &str = r#"
import time; begin = time.monotonic()
try: socket.getaddrinfo('secret.example.com', 443, type=socket.SOCK_STREAM)
except socket.gaierror as error: print(error.errno == socket.EAI_AGAIN)
print(time.monotonic() - begin < 1)
"#;

#[test]
fn m19_without_a_network_a_name_is_told_and_nobody_answers() {
    let (before, _) = RESOLVE.rsplit_once("try:").unwrap();
    let program = before.to_owned() + LOOK_UP;
    let ran = Run::new().with_events().run(&["python3", "-c", &program]);
    ran.expect(ran.stdout == "True\nTrue\n", "try again later, and at once");
    for record in ["A", "AAAA"] {
        let name = format!(r#""secret.example.com" "{record}""#);
        let told = asked(&ran).contains(&(name, Value::from("denied")));
        ran.expect(told, record);
    }
    ran.expect(ran.violations().len() == 1, "one attempt, repeated");
    let violation = &ran.violations()[0];
    ran.expect(violation["rule"] == "network-connect", "as grave as ever");
    ran.expect(violation["action"] == "deny", "and stopped");
    ran.expect(violation["stopped_by"] == "network-namespace", "by nobody");
    ran.expect(
        violation["names"] == serde_json::json!(["secret.example.com"]),
        "for whom it was",
    );
    let advice = violation["advice"].as_str().unwrap_or_default();
    ran.expect(
        advice.starts_with("--allow secret.example.com:PORT "),
        "what would lead there",
    );
    ran.expect(
        ran.stderr
            .contains("turnkey: blocked: looking up secret.example.com\n"),
        "and in words",
    );
}

/// Asks as Go's resolver does, over a connected socket by write(2), and in pieces; then writes the same to a file.
const ASKS_BY_WRITE: &str = r#"
import os, socket
question = lambda name: b'\x07\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00' + name + b'\x07example\x03com\x00\x00\x01\x00\x01'
asks = socket.socket(type=socket.SOCK_DGRAM)
asks.connect(('127.0.0.1', 53))
print(os.write(asks.fileno(), question(b'\x05first')))
try: os.read(asks.fileno(), 1)
except OSError as error: print(error.errno)
print(os.writev(asks.fileno(), [question(b'\x06second')]))
print(os.write(os.open('f', os.O_CREAT | os.O_WRONLY), question(b'\x05third')))
"#;

#[test]
fn m19_a_question_that_is_written_is_told_by_name() {
    let ran = Run::new()
        .with_events()
        .run(&["python3", "-c", ASKS_BY_WRITE]);
    ran.expect(
        ran.stdout == "35\n111\n36\n35\n",
        "written, and nobody is there",
    );
    let names = |name: &str| {
        let asked = asked(&ran);
        let mut named = asked.iter().filter(|(one, _)| one.contains(name));
        named.next().is_some()
    };
    ran.expect(names("first.example.com"), "by write(2)");
    ran.expect(names("second.example.com"), "by writev(2)");
    ran.expect(!names("third.example.com"), "and a file is no name server");
    let told = ran.stderr.contains("looking up first.example.com");
    ran.expect(told, "in words");
}

/// Questions where a resolver asks, and beside it. Prints what each is answered.
const BESIDE: &str = r#"
import socket
for kind, family, address in [
    (socket.SOCK_DGRAM, socket.AF_INET, ('127.0.0.1', 53)),
    (socket.SOCK_DGRAM, socket.AF_INET6, ('::1', 53)),
    (socket.SOCK_DGRAM, socket.AF_INET, ('127.0.0.1', 54)),
    (socket.SOCK_DGRAM, socket.AF_INET6, ('::1', 54)),
    (socket.SOCK_STREAM, socket.AF_INET, ('127.0.0.1', 53)),
    (socket.SOCK_STREAM, socket.AF_INET6, ('::1', 53)),
    (socket.SOCK_DGRAM, socket.AF_INET, ('192.0.2.1', 53)),
]:
    peer = socket.socket(family, kind)
    try: peer.connect(address); peer.send(b'x'); peer.recv(1)
    except OSError as error: print(error.errno)
    try: socket.socket(family, kind).bind(address)
    except OSError as error: print(error.errno)
"#;

#[test]
fn m19_nothing_but_a_question_to_oneself_passes() {
    let ran = Run::new().python(BESIDE);
    // The kernel finds nobody there, and lets nobody without privileges listen there either.
    let asks = format!("{}\n{}\n", libc::ECONNREFUSED, libc::EACCES);
    let refused = format!("1\n{}\n", libc::EACCES);
    let expected = [&asks, &asks, &refused, &refused, &asks, &asks, "1\n1\n"].concat();
    ran.expect(ran.stdout == expected, "nobody there, and refused");
    let own = Run::new().profile(
        "[[rule]]\nid = \"own\"\non = \"connect\"\naddress = \"127.0.0.1\"\nport = 53\naction = \"deny\"\nseverity = \"low\"\nwhy = \"mine\"\n",
    );
    let ran = own.python(BESIDE);
    ran.expect(
        ran.stdout.starts_with("1\n13\n"),
        "a rule about the address refuses",
    );
    ran.expect(ran.violations()[0]["rule"] == "own", "and is named");
}

#[test]
fn taking_a_port_of_ones_own_is_no_attempt_to_get_out() {
    let ran = Run::new().python(
        "import socket
for family, address in (2, '127.0.0.1'), (2, ''), (10, '::1'):
    for kind in 1, 2: socket.socket(family, kind).bind((address, 0))
for family, address in (2, '127.0.0.1'), (10, '::1'):
    for kind in 1, 2: socket.socket(family, kind).bind((address, 4444))",
    );
    ran.expect_code(0);
    ran.expect(
        !ran.stderr.contains(":0\n"),
        "and nothing is told of the others",
    );
}

/// The C library connects a datagram socket to each address that it found, to put them in order, and sends nothing.
#[test]
fn m19_a_name_of_the_jail_itself_is_looked_up_without_a_violation() {
    let addresses = "{row[4][0] for row in socket.getaddrinfo('localhost', 80)}";
    let ran = Run::new().python(&format!("import socket; print(len({addresses}))"));
    let found: usize = ran.stdout.trim().parse().unwrap_or(0);
    ran.expect(ran.code == 0 && found > 0, "it is found");
    ran.expect(ran.violations().is_empty(), "and nobody tried anything");
    ran.expect(ran.at("/verdict") == "clean", "which is clean");
    let told = |ran: &Ran, address: &str| {
        let mut rows = ran.list("/network_attempts").iter();
        rows.any(|row| row["address"] == address && row["result"] == "denied")
    };
    // Of a single address there is nothing to put in order.
    if found > 1 {
        ran.expect(told(&ran, "127.0.0.1:80"), "what the library did is told");
    }
    // What a program does itself comes on top.
    for own in [
        "exec 3<>/dev/tcp/127.0.0.1/80",
        "exec 3<>/dev/tcp/localhost/80",
        "exec 3<>/dev/udp/127.0.0.1/80",
        "exec 3<>/dev/udp/localhost/80",
    ] {
        // Of a single address, the library puts nothing in order, and this one is taken for what it does.
        if found == 1 && own.contains("udp/localhost") {
            continue;
        }
        let ran = Run::new().run(&["bash", "-c", own]);
        let mut rules = ran.violations().iter().map(|one| &one["rule"]);
        ran.expect(rules.any(|rule| rule == "network-connect"), own);
    }
}
