//! The rules' verdicts on the names that an act makes true and untrue, and on the unknown file that a name may lead to.

use turnkey_abi::{Table, column, magic};

use super::arguments::{Arguments, effect};
use crate::automaton::{self, Verdict};
use crate::read::Scratch;
use crate::verifier::{Forget, global, halves, two};

/// The rules' verdict on a name in a column; none, when the name is not known.
#[inline(always)]
pub(super) fn verdict_at(scratch: &Scratch, table: &Table, state: u32, column: u32) -> Verdict {
    automaton::decide_state(scratch, table, state, column)
}

/// Two names of one act, by the states that they end in.
#[derive(Clone, Copy)]
pub(super) struct Names {
    pub(super) old: u32,
    pub(super) new: u32,
}

/// The verdict on a file that is under the new name and not, or not only, under the old one.
#[inline(always)]
fn of_file(scratch: &Scratch, table: &Table, names: Names) -> Verdict {
    let made = verdict_at(scratch, table, names.new, column::WRITE);
    if automaton::are_alike(table, names.old, names.new) {
        return made;
    }
    verdict_at(scratch, table, names.old, column::AWAY).or(made)
}

/// The verdict on the content of a directory that is under the new name and not under the old one.
#[inline(always)]
fn of_content(scratch: &Scratch, table: &Table, names: Names) -> Verdict {
    if automaton::are_alike_inside(table, names.old, names.new) {
        return Verdict::NONE;
    }
    below(scratch, table, names.old, column::AWAY).or(below(
        scratch,
        table,
        names.new,
        column::WRITE,
    ))
}

#[inline(always)]
pub(super) fn below(scratch: &Scratch, table: &Table, state: u32, column: u32) -> Verdict {
    automaton::decide_below(scratch, table, state, column)
}

/// The rules' verdict on the names that an act makes true and untrue, but for those rules that speak of such acts
/// themselves. [`effect::MOVED`]: the object may be a directory.
#[inline(always)]
pub(super) fn naming(
    scratch: &mut Scratch,
    table: &'static Table,
    effects: u32,
    names: Names,
) -> Verdict {
    let names = two(names.old, names.new);
    Verdict::of_word(global_decide_names(scratch, table, effects, names))
}

global!(global_decide_names(scratch, &table, effects: u32, names: u64) {
    let (old, new) = halves(names);
    naming_inline(scratch, table, effects, Names { old, new }).word()
});

/// [`naming`], inlined into its global function.
#[inline(always)]
fn naming_inline(scratch: &mut Scratch, table: &Table, effects: u32, names: Names) -> Verdict {
    let mut verdict = Verdict::NONE;
    if effects & effect::MADE != 0 {
        verdict = of_file(scratch, table, names);
    }
    verdict = verdict.forget(scratch);
    if effects & effect::MOVED != 0 {
        verdict = of_content(scratch, table, names).or(verdict);
    }
    verdict = verdict.forget(scratch);
    let back = Names {
        old: names.new,
        new: names.old,
    };
    if effects & effect::EXCHANGED != 0 {
        verdict = of_file(scratch, table, back).or(verdict);
    }
    verdict = verdict.forget(scratch);
    if effects & effect::MOVED_BACK != 0 {
        verdict = of_content(scratch, table, back).or(verdict);
    }
    verdict = verdict.forget(scratch);
    if effects & effect::REMOVED != 0 {
        verdict = verdict_at(scratch, table, names.old, column::WRITE).or(verdict);
    }
    if effects & effect::ALIAS != 0 {
        verdict = of_symlink(scratch, table, names, effects).or(verdict);
    }
    verdict.forget(scratch)
}

