//! A process that makes one run, as the listener has it: started before anybody asks, given a caller, gone with the run.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::Context;
use rustix::net::{AddressFamily, SocketFlags, socketpair};
use turnkey_jailer::foreign::{self, ForeignSocket};
use turnkey_supervisor::service::{HandedCaller, LINE_TYPE, Packet, PacketLine, RunClaim};

use super::queue::QueuedCaller;

/// The nice value of a process that stands ready.
const LEAST: i32 = 19;

/// A caller's connection, on which anything may be queued.
pub type CallerLine = PacketLine<ForeignSocket<OwnedFd>>;

/// The process.
pub struct RunMaker {
    process: Child,
    /// Closed by its end, and by that of whoever clears away behind it.
    line: PacketLine,
    state: MakerState,
    /// True when it keeps the monitor's programs attached from its start.
    pub keeps_attached: bool,
}

/// The use that a process is put to.
enum MakerState {
    Ready,
    Serves(ServedRun),
    /// Ends, and has given its caller back.
    Leaves,
}

/// A caller that waits, or is given to a process.
pub struct WaitingCaller {
    /// The connection.
    pub line: CallerLine,
    /// The process that connected.
    pub process: u32,
    /// The claim that its run has made in vain; nothing as long as nobody has read its request.
    pub claim: RunClaim,
    /// True once it has been told that it waits.
    pub is_told: Cell<bool>,
}

/// A run that a process makes.
pub struct ServedRun {
    /// The user for whom.
    pub user: u32,
    /// The number of the request.
    pub number: u64,
    /// True when its process writes a line if the caller gets no run.
    pub has_lines: bool,
    /// The time when it was given the caller.
    pub since: Instant,
    /// The claim that it has; before it has claimed anything, what is kept for it.
    pub claim: RunClaim,
    /// The caller, until the run has what it claims.
    caller: Option<WaitingCaller>,
}

/// A word of a process, or its end.
pub enum MakerWord {
    /// A claim.
    Claims(RunClaim),
    /// The end, which the process is at.
    Ends,
}

impl RunMaker {
    /// Starts one, at the lowest priority, which it keeps until it is given a caller: whoever gets ready keeps no run waiting.
    ///
    /// # Errors
    /// When the system has no process for it.
    pub fn start(config: Option<&Path>, keeps_attached: bool) -> anyhow::Result<RunMaker> {
        let (own, its) = socketpair(AddressFamily::UNIX, LINE_TYPE, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg("serve-run");
        command.args(["--service", &std::process::id().to_string()]);
        if let Some(file) = config {
            command.arg("--config").arg(file);
        }
        if keeps_attached {
            command.arg("--after-a-run");
        }
        // Of whoever has started the service nothing reaches a run.
        command.env_clear().current_dir("/").stdin(Stdio::from(its));
        let process =
            spawn_in_the_background(&mut command).context("could not start a process for a run")?;
        Ok(RunMaker {
            process,
            line: own.into(),
            state: MakerState::Ready,
            keeps_attached,
        })
    }

    /// Gives it a caller; `has_lines` when the log has room for a line about it if it gets no run.
    pub fn give(&mut self, caller: QueuedCaller<WaitingCaller>, has_lines: bool) {
        let QueuedCaller {
            user,
            number,
            caller,
        } = caller;
        // One that has died since takes nothing: the caller sees the connection end.
        let line = caller.line.as_fd();
        let handed = HandedCaller { number, has_lines };
        let _ = self.line.send(&Packet::Caller(handed), &[line], false);
        self.state = MakerState::Serves(ServedRun {
            user,
            number,
            has_lines,
            since: Instant::now(),
            claim: caller.claim,
            caller: Some(caller),
        });
    }

    /// Gives the run what it claims; the process alone has its caller from here on.
    pub fn grant(&mut self, claim: RunClaim) {
        if let MakerState::Serves(run) = &mut self.state {
            run.claim = claim;
            run.caller = None;
            let _ = self.line.send(&Packet::Granted, &[], false);
        }
    }

    /// Takes its caller back, whose run cannot be made yet: the process ends without it.
    pub fn take_back(&mut self) -> Option<QueuedCaller<WaitingCaller>> {
        let _ = self.line.send(&Packet::Waits(String::new()), &[], false);
        match std::mem::replace(&mut self.state, MakerState::Leaves) {
            MakerState::Serves(run) => run.caller.map(|caller| QueuedCaller {
                user: run.user,
                number: run.number,
                caller,
            }),
            MakerState::Ready | MakerState::Leaves => None,
        }
    }

    /// Takes what it has said, once its line says that there is something.
    pub fn hear(&mut self) -> MakerWord {
        match self.line.receive(None) {
            Ok(Some(Ok((Packet::Claim(claim), _)))) => return MakerWord::Claims(claim),
            // It has closed its line with its last act.
            Ok(None) => {}
            // Nothing that it ever says.
            _ => self.kill(),
        }
        MakerWord::Ends
    }

    /// The run that it makes, if it makes one.
    pub fn run(&self) -> Option<&ServedRun> {
        match &self.state {
            MakerState::Serves(run) => Some(run),
            MakerState::Ready | MakerState::Leaves => None,
        }
    }

    /// True while it stands ready.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, MakerState::Ready)
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Kills it, and does not wait for it.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
    }

    /// Kills it and waits for its end.
    pub fn end(&mut self) {
        self.kill();
        let _ = self.process.wait();
    }

    /// The way in which it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }
}

impl AsFd for RunMaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}

fn spawn_in_the_background(command: &mut Command) -> std::io::Result<Child> {
    let own = rustix::process::getpriority_process(None)?;
    command.args(["--nice", &own.to_string()]);
    rustix::process::setpriority_process(None, LEAST)?;
    let spawned = foreign::spawn(command);
    rustix::process::setpriority_process(None, own)?;
    spawned
}
