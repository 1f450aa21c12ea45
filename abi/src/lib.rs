//! Wire types shared by the BPF programs and the user side.
//!
//! Everything here is an integer or an array of integers, with its padding spelled out and its
//! size asserted: the two sides are built by different compilers for different machines and agree
//! on nothing else. No enum, tuple, `bool` or `Option` crosses the boundary; codes are constants,
//! and a reader must expect any value.
#![no_std]

mod jail;
mod offsets;
mod record;
mod table;

pub mod syscalls;

pub use jail::{HOOKED, Jail, network};
pub use offsets::{OFFSETS, Offsets};
pub use record::{ADDRESS, COMM, PATH, Record, TEXT, act, count, flag, kind};
pub use table::{CELLS, ON, RULES, STATES, Table, action, column};

/// Changes whenever any type of this crate changes its meaning. The object carries it; the
/// monitor refuses to load another.
pub const ABI_VERSION: u32 = 1;

/// Bytes of the ring that carries what no rule decided on.
pub const RING: u32 = 8 << 20;

/// Bytes of the ring that carries the records of what a rule decided on. Nothing else goes
/// there, so no flood of harmless acts can crowd out the record of a forbidden one.
pub const VERDICT_RING: u32 = 1 << 20;

/// As long as more than this is free in the ring of verdicts, any verdict goes there; the rest is
/// kept for those that kill. It holds twenty of the longest records.
pub const KILL_RESERVE: u32 = 256 << 10;

/// How many jails one loaded object can watch: the run's own and the canary's.
pub const JAILS: u32 = 2;

/// Index of the rule table of the run itself.
pub const TABLE_RUN: u32 = 0;

/// Index of the rule table of the canary.
pub const TABLE_CANARY: u32 = 1;

/// The symbol by which an object says that it speaks version [`ABI_VERSION`]; the number in its
/// name is the version.
pub const ABI_SYMBOL: &str = "TURNKEY_ABI_1";
