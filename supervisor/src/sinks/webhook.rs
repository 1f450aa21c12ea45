//! A webhook: each alert is the body of a signed request of HTTP/1.1.
//!
//! `Turnkey-Signature: t=SECONDS,v1=HEX`, where HEX is the HMAC-SHA256 of `SECONDS.BODY` under the secret: a receiver that
//! checks both knows who has sent it, and that nobody sends it again later.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use turnkey_report::Alert;

use super::socket::{Connection, FoundEndpoint, left};
use super::{Receiver, SendError};
use crate::files;

/// The longest time that one request may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of an answer that are read: its first line.
const ANSWER: usize = 1024;
/// Most bytes of a secret.
const LONGEST_SECRET: usize = 4096;
/// Fewest bytes of a secret: RFC 2104 discourages what is shorter than a digest.
const SHORTEST_SECRET: usize = 16;

/// The secret that sender and receiver share.
#[derive(Clone)]
pub struct WebhookSecret {
    bytes: Vec<u8>,
    /// The file that it was read from, without any symlink.
    file: Option<PathBuf>,
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "WebhookSecret")
    }
}

impl WebhookSecret {
    /// A secret; blanks around it are none of it.
    ///
    /// # Errors
    /// When it is too short or too long.
    pub fn new(bytes: &[u8]) -> anyhow::Result<WebhookSecret> {
        let bytes = bytes.trim_ascii().to_vec();
        anyhow::ensure!(
            (SHORTEST_SECRET..=LONGEST_SECRET).contains(&bytes.len()),
            "a secret has {SHORTEST_SECRET} to {LONGEST_SECRET} bytes, such as `openssl rand -hex 32` prints"
        );
        Ok(WebhookSecret { bytes, file: None })
    }

    /// The secret in a file, which nobody but its owner may read.
    ///
    /// # Errors
    /// When it cannot be read, or others may read it.
    pub fn read(path: &Path) -> anyhow::Result<WebhookSecret> {
        use std::os::unix::fs::PermissionsExt;
        let told = || {
            format!(
                "the secret of webhooks could not be read from {}",
                path.display()
            )
        };
        let file = files::open(path).with_context(told)?;
        let metadata = file.metadata().with_context(told)?;
        anyhow::ensure!(
            !metadata.is_file() || metadata.permissions().mode() & 0o077 == 0,
            "the secret in {0} is not only its owner's to read; `chmod 600 {0}`",
            path.display()
        );
        let mut bytes = Vec::new();
        let most = LONGEST_SECRET as u64 + 1;
        let read = (&file).take(most).read_to_end(&mut bytes);
        read.with_context(told)?;
        let secret = WebhookSecret::new(&bytes).with_context(told)?;
        let place = turnkey_jailer::paths::place_of(&file.into()).ok();
        Ok(WebhookSecret {
            file: place,
            ..secret
        })
    }

    /// The file that it was read from.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// True when who reads the text knows the secret.
    pub fn is_in(&self, text: &[u8]) -> bool {
        let mut parts = text.windows(self.bytes.len());
        parts.any(|part| part == self.bytes)
    }

    /// The signature of a body that is sent at `seconds` since 1970.
    fn sign(&self, seconds: u64, body: &[u8]) -> String {
        // HMAC takes a key of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.bytes) else {
            return String::new();
        };
        mac.update(format!("{seconds}.").as_bytes());
        mac.update(body);
        let digest = mac.finalize().into_bytes();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The lines of a request about its body, which they sign.
pub fn headers(alert: &Alert, secret: &WebhookSecret, body: &[u8]) -> [String; 4] {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.unwrap_or_default().as_secs();
    [
        format!("User-Agent: turnkey/{}", env!("CARGO_PKG_VERSION")),
        "Content-Type: application/json".to_owned(),
        format!("Turnkey-Alert: {}", alert.id),
        format!(
            "Turnkey-Signature: t={seconds},v1={}",
            secret.sign(seconds, body)
        ),
    ]
}

/// A receiver of requests.
pub struct Webhook {
    endpoint: FoundEndpoint,
    path: String,
    secret: WebhookSecret,
}

impl Webhook {
    /// Makes sure that somebody listens.
    pub fn open(
        endpoint: FoundEndpoint,
        path: &str,
        secret: WebhookSecret,
    ) -> anyhow::Result<Webhook> {
        endpoint.connect(Instant::now() + PATIENCE)?;
        let path = path.to_owned();
        Ok(Webhook {
            endpoint,
            path,
            secret,
        })
    }

    fn request(&self, alert: &Alert, body: &[u8]) -> Vec<u8> {
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n{}\r\nConnection: close\r\n\r\n",
            self.path,
            self.endpoint.host(),
            body.len(),
            headers(alert, &self.secret, body).join("\r\n"),
        );
        [head.as_bytes(), body].concat()
    }
}

impl Receiver for Webhook {
    fn send(&mut self, alert: &Alert, line: &[u8]) -> Result<(), SendError> {
        let deadline = Instant::now() + PATIENCE;
        let mut connection = self.endpoint.connect(deadline)?;
        write_until(&mut *connection, &self.request(alert, line), deadline)?;
        judge(status(&mut *connection, deadline)?)
    }
}

