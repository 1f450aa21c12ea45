//! The way out of the kernel: two rings, one of which has room that only some records get.

use core::mem::size_of;

use turnkey_abi::{PROCESS_LIMIT, Record, TEXT, VERDICT_LIMIT, action, fault, kind};

use super::{Message, Scratch, has, opaque};
use crate::maps;

/// Whether a record goes to the ring of verdicts: by what it tells, and how full the ring is.
#[inline(always)]
pub(super) fn is_for_verdicts(record: &Record) -> bool {
    /// `BPF_RB_AVAIL_DATA`: how much waits to be read.
    const WAITING: u64 = 0;
    let limit = match (record.action, record.kind) {
        (action::KILL.., _) => return true,
        (action::LOG.., _) => VERDICT_LIMIT,
        (_, kind::EXEC | kind::FORK | kind::EXIT) => PROCESS_LIMIT,
        _ => return false,
    };
    maps::VERDICTS.query(WAITING) < u64::from(limit)
}

/// Sends bytes through one ring. `false`: it was full.
#[inline(always)]
pub(super) fn output(bytes: &[u8], verdict: bool) -> bool {
    if has(fault::RINGS) {
        return false;
    }
    let ring = if verdict {
        &maps::VERDICTS
    } else {
        &maps::RECORDS
    };
    ring.output::<[u8]>(bytes, 0).is_ok()
}

/// Sends the record of `scratch` with its text, a verdict through whichever ring takes it.
/// `false`: it is lost.
#[inline(always)]
pub fn send(scratch: &Scratch, text: u32) -> bool {
    let length = opaque(size_of::<Record>() as u64 + u64::from(text));
    if length > (size_of::<Record>() + TEXT) as u64 {
        return false;
    }
    // SAFETY: text follows the record without a gap (asserted above) and the length is bounded.
    let bytes = unsafe {
        core::slice::from_raw_parts(core::ptr::from_ref(scratch).cast::<u8>(), length as usize)
    };
    is_for_verdicts(&scratch.record) && output(bytes, true) || output(bytes, false)
}

/// As [`send`], for a record with a fixed amount of text.
#[inline(always)]
pub fn send_value<M: Message>(value: &mut M) -> bool {
    if has(fault::RINGS) {
        return false;
    }
    is_for_verdicts(value.record()) && maps::VERDICTS.output::<M>(&*value, 0).is_ok()
        || maps::RECORDS.output::<M>(&*value, 0).is_ok()
}
