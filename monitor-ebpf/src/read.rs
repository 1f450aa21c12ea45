//! Reads of kernel and user memory, maps and helpers: with the files in `read/` and `verifier.rs`, all unsafe code of this crate.
//!
//! Kernel addresses are plain numbers here. They are only ever handed to `bpf_probe_read_kernel`,
//! which fails on a bad one instead of faulting, so a stale or wrong address costs a value, never more.

#![expect(unsafe_code, reason = "reads of kernel and user memory")]

use core::ffi::c_void;
use core::mem::{MaybeUninit, size_of};

use aya_ebpf::helpers::generated as helper;
use turnkey_abi::{ABI_VERSION, OWN_PLACE, Offsets, PATH, Record, SlotData, TEXT, Table, fault};

use crate::change::Arguments;
use crate::entry::Course;
use crate::maps;
use crate::mounts::Search;
use crate::path::{Ascent, Resolved};
use crate::verifier::{self, Forget, Passage};

mod actor;
mod area;
mod claim;
mod compat;
mod descriptor;
mod event;
mod field;
mod jail;
mod mark;
mod rings;
mod signalled;
mod slot;
mod socket;

pub use actor::{actor, forget_actor, keep_actor};
pub use area::{Area, all_areas, all_areas_with_gaps, area, area_at};
pub use claim::{claim, release};
pub use compat::{is_unlike, may_begin, number as number_alike, word, words};
pub use descriptor::descriptor_in_proc;
pub(crate) use event::perf_program;
pub use event::{event, event_text};
pub use field::{
    argument, arguments, begin, bytes, clear, clear_act, field, four, head, kernel_text, member,
    nullable_argument, number, of_head, register,
};
pub use jail::JailCell;
use jail::fetch_add;
pub use mark::{
    forget_mark, is_address_told, mark_address, mark_of, mark_told, notice, noticed, take_mark,
};
pub use rings::{send, send_value};
pub use signalled::{keep_signal, take_signal};
pub use slot::{Message, RepeatSlot, repeat_slot};
pub use socket::{
    Tuple, bound, family_asked, has_receiver, mark, network_of, number_of, own_network, socket,
    socket_address4, socket_address6,
};

/// The length of a text that cannot be read.
pub const UNREADABLE: u32 = u32::MAX;

/// Longest name of a directory entry.
pub const NAME: usize = 255;

/// Bytes of a structure of the kernel that are copied at once: those that hold what is asked for, and no
/// more than the smallest of these structures has.
pub const HEAD: usize = 96;

/// Memory for one program's work on one CPU: a stack frame holds 512 bytes only.
#[repr(C)]
pub struct Scratch {
    /// The record being made; its text follows it without a gap.
    pub record: Record,
    /// Raw argument, path, argv, one after the other.
    pub text: [u8; TEXT],
    /// A path, built from its end; the spare room keeps the last name in bounds.
    pub path: [u8; PATH + NAME + 1],
    /// The automaton's state after each component of the path being normalised.
    pub states: [u16; PATH],
    /// The bytes that [`head`] copied last.
    pub head: [u8; HEAD],
    /// The numbers that loops count with.
    pub cursor: Cursor,
    /// The place that the walk along a path has come to.
    pub course: Course,
    /// The arguments of a call that changes names, and asks about them.
    pub asked: Arguments,
    /// The file that is sought among those of the table.
    pub sought: Sought,
    /// The walk from an entry to the root.
    pub ascent: Ascent,
    /// The mount that is sought.
    pub search: Search,
}

/// A file by its number and its device, as [`turnkey_abi::WatchedFile`] has them.
#[repr(C)]
pub struct Sought {
    pub inode: u64,
    pub dev: u32,
}

