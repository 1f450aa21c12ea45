//! What an export of the workspace came to: how much of it, and what stayed behind and why.

use nix::errno::Errno;

/// The most files and directories of one export.
pub const MOST_ENTRIES: usize = 10_000;
/// The deepest directory that is looked into.
pub const DEEPEST: usize = 64;
/// The most entries that are told as left behind.
const MOST_TOLD: usize = 1_000;

/// How much of the workspace is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The workspace as the run left it: the caller's files and what was written over them.
    Everything,
    /// Only what the run added or modified.
    Changes,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Files written.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// What stayed behind, in the order it was met.
    pub skipped: Vec<Skipped>,
    /// How many more stayed behind than are listed.
    pub omitted: u64,
    /// Whether something stayed behind that the caller had asked for.
    pub lost: bool,
}

/// Something that stayed behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Relative to the workspace.
    pub path: Vec<u8>,
    /// Why.
    pub reason: Reason,
}

/// Why something stayed behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It would lead elsewhere.
    Symlink,
    /// Who opens it waits for ever.
    Pipe,
    /// A door to a process.
    Socket,
    /// A door to the kernel.
    Device,
    /// Its name holds bytes that steer a terminal.
    Name,
    /// It would pass the limit on bytes.
    Size,
    /// It would pass the limit on files and directories.
    Count,
    /// It lies too deep.
    Depth,
    /// It lies on another file system, which the program did not see either.
    OtherFileSystem,
    /// It could not be read.
    Unreadable(Errno),
    /// It could not be written.
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

    /// Whether the caller may miss it: what is not a file or directory cannot be asked for.
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
