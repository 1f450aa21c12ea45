//! The way out of a jail that may talk to some hosts: connections are taken in its network namespace
//! and dialed from the host's, and what is sent is passed on both ways.
//!
//! No packet of the jail reaches the host's network, and no socket of the host the jail. Whom a
//! connection was meant for is its local address, which the kernel knows and the program cannot
//! forge; it is held against the policy's list once more before anybody is dialed.
//!
//! A thread of its own, so that a flood of connections keeps nobody from the clock.

mod connection;
mod tally;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use nix::sys::resource::{Resource, getrlimit};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinSet, LocalSet};
use turnkey_facts::Passage;
use turnkey_policy::{AllowedHost, endpoint};

use crate::relay::thread;
use tally::PassageTally;

/// Connections at once; the next ones wait until one ends.
const MOST_CONNECTIONS: usize = 256;
/// Connections at once where memory is scarce.
const FEWEST_CONNECTIONS: usize = 16;
/// Bytes that the kernel keeps for one at most: four buffers, each twice what it was asked for.
const KEPT: u64 = 4 * 2 * connection::BUFFER as u64;
/// Descriptors that everything else of turnkey has use for.
const OTHER_DESCRIPTORS: u64 = 128;
/// The longest time that what a program sent before its end may take to go out.
const DRAIN: Duration = Duration::from_secs(2);
/// The pause for a listener that has nothing to give for want of memory or descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The peers that the program may talk to.
#[derive(Debug)]
pub struct AllowList {
    /// Names resolved.
    pub allowed: Vec<AllowedHost>,
    /// The host's own addresses.
    pub own: Vec<IpAddr>,
}

/// Connections that a gateway takes.
#[derive(Debug)]
pub enum Service {
    /// Connections of the program to peers that it may talk to.
    Allowed(AllowList),
    /// Connections to ports of the host's loopback, each with the jail's port that it leads to. The gateway lives in the jail's network.
    Published(BTreeMap<u16, u16>),
}

impl AllowList {
    fn allows(&self, to: SocketAddr) -> bool {
        endpoint::allows(&self.allowed, &self.own, to.ip(), to.port())
    }
}

/// The phase of the gateway, which says what the connections are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GatewayPhase {
    /// Go on.
    Open,
    /// Pass on what was sent, and end: nobody inside is left.
    Draining,
    /// End at once.
    Stopped,
}

/// The running relay.
#[derive(Debug)]
pub struct Gateway {
    phase: watch::Sender<GatewayPhase>,
    thread: Option<JoinHandle<Vec<Passage>>>,
}

