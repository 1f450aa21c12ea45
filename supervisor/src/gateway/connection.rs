//! One connection of the program's, and its other half outside.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::tally::PassageTally;
use super::{AllowList, GatewayPhase};

/// The longest time that the other end may take to answer the dial.
const DIAL: Duration = Duration::from_secs(60);
/// Bytes on their way in one direction, besides what the kernel holds. A reader that is slow makes
/// the writer wait.
const PIECE: usize = 16 * 1024;

/// Bytes of each of a connection's four buffers in the kernel, which doubles what it is asked for to have room for its own
/// records. Otherwise each grows to megabytes, and neither end's are in the account of the jail: they are turnkey's.
pub const BUFFER: u32 = 128 * 1024;

/// The program's end. Dropped before its end, it is reset: what came through is not to be taken
/// for whole.
struct StreamEnd {
    stream: TcpStream,
    whole: bool,
}

impl StreamEnd {
    fn new(stream: TcpStream) -> StreamEnd {
        // Bytes are passed on as they come: whether to wait for more is the two ends' business.
        let _ = stream.set_nodelay(true);
        let whole = false;
        StreamEnd { stream, whole }
    }
}

impl Drop for StreamEnd {
    fn drop(&mut self) {
        if !self.whole {
            // Refused, the close is one like any other.
            let _ = self.stream.set_zero_linger();
        }
    }
}

/// Dials whom a connection was meant for, and passes on what comes, until both ends have ended or
/// one is gone. Whatever ends it before, the other end sees a reset.
pub async fn serve(
    inside: std::net::TcpStream,
    list: &AllowList,
    tally: &PassageTally,
    phase: watch::Receiver<GatewayPhase>,
) -> io::Result<()> {
    inside.set_nonblocking(true)?;
    let to = inside.local_addr()?;
    let to = SocketAddr::new(to.ip().to_canonical(), to.port());
    bound(&inside)?;
    let inside = StreamEnd::new(TcpStream::from_std(inside)?);
    if !list.allows(to) {
        tally.refused(to);
        return Ok(());
    }
    let dialed = dial(to).await;
    let outside = StreamEnd::new(dialed.inspect_err(|error| tally.failed(to, error))?);
    join((inside, outside), (tally, to), phase).await
}

/// Dials the jail's port that a port of the host leads to, in the network that this thread is in, and passes on what
/// comes, in the same way.
pub async fn publish(
    outside: std::net::TcpStream,
    ports: &BTreeMap<u16, u16>,
    tally: &PassageTally,
    phase: watch::Receiver<GatewayPhase>,
) -> io::Result<()> {
    outside.set_nonblocking(true)?;
    let port = outside.local_addr()?.port();
    let Some(inside) = ports.get(&port) else {
        return Ok(());
    };
    // Both loopback addresses are one port.
    let from = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    bound(&outside)?;
    let outside = StreamEnd::new(TcpStream::from_std(outside)?);
    let mut dialed = dial((Ipv4Addr::LOCALHOST, *inside).into()).await;
    if dialed.is_err() {
        dialed = dial((Ipv6Addr::LOCALHOST, *inside).into()).await;
    }
    let inside = StreamEnd::new(dialed.inspect_err(|error| tally.failed(from, error))?);
    join((inside, outside), (tally, from), phase).await
}

/// Passes on what comes until both ends have ended, or nobody inside is left.
async fn join(
    (mut inside, mut outside): (StreamEnd, StreamEnd),
    (tally, to): (&PassageTally, SocketAddr),
    phase: watch::Receiver<GatewayPhase>,
) -> io::Result<()> {
    tally.connected(to);
    let sent_all = Notify::new();
    let passed = pass_on(
        (&mut inside.stream, &mut outside.stream),
        (tally, to),
        &sent_all,
    );
    tokio::select! {
        passed = passed => passed?,
        () = nobody_listens(phase, &sent_all) => {}
    }
    (inside.whole, outside.whole) = (true, true);
    Ok(())
}

/// The kernel does not let a buffer grow whose size somebody has set.
fn bound(socket: &impl AsFd) -> io::Result<()> {
    let size = usize::try_from(BUFFER).unwrap_or(usize::MAX);
    setsockopt(socket, sockopt::RcvBuf, &size)?;
    Ok(setsockopt(socket, sockopt::SndBuf, &size)?)
}

async fn dial(to: SocketAddr) -> io::Result<TcpStream> {
    let socket = match to {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    bound(&socket)?;
    let dialed = timeout(DIAL, socket.connect(to)).await;
    dialed.unwrap_or_else(|_| Err(io::Error::from_raw_os_error(nix::libc::ETIMEDOUT)))
}

/// Both directions, each until its end; or until either fails.
async fn pass_on(
    (inside, outside): (&mut TcpStream, &mut TcpStream),
    (tally, to): (&PassageTally, SocketAddr),
    sent_all: &Notify,
) -> io::Result<()> {
    let (mut from_inside, mut to_inside) = inside.split();
    let (mut from_outside, mut to_outside) = outside.split();
    let sent = async {
        let told = |bytes| tally.sent(to, bytes);
        pump(&mut from_inside, &mut to_outside, told).await?;
        sent_all.notify_one();
        Ok(())
    };
    let received = async {
        let told = |bytes| tally.received(to, bytes);
        pump(&mut from_outside, &mut to_inside, told).await
    };
    tokio::try_join!(sent, received).map(drop)
}

/// One direction until its end, which is passed on too.
async fn pump(
    from: &mut ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    told: impl Fn(u64),
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let length = from.read(&mut piece).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&piece[..length]).await?;
        told(u64::try_from(length).unwrap_or(u64::MAX));
    }
}

/// Ends when nobody inside is left, and all that was sent from there is on its way.
async fn nobody_listens(mut phase: watch::Receiver<GatewayPhase>, sent_all: &Notify) {
    // An error is the end of the sender, and so of the run.
    let _ = phase.wait_for(|phase| *phase != GatewayPhase::Open).await;
    sent_all.notified().await;
}
