//! A gate that is asked to end: its run ends before it, and its directory goes.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::own_process;

/// The command that the gate waits for.
static RUNNING: Mutex<Option<Pid>> = Mutex::new(None);
/// The signals by which somebody asks a process to end.
const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

fn running() -> MutexGuard<'static, Option<Pid>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on, a signal that asks this process to end ends the running command, and removes the directory.
///
/// # Errors
/// When the signals cannot be blocked.
pub fn remove_when_asked_to_end(directory: &Path) -> nix::Result<()> {
    let signals: SigSet = SIGNALS.into_iter().collect();
    own_process::note(&SIGNALS);
    signals.thread_block()?;
    let directory = directory.to_owned();
    std::thread::spawn(move || {
        let Ok(signal) = signals.wait() else { return };
        // Kept until the end of this process: nobody starts another command, or is told that this one has ended.
        let running = running();
        if let Some(pid) = *running {
            // Of a run that is killed, its keeper clears away; one that is asked would wait for its program.
            let _ = kill(pid, Signal::SIGKILL);
            let _ = ended(pid);
        }
        let _ = std::fs::remove_dir_all(&directory);
        own_process::end(u8::try_from(128 + signal as i32).unwrap_or(crate::FAILED));
    });
    Ok(())
}

/// Runs a command to its end.
///
/// # Errors
/// When it cannot be started.
pub fn run(command: &mut Command) -> std::io::Result<ExitStatus> {
    let signals: SigSet = SIGNALS.into_iter().collect();
    let mut held = running();
    // A command inherits what is blocked, and so would its programs.
    signals.thread_unblock()?;
    let started = command.spawn();
    signals.thread_block()?;
    if let Some(signal) = own_process::take_noted() {
        kill(Pid::this(), signal)?;
    }
    let mut child = started?;
    let pid = i32::try_from(child.id()).map_err(std::io::Error::other)?;
    let pid = Pid::from_raw(pid);
    *held = Some(pid);
    drop(held);
    ended(pid)?;
    // Its number is nobody else's for as long as it could be killed.
    let mut held = running();
    *held = None;
    child.wait()
}

/// Waits for the end, and leaves the process to be waited for.
fn ended(pid: Pid) -> nix::Result<()> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    loop {
        match waitid(Id::Pid(pid), flags) {
            Err(nix::errno::Errno::EINTR) => {}
            other => return other.map(|_| ()),
        }
    }
}
