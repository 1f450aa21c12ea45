//! Ways for data to leave, or to stay after the run.

use std::fs::File;
use std::io::{Error, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;

use crate::cmd::audit::finding::{Bait, Criterion, Finding};

use super::Probe;
use super::network::message;

pub fn probes() -> Vec<Probe> {
    let probes = [
        Probe::new("writes-to-tmp", "leaves files in the host's /tmp", |bait| {
            leave(&bait.folder, "writes-to-tmp", bait).into()
        }),
        Probe::new(
            "writes-to-home",
            "leaves files in the caller's home",
            |bait| match &bait.home {
                Some(home) => leave(home, "writes-to-home", bait).into(),
                None => Finding::unknown("the caller has no home that a file could be put into"),
            },
        ),
        Probe::new(
            "writes-here",
            "leaves files in the directory where it was started",
            |bait| {
                let here = std::env::current_dir();
                here.and_then(|here| leave(&here, "writes-here", bait))
                    .into()
            },
        ),
    ];
    let probes = probes.into_iter().map(Probe::seen_outside);
    probes
        .map(|probe| probe.with_criterion(Criterion::Upload))
        .collect()
}

/// The name of the file that a probe leaves behind.
pub fn left_name(token: &str, probe: &str) -> String {
    format!(".{token}-{probe}")
}

/// Leaves a file in a directory.
pub fn leave(folder: &Path, probe: &str, bait: &Bait) -> Result<String, Error> {
    let path = folder.join(left_name(&bait.token, probe));
    File::create_new(&path)?.write_all(message(bait, probe).as_bytes())?;
    Ok(folder.display().to_string())
}

/// Sends the token over a socket.
pub fn send_by(mut stream: UnixStream, bait: &Bait, probe: &str) -> Result<(), Error> {
    stream.write_all(message(bait, probe).as_bytes())
}

/// Sends the token by the abstract socket.
pub fn abstract_socket(bait: &Bait, probe: &str) -> Result<(), Error> {
    let address = SocketAddr::from_abstract_name(&bait.name)?;
    send_by(UnixStream::connect_addr(&address)?, bait, probe)
}
