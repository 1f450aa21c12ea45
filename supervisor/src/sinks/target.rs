//! The words of `--to`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;

use super::FoundPlace;
use super::https::Curl;
use super::socket::{FoundEndpoint, FoundSocket};
use super::webhook::WebhookSecret;
use crate::files::CallerOutput;

/// The socket of systemd-journald, systemd.io/JOURNAL_NATIVE_PROTOCOL.
const JOURNALD: &str = "/run/systemd/journal/socket";

/// The form of the alerts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertFormat {
    /// `turnkey.alert/v1`
    Native,
    /// OCSF 1.5.0, class 2004.
    Ocsf,
}

/// A receiver, as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkTarget {
    /// The form of the alerts.
    pub format: AlertFormat,
    kind: TargetKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TargetKind {
    Journald(Option<PathBuf>),
    File(PathBuf),
    Http {
        host: String,
        addresses: Vec<SocketAddr>,
        path: String,
    },
    Unix(PathBuf),
    Https {
        host: String,
        url: String,
    },
}

/// The reason why a word of `--to` is none.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No receiver begins so.
    #[error(
        "this is no receiver: journald, file:PATH, webhook:https://HOST/PATH or webhook:http://127.0.0.1:PORT/PATH, each with ocsf+ before \
         it for OCSF"
    )]
    Unknown,
    /// A path is missing, or a relative one.
    #[error("a path belongs here: {0}")]
    Path(&'static str),
    /// A URL of another host.
    #[error(
        "findings would cross the network in clear: write https://, name an address of this host (127.0.0.1, [::1], localhost), or the \
         socket of a relay, such as webhook:unix:/run/turnkey-relay.sock"
    )]
    Remote,
    /// A URL with a password.
    #[error(
        "a password on the command line is everybody's to read: requests are signed instead, see --webhook-secret-file"
    )]
    Password,
    /// A URL that is none.
    #[error(
        "this is no URL of a webhook: webhook:http://HOST:PORT/PATH with printable ASCII alone"
    )]
    Url,
}

impl FromStr for SinkTarget {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<SinkTarget, TargetError> {
        let (format, rest) = match text.strip_prefix("ocsf+") {
            Some(rest) => (AlertFormat::Ocsf, rest),
            None => (AlertFormat::Native, text),
        };
        let (word, of) = match rest.split_once(':') {
            Some((word, of)) => (word, Some(of)),
            None => (rest, None),
        };
        let kind = match (word, of) {
            ("journald", None) => TargetKind::Journald(None),
            ("journald", Some(path)) => {
                TargetKind::Journald(Some(absolute(path, "journald:/ABSOLUTE/PATH")?))
            }
            ("file", Some(path)) if !path.is_empty() => TargetKind::File(path.into()),
            ("file", _) => return Err(TargetError::Path("file:PATH")),
            ("webhook", Some(url)) => webhook(url)?,
            _ => return Err(TargetError::Unknown),
        };
        Ok(SinkTarget { format, kind })
    }
}

fn absolute(path: &str, form: &'static str) -> Result<PathBuf, TargetError> {
    match path.starts_with('/') {
        true => Ok(path.into()),
        false => Err(TargetError::Path(form)),
    }
}

fn webhook(url: &str) -> Result<TargetKind, TargetError> {
    if let Some(path) = url.strip_prefix("unix:") {
        return absolute(path, "webhook:unix:/ABSOLUTE/PATH").map(TargetKind::Unix);
    }
    let (is_https, rest) = match url.strip_prefix("https://") {
        Some(rest) => (true, rest),
        None => (false, url.strip_prefix("http://").ok_or(TargetError::Url)?),
    };
    // They stand in a line of a request.
    if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains('#') {
        return Err(TargetError::Url);
    }
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(at);
    if host.contains('@') {
        return Err(TargetError::Password);
    }
    if is_https {
        return https(host, url);
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => {
            (name, port.parse().map_err(|_| TargetError::Url)?)
        }
        _ => (host, 80),
    };
    let addresses = loopback(name)?.into_iter();
    let path = match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("/{path}"),
    };
    Ok(TargetKind::Http {
        host: host.to_owned(),
        addresses: addresses.map(|ip| SocketAddr::new(ip, port)).collect(),
        path,
    })
}

/// A host by its name or address, and perhaps a port: nothing in it that curl would take for several hosts, as braces are.
fn https(host: &str, url: &str) -> Result<TargetKind, TargetError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_plain) {
        return Err(TargetError::Url);
    }
    Ok(TargetKind::Https {
        host: host.to_owned(),
        url: url.to_owned(),
    })
}

