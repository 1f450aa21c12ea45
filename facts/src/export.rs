//! The result of an export of the workspace: how much of it, and what stayed behind and why.

use nix::errno::Errno;

/// The deepest directory that is looked into.
pub const DEEPEST: usize = 64;
/// The most entries that are told as left behind, and as symlinks that lead out.
const MOST_TOLD: usize = 1_000;

/// The bounds of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportBounds {
    /// Bytes of data, without the holes of sparse files.
    pub bytes: u64,
    /// Files, directories and symlinks.
    pub entries: usize,
}

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
    /// Bytes in them, without holes.
    pub bytes: u64,
    /// Symlinks written.
    pub symlinks: u64,
    /// Symlinks among them whose text leads out of the directory, in the order in which they were met.
    pub leading_out: Vec<LeadingOut>,
    /// The files and directories that came out without bits of their modes, in the order in which they were written.
    pub without_bits: Vec<ClearedBits>,
    /// The entries that stayed behind, in the order in which they were met.
    pub skipped: Vec<Skipped>,
    /// The number of entries that stayed behind beyond the listed ones.
    pub omitted: u64,
    /// True when something stayed behind that the caller had asked for.
    pub lost: bool,
}

/// A symlink that was kept as it is and leads out of the export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeadingOut {
    /// Relative to the workspace.
    pub path: Vec<u8>,
    /// The text of the symlink.
    pub text: Vec<u8>,
}

/// A file or directory whose mode had bits that are never brought out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClearedBits {
    /// Relative to the workspace.
    pub path: Vec<u8>,
    /// The bits that it had, of set-user-ID, set-group-ID and the sticky bit.
    pub bits: u32,
}

/// The bits of a mode by which a file acts for another than its user: set-user-ID, set-group-ID and the sticky bit, chmod(2).
pub const SPECIAL_BITS: [(u32, &str); 3] = [
    (0o4000, "set-user-ID"),
    (0o2000, "set-group-ID"),
    (0o1000, "sticky"),
];

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
    /// A pipe: to open it is to wait for ever.
    Pipe,
    /// A door to a process.
    Socket,
    /// A door to the kernel.
    Device,
    /// A name with bytes that steer a terminal.
    Name,
    /// A symlink whose text has such bytes.
    SymlinkText,
    /// A size that would pass the limit on bytes.
    Size,
    /// One entry more than the limit on their number.
    Count,
    /// A directory of more entries than that limit, of which those beyond it were not even listed.
    Listed,
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
            Reason::Pipe => "is a pipe".into(),
            Reason::Socket => "is a socket".into(),
            Reason::Device => "is a device".into(),
            Reason::Name => "has a name with control characters".into(),
            Reason::SymlinkText => "is a symlink to a name with control characters".into(),
            Reason::Size => "would pass limits.export_size".into(),
            Reason::Count => "would pass limits.export_files".into(),
            Reason::Listed => {
                "holds more entries than limits.export_files, and those beyond it have no row here"
                    .into()
            }
            Reason::Depth => format!("lies deeper than {DEEPEST} directories"),
            Reason::OtherFileSystem => "lies on another file system".into(),
            Reason::Unreadable(errno) => format!("could not be read: {}", errno.desc()),
            Reason::Unwritable(errno) => format!("could not be written: {}", errno.desc()),
        }
    }

    /// True when the caller may miss it: what is not a file or directory cannot be asked for.
    fn is_loss(self) -> bool {
        !matches!(self, Reason::Pipe | Reason::Socket | Reason::Device)
    }
}

impl Exported {
    /// Notes a symlink that was written; only the first thousand that lead out are listed.
    pub fn symlink(&mut self, path: &[u8], text: &[u8]) {
        self.symlinks += 1;
        if leads_out(path, text) && self.leading_out.len() < MOST_TOLD {
            self.leading_out.push(LeadingOut {
                path: path.to_owned(),
                text: text.to_owned(),
            });
        }
    }

    /// Notes the mode of what was written without its special bits; only the first thousand that had one are listed.
    pub fn stamped(&mut self, path: &[u8], mode: u32) {
        let special = SPECIAL_BITS.iter().fold(0, |all, (bit, _)| all | bit);
        let bits = mode & special;
        if bits != 0 && self.without_bits.len() < MOST_TOLD {
            self.without_bits.push(ClearedBits {
                path: path.to_owned(),
                bits,
            });
        }
    }

    /// The result of an export whose files came to no place in the end.
    #[must_use]
    pub fn put_nowhere(self) -> Exported {
        Exported {
            files: 0,
            bytes: 0,
            symlinks: 0,
            leading_out: Vec::new(),
            without_bits: Vec::new(),
            ..self
        }
    }

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

/// True when the text of a symlink at a path, relative to a directory, leads out of that directory.
fn leads_out(path: &[u8], text: &[u8]) -> bool {
    let mut depth = path.iter().filter(|byte| **byte == b'/').count();
    let mut names = text.split(|byte| *byte == b'/');
    text.starts_with(b"/")
        || names.any(|name| match name {
            b"" | b"." => false,
            b".." => match depth.checked_sub(1) {
                Some(above) => {
                    depth = above;
                    false
                }
                None => true,
            },
            _ => {
                depth += 1;
                false
            }
        })
}

#[cfg(test)]
mod tests {
    use super::leads_out;

    #[test]
    fn a_symlink_leads_out_by_its_text() {
        let out = |path: &str, text: &str| leads_out(path.as_bytes(), text.as_bytes());
        for (path, text) in [
            ("a", "/etc/passwd"),
            ("a", ".."),
            ("d/a", "../../x"),
            ("a", "d/../../x"),
        ] {
            assert!(out(path, text), "{path} -> {text}");
        }
        for (path, text) in [
            ("a", "b"),
            ("d/a", "../x"),
            ("d/e/a", "../../x/./y"),
            ("a", "d/../x"),
        ] {
            assert!(!out(path, text), "{path} -> {text}");
        }
    }
}
