//! One attempt, in the words of the report.

use turnkey_facts::{Address, Event, File, Kind, NamingCall, NetworkAct, Raw, dns};
use turnkey_policy::syscalls::arguments::RefusalScope;
use turnkey_policy::{AttemptKind, RuleAction, syscalls};

use super::model::{Argument, FileAccess, MemoryTrait, SocketType};
use super::stopper::late::{has_effect_before_a_kill, refused_by_hook};
use super::stopper::{Attribution, Outcome, Stopper};
use super::text::escape;

/// An act that an event tells of, and how it went.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportedAct {
    /// The kind of attempt, as in rules; `None` for a syscall that none speaks of.
    pub on: Option<AttemptKind>,
    /// On what.
    pub object: Object,
    /// The result.
    pub outcome: Outcome,
    /// Positive errno, or 0.
    pub errno: i32,
    /// Of a syscall that the filter lets through otherwise: the jails in which it refuses these arguments.
    pub for_arguments: Option<RefusalScope>,
}

/// The target of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A file.
    File {
        /// Escaped; `None` when the argument could not be read.
        path: Option<String>,
        /// True when the path is cut: the kernel's own at its beginning, an argument at its end.
        truncated: bool,
        /// The ways in which it was used.
        access: Vec<FileAccess>,
        /// The argument, when it differs from `path`.
        raw: Option<Argument>,
        /// Escaped: the new name of a link or a rename.
        to: Option<String>,
        /// For executable memory: why no file of the tree holds it.
        memory: Vec<MemoryTrait>,
    },
    /// An address, as in [`super::model::NetworkAttempt::address`].
    Address {
        /// Escaped.
        address: String,
        /// The word for the socket's type.
        socket: Option<SocketType>,
        /// The name that was asked for there, as in [`super::model::NetworkAttempt::name`].
        name: Option<String>,
    },
    /// A syscall of the watch-list, by name.
    Syscall(String),
}

impl Object {
    /// For lists that are about the file, whatever it was called.
    pub fn without_argument(self) -> Self {
        match self {
            Self::File {
                path,
                truncated,
                access,
                memory,
                ..
            } => Self::File {
                path,
                truncated,
                access,
                raw: None,
                to: None,
                memory,
            },
            other => other,
        }
    }

    /// The escaped path of a file.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::File { path, .. } => path.as_deref(),
            _ => None,
        }
    }
}

impl ReportedAct {
    /// The attempt that `event` tells of; forks and exits are none.
    pub fn from_event(event: &Event, attribution: &Attribution) -> Option<Self> {
        let decided = event.decision.map(|decision| decision.action);
        let act = match &event.kind {
            Kind::Exec { file, raw, .. } => executed(file, raw.as_deref()),
            Kind::ExecAttempt { raw, errno } => exec_attempt(raw, *errno, attribution),
            Kind::Open {
                file,
                raw,
                flags,
                by_handle,
                errno,
            } => open(
                (file.as_ref(), *by_handle),
                raw,
                (*flags, *errno),
                attribution,
            ),
            Kind::Network {
                act,
                address,
                socket_type,
                errno,
                ..
            } => Self {
                on: Some(on(*act)),
                object: Object::Address {
                    address: address_text(address),
                    socket: socket_word(*socket_type),
                    name: None,
                },
                outcome: attribution.network(*act, address, *errno),
                errno: *errno,
                for_arguments: None,
            },
            Kind::Question {
                address,
                socket_type,
                data,
                errno,
                ..
            } => Self {
                on: Some(AttemptKind::Send),
                object: Object::Address {
                    address: address_text(address),
                    socket: socket_word(*socket_type),
                    name: names(&asked(data, *socket_type)),
                },
                outcome: attribution.network(NetworkAct::Send, address, *errno),
                errno: *errno,
                for_arguments: None,
            },
            Kind::Refused {
                nr,
                on,
                args,
                errno,
            } => {
                let name = syscalls::name(*nr);
                Self {
                    on: *on,
                    object: Object::Syscall(
                        name.map_or_else(|| format!("syscall {nr}"), str::to_owned),
                    ),
                    outcome: attribution.syscall(name, *on, *args, *errno),
                    errno: *errno,
                    for_arguments: name
                        .and_then(|name| attribution.for_arguments(name, *args, *errno)),
                }
            }
            Kind::Change {
                on,
                object,
                new,
                call,
                errno,
                ..
            } => change((*on, *call), object, new.as_deref(), *errno, attribution),
            Kind::Map {
                file,
                writable,
                unknown,
                errno,
                ..
            } => map(file.as_ref(), (*writable, *unknown), *errno),
            Kind::Fork { .. } | Kind::Exit { .. } => return None,
        };
        Some(match decided {
            _ if refused_by_hook(&event.kind, decided) => act.refused(),
            Some(RuleAction::Kill) => act.killed(&event.kind),
            _ => act,
        })
    }