/// Counters of loops, and the state of walks. They live in map memory because the verifier takes a value read from
/// there for any number at all, and so is done with a loop after one look; a counter on the stack it would follow from
/// one value to the next.
#[repr(C)]
pub struct Cursor {
    /// Index in [`Scratch::path`] of the first byte of the path being built.
    pub begin: u32,
    /// State in which the building of that path ended.
    pub ended: u32,
    /// A path on its way into or out of a function of [`global`](crate::verifier::global).
    pub resolved: Resolved,
    /// Components of the path being normalised so far.
    pub depth: u32,
    /// Bytes of the current component so far.
    pub length: u32,
    /// Leading dots of the current component.
    pub dots: u32,
    /// The automaton's state.
    pub state: u32,
    /// The role of the current process, by which it answers.
    pub role: u32,
    /// [`JailCell::roams`].
    pub roams: u64,
    /// Number of `..` in the path being normalised.
    pub stepped: u32,
    /// Not 0: the path being looked at is not in its plain form.
    pub untidy: u32,
    /// The upper half of the mark that a hook has left for the end of the call that is over now.
    pub marked: u32,
    /// Not 0: what a path of the call leads to is asked about besides, so that one as it was written needs not be where it says.
    pub trusted: u32,
    /// The end of the path argument that was looked up last by the kernel's own links: one of [`turnkey_abi::magic`].
    pub magic: u32,
    /// Not 0: a name of the act leads by such links to a file that no text tells, or, 2, a symlink does that was made. In the end 1
    /// where rules about any file decided because of that.
    pub lost: u64,
    /// Bytes of the path argument being looked at that are the name of a new symlink, in front of its aim.
    pub own: u64,
    /// 1: the whole path argument being looked at is the aim of a new symlink.
    pub aimed: u64,
    /// 1: the call only looks at what its path argument leads to, of which no hook is asked.
    pub looks: u64,
    /// The address of the `struct dentry` of the directory that had the object of a rename or link; 0: which it was is not certain.
    pub parent: u64,
    /// The type and the mode of what is by the old name after a rename; 0: none is, or it is not known.
    pub back: u16,
    /// Lengths of the names of the act.
    pub named: u32,
    pub named_new: u32,
    /// The states that they end in.
    pub old: u32,
    pub new: u32,
    /// 1 when the object is what its name leads to.
    pub followed: u32,
    /// The effects of the act, once both names are known.
    pub effects: u32,
    /// The result of the call that is over now, where the verifier takes it for any.
    pub result: i64,
    /// Not 0: the path being looked at has a slash in it.
    pub slashes: u64,
    /// The first bytes of the path that is looked for below places of the jail's own.
    pub first: [u64; OWN_PLACE / 8],
    /// The highest bit of the lowest byte, when the byte before was a slash.
    pub slash: u64,
    /// Verdict to tell when the program is done, as [`emit::conclude`] writes it; 0: none.
    ///
    /// [`emit::conclude`]: crate::emit::conclude
    pub due: u64,
    /// Watched files that are known to be in front of the one that is sought.
    pub place: u64,
    /// The word through which [`Forget`](crate::verifier::Forget) passes values.
    pub passage: u64,
    /// Index of this work memory in its map, where it is claimed.
    pub claimed: u64,
}

impl Scratch {
    /// The result of the call that is over now.
    #[inline(always)]
    pub fn result(&self) -> i64 {
        // SAFETY: it is borrowed; volatile, so that the compiler keeps no copy, of which the verifier would know more.
        unsafe { (&raw const self.cursor.result).read_volatile() }
    }
}

impl Passage for Scratch {
    #[inline(always)]
    fn passage(&mut self) -> *mut u64 {
        &raw mut self.cursor.passage
    }
}

const _: () = assert!(core::mem::offset_of!(Scratch, text) == size_of::<Record>());
// The most the kernel gives one CPU's value of a per-CPU map.
const _: () = assert!(size_of::<Scratch>() <= 32 << 10);

/// Byte offsets of the running kernel's structure members: written by the loader from the kernel's BTF.
#[unsafe(no_mangle)]
pub static OFFSETS: Offsets = Offsets::ZERO;

/// The helpers used here are the kernel's for programs under its own licence.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
pub static LICENSE: [u8; 4] = *b"GPL\0";

/// Tells the loader which wire types this object speaks.
#[unsafe(no_mangle)]
pub static TURNKEY_ABI_19: u32 = ABI_VERSION;

