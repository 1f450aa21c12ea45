//! A network for a test: nothing of the outside, and addresses of the documentation that lead to the
//! test itself.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::{mounts_of_its_own, outside};

/// Brings loopback up and makes ranges local, rtnetlink(7): what connects to one of their addresses
/// finds who listens on every address.
const MAKE_LOCAL: &str = "import fcntl, socket, struct
up = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(up, 0x8914, struct.pack('16sH14x', b'lo', 0x41))
route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
for family, net, bits in ((2, '203.0.113.0', 24), (2, '198.51.100.0', 24), (2, '10.9.0.0', 16), (2, '169.254.169.254', 32), (10, '2001:db8::', 32)):
    address = socket.inet_pton(family, net)
    body = struct.pack('8BI', family, bits, 0, 0, 255, 4, 254 if family == 2 else 0, 2, 0)
    body += struct.pack('HH', 4 + len(address), 1) + address + struct.pack('HHI', 8, 4, 1)
    route.send(struct.pack('IHHII', 16 + len(body), 24, 0x605, 1, 0) + body)
    answer = route.recv(4096)
    assert struct.unpack('i', answer[16:20])[0] == 0, net";

/// Gives this thread, and what it starts, a network namespace of its own in which 203.0.113.0/24,
/// 198.51.100.0/24, 10.9.0.0/16, 169.254.169.254 and 2001:db8::/32 lead to the thread's own servers, and an
/// /etc/hosts that says where `server.test` is: 203.0.113.7; and `home.test`: 127.0.0.1.
pub fn network_of_its_own() {
    unshare(CloneFlags::CLONE_NEWNET).expect("a test runs as root");
    mounts_of_its_own();
    let (status, _) = outside("python3", &["-c", MAKE_LOCAL]);
    assert!(status.success(), "the ranges are local");
    let none: Option<&str> = None;
    let hosts = std::env::temp_dir().join(format!("hosts-of-a-test-{}", std::process::id()));
    let text = "127.0.0.1 localhost\n203.0.113.7 server.test\n127.0.0.1 home.test\n";
    std::fs::write(&hosts, text).expect("a test can write a file");
    mount(Some(&hosts), "/etc/hosts", none, MsFlags::MS_BIND, none).expect("it can be mounted");
    std::fs::remove_file(&hosts).expect("it was just made");
}

/// In a [network of its own](network_of_its_own), a name server that knows one address for every
/// name, and a resolv.conf(5) that says where it is. It ends with the test.
pub fn name_server(address: [u8; 4]) {
    let file = std::env::temp_dir().join(format!("resolver-of-a-test-{}", std::process::id()));
    std::fs::write(&file, "nameserver 127.0.0.1\n").expect("a test can write a file");
    let none: Option<&str> = None;
    mount(
        Some(&file),
        "/etc/resolv.conf",
        none,
        MsFlags::MS_BIND,
        none,
    )
    .expect("it can be mounted");
    std::fs::remove_file(&file).expect("it was just made");
    let socket = UdpSocket::bind("127.0.0.1:53").expect("the port is free in a new network");
    std::thread::spawn(move || {
        let mut message = [0; 512];
        while let Ok((length, who)) = socket.recv_from(&mut message) {
            let _ = socket.send_to(&answer(&message[..length], address), who);
        }
    });
}

/// To a question for an address of version 4 the address, and to any other that there is none
/// (RFC 1035, section 4).
fn answer(question: &[u8], address: [u8; 4]) -> Vec<u8> {
    const HEADER: usize = 12;
    let name = question[HEADER..].iter().position(|byte| *byte == 0);
    let end = HEADER + name.unwrap_or(0) + 5;
    let is_v4 = question[end - 4..end] == [0, 1, 0, 1];
    let counts = [0x81, 0x80, 0, 1, 0, u8::from(is_v4), 0, 0, 0, 0];
    let mut answer = [&question[..2], &counts, &question[HEADER..end]].concat();
    if is_v4 {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(address);
    }
    answer
}

/// A server on every address of a port, in the network of the thread that starts it. It ends with the
/// test.
pub struct Server {
    came: Arc<AtomicUsize>,
}

impl Server {
    /// Answers each connection with `serve`, in a thread of its own.
    pub fn start(port: u16, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind(("::", port)).expect("the port is free in a new network");
        let came = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&came);
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(connection));
            }
        });
        Server { came }
    }

    /// Says back what it was told, when that has ended.
    pub fn echo(port: u16) -> Server {
        Server::start(port, |mut connection| {
            let mut told = Vec::new();
            let _ = connection.read_to_end(&mut told);
            let _ = connection.write_all(&told);
        })
    }

    /// How many connections there were so far.
    pub fn came(&self) -> usize {
        self.came.load(Ordering::SeqCst)
    }
}
