//! A jail that may talk to some hosts talks to these, and to nobody else.

use turnkey_expectations::expected;

mod installers;
mod others;
mod variables;

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use turnkey_tests::{Run, Server, eventually, measured, network_of_its_own, traces, unprivileged};

/// A run that may talk to these.
pub fn talking_to(entries: &[&str]) -> Run {
    entries.iter().fold(Run::new(), |run, entry| {
        run.option(&format!("--allow {entry}"))
    })
}

/// Sends ten megabytes, ends its side, and compares what comes back.
const TEN_MEGABYTES: &str = "import random, socket, threading
sent = random.Random(1).randbytes(10_000_000)
peer = socket.create_connection((HOST, 8443), 20)
def send():
    peer.sendall(sent)
    peer.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
back = bytearray()
while piece := peer.recv(1 << 16):
    back += piece
print(len(back), back == sent)";

fn ten_megabytes_to(entry: &str, host: &str) {
    network_of_its_own();
    let server = Server::echo(8443);
    let ran = talking_to(&[entry]).python(&TEN_MEGABYTES.replace("HOST", &format!("{host:?}")));
    ran.expect_code(0);
    ran.expect(
        ran.stdout == "10000000 True\n",
        "every byte came, both ways",
    );
    assert_eq!(server.came(), 1);
    let passed = ran
        .list("/network_attempts")
        .iter()
        .find(|attempt| !attempt["passed"].is_null())
        .cloned()
        .unwrap_or_default();
    ran.expect(passed["result"] == "allowed", "it is told as allowed");
    ran.expect(
        passed["passed"]["sent_bytes"] == 10_000_000,
        "what was sent",
    );
    ran.expect(
        passed["passed"]["received_bytes"] == 10_000_000,
        "what came back",
    );
}

#[test]
fn an_allowed_address_is_reached_and_every_byte_is_right() {
    ten_megabytes_to("203.0.113.7:8443", "203.0.113.7");
}

#[test]
fn an_allowed_address_of_version_6_is_reached() {
    ten_megabytes_to("[2001:db8::7]:8443", "2001:db8::7");
}

#[test]
fn an_allowed_name_is_found_without_a_name_server() {
    ten_megabytes_to("server.test:8443", "server.test");
}

/// Asks for names in the ways of resolvers: by a socket that is connected, and by one that is not.
const LOOKS_UP: &str = "import socket
def looked_up(name, family=0):
    try: return bool(socket.getaddrinfo(name, 443, family))
    except OSError: return False
print(looked_up('server.test'), looked_up('server.test', socket.AF_INET6))
";

