//! A network that answers: every name leads somewhere, every connection and datagram of the jail is taken, answered as a
//! server would, and kept. Nothing leaves: there is nobody behind it.
//!
//! In the jail's network namespace every address is local, so that a packet to any meets no interface but the loopback; a program
//! of the kernel's names one of four sockets for it, whatever its port. Whom it was meant for is the socket's own address, which the
//! program sees as that of its peer.
//!
//! A thread of its own, which lives in the jail's network.

mod authority;
mod channel;
mod dialogue;
mod http;
mod log;
mod names;
mod sockets;
mod stream;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use nix::sched::{CloneFlags, setns};
use nix::unistd::{Pid, gettid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinSet, LocalSet};
use turnkey_facts::{Conversation, SinkholeProtocol as Protocol, SinkholeTraffic};
use turnkey_jailer::{AUTHORITY, Plan};
use turnkey_policy::{NetworkMode, Policy};

use crate::clock;
use crate::files;
use crate::relay::thread;
pub use authority::Authority;
use log::{Row, SinkholeLog};
use names::NameBook;
use sockets::{Datagram, Sockets};

/// The readers of what a program sends, for whoever gives them any bytes.
#[doc(hidden)]
pub mod parsers {
    pub use super::dialogue::Dialogue;
    pub use super::http::{Chunks, Head};
    pub use super::names::NameBook;
}

/// The port of name servers.
const NAME_SERVER: u16 = 53;
/// The port of time servers.
const TIME_SERVER: u16 = 123;
/// Connections at once; the next ones wait until one ends.
const MOST_CONNECTIONS: usize = 256;
/// Pairs of a socket of the program's and an address, whose datagrams are one conversation.
const MOST_PAIRS: usize = 1024;
/// The longest time for reading what the program had sent before its end.
const DRAIN: Duration = Duration::from_secs(2);
/// The pause for a listener that has nothing to give for want of memory or descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The variables that name a file of authorities: OpenSSL's and Go's, those of Python's requests, of pip, Node, curl, git, the AWS
/// command line and Cargo.
const VARIABLES: [&str; 8] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
];

/// Has the programs of a jail under the mode `sinkhole` trust the run's own authority, unless the profile names another.
pub fn settle(policy: &mut Policy) {
    if policy.network.mode != NetworkMode::Sinkhole {
        return;
    }
    for name in VARIABLES {
        let set = &mut policy.environment.set;
        set.entry(name.to_owned())
            .or_insert_with(|| AUTHORITY.to_owned());
    }
}

/// Bytes of a file of authorities at most: the jail's root has not much more room.
const LONGEST_TRUSTED: usize = 512 << 10;

/// The authorities that a jail is shown besides the run's own: those of the file that is covered by it, so that a program finds the
/// ones that it knows.
pub fn trusted(plan: &Plan) -> Vec<u8> {
    let mut found = plan
        .covered()
        .filter_map(|path| files::read(&path, LONGEST_TRUSTED).ok());
    let mut text = found.next().unwrap_or_default();
    if text.last().is_some_and(|last| *last != b'\n') {
        text.push(b'\n');
    }
    text
}

/// A running sinkhole.
#[derive(Debug)]
pub struct Sinkhole {
    open: watch::Sender<bool>,
    /// The number of the thread, gettid(2).
    number: Pid,
    thread: JoinHandle<SinkholeTraffic>,
}