/// No name is looked up: what a name server says is not the caller's word.
fn loopback(name: &str) -> Result<Vec<IpAddr>, TargetError> {
    if name == "localhost" {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let ip: IpAddr = match bare {
        Some(v6) => v6.parse::<Ipv6Addr>().map_err(|_| TargetError::Url)?.into(),
        None => match name.parse::<Ipv4Addr>() {
            Ok(v4) => v4.into(),
            Err(_) if name.is_empty() => return Err(TargetError::Url),
            Err(_) => return Err(TargetError::Remote),
        },
    };
    match ip.is_loopback() {
        true => Ok(vec![ip]),
        false => Err(TargetError::Remote),
    }
}

impl SinkTarget {
    pub(super) fn find(
        &self,
        secret: &impl Fn() -> anyhow::Result<WebhookSecret>,
    ) -> anyhow::Result<FoundPlace> {
        Ok(match &self.kind {
            TargetKind::Journald(path) => {
                let path = path.as_deref().unwrap_or(Path::new(JOURNALD));
                FoundPlace::Socket(FoundSocket::find(path)?)
            }
            TargetKind::File(path) => {
                FoundPlace::File(CallerOutput::find(path).context("it could not be written")?)
            }
            TargetKind::Http {
                host, addresses, ..
            } => {
                let endpoint = FoundEndpoint::Tcp(host.clone(), addresses.clone());
                FoundPlace::Webhook(endpoint, secret()?)
            }
            TargetKind::Https { .. } => FoundPlace::Https(Curl::find()?, secret()?),
            TargetKind::Unix(path) => {
                let endpoint = FoundEndpoint::Unix(FoundSocket::find(path)?);
                FoundPlace::Webhook(endpoint, secret()?)
            }
        })
    }

    /// The whole URL, of one with TLS.
    pub(super) fn url(&self) -> &str {
        match &self.kind {
            TargetKind::Https { url, .. } => url,
            _ => "",
        }
    }

    /// The path that a request names.
    pub(super) fn request_path(&self) -> &str {
        match &self.kind {
            TargetKind::Http { path, .. } => path,
            _ => "/",
        }
    }
}

/// As it was asked for, but for the path of a URL, which may be a secret.
impl fmt::Display for SinkTarget {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.format == AlertFormat::Ocsf {
            write!(to, "ocsf+")?;
        }
        match &self.kind {
            TargetKind::Journald(None) => write!(to, "journald"),
            TargetKind::Journald(Some(path)) => write!(to, "journald:{}", path.display()),
            TargetKind::File(path) => write!(to, "file:{}", path.display()),
            TargetKind::Http { host, .. } => write!(to, "webhook:http://{host}"),
            TargetKind::Https { host, .. } => write!(to, "webhook:https://{host}"),
            TargetKind::Unix(path) => write!(to, "webhook:unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_told_apart_and_told_without_the_path_of_a_url() {
        let told = |text: &str| text.parse::<SinkTarget>().unwrap().to_string();
        for text in [
            "journald",
            "journald:/run/systemd/journal.audit/socket",
            "file:alerts.jsonl",
            "ocsf+file:a,b:c",
            "webhook:http://127.0.0.1:8080",
            "ocsf+webhook:http://[::1]:1",
            "webhook:unix:/run/relay.sock",
            "webhook:https://hooks.example.org:8443",
            "webhook:https://[2001:db8::1]",
        ] {
            assert_eq!(told(text), text);
        }
        assert_eq!(
            told("webhook:http://localhost/hooks/SECRET?x=y"),
            "webhook:http://localhost"
        );
        assert_eq!(
            told("ocsf+webhook:https://hooks.example.org/T0/SECRET"),
            "ocsf+webhook:https://hooks.example.org"
        );
        let path = |text: &str| {
            let target: SinkTarget = text.parse().unwrap();
            target.request_path().to_owned()
        };
        assert_eq!(path("webhook:http://localhost/hooks?x=y"), "/hooks?x=y");
        assert_eq!(path("webhook:http://localhost?x=y"), "/?x=y");
        assert_eq!(path("webhook:http://localhost"), "/");
    }

    #[test]
    fn nothing_goes_elsewhere_in_clear_and_nothing_is_guessed() {
        let refused = |text: &str| text.parse::<SinkTarget>().unwrap_err();
        for remote in [
            "http://example.org/x",
            "http://10.0.0.1/",
            "http://[2001:db8::1]/",
            "http://127.0.0.1.example.org/",
        ] {
            let error = refused(&format!("webhook:{remote}"));
            assert!(matches!(error, TargetError::Remote), "{remote}: {error}");
        }
        for named in ["http://a:b@localhost/", "https://a:b@example.org/"] {
            let error = refused(&format!("webhook:{named}"));
            assert!(matches!(error, TargetError::Password), "{named}: {error}");
        }
        for bad in [
            "ftp://localhost/",
            "http://localhost/a b",
            "http://localhost/\r\nX: y",
            "http://localhost:http/",
            "http://localhost:65536/",
            "http:///x",
            "https:///x",
            "https://{a,b}.example.org/",
            "https://example.org/a b",
        ] {
            let error = refused(&format!("webhook:{bad}"));
            assert!(matches!(error, TargetError::Url), "{bad:?}: {error}");
        }
        for bad in ["", "syslog", "ocsf+", "ocsf+ocsf+journald", "JOURNALD"] {
            assert!(matches!(refused(bad), TargetError::Unknown), "{bad}");
        }
        for bad in ["file:", "file", "journald:x", "webhook:unix:x"] {
            assert!(matches!(refused(bad), TargetError::Path(_)), "{bad}");
        }
    }
}
