//! A webhook behind TLS: each alert is a request that curl sends, where it is installed.
//!
//! TLS is curl's, with the certificates that the host trusts and the settings of the caller's environment (a proxy, `CURL_CA_BUNDLE`). The
//! URL, which may be a secret, and the signature stand in no list of arguments, which every user can read: curl reads them from its
//! standard input.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use turnkey_jailer::foreign;
use turnkey_jailer::paths::{self, LastSymlink};
use turnkey_report::Alert;

use super::webhook::{WebhookSecret, headers, judge};
use super::{Receiver, SendError};

/// The longest time that one request may take: two handshakes with the other side of the world, and an answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// The time beyond for curl itself, which is killed then.
const GRACE: Duration = Duration::from_millis(500);
/// The time between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(5);
/// Bytes of what it says that are read.
const WORDS: u64 = 512;
/// The places of it, of which the first is taken: `PATH` is for whoever types a command, and this is not one.
const PLACES: [&str; 3] = [
    "/usr/bin/curl",
    "/usr/local/bin/curl",
    "/run/current-system/sw/bin/curl",
];

/// The program curl.
#[derive(Debug)]
pub struct Curl(OwnedFd);

impl Curl {
    /// Finds it, by no way that another user can turn.
    ///
    /// # Errors
    /// When it is not installed, or not to be trusted; with the way out.
    pub fn find() -> anyhow::Result<Curl> {
        Curl::find_in(&PLACES)
    }

    fn find_in(places: &[&str]) -> anyhow::Result<Curl> {
        let Some(place) = places.iter().find(|place| Path::new(place).exists()) else {
            bail!(
                "turnkey speaks no TLS itself and sends to https:// by curl, which is not installed (it would be {}): install it, or \
                 send to a relay on this host, as docs/guide/sinks.md shows",
                places.join(" or ")
            );
        };
        let program = paths::open(Path::new(place), LastSymlink::Follow)
            .with_context(|| format!("{place} is not trusted"))?;
        let stat = nix::sys::stat::fstat(&program)?;
        anyhow::ensure!(
            paths::is_trusted(stat.st_uid) && stat.st_mode & 0o022 == 0,
            "{place} is another user's to change: make it root's alone"
        );
        Ok(Curl(program))
    }

    /// Has it do what `settings` say, with no settings of its own; its words and whether it was well.
    fn run(&self, settings: &[u8]) -> io::Result<Result<String, CurlError>> {
        let mut command = Command::new(format!("/proc/self/fd/{}", self.0.as_raw_fd()));
        command
            .arg0("curl")
            .args(["--disable", "--config", "-"])
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = foreign::spawn(&mut command)?;
        let deadline = Instant::now() + PATIENCE + GRACE;
        let ended = talk(&mut child, settings, deadline);
        // Of one that has ended this says so, which is as good.
        let _ = child.kill();
        let status = child.wait()?;
        let said = |from: Option<&mut dyn Read>| {
            let mut text = Vec::new();
            let read = from.map(|from| from.take(WORDS).read_to_end(&mut text));
            read.transpose()
                .map(|_| String::from_utf8_lossy(&text).trim().to_owned())
        };
        if !ended? {
            return Ok(Err(CurlError::late()));
        }
        if status.success() {
            return Ok(Ok(said(child.stdout.as_mut().map(|pipe| pipe as _))?));
        }
        Ok(Err(CurlError {
            code: status.code(),
            words: said(child.stderr.as_mut().map(|pipe| pipe as _))?,
        }))
    }
}

/// Hands it its settings, and waits for its end; false when it has not ended by then.
fn talk(child: &mut Child, settings: &[u8], deadline: Instant) -> io::Result<bool> {
    // It reads all of them before it does anything.
    if let Some(mut input) = child.stdin.take() {
        match input.write_all(settings) {
            // It has ended, and says why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written?,
        }
    }
    while Instant::now() < deadline {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        thread::sleep(LOOK);
    }
    Ok(false)
}

/// The reason that curl gives.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
struct CurlError {
    code: Option<i32>,
    words: String,
}

impl CurlError {
    fn late() -> CurlError {
        CurlError {
            code: None,
            words: "it did not answer in time".to_owned(),
        }
    }

