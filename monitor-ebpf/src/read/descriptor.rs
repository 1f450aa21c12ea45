//! A path that leads to a descriptor by the list that /proc has of the process's own.

use turnkey_abi::PATH;

use super::field::four;
use super::{Scratch, UNREADABLE};
use crate::verifier::{self, Step};

/// Longest path that is looked at.
const LONGEST: u32 = 64;
/// Most digits of a number.
const DIGITS: u32 = 10;
/// In place of the digits of a component that is no number.
const NO_NUMBER: u32 = 16;
/// The same, of all that comes behind a number: it lies below what the number stands for.
const BELOW: u32 = 32;

/// A scan for the number that the last component of the path in the text is. [`Cursor::place`] is the number so far,
/// [`Cursor::length`] the digits of it, and [`Cursor::depth`] not 0 when the path has ended.
///
/// [`Cursor::place`]: super::Cursor::place
/// [`Cursor::length`]: super::Cursor::length
/// [`Cursor::depth`]: super::Cursor::depth
struct Scan<'a> {
    scratch: &'a mut Scratch,
}

impl Step for Scan<'_> {
    #[inline(always)]
    fn step(&mut self, round: u32) -> bool {
        let byte = self.scratch.text[round as usize % PATH];
        let cursor = &mut self.scratch.cursor;
        let digit = byte.wrapping_sub(b'0');
        if byte == 0 {
            cursor.depth = 1;
        } else if digit < 10 && cursor.length < DIGITS {
            cursor.length += 1;
            cursor.place = cursor.place * 10 + u64::from(digit);
        } else {
            cursor.length = match (byte, cursor.length) {
                (b'/', 0 | NO_NUMBER) => 0,
                (b'/', _) | (_, BELOW) => BELOW,
                // A component with anything else in it is no number, however it goes on.
                _ => NO_NUMBER,
            };
            cursor.place = 0;
        }
        byte != 0
    }
}

/// The number of that descriptor, of the path in the text; [`UNREADABLE`] when it is none.
#[inline(always)]
pub fn descriptor_in_proc(scratch: &mut Scratch) -> u32 {
    if !begins_in_list(scratch) {
        return UNREADABLE;
    }
    (
        scratch.cursor.place,
        scratch.cursor.length,
        scratch.cursor.depth,
    ) = (0, 0, 0);
    verifier::repeat(LONGEST, &mut Scan { scratch });
    let cursor = &scratch.cursor;
    let is_number = cursor.length != 0 && cursor.length <= DIGITS;
    if cursor.depth != 0 && is_number && cursor.place >> 31 == 0 {
        cursor.place as u32
    } else {
        UNREADABLE
    }
}

/// True for a path that begins as the names of that list do.
#[inline(always)]
fn begins_in_list(scratch: &Scratch) -> bool {
    // Zero for the text that has these bytes there, of which the last are no more than so many.
    let differs = |at: u32, bytes: &[u8; 4], count: u32| {
        let mask = u64::from(u32::MAX >> (8 * (4 - count)));
        (four(scratch, at) ^ u64::from(u32::from_le_bytes(*bytes))) & mask
    };
    let of_devices = differs(0, b"/dev", 4) | differs(4, b"/fd/", 4);
    let of_any = differs(0, b"/pro", 4);
    let of_process =
        of_any | differs(4, b"c/se", 4) | differs(8, b"lf/f", 4) | differs(12, b"d/\0\0", 2);
    let of_thread = of_any
        | differs(4, b"c/th", 4)
        | differs(8, b"read", 4)
        | differs(12, b"-sel", 4)
        | differs(16, b"f/fd", 4)
        | differs(20, b"/\0\0\0", 1);
    let is_none = |differs: u64| verifier::opaque(differs).wrapping_neg() >> 63;
    is_none(of_devices) & is_none(of_process) & is_none(of_thread) == 0
}
