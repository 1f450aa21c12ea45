//! A connection of the program's, with TLS taken off where it has put that on.

use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rustls::server::{Accepted, Acceptor, ClientHello};
use rustls::{ServerConfig, ServerConnection};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Bytes that are read at once.
pub const PIECE: usize = 16 << 10;
/// The longest time for a client to read what it is answered.
const WRITE: Duration = Duration::from_secs(5);
/// The longest time for a client to say something more.
const IDLE: Duration = Duration::from_secs(60);
/// Bytes that one connection may send. Whoever sends more has shown what it sends.
const MOST: u64 = 16 << 20;

/// A connection.
#[derive(Debug)]
pub struct Channel {
    stream: TcpStream,
    tls: Option<Box<ServerConnection>>,
    /// Bytes that were read to see what they are.
    ahead: Vec<u8>,
    read: u64,
}

/// The end of a handshake that did not come to a channel.
#[derive(Debug)]
pub struct NoTls {
    /// The name that the client asked for.
    pub name: Option<String>,
    /// The client had the certificate, and did not go on.
    pub distrusts: bool,
}

impl Channel {
    /// Without TLS, so far.
    pub fn new(stream: TcpStream) -> Channel {
        Channel {
            stream,
            tls: None,
            ahead: Vec::new(),
            read: 0,
        }
    }

    /// True when TLS was taken off.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The name that the client asked for when TLS was put on.
    pub fn server_name(&self) -> Option<String> {
        let tls = self.tls.as_ref()?;
        tls.server_name().map(str::to_owned)
    }

    /// True when it has been read from as much as there may be.
    pub fn is_used_up(&self) -> bool {
        self.read >= MOST
    }

    /// Has these bytes read once more.
    pub fn put_back(&mut self, mut bytes: Vec<u8>) {
        bytes.append(&mut self.ahead);
        self.ahead = bytes;
    }

    /// The next bytes; none at the end, which is also when the client is silent for too long or has sent too much.
    pub async fn read(&mut self) -> io::Result<Vec<u8>> {
        self.read_for(IDLE).await.map(Option::unwrap_or_default)
    }

    /// The same; `None` when the client has said nothing for so long.
    pub async fn read_for(&mut self, patience: Duration) -> io::Result<Option<Vec<u8>>> {
        if !self.ahead.is_empty() {
            return Ok(Some(std::mem::take(&mut self.ahead)));
        }
        if self.is_used_up() {
            return Ok(Some(Vec::new()));
        }
        let bytes = match timeout(patience, self.receive()).await {
            Err(_) => return Ok(None),
            Ok(bytes) => bytes?,
        };
        self.read += bytes.len() as u64;
        Ok(Some(bytes))
    }

    async fn receive(&mut self) -> io::Result<Vec<u8>> {
        let Some(tls) = &mut self.tls else {
            return read_from(&mut self.stream).await;
        };
        loop {
            let mut plain = vec![0; PIECE];
            match tls.reader().read(&mut plain) {
                Ok(length) => {
                    plain.truncate(length);
                    return Ok(plain);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let sealed = read_from(&mut self.stream).await?;
            if sealed.is_empty() {
                return Ok(Vec::new());
            }
            let opened = open(tls, &sealed);
            flush(tls, &mut self.stream).await?;
            opened.map_err(io::Error::other)?;
        }
    }

    /// Answers, if the client reads it.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return write_to(&mut self.stream, bytes).await;
        };
        tls.writer().write_all(bytes)?;
        flush(tls, &mut self.stream).await
    }

    /// Says that no more comes.
    pub async fn end(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // A client that is gone needs no goodbye.
            let _ = flush(tls, &mut self.stream).await;
        }
        let _ = self.stream.shutdown().await;
    }

    /// Takes off TLS, of which the first bytes were put back.
    pub async fn take_off_tls(
        mut self,
        config: impl FnOnce(&ClientHello<'_>) -> Result<Arc<ServerConfig>, rustls::Error>,
    ) -> Result<Channel, NoTls> {
        let no_tls = |name: Option<&str>, distrusts| NoTls {
            name: name.map(str::to_owned),
            distrusts,
        };
        let greeted = self.greeted().await.ok_or_else(|| no_tls(None, false))?;
        let (name, config) = {
            let hello = greeted.client_hello();
            (hello.server_name().map(str::to_owned), config(&hello))
        };
        let name = name.as_deref();
        let config = config.map_err(|_| no_tls(name, false))?;
        let mut tls = match greeted.into_connection(config) {
            Ok(tls) => Box::new(tls),
            Err((_, mut alert)) => {
                let mut sealed = Vec::new();
                // A client that hears no alert is gone as well.
                let _ = alert.write_all(&mut sealed);
                let _ = write_to(&mut self.stream, &sealed).await;
                return Err(no_tls(name, false));
            }
        };
        let flushed = flush(&mut tls, &mut self.stream).await;
        flushed.map_err(|_| no_tls(name, false))?;
        let answered = name.is_some();
        while tls.is_handshaking() {
            let sealed = match self.read().await {
                Ok(sealed) if !sealed.is_empty() => sealed,
                _ => return Err(no_tls(name, answered)),
            };
            let opened = open(&mut tls, &sealed);
            let flushed = flush(&mut tls, &mut self.stream).await;
            if let Err(error) = opened {
                let is_alert = matches!(error, rustls::Error::AlertReceived(_));
                return Err(no_tls(name, is_alert));
            }
            if flushed.is_err() {
                return Err(no_tls(name, answered));
            }
        }
        Ok(Channel {
            tls: Some(tls),
            ..self
        })
    }

    /// Reads a client's greeting; `None` of what is none, or not all of one.
    async fn greeted(&mut self) -> Option<Accepted> {
        let mut acceptor = Acceptor::default();
        loop {
            let sealed = self.read().await.ok().filter(|sealed| !sealed.is_empty())?;
            let mut rest = sealed.as_slice();
            while !rest.is_empty() {
                acceptor.read_tls(&mut rest).ok()?;
                if let Some(greeted) = acceptor.accept().ok()? {
                    self.put_back(rest.to_vec());
                    return Some(greeted);
                }
            }
        }
    }
}

/// Hands in what came, all of it.
fn open(tls: &mut ServerConnection, mut sealed: &[u8]) -> Result<(), rustls::Error> {
    while !sealed.is_empty() {
        // A slice is read without an error, unless there is no room before what is in it has been looked at.
        if tls.read_tls(&mut sealed).is_err() {
            return Err(rustls::Error::General("no room".into()));
        }
        tls.process_new_packets()?;
    }
    Ok(())
}

async fn flush(tls: &mut ServerConnection, stream: &mut TcpStream) -> io::Result<()> {
    let mut sealed = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut sealed)?;
    }
    write_to(stream, &sealed).await
}

async fn read_from(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; PIECE];
    let length = stream.read(&mut bytes).await?;
    bytes.truncate(length);
    Ok(bytes)
}

async fn write_to(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let written = timeout(WRITE, stream.write_all(bytes)).await;
    written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
