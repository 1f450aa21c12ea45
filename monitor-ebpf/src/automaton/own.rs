//! Places of the jail's own, in which nothing was that rules on what is present speak of when the jail began.
//!
//! They say nothing of what lies there. What the kernel has found there is there, as nothing can be mounted. A path as it was
//! written may lead elsewhere, through a symlink: it counts as long as there is none, or for a single name in a directory that the
//! kernel knows.

use turnkey_abi::{OWN_KINDS, OwnPlace, STATES, Table};

use crate::path::Resolved;
use crate::read::{self, JailCell, Scratch};
use crate::verifier::{self, Forget};

/// The state that answers for a path that the kernel knows, and that ends in this state.
#[inline(always)]
pub(super) fn of_path(scratch: &mut Scratch, table: &Table, state: u32, path: Resolved) -> u32 {
    let mut state = state;
    if is_answered(table, state) {
        read::begin(scratch, path.from, 0);
        let place = place(scratch, table);
        let is_below = is_below(scratch, place, path.length);
        state = choose(state, own(table, place, state), is_below);
    }
    state.forget(scratch)
}

/// The same of a path as it was written, the first `length` bytes of the text, behind `base`.
#[inline(always)]
pub(super) fn of_written(
    scratch: &mut Scratch,
    table: &Table,
    jail: JailCell,
    state: u32,
    (base, length): (Resolved, u32),
) -> u32 {
    let mut state = state;
    if is_answered(table, state) {
        let is_relative = verifier::is_some(base.length);
        read::begin(scratch, base.from, is_relative ^ 1);
        let directory = is_relative.wrapping_neg() as u32;
        // What is in the place itself is below it, too.
        let length = length & !directory | (base.length + 2) & directory;
        let place = place(scratch, table);
        let is_below = is_below(scratch, place, length);
        let takes = is_below & is_sure(scratch, jail, is_relative);
        state = choose(state, own(table, place, state), takes);
    }
    state.forget(scratch)
}

/// 1 when a path that was written leads where it says, or what it leads to is asked about as well.
#[inline(always)]
fn is_sure(scratch: &Scratch, jail: JailCell, is_relative: u64) -> u64 {
    let cursor = &scratch.cursor;
    let is_single = is_relative & (verifier::is_some(cursor.slashes) ^ 1);
    let is_direct = u64::from(jail.aliased().get() ^ 1);
    let is_straight = verifier::is_some(cursor.stepped) ^ 1;
    (is_direct | is_single | u64::from(cursor.trusted)) & is_straight
}

/// True when another state answers instead of this one in places of some kind.
#[inline(always)]
fn is_answered(table: &Table, state: u32) -> bool {
    let state = verifier::opaque(u64::from(state)) as usize % STATES;
    const { assert!(OWN_KINDS == 2) };
    verifier::opaque(u64::from(table.own[0][state] | table.own[1][state])) != 0
}

/// The state that answers instead of this one in such a place; 0: none does.
#[inline(always)]
fn own(table: &Table, place: &OwnPlace, state: u32) -> u32 {
    let kind = verifier::opaque(u64::from(place.kind)) as usize % OWN_KINDS;
    u32::from(table.own[kind][verifier::opaque(u64::from(state)) as usize % STATES])
}

/// The second state for 1, if there is one, or else the first. Branch-free, so that the verifier does not fork states.
#[inline(always)]
fn choose(state: u32, own: u32, takes: u64) -> u32 {
    let mask = (takes & verifier::is_some(own)).wrapping_neg() as u32;
    own & mask | state & !mask
}

/// The only place that a path that begins with [`Cursor::first`](read::Cursor::first) can be below.
#[inline(always)]
fn place<'t>(scratch: &Scratch, table: &'t Table) -> &'t OwnPlace {
    let [first, _] = scratch.cursor.first;
    &table.places[OwnPlace::index(verifier::opaque(first >> 8) as u8)]
}

/// 1 when a path that begins with [`Cursor::first`](read::Cursor::first), and has this length, is below the place, or else 0.
#[inline(always)]
fn is_below(scratch: &Scratch, place: &OwnPlace, length: u32) -> u64 {
    let [first, rest] = scratch.cursor.first;
    let differs = (first ^ place.path[0]) & place.mask[0] | (rest ^ place.path[1]) & place.mask[1];
    // A path is longer than that of the place. No entry has no length.
    let is_longer = u64::from(place.length).wrapping_sub(u64::from(length)) >> 63;
    (verifier::is_some(differs) ^ 1) & is_longer & place.mask[0]
}
