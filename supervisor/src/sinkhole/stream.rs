//! Connections: what is spoken on each is recognised by the first bytes, answered, and kept.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use turnkey_facts::{Conversation, SinkholeProtocol as Protocol};

use super::channel::{Channel, NoTls};
use super::dialogue::{DATA_PORT, Dialogue, GREETING};
use super::http::{self, Body, Chunks, Head, LONGEST_HEAD};
use super::log::Row;
use super::{NAME_SERVER, SinkholeState, sockets};
use crate::clock;

/// The time after which a client that says nothing is greeted.
const SILENCE: Duration = Duration::from_secs(1);
/// The time for which a connection is kept for another request.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// The first byte of a TLS record that begins a handshake, and the major version behind it.
const HANDSHAKE: [u8; 2] = [22, 3];

/// One connection.
struct Peer {
    state: Rc<SinkholeState>,
    to: SocketAddr,
    /// The number of the client's socket, or 0.
    socket: u32,
    name: Option<String>,
    began_ns: u64,
}

/// Talks to a client until it goes, or has sent as much as it may.
pub async fn serve(stream: TcpStream, state: Rc<SinkholeState>) -> io::Result<()> {
    let to = stream.local_addr()?;
    let to = SocketAddr::new(to.ip().to_canonical(), to.port());
    let name = state.name_of(to.ip());
    let mut peer = Peer {
        state,
        to,
        socket: sockets::number_of_client(&stream),
        name,
        began_ns: clock::boottime(),
    };
    let mut channel = Channel::new(stream);
    // A proxy's client begins anew behind the proxy's answer.
    while let Some(behind) = peer.talk(channel).await? {
        channel = behind;
    }
    Ok(())
}

impl Peer {
    /// One protocol to its end; the channel when another begins on it.
    async fn talk(&mut self, mut channel: Channel) -> io::Result<Option<Channel>> {
        if let Some(server) = Dialogue::at(self.to, channel.has_tls()) {
            return self.lines(channel, server, true).await.map(|()| None);
        }
        let Some(first) = channel.read_for(SILENCE).await? else {
            return self.silent(channel).await.map(|()| None);
        };
        let is_tls = first.starts_with(&HANDSHAKE) && !channel.has_tls();
        if is_tls {
            return self.sealed(channel, first).await;
        }
        if http::is_request(&first) {
            channel.put_back(first);
            return self.requests(channel).await;
        }
        if self.to.port() == NAME_SERVER {
            channel.put_back(first);
            return self.questions(channel).await.map(|()| None);
        }
        let server = Dialogue::of_first(&first, self.to);
        channel.put_back(first);
        match server {
            Some(server) => self.lines(channel, server, false).await,
            None => self.anything(channel).await,
        }?;
        Ok(None)
    }

    fn begin(&self, protocol: Protocol, request: Option<Vec<u8>>) -> Row {
        self.state.log.begin(Conversation {
            to: self.to,
            socket: self.socket,
            datagrams: false,
            name: self.name.clone(),
            protocol,
            request,
            sent: 0,
            kept: Vec::new(),
            distrusts: false,
            cut: false,
            began_ns: self.began_ns,
        })
    }

    /// TLS: what is inside is a conversation like any other.
    async fn sealed(
        &mut self,
        mut channel: Channel,
        first: Vec<u8>,
    ) -> io::Result<Option<Channel>> {
        channel.put_back(first.clone());
        let (authority, address) = (Arc::clone(&self.state.authority), self.to.ip());
        let opened = channel.take_off_tls(|hello| authority.server(address, hello));
        match opened.await {
            Ok(channel) => {
                let asked = channel.server_name();
                self.name = self.name.take().or(asked);
                Ok(Some(channel))
            }
            Err(NoTls { name, distrusts }) => {
                self.name = self.name.take().or(name);
                let row = self.begin(Protocol::Tls, None);
                self.state.log.sent(row, &first);
                self.state.log.change(row, |one| one.distrusts = distrusts);
                Ok(None)
            }
        }
    }

    /// A client that waits for a word.
    async fn silent(&self, mut channel: Channel) -> io::Result<()> {
        if self.to.port() == DATA_PORT {
            channel.end().await;
        } else {
            // Those that wait for nothing and only keep a connection are not disturbed by a line.
            channel.write(GREETING).await?;
        }
        self.anything(channel).await
    }

    /// All that comes, answered by nothing.
    async fn anything(&self, mut channel: Channel) -> io::Result<()> {
        let row = self.begin(plain(&channel, Protocol::Tcp), None);
        loop {
            let bytes = channel.read().await?;
            if bytes.is_empty() {
                return self.ended(channel, row).await;
            }
            self.state.log.sent(row, &bytes);
        }
    }

    async fn ended(&self, mut channel: Channel, row: Row) -> io::Result<()> {
        let is_cut = channel.is_used_up();
        self.state.log.change(row, |one| one.cut = is_cut);
        channel.end().await;
        Ok(())
    }

