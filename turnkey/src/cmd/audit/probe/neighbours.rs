//! Other processes of the host, and what they share.

use std::io::{Error, ErrorKind};
use std::os::unix::net::UnixStream;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cmd::audit::finding::{Bait, Criterion};

use super::{Probe, raw, upload};

pub fn probes() -> Vec<Probe> {
    let probes = [
        Probe::new("sees-processes", "sees the processes of the host", |bait| {
            holds_token(&format!("/proc/{}/cmdline", bait.neighbour), bait).into()
        }),
        Probe::new(
            "reads-environment",
            "reads the environment of other processes",
            |bait| holds_token(&format!("/proc/{}/environ", bait.neighbour), bait).into(),
        ),
        Probe::new(
            "reads-memory",
            "reads the memory of other processes",
            |bait| raw::reads_memory(bait.neighbour).into(),
        ),
        Probe::new("signals", "sends signals to other processes", |bait| {
            let sent = kill(Pid::from_raw(bait.neighbour), Signal::SIGWINCH);
            sent.map(|()| format!("SIGWINCH to process {}", bait.neighbour))
                .into()
        })
        .seen_outside(),
        Probe::new(
            "socket-file",
            "talks to services by sockets in the host's directories",
            |bait| {
                let path = bait.folder.join("socket");
                let sent = UnixStream::connect(&path)
                    .and_then(|stream| upload::send_by(stream, bait, "socket-file"));
                sent.map(|()| path.display().to_string()).into()
            },
        )
        .seen_outside(),
        Probe::new(
            "abstract-socket",
            "talks to services by abstract sockets",
            |bait| {
                let sent = upload::abstract_socket(bait, "abstract-socket");
                sent.map(|()| format!("@{}", bait.name)).into()
            },
        )
        .seen_outside(),
        Probe::new(
            "shared-memory",
            "reads shared memory of other programs",
            |bait| holds_token(&format!("/dev/shm/{}", bait.name), bait).into(),
        ),
        Probe::new(
            "temporary-files",
            "reads temporary files of other programs",
            |bait| {
                let path = bait.folder.join("secret");
                holds_token(&path.to_string_lossy(), bait).into()
            },
        ),
    ];
    probes
        .into_iter()
        .map(|probe| probe.with_criterion(Criterion::Neighbours))
        .collect()
}

/// A file can be read, and it is the host's: the token is in it.
pub fn holds_token(path: &str, bait: &Bait) -> Result<String, Error> {
    let found = contains_token(&std::fs::read(path)?, bait);
    let other = || Error::new(ErrorKind::NotFound, format!("{path} is another one here"));
    found.then(|| path.to_owned()).ok_or_else(other)
}

/// The token is somewhere in these bytes.
pub fn contains_token(content: &[u8], bait: &Bait) -> bool {
    let token = bait.token.as_bytes();
    content.windows(token.len()).any(|part| part == token)
}
