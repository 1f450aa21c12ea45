//! The very same act again and again, told once with its count.
//!
//! Each thread has a slot with what it did last. The first of a row is told at once; what repeats
//! it byte for byte only raises the slot's count. The count is told when the thread does something
//! else or ends, when another thread needs the slot, with the next repetition after a second, or by
//! user space in the end.
//!
//! Nothing depends on a slot: an act whose slot is in another's hands is told by itself.

use turnkey_abi::{REPEAT_TEXT, Record, action};

use crate::emit;
use crate::read::{self, JailCell, Message, RepeatSlot};

/// Age of a count in nanoseconds from which on its next repetition tells it.
const PATIENCE: u64 = 1_000_000_000;

/// True when the act may wait to be told. An act that a rule refuses or kills for never does.
#[inline(always)]
fn may_wait(record: &Record, text: u32) -> bool {
    record.action < action::DENY && text as usize <= REPEAT_TEXT
}

/// Counts the act as a repetition of the thread's last one, if it is one; otherwise tells what
/// was counted so far, and `false`: the act is to be told.
#[inline(always)]
pub fn absorbs<M: Message>(message: &mut M, jail: JailCell, text: u32) -> bool {
    let waits = may_wait(message.record(), text);
    let Some(slot) = read::repeat_slot(jail, message.record().tid) else {
        return false;
    };
    let repeats = waits && slot.holds(message, text);
    let now = message.record().time_ns;
    if repeats {
        slot.count(now);
    }
    if !repeats || now - slot.record().time_ns > PATIENCE {
        tell(slot, jail);
    }
    if !repeats && waits {
        slot.keep(message);
    } else if !repeats {
        slot.forget();
    }
    slot.release();
    repeats
}

/// Tells what the thread has repeated: it does something else that cannot repeat, or ends.
#[inline(always)]
pub fn interrupt(jail: JailCell, thread: u32) {
    if let Some(slot) = read::repeat_slot(jail, thread) {
        if slot.record().tid == thread {
            tell(slot, jail);
            slot.forget();
        }
        slot.release();
    }
}

/// Tells what is counted, if anything is.
#[inline(always)]
fn tell(slot: RepeatSlot, jail: JailCell) {
    let record = slot.record();
    if record.repeated == 0 {
        return;
    }
    // The record itself stands for one.
    record.repeated -= 1;
    record.seq = jail.next_seq();
    if !slot.send(jail) {
        emit::lost(record, jail);
    }
    record.repeated = 0;
}