/// Faults to have, bits of [`fault`]: none but in the object of a test.
#[unsafe(no_mangle)]
pub static FAULTS: u64 = fault::MARK;

/// True when the program is to behave as if something had failed; `which` is one of [`fault`].
#[inline(always)]
pub fn has(which: u64) -> bool {
    // SAFETY: the static is never written; volatile, so that the verifier decides and not the
    // compiler, which knows of no test.
    unsafe { core::ptr::read_volatile(&raw const FAULTS) & which != 0 }
}

/// Not 0 while a jail is condemned, or has its calls noted. Syscalls that are not looked at cost the host
/// this one load.
static mut EVERY_CALL: u32 = 0;

/// True when every syscall of the host has to look for its jail.
#[inline(always)]
pub fn every_call_matters() -> bool {
    // SAFETY: an aligned word that programs only ever set to 1, by volatile stores of whole words.
    unsafe { (&raw const EVERY_CALL).read_volatile() != 0 }
}

/// Lets every later syscall of the host look for its jail.
#[inline(always)]
pub fn look_at_every_call() {
    // SAFETY: as in `every_call_matters`.
    unsafe { (&raw mut EVERY_CALL).write_volatile(1) };
}

/// Not 0 once a jail has connected a socket to a name server. What is written by a descriptor costs the host this one load until then.
/// In a map of its own: user space writes that of [`EVERY_CALL`] whole.
#[unsafe(link_section = ".data.writes")]
static mut WRITES: u32 = 0;

/// True when what is written may be a question to a name server.
#[inline(always)]
pub fn writes_matter() -> bool {
    // SAFETY: as in `every_call_matters`.
    unsafe { (&raw const WRITES).read_volatile() != 0 }
}

/// Lets every later write of the host look for its jail.
#[inline(always)]
pub fn look_at_writes() {
    // SAFETY: as in `every_call_matters`.
    unsafe { (&raw mut WRITES).write_volatile(1) };
}

/// Loads one of the kernel's field offsets.
///
/// The read is volatile because the loader writes the value after the compiler is done; the
/// verifier then sees a constant.
macro_rules! offset {
    ($field:ident) => {
        // SAFETY: the static is initialised and never written while programs run.
        unsafe { core::ptr::read_volatile(&raw const $crate::read::OFFSETS.$field) }
    };
}
pub(crate) use offset;

/// Copies a value out of kernel memory; zero when it cannot be read.
///
/// Zero rather than `None`: as an address it makes every further read fail the same way, so a
/// chain of reads needs one look at its end. (It also keeps undefined values out of registers,
/// which the verifier does not let a program move about.)
#[inline(always)]
pub fn kernel<T: Copy>(address: u64) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the destination is `size_of::<T>()` bytes of our own; the helper checks the source.
    unsafe {
        helper::bpf_probe_read_kernel(
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
            address as *const c_void,
        );
    }
    // SAFETY: the helper fills the whole destination, with zeros when it fails. All callers read
    // integers, or arrays of them, for which every bit pattern is a value.
    unsafe { value.assume_init() }
}

/// Copies a value out of user memory; zero, and `false`, when it cannot be read.
#[inline(always)]
pub fn user<T: Copy>(address: u64) -> (T, bool) {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: as in `kernel`.
    let failed = unsafe {
        helper::bpf_probe_read_user(
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
            address as *const c_void,
        )
    };
    // SAFETY: as in `kernel`.
    (unsafe { value.assume_init() }, failed == 0)
}

/// Copies a string from user memory to the start of `text`. The length is without the zero, and
/// [`UNREADABLE`] when there is none.
#[inline(always)]
pub fn user_text(scratch: &mut Scratch, address: u64) -> u32 {
    user_text_within(scratch, address, PATH as u32 - 1)
}

