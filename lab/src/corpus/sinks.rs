//! The servers that the programs want to talk to: a sink for TCP, one for UDP, and a server with a page. They keep
//! what arrives. They listen outside of the jail, on the loopback that all of this command runs in.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::effect::EffectEvidence;
use super::program::{DATAGRAM, PAGES, POST};
use crate::command;

/// The time that a visitor of the sink may be silent.
const SILENCE: Duration = Duration::from_secs(2);

/// The time that the server may take to start.
const START: Duration = Duration::from_secs(20);

/// So many bytes are sent over the loopback every tenth of a second, for whoever counts traffic.
const CHATTER: usize = 4096;

/// The least that somebody who counts for a second must have seen of it, on a busy machine, too.
pub const TRAFFIC: u64 = 2 * CHATTER as u64;

#[derive(Default)]
struct SinkArrival {
    posts: Vec<Vec<u8>>,
    packets: usize,
}

/// All of them. Dropping it ends the server; the sinks end with the command.
pub struct Sinks {
    arrived: Arc<Mutex<SinkArrival>>,
    server: Child,
    visits: PathBuf,
}

/// The amount that had arrived at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkMark {
    posts: usize,
    packets: usize,
    visits: usize,
}

impl Sinks {
    /// Opens them. The server answers with `text`, and its certificate is added to `trusted`.
    pub fn open(folder: &Path, text: &str, trusted: &Path) -> Result<Self> {
        let arrived = Arc::new(Mutex::new(SinkArrival::default()));
        let tcp = TcpListener::bind(POST).with_context(|| format!("cannot listen on {POST}"))?;
        let udp =
            UdpSocket::bind(DATAGRAM).with_context(|| format!("cannot listen on {DATAGRAM}"))?;
        let (of_tcp, of_udp) = (Arc::clone(&arrived), Arc::clone(&arrived));
        thread::spawn(move || take_posts(&tcp, &of_tcp));
        thread::spawn(move || take_packets(&udp, &of_udp));
        thread::spawn(chatter);
        let visits = folder.join("visits");
        let server = serve(folder, text, trusted, &visits)?;
        Ok(Self {
            arrived,
            server,
            visits,
        })
    }

    /// The amount that has arrived so far.
    pub fn mark(&self) -> Result<SinkMark> {
        let visits = fs::metadata(&self.visits).context("the server keeps no count")?;
        let arrived = lock(&self.arrived);
        Ok(SinkMark {
            posts: arrived.posts.len(),
            packets: arrived.packets,
            visits: usize::try_from(visits.len())?,
        })
    }

    /// The bytes that have arrived since.
    pub fn since(&self, mark: SinkMark, evidence: &mut EffectEvidence) -> Result<()> {
        let now = self.mark()?;
        let arrived = lock(&self.arrived);
        evidence.posts = arrived.posts[mark.posts..].to_vec();
        evidence.packets = now.packets - mark.packets;
        evidence.visits = now.visits - mark.visits;
        Ok(())
    }
}

impl Drop for Sinks {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn lock(arrived: &Mutex<SinkArrival>) -> MutexGuard<'_, SinkArrival> {
    arrived.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take_posts(listener: &TcpListener, arrived: &Mutex<SinkArrival>) {
    for stream in listener.incoming().flatten() {
        // There before the answer, so that it is there when the program ends.
        let number = {
            let mut arrived = lock(arrived);
            arrived.posts.push(Vec::new());
            arrived.posts.len() - 1
        };
        let _ = answer(stream, |bytes| {
            lock(arrived).posts[number].extend_from_slice(bytes);
        });
    }
}

/// Takes one request whole, hands on its bytes as they come, and says that it was welcome.
fn answer(mut stream: TcpStream, mut take: impl FnMut(&[u8])) -> Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    let (mut request, mut buffer) = (Vec::new(), [0; 65536]);
    while missing(&request) {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        take(&buffer[..count]);
        request.extend_from_slice(&buffer[..count]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    Ok(())
}

/// Whether more of this request is to come.
fn missing(request: &[u8]) -> bool {
    let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else {
        return true;
    };
    let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
    let length = head.lines().find_map(|line| {
        let value = line.strip_prefix("content-length:")?;
        value.trim().parse::<usize>().ok()
    });
    request.len() < end + 4 + length.unwrap_or(0)
}

fn take_packets(socket: &UdpSocket, arrived: &Mutex<SinkArrival>) {
    let mut buffer = [0; 65536];
    while socket.recv_from(&mut buffer).is_ok() {
        lock(arrived).packets += 1;
    }
}

/// Traffic of others, to nobody.
fn chatter() {
    let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else {
        return;
    };
    loop {
        // Nobody listens there: some of these tell that the one before was refused.
        let _ = socket.send_to(&[0; CHATTER], "127.0.0.1:9");
        thread::sleep(Duration::from_millis(100));
    }
}

/// The server of the page, with a certificate of its own that everybody here trusts.
fn serve(folder: &Path, text: &str, trusted: &Path, visits: &Path) -> Result<Child> {
    let (certificate, key) = (folder.join("page.crt"), folder.join("page.key"));
    let mut make = Command::new("openssl");
    make.args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-subj", &format!("/CN={PAGES}")])
        .args(["-addext", &format!("subjectAltName=DNS:{PAGES}")])
        .args(["-out".as_ref(), certificate.as_os_str()])
        .args(["-keyout".as_ref(), key.as_os_str()]);
    command::output(&mut make)?;
    let mut all = fs::read(trusted)
        .with_context(|| format!("cannot read {}: which certificates?", trusted.display()))?;
    all.extend(fs::read(&certificate)?);
    fs::write(trusted, all)?;
    fs::write(visits, "")?;
    let mut server = Command::new(crate::programs::PYTHON)
        .args(["-c", include_str!("page.py")])
        .args([&certificate, &key])
        .arg(text)
        .arg(visits)
        .spawn()
        .context("cannot start the server of the page")?;
    let started = Instant::now();
    while TcpStream::connect("127.0.0.1:443").is_err() {
        if started.elapsed() > START || server.try_wait()?.is_some() {
            let _ = server.kill();
            bail!("the server of the page does not start");
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_whole_when_its_body_is() {
        let whole = b"POST / HTTP/1.1\r\ncontent-LENGTH: 4\r\n\r\nroot";
        for end in 0..whole.len() {
            assert!(missing(&whole[..end]), "{end}");
        }
        assert!(!missing(whole));
        assert!(!missing(b"GET / HTTP/1.1\r\n\r\n"));
    }
}
