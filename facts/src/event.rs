//! The monitor's events, decoded from the kernel's records, with owned bytes.
//!
//! Paths, arguments and names are bytes exactly as the kernel or the jail had them. Whoever
//! shows them escapes them.

use std::net::SocketAddr;

/// One observation, in the order of the jail's ring.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Counts from 0 per jail, without gaps; a gap is a lost event.
    pub seq: u64,
    /// The time of the act, or of the first of its repetitions: `CLOCK_BOOTTIME`, nanoseconds.
    pub time_ns: u64,
    /// The time of the last repetition: the same as `time_ns` unless it was repeated.
    pub last_ns: u64,
    /// The number of times that the same thread did the very same once more, without anything in
    /// between. The event stands for `1 + repeated` acts.
    pub repeated: u64,
    /// The task that acted.
    pub task: Task,
    /// The act.
    pub kind: Kind,
    /// The rule that decided on it, if any did.
    pub decision: Option<Decision>,
}

/// A task that acted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Process id (thread group) in the host's namespace.
    pub pid: u32,
    /// Thread id in the host's namespace.
    pub tid: u32,
    /// Process id inside the jail's pid namespace.
    pub jail_pid: u32,
    /// Real user id in the host's namespace.
    pub uid: u32,
    /// Parent's process id in the host's namespace.
    pub parent_pid: u32,
    /// Start of the process, `CLOCK_BOOTTIME` nanoseconds. With `pid` it survives pid reuse.
    pub start_ns: u64,
    /// `task_struct.comm`, without the trailing zeros.
    pub comm: Vec<u8>,
}

/// The rule that the kernel applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Index into [`turnkey_policy::Policy::rules`].
    pub rule: usize,
    /// The answer of the kernel, after `mode` was applied.
    pub action: turnkey_policy::RuleAction,
    /// The kernel did not know who this was; nor does it where no rule names who acts. Of all the answers
    /// that it might have had, the strongest was given, which may be the one that everybody has.
    pub actor_unknown: bool,
    /// A name of the act leads through links to a file that no text tells, and the answer is the strongest that any file
    /// might have had.
    pub file_unknown: bool,
}

/// The system call behind a [`Kind::Change`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamingCall {
    /// The number in the table of the architecture.
    pub nr: u32,
    /// The arguments by their index, in a call that failed with `EPERM` or `EINVAL`, that sets a mode or an owner, that links or that looks. Only those are
    /// known that a filter looks at: the second, the third and the fifth. All others are zero.
    pub args: [u64; 6],
}

impl NamingCall {
    /// True for symlink(2) and symlinkat(2), of which the other name is where the symlink leads.
    #[must_use]
    pub fn makes_symlink(&self) -> bool {
        const SYMLINKS: [u32; 2] = [88, 266];
        SYMLINKS.contains(&self.nr)
    }
}

