//! The journal of systemd, by its native protocol: systemd.io/JOURNAL_NATIVE_PROTOCOL.
//!
//! An entry is one datagram of fields. One that is too long for that goes in a sealed memory file, whose descriptor is sent.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, SockType, UnixAddr, sendmsg};
use turnkey_policy::Severity;
use turnkey_report::{Alert, AlertKind};

use super::socket::FoundSocket;
use super::{Receiver, SendError};

/// The longest time that an entry waits for the journal.
const PATIENCE: Duration = Duration::from_secs(1);

/// The journal's socket.
pub struct Journald {
    found: FoundSocket,
    socket: OwnedFd,
}

impl Journald {
    /// Connects.
    pub fn open(found: FoundSocket) -> anyhow::Result<Journald> {
        let socket = found.connect(SockType::Datagram, PATIENCE)?;
        Ok(Journald { found, socket })
    }

    fn send_entry(&self, entry: &[u8]) -> io::Result<()> {
        match send(&self.socket, entry, None) {
            Err(Errno::EMSGSIZE | Errno::ENOBUFS) => {
                let sealed = sealed(entry)?;
                Ok(send(&self.socket, &[], Some(sealed.as_raw_fd()))?)
            }
            other => Ok(other?),
        }
    }
}

impl Receiver for Journald {
    fn send(&mut self, alert: &Alert, line: &[u8]) -> Result<(), SendError> {
        let entry = entry(alert, line);
        match self.send_entry(&entry) {
            Ok(()) => Ok(()),
            // The journal was started anew.
            Err(_) => {
                self.socket = self.found.connect(SockType::Datagram, PATIENCE)?;
                Ok(self.send_entry(&entry)?)
            }
        }
    }
}

fn send(socket: &OwnedFd, bytes: &[u8], file: Option<RawFd>) -> nix::Result<()> {
    let files: Vec<RawFd> = file.into_iter().collect();
    let messages: Vec<ControlMessage<'_>> = match files.is_empty() {
        true => Vec::new(),
        false => vec![ControlMessage::ScmRights(&files)],
    };
    let parts = [IoSlice::new(bytes)];
    let flags = MsgFlags::MSG_NOSIGNAL;
    sendmsg::<UnixAddr>(socket.as_raw_fd(), &parts, &messages, flags, None).map(drop)
}

/// A memory file that nobody can change any more: the journal takes no other.
fn sealed(entry: &[u8]) -> io::Result<File> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file = File::from(memfd_create(c"turnkey-alert", flags)?);
    file.write_all(entry)?;
    let seals = SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_WRITE
        | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file)
}

/// sd-id128(3): ids of the kinds of messages, made by chance once.
fn message_id(kind: AlertKind) -> &'static str {
    match kind {
        AlertKind::Finding => "6f2d1c0a9b3e4f58a7c4d2e15b80f3a6",
        AlertKind::Verdict => "b81e57d3c6a94d0f9e2a7f40d5c1386b",
    }
}

/// syslog(3)
fn priority(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "2",
        Severity::High => "3",
        Severity::Medium => "4",
        Severity::Low => "5",
        Severity::Info => "6",
    }
}

fn entry(alert: &Alert, line: &[u8]) -> Vec<u8> {
    let mut entry = Vec::new();
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    put(&mut entry, "MESSAGE", alert.message.as_bytes());
    put(&mut entry, "MESSAGE_ID", message_id(alert.kind).as_bytes());
    put(&mut entry, "PRIORITY", priority(alert.severity).as_bytes());
    put(&mut entry, "SYSLOG_IDENTIFIER", b"turnkey");
    put(&mut entry, "TURNKEY_ALERT", alert.id.as_bytes());
    for (name, value) in &alert.fields {
        put(&mut entry, &format!("TURNKEY_{name}"), value.as_bytes());
    }
    put(&mut entry, "TURNKEY_JSON", line);
    entry
}

/// A field: `NAME=value`, or with a line break in its value the length of it before.
fn put(entry: &mut Vec<u8>, name: &str, value: &[u8]) {
    entry.extend_from_slice(name.as_bytes());
    if value.contains(&b'\n') {
        entry.push(b'\n');
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        entry.push(b'=');
    }
    entry.extend_from_slice(value);
    entry.push(b'\n');
}