/// Any success is one; what is wrong with the request is so the next time, too.
pub fn judge(status: u16) -> Result<(), SendError> {
    match status {
        200..=299 => Ok(()),
        408 | 429 | 500..=599 => Err(SendError::Again(format!("it answered {status}"))),
        _ => Err(SendError::Refused(format!("it answered {status}"))),
    }
}

fn write_until(to: &mut dyn Connection, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        to.limit(left(deadline)?)?;
        match to.write(bytes).map_err(in_time)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

/// The status of the answer, behind any interim ones, which a server may send unasked.
fn status(from: &mut dyn Connection, deadline: Instant) -> Result<u16, SendError> {
    let mut answer = Vec::new();
    let mut part = [0; ANSWER];
    while without_interim(&mut answer) && answer.len() < ANSWER {
        from.limit(left(deadline)?)?;
        match from.read(&mut part).map_err(in_time)? {
            0 => break,
            read => answer.extend_from_slice(&part[..read]),
        }
    }
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or(&[]);
    parse_status(line).ok_or_else(|| match line.is_empty() {
        true => SendError::Again("it closed the connection without an answer".to_owned()),
        false => SendError::Again("its answer is no HTTP".to_owned()),
    })
}

/// Takes whole interim answers (1xx; RFC 9110, section 15.2) off the beginning. True until the first line of the last answer is there.
fn without_interim(answer: &mut Vec<u8>) -> bool {
    const SWITCHED: u16 = 101;
    loop {
        let Some(end) = answer.iter().position(|byte| *byte == b'\n') else {
            return true;
        };
        let status = parse_status(&answer[..end]);
        if !status.is_some_and(|it| (100..200).contains(&it) && it != SWITCHED) {
            return false;
        }
        let lines = answer.windows(4);
        let Some(empty) = lines.into_iter().position(|four| four == b"\r\n\r\n") else {
            return true;
        };
        answer.drain(..empty + 4);
    }
}

/// RFC 9112, section 4: `HTTP/1.1 200 OK`
fn parse_status(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.trim_end().split(' ');
    let version = words.next()?;
    let status = words.next()?;
    let is_http = version.starts_with("HTTP/1.") && status.len() == 3;
    status.parse().ok().filter(|_| is_http)
}

/// socket(7): a timeout looks like a socket that would block.
fn in_time(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_body_are_signed_as_another_program_does() {
        let secret = WebhookSecret::new(&[b'k'; 20]).unwrap();
        // printf '%s' '12.{}' | openssl dgst -sha256 -hmac kkkkkkkkkkkkkkkkkkkk
        let expected = "6b4941c99da4bf126f43013dc8ee79109a5fd47b6a6bed561cec9510c0a55653";
        assert_eq!(secret.sign(12, b"{}"), expected);
        assert_ne!(secret.sign(13, b"{}"), expected);
        assert_ne!(secret.sign(12, b"{ }"), expected);
    }

    #[test]
    fn an_answer_counts_by_its_status_alone() {
        for (line, status) in [
            ("HTTP/1.1 200 OK\r", Some(200)),
            ("HTTP/1.0 500", Some(500)),
            ("HTTP/2 200", None),
            ("HTTP/1.1 20", None),
            ("SSH-2.0-OpenSSH", None),
            ("", None),
        ] {
            assert_eq!(parse_status(line.as_bytes()), status, "{line}");
        }
        assert!(judge(204).is_ok());
        assert!(matches!(judge(503), Err(SendError::Again(_))));
        assert!(matches!(judge(302), Err(SendError::Refused(_))));
        assert!(matches!(judge(401), Err(SendError::Refused(_))));
    }

    #[test]
    fn interim_answers_are_skipped_and_the_last_one_counts() {
        let left = |answer: &str| {
            let mut answer = answer.as_bytes().to_vec();
            let waits = without_interim(&mut answer);
            (String::from_utf8(answer).unwrap(), waits)
        };
        let said = |answer: &str, waits| (answer.to_owned(), waits);
        let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        let both = format!("HTTP/1.1 100 Continue\r\n\r\n{hints}");
        assert_eq!(left(&both), said("", true));
        let last = "HTTP/1.1 204 No Content\r\n";
        assert_eq!(left(&format!("{both}{last}")), said(last, false));
        assert_eq!(left("HTTP/1.1 100 C"), said("HTTP/1.1 100 C", true));
        let cut = "HTTP/1.1 102 Processing\r\nA: b\r\n";
        assert_eq!(left(cut), said(cut, true));
        // No HTTP is spoken behind this one.
        let switched = "HTTP/1.1 101 Switching Protocols\r\n\r\n";
        assert_eq!(left(switched), said(switched, false));
    }

    #[test]
    fn a_secret_is_no_shorter_than_it_may_be() {
        assert!(WebhookSecret::new(b"0123456789abcdef\n").is_ok());
        assert!(WebhookSecret::new(b"0123456789abcde\n").is_err());
        assert!(WebhookSecret::new(&[b'k'; LONGEST_SECRET + 1]).is_err());
        let secret = WebhookSecret::new(b"0123456789abcdef").unwrap();
        assert_eq!(format!("{secret:?}"), "WebhookSecret");
    }
}