/// The rules' verdict on a symlink of which these are the name (`old`) and the aim (`new`). It gives all that is in a directory another
/// name, which is refused as a rename is, as calls that take names do not tell where these led, unless the rules answer alike below
/// both. On a file with other answers it is no more than told: a task that opens the symlink is asked about the file, and no task can
/// link the file by it. An absolute aim leads out of what the program works on more often than not, to where nothing can be linked or renamed: it
/// is told of, when it leads to what must not be read, and refused where a rule guards names below the symlink's own.
#[inline(always)]
pub(super) fn of_symlink(scratch: &Scratch, table: &Table, names: Names, effects: u32) -> Verdict {
    let (own, aim) = (names.old, names.new);
    let is_absolute = effects & effect::ABSOLUTE != 0;
    let column = if is_absolute {
        column::READ
    } else {
        column::AWAY
    };
    let lost = below(scratch, table, aim, column);
    let mut verdict = Verdict::NONE;
    if !automaton::are_alike(table, own, aim) {
        verdict = verdict_at(scratch, table, aim, column).told();
    }
    if is_absolute {
        verdict = lost.told().or(verdict);
    }
    if automaton::are_alike_inside(table, own, aim) {
        return verdict;
    }
    if is_absolute {
        return below(scratch, table, own, column::GUARDED).or(verdict);
    }
    let made = below(scratch, table, own, column::WRITE);
    lost.or(made).or(verdict)
}

/// The rules' verdict on a symlink to a file, or to a directory above it, by which calls that open nothing reach it and tell no
/// more than the symlink's name: it is told, where the rules answer otherwise by that.
#[inline(always)]
pub(super) fn of_followed(scratch: &Scratch, table: &Table, names: Names) -> Verdict {
    let (own, aim) = (names.old, names.new);
    let mut verdict = Verdict::NONE;
    if !automaton::are_alike(table, own, aim) {
        verdict = verdict_at(scratch, table, aim, column::WRITE);
        verdict = verdict.or(verdict_at(scratch, table, aim, column::FOLLOWED));
    }
    if !automaton::are_alike_inside(table, own, aim) {
        verdict = verdict.or(below(scratch, table, aim, column::FOLLOWED));
    }
    verdict.told()
}

/// 1 when a name leads by the kernel's own links to a file that no text tells, or else 0. Branch-free, so that the verifier
/// does not fork states.
#[inline(always)]
pub(super) fn is_lost(leads: u32, is_followed: u32) -> u64 {
    const { assert!(magic::LINK | magic::DEVICE == magic::BELOW && magic::BELOW == 3) };
    let (low, high) = (leads & 1, leads >> 1 & 1);
    u64::from(low & high | (low | high) & is_followed)
}

/// The rules' verdict on the file of an act by a name that leads through the kernel's own links, which is any file.
#[inline(always)]
fn through_magic(scratch: &Scratch, table: &Table, asked: Arguments) -> Verdict {
    let unknown = |column| automaton::decide_unknown(scratch, table, column);
    let mut verdict = unknown(asked.column).or(unknown(asked.own));
    if asked.effects & (effect::MADE | effect::REMOVED) != 0 {
        verdict = unknown(column::WRITE).or(verdict);
    }
    if asked.effects & effect::AWAY != 0 {
        verdict = unknown(column::AWAY).or(verdict);
    }
    verdict
}

/// The rules' verdict on a symlink to where the kernel's own links lead: acts below it are on any file, and are not asked
/// about. It is told.
#[inline(always)]
fn to_magic(scratch: &Scratch, table: &Table) -> Verdict {
    let unknown = |column| automaton::decide_unknown(scratch, table, column);
    let verdict = unknown(column::FOLLOWED).or(unknown(column::WRITE));
    verdict.or(unknown(column::AWAY)).told()
}

/// The stronger of the verdict on the names of an act and of that on the unknown file which they lead to.
#[inline(always)]
pub(super) fn or_of_unknown(
    scratch: &mut Scratch,
    table: &Table,
    asked: Arguments,
    named: Verdict,
) -> Verdict {
    const MADE: u64 = 2;
    let lost = scratch.cursor.lost;
    let mut unknown = Verdict::NONE;
    if lost & MADE != 0 {
        unknown = to_magic(scratch, table);
    }
    unknown = unknown.forget(scratch);
    if lost & !MADE != 0 {
        unknown = through_magic(scratch, table, asked).or(unknown);
    }
    unknown = unknown.forget(scratch);
    scratch.cursor.lost = unknown.exceeds(named);
    unknown.or(named)
}
