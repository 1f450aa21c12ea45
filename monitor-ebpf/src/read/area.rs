//! The area of the current task's memory at an address.

#![expect(
    unsafe_code,
    reason = "a callback of the kernel, and the memory that it writes to"
)]

use core::ffi::c_void;

use aya_ebpf::helpers::generated as helper;

use super::{kernel, offset};
use crate::verifier::{self, Step};

/// A part of a task's memory; zeros for one that could not be looked at.
#[derive(Clone, Copy)]
pub struct Area {
    /// Behind its last byte.
    pub end: u64,
    /// `VM_*`
    pub flags: u64,
    /// The area's `struct file`, or 0.
    pub file: u64,
    /// Not 0 when it may have pages of its own.
    pub anonymous: u64,
}

/// The part of memory that a `struct vm_area_struct` is about.
#[inline(always)]
pub fn area(address: u64) -> Area {
    Area {
        end: kernel(address + u64::from(offset!(vma_vm_end))),
        flags: kernel(address + u64::from(offset!(vma_vm_flags))),
        file: kernel(address + u64::from(offset!(vma_vm_file))),
        anonymous: kernel(address + u64::from(offset!(vma_anon_vma))),
    }
}

/// bpf_find_vma(): looks for the area of the current task's memory that holds an address.
#[inline(always)]
fn find(address: u64, into: &mut Area) -> i64 {
    unsafe extern "C" fn seen(_task: *mut c_void, found: *mut c_void, into: *mut c_void) -> i64 {
        // SAFETY: `find` hands over an exclusive borrow, alive until bpf_find_vma returns.
        unsafe { *into.cast::<Area>() = area(found as u64) };
        0
    }
    let seen: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> i64 = seen;
    // SAFETY: the task is the current one; the callback gets back the pointer given here, and
    // only while this call lasts.
    unsafe {
        helper::bpf_find_vma(
            helper::bpf_get_current_task_btf(),
            address,
            seen as *mut c_void,
            (&raw mut *into).cast(),
            0,
        )
    }
}

/// Another thread holds the memory's lock.
const EBUSY: i64 = -16;
/// Another thread may hold the lock for a moment, so this looks again and again; a thread that keeps it locked hides
/// nothing, as what is not known is taken for the worst.
const TRIES: u32 = 4096;

/// A look at the memory of the current task, for which its lock has to be free.
struct Look {
    address: u64,
    area: Area,
}

impl Step for Look {
    #[inline(always)]
    fn step(&mut self, _round: u32) -> bool {
        find(self.address, &mut self.area) == EBUSY
    }
}

/// The part of the current task's memory that holds an address.
#[inline(always)]
pub fn area_at(address: u64) -> Area {
    let mut look = Look {
        address,
        area: nowhere(),
    };
    verifier::repeat(TRIES, &mut look);
    look.area
}

/// Zeros, one after another: of all at once the compiler makes a loop, byte by byte.
#[inline(always)]
fn nowhere() -> Area {
    Area {
        end: verifier::opaque(0),
        flags: verifier::opaque(0),
        file: verifier::opaque(0),
        anonymous: verifier::opaque(0),
    }
}

/// A walk from one area to the next, as long as something is true of them.
struct Walk<F> {
    look: Look,
    end: u64,
    arrived: bool,
    /// Bytes to step on by where there is no area; 0: the walk ends there.
    hop: u64,
    is_true: F,
}

impl<F: Fn(Area) -> bool> Step for Walk<F> {
    #[inline(always)]
    fn step(&mut self, _round: u32) -> bool {
        let found = find(self.look.address, &mut self.look.area);
        if found == EBUSY {
            return true;
        }
        if found != 0 {
            self.look.address += self.hop;
            self.arrived = self.hop != 0 && self.look.address > self.end;
            return self.hop != 0 && !self.arrived;
        }
        self.look.address = self.look.area.end;
        let is_true = (self.is_true)(self.look.area);
        // What was found out about this area is no other case of the next round to the verifier.
        self.look.area = nowhere();
        self.arrived = is_true && self.look.address >= self.end;
        is_true && !self.arrived
    }
}

/// True when something is true of every part of the current task's memory from an address to an end. What is not known
/// is not.
#[inline(always)]
pub fn all_areas(address: u64, end: u64, is_true: impl Fn(Area) -> bool) -> bool {
    let look = Look {
        address,
        area: nowhere(),
    };
    walk(look, (end, 0), is_true)
}

/// True when something is true of every part of the current task's memory from an address to an end, which may have gaps between. Of the
/// parts of an image that is larger than can be looked at, it is not.
#[inline(always)]
pub fn all_areas_with_gaps(address: u64, end: u64, is_true: impl Fn(Area) -> bool) -> bool {
    const PAGE: u64 = 4096;
    let look = Look {
        address,
        area: nowhere(),
    };
    walk(look, (end + 1, PAGE), is_true)
}

#[inline(always)]
fn walk(look: Look, (end, hop): (u64, u64), is_true: impl Fn(Area) -> bool) -> bool {
    let mut walk = Walk {
        look,
        end,
        arrived: false,
        hop,
        is_true,
    };
    verifier::repeat(TRIES, &mut walk);
    walk.arrived
}
