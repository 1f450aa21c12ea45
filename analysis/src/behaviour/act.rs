//! An event as detectors look at it: what was wanted, whichever way it went.

use std::borrow::Cow;

use turnkey_policy::address::is_own;
use turnkey_policy::{AttemptKind, RuleAction, WORKSPACE};

use super::process_state::ProcessState;
use turnkey_facts::dns::{self, Question};
use turnkey_facts::{Address, Event, File, Kind, NamingCall, NetworkAct, Raw};

/// `O_*` of open(2), as the kernel's table for this CPU has them.
mod flag {
    pub const ACCESS: u32 = 0o3;
    pub const WRITE_ONLY: u32 = 0o1;
    pub const READ_WRITE: u32 = 0o2;
    pub const CREATE: u32 = 0o100;
    pub const TRUNCATE: u32 = 0o1000;
    pub const APPEND: u32 = 0o2000;
    pub const DIRECTORY: u32 = 0o200_000;
    pub const PATH: u32 = 0o10_000_000;
}

/// `SOCK_STREAM`
const STREAM: u32 = 1;
/// The port of name servers.
const NAME_SERVER: u16 = 53;
/// The code with which a shell ends, or the copy of itself that was to become a command, when there is no such program: sh(1p).
const NOT_FOUND: i32 = 127;
/// `EINPROGRESS`: connect(2) of a socket that does not wait.
const IN_PROGRESS: i32 = 115;

/// An event and what it means.
#[derive(Debug)]
pub struct ObservedAct<'e> {
    /// The event that tells of it.
    pub event: &'e Event,
    /// The attempt.
    pub what: Operation<'e>,
}

