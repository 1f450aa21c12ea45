//! The maps.

use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray, RingBuf};
use turnkey_abi::{JAILS as JAIL_COUNT, Jail, RING, Repeats, Table, VERDICT_RING};

use crate::read::Scratch;

/// The jails, by cgroup id.
#[map]
pub static JAILS: HashMap<u64, Jail> = HashMap::with_max_entries(JAIL_COUNT, 0);

/// The rule tables.
#[map]
pub static TABLES: Array<Table> = Array::with_max_entries(JAIL_COUNT, 0);

/// What threads repeat, by the index of their jail's rule table.
#[map]
pub static REPEATS: Array<Repeats> = Array::with_max_entries(JAIL_COUNT, 0);

/// What the kernel tells of acts that no rule decided on.
#[map]
pub static RECORDS: RingBuf = RingBuf::with_byte_size(RING, 0);

/// What the kernel tells of acts that a rule decided on.
#[map]
pub static VERDICTS: RingBuf = RingBuf::with_byte_size(VERDICT_RING, 0);

/// Work memory: one entry for each program in [`program`].
#[map]
pub static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(program::COUNT, 0);

/// Which program's work memory. Two programs may interleave on one processor, one program never
/// with itself.
pub mod program {
    pub const ENTER: u32 = 0;
    pub const LEAVE: u32 = 1;
    pub const EXEC: u32 = 2;
    pub const FORK: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const FILE_OPEN: u32 = 5;
    pub const CHECK_EXEC: u32 = 6;
    pub const RECEIVE: u32 = 7;
    pub const LINK: u32 = 8;
    pub const RENAME: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const CHMOD: u32 = 12;
    pub const CHOWN: u32 = 13;
    pub const TRUNCATE: u32 = 14;
    pub const MKNOD: u32 = 15;
    pub const MKDIR: u32 = 16;
    pub const SYMLINK: u32 = 17;
    pub const COUNT: u32 = 18;
}