#[test]
fn a_name_that_is_not_allowed_is_told_where_others_are() {
    let others = [
        "looked_up('other.test')",
        "socket.socket(type=socket.SOCK_DGRAM).sendto(bytes.fromhex('123401000001000000000000056f7468657204746573740000010001'), ('127.0.0.1', 53))",
    ];
    network_of_its_own();
    for mode in ["--allow server.test:443", "--network loopback"] {
        for other in others {
            let (defined, _) = LOOKS_UP.split_once("print").unwrap();
            let ran = Run::new().option(mode).python(&format!("{defined}{other}"));
            let names: Vec<_> = ran.violations()[0]["names"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            ran.expect(
                names.contains(&"other.test".into()),
                "the name is a violation",
            );
            ran.expect(ran.report["verdict"] == "violated", "which counts");
            ran.expect(ran.stderr.contains("blocked: looking up "), "and is told");
            ran.expect(
                ran.stderr.contains("--allow other.test:PORT"),
                "with the flag for it",
            );
        }
    }
    let ran = talking_to(&["server.test:443"]).python(LOOKS_UP);
    ran.expect(
        ran.stdout == "True False\n",
        "an allowed name is in the list of hosts",
    );
    ran.expect(
        ran.report["risk_score"] == 0,
        "and who asks for another address of it asks for nothing else",
    );
    ran.expect(!ran.stderr.contains("blocked"), "nor is it told as refused");
}

#[test]
fn a_name_server_is_asked_in_vain_over_a_stream_too() {
    let ask = "import socket
def ask(server, is_patient=True):
    asks = socket.socket(socket.AF_INET6 if ':' in server[0] else socket.AF_INET)
    asks.setblocking(is_patient)
    print(asks.connect_ex(server) != 0)
";
    let ways = [
        ("ask(('127.0.0.1', 53))", "violated"),
        ("ask(('::1', 53))", "violated"),
        ("ask(('127.0.0.1', 53), is_patient=False)", "violated"),
        // A service of its own that is not there is nobody's business.
        ("ask(('127.0.0.1', 5300))", "clean"),
    ];
    network_of_its_own();
    for mode in ["--allow server.test:443", "--network loopback"] {
        for (way, verdict) in ways {
            let ran = Run::new().option(mode).python(&format!("{ask}{way}"));
            ran.expect(ran.stdout == "True\n", "nobody answers");
            ran.expect(ran.report["verdict"] == verdict, &format!("{mode}: {way}"));
        }
    }
}

#[test]
fn a_range_is_reached_at_its_edge() {
    ten_megabytes_to("10.9.0.0/17:8440-8443", "10.9.127.255");
}

#[test]
fn the_hosts_own_loopback_is_reached_when_it_is_named() {
    ten_megabytes_to("127.0.0.1:8443", "127.0.0.1");
}

#[test]
fn a_caller_without_privileges_may_allow_hosts() {
    unprivileged(an_allowed_address_is_reached_and_every_byte_is_right);
}

#[test]
fn what_was_sent_right_before_the_end_arrives() {
    network_of_its_own();
    let (tell, told) = std::sync::mpsc::channel();
    let _server = Server::start(8443, move |mut connection| {
        let mut all = Vec::new();
        let whole = connection.read_to_end(&mut all).is_ok();
        let _ = tell.send((whole, all.len()));
    });
    let ran = talking_to(&["203.0.113.7:8443"]).python(
        "import os, socket
peer = socket.create_connection(('203.0.113.7', 8443))
peer.sendall(b'x' * 300_000)
os._exit(0)",
    );
    ran.expect_code(0);
    let told = told.recv_timeout(Duration::from_secs(10));
    assert_eq!(told, Ok((true, 300_000)));
}

#[test]
fn a_connection_that_breaks_is_not_taken_for_whole() {
    network_of_its_own();
    let _server = Server::start(8443, |mut connection| {
        let _ = connection.write_all(b"half");
        // Closed with something unread, it is reset.
        let _ = connection.read(&mut [0]);
    });
    let program = "import socket
peer = socket.create_connection(('203.0.113.7', 8443))
peer.sendall(b'question')
got = b''
try:
    while piece := peer.recv(100): got += piece
    print('whole', got)
except ConnectionResetError: print('reset')";
    let ran = talking_to(&["203.0.113.7:8443"]).python(program);
    ran.expect(ran.stdout == "reset\n", "the program knows");
}

#[test]
fn a_host_that_answers_nobody_is_a_reset_and_is_told() {
    network_of_its_own();
    let ran = talking_to(&["203.0.113.7:8443"]).python(
        "import socket
try:
    peer = socket.create_connection(('203.0.113.7', 8443))
    print(peer.recv(1))
except ConnectionResetError: print('reset')",
    );
    ran.expect(ran.stdout == "reset\n", "no end like any other");
    let failed = ran
        .list("/network_attempts")
        .iter()
        .any(|attempt| attempt["passed"]["failed"]["ECONNREFUSED"] == 1);
    ran.expect(failed, "the report says why");
    let line = "turnkey: this host did not reach 203.0.113.7:8443 (ECONNREFUSED) for the program\n";
    ran.expect(ran.stderr.contains(line), "and the terminal");
}

#[test]
fn many_connections_are_served_at_once() {
    network_of_its_own();
    let server = Server::echo(8443);
    // All are open before the first ends.
    let program = "import socket
peers = [socket.create_connection(('203.0.113.7', 8443), 20) for _ in range(64)]
for number, peer in enumerate(peers): peer.sendall(b'%d' % number)
for peer in peers: peer.shutdown(socket.SHUT_WR)
print(sum(peer.makefile('rb').read() == b'%d' % number for number, peer in enumerate(peers)))";
    let ran = talking_to(&["203.0.113.7:8443"]).python(program);
    ran.expect(ran.stdout == "64\n", "each had its own answer");
    assert_eq!(server.came(), 64);
}

expected!(
    who_does_not_read_costs_bounded_memory: at_night,
    "fills buffers to their end; `allowed::j68_` has their bound"
);
#[test]
fn who_does_not_read_costs_bounded_memory() {
    network_of_its_own();
    let (tell, told) = std::sync::mpsc::channel();
    let _server = Server::start(8443, move |mut connection| {
        let (piece, mut sent) = (vec![0; 1 << 20], 0);
        let patience = Some(Duration::from_secs(2));
        connection.set_write_timeout(patience).unwrap();
        while sent < 400 && connection.write_all(&piece).is_ok() {
            sent += 1;
        }
        let _ = tell.send(sent);
    });
    let run = talking_to(&["203.0.113.7:8443"]);
    let program = "import socket, time
peer = socket.create_connection(('203.0.113.7', 8443))
peer.recv(1)
print('reading', flush=True)
time.sleep(20)";
    let mut command = run.command(&["python3", "-c", program]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 8];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut line)
        .unwrap();
    let sent = told.recv_timeout(Duration::from_secs(20)).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak: u64 = peak
        .and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    measured(&format!(
        "the server could send {sent} MiB, turnkey had {peak} KiB"
    ));
    assert!(sent < 64, "the server was made to wait: {sent} MiB");
    assert!(peak < 200 << 10, "and turnkey kept little: {peak} KiB");
}