/// An act, by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A program image was replaced; the kernel's own path.
    Exec {
        /// The file that runs (the interpreter, for a script).
        file: File,
        /// The name given to execve(2) when it differs from `file.path`.
        raw: Option<Vec<u8>>,
        /// True when `raw` names a script, which `file` interprets.
        script: bool,
        /// Arguments, cut to what fits one record.
        argv: Vec<Vec<u8>>,
        /// True when `argv` was cut.
        argv_truncated: bool,
        /// The name (`comm`) of the process outside of the group that has made this one, when this one executes anew what that
        /// one executes, or a file that no directory has, in that one's mount namespace: as a container's runtime does.
        anew: Option<Vec<u8>>,
    },
    /// execve(2) or execveat(2) that was attempted: seen before the act (`errno` 0 then) or failed.
    ExecAttempt {
        /// The argument as user memory held it; for a bare descriptor (`AT_EMPTY_PATH`) the
        /// kernel's own path of it.
        raw: Raw,
        /// Positive errno, or 0 when the kernel had not decided yet.
        errno: i32,
    },
    /// open(2) and its relatives; open_by_handle_at(2) that succeeded.
    Open {
        /// The file that was opened, when it succeeded: the kernel's own object. `None` with
        /// `errno` 0: the argument alone condemned the jail before the act, or another thread
        /// closed the descriptor before it could be looked at.
        file: Option<File>,
        /// The argument as user memory held it.
        raw: Raw,
        /// Open flags (`O_*`).
        flags: u32,
        /// The file was opened by its handle, so that there is no argument: open_by_handle_at(2).
        by_handle: bool,
        /// Positive errno, or 0.
        errno: i32,
    },
    /// connect(2), bind(2), listen(2), or a send with an address.
    Network {
        /// The call, by its kind.
        act: NetworkAct,
        /// The address the kernel used, or that user memory held when the kernel never took it.
        address: Address,
        /// `SOCK_*` type when known.
        socket_type: u32,
        /// The number of the socket, where it bears one, as in a jail with a sinkhole: its packets bear it too. Else 0.
        socket: u32,
        /// Positive errno, or 0. For an act denied by a cgroup program this is `EPERM`; 0 from
        /// one means that it let the act pass.
        errno: i32,
    },
    /// Data that was sent to port 53, where name servers answer, or was to be sent there: by
    /// sendto(2), sendmsg(2), or as the first message of sendmmsg(2). Besides the event of the send.
    Question {
        /// The address that the call named, or that the socket is connected to.
        address: Address,
        /// `SOCK_*` type when known.
        socket_type: u32,
        /// The data as user memory held it when the call returned; [`crate::dns`] reads it.
        data: Vec<u8>,
        /// There was more: a longer message, or one in several pieces.
        truncated: bool,
        /// The memory could not be read at that moment.
        unreadable: bool,
        /// Positive errno, or 0.
        errno: i32,
    },
    /// A syscall of the watch-list that was refused, by seccomp or by the kernel, or that a rule
    /// speaks of.
    ///
    /// Also a socket(2) of a kind that the jail does not have (`on` is `Connect`),
    /// a refused open_by_handle_at(2) (`on` is `Open`), and whatever the filter refuses that no rule speaks of.
    Refused {
        /// The number in the table of the architecture.
        nr: u32,
        /// The kind rules know it by; `None` when none speaks of it.
        on: Option<turnkey_policy::AttemptKind>,
        /// The first three arguments.
        args: [u64; 3],
        /// Positive errno, or 0 when it went through.
        errno: i32,
    },
    /// link(2), rename(2), unlink(2), chmod(2) and their relatives. And looks, when a rule has something
    /// against: stat(2) and its relatives.
    Change {
        /// The kind of change: `Link`, `Rename`, `Unlink`, `Chmod` or `Stat`.
        on: turnkey_policy::AttemptKind,
        /// The object, by its old name.
        object: Raw,
        /// The new name of a link or a rename, as given.
        new: Option<Vec<u8>>,
        /// Both are the kernel's own paths, and it was asked before the act. Otherwise they are
        /// arguments, seen at the end of the call.
        resolved: bool,
        /// The system call that did it.
        call: NamingCall,
        /// Positive errno, or 0.
        errno: i32,
    },
    /// mmap(2), mprotect(2), pkey_mprotect(2) or shmat(2) that made memory executable, or was to.
    ///
    /// Told are memory that no file of the tree holds, refusals, and files whose paths a rule names.
    Map {
        /// The file that the memory holds; `None` is anonymous memory, unless `unknown`.
        file: Option<File>,
        /// True when the memory is or was writable, so that what is executed may differ from what the file holds.
        writable: bool,
        /// True when the content could not be seen. It was judged as the worst.
        unknown: bool,
        /// The number of the call in the table of the architecture.
        nr: u32,
        /// Positive errno, or 0.
        errno: i32,
    },
    /// A process was made.
    Fork {
        /// The child's id in the host's namespace.
        child_pid: u32,
        /// The child's id in the jail.
        child_jail_pid: u32,
        /// The child's start, as [`Task::start_ns`].
        child_start_ns: u64,
    },
    /// A process (its last thread group leader) ended.
    Exit {
        /// As from wait(2).
        status: i32,
    },
}

impl Kind {
    /// The paths that stand for the file that was acted on: the kernel's own, and arguments where there is nothing else.
    pub fn paths_mut(&mut self) -> Vec<&mut Vec<u8>> {
        match self {
            Self::Exec {
                file, raw, script, ..
            } => [Some(&mut file.path), raw.as_mut().filter(|_| *script)]
                .into_iter()
                .flatten()
                .collect(),
            Self::Open {
                file: Some(file), ..
            }
            | Self::Map {
                file: Some(file), ..
            } => vec![&mut file.path],
            Self::ExecAttempt { raw, .. } | Self::Open { raw, .. } => raw.paths_mut(),
            Self::Change { object, new, .. } => {
                let mut paths = object.paths_mut();
                paths.extend(new);
                paths
            }
            Self::Network {
                address: Address::UnixPath(path),
                ..
            } => vec![path],
            Self::Network { .. }
            | Self::Question { .. }
            | Self::Refused { .. }
            | Self::Map { .. }
            | Self::Fork { .. }
            | Self::Exit { .. } => Vec::new(),
        }
    }
}

