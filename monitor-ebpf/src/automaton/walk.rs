//! Walks of the automaton over a path, byte by byte.

use turnkey_abi::{PATH, Table};

use super::next;
use crate::path::Resolved;
use crate::read::{self, Scratch};
use crate::verifier::{self, Step, global, halves, two};

/// Bytes that a walk takes in a round: a round is a call, which takes longer than a byte. With more, the verifier has
/// more to look at.
const AT_ONCE: u32 = 4;

/// A walk over a path that is already in its plain form.
struct Plain<'a> {
    scratch: &'a mut Scratch,
    table: &'static Table,
    from: u32,
    length: u32,
}

impl Step for Plain<'_> {
    #[inline(always)]
    fn step(&mut self, round: u32) -> bool {
        let done = round * AT_ONCE;
        let first = (self.from + done) as usize % PATH;
        let mut state = self.scratch.cursor.state;
        for at in 0..AT_ONCE {
            if done + at >= self.length {
                break;
            }
            let byte = self.scratch.path[first + at as usize];
            state = next(self.table, state, byte);
        }
        self.scratch.cursor.state = state;
        done + AT_ONCE < self.length
    }
}

/// The state that the path of this place and length in [`Scratch::path`] leads to from a state.
#[inline(always)]
pub(super) fn walk_plain(
    scratch: &mut Scratch,
    table: &'static Table,
    start: u32,
    (from, length): (u32, u32),
) -> u32 {
    global_walk_plain(scratch, table, start, from, length)
}

global!(global_walk_plain(scratch, &table, start: u32, from: u32, length: u32) {
    walk_plain_inline(scratch, table, start, (from, length))
});

/// [`walk_plain`], inlined into its global function.
#[inline(always)]
fn walk_plain_inline(
    scratch: &mut Scratch,
    table: &'static Table,
    start: u32,
    (from, length): (u32, u32),
) -> u32 {
    scratch.cursor.state = start;
    let mut walk = Plain {
        scratch,
        table,
        from,
        length,
    };
    verifier::repeat(PATH as u32 / AT_ONCE, &mut walk);
    scratch.cursor.state
}

/// A walk over [`Scratch::text`] as long as it is in its plain form already, as nearly every path is that
/// anybody writes. It ends where a component is empty or begins with a dot.
struct Tidy<'a> {
    scratch: &'a mut Scratch,
    table: &'static Table,
    length: u32,
}

impl Step for Tidy<'_> {
    #[inline(always)]
    fn step(&mut self, round: u32) -> bool {
        let done = round * AT_ONCE;
        if done >= self.length {
            return false;
        }
        let bytes = read::four(self.scratch, done) & low(self.length - done);
        let slashes = equal(bytes, b'/');
        self.scratch.cursor.slashes |= slashes;
        let behind_slash = slashes << 8 | self.scratch.cursor.slash;
        if behind_slash & (slashes | equal(bytes, b'.')) != 0 {
            self.scratch.cursor.untidy = 1;
            return false;
        }
        self.scratch.cursor.slash = slashes >> 24;
        let mut state = self.scratch.cursor.state;
        for at in 0..AT_ONCE {
            if done + at >= self.length {
                break;
            }
            state = next(self.table, state, (bytes >> (8 * at)) as u8);
        }
        self.scratch.cursor.state = state;
        done + AT_ONCE < self.length
    }
}

/// [`Tidy`] begins with a byte that has a slash before it.
const BEHIND_SLASH: u64 = 0x80;

/// Ones for the first so many bytes of four; all for more.
#[inline(always)]
fn low(count: u32) -> u64 {
    u64::from(u32::MAX) >> (8 * (AT_ONCE - count.min(AT_ONCE)))
}

/// The highest bit of each of four bytes that is this one.
#[inline(always)]
fn equal(bytes: u64, byte: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f;
    const HIGH: u64 = 0x8080_8080;
    let differ = bytes ^ u64::from(u32::from_ne_bytes([byte; 4]));
    // A byte that is not zero carries into its highest bit, or has it.
    !(((differ & LOW) + LOW) | differ | LOW) & HIGH
}

/// Walks over a path as it was written, behind the plain path that it starts from, if it is in its plain form
/// itself; otherwise nothing of it is known.
#[inline(always)]
fn walk_tidy(
    scratch: &mut Scratch,
    table: &'static Table,
    start: u32,
    (from, base_length): (u32, u32),
    length: u32,
) -> bool {
    if base_length != 0 {
        // Of the root, there is nothing before its slash.
        let length = if base_length == 1 { 0 } else { base_length };
        let state = walk_plain(scratch, table, start, (from, length));
        scratch.cursor.state = next(table, state, b'/');
        scratch.cursor.slash = BEHIND_SLASH;
    } else if scratch.text[0] == b'/' {
        scratch.cursor.state = start;
        scratch.cursor.slash = 0;
    } else {
        return false;
    }
    scratch.cursor.untidy = 0;
    let mut walk = Tidy {
        scratch,
        table,
        length,
    };
    verifier::repeat(PATH as u32 / AT_ONCE, &mut walk);
    let last = scratch.text[length.wrapping_sub(1) as usize % PATH];
    length != 0 && last != b'/' && scratch.cursor.untidy == 0
}

