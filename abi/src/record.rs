//! The record: one per observation, as the programs write it to a ring.

use core::mem::size_of;

/// Bytes of a path or of a raw argument that a record holds; the kernel's `PATH_MAX`.
pub const PATH: usize = 4096;

/// Bytes of text that follow the fixed part of a record at most: raw argument, path, argv.
pub const TEXT: usize = 3 * PATH;

/// Bytes of `task_struct.comm`.
pub const COMM: usize = 16;

/// Bytes of a socket address that a record holds: `sizeof(struct sockaddr_storage)`.
pub const ADDRESS: usize = 128;

/// Bytes of data that a record of [`kind::QUESTION`] holds: what a datagram to a name server may
/// have without further agreement.
pub const QUESTION: usize = 512;

/// A value of fixed size whose bytes are those of its integers.
trait WireField: Copy {
    const ZERO: Self;

    /// Writes the bytes to the front of `rest`, which then begins behind them.
    fn put(&self, rest: &mut &mut [u8]);

    /// Reads the value from the front of `rest`, which then begins behind it.
    fn take(rest: &mut &[u8]) -> Self;
}

macro_rules! integers {
    ($($type:ty),+) => { $(
        impl WireField for $type {
            const ZERO: Self = 0;

            #[inline]
            fn put(&self, rest: &mut &mut [u8]) {
                let (front, behind) = core::mem::take(rest).split_at_mut(size_of::<Self>());
                front.copy_from_slice(&self.to_ne_bytes());
                *rest = behind;
            }

            #[inline]
            fn take(rest: &mut &[u8]) -> Self {
                let (front, behind) = rest.split_at(size_of::<Self>());
                let mut bytes = [0; size_of::<Self>()];
                bytes.copy_from_slice(front);
                *rest = behind;
                Self::from_ne_bytes(bytes)
            }
        }
    )+ };
}

integers!(u8, u16, u32, u64);

impl<T: WireField, const COUNT: usize> WireField for [T; COUNT] {
    const ZERO: Self = [T::ZERO; COUNT];

    #[inline]
    fn put(&self, rest: &mut &mut [u8]) {
        self.iter().for_each(|one| one.put(rest));
    }

    #[inline]
    fn take(rest: &mut &[u8]) -> Self {
        core::array::from_fn(|_| T::take(rest))
    }
}

