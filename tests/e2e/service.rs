//! Runs that the service makes for ordinary users.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use turnkey_tests::{Run, SERVED, Service};

mod activated;
mod again;
mod allowance;
mod answers;
mod asked;
mod bounds;
mod callers;
mod check;
mod counted;
mod crowd;
mod descriptors;
mod exchanged;
mod export;
mod flat;
mod follow;
mod jobs;
mod lifetime;
mod lingering;
mod log;
mod ready;
mod requests;
mod signals;
mod sockets;
mod stalled;
mod stalling;
mod sums;

/// A program by a user who may use the service.
fn as_served(service: &Service, program: &str, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .uid(SERVED)
        .gid(SERVED)
        .env("TURNKEY_SOCKET_DIR", service.directory())
        .current_dir(directory);
    command
}

/// True once the client of a caller listens for signals, which it does when it has connected.
fn has_connected(client: &Child) -> bool {
    let descriptors = format!("/proc/{}/fd", client.id());
    let entries = std::fs::read_dir(descriptors).into_iter().flatten();
    let mut links = entries
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.any(|link| link.to_string_lossy().contains("signalfd"))
}

/// The longest time that a run of another user's may take, whatever is done to the service.
const SOON: Duration = Duration::from_secs(10);

/// Makes a run of another user's.
fn serves_others(service: &Service) {
    let began = Instant::now();
    let run = Run::new().option("--quiet --service");
    let mut command = run.command(&["true"]);
    command.env("TURNKEY_SOCKET_DIR", service.directory());
    assert!(command.status().expect("turnkey can be started").success());
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

const ATTACK: &str = include_str!("../attacks/service.py");

/// A program of a caller's that talks to the socket by itself, in `place`, with the functions of the attack.
fn talks(service: &Service, place: &Path, program: &str) -> String {
    std::fs::write(place.join("service.py"), ATTACK).expect("a test writes its own files");
    let mut command = as_served(service, "python3", place);
    let program = format!("import sys; sys.path.insert(0, '.')\nfrom service import *\n{program}");
    told(
        &command
            .args(["-c", &program])
            .output()
            .expect("python3 is there"),
    )
}

fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}
