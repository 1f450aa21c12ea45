//! The socket of a run, to which its followers connect.

use std::cell::Cell;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self, SocketAddr, UnixStream};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::time::{Instant, sleep_until};

use super::PREFIX;

/// Connections that are taken at once.
const AT_ONCE: usize = 16;
/// The time between two looks at who has come: anybody of the host may connect, again and again.
const REST: Duration = Duration::from_millis(5);

/// Listens as long as the run lives.
pub struct FollowerListener {
    socket: UnixListener,
    /// The time of the next look.
    again: Cell<Instant>,
}

impl FollowerListener {
    /// Of the run that is called `id`. Called in a runtime.
    ///
    /// # Errors
    /// When the name is taken, or the kernel refuses.
    pub fn of(id: &str) -> io::Result<FollowerListener> {
        let address = SocketAddr::from_abstract_name(format!("{PREFIX}{id}"))?;
        let listener = net::UnixListener::bind_addr(&address)?;
        listener.set_nonblocking(true)?;
        Ok(FollowerListener {
            socket: UnixListener::from_std(listener)?,
            again: Cell::new(Instant::now()),
        })
    }
}

/// The connections that were made, some at a time; never any where nobody listens.
pub async fn next(listener: Option<&FollowerListener>) -> Vec<UnixStream> {
    let Some(FollowerListener { socket, again }) = listener else {
        return std::future::pending().await;
    };
    let mut came = Vec::new();
    sleep_until(again.get()).await;
    // An error is of one connection, or of a process without a free descriptor, which may have one later.
    let first = socket.accept().await;
    again.set(Instant::now() + REST);
    came.extend(first.and_then(|(stream, _)| stream.into_std()).ok());
    let mut now = Context::from_waker(Waker::noop());
    while came.len() < AT_ONCE
        && let Poll::Ready(Ok((stream, _))) = socket.poll_accept(&mut now)
    {
        came.extend(stream.into_std().ok());
    }
    came
}
