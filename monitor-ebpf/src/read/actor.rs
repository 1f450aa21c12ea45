//! Actors of processes, in a map that all programs share.

#![expect(unsafe_code, reason = "words of a map that all programs share")]

use turnkey_abi::{Actor, Process, fault};

use super::has;
use crate::maps;

/// The actor that is kept of a process. No entry is the same as a process of which nothing is known.
#[inline(always)]
pub fn actor(process: &Process) -> Actor {
    // SAFETY: the value is one word, which is read at once; an entry that is taken away meanwhile is
    // kept, or given to another process whose word is as whole, until this program is done.
    match unsafe { maps::ACTORS.get(process) } {
        Some(word) => Actor(*word),
        None => Actor::new(turnkey_abi::role::UNKNOWN),
    }
}

/// Keeps what a process executes. Without room for it, nothing is kept, and `false`.
#[inline(always)]
pub fn keep_actor(process: &Process, Actor(word): Actor) -> bool {
    if !has(fault::ACTORS) && maps::ACTORS.insert(process, word, 0).is_ok() {
        return true;
    }
    forget_actor(process);
    false
}

/// Forgets a process.
#[inline(always)]
pub fn forget_actor(process: &Process) {
    // That there is nothing to forget is as well.
    let _ = maps::ACTORS.remove(process);
}