    /// The same act on a file that a symlink led to, as which it was called.
    pub fn called(mut self, name: Object) -> Self {
        if let (
            Object::File { raw, .. },
            Object::File {
                path, raw: said, ..
            },
        ) = (&mut self.object, name)
        {
            *raw = said.or_else(|| {
                path.map(|text| Argument {
                    text,
                    truncated: false,
                    unreadable: false,
                })
            });
        }
        self
    }

    /// The monitor itself answered, before the act.
    fn refused(mut self) -> Self {
        self.outcome = Outcome::Denied(Stopper::Monitor);
        self
    }

    /// Of an act that nothing else stopped, the kill did: it lands before the result is seen.
    fn killed(mut self, kind: &Kind) -> Self {
        if has_effect_before_a_kill(kind) {
            self.outcome = Outcome::Late;
        } else if matches!(self.outcome, Outcome::Allowed | Outcome::Unknown) {
            self.outcome = Outcome::Denied(Stopper::Monitor);
        }
        self
    }
}

fn change(
    (on, call): (AttemptKind, NamingCall),
    object: &Raw,
    new: Option<&[u8]>,
    errno: i32,
    attribution: &Attribution,
) -> ReportedAct {
    let access = match on {
        AttemptKind::Link => FileAccess::Link,
        AttemptKind::Rename => FileAccess::Rename,
        AttemptKind::Unlink => FileAccess::Unlink,
        AttemptKind::Stat => FileAccess::Stat,
        AttemptKind::Attribute => FileAccess::Attribute,
        // Made or emptied by its name.
        AttemptKind::Open => FileAccess::Write,
        _ => FileAccess::Chmod,
    };
    let mut file = file_object(None, object, vec![access]);
    if let Object::File { to, .. } = &mut file {
        *to = new.map(escape);
    }
    ReportedAct {
        on: Some(on),
        object: file,
        outcome: attribution.change((on, call), (&object.path(), new), errno),
        errno,
        for_arguments: attribution.for_named_arguments(call, errno),
    }
}

fn map(file: Option<&File>, (writable, unknown): (bool, bool), errno: i32) -> ReportedAct {
    let outcome = match errno {
        0 => Outcome::Allowed,
        _ => Outcome::Failed,
    };
    let in_tree = |file: &&File| file.path.first() == Some(&b'/');
    let named = file.filter(in_tree);
    let traits = [
        (MemoryTrait::Anonymous, file.is_none() && !unknown),
        (MemoryTrait::MemoryFile, file.is_some() && named.is_none()),
        (MemoryTrait::Deleted, named.is_some_and(|it| it.unlinked)),
        (MemoryTrait::Writable, writable),
        (MemoryTrait::Unknown, unknown),
    ];
    let memory = traits.into_iter().filter(|(_, holds)| *holds);
    ReportedAct {
        on: Some(AttemptKind::Map),
        object: Object::File {
            path: file.map(|file| escape(&file.path)),
            truncated: file.is_some_and(|file| file.truncated),
            access: vec![FileAccess::Map],
            raw: None,
            to: None,
            memory: memory.map(|(word, _)| word).collect(),
        },
        outcome,
        errno,
        for_arguments: None,
    }
}

fn executed(file: &File, raw: Option<&[u8]>) -> ReportedAct {
    let raw = raw.map(|raw| Argument {
        text: escape(raw),
        truncated: false,
        unreadable: false,
    });
    let access = vec![FileAccess::Execute];
    let object = Object::File {
        path: Some(escape(&file.path)),
        truncated: file.truncated,
        access,
        raw,
        to: None,
        memory: Vec::new(),
    };
    ReportedAct {
        on: Some(AttemptKind::Exec),
        object,
        outcome: Outcome::Allowed,
        errno: 0,
        for_arguments: None,
    }
}