    /// A protocol of lines; the server speaks first in some.
    async fn lines(
        &self,
        mut channel: Channel,
        mut server: Dialogue,
        is_first: bool,
    ) -> io::Result<()> {
        let row = self.begin(server.protocol, None);
        if is_first {
            channel.write(server.banner()).await?;
        }
        let mut is_greeted = is_first;
        loop {
            let bytes = channel.read().await?;
            if bytes.is_empty() {
                return self.ended(channel, row).await;
            }
            self.state.log.sent(row, &bytes);
            if !std::mem::replace(&mut is_greeted, true) {
                channel.write(server.banner()).await?;
            }
            channel.write(&server.answer(&bytes)).await?;
        }
    }

    /// Questions of a resolver, each behind its length (RFC 1035, section 4.2.2).
    async fn questions(&self, mut channel: Channel) -> io::Result<()> {
        let mut asked = Vec::new();
        loop {
            let bytes = channel.read().await?;
            if bytes.is_empty() {
                channel.end().await;
                return Ok(());
            }
            asked.extend(bytes);
            while let Some((length, rest)) = asked.split_first_chunk::<2>() {
                let length = usize::from(u16::from_be_bytes(*length));
                let Some(message) = rest.get(..length) else {
                    break;
                };
                let Some(answer) = self.state.answer(message) else {
                    channel.put_back(asked);
                    return self.anything(channel).await;
                };
                let size = u16::try_from(answer.len()).unwrap_or(u16::MAX);
                channel
                    .write(&[&size.to_be_bytes(), answer.as_slice()].concat())
                    .await?;
                asked.drain(..2 + length);
            }
        }
    }

    /// Requests, one after the other, each a conversation of its own.
    async fn requests(&mut self, mut channel: Channel) -> io::Result<Option<Channel>> {
        let protocol = match channel.has_tls() {
            true => Protocol::Https,
            false => Protocol::Http,
        };
        loop {
            let Some((head, bytes)) = self.head(&mut channel, protocol).await? else {
                return Ok(None);
            };
            let host = head.host.clone();
            let name = self
                .name
                .clone()
                .or(host.filter(|host| host.parse::<std::net::IpAddr>().is_err()));
            let request = format!("{} {}", head.method, head.target).into_bytes();
            let row = self.begin(protocol, Some(request));
            self.state.log.change(row, |one| one.name = name);
            self.state.log.sent(row, &bytes);
            if head.waits {
                channel.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            }
            let is_whole = self.body(&mut channel, head.body, row).await?;
            if !is_whole {
                return self.ended(channel, row).await.map(|()| None);
            }
            channel.write(&head.answer()).await?;
            if let Some(name) = head.proxied() {
                self.name = Some(name);
                return Ok(Some(channel));
            }
            if !head.goes_on {
                channel.end().await;
                return Ok(None);
            }
            self.began_ns = clock::boottime();
        }
    }

    /// The next head with its bytes; `None` at the end. What is none is kept as what it is.
    async fn head(
        &self,
        channel: &mut Channel,
        protocol: Protocol,
    ) -> io::Result<Option<(Head, Vec<u8>)>> {
        let mut bytes = Vec::new();
        loop {
            // What has begun is waited for as long as anything.
            let more = match bytes.is_empty() {
                true => channel.read_for(KEEP_ALIVE).await?.unwrap_or_default(),
                false => channel.read().await?,
            };
            let is_end = more.is_empty() || bytes.len() > LONGEST_HEAD;
            bytes.extend(more);
            if let Some((head, end)) = Head::read(&bytes) {
                let rest = bytes.split_off(end);
                channel.put_back(rest);
                return Ok(Some((head, bytes)));
            }
            if is_end {
                if !bytes.is_empty() {
                    let row = self.begin(protocol, None);
                    self.state.log.sent(row, &bytes);
                    self.state.log.change(row, |one| one.cut = true);
                }
                channel.end().await;
                return Ok(None);
            }
        }
    }

    /// Keeps a body; false when it ended before its end.
    async fn body(&self, channel: &mut Channel, body: Body, row: Row) -> io::Result<bool> {
        let mut left = match body {
            Body::Length(length) => length,
            Body::Chunked => return self.pieces(channel, row).await,
        };
        while left > 0 {
            let mut bytes = channel.read().await?;
            if bytes.is_empty() {
                return Ok(false);
            }
            let own = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            channel.put_back(bytes.split_off(own));
            self.state.log.sent(row, &bytes);
            left -= own as u64;
        }
        Ok(true)
    }

    async fn pieces(&self, channel: &mut Channel, row: Row) -> io::Result<bool> {
        let mut chunks = Chunks::default();
        loop {
            let mut bytes = channel.read().await?;
            let mut own = Vec::new();
            let taken = chunks.take(&bytes, &mut own);
            self.state.log.sent(row, &own);
            match taken {
                _ if bytes.is_empty() => return Ok(false),
                Ok(None) => {}
                Ok(Some(end)) => {
                    channel.put_back(bytes.split_off(end));
                    return Ok(true);
                }
                Err(http::NotInPieces) => return Ok(false),
            }
        }
    }
}

/// The protocol of a conversation that is not recognised, on this channel.
fn plain(channel: &Channel, otherwise: Protocol) -> Protocol {
    match channel.has_tls() {
        true => Protocol::Tls,
        false => otherwise,
    }
}