    /// True for what is the same the next time: a certificate that is not trusted (curl(1), "Exit codes").
    fn is_final(&self) -> bool {
        const CERTIFICATES: [i32; 4] = [51, 60, 77, 90];
        self.code.is_some_and(|code| CERTIFICATES.contains(&code))
    }
}

impl From<CurlError> for SendError {
    fn from(error: CurlError) -> SendError {
        match error.is_final() {
            true => SendError::Refused(error.to_string()),
            false => SendError::Again(error.to_string()),
        }
    }
}

/// A receiver of requests behind TLS.
pub struct HttpsWebhook {
    curl: Curl,
    url: String,
    secret: WebhookSecret,
}

impl HttpsWebhook {
    /// Makes sure that somebody listens whose certificate this host trusts.
    pub fn open(curl: Curl, url: &str, secret: WebhookSecret) -> anyhow::Result<HttpsWebhook> {
        let webhook = HttpsWebhook {
            curl,
            url: url.to_owned(),
            secret,
        };
        let connect = [webhook.settings(), b"connect-only\n".to_vec()].concat();
        webhook
            .curl
            .run(&connect)
            .context("curl cannot be started")??;
        Ok(webhook)
    }

    fn settings(&self) -> Vec<u8> {
        let mut settings = format!(
            "silent\nshow-error\ngloboff\nproto = \"=https\"\ntlsv1.2\nmax-time = {}\nmax-filesize = 65536\n",
            PATIENCE.as_secs()
        )
        .into_bytes();
        set(&mut settings, "url", self.url.as_bytes());
        settings
    }

    fn request(&self, alert: &Alert, body: &[u8]) -> Vec<u8> {
        let mut settings = self.settings();
        set(&mut settings, "output", b"/dev/null");
        set(&mut settings, "write-out", b"%{http_code}");
        for header in headers(alert, &self.secret, body) {
            set(&mut settings, "header", header.as_bytes());
        }
        // No answer is waited for before the body is sent.
        set(&mut settings, "header", b"Expect:");
        set(&mut settings, "data-raw", body);
        settings
    }
}

/// Adds a setting: in quotes, where a backslash keeps what follows (curl(1), `--config`).
fn set(settings: &mut Vec<u8>, name: &str, value: &[u8]) {
    settings.extend_from_slice(name.as_bytes());
    settings.extend_from_slice(b" = \"");
    for byte in value {
        match byte {
            b'"' | b'\\' => settings.extend_from_slice(&[b'\\', *byte]),
            b'\n' => settings.extend_from_slice(b"\\n"),
            b'\r' => settings.extend_from_slice(b"\\r"),
            other => settings.push(*other),
        }
    }
    settings.extend_from_slice(b"\"\n");
}

impl Receiver for HttpsWebhook {
    fn send(&mut self, alert: &Alert, line: &[u8]) -> Result<(), SendError> {
        let status = self.curl.run(&self.request(alert, line))??;
        let status = status.parse().ok().filter(|status| *status != 0);
        judge(status.ok_or_else(|| SendError::Again("its answer is no HTTP".to_owned()))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_value_whatever_is_in_it() {
        let mut settings = Vec::new();
        set(
            &mut settings,
            "data-raw",
            b"{\"a\":\"\\u0000 b\"}\nurl = \"file:///etc\"\n",
        );
        let expected = br#"data-raw = "{\"a\":\"\\u0000 b\"}\nurl = \"file:///etc\"\n""#;
        assert_eq!(settings, [&expected[..], b"\n"].concat());
    }

    #[test]
    fn without_curl_the_ways_out_are_told() {
        let error = Curl::find_in(&["/no/such/curl"]).unwrap_err().to_string();
        assert!(error.contains("install it, or send to a relay"), "{error}");
    }

    #[test]
    fn a_certificate_is_not_tried_again_and_a_host_that_is_away_is() {
        let error = |code| CurlError {
            code: Some(code),
            words: String::new(),
        };
        for (code, expected) in [
            (60, true),
            (77, true),
            (6, false),
            (7, false),
            (28, false),
            (52, false),
        ] {
            assert_eq!(error(code).is_final(), expected, "{code}");
        }
    }
}
