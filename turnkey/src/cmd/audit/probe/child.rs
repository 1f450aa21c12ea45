//! A try in a process of its own, which it may change or lose.

#![expect(unsafe_code, reason = "fork(2): the probe has one thread")]

use std::io::{Read, Write};
use std::time::Duration;

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork, pipe};

use crate::cmd::audit::finding::Finding;

/// Tries it in a child. A child that a signal ended was stopped by whoever sent it.
pub fn in_child(tried: impl FnOnce() -> Finding) -> Finding {
    let Ok((reader, writer)) = pipe() else {
        return Finding::unknown("no pipe can be made");
    };
    // SAFETY: the probe has one thread, so that no lock is held; the child ends by _exit(2).
    match unsafe { fork() } {
        Err(error) => Finding::unknown(format!("no process can be made for it: {error}")),
        Ok(ForkResult::Child) => {
            drop(reader);
            let text = serde_json::to_vec(&tried()).unwrap_or_default();
            let _ = std::fs::File::from(writer).write_all(&text);
            crate::own_process::end(0)
        }
        Ok(ForkResult::Parent { child }) => {
            drop(writer);
            let mut text = Vec::new();
            let _ = std::fs::File::from(reader).read_to_end(&mut text);
            match waitpid(child, None) {
                Ok(WaitStatus::Signaled(_, signal, _)) => {
                    Finding::stopped(format!("the process died of {signal}"))
                }
                _ => serde_json::from_slice(&text)
                    .unwrap_or_else(|_| Finding::unknown("the process said nothing")),
            }
        }
    }
}

/// Starts a process that goes on by itself after this one ended, and speaks and ends after a while.
pub fn left_behind(after: Duration, does: impl FnOnce()) -> Result<(), nix::Error> {
    // SAFETY: as above.
    match unsafe { fork() }? {
        ForkResult::Child => {
            let _ = nix::unistd::setsid();
            // Nobody waits for the output of a sandbox's program that is over.
            if let Ok(null) = rustix::fs::open(
                "/dev/null",
                rustix::fs::OFlags::RDWR,
                rustix::fs::Mode::empty(),
            ) {
                let _ = rustix::stdio::dup2_stdin(&null);
                let _ = rustix::stdio::dup2_stdout(&null);
                let _ = rustix::stdio::dup2_stderr(&null);
            }
            std::thread::sleep(after);
            does();
            crate::own_process::end(0)
        }
        ForkResult::Parent { .. } => Ok(()),
    }
}

/// A process that does nothing until it is killed, or its maker ends.
pub fn stays() -> Result<nix::unistd::Pid, nix::Error> {
    // SAFETY: as above.
    match unsafe { fork() }? {
        ForkResult::Child => {
            let _ = nix::sys::prctl::set_pdeathsig(Some(nix::sys::signal::Signal::SIGKILL));
            loop {
                nix::unistd::pause();
            }
        }
        ForkResult::Parent { child } => Ok(child),
    }
}
