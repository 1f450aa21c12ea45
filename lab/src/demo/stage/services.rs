//! Services of the host that no jailed program may reach: they listen, and note who came.

use std::io::{ErrorKind, Result as IoResult};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// One port on the loopback, over TCP and UDP, and two Unix sockets.
pub struct Services {
    tcp: TcpListener,
    udp: UdpSocket,
    port: u16,
    unix: UnixListener,
    path: PathBuf,
    unix_abstract: UnixListener,
    abstract_name: String,
}

impl Services {
    /// Opens them all. The socket file lies in `folder`, the abstract name ends in `unique`.
    pub fn open(folder: &Path, unique: &str) -> Result<Self> {
        let (tcp, udp, port) = open_port().context("cannot listen on the loopback")?;
        let path = folder.join("daemon.sock");
        let unix = UnixListener::bind(&path)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        let abstract_name = format!("turnkey-demo-{unique}");
        let address = SocketAddr::from_abstract_name(&abstract_name)?;
        let unix_abstract = UnixListener::bind_addr(&address)
            .with_context(|| format!("cannot listen on the abstract name {abstract_name}"))?;
        tcp.set_nonblocking(true)?;
        udp.set_nonblocking(true)?;
        unix.set_nonblocking(true)?;
        unix_abstract.set_nonblocking(true)?;
        // Whoever sees the file may connect: the jail has to hide it.
        allow_all_to_connect(&path)?;
        Ok(Self {
            tcp,
            udp,
            port,
            unix,
            path,
            unix_abstract,
            abstract_name,
        })
    }

    /// Of the service on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Of the socket file.
    pub fn socket(&self) -> &Path {
        &self.path
    }

    /// Without the leading zero.
    pub fn abstract_name(&self) -> &str {
        &self.abstract_name
    }

    /// Whether anyone came to any of them since the last question. Connections are closed.
    pub fn reached(&self) -> Result<bool> {
        let came = [
            happened(self.tcp.accept())?,
            happened(self.udp.recv_from(&mut [0]))?,
            happened(self.unix.accept())?,
            happened(self.unix_abstract.accept())?,
        ];
        Ok(came.contains(&true))
    }
}

/// A port that is free for TCP and for UDP.
fn open_port() -> IoResult<(TcpListener, UdpSocket, u16)> {
    const ATTEMPTS: usize = 16;
    let mut taken = None;
    for _ in 0..ATTEMPTS {
        let tcp = TcpListener::bind(("127.0.0.1", 0))?;
        let port = tcp.local_addr()?.port();
        match UdpSocket::bind(("127.0.0.1", port)) {
            Ok(udp) => return Ok((tcp, udp, port)),
            Err(error) => taken = Some(error),
        }
    }
    Err(taken.unwrap_or_else(|| ErrorKind::AddrInUse.into()))
}

fn allow_all_to_connect(path: &Path) -> IoResult<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))
}

/// Whether a call that does not wait found something.
fn happened<T>(result: IoResult<T>) -> IoResult<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        // Whoever came is gone again already.
        Err(error) if error.kind() == ErrorKind::ConnectionAborted => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn services() -> (tempfile::TempDir, Services) {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().file_name().expect("a name").to_owned();
        let services = Services::open(folder.path(), &name.to_string_lossy());
        (folder, services.expect("they listen"))
    }

    #[test]
    fn silence_is_not_a_visit() {
        let (_folder, services) = services();
        assert!(!services.reached().expect("an answer"));
    }

    #[test]
    fn each_way_in_is_watched() {
        let (_folder, services) = services();
        let address = ("127.0.0.1", services.port());

        TcpStream::connect(address).expect("it listens");
        assert!(services.reached().expect("an answer"));

        let sender = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
        sender.send_to(b"x", address).expect("it sends");
        assert!(services.reached().expect("an answer"));

        UnixStream::connect(services.socket()).expect("it listens");
        assert!(services.reached().expect("an answer"));

        let name = SocketAddr::from_abstract_name(services.abstract_name()).expect("a name");
        UnixStream::connect_addr(&name).expect("it listens");
        assert!(services.reached().expect("an answer"));

        assert!(!services.reached().expect("an answer"), "all were counted");
    }
}
