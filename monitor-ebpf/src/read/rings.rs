//! The way out of the kernel: two rings, one of which has room that only some records get.

#![expect(unsafe_code, reason = "records as the bytes that are sent")]

use core::mem::size_of;

use aya_ebpf::helpers::generated as helper;
use turnkey_abi::{PROCESS_LIMIT, Record, TEXT, VERDICT_LIMIT, action, fault, kind};

use super::{JailCell, Message, Scratch, has};
use crate::maps::{self, Ring};
use crate::verifier;

/// `BPF_RB_AVAIL_DATA`: how much of a ring waits to be read.
const WAITING: u64 = 0;
/// `BPF_RB_NO_WAKEUP` and `BPF_RB_FORCE_WAKEUP` of `linux/bpf.h`. Without either, the reader is woken if it has taken
/// all before.
const NO_WAKEUP: u64 = 1;
const FORCE_WAKEUP: u64 = 2;

/// Up to how much waiting the ring of verdicts takes a record; 0: not at all.
#[inline(always)]
fn limit(record: &Record) -> u32 {
    match (record.action, record.kind) {
        (action::KILL.., _) => u32::MAX,
        (action::LOG.., _) => VERDICT_LIMIT,
        (_, kind::EXEC | kind::FORK | kind::EXIT) => PROCESS_LIMIT,
        _ => 0,
    }
}

/// The wakeup flags with which the ring of verdicts takes a record. The task that makes a record is interrupted to wake
/// the reader: that processes come and go is not worth that, and is read with the next thing that is, or a moment
/// later. A kill is, whatever waits before it.
#[inline(always)]
fn wakes(record: &Record) -> u64 {
    match record.action {
        action::KILL.. => FORCE_WAKEUP,
        action::LOG.. => 0,
        _ => NO_WAKEUP,
    }
}

/// Sends bytes through one of the jail's rings, a verdict through whichever takes it. `false`:
/// they are lost.
#[inline(always)]
pub(super) fn output(record: &Record, bytes: &[u8], jail: JailCell) -> bool {
    if has(fault::RINGS) {
        return false;
    }
    let limit = limit(record);
    if limit != 0
        && let Some(verdicts) = maps::VERDICTS.get(jail.slot())
        && query(verdicts) < u64::from(limit)
        && verdicts
            .output_untyped::<[u8]>(bytes, wakes(record))
            .is_ok()
    {
        return true;
    }
    match maps::RECORDS.get(jail.slot()) {
        Some(records) => records.output_untyped::<[u8]>(bytes, 0).is_ok(),
        None => false,
    }
}

/// Bytes of a ring that wait to be read.
#[inline(always)]
fn query(ring: &Ring) -> u64 {
    // SAFETY: the reference is to a map that the kernel has looked up.
    unsafe { helper::bpf_ringbuf_query(core::ptr::from_ref(ring).cast_mut().cast(), WAITING) }
}

/// Sends the record of `scratch` with its text. `false`: it is lost.
#[inline(always)]
pub fn send(scratch: &Scratch, jail: JailCell, text: u32) -> bool {
    let length = verifier::opaque(size_of::<Record>() as u64 + u64::from(text));
    if length > (size_of::<Record>() + TEXT) as u64 {
        return false;
    }
    // SAFETY: text follows the record without a gap (asserted above) and the length is bounded.
    let bytes = unsafe {
        core::slice::from_raw_parts(core::ptr::from_ref(scratch).cast::<u8>(), length as usize)
    };
    output(&scratch.record, bytes, jail)
}

/// As [`send`], for a record with a fixed amount of text.
#[inline(always)]
pub fn send_value<M: Message>(value: &mut M, jail: JailCell) -> bool {
    // SAFETY: the bytes of a value that is integers throughout.
    let bytes = unsafe {
        core::slice::from_raw_parts(core::ptr::from_ref(value).cast::<u8>(), size_of::<M>())
    };
    let record = core::ptr::from_mut(value.record());
    // SAFETY: the record is part of the value, and nothing writes to either here.
    output(unsafe { &*record }, bytes, jail)
}
