//! Work memory that a hook has for itself, whatever interrupts it.

#![expect(unsafe_code, reason = "claims work memory of a map's value")]

use aya_ebpf::helpers::generated as helper;
use turnkey_abi::fault;

use super::{JailCell, Scratch, fetch_add, has};
use crate::maps::{self, HOOKS_AT_ONCE};
use crate::verifier::{self, Step};

/// Entries that one jail has at most at the same time. The other half is left to other jails, whatever it does.
const FOR_ONE_JAIL: u64 = HOOKS_AT_ONCE as u64 / 2;

/// A search for an entry that no hook has claimed.
struct Search {
    claims: *mut [u64; HOOKS_AT_ONCE],
    /// Index of the entry that the search begins at.
    from: u32,
    found: u32,
}

const NOTHING: u32 = HOOKS_AT_ONCE as u32;

impl Step for Search {
    #[inline(always)]
    fn step(&mut self, round: u32) -> bool {
        let index = self.from.wrapping_add(round) as usize % HOOKS_AT_ONCE;
        // SAFETY: the pointer comes from a map whose values outlive every program; only the address
        // of a field is taken.
        let claims = unsafe { &raw mut (*self.claims)[index] };
        let is_ours = fetch_add(claims, 1) == 0;
        if is_ours {
            self.found = index as u32;
        } else {
            fetch_add(claims, u64::MAX);
        }
        !is_ours
    }
}

/// Claims work memory that no other program touches until it is released.
#[inline(always)]
pub fn claim(jail: JailCell) -> Option<&'static mut Scratch> {
    if fetch_add(jail.working(), 1) >= FOR_ONE_JAIL {
        fetch_add(jail.working(), u64::MAX);
        return None;
    }
    let scratch = claim_any();
    if scratch.is_none() {
        fetch_add(jail.working(), u64::MAX);
    }
    scratch
}

#[inline(always)]
fn claim_any() -> Option<&'static mut Scratch> {
    if has(fault::SCRATCH) {
        return None;
    }
    let mut search = Search {
        claims: maps::CLAIMS.get_ptr_mut(0)?,
        // SAFETY: the helper has no preconditions.
        from: unsafe { helper::bpf_get_smp_processor_id() },
        found: NOTHING,
    };
    verifier::repeat(NOTHING, &mut search);
    if search.found >= NOTHING {
        return None;
    }
    let scratch = maps::HOOK_SCRATCH.get_ptr_mut(search.found)?;
    // SAFETY: the claim on it is ours, and each claim holds one reference.
    let scratch = unsafe { &mut *scratch };
    scratch.cursor.claimed = u64::from(search.found);
    Some(scratch)
}

/// Gives work memory back.
#[inline(always)]
pub fn release(scratch: &mut Scratch, jail: JailCell) {
    if has(fault::KEEP) {
        return;
    }
    fetch_add(jail.working(), u64::MAX);
    let index = scratch.cursor.claimed as usize % HOOKS_AT_ONCE;
    if let Some(claims) = maps::CLAIMS.get_ptr_mut(0) {
        // SAFETY: as in `Search::step`.
        fetch_add(unsafe { &raw mut (*claims)[index] }, u64::MAX);
    }
}