impl Gateway {
    /// Takes what connects to `listeners` from here on; nothing to do without any. All connections together keep `memory`
    /// bytes in the kernel at most: as many as the jail may have itself. What is dialed, is dialed in `network`, which is the
    /// caller's without one.
    pub fn start(
        listeners: Vec<TcpListener>,
        service: Service,
        (memory, network): (u64, Option<OwnedFd>),
    ) -> io::Result<Gateway> {
        let (phase, watched) = watch::channel(GatewayPhase::Open);
        if listeners.is_empty() {
            return Ok(Gateway {
                phase,
                thread: None,
            });
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let room = room(listeners.len(), memory);
        let (tell, told) = mpsc::channel();
        let thread = thread(move || {
            let entered = enter(network.as_ref());
            let is_there = entered.is_ok();
            // Who started it waits for this.
            let _ = tell.send(entered);
            let tally = Rc::new(PassageTally::default());
            if is_there {
                let local = LocalSet::new();
                let served = serve(listeners, service, room, Rc::clone(&tally), watched);
                local.block_on(&runtime, served);
            }
            tally.rows()
        })?;
        told.recv().map_err(io::Error::other)??;
        Ok(Gateway {
            phase,
            thread: Some(thread),
        })
    }

    /// Ends it, when nobody inside is left. With `drain`, what the program had sent before its end
    /// still goes out, within two seconds. What went through, by address.
    pub fn finish(mut self, drain: bool) -> Vec<Passage> {
        let phase = if drain {
            GatewayPhase::Draining
        } else {
            GatewayPhase::Stopped
        };
        self.phase.send_replace(phase);
        let thread = self.thread.take();
        thread
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }
}

/// Has this thread's new sockets be of a network namespace.
fn enter(network: Option<&OwnedFd>) -> io::Result<()> {
    let entered = network.map(|network| setns(network, CloneFlags::CLONE_NEWNET));
    Ok(entered.transpose().map(drop)?)
}

/// The number of connections that there are descriptors and memory for.
fn room(listeners: usize, memory: u64) -> usize {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    let taken = OTHER_DESCRIPTORS + u64::try_from(listeners).unwrap_or(u64::MAX);
    let left = limit.saturating_sub(taken) / 2;
    let number = |most: u64| usize::try_from(most).unwrap_or(usize::MAX);
    let kept = number(memory / KEPT).clamp(FEWEST_CONNECTIONS, MOST_CONNECTIONS);
    number(left).clamp(1, kept)
}

/// Until the end of the run.
async fn serve(
    listeners: Vec<TcpListener>,
    service: Service,
    room: usize,
    tally: Rc<PassageTally>,
    mut phase: watch::Receiver<GatewayPhase>,
) {
    let shared = Rc::new(GatewayState {
        service,
        tally,
        room: Arc::new(Semaphore::new(room)),
        phase: phase.clone(),
    });
    let mut waiting = JoinSet::new();
    for listener in listeners {
        waiting.spawn_local(Rc::clone(&shared).listen(listener));
    }
    // An error is the end of the sender, and so of the run.
    let _ = phase.wait_for(|phase| *phase != GatewayPhase::Open).await;
    if *phase.borrow() == GatewayPhase::Draining {
        let drained = async {
            while waiting.join_next().await.is_some() {}
            // Each connection holds one until its end.
            let all = u32::try_from(room).unwrap_or(u32::MAX);
            let _ = shared.room.acquire_many(all).await;
        };
        // Who takes longer is cut off.
        let _ = tokio::time::timeout(DRAIN, drained).await;
    }
}

#[expect(
    deprecated,
    reason = "an owned descriptor cannot be closed behind its back; the newer constructor is unsafe"
)]
fn readable(listener: TcpListener) -> io::Result<AsyncFd<TcpListener>> {
    AsyncFd::with_interest(listener, Interest::READABLE)
}

/// The state that every task needs.
struct GatewayState {
    service: Service,
    tally: Rc<PassageTally>,
    /// One for each connection that there may be.
    room: Arc<Semaphore>,
    phase: watch::Receiver<GatewayPhase>,
}

impl GatewayState {
    /// Takes connections until the run ends, and those that wait then.
    async fn listen(self: Rc<Self>, listener: TcpListener) {
        let Ok(listener) = readable(listener) else {
            return;
        };
        let mut phase = self.phase.clone();
        loop {
            tokio::select! {
                () = self.take(&listener) => {}
                _ = phase.wait_for(|phase| *phase != GatewayPhase::Open) => break,
            }
        }
        if matches!(self.service, Service::Published(_)) {
            // Nobody inside is left to serve.
            return;
        }
        // What the program had connected before its end waits here; nobody comes any more.
        while let (Some(room), Ok((inside, _))) =
            (self.wait_for_room().await, listener.get_ref().accept())
        {
            self.start(inside, room);
        }
    }

    /// Takes one connection, when there is one and room for it.
    async fn take(self: &Rc<Self>, listener: &AsyncFd<TcpListener>) {
        let (Ok(mut ready), Some(room)) = (listener.readable().await, self.wait_for_room().await)
        else {
            return std::future::pending().await;
        };
        match listener.get_ref().accept() {
            Ok((inside, _)) => self.start(inside, room),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }

    async fn wait_for_room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).acquire_owned().await.ok()
    }

    fn start(self: &Rc<Self>, taken: TcpStream, room: OwnedSemaphorePermit) {
        let shared = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let phase = shared.phase.clone();
            let tally = &shared.tally;
            // Both ends see how it ended, and the tally what the reason was.
            let _ = match &shared.service {
                Service::Allowed(list) => connection::serve(taken, list, tally, phase).await,
                Service::Published(ports) => connection::publish(taken, ports, tally, phase).await,
            };
            drop(room);
        });
    }
}
