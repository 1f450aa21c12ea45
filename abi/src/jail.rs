//! A jail's state in the kernel: configuration, counters, and the flags that programs set.

use core::mem::size_of;

use crate::count;
use crate::syscalls::COUNT;

/// Words in which each number of a system call that is looked at has a bit.
pub const FILTERED_WORDS: usize = COUNT / 64;

/// Ends of processes that are remembered, each in the place that the last bits of its process id give it.
pub const ENDS: usize = 16;

/// The value of the map of jails; the key is the cgroup id.
///
/// User space writes it once, at adoption; from then on only the kernel writes, field by field.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jail {
    /// Not 0 since the jail is to die. It never returns to 0.
    pub condemned: u32,
    /// The first thread that broke a rule that kills; its record is already sent. 0: none has.
    pub condemned_thread: u32,
    /// One of [`started`].
    pub started: u32,
    /// The jail's slot: an index of the arrays of slot data and rings.
    pub slot: u32,
    /// One of [`network`].
    pub network: u32,
    /// Not 0: the first record that is lost condemns the jail.
    pub kill_on_loss: u32,
    /// Not 0: a program that cannot do its work condemns the jail.
    pub strict: u32,
    /// Not 0: the jail is a canary's, whose end concerns no other run.
    pub canary: u32,
    /// Not 0: the numbers of the system calls that are made are noted in `called`.
    pub notes_calls: u32,
    /// Not 0: rules name actors, so every process has a role.
    pub has_roles: u32,
    /// Not 0: some rule speaks of looks, calls that ask about a path and open nothing.
    pub asks_of_looks: u32,
    /// One of [`hooks`].
    pub hooks: u32,
    /// The rule that tells of looks in vain, plus one; 0: none does. What it says is advice and no evidence.
    pub advisory: u32,
    /// The number of such looks, and of signals to numbers that no process has, that are still told of.
    pub advice_left: u32,
    /// 1: a task has begun to make a symlink, or one is in a place of the jail's own from the beginning. A path as it was written may
    /// lead through one. Otherwise 0.
    pub aliased: u32,
    /// 1: a task has begun to make a symlink that leads from its own directory, so that it leads elsewhere from another. Otherwise 0.
    pub relative: u32,
    /// 1: a task has begun to make a symlink that may lead out of its own directory. Otherwise 0.
    pub climbing: u32,
    /// Bits of [`sockets`].
    pub sockets: u32,
    /// 1: nothing keeps its tasks from another root directory, as chroot(2) gives one, so paths begin at the root of the mount
    /// namespace. 0: at the task's own root, which it cannot leave.
    pub roams: u64,
    /// The cookie of turnkey's own network namespace; 0: not known, so that none is taken for the jail's own.
    pub outside: u64,
    /// The number of the next record.
    pub seq: u64,
    /// Acts observed, by [`count::slot`].
    pub seen: [u64; count::SLOTS],
    /// Acts whose record did not fit the ring, by [`count::slot`].
    pub lost: [u64; count::SLOTS],
    /// Records that did not fit the ring.
    pub lost_records: u64,
    /// Times that a program could not do its work: no memory to work in, no rules to ask.
    pub faults: u64,
    /// Arguments that user memory did not hold when they were looked at.
    pub unreadable: u64,
    /// Files whose path the kernel's structures did not yield.
    pub unresolved: u64,
    /// Hooks at work for the jail, each in work memory that all jails share.
    pub working: u64,
    /// Not 0: a hook has left something for the end of a call that a thread was in.
    pub marked: u64,
    /// Starts of the processes whose end was told last, in nanoseconds of CLOCK_BOOTTIME, by the last bits of their ids: threads that
    /// end at the same moment may each be the last one.
    pub ended: [u64; ENDS],
    /// The first end of a process of the jail by a signal that a process outside of it sent.
    pub outsider: Outsider,
    /// Bit `number`: the filter of system calls answers this one whatever its arguments, so the kernel never
    /// gets it. Written by user space alone.
    pub filtered: [u64; FILTERED_WORDS],
    /// By number: 1 when a task has made this system call since the command was started. A byte each,
    /// so that two CPUs need not agree.
    pub called: [u8; COUNT],
}

