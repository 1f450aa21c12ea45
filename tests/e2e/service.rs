//! Runs that the service makes for ordinary users.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use turnkey_tests::{SERVED, Service};

mod again;
mod allowance;
mod callers;
mod counted;
mod descriptors;
mod exchanged;
mod follow;
mod lifetime;
mod log;
mod requests;
mod stalled;
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
