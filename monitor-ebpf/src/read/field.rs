//! Fields of structures: many for one call of a helper, or by plain loads.

#![expect(unsafe_code, reason = "loads and copies of the kernel's structures")]

use core::ffi::c_void;
use core::mem::{offset_of, size_of};

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated as helper;
use turnkey_abi::{OWN_PLACE, PATH, Record, fault};

use super::{HEAD, Scratch, UNREADABLE, compat, has, kernel};
use crate::verifier::Forget;

/// Loads a field of a structure, by a pointer that the verifier knows the type of: one that the kernel
/// has handed to the program, or that was loaded through such a one, and not [forgotten](crate::verifier::Forget) since.
///
/// A plain load where [`kernel`] is a call that takes ten times as long. The verifier sees to it that
/// the field is one, and the kernel that a stale pointer gives zero.
#[inline(always)]
pub fn field<T: Copy>(pointer: u64, offset: u32) -> T {
    // SAFETY: the verifier refuses the program unless the field is a whole one of the structure. All
    // callers load integers.
    unsafe { ((pointer + u64::from(offset)) as *const T).read_volatile() }
}

/// An argument of a hook, which is a pointer that may be NULL. The verifier of Linux 6.5 and later takes the pointers that a
/// hook is handed for ones that are not NULL, and leaves out whatever a program does for those that are; of a number
/// in memory it believes nothing.
#[inline(always)]
pub fn nullable_argument(context: &impl EbpfContext, index: u64) -> u64 {
    kernel(context.as_ptr() as u64 + 8 * index)
}

/// The bytes of two words, in the order in which they are in memory.
#[inline(always)]
pub fn bytes(words: [u64; 2]) -> [u8; 16] {
    // SAFETY: as many bytes, and every bit pattern is a value.
    unsafe { core::mem::transmute(words) }
}

/// Zeroes a record. Word by word: the compiler would call a function that does it byte by byte.
#[inline(always)]
pub fn clear(record: &mut Record) {
    clear_words(record, 0, size_of::<Record>());
}

/// Zeroes the fields of a record that tell of an act, and leaves those of the process.
#[inline(always)]
pub fn clear_act(record: &mut Record) {
    clear_words(record, 0, offset_of!(Record, start_ns));
    clear_words(record, offset_of!(Record, inode), offset_of!(Record, pid));
    record.errno = 0;
    clear_words(record, offset_of!(Record, dev), offset_of!(Record, comm));
}

/// Zeroes the words of a record from one byte up to another.
#[inline(always)]
fn clear_words(record: &mut Record, from: usize, to: usize) {
    let words = core::ptr::from_mut(record).cast::<u64>();
    for at in from / 8..to / 8 {
        // SAFETY: a record is aligned words throughout, which may be zero; volatile, so that they stay
        // words.
        unsafe { words.add(at).write_volatile(0) };
    }
}

// What `clear_act` takes for words.
const _: () = assert!(
    offset_of!(Record, start_ns) % 8 == 0
        && offset_of!(Record, inode) == offset_of!(Record, start_ns) + 8
        && offset_of!(Record, pid) % 8 == 0
        && offset_of!(Record, errno) == offset_of!(Record, parent_pid) + 4
        && offset_of!(Record, dev) == offset_of!(Record, errno) + 4
        && offset_of!(Record, dev) % 8 == 0
        && offset_of!(Record, comm) % 8 == 0
);

/// As [`field`], or by a call of [`kernel`] when `TYPED` is not set. A pointer that is loaded costs the
/// verifier of today's kernels a millisecond, which looks through the names of all types for those few
/// whose pointers are good for more than a look.
#[inline(always)]
pub fn member<T: Copy, const TYPED: bool>(pointer: u64, offset: u32) -> T {
    if TYPED {
        field(pointer, offset)
    } else {
        kernel(pointer + u64::from(offset))
    }
}

/// A register of the user side: 64 bits, of which the kernel takes as many as the argument's type has.
///
/// There is no way to the value but by such a type. Most arguments are `int`, and the kernel does not look
/// at what stands above: what decided on all 64 bits would see another call than the kernel makes.
#[derive(Clone, Copy)]
pub struct Register(u64);

impl Register {
    /// An `int`: a descriptor, a process id.
    #[inline(always)]
    pub fn int(self) -> i32 {
        self.0 as i32
    }

    /// An `unsigned int`, or an `int` of flags.
    #[inline(always)]
    pub fn word(self) -> u32 {
        self.0 as u32
    }

    /// An `unsigned long`, a `size_t` or a pointer: all of it.
    #[inline(always)]
    pub fn long(self) -> u64 {
        self.0
    }
}

/// A register of the user side, from its `struct pt_regs`, as the kernel has handed it over.
#[inline(always)]
pub fn register(regs: u64, offset: u32) -> Register {
    Register(field(regs, offset))
}

