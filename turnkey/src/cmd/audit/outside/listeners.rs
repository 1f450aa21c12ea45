//! Listeners on the host, who write down which probe was heard.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::{Error, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::net::if_::InterfaceFlags;

/// The longest message.
const MESSAGE: usize = 200;
/// The longest time that a connection is listened to.
const PATIENCE: Duration = Duration::from_secs(1);
/// Addresses of the host beside its loopback.
const MOST: usize = 2;

/// Threads that live until the process ends.
pub struct Listeners {
    addresses: Vec<SocketAddr>,
    ear: Ear,
}

/// The names of probes that were heard, behind the token.
#[derive(Clone)]
struct Ear {
    token: String,
    heard: Arc<Mutex<BTreeSet<String>>>,
}

impl Listeners {
    /// Listens at the host's addresses, and at an abstract and a named socket.
    pub fn new(token: &str, name: &str, path: &Path) -> Result<Self, Error> {
        let ear = Ear {
            token: token.to_owned(),
            heard: Arc::default(),
        };
        let mut addresses = Vec::new();
        for address in host_addresses() {
            let listener = TcpListener::bind((address, 0))?;
            let bound = listener.local_addr()?;
            ear.connections(move || {
                listener.accept().map(|(stream, _)| {
                    let _ = stream.set_read_timeout(Some(PATIENCE));
                    stream
                })
            });
            ear.datagrams(UdpSocket::bind(bound)?);
            addresses.push(bound);
        }
        let named = UnixListener::bind(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o777))?;
        let hidden = UnixListener::bind_addr(&UnixAddress::from_abstract_name(name)?)?;
        for listener in [named, hidden] {
            ear.connections(move || {
                listener.accept().map(|(stream, _)| {
                    let _ = stream.set_read_timeout(Some(PATIENCE));
                    stream
                })
            });
        }
        Ok(Self { addresses, ear })
    }

    /// TCP and UDP, loopback first.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Names of probes so far.
    pub fn heard(&self) -> BTreeSet<String> {
        let heard = self.ear.heard.lock();
        heard.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Ear {
    fn connections<S: Read>(&self, accept: impl Fn() -> Result<S, Error> + Send + 'static) {
        let ear = self.clone();
        std::thread::spawn(move || {
            while let Ok(mut stream) = accept() {
                let mut text = [0; MESSAGE];
                let length = stream.read(&mut text).unwrap_or_default();
                ear.listen(&text[..length]);
            }
        });
    }

    fn datagrams(&self, socket: UdpSocket) {
        let ear = self.clone();
        std::thread::spawn(move || {
            let mut text = [0; MESSAGE];
            while let Ok(length) = socket.recv(&mut text) {
                ear.listen(&text[..length]);
            }
        });
    }

    fn listen(&self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let name = text.trim().strip_prefix(&self.token).map(str::trim);
        if let Some(name) = name {
            let heard = self.heard.lock();
            heard
                .unwrap_or_else(PoisonError::into_inner)
                .insert(name.to_owned());
        }
    }
}

/// The loopback, and some of the addresses by which others reach the host.
fn host_addresses() -> Vec<IpAddr> {
    let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let outer = interfaces.filter(|each| {
        each.flags.contains(InterfaceFlags::IFF_UP)
            && !each.flags.contains(InterfaceFlags::IFF_LOOPBACK)
    });
    let addresses = outer.filter_map(|each| Some(each.address?.as_sockaddr_in()?.ip()));
    let outer = addresses.map(IpAddr::from).take(MOST);
    std::iter::once(Ipv4Addr::LOCALHOST.into())
        .chain(outer)
        .collect()
}
