//! Proof, before every run, that a kill and a refusal really happen in this kernel now.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode as FileMode;
use nix::sys::wait::{WaitStatus, waitpid};
use turnkey_abi::Table;
use turnkey_policy::{Access, Action, Glob, Mode, On, Rule, Severity};

use crate::compile::compile_rules;
use crate::event::{Event, Kind};
use crate::sys::{canary_status, spawn_canary};

/// What the canary proved, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof(pub String);

/// Why enforcement could not be proved. The run must not start.
#[derive(Debug, thiserror::Error)]
pub enum CanaryError {
    /// Preparing failed.
    #[error("the canary could not be prepared: {step}")]
    Prepare {
        /// What failed.
        step: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The child could not do its part.
    #[error(
        "the canary could not {0}: check that the cgroup is a leaf of a writable cgroup v2 hierarchy"
    )]
    Hindered(&'static str),
    /// The network hook does not refuse.
    #[error(
        "a connect that a rule denies was not refused: cgroup programs do not act on this kernel"
    )]
    NotRefused,
    /// The kill does not happen.
    #[error(
        "an open that a rule kills for did not kill: tracepoint programs do not act on this kernel"
    )]
    NotKilled,
    /// It ended otherwise.
    #[error("the canary ended in a way that proves nothing: {0}")]
    Unclear(String),
    /// Nothing was recorded.
    #[error("the canary was stopped, but the ring holds no record of its {0}")]
    NotRecorded(&'static str),
}

pub(crate) const PATH: &std::ffi::CStr = c"/turnkey-canary";
const ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9);

/// The rules that the canary breaks.
pub(crate) fn table() -> Result<Box<Table>, CanaryError> {
    let glob = Glob::parse(&PATH.to_string_lossy()).map_err(prepare("its rules"))?;
    let open = rule(On::Open, vec![glob], Action::Kill);
    let connect = rule(On::Connect, Vec::new(), Action::Deny);
    compile_rules(&[open, connect], Mode::Enforce).map_err(prepare("its rules"))
}

fn rule(on: On, path: Vec<Glob>, action: Action) -> Rule {
    Rule {
        id: String::from("canary"),
        on: [on].into(),
        path,
        access: [Access::Read].into(),
        action,
        severity: Severity::Info,
        technique: None,
        why: String::from("proves at start that rules act"),
    }
}

pub(crate) fn prepare<E>(step: &'static str) -> impl Fn(E) -> CanaryError
where
    E: std::error::Error + Send + Sync + 'static,
{
    move |source| CanaryError::Prepare {
        step,
        source: Box::new(source),
    }
}

/// Lets a child break both rules inside the cgroup, and checks how it ended.
pub(crate) fn fly(cgroup: BorrowedFd<'_>) -> Result<(), CanaryError> {
    let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let procs = openat(cgroup, c"cgroup.procs", flags, FileMode::empty());
    let procs = File::from(procs.map_err(prepare("opening cgroup.procs"))?);
    let child = spawn_canary(procs.as_fd(), ADDRESS, PATH).map_err(prepare("making a process"))?;
    judge(wait(child).map_err(prepare("waiting for it"))?)
}

fn wait(child: nix::unistd::Pid) -> nix::Result<WaitStatus> {
    loop {
        match waitpid(child, None) {
            Err(Errno::EINTR) => {}
            ended => return ended,
        }
    }
}

fn judge(ended: WaitStatus) -> Result<(), CanaryError> {
    match ended {
        WaitStatus::Signaled(_, Signal::SIGKILL, _) => Ok(()),
        WaitStatus::Exited(_, canary_status::OUTSIDE) => {
            Err(CanaryError::Hindered("enter its cgroup"))
        }
        WaitStatus::Exited(_, canary_status::NO_SOCKET) => {
            Err(CanaryError::Hindered("make a socket"))
        }
        WaitStatus::Exited(_, canary_status::CONNECTED) => Err(CanaryError::NotRefused),
        WaitStatus::Exited(_, canary_status::ALIVE) => Err(CanaryError::NotKilled),
        other => Err(CanaryError::Unclear(format!("{other:?}"))),
    }
}

/// Checks that both attempts were recorded, with what was decided on them.
pub(crate) fn recorded(events: &[Event]) -> Result<Proof, CanaryError> {
    let decided =
        |event: &Event, action| event.decision.is_some_and(|taken| taken.action == action);
    let connect =
        |event: &&Event| matches!(event.kind, Kind::Network { .. }) && decided(event, Action::Deny);
    let open =
        |event: &&Event| matches!(event.kind, Kind::Open { .. }) && decided(event, Action::Kill);
    events
        .iter()
        .find(connect)
        .ok_or(CanaryError::NotRecorded("connect"))?;
    events
        .iter()
        .find(open)
        .ok_or(CanaryError::NotRecorded("open"))?;
    Ok(Proof(format!(
        "a child that connected to {ADDRESS} got EPERM, and died by SIGKILL when it opened {}; both were recorded",
        PATH.to_string_lossy()
    )))
}
