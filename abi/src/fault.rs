//! Faults that tests let the programs have, to see that none of them lets anything through.
//!
//! The object holds the word [`MARK`]. A test that wants faults writes their bits into its copy
//! of the object; in any other the verifier sees a constant without bits, and leaves out what
//! stands behind them.

/// The word without any fault. Its lowest byte is zero.
pub const MARK: u64 = 0x6e6f_6661_756c_7400;

/// No work memory.
pub const SCRATCH: u64 = 1 << 0;
/// No rules.
pub const TABLE: u64 = 1 << 1;
/// No path of a file or directory.
pub const RESOLVE: u64 = 1 << 2;
/// No argument can be read, from the user's memory or the kernel's.
pub const ARGUMENT: u64 = 1 << 3;
/// No file behind a descriptor.
pub const FILE: u64 = 1 << 4;
/// No room in any ring.
pub const RINGS: u64 = 1 << 5;
/// No slot for repetitions.
pub const REPEATS: u64 = 1 << 6;
/// Work memory of hooks is not given back.
pub const KEEP: u64 = 1 << 7;
/// An actor is kept neither at an exec nor at a fork.
pub const ACTORS: u64 = 1 << 8;
/// No fork is told.
pub const FORKS: u64 = 1 << 9;
/// A hook's mark for the end of a call is not kept.
pub const MARKS: u64 = 1 << 11;

const _: () = assert!(MARK & ((2 * FORKS - 1) | MARKS) == 0);