/// An attempt, whichever way it went.
#[derive(Debug)]
pub enum Operation<'e> {
    /// A program was started.
    Executed {
        /// The file that runs, and whether a directory names it.
        file: &'e File,
        /// The script that it interprets.
        script: Option<Cow<'e, [u8]>>,
        /// The arguments.
        argv: &'e [Vec<u8>],
    },
    /// A program was to be started, and was not.
    Execution(Cow<'e, [u8]>),
    /// A file or directory was opened, or was to be.
    Opened(Opened<'e>),
    /// A name in a directory was changed, or was to be.
    Changed {
        /// `Link`, `Rename`, `Unlink`, `Chmod` or `Attribute`.
        on: AttemptKind,
        /// The name.
        path: Cow<'e, [u8]>,
        /// The new name.
        new: Option<Cow<'e, [u8]>>,
        /// The mode that was to be set, by a call that sets one: chmod(2).
        mode: Option<u32>,
        /// The outcome.
        outcome: ActOutcome,
    },
    /// A file of this name may not be written, which was asked by access(2): whoever asks first tries only what may be.
    MayNotWrite(Cow<'e, [u8]>),
    /// A file or directory of this name, which is not there, was to be watched: inotify_add_watch(2). Whether one that is there is
    /// watched is told under a rule of its own alone.
    WatchedInVain(Cow<'e, [u8]>),
    /// A file of this name, which is not there, was asked about by another of these calls.
    LookedForInVain(Cow<'e, [u8]>),
    /// An address was spoken to, or was to be: connect or send.
    Spoke {
        /// The address.
        address: &'e Address,
        /// True when it was let through. Whether somebody answered is not known.
        done: bool,
    },
    /// An internet address was taken: bind, or listen without one.
    Served,
    /// A name server was asked.
    Asked(Vec<Question>),
    /// A syscall of the watch-list was called.
    Called {
        /// The kernel's name.
        name: &'static str,
        /// The kind that rules know it by.
        on: Option<AttemptKind>,
        /// The first three arguments.
        args: [u64; 3],
    },
    /// An event that no detector looks at.
    Other,
}

/// An open.
#[derive(Debug)]
pub struct Opened<'e> {
    /// The kernel's own path where there is one, else the argument's.
    pub path: Cow<'e, [u8]>,
    /// For reading.
    pub reads: bool,
    /// For writing, or to truncate or create.
    pub writes: bool,
    /// `O_CREAT`
    pub creates: bool,
    /// `O_TRUNC`
    pub truncates: bool,
    /// `O_APPEND`
    pub appends: bool,
    /// `O_DIRECTORY`
    pub directory: bool,
    /// open_by_handle_at(2)
    pub by_handle: bool,
    /// A file of the kernel's own, such as a pidfd: in no directory, and without a name.
    pub nameless: bool,
    /// The outcome.
    pub outcome: ActOutcome,
}

/// The outcome of an attempt on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActOutcome {
    /// The attempt had its effect.
    Done,
    /// The attempt was refused: by a rule, a permission, a file system that is read-only.
    Refused,
    /// There is no such file.
    Absent,
    /// Impossible, whoever had asked for it.
    Failed,
}

impl ActOutcome {
    /// By the kernel's answer, as a positive number.
    fn of(event: &Event, errno: i32) -> Self {
        // As errno(3) names them; x86_64 has the numbers of asm-generic.
        const EPERM: i32 = 1;
        const ENOENT: i32 = 2;
        const EACCES: i32 = 13;
        const EBUSY: i32 = 16;
        const ENOTDIR: i32 = 20;
        const ETXTBSY: i32 = 26;
        const EROFS: i32 = 30;
        let stops = |decision: &turnkey_facts::Decision| {
            matches!(decision.action, RuleAction::Deny | RuleAction::Kill)
        };
        match errno {
            // The kill of a change comes when it is done; who is killed for an open has no use of it.
            0 if is_change(&event.kind) => Self::Done,
            _ if event.decision.as_ref().is_some_and(stops) => Self::Refused,
            0 => Self::Done,
            EPERM | EACCES | EBUSY | ETXTBSY | EROFS => Self::Refused,
            ENOENT | ENOTDIR => Self::Absent,
            _ => Self::Failed,
        }
    }
}

/// True for a change of a name or an attribute.
fn is_change(kind: &Kind) -> bool {
    matches!(kind, Kind::Change { on, .. } if *on != AttemptKind::Stat)
}

impl ActOutcome {
    /// True when it had its effect, or was kept from it by somebody who refuses.
    pub fn is_attempt(self) -> bool {
        matches!(self, Self::Done | Self::Refused)
    }
}

impl Opened<'_> {
    /// True when it had its effect.
    pub fn done(&self) -> bool {
        self.outcome == ActOutcome::Done
    }
}

impl<'e> ObservedAct<'e> {
    /// True when it had its effect. Of one that was killed for it nobody had any use.
    pub fn is_done(&self) -> bool {
        match &self.what {
            Operation::Executed { .. } => true,
            Operation::Opened(opened) => opened.done(),
            Operation::Changed { outcome, .. } => *outcome == ActOutcome::Done,
            Operation::Spoke { done, .. } => *done,
            _ => false,
        }
    }

    /// The act that `event` tells of. The state knows of it from now on.
    pub(super) fn from_event(event: &'e Event, state: &mut ProcessState) -> Self {
        let what = match &event.kind {
            Kind::Exec {
                file,
                raw,
                script,
                argv,
                ..
            } => Operation::Executed {
                file,
                script: raw.as_deref().filter(|_| *script).map(absolute),
                argv,
            },
            Kind::Exit { status } if *status == NOT_FOUND << 8 => match state.sought(&event.task) {
                Some(path) => Operation::Execution(Cow::Owned(path.to_vec())),
                None => Operation::Other,
            },
            Kind::ExecAttempt { raw, errno } if *errno != 0 || event.decision.is_some() => {
                Operation::Execution(path_of(raw))
            }
            Kind::Open {
                file,
                raw,
                flags,
                by_handle,
                errno,
            } => Operation::Opened(Opened {
                outcome: match file {
                    None if *errno == 0 => ActOutcome::Failed,
                    _ => ActOutcome::of(event, *errno),
                },
                by_handle: *by_handle,
                ..opened(file.as_ref(), raw, *flags)
            }),
            Kind::Change {
                on: AttemptKind::Stat,
                object,
                call,
                errno,
                ..
            } => looked(object, *call, ActOutcome::of(event, *errno)),
            Kind::Change {
                on: AttemptKind::Open,
                object,
                errno,
                ..
            } => Operation::Opened(Opened {
                outcome: ActOutcome::of(event, *errno),
                ..opened(None, object, flag::WRITE_ONLY | flag::CREATE)
            }),
            Kind::Change {
                on,
                object,
                new,
                call,
                errno,
                ..
            } => Operation::Changed {
                on: *on,
                mode: mode(*call),
                path: path_of(object),
                new: new.as_deref().map(|new| beside(object, new)),
                outcome: ActOutcome::of(event, *errno),
            },
            Kind::Network {
                act,
                address,
                errno,
                ..
            } => match act {
                NetworkAct::Connect | NetworkAct::Send => Operation::Spoke {
                    address,
                    done: (*errno == 0 || *errno == IN_PROGRESS) && !asks_nobody(address),
                },
                NetworkAct::Bind | NetworkAct::Listen => Operation::Served,
            },
            Kind::Question {
                data, socket_type, ..
            } => Operation::Asked(dns::questions(data, *socket_type == STREAM)),
            Kind::Refused { nr, on, args, .. } => Operation::Called {
                name: turnkey_policy::syscalls::name(*nr).unwrap_or_default(),
                on: *on,
                args: *args,
            },
            _ => Operation::Other,
        };
        let act = Self { event, what };
        state.note(&act);
        act
    }
}

/// The mode that a call sets.
fn mode(call: NamingCall) -> Option<u32> {
    let at = match turnkey_policy::syscalls::name(call.nr)? {
        "chmod" | "fchmod" => 1,
        "fchmodat" | "fchmodat2" => 2,
        _ => return None,
    };
    Some(half(call.args[at]))
}

/// The act that a call is which asks about a path: none, but for two of them.
fn looked(object: &Raw, call: NamingCall, outcome: ActOutcome) -> Operation<'_> {
    match outcome {
        ActOutcome::Refused if asks_to_write(call) => Operation::MayNotWrite(path_of(object)),
        ActOutcome::Absent if is_watch(call) => Operation::WatchedInVain(path_of(object)),
        ActOutcome::Absent => Operation::LookedForInVain(path_of(object)),
        _ => Operation::Other,
    }
}