/// An argument of the system call that user registers are from, counted from 0. In a call of the 32-bit table it is in another
/// register (`SC_IA32_REGS_TO_ARGS` of arch/x86/include/asm/syscall_wrapper.h).
#[inline(always)]
pub fn argument(regs: u64, index: usize) -> Register {
    let wide = match index {
        0 => register(regs, super::offset!(regs_di)),
        1 => register(regs, super::offset!(regs_si)),
        2 => register(regs, super::offset!(regs_dx)),
        3 => register(regs, super::offset!(regs_r10)),
        4 => register(regs, super::offset!(regs_r8)),
        _ => register(regs, super::offset!(regs_r9)),
    };
    if compat::is_impossible() {
        return wide;
    }
    let narrow = match index {
        0 => register(regs, super::offset!(regs_bx)),
        1 => register(regs, super::offset!(regs_cx)),
        2 => register(regs, super::offset!(regs_dx)),
        3 => register(regs, super::offset!(regs_si)),
        4 => register(regs, super::offset!(regs_di)),
        _ => register(regs, super::offset!(regs_bp)),
    };
    Register(compat::choose(u64::from(narrow.word()), wide.long()))
}

/// The first three arguments of a system call, to be told as they are: the reader cuts them to the
/// width of the argument, which user space knows for each call.
#[inline(always)]
pub fn arguments(regs: u64) -> [u64; 3] {
    [0, 1, 2].map(|index| argument(regs, index).long())
}

/// The number of the system call that user registers are from, as the kernel takes it: `orig_ax` keeps all
/// of rax, and do_syscall_64 of arch/x86/entry/syscall_64.c is handed the lower half, as an `int`. Of the 32-bit table it is
/// that of the call which does the same.
#[inline(always)]
pub fn number(regs: u64) -> i32 {
    compat::number(register(regs, super::offset!(regs_orig_ax)).int())
}

/// Copies the beginning of a structure of the kernel to [`Scratch::head`]; zeros when it cannot be read.
/// One call takes little longer than that for one field.
#[inline(always)]
pub fn head(scratch: &mut Scratch, address: u64) {
    // SAFETY: the destination has the size given; the helper checks the source, and fills with zeros
    // what it cannot read.
    unsafe {
        helper::bpf_probe_read_kernel(
            scratch.head.as_mut_ptr().cast(),
            HEAD as u32,
            address as *const c_void,
        );
    }
}

/// A field of the structure at `address`, which [`head`] has copied. On a kernel that has it further
/// behind it is read by itself.
#[inline(always)]
pub fn of_head<T: Copy>(scratch: &Scratch, address: u64, offset: u32) -> T {
    if offset as usize + size_of::<T>() > HEAD {
        return kernel(address + u64::from(offset));
    }
    // SAFETY: just asked. All callers read integers.
    unsafe {
        let place = scratch.head.as_ptr().add(offset as usize);
        place.cast::<T>().read_volatile()
    }
}

/// Four bytes of `text`, from a multiple of four on, the first one lowest.
#[inline(always)]
pub fn four(scratch: &Scratch, at: u32) -> u64 {
    let at = at as usize & (PATH - 4);
    // SAFETY: the mask keeps them within `text`, which is aligned for words, as the record before it is.
    u64::from(unsafe { scratch.text.as_ptr().add(at).cast::<u32>().read_volatile() })
}

/// Copies the first bytes of the path in `path` that begins at this index to [`Cursor::first`](super::Cursor::first), with a slash
/// behind it; where `is_text` is 1, of `text`. They may be from behind its end.
#[inline(always)]
pub fn begin(scratch: &mut Scratch, from: u32, is_text: u64) {
    const BETWEEN: usize = offset_of!(Scratch, path) - offset_of!(Scratch, text);
    scratch.path[PATH] = b'/';
    // A number from here on, so that the verifier has no bound to ask for.
    let text = (scratch.text.as_ptr() as u64).forget(scratch);
    let at = (BETWEEN as u64 + u64::from(from)) & is_text.wrapping_sub(1);
    // SAFETY: so many bytes are ours, and the helper checks the source.
    unsafe {
        helper::bpf_probe_read_kernel(
            scratch.cursor.first.as_mut_ptr().cast(),
            OWN_PLACE as u32,
            (text + at) as *const c_void,
        );
    }
}

/// As [`user_text`](super::user_text), for a string of the kernel.
#[inline(always)]
pub fn kernel_text(scratch: &mut Scratch, address: u64) -> u32 {
    // SAFETY: `text` is longer than `PATH`.
    let length = unsafe {
        helper::bpf_probe_read_kernel_str(
            scratch.text.as_mut_ptr().cast(),
            PATH as u32,
            address as *const c_void,
        )
    };
    let known = if length > 0 && !has(fault::ARGUMENT) {
        (length as u32 - 1) & (PATH as u32 - 1)
    } else {
        UNREADABLE
    };
    known.forget(scratch)
}
