//! The maps.

use aya_ebpf::btf_maps::{self, ArrayOfMaps};
use aya_ebpf::macros::{btf_map, map};
use aya_ebpf::maps::{HashMap, PerCpuArray};
use turnkey_abi::{Jail, Room, SEATS};

use crate::read::Scratch;

/// The jails, by cgroup id.
#[map]
pub static JAILS: HashMap<u64, Jail> = HashMap::with_max_entries(SEATS, 0);

/// [`Room`] without its fields. Linux 6.1 takes a map for another only if both or none have type
/// information about a struct, and those that user space puts in have none.
pub type Words = [u64; size_of::<Room>() / size_of::<u64>()];

const _: () = assert!(size_of::<Words>() == size_of::<Room>() && align_of::<Room>() <= 8);

/// The rules of a jail and what its threads repeat, by seat.
#[btf_map]
pub static ROOMS: ArrayOfMaps<btf_maps::Array<Words, 1>, { SEATS as usize }> = ArrayOfMaps::new();

/// A ring as the arrays below take it. Those that user space puts in are larger: the kernel does
/// not compare their size.
pub type Ring = btf_maps::RingBuf<u8, 4096>;

/// What the kernel tells of acts that no rule decided on, by seat.
#[btf_map]
pub static RECORDS: ArrayOfMaps<Ring, { SEATS as usize }> = ArrayOfMaps::new();

/// What the kernel tells of acts that a rule decided on, by seat.
#[btf_map]
pub static VERDICTS: ArrayOfMaps<Ring, { SEATS as usize }> = ArrayOfMaps::new();

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
    pub const MMAP: u32 = 18;
    pub const MPROTECT: u32 = 19;
    pub const COUNT: u32 = 20;
}
