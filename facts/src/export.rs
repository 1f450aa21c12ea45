//! The result of an export of the workspace: how much of it, and what stayed behind and why.

use nix::errno::Errno;

/// The most files and directories of one export.
pub const MOST_ENTRIES: usize = 10_000;
/// The deepest directory that is looked into.
pub const DEEPEST: usize = 64;
/// The most entries that are told as left behind.
const MOST_TOLD: usize = 1_000;

/// The part of the workspace that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The workspace as the run left it: the caller's files and what was written over them.
    Everything,
    /// Only what the run added or modified.
    Changes,
}

/// The result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Files written.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// The entries that stayed behind, in the order in which they were met.
    pub skipped: Vec<Skipped>,
    /// The number of entries that stayed behind beyond the listed ones.
    pub omitted: u64,
    /// True when something stayed behind that the caller had asked for.
    pub lost: bool,
}

/// An entry of the workspace that stayed behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Relative to the workspace.
    pub path: Vec<u8>,
    /// The reason why it stayed behind.
    pub reason: Reason,
}

/// A reason why an entry stayed behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A symlink, which would lead elsewhere.
    Symlink,
    /// A pipe: to open it is to wait for ever.
    Pipe,
    /// A door to a process.
    Socket,
    /// A door to the kernel.
    Device,
    /// A name with bytes that steer a terminal.
    Name,
    /// A size that would pass the limit on bytes.
    Size,
    /// One entry more than the limit on files and directories.
    Count,
    /// A place that lies too deep.
    Depth,
    /// A place on another file system, which the program did not see either.
    OtherFileSystem,
    /// A file or directory that could not be read.
    Unreadable(Errno),
    /// A file or directory that could not be written.
    Unwritable(Errno),
}

impl Reason {
    /// For "… was not exported: it …".
    pub fn in_words(self) -> String {
        match self {
            Reason::Symlink => "is a symlink".into(),
            Reason::Pipe => "is a pipe".into(),
            Reason::Socket => "is a socket".into(),
            Reason::Device => "is a device".into(),
            Reason::Name => "has a name with control characters".into(),
            Reason::Size => "would pass limits.export_size".into(),
            Reason::Count => format!("would be more than {MOST_ENTRIES} files and directories"),
            Reason::Depth => format!("lies deeper than {DEEPEST} directories"),
            Reason::OtherFileSystem => "lies on another file system".into(),
            Reason::Unreadable(errno) => format!("could not be read: {}", errno.desc()),
            Reason::Unwritable(errno) => format!("could not be written: {}", errno.desc()),
        }
    }

    /// True when the caller may miss it: what is not a file or directory cannot be asked for.
    fn is_loss(self) -> bool {
        !matches!(
            self,
            Reason::Symlink | Reason::Pipe | Reason::Socket | Reason::Device
        )
    }
}

impl Exported {
    /// Notes that something stayed behind; only the first thousand are listed.
    pub fn skip(&mut self, path: &[u8], reason: Reason) {
        self.lost |= reason.is_loss();
        if self.skipped.len() >= MOST_TOLD {
            self.omitted += 1;
            return;
        }
        self.skipped.push(Skipped {
            path: path.to_owned(),
            reason,
        });
    }
}
