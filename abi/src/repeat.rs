//! Repetitions of threads: their last record, and how often it happened again since it was told.

use core::mem::size_of;

use crate::Record;

/// Bytes of text of a record that is counted instead of sent again; a longer one is sent.
pub const REPEAT_TEXT: usize = 256;

/// Slots of one jail; a thread's is its id modulo this.
pub const REPEATS: usize = 128;

/// The last record of a thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// Programs that want the slot now; the first has it.
    pub claims: u64,
    /// The record as it was sent. `repeated` says how often the act has happened since, of which
    /// nothing is told yet, and `time_ns` and `last_ns` when it did first and last.
    pub record: Record,
    /// The record's text.
    pub text: [u8; REPEAT_TEXT],
}

/// The slots of one jail.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeats {
    /// By thread id.
    pub slots: [Repeat; REPEATS],
}

const _: () = assert!(size_of::<Repeat>() == 8 + size_of::<Record>() + REPEAT_TEXT);
const _: () = assert!(size_of::<Repeats>() == REPEATS * size_of::<Repeat>());
