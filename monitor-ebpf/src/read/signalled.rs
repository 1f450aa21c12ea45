//! The signals that were sent to processes from outside of their jails.

#![expect(unsafe_code, reason = "values of a map that other CPUs write")]

use turnkey_abi::Outsider;

use crate::maps;

/// Keeps the last signal that was sent to a process; `false` without room.
#[inline(always)]
pub fn keep_signal(process: u32, outsider: &Outsider) -> bool {
    maps::SIGNALLED.insert(&process, outsider, 0).is_ok()
}

/// Takes it away, of a process that has ended; [`Outsider::NONE`] when there is none.
#[inline(always)]
pub fn take_signal(process: u32) -> Outsider {
    // SAFETY: a sender may write the value meanwhile, on another CPU. It is integers, and the process is ending.
    let Some(outsider) = (unsafe { maps::SIGNALLED.get(&process) }) else {
        return Outsider::NONE;
    };
    let outsider = *outsider;
    // That it is gone already is as well.
    let _ = maps::SIGNALLED.remove(&process);
    outsider
}
