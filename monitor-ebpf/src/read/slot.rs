//! Slots of repetitions: a thread's last act, in memory that all threads of the jail share, compared, kept, sent.

#![expect(unsafe_code, reason = "memory that the threads of a jail share")]

use core::mem::{offset_of, size_of};

use aya_ebpf::helpers::generated as helper;
use turnkey_abi::{REPEAT_TEXT, REPEATS, Record, Repeat, fault};

use super::rings::output;
use super::{JailCell, Scratch, fetch_add, has, slot_data};
use crate::verifier::{self, Step};

/// A record with its text behind it, without a gap. The text is filled up with zeros to whole
/// words.
pub trait Message {
    /// Words of text there are at most, of those that are compared.
    const WORDS: usize;

    fn record(&mut self) -> &mut Record;

    /// Fills the last word of a text of `length` bytes up with zeros, where they are not there
    /// yet.
    #[inline(always)]
    fn pad(&mut self, _length: u32) {}
}

impl Message for Record {
    const WORDS: usize = 0;

    #[inline(always)]
    fn record(&mut self) -> &mut Record {
        self
    }
}

impl Message for Scratch {
    const WORDS: usize = REPEAT_TEXT / 8;

    #[inline(always)]
    fn record(&mut self) -> &mut Record {
        &mut self.record
    }

    #[inline(always)]
    fn pad(&mut self, length: u32) {
        let end = verifier::opaque(u64::from(length)) as usize % (2 * REPEAT_TEXT);
        for byte in &mut self.text[end..end + 8] {
            *byte = 0;
        }
    }
}

/// The first word of text behind a record.
const TEXT_AT: usize = size_of::<Record>() / 8;

/// The words of two texts, which are compared one in each round. The bits that differ are gathered in the new record's number.
struct TextWords<'a, M> {
    kept: *const u64,
    new: &'a mut M,
}

impl<M: Message> Step for TextWords<'_, M> {
    #[inline(always)]
    fn step(&mut self, round: u32) -> bool {
        if M::WORDS == 0 {
            return false;
        }
        let at = TEXT_AT + verifier::opaque(u64::from(round)) as usize % M::WORDS.max(1);
        let new = core::ptr::from_mut(self.new).cast::<u64>();
        // SAFETY: both are a record with `M::WORDS` words of text behind it, aligned like one.
        let differ = unsafe { self.kept.add(at).read_volatile() ^ new.add(at).read_volatile() };
        self.new.record().seq |= differ;
        differ == 0
    }
}

/// A slot of [`Repeats`](turnkey_abi::Repeats) that no other program touches until it is released.
#[derive(Clone, Copy)]
pub struct RepeatSlot(*mut Repeat);

/// The slot of a thread; `None` while it is in another thread's hands.
#[inline(always)]
pub fn repeat_slot(jail: JailCell, thread: u32) -> Option<RepeatSlot> {
    let data = slot_data(jail)?;
    if has(fault::REPEATS) {
        return None;
    }
    let index = verifier::opaque(u64::from(thread)) as usize % REPEATS;
    // SAFETY: the pointer comes from a map whose values outlive every program; only the address
    // of a field is taken.
    let slot = RepeatSlot(unsafe { &raw mut (*data).repeats.slots[index] });
    if slot.claim(1) == 0 {
        return Some(slot);
    }
    slot.release();
    None
}

impl RepeatSlot {
    /// Adds to the programs that want the slot; returns how many did before. The first has it.
    #[inline(always)]
    fn claim(self, claims: u64) -> u64 {
        // SAFETY: as in `repeat_slot`.
        fetch_add(unsafe { &raw mut (*self.0).claims }, claims)
    }

    #[inline(always)]
    pub fn release(self) {
        self.claim(u64::MAX);
    }

    #[inline(always)]
    pub fn record(self) -> &'static mut Record {
        // SAFETY: the slot is ours until it is released, and callers hold one reference at a time.
        unsafe { &mut (*self.0).record }
    }

    /// Counts the act of the slot once more.
    #[inline(always)]
    pub fn count(self, now: u64) {
        let record = self.record();
        if record.repeated == 0 {
            record.time_ns = now;
        }
        record.repeated += 1;
        record.last_ns = now;
    }

    /// True when the message is that of the slot, but for number, times and count.
    #[inline(always)]
    pub fn holds<M: Message>(self, message: &mut M, text: u32) -> bool {
        const HEAD: usize = offset_of!(Record, start_ns) / 8;
        message.pad(text);
        // SAFETY: as in `repeat_slot`.
        let kept = unsafe { &raw const (*self.0).record }.cast::<u64>();
        let new = core::ptr::from_mut(message).cast::<u64>();
        let mut difference = 0;
        for at in HEAD..TEXT_AT {
            // SAFETY: both are a record, aligned like one.
            difference |= unsafe { kept.add(at).read_volatile() ^ new.add(at).read_volatile() };
        }
        // The number of a message is given to it when it is told: until then it is memory that nobody reads.
        message.record().seq = difference;
        let mut texts = TextWords::<M> { kept, new: message };
        verifier::repeat(text.div_ceil(8), &mut texts);
        message.record().seq == 0
    }

    /// Lets nothing be a repetition of what the slot holds.
    #[inline(always)]
    pub fn forget(self) {
        // No thread has this id.
        self.record().tid = 0;
    }

    /// Puts the message into the slot.
    #[inline(always)]
    pub fn keep<M: Message>(self, message: &mut M) {
        let length = size_of::<Record>() + 8 * M::WORDS;
        // SAFETY: both are a record with `M::WORDS` words of text behind it.
        unsafe {
            helper::bpf_probe_read_kernel(
                (&raw mut (*self.0).record).cast(),
                length as u32,
                core::ptr::from_ref(message).cast(),
            );
        }
    }

    /// Sends the record of the slot with its text. `false`: it is lost.
    #[inline(always)]
    pub fn send(self, jail: JailCell) -> bool {
        let record = self.record();
        let text = record.raw_len + record.path_len + record.argv_len;
        let length = verifier::opaque(size_of::<Record>() as u64 + u64::from(text));
        if length > (size_of::<Record>() + REPEAT_TEXT) as u64 {
            return false;
        }
        // SAFETY: the text follows the record without a gap, and the length is bounded.
        let bytes = unsafe {
            let start = (&raw const (*self.0).record).cast::<u8>();
            core::slice::from_raw_parts(start, length as usize)
        };
        output(self.record(), bytes, jail)
    }
}
