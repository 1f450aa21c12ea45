//! The rules, as the kernel applies them.
//!
//! All path patterns of all rules are one automaton over bytes: start in [`Table::start`], take
//! one transition per byte of the path, and the state after the last byte names, for each column,
//! the rule that decides. What decides over what was settled when the table was made.
//!
//! Where rules name actors, every process has a *role*: which of those rules are about it. Each role has
//! answers of its own. Which role a program comes to, the same automaton tells from its path, by a start of
//! its own.
//!
//! Beside them stand the files that rules know by themselves, sorted, each with its own answers.

use core::mem::size_of;

/// Most rules of a policy: one less than a power of two, because 0 stands for none.
pub const RULES: usize = 1023;

/// Most states of the automaton.
pub const STATES: usize = 8192;

/// The state of a path that is not known: the last one, which no automaton has. Nothing is answered there.
pub const NOWHERE: u32 = STATES as u32 - 1;

/// Most transitions: states times byte classes, each count rounded up to a power of two.
pub const CELLS: usize = 1 << 19;

/// Most sets of answers: one for all states that answer alike, in each role.
pub const ROWS: usize = 4096;

/// Most roles, with [`role::UNKNOWN`]. A power of two, and no more than the bits of [`Peer::roles`].
pub const ROLES: usize = 32;

/// Most sets of patterns of programs, or of scripts, that paths can match together.
pub const KINDS: usize = 32;

/// Kinds of attempt, rounded up: see [`crate::syscalls::on`].
pub const ON: usize = 32;

/// Most entries about addresses.
pub const PEERS: usize = 512;

/// Places for files that rules know by themselves; a power of two. One less can be taken.
pub const FILES: usize = 128;

/// A file that rules know by device and inode.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedFile {
    /// `inode.i_ino`
    pub inode: u64,
    /// `super_block.s_dev`, in the kernel's encoding (`major << 20 | minor`).
    pub dev: u32,
    /// Zero.
    pub reserved: u32,
    /// By column: the deciding rule plus one, or 0.
    pub rules: [u16; column::COUNT],
}

impl WatchedFile {
    /// No file: behind every other in the order.
    pub const NONE: Self = Self {
        inode: u64::MAX,
        dev: u32::MAX,
        reserved: 0,
        rules: [0; column::COUNT],
    };
}

const _: () = assert!(size_of::<WatchedFile>() == 16 + 2 * column::COUNT);

/// Addresses and ports that a rule speaks of.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The address, in words of network byte order; IPv4 as it is written within IPv6.
    pub network: [u32; 4],
    /// The bits of it that count.
    pub mask: [u32; 4],
    /// The first port, in the machine's byte order.
    pub first: u16,
    /// The last port.
    pub last: u16,
    /// Bits of [`crate::syscalls::on`]: the kinds of attempt.
    pub on: u32,
    /// One of [`family`].
    pub family: u16,
    /// The deciding rule plus one.
    pub rule: u16,
    /// Bits of roles: those in which the rule may be meant. All of them are set when it names no actor.
    pub roles: u32,
}

impl Peer {
    /// An entry that is not in use.
    pub const NONE: Self = Self {
        network: [0; 4],
        mask: [0; 4],
        first: 0,
        last: 0,
        on: 0,
        family: family::EVERY,
        rule: 0,
        roles: 0,
    };
}

const _: () = assert!(size_of::<Peer>() == 48);

/// Roles: kinds of actor, as far as the rules tell them apart.
pub mod role {
    /// The only role where no rule names actors. Where some do, that of a process of which it is not
    /// known what it executes: its answers are the strongest of all that it might have.
    pub const UNKNOWN: u32 = 0;
}

/// Families of address that a [`Peer`] speaks of.
pub mod family {
    /// Every address, and it names no port either: nothing that the jail says to itself is meant.
    pub const EVERY: u16 = 0;
    /// Every address, of the ports that it names.
    pub const ANY: u16 = 1;
    /// Addresses of IPv4, also where they are written within IPv6.
    pub const V4: u16 = 2;
    /// Addresses of IPv6, without those of IPv4 written within it.
    pub const V6: u16 = 3;
}

/// Entries for directories of the jail's own, by the lowest bits of the second byte of their path: one for each. A power of two.
pub const OWN_PLACES: usize = 8;

/// Longest path of such a directory, with a slash behind it.
pub const OWN_PLACE: usize = 16;

/// Kinds of such directories: in those of one kind the same rules say nothing. A power of two.
pub const OWN_KINDS: usize = 2;

