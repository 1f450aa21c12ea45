//! Marks: words that hooks leave for the end of the call that a thread is in.

#![expect(unsafe_code, reason = "words of a map that all programs share")]

use turnkey_abi::fault;

use super::{JailCell, Scratch, current_registers, has, number};
use crate::maps;

/// The number of the call, and above it what is to be known of it at its end.
///
/// With the number, because not every call's end is looked at: what stays behind says nothing of another call.
#[derive(Clone, Copy)]
pub struct Mark(u64);

impl Mark {
    /// A hook has told of the call.
    const TOLD: u64 = 1 << 63;
    /// A hook has told of an address that the call names.
    const ADDRESS: u64 = 1 << 62;
    /// A rule that acts: what it says of the call is more than is told.
    const ACTS: u64 = 1 << 61;
    /// Above it is the rest, of which the lower half is the rule.
    const REST: u32 = 32;

    /// True when a hook has told of the call.
    #[inline(always)]
    pub fn is_told(self) -> bool {
        self.0 & Self::TOLD != 0
    }

    /// The mark's upper half, which [`is_address_told`] and [`noticed`] read.
    #[inline(always)]
    pub fn rest(self) -> u32 {
        (self.0 >> Self::REST) as u32
    }
}

/// True when a hook has told of the address that the call names.
#[inline(always)]
pub fn is_address_told(scratch: &Scratch) -> bool {
    scratch.cursor.marked & (Mark::ADDRESS >> Mark::REST) as u32 != 0
}

/// The rule plus one that a hook left for the end of the call, or 0; and whether it acts there, or is only told.
#[inline(always)]
pub fn noticed(scratch: &Scratch) -> (u16, bool) {
    let marked = scratch.cursor.marked;
    (
        marked as u16,
        marked & (Mark::ACTS >> Mark::REST) as u32 != 0,
    )
}

/// Lets the end of the call that the current thread is in not tell of it once more; `false` without room.
#[inline(always)]
pub fn mark_told(jail: JailCell, thread: u32) -> bool {
    keep(jail, thread, Mark::TOLD)
}

/// Lets the end of the call that the current thread is in not tell of its address once more; `false` without room.
#[inline(always)]
pub fn mark_address(jail: JailCell, thread: u32) -> bool {
    keep(jail, thread, Mark::ADDRESS)
}

/// Leaves what a rule has to say of the call that the current thread is in for its end; `false` without room.
#[inline(always)]
pub fn notice(jail: JailCell, thread: u32, (rule, acts): (u16, bool)) -> bool {
    let acts = if acts { Mark::ACTS } else { 0 };
    keep(jail, thread, u64::from(rule) << Mark::REST | acts)
}

#[inline(always)]
fn keep(jail: JailCell, thread: u32, what: u64) -> bool {
    let mark = what | u64::from(number(current_registers()) as u32);
    jail.set_marked();
    !has(fault::MARKS) && maps::MARKS.insert(&thread, mark, 0).is_ok()
}

/// Takes the mark that was left for the end of this call away; asked once.
#[inline(always)]
pub fn take_mark(thread: u32, nr: i32) -> Mark {
    let mark = mark_of(thread, nr);
    forget_mark(thread);
    mark
}

/// The mark that was left for the end of this call, which stays.
#[inline(always)]
pub fn mark_of(thread: u32, nr: i32) -> Mark {
    // SAFETY: the value is one word, which is read at once, and only the thread itself, which is here, writes
    // or removes it.
    let mark = unsafe { maps::MARKS.get(&thread) }.map_or(0, |mark| *mark);
    if mark as u32 == nr as u32 {
        Mark(mark)
    } else {
        Mark(0)
    }
}

/// A thread has ended, and comes to the end of no call any more.
#[inline(always)]
pub fn forget_mark(thread: u32) {
    // That there is nothing to forget is as well.
    let _ = maps::MARKS.remove(&thread);
}
