//! Sockets of receivers: found once, connected with a bound on the time.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt,
};
use nix::sys::stat::{FileStat, SFlag, fstat};
use nix::sys::time::{TimeVal, TimeValLike};
use turnkey_jailer::paths::{self, LastSymlink};

/// A socket that nobody but root and the caller can put another one in the place of.
#[derive(Debug)]
pub struct FoundSocket {
    found: FoundName,
    path: PathBuf,
}

#[derive(Debug)]
enum FoundName {
    /// A name in a directory where others can change nothing: a receiver that is started anew makes its socket anew.
    Guarded(OwnedFd, OsString),
    /// The socket itself, whatever becomes of its name.
    Itself(OwnedFd),
}

impl FoundSocket {
    /// Finds the socket at `path`, by no way that another user can turn.
    pub fn find(path: &Path) -> anyhow::Result<FoundSocket> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            anyhow::bail!("{} is no socket", path.display());
        };
        let directory = paths::open(above, LastSymlink::Follow)?;
        let socket = paths::open_in(&directory, name)?;
        let stat = fstat(&socket)?;
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        anyhow::ensure!(kind == SFlag::S_IFSOCK, "{} is no socket", path.display());
        anyhow::ensure!(
            paths::is_trusted(stat.st_uid),
            "{} is a socket of another user; name one of yours or of root's",
            path.display()
        );
        Ok(FoundSocket {
            path: paths::place_of(&directory)?.join(name),
            found: match is_guarded(&fstat(&directory)?) {
                true => FoundName::Guarded(directory, name.to_owned()),
                false => FoundName::Itself(socket),
            },
        })
    }

    /// The path, without any symlink.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Connects, and waits no longer than `most` for a receiver that is busy.
    pub fn connect(&self, kind: SockType, most: Duration) -> io::Result<OwnedFd> {
        let socket = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
        // socket(7): it bounds connect(2) as well.
        let most = TimeVal::milliseconds(i64::try_from(most.as_millis()).unwrap_or(1).max(1));
        setsockopt(&socket, sockopt::SendTimeout, &most)?;
        let of = |opened: &OwnedFd| PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        let place = match &self.found {
            FoundName::Guarded(directory, name) => of(directory).join(name),
            FoundName::Itself(socket) => of(socket),
        };
        connect(socket.as_raw_fd(), &UnixAddr::new(&place)?)?;
        Ok(socket)
    }
}

/// True for a directory in which none but root and the caller make and remove names.
fn is_guarded(directory: &FileStat) -> bool {
    paths::is_trusted(directory.st_uid) && directory.st_mode & 0o022 == 0
}

/// The end that takes requests.
#[derive(Debug)]
pub enum FoundEndpoint {
    /// Loopback, by its name in a URL.
    Tcp(String, Vec<SocketAddr>),
    /// A socket with a path.
    Unix(FoundSocket),
}

impl FoundEndpoint {
    /// The name for a request's `Host`.
    pub fn host(&self) -> &str {
        match self {
            Self::Tcp(host, _) => host,
            Self::Unix(_) => "localhost",
        }
    }

    /// Connects until `deadline`.
    pub fn connect(&self, deadline: Instant) -> io::Result<Box<dyn Connection>> {
        match self {
            Self::Unix(socket) => {
                let connected = socket.connect(SockType::Stream, left(deadline)?)?;
                Ok(Box::new(UnixStream::from(connected)))
            }
            Self::Tcp(_, addresses) => {
                let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
                for address in addresses {
                    match TcpStream::connect_timeout(address, left(deadline)?) {
                        Ok(stream) => return Ok(Box::new(stream)),
                        Err(error) => failed = error,
                    }
                }
                Err(failed)
            }
        }
    }
}

/// The time until `deadline`.
pub fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "it did not answer in time",
        )),
        false => Ok(left),
    }
}

/// A stream whose every read and write has a bound on its time.
pub trait Connection: Read + Write {
    /// Bounds the next read and the next write.
    fn limit(&self, most: Duration) -> io::Result<()>;
}

impl Connection for TcpStream {
    fn limit(&self, most: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(most))?;
        self.set_write_timeout(Some(most))
    }
}

impl Connection for UnixStream {
    fn limit(&self, most: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(most))?;
        self.set_write_timeout(Some(most))
    }
}