/// Looks and signals in vain that are told of: a program may have thousands, and nobody reads more of them.
const ADVICE: u32 = 256;

impl Jail {
    /// A jail that nothing happened in yet.
    #[must_use]
    pub const fn new(slot: u32, network: u32) -> Self {
        Self {
            condemned: 0,
            condemned_thread: 0,
            started: 0,
            slot,
            network,
            kill_on_loss: 0,
            strict: 0,
            canary: 0,
            notes_calls: 0,
            has_roles: 0,
            asks_of_looks: 0,
            hooks: hooks::NONE,
            advisory: 0,
            advice_left: ADVICE,
            aliased: 0,
            relative: 0,
            climbing: 0,
            sockets: 0,
            roams: 0,
            outside: 0,
            seq: 0,
            seen: [0; count::SLOTS],
            lost: [0; count::SLOTS],
            lost_records: 0,
            faults: 0,
            unreadable: 0,
            unresolved: 0,
            working: 0,
            marked: 0,
            ended: [0; ENDS],
            outsider: Outsider::NONE,
            filtered: [0; FILTERED_WORDS],
            called: [0; COUNT],
        }
    }
}

const _: () = assert!(
    size_of::<Jail>()
        == 72
            + 3 * 8
            + 2 * 8 * count::SLOTS
            + 48
            + 8 * ENDS
            + size_of::<Outsider>()
            + 8 * FILTERED_WORDS
            + COUNT
);

/// A process outside of a jail that sent a signal to a process in it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outsider {
    /// The signal; 0: none was sent.
    pub signal: u32,
    /// The sender's process id in the host's namespace.
    pub pid: u32,
    /// The sender's user id in the host's namespace.
    pub uid: u32,
    /// The process id that the receiver has in the jail.
    pub target: u32,
    /// The sender's name, as `comm`.
    pub comm: [u8; 16],
}

impl Outsider {
    /// No process.
    pub const NONE: Self = Self {
        signal: 0,
        pid: 0,
        uid: 0,
        target: 0,
        comm: [0; 16],
    };
}

const _: () = assert!(size_of::<Outsider>() == 32);

/// States of the jail's command: from its start on, rules on `exec` apply.
pub mod started {
    /// The command was not started yet.
    pub const NOT: u32 = 0;
    /// The command was started, and its record is still to be made.
    pub const UNTOLD: u32 = 1;
    /// The command was started, and its record is made.
    pub const TOLD: u32 = 2;
}

/// Hooks that are asked before acts on names and attributes, about the kernel's own objects.
pub mod hooks {
    /// No program: acts are decided on by their arguments, when they are over.
    pub const NONE: u32 = 0;
    /// Programs whose answer nobody heeds: the end of the call acts on it.
    pub const SEEN: u32 = 1;
    /// Programs whose answer the kernel heeds.
    pub const HEEDED: u32 = 2;
}

/// Traits of internet sockets, as bits.
pub mod sockets {
    /// Each bears its number as the mark of its packets, and so do records of it.
    pub const MARKED: u32 = 1;
    /// Some may be made that no rule on addresses holds: raw ones, and those of other protocols than TCP and UDP.
    pub const UNRULED: u32 = 2;
}

/// Network modes: the addresses that internet sockets may reach.
pub mod network {
    /// No address.
    pub const NONE: u32 = 0;
    /// The jail's own loopback.
    pub const LOOPBACK: u32 = 1;
    /// The same, in which some addresses of others are local; what has no route has none.
    pub const ALLOW: u32 = 2;
    /// All addresses that the host reaches; its loopback is not the jail's own.
    pub const HOST: u32 = 3;
}