/// Declares a struct without gaps, which can be written as bytes and read from them.
macro_rules! wire {
    ($(#[$meta:meta])* pub struct $Wire:ident { $($(#[$doc:meta])* pub $field:ident: $type:ty,)+ }) => {
        $(#[$meta])*
        #[repr(C)]
        pub struct $Wire {
            $($(#[$doc])* pub $field: $type,)+
        }

        const _: () = assert!(size_of::<$Wire>() == 0 $(+ size_of::<$type>())+);

        impl $Wire {
            /// All zero: what every record starts from, so that none tells of the one before.
            pub const ZERO: Self = Self { $($field: WireField::ZERO,)+ };

            /// The bytes, as they lie in memory.
            #[must_use]
            #[inline]
            pub fn to_bytes(&self) -> [u8; size_of::<Self>()] {
                let mut bytes = [0; size_of::<Self>()];
                let mut rest = &mut bytes[..];
                $(self.$field.put(&mut rest);)+
                bytes
            }

            /// The value of such bytes. Any bytes are one.
            #[must_use]
            #[inline]
            pub fn from_bytes(bytes: &[u8; size_of::<Self>()]) -> Self {
                let mut rest = &bytes[..];
                Self { $($field: WireField::take(&mut rest),)+ }
            }
        }
    };
}

wire! {
    /// The fixed part of a record. After it come `raw_len`, then `path_len`, then `argv_len` bytes.
    ///
    /// Fields that a kind does not speak of are zero.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Record {
        /// Counts records from 0 per jail, also when the record itself is lost.
        pub seq: u64,
        /// Time of the act, or of the first one counted: `CLOCK_BOOTTIME`, nanoseconds.
        pub time_ns: u64,
        /// Time of the last act counted; 0 when `repeated` is.
        pub last_ns: u64,
        /// Further times that the same thread repeated the act, without anything in between.
        pub repeated: u64,
        /// Start of the process, `CLOCK_BOOTTIME` nanoseconds.
        pub start_ns: u64,
        /// Inode of the file of [`kind::EXEC`], [`kind::OPEN`] and [`kind::MAP`].
        pub inode: u64,
        /// [`kind::REFUSED`]: the first three arguments, or zeros where the filter refused the call by its
        /// number and no program looked at them. [`kind::FORK`]: the child's process id, its
        /// id in the jail, its start. [`kind::CHANGE`]: the second, third and fifth argument of a call that failed with
        /// `EPERM` or `EINVAL`, among which are those that the filter looks at. [`kind::EXEC`] with
        /// [`flag::ANEW`]: the parent's `task_struct.comm` in the first two. [`kind::NETWORK`]: the first is the number of
        /// the socket, in a jail whose sockets bear one.
        pub args: [u64; 3],
        /// Process id in the host's namespace.
        pub pid: u32,
        /// Thread id in the host's namespace.
        pub tid: u32,
        /// Process id in the jail.
        pub jail_pid: u32,
        /// Real user id in the host's namespace.
        pub uid: u32,
        /// Parent's process id in the host's namespace.
        pub parent_pid: u32,
        /// Positive errno, or 0. [`kind::EXIT`]: the status as from wait(2).
        pub errno: u32,
        /// Device of the file's super block, in the kernel's encoding (`major << 20 | minor`).
        pub dev: u32,
        /// [`kind::OPEN`]: open flags. [`kind::NETWORK`], [`kind::QUESTION`]: the `SOCK_*` type when known.
        /// [`kind::REFUSED`], [`kind::CHANGE`], [`kind::MAP`], [`kind::LOOK`]: the number of the syscall.
        pub detail: u32,
        /// One of [`kind`].
        pub kind: u16,
        /// Index of the rule that decided, plus one; 0 when none did.
        pub rule: u16,
        /// One of [`crate::action`].
        pub action: u16,
        /// [`kind::NETWORK`]: one of [`act`]. [`kind::REFUSED`], [`kind::CHANGE`]: the rule kind, as in
        /// [`crate::syscalls::on`]. [`kind::OPEN`]: [`BY_HANDLE`] for a file that was opened by its handle.
        pub what: u16,
        /// Bits of [`flag`].
        pub flags: u16,
        /// Bytes of the raw argument, or of the socket address.
        pub raw_len: u16,
        /// Bytes of the path.
        pub path_len: u16,
        /// Bytes of the arguments, each ended by a zero.
        pub argv_len: u16,
        /// `task_struct.comm`
        pub comm: [u8; COMM],
    }
}

const _: () = assert!(size_of::<Record>() == 136);
const _: () = assert!(align_of::<Record>() == 8);

/// Kinds of record.
pub mod kind {
    /// A program image was replaced.
    pub const EXEC: u16 = 0;
    /// An exec that did not happen, or was condemned before it did.
    pub const EXEC_ATTEMPT: u16 = 1;
    /// An open, with or without success.
    pub const OPEN: u16 = 2;
    /// A connect, a bind, or a send with an address.
    pub const NETWORK: u16 = 3;
    /// A syscall of the watch-list.
    pub const REFUSED: u16 = 4;
    /// A process was made.
    pub const FORK: u16 = 5;
    /// A process ended.
    pub const EXIT: u16 = 6;
    /// A name or an attribute of a file was changed, or was to be. `raw` is the new name of a link
    /// or a rename, `path` the object. With [`super::flag::FILE`] both are the kernel's own, and the
    /// act was told before it was done; otherwise they are arguments, and `argv` is the directory
    /// that a relative object starts from.
    pub const CHANGE: u16 = 7;
    /// Memory was made executable, or was to be.
    pub const MAP: u16 = 8;
    /// Data that was sent to port 53, or was to be. `raw` is the address, `path` the data, which
    /// [`super::flag::PATH_TRUNCATED`] says is not all.
    pub const QUESTION: u16 = 9;
    /// A path was asked about, by a call that opens nothing, and a rule has something against it. `path` is the
    /// argument, and `argv` the directory that a relative one starts from.
    pub const LOOK: u16 = 10;
}

/// Slots of the counters: one per kind of record, and connect, bind, send and listen each by itself.
pub mod count {
    use super::{act, kind};

    /// Number of slots: a power of two, so that the verifier can bound an index.
    pub const SLOTS: usize = 16;

    /// The count of listen(2).
    pub const LISTEN: usize = SLOTS - 3;
    /// The count of bind(2).
    pub const BIND: usize = SLOTS - 2;
    /// The count of sends with an address.
    pub const SEND: usize = SLOTS - 1;

    /// The slot in which records of a kind are counted; `what` is that of the record.
    #[must_use]
    #[inline(always)]
    pub const fn slot(kind: u16, what: u16) -> usize {
        match (kind, what) {
            (kind::NETWORK, act::BIND) => BIND,
            (kind::NETWORK, act::SEND) => SEND,
            (kind::NETWORK, act::LISTEN) => LISTEN,
            _ => kind as usize % SLOTS,
        }
    }
}

/// [`Record::what`] of an open by open_by_handle_at(2), which has no path.
pub const BY_HANDLE: u16 = 1;

/// Acts on a socket address.
pub mod act {
    /// connect(2)
    pub const CONNECT: u16 = 0;
    /// bind(2)
    pub const BIND: u16 = 1;
    /// sendto(2), sendmsg(2), sendmmsg(2)
    pub const SEND: u16 = 2;
    /// listen(2)
    pub const LISTEN: u16 = 3;
}

/// Bits about the texts of a record, and about its actor.
pub mod flag {
    /// `raw` was longer than what a record holds.
    pub const RAW_TRUNCATED: u16 = 1 << 0;
    /// `raw` could not be read.
    pub const RAW_UNREADABLE: u16 = 1 << 1;
    /// The record holds a file: `path`, `dev` and `inode` are the kernel's own.
    pub const FILE: u16 = 1 << 2;
    /// `path` was longer than what a record holds; it is the path's end.
    pub const PATH_TRUNCATED: u16 = 1 << 3;
    /// The file has no name in any directory any more.
    pub const UNLINKED: u16 = 1 << 4;
    /// `argv` was longer than what a record holds.
    pub const ARGV_TRUNCATED: u16 = 1 << 5;
    /// The open succeeded, but its file was gone before it could be looked at.
    pub const FILE_GONE: u16 = 1 << 6;
    /// `path` is not what was opened, but the directory that `raw` is relative to.
    pub const BASE: u16 = 1 << 7;
    /// [`super::kind::MAP`]: what the memory holds is not what the file holds, or may be changed while
    /// it is executed.
    pub const WRITABLE: u16 = 1 << 8;
    /// [`super::kind::EXEC`]: `raw` names a script, and the file is what interprets it.
    pub const SCRIPT: u16 = 1 << 9;
    /// The acting process has the role [`crate::role::UNKNOWN`], as all have where no rule names actors. Where rules
    /// do, the strongest of all the answers that it might have had was given.
    pub const ACTOR_UNKNOWN: u16 = 1 << 10;
    /// [`super::kind::CHANGE`], [`super::kind::LOOK`]: the argument that is the object could not be read. What is
    /// empty was.
    pub const OBJECT_UNREADABLE: u16 = 1 << 11;
    /// [`super::kind::EXEC`]: in the mount namespace of its parent, which is outside of the group, the process executes
    /// what that executes, or a file that no directory has.
    pub const ANEW: u16 = 1 << 12;

    /// [`super::kind::CHANGE`], [`super::kind::NETWORK`], [`super::kind::OPEN`]: the rule is the strongest of those about any file, as a
    /// name of the act leads through links to a file that no text tells, or nobody knows which one was opened, and none was as strong about
    /// the name.
    pub const FILE_UNKNOWN: u16 = 1 << 13;

    /// [`FILE_UNKNOWN`] for 1, and nothing for 0.
    #[must_use]
    #[inline(always)]
    pub const fn of_lost(lost: u64) -> u16 {
        ((lost & 1) as u16) << 13
    }

    /// [`ACTOR_UNKNOWN`] of the unknown role alone. Without a branch, of which the kernel's verifier would
    /// follow each.
    #[must_use]
    #[inline(always)]
    pub const fn of_role(role: u32) -> u16 {
        const { assert!(crate::role::UNKNOWN == 0) };
        // The top bit of 0 - 1; roles are small.
        ((role.wrapping_sub(1) >> 31) as u16) << 10
    }
}