/// A directory of the jail's own: in it is nothing that rules on what is present speak of when the jail begins, and nothing is mounted.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnPlace {
    /// The path with a slash behind it, as words of memory.
    pub path: [u64; OWN_PLACE / 8],
    /// The bits of it that count; zeros for an entry that is not in use.
    pub mask: [u64; OWN_PLACE / 8],
    /// The length of the path with the slash.
    pub length: u32,
    /// The kind of the directory: an index of [`Table::own`].
    pub kind: u32,
}

impl OwnPlace {
    /// The entry of a path, if it is not too long; of the first kind.
    #[must_use]
    pub fn of(path: &[u8]) -> Option<Self> {
        let mut bytes = [0; OWN_PLACE];
        let mut mask = [0; OWN_PLACE];
        bytes.get_mut(..path.len())?.copy_from_slice(path);
        *bytes.get_mut(path.len())? = b'/';
        mask[..=path.len()].fill(u8::MAX);
        let words = |bytes: [u8; OWN_PLACE]| {
            let (words, _) = bytes.as_chunks::<8>();
            [words[0], words[1]].map(u64::from_ne_bytes)
        };
        Some(Self {
            path: words(bytes),
            mask: words(mask),
            length: u32::try_from(path.len() + 1).unwrap_or(0),
            kind: 0,
        })
    }

    /// The index of the entry for paths with this second byte.
    #[must_use]
    #[inline(always)]
    pub const fn index(second: u8) -> usize {
        second as usize % OWN_PLACES
    }

    /// True when a path is below this directory.
    #[must_use]
    pub fn holds(&self, path: &[u8]) -> bool {
        let bytes = self.path.map(u64::to_ne_bytes);
        let (own, length) = (bytes.as_flattened(), self.length as usize);
        length != 0 && path.len() > length && path[..length] == own[..length]
    }
}

const _: () = assert!(size_of::<OwnPlace>() == 2 * OWN_PLACE + 8);

/// One rule table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Table {
    /// The state before the first byte.
    pub start: u32,
    /// A transition's index is `state << shift | class`.
    pub shift: u32,
    /// Bit `column`: some rule may decide in this column. Without it the automaton is not asked.
    pub columns: u32,
    /// Number of entries of [`Table::files`] in use.
    pub file_count: u32,
    /// Number of entries of [`Table::peers`] in use.
    pub peer_count: u32,
    /// Zero, which the programs take for a number that they do not know.
    pub reserved: u32,
    /// Number of roles; 1 when no rule names actors.
    pub role_count: u32,
    /// The state before the first byte of the path of a program or a script.
    pub actor_start: u32,
    /// Number of sets of patterns of scripts, with that of no script; 1 when no rule names any.
    pub script_count: u32,
    /// Number of states. Entries of [`Table::accept`] and [`Table::transitions`] beyond the last state's are never
    /// read.
    pub state_count: u16,
    /// The state before the first byte of a path that is asked for [`magic`].
    pub magic_start: u16,
    /// By role, for kinds of attempt without a path, of which no address is known, and for memory that is
    /// made executable and holds no file that a path leads to: the deciding rule plus one, or 0.
    pub on: [[u16; ON]; ROLES],
    /// By role, for a file whose path is unknown or too long: the strongest rule of the column plus one,
    /// or 0. Not knowing must not be the way round a rule.
    pub unknown: [[u16; column::COUNT]; ROLES],
    /// The role by what the program's path is ([`column::EXE`]), then by what the script's is
    /// ([`column::SCRIPT`], or 0 without one).
    pub roles: [[u8; KINDS]; KINDS],
    /// [`crate::action`] by rule plus one, after the policy's mode was applied. At 0 it is none.
    pub actions: [u8; RULES + 1],
    /// [`crate::action`] by rule plus one, as it was written: what is stronger does not depend on the
    /// mode.
    pub strengths: [u8; RULES + 1],
    /// Directories of the jail's own, where [`Table::own`] answers, each at its [index](OwnPlace::index); zeros elsewhere.
    pub places: [OwnPlace; OWN_PLACES],
    /// In ascending order of inode, then device; [`WatchedFile::NONE`] behind them.
    pub files: [WatchedFile; FILES],
    /// For attempts that have an address: the first of these that speaks of it decides.
    pub peers: [Peer; PEERS],
    /// The class of each byte.
    pub classes: [u8; 256],
    /// By state: the first of its [`Table::rows`].
    pub accept: [u16; STATES],
    /// By state: the kind of directory whose path ends there. Two are of one kind when whatever path goes on from
    /// them is answered by actions as strong.
    pub inside: [u16; STATES],
    /// By state: the first of its [`Table::rows`] about what may lie below the path that ends there, when it is
    /// a directory whose content is not known. It holds the strongest answer that any path below it has and
    /// would not have below a directory that no pattern tells from others.
    pub below: [u16; STATES],
    /// By kind of [`Table::places`] and by state: the state that answers instead for a path below a place of that kind; 0: none
    /// does. Nothing leads on from there.
    pub own: [[u16; STATES]; OWN_KINDS],
    /// By column: the deciding rule plus one, or 0. Those of a state stand one behind the other, by role.
    pub rows: [[u16; column::COUNT]; ROWS],
    /// The next state.
    pub transitions: [u16; CELLS],
}

