//! The paths that there are: what the kernel can ever be asked about.

/// The paths that an attempt can be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathUniverse {
    /// Absolute ones, without empty parts, `.` and `..`.
    pub(super) names: bool,
    /// `memfd:NAME`
    pub(super) memory: bool,
    /// True when objects without a directory are among them: pipes, sockets.
    pub(super) others: bool,
}

/// The prefix of the path of a memory file.
const MEMORY: &[u8] = b"memfd:";

/// The progress of a path towards one of the universe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PathProgress {
    Start,
    /// Behind the first slash.
    Root,
    /// Behind another one.
    Slash,
    /// Behind `/.`
    Dot,
    /// Behind `/..`
    DotDot,
    /// In a name.
    Name,
    /// Behind this many bytes of `memfd:`, and in the name that follows.
    Memory(usize),
    /// In what begins neither way.
    Other,
}

impl PathProgress {
    pub(super) const START: Self = Self::Start;
}

impl PathUniverse {
    /// Bytes that matter to what a path is.
    pub(super) const BYTES: [u8; 8] = *b"/.memfd:";

    #[cfg(test)]
    pub(super) const ALL: Self = Self {
        names: true,
        memory: true,
        others: true,
    };

    /// `None` where no path goes on so.
    pub(super) fn after(self, at: PathProgress, byte: u8) -> Option<PathProgress> {
        match (at, byte) {
            (PathProgress::Start, b'/') => self.names.then_some(PathProgress::Root),
            (PathProgress::Start, _) if !self.memory && !self.others => None,
            (PathProgress::Start, b'm') => Some(PathProgress::Memory(1)),
            (
                PathProgress::Root | PathProgress::Slash | PathProgress::Dot | PathProgress::DotDot,
                b'/',
            ) => None,
            (PathProgress::Root | PathProgress::Slash, b'.') => Some(PathProgress::Dot),
            (PathProgress::Dot, b'.') => Some(PathProgress::DotDot),
            (PathProgress::Name, b'/') => Some(PathProgress::Slash),
            (
                PathProgress::Root
                | PathProgress::Slash
                | PathProgress::Dot
                | PathProgress::DotDot
                | PathProgress::Name,
                _,
            ) => Some(PathProgress::Name),
            (PathProgress::Memory(count), _) if count == MEMORY.len() => Some(at),
            (PathProgress::Memory(count), byte) if MEMORY[count] == byte => {
                Some(PathProgress::Memory(count + 1))
            }
            (PathProgress::Start | PathProgress::Memory(_) | PathProgress::Other, _) => {
                Some(PathProgress::Other)
            }
        }
    }

    /// True when a path that ends here is in the universe.
    pub(super) fn accepts(self, at: PathProgress) -> bool {
        match at {
            PathProgress::Start
            | PathProgress::Slash
            | PathProgress::Dot
            | PathProgress::DotDot => false,
            PathProgress::Root | PathProgress::Name => self.names,
            PathProgress::Memory(count) if count == MEMORY.len() => self.memory,
            PathProgress::Memory(_) | PathProgress::Other => self.others,
        }
    }
}
