//! Wire types shared by the BPF programs and the user side.
//!
//! Everything here is an integer or an array of integers, with its padding spelled out and its
//! size asserted: the two sides are built by different compilers for different machines and agree
//! on nothing else. No enum, tuple, `bool` or `Option` crosses the boundary; codes are constants,
//! and a reader must expect any value.
#![no_std]

mod actor;
mod jail;
mod offsets;
mod record;
mod repeat;
mod slot_data;
mod table;

pub mod compat;
pub mod fault;
pub mod syscalls;

pub use actor::{ACTORS, Actor, Process};
pub use jail::{ENDS, FILTERED_WORDS, Jail, Outsider, hooks, network, sockets, started};
pub use offsets::{ABSENT, OFFSETS, OPTIONAL, Offsets};
pub use record::{ADDRESS, BY_HANDLE, COMM, PATH, QUESTION, Record, TEXT, act, count, flag, kind};
pub use repeat::{REPEAT_TEXT, REPEATS, Repeat, Repeats};
pub use slot_data::SlotData;
pub use table::{
    CELLS, FILES, KINDS, NOWHERE, ON, OWN_KINDS, OWN_PLACE, OWN_PLACES, OwnPlace, PEERS, Peer,
    ROLES, ROWS, RULES, STATES, Table, WatchedFile, action, column, family, magic, role,
};

/// Changes whenever any type of this crate changes its meaning. The object carries it; the
/// monitor refuses to load another.
pub const ABI_VERSION: u32 = 19;

/// Bytes of the ring that carries what no rule decided on.
pub const RING: u32 = 8 << 20;

/// Bytes of the ring that carries the records of what a rule decided on, and of processes made
/// and ended. It has room that nothing else gets, so no flood of harmless acts can crowd out the
/// record of a forbidden one.
pub const VERDICT_RING: u32 = 1 << 20;

/// Up to here the ring of verdicts takes what made and ended processes, without which no verdict
/// can be understood.
pub const PROCESS_LIMIT: u32 = VERDICT_RING / 2;

/// Up to here it takes verdicts that do not kill. The rest is for those that do: it holds twenty
/// of the longest records, and the first of them ends the jail.
pub const VERDICT_LIMIT: u32 = VERDICT_RING / 4 * 3;

/// Most jails that one loaded object can watch at the same time.
pub const SLOTS: u32 = 1024;

/// The symbol by which an object says that it speaks version [`ABI_VERSION`]; the number in its
/// name is the version.
pub const ABI_SYMBOL: &str = "TURNKEY_ABI_19";