impl Sinkhole {
    /// Takes all that comes in `network` from here on.
    ///
    /// # Errors
    /// When the kernel does not lead it here.
    pub fn start(network: OwnedFd, authority: Authority) -> anyhow::Result<Sinkhole> {
        let (open, watched) = watch::channel(true);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (tell, told) = mpsc::channel();
        let thread = thread(move || {
            let opened = enter(&network);
            let (sockets, entered) = match opened {
                Ok(sockets) => (Some(sockets), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // Who started it waits for this.
            let _ = tell.send(entered.map(|()| gettid()));
            let state = Rc::new(SinkholeState::new(authority));
            if let Some(sockets) = sockets {
                let local = LocalSet::new();
                local.block_on(&runtime, serve(sockets, Rc::clone(&state), watched));
            }
            state.log.take()
        })?;
        let number = told.recv()??;
        Ok(Sinkhole {
            open,
            number,
            thread,
        })
    }

    /// The number of the thread that answers, gettid(2).
    pub fn thread(&self) -> Pid {
        self.number
    }

    /// Ends it when nobody inside is left: what was sent before is still read, within two seconds.
    pub fn finish(self) -> SinkholeTraffic {
        self.open.send_replace(false);
        self.thread.join().unwrap_or_default()
    }
}

/// Has this thread's new sockets be of the jail's network, and opens them there.
fn enter(network: &OwnedFd) -> anyhow::Result<Sockets> {
    setns(network, CloneFlags::CLONE_NEWNET).context("could not enter the jail's network")?;
    sockets::hear_of_clients();
    Sockets::open(network.as_fd())
}

/// A socket of the program's, by its number and address, and whom it sends to. Another socket can have the same address later.
type DatagramPair = (u32, SocketAddr, SocketAddr);

/// The state that every task needs.
#[derive(Debug)]
pub struct SinkholeState {
    log: SinkholeLog,
    names: RefCell<NameBook>,
    authority: Arc<Authority>,
    pairs: RefCell<BTreeMap<DatagramPair, Row>>,
}

impl SinkholeState {
    fn new(authority: Authority) -> SinkholeState {
        SinkholeState {
            log: SinkholeLog::default(),
            names: RefCell::default(),
            authority: Arc::new(authority),
            pairs: RefCell::default(),
        }
    }

    fn name_of(&self, address: IpAddr) -> Option<String> {
        self.names.borrow().name_of(address).map(str::to_owned)
    }

    /// The answer to a resolver.
    fn answer(&self, message: &[u8]) -> Option<Vec<u8>> {
        let answer = self.names.borrow_mut().answer(message)?;
        self.log.answered_question();
        Some(answer)
    }

    /// Keeps a datagram, and answers where a server would that a client waits for.
    fn take(&self, datagram: &Datagram) {
        let of = match datagram.to.port() {
            NAME_SERVER => match self.answer(&datagram.bytes) {
                Some(answer) => {
                    // Nobody reads it any more when it cannot be sent.
                    let _ = sockets::answer(datagram, &answer);
                    return;
                }
                None => Protocol::Udp,
            },
            TIME_SERVER => match time_of_day(&datagram.bytes) {
                Some(answer) => {
                    let _ = sockets::answer(datagram, &answer);
                    Protocol::Ntp
                }
                None => Protocol::Udp,
            },
            _ => Protocol::Udp,
        };
        let row = self.pair(datagram, of);
        self.log.sent(row, &datagram.bytes);
    }

    fn pair(&self, datagram: &Datagram, protocol: Protocol) -> Row {
        let mut pairs = self.pairs.borrow_mut();
        let key = (datagram.socket, datagram.from, datagram.to);
        if let Some(row) = pairs.get(&key) {
            return *row;
        }
        let row = self.log.begin(Conversation {
            to: datagram.to,
            socket: datagram.socket,
            datagrams: true,
            name: self.name_of(datagram.to.ip()),
            protocol,
            request: None,
            sent: 0,
            kept: Vec::new(),
            distrusts: false,
            cut: false,
            began_ns: clock::boottime(),
        });
        if pairs.len() < MOST_PAIRS {
            pairs.insert(key, row);
        }
        row
    }
}

/// The answer of a time server (RFC 5905, section 7.3): it is now.
fn time_of_day(asked: &[u8]) -> Option<Vec<u8>> {
    /// Bytes of a message, and the offset of the time at which it was sent.
    const SIZE: usize = 48;
    const SENT: usize = 40;
    /// Seconds from 1900 to 1970.
    const ERA: u64 = 2_208_988_800;
    let asked = asked.get(..SIZE)?;
    // A client's message, of whatever version.
    if asked[0] & 7 != 3 {
        return None;
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    let seconds = u32::try_from((since.as_secs() + ERA) & u64::from(u32::MAX)).ok()?;
    let fraction = u32::try_from((u64::from(since.subsec_nanos()) << 32) / 1_000_000_000).ok()?;
    let now = [seconds.to_be_bytes(), fraction.to_be_bytes()].concat();
    // A server's message of the second stratum, precise to a microsecond.
    let head = [
        asked[0] & 0x38 | 4,
        2,
        asked[2],
        0xec,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ];
    let parts = [&head, b"GPS\0".as_slice(), &now, &asked[SENT..], &now, &now];
    Some(parts.concat())
}

/// Until nobody inside is left, and what was sent has been read.
async fn serve(sockets: Sockets, state: Rc<SinkholeState>, open: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut waiting = JoinSet::new();
    let Sockets {
        listeners,
        datagrams,
        lookup: _lookup,
    } = sockets;
    for listener in listeners {
        let (state, room) = (Rc::clone(&state), Arc::clone(&room));
        waiting.spawn_local(listen(listener, state, room, open.clone()));
    }
    for socket in datagrams {
        waiting.spawn_local(receive(socket, Rc::clone(&state), open.clone()));
    }
    let mut open = open;
    // An error is the end of the sender, and so of the run.
    let _ = open.wait_for(|open| !*open).await;
    let drained = async {
        while waiting.join_next().await.is_some() {}
        // Each connection holds one until its end.
        let all = u32::try_from(MOST_CONNECTIONS).unwrap_or(u32::MAX);
        let _ = room.acquire_many(all).await;
    };
    // Who takes longer is cut off; what it has sent is in the log already.
    let _ = tokio::time::timeout(DRAIN, drained).await;
}

#[expect(
    deprecated,
    reason = "an owned descriptor cannot be closed behind its back; the newer constructor is unsafe"
)]
fn readable<T: std::os::fd::AsRawFd>(socket: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(socket, Interest::READABLE)
}

/// Takes connections until the run ends, and those that wait then.
async fn listen(
    listener: TcpListener,
    state: Rc<SinkholeState>,
    room: Arc<Semaphore>,
    mut open: watch::Receiver<bool>,
) {
    let Ok(listener) = readable(listener) else {
        return;
    };
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        match listener.get_ref().accept() {
            Ok((taken, _)) => {
                let state = Rc::clone(&state);
                tokio::task::spawn_local(async move {
                    // Both ends see how it ended, and the log what was sent.
                    let _ = serve_one(taken, state).await;
                    drop(permit);
                });
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        drop(permit);
        if !*open.borrow() {
            return;
        }
        let next = async {
            if let Ok(mut ready) = listener.readable().await {
                ready.clear_ready();
            }
        };
        tokio::select! {
            () = next => {}
            _ = open.wait_for(|open| !*open) => {}
        }
    }
}

async fn serve_one(taken: std::net::TcpStream, state: Rc<SinkholeState>) -> io::Result<()> {
    taken.set_nonblocking(true)?;
    taken.set_nodelay(true)?;
    stream::serve(TcpStream::from_std(taken)?, state).await
}

/// Takes datagrams until the run ends, and those that wait then.
async fn receive(socket: UdpSocket, state: Rc<SinkholeState>, mut open: watch::Receiver<bool>) {
    let Ok(socket) = readable(socket) else {
        return;
    };
    loop {
        match sockets::receive(socket.get_ref()) {
            Ok(Some(datagram)) => {
                state.take(&datagram);
                // A flood keeps nobody from the connections.
                tokio::task::yield_now().await;
                continue;
            }
            Ok(None) => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        if !*open.borrow() {
            return;
        }
        let next = async {
            if let Ok(mut ready) = socket.readable().await {
                ready.clear_ready();
            }
        };
        tokio::select! {
            () = next => {}
            _ = open.wait_for(|open| !*open) => {}
        }
    }
}
