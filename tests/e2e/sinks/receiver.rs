//! A receiver of webhooks, which keeps all that it was sent.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use turnkey_tests::outside;

/// The secret that turnkey and the receivers share.
pub const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// The ways in which a receiver treats a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An answer of this status.
    Status(u16),
    /// Another protocol's.
    Nonsense,
    /// Hangs up in the middle of the head of its answer.
    Close,
    /// Keeps the connection and says nothing.
    Nothing,
    /// Hangs up, and listens no more.
    Gone,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    head: String,
    body: Vec<u8>,
}

impl Request {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a body is JSON")
    }

    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).expect("a request has a path")
    }

    pub fn header(&self, name: &str) -> &str {
        let mut lines = self
            .head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }

    /// Checks the signature as a receiver would, with another implementation.
    pub fn expect_signed(&self) {
        let signature = self.header("turnkey-signature");
        let (time, digest) = signature.split_once(",v1=").expect("two parts");
        let time = time.strip_prefix("t=").expect("the time comes first");
        let program = "import hashlib, hmac, sys\nkey, text = (word.encode() for word in sys.argv[1:])\n\
                       print(hmac.new(key, text, hashlib.sha256).hexdigest())";
        let body = String::from_utf8(self.body.clone()).expect("JSON is UTF-8");
        let signed = format!("{time}.{body}");
        let (_, expected) = outside("python3", &["-c", program, SECRET, &signed]);
        assert_eq!(digest, expected.trim());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let sent: u64 = time.parse().expect("seconds");
        assert!(now.expect("after 1970").as_secs() - sent < 60);
    }
}

trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

/// The receiver; it listens until the test ends, or it is gone.
pub struct Receiver {
    requests: Arc<Mutex<Vec<Request>>>,
    port: u16,
}

impl Receiver {
    /// One on a free port of loopback.
    pub fn http(answer: impl Fn(usize) -> Answer + Send + 'static) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has one").port();
        let accept = move || listener.accept().map(|(stream, _)| boxed(stream));
        Receiver {
            requests: serve(accept, answer),
            port,
        }
    }

    /// One on a socket with a path.
    pub fn unix(path: &Path, answer: impl Fn(usize) -> Answer + Send + 'static) -> Receiver {
        let listener = UnixListener::bind(path).expect("a new name");
        let accept = move || {
            let (stream, _) = listener.accept()?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        };
        Receiver {
            requests: serve(accept, answer),
            port: 0,
        }
    }

    /// One that takes the first bytes of each request, and hangs up.
    pub fn that_hangs_up() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has one").port();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 200]);
            }
        });
        Receiver {
            requests: Arc::default(),
            port,
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// A port on which nobody listens.
    pub fn closed_port(self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.local_addr().expect("it has one").port()
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no test has panicked").clone()
    }
}

fn boxed(stream: TcpStream) -> Box<dyn Stream> {
    Box::new(stream)
}

fn serve(
    accept: impl Fn() -> std::io::Result<Box<dyn Stream>> + Send + 'static,
    answer: impl Fn(usize) -> Answer + Send + 'static,
) -> Arc<Mutex<Vec<Request>>> {
    let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
    let kept = Arc::clone(&requests);
    std::thread::spawn(move || {
        let mut open = Vec::new();
        while let Ok(mut stream) = accept() {
            // Whoever only looks whether somebody listens sends nothing.
            let Some(request) = read(&mut *stream) else {
                continue;
            };
            let count = kept.lock().expect("no test has panicked").len();
            let answer = answer(count);
            if answer == Answer::Gone {
                return;
            }
            kept.lock().expect("no test has panicked").push(request);
            let said = match answer {
                Answer::Status(status) => {
                    format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")
                }
                Answer::Close => "HTTP/1.1".to_owned(),
                Answer::Nonsense => "220 ready\r\n".to_owned(),
                Answer::Nothing => {
                    open.push(stream);
                    continue;
                }
                Answer::Gone => continue,
            };
            let _ = stream.write_all(said.as_bytes());
        }
    });
    requests
}

/// A request.
fn read(stream: &mut dyn Stream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut part = [0; 1000];
    loop {
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&part[..count]);
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let Some(end) = end else {
            continue;
        };
        let request = Request {
            head: String::from_utf8(bytes[..end].to_vec()).expect("a head is ASCII"),
            body: bytes[end + 4..].to_vec(),
        };
        let length: usize = request.header("content-length").parse().expect("a length");
        if request.body.len() == length {
            return Some(request);
        }
    }
}