/// As [`user_text`], of a string that ends after `longest` bytes if not before.
#[inline(always)]
pub fn user_text_within(scratch: &mut Scratch, address: u64, longest: u32) -> u32 {
    let size = (verifier::opaque(u64::from(longest)) & (PATH as u64 - 1)) + 1;
    // SAFETY: `text` is longer than `PATH`.
    let length = unsafe {
        helper::bpf_probe_read_user_str(
            scratch.text.as_mut_ptr().cast(),
            size as u32,
            address as *const c_void,
        )
    };
    // Of an empty one 6.18 counts the zero, and 6.12 does not (strncpy_from_user_nofault of mm/maccess.c).
    let known = if length >= 0 && !has(fault::ARGUMENT) {
        (length as u32).saturating_sub(1) & (PATH as u32 - 1)
    } else {
        UNREADABLE
    };
    known.forget(scratch)
}

/// Copies `length` bytes of user memory to the start of `text`.
#[inline(always)]
pub fn user_bytes(scratch: &mut Scratch, address: u64, length: u32) -> bool {
    let length = verifier::opaque(u64::from(length)) & (PATH as u64 - 1);
    // SAFETY: the mask keeps the length within `text`.
    unsafe {
        helper::bpf_probe_read_user(
            scratch.text.as_mut_ptr().cast(),
            length as u32,
            address as *const c_void,
        ) == 0
    }
}

/// Appends `length` bytes of user memory to `text`, `at` bytes in.
#[inline(always)]
pub fn append_user_bytes(scratch: &mut Scratch, at: u32, address: u64, length: u32) -> bool {
    let at = verifier::opaque(u64::from(at)) & (2 * PATH as u64 - 1);
    let length = verifier::opaque(u64::from(length)) & (PATH as u64 - 1);
    // SAFETY: the masks keep the end below three times `PATH`.
    unsafe {
        helper::bpf_probe_read_user(
            scratch.text.as_mut_ptr().add(at as usize).cast(),
            length as u32,
            address as *const c_void,
        ) == 0
    }
}

/// Appends a string of user memory to `text`, `at` bytes in, behind a step back from what is there: as a path
/// that starts in the directory of that one. The length of the whole, and [`UNREADABLE`] when there is none or it
/// is too long.
#[inline(always)]
pub fn append_sibling(scratch: &mut Scratch, at: u32, address: u64) -> u32 {
    const BACK: [u8; 4] = *b"/../";
    let at = verifier::opaque(u64::from(at)) as usize & (PATH - 1);
    let begin = at + BACK.len();
    for (index, byte) in BACK.into_iter().enumerate() {
        scratch.text[at + index] = byte;
    }
    // SAFETY: `text` is longer than twice `PATH`.
    let length = unsafe {
        helper::bpf_probe_read_user_str(
            scratch.text.as_mut_ptr().add(begin).cast(),
            PATH as u32,
            address as *const c_void,
        )
    };
    let whole = begin as i64 + length - i64::from(length != 0);
    let known = if length >= 0 && whole < PATH as i64 {
        whole as u32
    } else {
        UNREADABLE
    };
    known.forget(scratch)
}

/// Appends the end of `path`, from `from` on, to `text`, `at` bytes in.
#[inline(always)]
pub fn append_path(scratch: &mut Scratch, at: u32, from: u32, length: u32) {
    let at = verifier::opaque(u64::from(at)) & (2 * PATH as u64 - 1);
    let from = verifier::opaque(u64::from(from)) & (PATH as u64 - 1);
    let length = verifier::opaque(u64::from(length)) & (PATH as u64 - 1);
    // SAFETY: the masks keep the end below three times `PATH`; the helper reads the source itself and
    // fails, rather than faults, beyond the map.
    unsafe {
        helper::bpf_probe_read_kernel(
            scratch.text.as_mut_ptr().add(at as usize).cast(),
            length as u32,
            scratch.path.as_ptr().add(from as usize).cast(),
        );
    }
}