fn exec_attempt(raw: &Raw, errno: i32, attribution: &Attribution) -> ReportedAct {
    let outcome = match errno {
        // The kernel had not decided yet.
        0 => Outcome::Unknown,
        errno => attribution.file(&raw.bytes, errno),
    };
    ReportedAct {
        on: Some(AttemptKind::Exec),
        object: file_object(None, raw, vec![FileAccess::Execute]),
        outcome,
        errno,
        for_arguments: None,
    }
}

fn open(
    (file, by_handle): (Option<&File>, bool),
    raw: &Raw,
    (flags, errno): (u32, i32),
    attribution: &Attribution,
) -> ReportedAct {
    let outcome = attribution.file(&raw.path(), errno);
    let mut object = file_object(file, raw, accesses(flags));
    // A handle is no argument that could be told, and no name where the kernel knows none.
    if let Object::File { path, raw, .. } = &mut object
        && by_handle
    {
        *raw = None;
        path.take_if(|path| path.is_empty());
    }
    ReportedAct {
        on: Some(AttemptKind::Open),
        object,
        outcome,
        errno,
        for_arguments: None,
    }
}

/// The kernel's own path where there is one, and beside it the argument if that says more.
fn file_object(file: Option<&File>, raw: &Raw, access: Vec<FileAccess>) -> Object {
    let argument = Argument {
        text: escape(&raw.bytes),
        truncated: raw.truncated,
        unreadable: raw.unreadable,
    };
    // A file whose path the kernel's structures did not yield has only what it was called.
    let file = file.filter(|file| !file.path.is_empty());
    let path = match file {
        Some(file) => Some(escape(&file.path)),
        None if raw.unreadable => None,
        None => Some(escape(&raw.path())),
    };
    let says_more = raw.truncated || raw.unreadable || path.as_ref() != Some(&argument.text);
    let truncated = file.map_or(raw.truncated, |file| file.truncated);
    Object::File {
        path,
        truncated,
        access,
        raw: says_more.then_some(argument),
        to: None,
        memory: Vec::new(),
    }
}

/// As in [`turnkey_policy::OpenAccess`]; `O_PATH` and the access mode 3 neither read nor write.
pub fn accesses(flags: u32) -> Vec<FileAccess> {
    let has = |flag: i32| flags & flag.cast_unsigned() != 0;
    if has(libc::O_PATH) {
        return Vec::new();
    }
    let mode = (flags & libc::O_ACCMODE.cast_unsigned()).cast_signed();
    let read = matches!(mode, libc::O_RDONLY | libc::O_RDWR);
    let write =
        matches!(mode, libc::O_WRONLY | libc::O_RDWR) || has(libc::O_TRUNC) || has(libc::O_CREAT);
    let read = read.then_some(FileAccess::Read);
    read.into_iter()
        .chain(write.then_some(FileAccess::Write))
        .collect()
}

fn on(act: NetworkAct) -> AttemptKind {
    match act {
        NetworkAct::Connect => AttemptKind::Connect,
        NetworkAct::Bind | NetworkAct::Listen => AttemptKind::Bind,
        NetworkAct::Send => AttemptKind::Send,
    }
}

/// See [`super::model::NetworkAttempt::address`].
pub fn address_text(address: &Address) -> String {
    match address {
        Address::Inet(address) => address.to_string(),
        Address::UnixPath(path) => format!("unix:{}", escape(path)),
        Address::UnixAbstract(name) => format!("unix-abstract:{}", escape(name)),
        Address::Unreadable => "unreadable".to_owned(),
        Address::Other { family, bytes } => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("family {family}:{hex}")
        }
    }
}

/// The word for a `SOCK_*` type; 0 means that it is not known.
pub fn socket_word(socket_type: u32) -> Option<SocketType> {
    match i32::try_from(socket_type).ok()? {
        libc::SOCK_STREAM => Some(SocketType::Stream),
        libc::SOCK_DGRAM => Some(SocketType::Datagram),
        libc::SOCK_RAW => Some(SocketType::Raw),
        libc::SOCK_SEQPACKET => Some(SocketType::Seqpacket),
        libc::SOCK_RDM => Some(SocketType::Rdm),
        _ => None,
    }
}

/// The questions in what was sent to port 53.
pub fn asked(data: &[u8], socket_type: u32) -> Vec<dns::Question> {
    dns::questions(data, socket_type == libc::SOCK_STREAM.cast_unsigned())
}

