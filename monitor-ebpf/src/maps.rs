//! The maps.

use aya_ebpf::btf_maps::{self, ArrayOfMaps};
use aya_ebpf::macros::{btf_map, map};
use aya_ebpf::maps::{Array, HashMap, PerCpuArray};
use turnkey_abi::{ACTORS as MOST_ACTORS, Jail, Process, SLOTS, SlotData};

use crate::read::Scratch;

/// The jails, by cgroup id.
#[map]
pub static JAILS: HashMap<u64, Jail> = HashMap::with_max_entries(SLOTS, 0);

/// [`SlotData`] without its fields. Linux 6.1 takes a map for another only if both or none have type
/// information about a struct, and those that user space puts in have none.
pub type Words = [u64; size_of::<SlotData>() / size_of::<u64>()];

const _: () = assert!(size_of::<Words>() == size_of::<SlotData>() && align_of::<SlotData>() <= 8);

/// `BPF_F_MMAPABLE` of `linux/bpf.h`: user space sees it as its own memory.
const MAPPABLE: usize = 1 << 10;

/// The rules of a jail and what its threads repeat, by slot.
#[btf_map]
pub static SLOT_DATA: ArrayOfMaps<btf_maps::Array<Words, 1, MAPPABLE>, { SLOTS as usize }> =
    ArrayOfMaps::new();

/// A ring as the arrays below take it. Those that user space puts in are larger: the kernel does
/// not compare their size.
pub type Ring = btf_maps::RingBuf<u8, 4096>;

/// Rings of records that [`VERDICTS`] does not take, or has no room for, by slot.
#[btf_map]
pub static RECORDS: ArrayOfMaps<Ring, { SLOTS as usize }> = ArrayOfMaps::new();

/// Rings of records that a rule decided on, and of execs, forks and exits, by slot.
#[btf_map]
pub static VERDICTS: ArrayOfMaps<Ring, { SLOTS as usize }> = ArrayOfMaps::new();

/// Made as they are needed: most jails have rules that name no actor, and most threads are in no such call.
const NO_PREALLOC: u32 = 1;

/// Actors by process, as [`turnkey_abi::Actor`] writes them: those of jails whose rules name actors.
#[map]
pub static ACTORS: HashMap<Process, u64> = HashMap::with_max_entries(MOST_ACTORS, NO_PREALLOC);

/// Most threads, of all jails together, that are in calls at the same time of which a hook has told already: more
/// than all jails have with as many as they may have unless a profile says otherwise.
const MOST_MARKS: u32 = 1 << 16;

/// Marks that hooks leave for the end of the call that a thread is in, by the thread's id.
#[map]
pub static MARKS: HashMap<u32, u64> = HashMap::with_max_entries(MOST_MARKS, NO_PREALLOC);

/// Work memory of the programs that the kernel does not enter again on a CPU before it has left
/// them there: one entry for each in [`program`].
#[map]
pub static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(program::COUNT, 0);

/// Most hooks of BPF LSM that can be at work at the same time. On a kernel that preempts, a task that was interrupted
/// in a hook is one of them until it goes on.
pub const HOOKS_AT_ONCE: usize = 256;

/// Work memory of the hooks of BPF LSM, which the kernel enters again whenever it likes
/// (`bpf_prog_check_recur` of `linux/bpf_verifier.h`). A hook that works in an entry has claimed it.
#[map]
pub static HOOK_SCRATCH: Array<Scratch> = Array::with_max_entries(HOOKS_AT_ONCE as u32, 0);

/// Hooks that want each entry of [`HOOK_SCRATCH`]; the first has it.
#[map]
pub static CLAIMS: Array<[u64; HOOKS_AT_ONCE]> = Array::with_max_entries(1, 0);

/// Indices of [`SCRATCH`], one for each program. Two programs may interleave on one CPU, one of these never with
/// itself.
pub mod program {
    pub const ENTER: u32 = 0;
    pub const LEAVE: u32 = 1;
    pub const EXEC: u32 = 2;
    pub const FORK: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const JUDGE: u32 = 5;
    pub const COUNT: u32 = 6;
}
