//! The paths that there are: what the kernel can ever be asked about.

/// Which paths an attempt can be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Universe {
    /// Absolute ones, without empty parts, `.` and `..`.
    pub(super) names: bool,
    /// `memfd:NAME`
    pub(super) memory: bool,
    /// What else is opened without a directory: pipes, sockets.
    pub(super) others: bool,
}

/// What begins the path of a memory file.
const MEMORY: &[u8] = b"memfd:";

/// How far a path has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum At {
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

impl At {
    pub(super) const START: Self = Self::Start;
}

impl Universe {
    /// Bytes that matter to what a path is.
    pub(super) const BYTES: [u8; 8] = *b"/.memfd:";

    #[cfg(test)]
    pub(super) const ALL: Self = Self {
        names: true,
        memory: true,
        others: true,
    };

    /// `None` where no path goes on so.
    pub(super) fn after(self, at: At, byte: u8) -> Option<At> {
        match (at, byte) {
            (At::Start, b'/') => self.names.then_some(At::Root),
            (At::Start, _) if !self.memory && !self.others => None,
            (At::Start, b'm') => Some(At::Memory(1)),
            (At::Root | At::Slash | At::Dot | At::DotDot, b'/') => None,
            (At::Root | At::Slash, b'.') => Some(At::Dot),
            (At::Dot, b'.') => Some(At::DotDot),
            (At::Name, b'/') => Some(At::Slash),
            (At::Root | At::Slash | At::Dot | At::DotDot | At::Name, _) => Some(At::Name),
            (At::Memory(count), _) if count == MEMORY.len() => Some(at),
            (At::Memory(count), byte) if MEMORY[count] == byte => Some(At::Memory(count + 1)),
            (At::Start | At::Memory(_) | At::Other, _) => Some(At::Other),
        }
    }

    /// Whether a path that ends here is one.
    pub(super) fn holds(self, at: At) -> bool {
        match at {
            At::Start | At::Slash | At::Dot | At::DotDot => false,
            At::Root | At::Name => self.names,
            At::Memory(count) if count == MEMORY.len() => self.memory,
            At::Memory(_) | At::Other => self.others,
        }
    }
}
