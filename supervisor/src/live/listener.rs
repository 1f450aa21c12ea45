//! The socket of a run, to which its followers connect.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use tokio::net::UnixListener;
use tokio::time::{Instant, sleep_until};
use turnkey_jailer::foreign::ForeignSocket;

use super::{PREFIX, Visitor};

/// Connections that are taken at once.
const AT_ONCE: usize = 16;
/// The time between two looks at who has come: anybody of the host may connect, again and again.
const REST: Duration = Duration::from_millis(5);

/// Listens as long as the run lives.
pub struct FollowerListener {
    socket: UnixListener,
    /// A copy, behind that in the order of dropping: connections that nobody has taken go with the last one.
    _last: ForeignSocket<OwnedFd>,
    /// The time of the next look.
    again: Cell<Instant>,
}

impl FollowerListener {
    /// The socket of the run that is called `id`, which watches a group of that id. Called in a runtime.
    ///
    /// # Errors
    /// When the name is taken, or the kernel refuses.
    pub fn bind(id: &str, group: Option<u64>) -> io::Result<FollowerListener> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let listener = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        let address = UnixAddr::new_abstract(&name(id, group))?;
        bind(listener.as_raw_fd(), &address)?;
        listen(&listener, Backlog::MAXCONN)?;
        let last = ForeignSocket::from(listener.try_clone()?);
        Ok(FollowerListener {
            _last: last,
            socket: UnixListener::from_std(listener.into())?,
            again: Cell::new(Instant::now()),
        })
    }
}

/// The name of a run's socket.
pub fn name(id: &str, group: Option<u64>) -> Vec<u8> {
    let group = group.map(|group| format!("/{group:x}"));
    format!("{PREFIX}{id}{}", group.unwrap_or_default()).into_bytes()
}

/// Connections that are taken when it is over: as many as may wait.
const AT_THE_END: usize = 4096;

impl FollowerListener {
    /// The connections that were made and not taken. Waits for none.
    pub fn rest(&self) -> Vec<Visitor> {
        let socket = self.socket.as_fd().try_clone_to_owned();
        let socket = socket.map(std::os::unix::net::UnixListener::from);
        let accept = |socket: std::os::unix::net::UnixListener| {
            let came = std::iter::from_fn(|| socket.accept().ok());
            came.take(AT_THE_END)
                .map(|(stream, _)| Visitor::from(stream))
                .collect()
        };
        socket.map(accept).unwrap_or_default()
    }
}

/// The connections that were made, some at a time; never any where nobody listens.
pub async fn next(listener: Option<&FollowerListener>) -> Vec<Visitor> {
    let Some(FollowerListener { socket, again, .. }) = listener else {
        return std::future::pending().await;
    };
    let mut came = Vec::new();
    sleep_until(again.get()).await;
    // An error is of one connection, or of a process without a free descriptor, which may have one later.
    let first = socket.accept().await;
    again.set(Instant::now() + REST);
    came.extend(
        first
            .and_then(|(stream, _)| stream.into_std())
            .map(Visitor::from)
            .ok(),
    );
    let mut now = Context::from_waker(Waker::noop());
    while came.len() < AT_ONCE
        && let Poll::Ready(Ok((stream, _))) = socket.poll_accept(&mut now)
    {
        came.extend(stream.into_std().map(Visitor::from).ok());
    }
    came
}