/// Copies `length` bytes of a kernel name to `path`, `at` bytes in.
#[inline(always)]
pub fn name(scratch: &mut Scratch, at: u32, address: u64, length: u32) -> bool {
    let at = verifier::opaque(u64::from(at)) & (PATH as u64 - 1);
    let length = verifier::opaque(u64::from(length)) & NAME as u64;
    // SAFETY: the masks keep the end within `PATH + NAME`.
    unsafe {
        helper::bpf_probe_read_kernel(
            scratch.path.as_mut_ptr().add(at as usize).cast(),
            length as u32,
            address as *const c_void,
        ) == 0
    }
}

/// The work memory of one program on this CPU.
#[inline(always)]
pub fn scratch(program: u32) -> Option<&'static mut Scratch> {
    if has(fault::SCRATCH) {
        return None;
    }
    // SAFETY: each program has its own index, and the kernel does not enter a tracing program
    // again on a CPU before it has left it there. Nobody else holds this reference.
    maps::SCRATCH
        .get_ptr_mut(program)
        .map(|pointer| unsafe { &mut *pointer })
}

/// The rules of a jail.
#[inline(always)]
pub fn table(jail: JailCell) -> Option<&'static Table> {
    if has(fault::TABLE) {
        return None;
    }
    // SAFETY: user space writes rules only while no task of their jail exists, and only the address
    // of a field is taken. The array stays while this program runs.
    slot_data(jail).map(|data| unsafe { &(*data).table })
}

/// A jail slot's data: its rules and repetitions.
#[inline(always)]
fn slot_data(jail: JailCell) -> Option<*mut SlotData> {
    let words = maps::SLOT_DATA.get_value_ptr_mut(jail.slot(), &0)?;
    Some(words.cast())
}

/// Level of the watched groups in the hierarchy, the root's being 0; tasks of all groups below belong to them. 0: as many
/// groups as there are jails are watched, each by itself, at any level. The loader writes it, and the verifier leaves out
/// the code of the other case.
///
/// The first value is one that nothing else here has: LLVM puts a nameless constant, as the `0` behind a `&0`, where a
/// named one of the same bytes is, and the loader would write into both.
#[unsafe(no_mangle)]
pub static LEVEL: u32 = 0x6c65_7665;

/// The level of the watched groups; see [`LEVEL`].
#[inline(always)]
pub fn level() -> u32 {
    // SAFETY: the static is initialised and never written while programs run; volatile, as in `has`.
    unsafe { core::ptr::read_volatile(&raw const LEVEL) }
}

/// The state of the jail that the current task is in, if it is in one.
#[inline(always)]
pub fn current_jail() -> Option<JailCell> {
    jail_of(current_group())
}

/// The state of the jail whose group has this id, if it is one's.
#[inline(always)]
pub fn jail_of(group: u64) -> Option<JailCell> {
    maps::JAILS.get_ptr_mut(group).map(JailCell::at)
}

/// The id of the group that the current task counts for: its own, or that above it at [`LEVEL`].
#[inline(always)]
pub fn current_group() -> u64 {
    match level() {
        // SAFETY: the helper has no preconditions.
        0 => unsafe { helper::bpf_get_current_cgroup_id() },
        // SAFETY: the helper has none either; above the task's own level there is no group, and it answers 0.
        level => unsafe { helper::bpf_get_current_ancestor_cgroup_id(level as i32) },
    }
}

/// Sends SIGKILL to the current process. It acts on the way back to user space.
#[inline(always)]
pub fn kill_current() {
    const SIGKILL: u32 = 9;
    // SAFETY: the helper has no preconditions.
    unsafe { helper::bpf_send_signal(SIGKILL) };
}

/// The current `task_struct`, as a pointer for [`field`].
#[inline(always)]
pub fn current_task() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { helper::bpf_get_current_task_btf() as u64 }
}

/// The current task's user registers, for [`argument`]; those of a kernel's worker are zeros.
#[inline(always)]
pub fn current_registers() -> u64 {
    // SAFETY: the task is the current one, which stays while this program runs.
    unsafe { helper::bpf_task_pt_regs(helper::bpf_get_current_task_btf()) as u64 }
}

/// `CLOCK_BOOTTIME`, nanoseconds.
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { helper::bpf_ktime_get_boot_ns() }
}