const _: () = assert!(
    size_of::<Table>()
        == 40
            + 2 * ON * ROLES
            + 2 * column::COUNT * ROLES
            + KINDS * KINDS
            + 2 * (RULES + 1)
            + size_of::<WatchedFile>() * FILES
            + size_of::<Peer>() * PEERS
            + 256
            + size_of::<OwnPlace>() * OWN_PLACES
            + (3 + OWN_KINDS) * 2 * STATES
            + 2 * column::COUNT * ROWS
            + 2 * CELLS
);

/// Columns of a row of answers: one per question that is put to the automaton.
pub mod column {
    /// Opening for reading.
    pub const READ: u32 = 0;
    /// Opening for writing.
    pub const WRITE: u32 = 1;
    /// Opening for both.
    pub const BOTH: u32 = 2;
    /// Executing.
    pub const EXEC: u32 = 3;
    /// Giving a file another name besides.
    pub const LINK: u32 = 4;
    /// Giving a file another name instead.
    pub const RENAME: u32 = 5;
    /// Taking a name away.
    pub const UNLINK: u32 = 6;
    /// Changing mode or owner.
    pub const CHMOD: u32 = 7;
    /// Making memory executable that holds a file.
    pub const MAP: u32 = 8;
    /// Asking about a path without opening it.
    pub const STAT: u32 = 9;
    /// Changing times or extended attributes.
    pub const ATTRIBUTE: u32 = 10;
    /// Taking the file out from under this path: the strongest answer to reading it, writing to it, executing
    /// and mapping it, which it would be without then.
    pub const AWAY: u32 = 11;
    /// No attempt: which set of patterns of programs the path matches. Paths are asked about programs by a
    /// start of their own, and so by rows of their own, in which nothing is an [`ATTRIBUTE`].
    pub const EXE: u32 = 10;
    /// No attempt: which set of patterns of scripts the path matches; never 0. In the same rows, in which nothing is
    /// [`AWAY`].
    pub const SCRIPT: u32 = 11;
    /// No attempt: one of [`crate::magic`]. Paths are asked about it by a start of their own as well, and by rows of their own.
    pub const MAGIC: u32 = 10;
    /// The first column of calls that have a kind of their own beside a wider one, in the order of
    /// [`crate::syscalls::on::MKDIR`] and those behind it.
    pub const OWN: u32 = 12;
    /// The columns from here on are those of [`READ`] to [`EXEC`] again, for files without a name.
    pub const NAMELESS: u32 = 20;
    /// Calls that go on from a symlink to this path and open nothing, where their arguments are all that is known: the
    /// strongest answer to cutting it, and to changing its mode, its owner, its times and its attributes.
    pub const FOLLOWED: u32 = 24;
    /// Of what is below a directory alone: writing there, where the answer is stronger than below a directory that no pattern tells
    /// from others.
    pub const GUARDED: u32 = 25;
    /// Number of columns, rounded up to a power of two.
    pub const COUNT: usize = 32;

    /// The column of a kind from [`crate::syscalls::on::MKDIR`] to [`crate::syscalls::on::XATTR`].
    #[must_use]
    #[inline(always)]
    pub const fn own(on: u8) -> u32 {
        OWN + (on - crate::syscalls::on::MKDIR) as u32
    }

    /// The column for a file that no directory has a name of (any more).
    #[must_use]
    #[inline(always)]
    pub const fn nameless(column: u32) -> u32 {
        if column <= EXEC {
            column + NAMELESS
        } else {
            column
        }
    }
}

/// Ends of paths by the kernel's own links, the "magic links" of symlink(7): from /proc to the descriptors, the directory,
/// the root and the program of a process. No text says to which file.
pub mod magic {
    /// Nowhere but to where it says.
    pub const NONE: u32 = 0;
    /// To such a link.
    pub const LINK: u32 = 1;
    /// To a link of /dev to one, as programs name their standard streams.
    pub const DEVICE: u32 = 2;
    /// To a file below what such a link leads to.
    pub const BELOW: u32 = 3;
}

/// Actions of rules. The order is the order of strength.
pub mod action {
    /// No rule decided.
    pub const NONE: u16 = 0;
    /// The act goes on, and no violation is reported.
    pub const ALLOW: u16 = 1;
    /// A violation in the report.
    pub const LOG: u16 = 2;
    /// The act fails.
    pub const DENY: u16 = 3;
    /// The jail dies.
    pub const KILL: u16 = 4;
}