/// The names of the questions, with spaces between them; one name has no space.
fn names(asked: &[dns::Question]) -> Option<String> {
    let names: Vec<&str> = asked.iter().map(|one| one.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

/// Every name that [`kind_name`] gives.
pub const KINDS: [&str; 14] = [
    "exec",
    "exec_attempt",
    "open",
    "connect",
    "bind",
    "send",
    "listen",
    "question",
    "refused",
    "change",
    "look",
    "map",
    "fork",
    "exit",
];

/// The name of a kind in `events.seen` and in the lines of `--events`.
pub fn kind_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Exec { .. } => "exec",
        Kind::ExecAttempt { .. } => "exec_attempt",
        Kind::Open { .. } => "open",
        Kind::Network {
            act: NetworkAct::Connect,
            ..
        } => "connect",
        Kind::Network {
            act: NetworkAct::Bind,
            ..
        } => "bind",
        Kind::Network {
            act: NetworkAct::Send,
            ..
        } => "send",
        Kind::Network {
            act: NetworkAct::Listen,
            ..
        } => "listen",
        Kind::Question { .. } => "question",
        Kind::Refused { .. } => "refused",
        Kind::Change {
            on: AttemptKind::Stat,
            ..
        } => "look",
        Kind::Change { .. } => "change",
        Kind::Map { .. } => "map",
        Kind::Fork { .. } => "fork",
        Kind::Exit { .. } => "exit",
    }
}

/// True for a hint on where memory lies, to which the filter answered what a kernel without NUMA does.
pub fn is_asked_in_passing(act: &ReportedAct, name: &str) -> bool {
    let by_filter = act.outcome.stopper() == Some(Stopper::Seccomp);
    by_filter && act.errno == libc::ENOSYS && syscalls::NUMA.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{self, raw};
    use super::*;
    use FileAccess::{Read, Write};

    #[test]
    fn flags_are_accesses() {
        let of = |flags: i32| accesses(flags.cast_unsigned());
        assert_eq!(of(libc::O_RDONLY | libc::O_CLOEXEC), [Read]);
        assert_eq!(of(libc::O_WRONLY), [Write]);
        assert_eq!(of(libc::O_RDWR), [Read, Write]);
        // Truncating or creating changes the file system, whatever the mode.
        assert_eq!(of(libc::O_RDONLY | libc::O_TRUNC), [Read, Write]);
        assert_eq!(of(libc::O_RDONLY | libc::O_CREAT), [Read, Write]);
        assert_eq!(of(libc::O_PATH | libc::O_RDWR), []);
        assert_eq!(of(libc::O_ACCMODE), []);
    }

    #[test]
    fn addresses_are_told_apart() {
        let text = |address| address_text(&address);
        assert_eq!(text(Address::Inet("[::1]:80".parse().unwrap())), "[::1]:80");
        assert_eq!(
            text(Address::UnixPath(b"/run/\x1b".to_vec())),
            "unix:/run/\\x1b"
        );
        assert_eq!(
            text(Address::UnixAbstract(b"a\0b".to_vec())),
            "unix-abstract:a\\x00b"
        );
        assert_eq!(
            text(Address::Other {
                family: 16,
                bytes: vec![0, 255]
            }),
            "family 16:00ff"
        );
        assert_eq!(
            text(Address::Other {
                family: 0,
                bytes: vec![]
            }),
            "family 0:"
        );
    }

    #[test]
    fn the_kernels_path_stands_before_the_argument() {
        let object = |file: Option<File>, raw: Raw| file_object(file.as_ref(), &raw, vec![Read]);
        let resolved = object(Some(fixture::file("/etc/shadow")), raw("link"));
        assert_eq!(resolved.path(), Some("/etc/shadow"));
        assert!(matches!(resolved, Object::File { raw: Some(raw), .. } if raw.text == "link"));
        let same = object(Some(fixture::file("/etc/shadow")), raw("/etc/shadow"));
        assert!(matches!(same, Object::File { raw: None, .. }));
        // The kernel's structures did not yield a path.
        assert_eq!(
            object(Some(fixture::file("")), raw("name")).path(),
            Some("name")
        );
    }

    #[test]
    fn a_file_that_is_made_by_its_name_was_written_to() {
        let attribution = Attribution::new(&fixture::policy());
        let made = change(
            (AttemptKind::Open, NamingCall::default()),
            &raw("/workspace/x"),
            None,
            0,
            &attribution,
        );
        assert_eq!(made.on, Some(AttemptKind::Open));
        assert!(matches!(made.object, Object::File { access, .. } if access == [Write]));
    }
}
