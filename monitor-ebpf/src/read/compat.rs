//! Calls of the 32-bit table, which in a group of others no filter refuses: each is taken for the call of the other table that does
//! the same ([`turnkey_abi::compat`]).
//!
//! A task is in one call at a time, and which table that is of is asked anew for each argument: no branch depends on it, so that the
//! verifier follows one way.

use turnkey_abi::compat::{BEGUN, NUMBERS, UNLIKE};
use turnkey_abi::syscalls::COUNT;

use super::{current_task, field, level, offset, user};
use crate::verifier::{is_some, opaque};

/// The number in the table of `x86_64` of each call of the 32-bit one.
static ALIKE: [u16; COUNT] = NUMBERS;

/// Numbers of calls that may have to be looked at as they begin, by either table.
static MAY_BEGIN: [u8; COUNT] = BEGUN;

/// True in a jail, whose filter kills for such a call. The verifier leaves out what is for the others.
#[inline(always)]
pub fn is_impossible() -> bool {
    level() == 0
}

/// All ones while the current task is in a call of the 32-bit table, and else 0 (`TS_COMPAT` of
/// arch/x86/include/asm/thread_info.h).
#[inline(always)]
fn mask() -> u64 {
    const TS_COMPAT: u32 = 2;
    if is_impossible() {
        return 0;
    }
    let place = offset!(task_thread_info) + offset!(thread_info_status);
    // A plain load: at both ends of every call of the host this is asked.
    let status: u32 = field(current_task(), place);
    opaque(u64::from(status & TS_COMPAT) >> 1).wrapping_neg()
}

/// The first in a call of the 32-bit table, and else the second.
#[inline(always)]
pub fn choose(narrow: u64, wide: u64) -> u64 {
    wide ^ (wide ^ narrow) & mask()
}

/// True unless the call of this number, of whichever table, need not be looked at as it begins: then nobody has to ask of which it is.
#[inline(always)]
pub fn may_begin(own: i32) -> bool {
    let begins = MAY_BEGIN.get(own as u32 as usize);
    is_impossible() || begins.is_none_or(|begins| *begins != 0)
}

/// The number in the table of `x86_64` of the call that the current task is in, whose number in its own table is given.
#[inline(always)]
pub fn number(own: i32) -> i32 {
    if is_impossible() {
        return own;
    }
    let own = u64::from(own as u32);
    // A number in no table is in none of either, as that of the way back from a signal handler.
    let beyond = is_some(own / COUNT as u64).wrapping_neg();
    let alike = u64::from(ALIKE[(opaque(own) & (COUNT as u64 - 1)) as usize]);
    choose(own & beyond | alike & !beyond, own) as i32
}

/// True for a call of the 32-bit table that no other one is like: what it does is not looked at.
#[inline(always)]
pub fn is_unlike(number: i32) -> bool {
    number == i32::from(UNLIKE) && mask() != 0
}

/// Two words of the program's memory, one behind the other, and whether there are any: of 64 bits each, or of 32 in a call of
/// that table. So begin `struct iovec`, and the parts of `struct msghdr`.
#[inline(always)]
pub fn words(address: u64) -> ([u64; 2], bool) {
    let (first, is_known) = user::<u64>(address);
    let second = user::<u64>(address + 8).0;
    let words = [
        choose(u64::from(first as u32), first),
        choose(first >> 32, second),
    ];
    (words, is_known)
}

/// The bytes of a word of the program's memory, in the call that the current task is in.
#[inline(always)]
pub fn word() -> u64 {
    choose(4, 8)
}