/// Five seconds: connections that wait are served when the first have been given up.
#[test]
fn j68_a_talkative_server_fills_no_more_than_the_jails_memory() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    network_of_its_own();
    static SENT: AtomicUsize = AtomicUsize::new(0);
    let _server = Server::start(8443, |mut connection| {
        // The server's own buffer is not what is measured.
        let small = nix::sys::socket::sockopt::SndBuf;
        nix::sys::socket::setsockopt(&connection, small, &(32 << 10)).unwrap();
        connection
            .set_write_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let piece = vec![0; 64 << 10];
        for _ in 0..100 {
            match connection.write_all(&piece) {
                Ok(()) => SENT.fetch_add(piece.len(), Ordering::Relaxed),
                Err(_) => break,
            };
        }
        let _ = connection.read(&mut [0]);
    });
    let program = "import socket, sys, time
peers = [socket.create_connection(('203.0.113.7', 8443)) for _ in range(120)]
print('open', flush=True)
time.sleep(3)";
    let run = talking_to(&["203.0.113.7:8443"]).option("--memory 64M");
    let ran = run.python(program);
    ran.expect(ran.stdout == "open\n", "all are open, or wait");
    let sent = SENT.load(Ordering::Relaxed) >> 20;
    measured(&format!("{sent} MiB of 750 were taken"));
    assert!(sent < 100, "{sent} MiB");
}

expected!(
    j51_a_relay_that_is_killed_leaves_nothing: at_night,
    "waits until the kernel has let go of connections; `lifetime::` has what a killed turnkey \
     leaves"
);
#[test]
fn j51_a_relay_that_is_killed_leaves_nothing() {
    network_of_its_own();
    let server = Server::start(8443, |mut connection| {
        let _ = connection.read_to_end(&mut Vec::new());
    });
    let run = talking_to(&["203.0.113.7:8443", "10.9.0.0/16:9000-9100"]);
    let program = "import socket, time
peer = socket.create_connection(('203.0.113.7', 8443))
print('connect', flush=True)
while True: peer.sendall(b'x'); time.sleep(0.01)";
    let mut command = run.command(&["python3", "-c", program]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 8];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut line)
        .unwrap();
    eventually("it is connected", || server.came() == 1);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("nothing is left", || traces().is_empty());
    eventually("no connection either", || {
        let table = std::fs::read_to_string("/proc/thread-self/net/tcp6").unwrap();
        // ESTABLISHED, CLOSE_WAIT.
        !table
            .lines()
            .any(|line| line.contains(" 01 ") || line.contains(" 08 "))
    });
}

#[test]
fn an_idle_connection_costs_no_time() {
    network_of_its_own();
    let _server = Server::echo(8443);
    let run = talking_to(&["203.0.113.7:8443", "10.9.0.0/16:9000-9900"]);
    let program = "import socket, time
peer = socket.create_connection(('203.0.113.7', 8443))
print('connect', flush=True)
time.sleep(30)";
    let mut command = run.command(&["python3", "-c", program]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 8];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut line)
        .unwrap();
    let spent = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields = stat.rsplit(')').next().unwrap().split_whitespace();
        let ticks = fields
            .skip(11)
            .take(2)
            .map(|tick| tick.parse::<u64>().unwrap());
        ticks.sum::<u64>()
    };
    let before = spent(child.id());
    let started = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    let ticks = spent(child.id()) - before;
    child.kill().unwrap();
    child.wait().unwrap();
    measured(&format!(
        "{ticks} ticks of 10 ms in {:?}",
        started.elapsed()
    ));
    // Looking at the limits twenty times in a second is all there is to do.
    assert!(ticks < 20, "{ticks} ticks");
}

#[test]
fn a_name_that_nobody_knows_ends_the_run_before_it_begins() {
    network_of_its_own();
    let ran = talking_to(&["nobody.invalid:443"]).shell("echo ran");
    ran.expect_code(125);
    ran.expect(ran.stdout.is_empty(), "nothing ran");
    ran.expect(ran.stderr.contains("nobody.invalid:443"), "it is named");
    ran.expect(ran.at("/status") == "setup_failed", "and reported");
}

#[test]
fn a_name_that_leads_home_is_refused() {
    network_of_its_own();
    let ran = talking_to(&["home.test:443"]).shell("echo ran");
    ran.expect_code(125);
    ran.expect(ran.stdout.is_empty(), "nothing ran");
    for part in ["home.test:443", "127.0.0.1", "loopback"] {
        ran.expect(ran.stderr.contains(part), part);
    }
}

#[test]
fn more_ports_than_there_are_sockets_for_are_refused_whole() {
    network_of_its_own();
    let most = talking_to(&["10.9.0.0/16:1-1024"]).shell("echo ran");
    most.expect_code(0);
    let more = talking_to(&["10.9.0.0/16:1-1025"]).shell("echo ran");
    more.expect_code(125);
    more.expect(more.stdout.is_empty(), "nothing ran");
    more.expect(more.stderr.contains("1024 sockets"), "why, and the fix");
}