/// True for an access(2) that asks whether a file may be written.
fn asks_to_write(call: NamingCall) -> bool {
    const W_OK: u32 = 2;
    let at = match turnkey_policy::syscalls::name(call.nr) {
        Some("access") => 1,
        Some("faccessat" | "faccessat2") => 2,
        _ => return false,
    };
    half(call.args[at]) & W_OK != 0
}

/// True for inotify_add_watch(2), by which one is told of all that happens in a directory from then on.
fn is_watch(call: NamingCall) -> bool {
    turnkey_policy::syscalls::name(call.nr) == Some("inotify_add_watch")
}

/// The half of a register that the kernel reads as a mode.
fn half(register: u64) -> u32 {
    let [a, b, c, d, ..] = register.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

fn opened<'e>(file: Option<&'e File>, raw: &'e Raw, flags: u32) -> Opened<'e> {
    let has = |bit| flags & bit != 0;
    let mode = flags & flag::ACCESS;
    let only_a_handle = has(flag::PATH);
    Opened {
        path: file.map_or_else(|| path_of(raw), |file| Cow::Borrowed(&file.path[..])),
        reads: !only_a_handle && (mode == 0 || mode == flag::READ_WRITE),
        writes: !only_a_handle
            && (mode == flag::WRITE_ONLY
                || mode == flag::READ_WRITE
                || has(flag::TRUNCATE | flag::CREATE)),
        creates: has(flag::CREATE),
        truncates: has(flag::TRUNCATE),
        appends: has(flag::APPEND),
        directory: has(flag::DIRECTORY),
        by_handle: false,
        nameless: file.is_some_and(File::is_nameless),
        outcome: ActOutcome::Failed,
    }
}

/// True for where a resolver without a name server asks: no jail may listen at such a port, so nobody answers.
fn asks_nobody(address: &Address) -> bool {
    let Address::Inet(peer) = address else {
        return false;
    };
    peer.port() == NAME_SERVER && is_own(peer.ip())
}

fn path_of(raw: &Raw) -> Cow<'_, [u8]> {
    let path = raw.path();
    Cow::Owned(absolute(&path).into_owned())
}

/// The other name of an act on an object: a relative one nearly always starts where the object's own does.
fn beside<'e>(object: &Raw, new: &'e [u8]) -> Cow<'e, [u8]> {
    if new.first() == Some(&b'/') || object.base.is_none() {
        return absolute(new);
    }
    let new = Raw {
        bytes: new.to_vec(),
        ..object.clone()
    };
    Cow::Owned(path_of(&new).into_owned())
}

/// Makes a relative name one of the workspace. Where it starts is not known for every call; nearly
/// always it is there, where programs begin.
fn absolute(path: &[u8]) -> Cow<'_, [u8]> {
    if path.first() == Some(&b'/') || path.is_empty() {
        return Cow::Borrowed(path);
    }
    let path = path.strip_prefix(b"./").unwrap_or(path);
    Cow::Owned([WORKSPACE.as_bytes(), b"/", path].concat())
}
