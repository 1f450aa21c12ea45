//! The guard of a group that must not outlive its watcher: a process of its own, which kills the group when the watcher has ended
//! without letting it go.
//!
//! The guard is another program, not a helper in the watcher's memory as a jail's keeper is: whatever ends processes for their memory would
//! end both at once. It holds nothing but one end of a socket, whose other end is the watcher's alone, and `cgroup.kill`, opened
//! beforehand: the group's name may be another group's by then.

#![expect(unsafe_code, reason = "sigprocmask(2) between fork(2) and execve(2)")]

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::SigSet;

use super::group::{ForeignGroup, gone_is_dead};

/// Written by the guard when it stands, and by the watcher when it lets the group go.
const WORD: [u8; 1] = *b"1";

/// The longest time that a guard may take to stand: it starts a program and makes three calls.
const STARTING: Duration = Duration::from_secs(30);

/// The watcher's side. Dropping it without [`Guard::let_go`] has the group killed.
#[derive(Debug)]
pub struct Guard {
    program: GuardProgram,
    process: Child,
    socket: UnixStream,
}

/// The program of a guard and its arguments: one that calls [`run_guard`] and ends.
#[derive(Clone, Debug)]
pub struct GuardProgram(pub Vec<std::ffi::OsString>);

impl Guard {
    /// Starts one, and waits until it stands.
    ///
    /// # Errors
    /// When it cannot be started: nobody would stay behind.
    pub fn start(program: &GuardProgram, group: &ForeignGroup) -> anyhow::Result<Guard> {
        let (process, socket) =
            started(program, group).context("no process could be started that stays behind")?;
        let mut guard = Guard {
            program: program.clone(),
            process,
            socket,
        };
        guard.await_word()?;
        Ok(guard)
    }

    fn await_word(&mut self) -> anyhow::Result<()> {
        self.socket.set_read_timeout(Some(STARTING))?;
        let read = self.socket.read_exact(&mut [0; WORD.len()]);
        read.context("the process that was to stay behind ended at once")
    }

    /// Puts another in the place of one that has ended. It is not the group's fault that its guard was ended, by somebody or for want
    /// of memory, and so no reason to kill the group.
    ///
    /// # Errors
    /// As [`Guard::start`].
    pub fn replace(&mut self, group: &ForeignGroup) -> anyhow::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        let program = self.program.clone();
        (self.process, self.socket) =
            started(&program, group).context("no process could be started that stays behind")?;
        self.await_word()
    }

    /// Ends it without a kill.
    pub fn let_go(mut self) {
        // A guard that is gone kills nobody either.
        let _ = self.socket.write_all(&WORD);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The loop that waited for its end may have a copy of the descriptor.
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
        let _ = self.process.wait();
    }
}

/// Readable when the guard has ended: it says nothing after its first word.
impl AsFd for Guard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn started(program: &GuardProgram, group: &ForeignGroup) -> io::Result<(Child, UnixStream)> {
    let [name, arguments @ ..] = program.0.as_slice() else {
        return Err(ErrorKind::NotFound.into());
    };
    let (ours, its) = UnixStream::pair()?;
    let mut command = Command::new(name);
    command
        .args(arguments)
        .current_dir("/")
        .stdin(OwnedFd::from(its))
        .stdout(group.open_kill()?)
        .stderr(Stdio::null());
    // What ends a session or a terminal is meant for the watcher, whose end the guard must see. From its first instruction on:
    // one that a signal ended while it starts might be found missing too late.
    let block = || SigSet::all().thread_block().map_err(io::Error::from);
    // SAFETY: one system call, which allocates nothing and takes no lock.
    unsafe { command.pre_exec(block) };
    Ok((command.spawn()?, ours))
}

/// The guard itself: waits on standard input until the watcher lets the group go or has ended, and then writes to standard
/// output, the group's `cgroup.kill`.
///
/// # Errors
/// When its streams are not those that a watcher hands it, or the kernel refuses the kill.
pub fn run_guard() -> anyhow::Result<()> {
    nix::unistd::setsid().context("a watcher starts this")?;
    spare_from_oom();
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    match socket.write_all(&WORD) {
        Ok(()) if is_let_go(&mut socket) => return Ok(()),
        Ok(()) => {}
        // The watcher was killed while this started.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        Err(error) => return Err(error).context("a watcher starts this, and hands it a socket"),
    }
    let mut kill = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    Ok(gone_is_dead(kill.write_all(b"1"))?)
}

/// A group of control groups whose memory is full may be ended whole, the watcher with its guard, but for processes with this value
/// (`memory.oom.group`, cgroups-v2). Who may not set it is ended with the others, as it would be anyway.
#[expect(clippy::disallowed_methods, reason = "of /proc")]
fn spare_from_oom() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
}

/// True when the watcher said so before its end of the socket was closed, by whatever has ended it.
fn is_let_go(socket: &mut UnixStream) -> bool {
    loop {
        match socket.read(&mut [0; WORD.len()]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read.is_ok_and(|count| count == WORD.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_no_word() {
        let (mut ours, mut its) = UnixStream::pair().expect("a pair");
        ours.write_all(&WORD).expect("it takes a byte");
        drop(ours);
        assert!(is_let_go(&mut its), "said before the end");
        let (ours, mut its) = UnixStream::pair().expect("a pair");
        drop(ours);
        assert!(!is_let_go(&mut its));
        // The other side's word was not read: the kernel answers with ECONNRESET.
        let (ours, mut its) = UnixStream::pair().expect("a pair");
        its.write_all(&WORD).expect("it takes a byte");
        drop(ours);
        assert!(!is_let_go(&mut its));
    }
}