/// A walk over a path as it was written, which drops `//` and `/./` and steps back at `/../`.
///
/// `states[n]` is the automaton's state after `n` components, without a slash behind them.
struct Written<'a> {
    scratch: &'a mut Scratch,
    table: &'static Table,
    /// Reads from `path` rather than from `text`.
    from_path: bool,
    from: u32,
    length: u32,
}

impl Step for Written<'_> {
    #[inline(always)]
    fn step(&mut self, round: u32) -> bool {
        if round >= self.length {
            return false;
        }
        let at = (self.from + round) as usize % PATH;
        let byte = if self.from_path {
            self.scratch.path[at]
        } else {
            self.scratch.text[at]
        };
        if byte == b'/' {
            end_component(self.scratch)
        } else {
            take(self.scratch, self.table, byte)
        }
        true
    }
}

#[inline(always)]
fn take(scratch: &mut Scratch, table: &Table, byte: u8) {
    let mut state = scratch.cursor.state;
    if scratch.cursor.length == 0 {
        let before = scratch.states[scratch.cursor.depth as usize % PATH];
        state = next(table, u32::from(before), b'/');
    }
    if byte == b'.' && scratch.cursor.dots == scratch.cursor.length {
        scratch.cursor.dots += 1;
    }
    scratch.cursor.length += 1;
    scratch.cursor.state = next(table, state, byte);
}

#[inline(always)]
fn end_component(scratch: &mut Scratch) {
    let cursor = &mut scratch.cursor;
    if cursor.length > 2 || cursor.dots != cursor.length {
        // Two paths of `PATH` bytes together have fewer than `PATH` components.
        cursor.depth += 1;
        scratch.states[cursor.depth as usize % PATH] = cursor.state as u16;
    } else if cursor.length == 2 {
        cursor.stepped += 1;
        if cursor.depth > 0 {
            cursor.depth -= 1;
        }
    }
    cursor.length = 0;
    cursor.dots = 0;
}

/// The state that a path as it was written leads to from a state: the first `length` bytes of the text, behind the place and length of a
/// plain one.
#[inline(always)]
pub(super) fn walk_written(
    scratch: &mut Scratch,
    table: &'static Table,
    start: u32,
    base: Resolved,
    length: u32,
) -> u32 {
    global_walk_written(scratch, table, start, two(base.from, base.length), length)
}

global!(global_walk_written(scratch, &table, start: u32, base: u64, length: u32) {
    walk_written_inline(scratch, table, start, halves(base), length)
});

/// [`walk_written`], inlined into its global function.
#[inline(always)]
fn walk_written_inline(
    scratch: &mut Scratch,
    table: &'static Table,
    start: u32,
    base: (u32, u32),
    length: u32,
) -> u32 {
    scratch.cursor.stepped = 0;
    scratch.cursor.slashes = 0;
    if walk_tidy(scratch, table, start, base, length) {
        return scratch.cursor.state;
    }
    scratch.cursor.slashes = UNTIDY;
    walk_untidy(scratch, table, start, base, length)
}

/// [`Cursor::slashes`](read::Cursor::slashes) of a path that is not in its plain form: no bit that a slash has in [`Tidy`].
pub(super) const UNTIDY: u64 = 1;

/// As [`walk_written`], of any path, by way of its plain form.
#[inline(always)]
pub(super) fn walk_untidy(
    scratch: &mut Scratch,
    table: &'static Table,
    start: u32,
    (from, base): (u32, u32),
    length: u32,
) -> u32 {
    global_walk_untidy(scratch, table, start, two(from, base), length)
}

global!(global_walk_untidy(scratch, &table, start: u32, base: u64, length: u32) {
    walk_untidy_inline(scratch, table, start, halves(base), length)
});

/// [`walk_untidy`], inlined into its global function.
#[inline(always)]
fn walk_untidy_inline(
    scratch: &mut Scratch,
    table: &'static Table,
    start: u32,
    (from, base_length): (u32, u32),
    length: u32,
) -> u32 {
    scratch.cursor.depth = 0;
    scratch.cursor.length = 0;
    scratch.cursor.dots = 0;
    scratch.cursor.stepped = 0;
    scratch.states[0] = start as u16;
    let mut walk = Written {
        scratch,
        table,
        from_path: true,
        from,
        length: base_length,
    };
    verifier::repeat(PATH as u32, &mut walk);
    end_component(walk.scratch);
    walk.from_path = false;
    walk.from = 0;
    walk.length = length;
    verifier::repeat(PATH as u32, &mut walk);
    end_component(walk.scratch);
    let depth = scratch.cursor.depth as usize % PATH;
    let mut state = u32::from(scratch.states[depth]);
    if depth == 0 {
        state = next(table, state, b'/');
    }
    state
}
