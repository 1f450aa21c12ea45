//! `turnkey attach --detach`: the same command once more in the background, and an answer when it watches.
//!
//! The other one speaks on this one's standard error until it watches. It says that it does by a byte on its standard input, a socket,
//! and not by what it prints, which may be nothing.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::{dup2_stderr, dup2_stdin};

use crate::cli::AttachArguments;

/// Written when the group is watched.
const WORD: [u8; 1] = *b"1";

/// Refuses outputs to standard output, which the background does not have.
pub fn require_files(arguments: &AttachArguments) -> anyhow::Result<()> {
    const STANDARD: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    for (flag, path) in [("report", &arguments.report), ("events", &arguments.events)] {
        let standard = path.as_deref().and_then(Path::to_str);
        if let Some(name) = standard.filter(|name| STANDARD.contains(name)) {
            anyhow::bail!(
                "--{flag} {name} is standard output, which a watcher that was detached does not have: name a file"
            );
        }
    }
    Ok(())
}

/// Starts this command anew with `--detached`, and waits until it watches or has failed; its status
/// is the answer then.
pub fn detach() -> anyhow::Result<u8> {
    let own = std::env::current_exe().context("turnkey does not find itself")?;
    let arguments = std::env::args_os().skip(1);
    let again = arguments.map(|argument| match argument == "--detach" {
        true => "--detached".into(),
        false => argument,
    });
    let (mut ours, its) = UnixStream::pair().context("no socket could be made")?;
    let mut command = Command::new(own);
    command
        .args(again)
        .stdin(OwnedFd::from(its))
        .stdout(Stdio::null());
    let child = command.spawn();
    // Its own end of the socket is the only one: the other is closed here.
    drop(command);
    let mut child = child.context("turnkey could not be started once more")?;
    match ours.read_exact(&mut [0; WORD.len()]) {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            let status = child.wait().context("it could not be waited for")?;
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            Ok(code.unwrap_or(crate::FAILED))
        }
        Err(error) => Err(error).context("the other turnkey did not say that it watches"),
    }
}

/// Tells the one who waits, and lets go of the caller's standard error before: whoever waits for the end of the one in the foreground
/// may wait for its pipes as well. That this cannot be done keeps nobody waiting.
pub fn tell_that_it_watches() {
    // Nobody is there to be told of a failure, and the group is watched whether or not somebody waits.
    if let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() {
        let _ = let_go_of_streams();
        let _ = UnixStream::from(socket).write_all(&WORD);
    }
}

fn let_go_of_streams() -> nix::Result<()> {
    let nothing = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
    dup2_stderr(&nothing)?;
    dup2_stdin(&nothing)
}