/// A file, as the kernel resolved it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Absolute, seen from the jail's root; `memfd:NAME` for a memory file.
    pub path: Vec<u8>,
    /// The path was longer than a record holds.
    pub truncated: bool,
    /// No name in any directory any more (deleted, memfd, O_TMPFILE).
    pub unlinked: bool,
    /// Device of the super block, as `dev_t` in the kernel's encoding.
    pub dev: u32,
    /// Inode number.
    pub inode: u64,
}

impl File {
    /// True for a file of the kernel's own that no directory has, and that has no name either, such as a pidfd.
    pub fn is_nameless(&self) -> bool {
        self.path.is_empty() && !self.truncated
    }
}

/// An argument read from user memory: an allegation, not a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// The kernel's own path of the directory that a relative argument starts from, for an open
    /// whose file is not known.
    pub base: Option<Vec<u8>>,
    /// The bytes up to the zero, or to the limit of a record.
    pub bytes: Vec<u8>,
    /// Longer than a record holds.
    pub truncated: bool,
    /// The memory could not be read at that moment.
    pub unreadable: bool,
}

impl Raw {
    fn paths_mut(&mut self) -> Vec<&mut Vec<u8>> {
        self.base.iter_mut().chain([&mut self.bytes]).collect()
    }

    /// The path that the argument names when no symlink is on the way: from [`Raw::base`] on when
    /// it is relative, without `//`, `.` and `..`. A relative argument whose start is not known
    /// stays as it is.
    #[must_use]
    pub fn path(&self) -> Vec<u8> {
        let whole = match &self.base {
            Some(base) => [base.as_slice(), b"/", &self.bytes].concat(),
            None => self.bytes.clone(),
        };
        if whole.first() != Some(&b'/') {
            return whole;
        }
        let mut components: Vec<&[u8]> = Vec::new();
        for component in whole.split(|byte| *byte == b'/') {
            match component {
                b"" | b"." => {}
                b".." => drop(components.pop()),
                name => components.push(name),
            }
        }
        [b"/".as_slice(), &components.join(&b'/')].concat()
    }
}

/// An act on an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkAct {
    /// connect(2)
    Connect,
    /// bind(2)
    Bind,
    /// sendto(2), sendmsg(2), sendmmsg(2)
    Send,
    /// listen(2) on an internet address; rules know it as a bind
    Listen,
}

/// A socket address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `AF_INET` or `AF_INET6`.
    Inet(SocketAddr),
    /// `AF_UNIX` by path.
    UnixPath(Vec<u8>),
    /// `AF_UNIX`, abstract, without the leading zero.
    UnixAbstract(Vec<u8>),
    /// Any other family, with the first bytes of the address.
    Other {
        /// `AF_*`
        family: u16,
        /// As far as a record holds.
        bytes: Vec<u8>,
    },
    /// One that could not be read.
    Unreadable,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(base: Option<&str>, bytes: &str) -> String {
        let raw = Raw {
            base: base.map(|base| base.as_bytes().to_vec()),
            bytes: bytes.as_bytes().to_vec(),
            truncated: false,
            unreadable: false,
        };
        String::from_utf8(raw.path()).unwrap()
    }

    #[test]
    fn another_spelling_is_the_same_path() {
        assert_eq!(path(None, "/etc/../etc//./shadow"), "/etc/shadow");
        assert_eq!(path(None, "/../.."), "/");
        assert_eq!(path(Some("/etc"), "shadow"), "/etc/shadow");
        assert_eq!(path(Some("/tmp"), "../root/x/"), "/root/x");
        assert_eq!(path(Some("/"), "x"), "/x");
    }

    #[test]
    fn a_relative_path_from_nowhere_known_stays() {
        assert_eq!(path(None, "../x"), "../x");
        assert_eq!(path(None, ""), "");
    }
}
