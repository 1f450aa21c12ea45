//! Proof, before every run, that a kill and a refusal really happen in this kernel now.

pub(crate) mod single;

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use turnkey_policy::{AttemptKind, EnforcementMode, Glob, OpenAccess, Rule, RuleAction, Severity};

use crate::error::CanaryError;
use crate::object::ObjectFile;
use crate::rule_table::RuleTable;
use crate::shared::kept_table;
use crate::sys::{CanaryEnd, Flight, PATH_ROOM, REFUSED, canary_status, spawn_canary};
use turnkey_facts::{Event, Kind, NetworkAct};

/// The canary's proof, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof(pub String);

const DEADLY: &CStr = c"/turnkey-canary";
/// A file that is there everywhere.
const DENIED_FILE: &CStr = c"/";
const DENIED_PROGRAM: &CStr = c"/proc/self/exe";
const ABSENT: &CStr = c"/turnkey-absent";
const _: () = assert!(DEADLY.count_bytes() < PATH_ROOM && DENIED_FILE.count_bytes() < PATH_ROOM);
/// Port of the discard service, which forgets what a canary sends.
const PORT: u16 = 9;

/// The rules that the canary breaks.
pub(crate) fn table(object: &ObjectFile<'_>) -> Result<RuleTable, CanaryError> {
    let path = |path: &CStr| Glob::parse(&path.to_string_lossy()).map_err(prepare("its rules"));
    let rules = [
        rule(AttemptKind::Connect, Vec::new(), RuleAction::Deny),
        rule(
            AttemptKind::Open,
            vec![path(DENIED_FILE)?],
            RuleAction::Deny,
        ),
        rule(
            AttemptKind::Exec,
            vec![path(DENIED_PROGRAM)?],
            RuleAction::Deny,
        ),
        rule(AttemptKind::Open, vec![path(DEADLY)?], RuleAction::Kill),
        rule(AttemptKind::Exec, vec![path(DEADLY)?], RuleAction::Kill),
        // Without a path: memory that holds no file.
        rule(AttemptKind::Map, Vec::new(), RuleAction::Kill),
    ];
    kept_table(object, &rules, EnforcementMode::Enforce).map_err(prepare("its rules"))
}

fn rule(on: AttemptKind, path: Vec<Glob>, action: RuleAction) -> Rule {
    Rule {
        path,
        access: [OpenAccess::Read].into(),
        severity: Severity::Info,
        why: String::from("proves at start that rules act"),
        ..Rule::new("canary", [on], action)
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

/// The step in which the canary's process is made, for an error's text.
const BIRTH: &str =
    "making a process in its cgroup, which must be a leaf of a writable cgroup v2 hierarchy";

/// Lets a child break the rules inside the cgroup, and checks how it ended.
pub(crate) fn fly(cgroup: BorrowedFd<'_>, end: CanaryEnd, hooks: bool) -> Result<(), CanaryError> {
    let flight = Flight {
        port: PORT,
        denied: hooks.then_some((DENIED_FILE, DENIED_PROGRAM)),
        deadly: DEADLY,
        absent: ABSENT,
        end,
    };
    let child = spawn_canary(cgroup, &flight).map_err(prepare(BIRTH))?;
    let ended = wait(child).map_err(prepare("waiting for it"))?;
    match (end, ended) {
        (CanaryEnd::Natural(_), WaitStatus::Exited(_, 0)) => Ok(()),
        (CanaryEnd::Natural(_), WaitStatus::Exited(_, canary_status::ALIVE)) => Err(
            CanaryError::Hindered("execute a program in memory (is vm.memfd_noexec 2?)"),
        ),
        (CanaryEnd::Natural(_), WaitStatus::Signaled(..)) => {
            Err(CanaryError::Unclear(format!("{ended:?}")))
        }
        _ => judge(ended),
    }
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
        WaitStatus::Exited(_, canary_status::NO_SOCKET) => {
            Err(CanaryError::Hindered("make a socket"))
        }
        WaitStatus::Exited(_, canary_status::NO_CHILD) => {
            Err(CanaryError::Hindered("make a process"))
        }
        WaitStatus::Exited(_, canary_status::OPENED) => Err(CanaryError::NotDenied("an open")),
        WaitStatus::Exited(_, canary_status::EXECUTED) => Err(CanaryError::NotDenied("an exec")),
        WaitStatus::Exited(_, canary_status::ALIVE) => Err(CanaryError::NotKilled),
        WaitStatus::Exited(_, status) => Err(not_refused(status)),
        other => Err(CanaryError::Unclear(format!("{other:?}"))),
    }
}

fn not_refused(status: i32) -> CanaryError {
    let index = usize::try_from(status - canary_status::NOT_REFUSED).ok();
    match index.and_then(|index| REFUSED.get(index)) {
        Some(act) => CanaryError::NotRefused(act),
        None => CanaryError::Unclear(format!("exit status {status}")),
    }
}

/// Checks that every attempt was recorded, with what was decided on it: each kind of record shows
/// that one more program looks.
pub(crate) fn recorded(events: &[Event], hooks: bool, mapped: bool) -> Result<Proof, CanaryError> {
    let has = |kind: fn(&Kind) -> bool, action: RuleAction| {
        events.iter().any(|event| {
            kind(&event.kind) && event.decision.is_some_and(|taken| taken.action == action)
        })
    };
    let any = |kind: fn(&Kind) -> bool| events.iter().any(|event| kind(&event.kind));
    let connect = |kind: &Kind| is_refused(kind, NetworkAct::Connect);
    let open = |kind: &Kind| matches!(kind, Kind::Open { .. });
    // Afterwards it is known to have failed.
    let begun = |kind: &Kind| matches!(kind, Kind::Open { errno: 0, .. });
    let exec = |kind: &Kind| matches!(kind, Kind::ExecAttempt { .. });
    let map = |kind: &Kind| matches!(kind, Kind::Map { .. });
    let expected: [(&'static str, bool); 11] = [
        ("connect", has(connect, RuleAction::Deny)),
        ("bind", any(|kind| is_refused(kind, NetworkAct::Bind))),
        ("datagram", any(|kind| is_refused(kind, NetworkAct::Send))),
        // Told when the call returns.
        (
            "raw socket",
            any(|kind| matches!(kind, Kind::Refused { .. })),
        ),
        ("child", any(|kind| matches!(kind, Kind::Fork { .. }))),
        ("end", any(|kind| matches!(kind, Kind::Exit { .. }))),
        // Told when the call begins.
        ("deadly open", has(begun, RuleAction::Kill)),
        ("deadly exec", has(exec, RuleAction::Kill)),
        ("deadly mapping", !mapped || has(map, RuleAction::Kill)),
        ("denied open", !hooks || has(open, RuleAction::Deny)),
        ("denied exec", !hooks || has(exec, RuleAction::Deny)),
    ];
    if let Some((missing, _)) = expected.iter().find(|(_, recorded)| !recorded) {
        return Err(CanaryError::NotRecorded(missing));
    }
    let refused = if hooks {
        ", and when it opened and executed what is denied"
    } else {
        ""
    };
    let thirds = if mapped {
        ", and a third when it mapped executable memory"
    } else {
        ""
    };
    Ok(Proof(format!(
        "a child that connected, bound, sent and asked for a raw socket got EPERM{refused}, and died by SIGKILL when it opened {deadly}, \
         another when it executed it{thirds}; all were recorded",
        deadly = DEADLY.to_string_lossy()
    )))
}

fn is_refused(kind: &Kind, what: NetworkAct) -> bool {
    matches!(kind, Kind::Network { act, errno: libc::EPERM, .. } if *act == what)
}
