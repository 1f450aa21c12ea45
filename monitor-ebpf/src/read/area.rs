//! The area of the current task's memory at an address.

use core::ffi::c_void;

use aya_ebpf::helpers::generated as helper;

use super::{Step, kernel, offset, repeat};

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

/// A look at the memory of the current task, for which its lock has to be free.
struct Look {
    address: u64,
    area: Area,
}

impl Step for Look {
    #[inline(always)]
    fn step(&mut self, _round: u32) -> bool {
        const EBUSY: i64 = -16;
        unsafe extern "C" fn seen(
            _task: *mut c_void,
            found: *mut c_void,
            into: *mut c_void,
        ) -> i64 {
            // SAFETY: `step` hands over an exclusive borrow, alive until bpf_find_vma returns.
            unsafe { *into.cast::<Area>() = area(found as u64) };
            0
        }
        let seen: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> i64 = seen;
        // SAFETY: the task is the current one; the callback gets back the pointer given here, and
        // only while this call lasts.
        let result = unsafe {
            helper::bpf_find_vma(
                helper::bpf_get_current_task_btf(),
                self.address,
                seen as *mut c_void,
                (&raw mut self.area).cast(),
                0,
            )
        };
        result == EBUSY
    }
}

/// The part of the current task's memory that holds an address. Another thread may hold the memory's
/// lock for a moment, so this looks again and again; a thread that keeps it locked hides nothing, as what is
/// not known is taken for the worst.
#[inline(always)]
pub fn area_at(address: u64) -> Area {
    const TRIES: u32 = 4096;
    let mut look = Look {
        address,
        area: Area {
            end: 0,
            flags: 0,
            file: 0,
            anonymous: 0,
        },
    };
    repeat(TRIES, &mut look);
    look.area
}
