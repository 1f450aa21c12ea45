//! link(2), rename(2), unlink(2), chmod(2) and their relatives: acts on names and attributes. symlink(2),
//! mknod(2), truncate(2) and others that make or empty a file by its name. And stat(2) and its relatives, which
//! only ask about a path: looks.
//!
//! A rule about a file has to hold under every name that the program can give it. What a file was called before
//! is not kept: the act that names is what is decided on. It takes a file away from the answers that its old name
//! has, or makes something at a name that a rule is about, or does so to all that is in a directory.
//!
//! An argument may condemn and never acquit, as with opens. But what is gone or has another name
//! after the call cannot be looked at then: only the hooks of BPF LSM know which file it was.

mod arguments;
mod hooks;
mod moves;
mod naming;

use turnkey_abi::syscalls::on;
use turnkey_abi::{NOWHERE, PATH, Table, action, column, flag, kind, magic};

use crate::automaton::{self, Verdict};
use crate::emit::{self, Current};
use crate::identity;
use crate::network::EBADF;
use crate::open;
use crate::path::{self, Place, Resolved};
use crate::read::{self, JailCell, Scratch, UNREADABLE};
use crate::verifier::{self, Forget, NOTHING, global};

use arguments::{Name, arguments, effect};
use moves::{find_new, find_old, look_for_symlinks};
use naming::{Names, is_lost, naming, of_followed, or_of_unknown, verdict_at};

pub use arguments::{Arguments, makes_device};
pub use hooks::{Act, Link, column_of, hook, make_hook};
pub use moves::note_aim;

/// Reads a name to the start of the text: its length, and the state of the automaton that it ends in. `follows`: 1, when what a symlink
/// at its end leads to is meant; of looks, rules see the text alone.
#[inline(always)]
fn look_up(
    scratch: &mut Scratch,
    jail: JailCell,
    (name, follows, is_look): (Name, u64, bool),
) -> (u32, u32) {
    let length = read::user_text(scratch, name.path).forget(scratch);
    if !is_look {
        look_for_symlinks(scratch, jail, (name.directory, length, follows));
    }
    scratch.cursor.looks = u64::from(is_look);
    let state = open::state_of_argument(scratch, jail, (name.directory, length));
    scratch.cursor.looks = 0;
    (length, state)
}

/// As [`look_up`], for the other name of an act, or for the aim of a symlink, whose own name is the first
/// `length` bytes of the text: what is relative starts there.
#[inline(always)]
fn look_up_new(
    scratch: &mut Scratch,
    jail: JailCell,
    name: Name,
    (is_aim, length): (bool, u32),
) -> (u32, u32) {
    let is_sibling = is_aim && length != UNREADABLE && read::user::<u8>(name.path).0 != b'/';
    scratch.cursor.aimed = u64::from(is_aim & !is_sibling);
    let length = if is_sibling {
        scratch.cursor.own = u64::from(length);
        read::append_sibling(scratch, length, name.path)
    } else {
        read::user_text(scratch, name.path)
    };
    let length = length.forget(scratch);
    // Nobody was there yet where a symlink leads.
    if is_aim {
        scratch.cursor.trusted &= jail.hook_bit();
    } else {
        look_for_symlinks(scratch, jail, (name.directory, length, 0));
    }
    let state = open::state_of_argument(scratch, jail, (name.directory, length));
    if is_sibling && length == UNREADABLE {
        // The two names are longer together than a path is.
        scratch.cursor.stepped = NOWHERE;
    }
    // A symlink that was not made leads nowhere.
    let result = scratch.result();
    if is_attempt(result) && (!is_aim || result >= 0) {
        open::doubt_steps(scratch, jail, (name.directory, length));
    }
    (length, state)
}

/// As [`look_up`], for a descriptor, of which the kernel's own file is known; with what the rules say of it.
#[inline(always)]
fn look_up_descriptor(
    scratch: &mut Scratch,
    jail: JailCell,
    task: u64,
    (descriptor, (column, own)): (u32, (u32, u32)),
) -> (u32, Verdict) {
    let place = path::base(task, descriptor as i32);
    // Who links a descriptor's file gives it another name.
    let column = if column == column::LINK {
        column::AWAY
    } else {
        column
    };
    look_up_place(scratch, jail, place, (column, own))
}

/// The length of the kernel's own path of a place, which is put to the start of the text, and what the rules say of it.
#[inline(always)]
fn look_up_place(
    scratch: &mut Scratch,
    jail: JailCell,
    place: Place,
    (column, own): (u32, u32),
) -> (u32, Verdict) {
    let resolved = path::resolve(scratch, place);
    let column = column.forget(scratch);
    let own = own.forget(scratch);
    let verdict = decide_descriptor(scratch, jail, resolved, (column, own));
    if !resolved.is_whole() {
        return (0, verdict);
    }
    read::append_path(scratch, 0, resolved.from, resolved.length);
    (resolved.length, verdict)
}

/// The rules' verdict on the file of a descriptor in the column of the act and in that of the call's own kind.
#[inline(always)]
pub fn decide_descriptor(
    scratch: &mut Scratch,
    jail: JailCell,
    resolved: Resolved,
    (column, own): (u32, u32),
) -> Verdict {
    scratch.cursor.resolved = resolved;
    Verdict::of_word(global_decide_descriptor(
        scratch,
        jail.memory(),
        column,
        own,
    ))
}

global!(global_decide_descriptor(scratch, *jail, column: u32, own: u32) {
    let resolved = scratch.cursor.resolved;
    decide_descriptor_inline(scratch, jail, resolved, (column, own)).word()
});

/// [`decide_descriptor`], inlined into its global function.
#[inline(always)]
fn decide_descriptor_inline(
    scratch: &mut Scratch,
    jail: JailCell,
    resolved: Resolved,
    (column, own): (u32, u32),
) -> Verdict {
    let Some(table) = emit::table(jail) else {
        return Verdict::NONE;
    };
    let mut verdict = Verdict::NONE;
    if resolved.is_whole() {
        let state = automaton::state_of_path(scratch, table, resolved);
        let column = identity::column_of(scratch, resolved.inode, column);
        verdict =
            verdict_at(scratch, table, state, own).or(verdict_at(scratch, table, state, column));
    } else {
        verdict = automaton::decide_unknown(scratch, table, column).or(verdict);
        verdict = automaton::decide_unknown(scratch, table, own).or(verdict);
    }
    verdict = verdict.forget(scratch);
    verdict = identity::or_by_file(scratch, table, resolved.inode, column, verdict);
    identity::or_by_file(scratch, table, resolved.inode, own, verdict)
}

/// The arguments of a call that follows its path, which leads to a descriptor of the process by the list in /proc: of
/// the descriptor.
#[inline(always)]
fn followed_in_proc(scratch: &mut Scratch, task: u64, asked: Arguments) -> Arguments {
    read::user_text(scratch, asked.object.path);
    let descriptor = read::descriptor_in_proc(scratch);
    // Which file a descriptor that is none led to is not known, and nothing was done to it. A pipe or a socket has no
    // path: what is known of it is the argument.
    if !path::has_path(path::file_of(task, descriptor)) {
        let is_list = u32::from(descriptor != UNREADABLE);
        let effects = asked.effects | (effect::LISTED * is_list);
        return Arguments { effects, ..asked }.forget(scratch);
    }
    let object = Name {
        directory: descriptor as i32,
        by_descriptor: 1,
        ..asked.object
    };
    Arguments { object, ..asked }.forget(scratch)
}

/// True when an act had its effect, or was refused: an act that could not be done for another reason, such as a rename
/// to another file system, made nothing true.
#[inline(always)]
fn is_attempt(result: i64) -> bool {
    const REFUSED: [i64; 3] = [-1, -13, -30];
    result >= 0 || result == REFUSED[0] || result == REFUSED[1] || result == REFUSED[2]
}

/// The verdict that a hook left for the end of the call; what it only let be told stays that, whatever the rule would
/// have done to another act.
#[inline(always)]
pub fn left_by_hook(scratch: &mut Scratch, table: &Table) -> Verdict {
    let (rule, acts) = read::noticed(scratch);
    let verdict = automaton::verdict(table, rule);
    let verdict = if acts { verdict } else { verdict.told() };
    verdict.forget(scratch)
}

/// At exit: decides on the arguments, and tells what came of it.
///
/// Nothing is decided at entry: a signal sent there would not keep the act from being done, and none
/// of these calls waits for anything.
#[inline(always)]
pub fn leave(scratch: &mut Scratch, jail: JailCell, call: u8, (regs, result): (u64, i64)) {
    note_arguments(scratch, jail, call, result);
    let Some(table) = emit::table(jail) else {
        return;
    };
    let verdict = left_by_hook(scratch, table);
    let mut verdict = note_object(scratch, jail, verdict);
    let asked = scratch.asked;
    if asked.new.path != 0 {
        verdict = note_new(scratch, jail, verdict);
    } else {
        scratch.cursor.named_new = 0;
        scratch.cursor.new = NOWHERE;
        scratch.cursor.effects = asked.effects;
    }
    let (old, new) = (scratch.cursor.old, scratch.cursor.new);
    let mut effects = scratch.cursor.effects;
    if !is_attempt(scratch.result()) {
        effects &= effect::QUIET | effect::ALIAS | effect::ABSOLUTE;
        scratch.cursor.lost &= 2;
    }
    let effects = effects.forget(scratch);
    verdict = verdict.forget(scratch);
    verdict = naming(scratch, table, effects, Names { old, new }).or(verdict);
    verdict = verdict.forget(scratch);
    if scratch.cursor.lost != 0 {
        verdict = or_of_unknown(scratch, table, asked, verdict);
    }
    verdict = verdict.forget(scratch);
    verdict = advised(jail, verdict, scratch.result());
    verdict = verdict.forget(scratch);
    // Of what a program looks at or makes, only what a rule has something against is told, and what it may not write. Branch-free,
    // so that the verifier does not fork states for each operand.
    const { assert!(action::NONE | action::ALLOW == 1 && action::LOG == 2) };
    let is_told = u64::from(effects & effect::QUIET ^ effect::QUIET)
        | u64::from(verdict.action >> 1)
        | arguments::asked_to_write_in_vain(regs, scratch.result());
    if verifier::opaque(is_told) != 0 {
        tell(scratch, jail, verdict);
    }
}

/// Notes what the call is asked to do.
#[inline(always)]
pub fn note_arguments(scratch: &mut Scratch, jail: JailCell, call: u8, result: i64) {
    global_note_arguments(scratch, jail.memory(), call.into(), result);
}

global!(global_note_arguments(scratch, *jail, call: u32, result: i64) {
    let end = (read::current_registers(), result);
    note_arguments_inline(scratch, jail, call as u8, end);
    NOTHING
});

/// [`note_arguments`], inlined into its global function.
#[inline(always)]
fn note_arguments_inline(
    scratch: &mut Scratch,
    jail: JailCell,
    call: u8,
    (regs, result): (u64, i64),
) {
    reset_cursor(scratch, result);
    let asked = arguments(call, regs).forget(scratch);
    // A hook was asked about what the kernel did something to; of looks there is none.
    let is_act = u32::from(asked.kind ^ kind::LOOK).wrapping_neg() >> 31;
    scratch.cursor.trusted = open::is_done(result) & is_act & jail.hook_bit();
    let is_followed = is_attempt(result) && asked.is_followed(regs);
    let is_followed = u32::from(is_followed).forget(scratch);
    scratch.asked = if is_followed != 0 {
        followed_in_proc(scratch, read::current_task(), asked)
    } else {
        asked
    };
    scratch.cursor.followed = is_followed;
}

/// Forgets the call before: of this one only the result is known.
#[inline(always)]
fn reset_cursor(scratch: &mut Scratch, result: i64) {
    scratch.cursor.magic = magic::NONE;
    scratch.cursor.stepped = 0;
    scratch.cursor.own = 0;
    scratch.cursor.aimed = 0;
    scratch.cursor.parent = 0;
    scratch.cursor.back = 0;
    scratch.cursor.result = result;
}

/// Notes the length of the object's name and the state that it ends in, by its path or by its descriptor. Returns the verdict that was there,
/// or that on the descriptor's file.
#[inline(always)]
pub fn note_object(scratch: &mut Scratch, jail: JailCell, verdict: Verdict) -> Verdict {
    Verdict::of_word(global_note_object(scratch, jail.memory(), verdict.word()))
}

global!(global_note_object(scratch, *jail, verdict: u32) {
    let regs = read::current_registers();
    note_object_inline(scratch, jail, regs, Verdict::of_word(verdict)).word()
});

/// [`note_object`], inlined into its global function.
#[inline(always)]
fn note_object_inline(
    scratch: &mut Scratch,
    jail: JailCell,
    regs: u64,
    mut verdict: Verdict,
) -> Verdict {
    let asked = scratch.asked;
    let (length, mut old) = if asked.object.by_descriptor != 0 {
        let descriptor = asked.object.directory as u32;
        let columns = (asked.column, asked.own);
        let task = read::current_task();
        let (length, of_file) = look_up_descriptor(scratch, jail, task, (descriptor, columns));
        verdict = of_file.or(verdict);
        (length, NOWHERE)
    } else {
        let follows = u64::from(asked.is_followed(regs));
        let is_look = asked.kind == kind::LOOK;
        look_up(scratch, jail, (asked.object, follows, is_look))
    };
    let length = length.forget(scratch);
    old = old.forget(scratch);
    if asked.effects & effect::AWAY != 0 && !jail.has_hooks() && scratch.result() == 0 {
        find_old(scratch, (asked.object, length));
    }
    // Of looks, rules see the text alone.
    if asked.kind != kind::LOOK && is_attempt(scratch.result()) {
        let from = (asked.object.directory, length);
        open::doubt_steps(scratch, jail, from);
    }
    scratch.cursor.named = length;
    scratch.cursor.old = old;
    let Some(table) = emit::table(jail) else {
        return verdict;
    };
    verdict = verdict_at(scratch, table, old, asked.column).or(verdict);
    verdict = verdict_at(scratch, table, old, asked.own).or(verdict);
    let is_known = asked.effects / effect::LISTED;
    note_lost_object(scratch, asked, scratch.cursor.followed & !is_known);
    verdict
}

/// Notes whether the object is a file that no text tells. `is_followed`: 1, when its name's last component was followed to an
/// unknown place.
#[inline(always)]
fn note_lost_object(scratch: &mut Scratch, asked: Arguments, is_followed: u32) {
    scratch.cursor.lost = is_lost(scratch.cursor.magic, is_followed);
    if asked.effects & effect::AWAY != 0 {
        // A symlink that a link(2) follows leads to a file that its name does not tell. What was not found may be one.
        let followed = u64::from(is_followed & (asked.object.by_descriptor ^ 1));
        let certain = path::is_symlink(scratch.cursor.back);
        let possible = path::may_be_symlink(scratch.cursor.back) << 1;
        scratch.cursor.lost |= (certain | possible) & (followed | followed << 1);
    }
}

/// Notes the length of the other name of an act and the state that it ends in, and what the act does now that both names are known.
/// Returns the verdict with that on the other name.
#[inline(always)]
pub fn note_new(scratch: &mut Scratch, jail: JailCell, verdict: Verdict) -> Verdict {
    Verdict::of_word(global_note_new(scratch, jail.memory(), verdict.word()))
}

global!(global_note_new(scratch, *jail, verdict: u32) {
    note_new_inline(scratch, jail, Verdict::of_word(verdict)).word()
});

/// [`note_new`], inlined into its global function.
#[inline(always)]
fn note_new_inline(scratch: &mut Scratch, jail: JailCell, mut verdict: Verdict) -> Verdict {
    let Some(table) = emit::table(jail) else {
        return verdict;
    };
    let (asked, length) = (scratch.asked, scratch.cursor.named);
    let is_aim = asked.effects & effect::ALIAS != 0;
    let (new_length, new) = look_up_new(scratch, jail, asked.new, (is_aim, length));
    let mut effects = asked.effects.forget(scratch);
    let new = new.forget(scratch);
    // Without hooks nobody learns what a call that follows the symlink has reached.
    if effects & effect::ALIAS != 0 && !jail.has_hooks() {
        let old = scratch.cursor.old;
        let followed = of_followed(scratch, table, Names { old, new });
        verdict = followed.or(verdict).forget(scratch);
        // A link of /dev to one is where logs are sent to.
        scratch.cursor.lost |= u64::from(scratch.cursor.magic & 1) << 1;
    } else {
        scratch.cursor.lost |= is_lost(scratch.cursor.magic, 0);
    }
    if effects & effect::ALIAS == 0 {
        verdict = verdict_at(scratch, table, new, asked.column).or(verdict);
    } else if read::user::<u8>(asked.new.path).0 == b'/' {
        effects |= effect::ABSOLUTE;
    }
    verdict = verdict.forget(scratch);
    // Nobody knows what it is that was not renamed, and hooks know it always.
    if scratch.result() != 0 || jail.has_hooks() {
        effects &= !(effect::MOVED | effect::MOVED_BACK);
    } else if effects & effect::AWAY != 0 {
        effects = find_new(scratch, jail, ((asked.new, new_length), effects));
    }
    scratch.cursor.named_new = new_length;
    scratch.cursor.new = new;
    scratch.cursor.effects = effects;
    verdict
}

/// Kills by the verdict, and makes the record of the act with its names.
#[inline(always)]
pub fn tell(scratch: &mut Scratch, jail: JailCell, verdict: Verdict) {
    global_tell_change(scratch, jail.memory(), verdict.word());
}

global!(global_tell_change(scratch, *jail, verdict: u32) {
    let regs = read::current_registers();
    tell_inline(scratch, jail, emit::noted(), regs, Verdict::of_word(verdict));
    NOTHING
});

/// [`tell`], inlined into its global function.
#[inline(always)]
fn tell_inline(
    scratch: &mut Scratch,
    jail: JailCell,
    who: Current,
    regs: u64,
    mut verdict: Verdict,
) {
    let asked = scratch.asked;
    let (length, new_length) = (scratch.cursor.named, scratch.cursor.named_new);
    emit::begin(&mut scratch.record, asked.kind, who);
    // A descriptor that is none, and nothing was done. Had something been done, another thread would have
    // closed the descriptor since, and the file could be the worst there is.
    // Branch-free as well.
    let is_descriptor = u64::from(asked.object.by_descriptor ^ 1);
    let result = scratch.result();
    let differs = (result ^ EBADF) as u64 | is_descriptor | u64::from(length);
    if verifier::opaque(differs) == 0 {
        verdict = Verdict::NONE;
    }
    verdict = verdict.forget(scratch);
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    scratch.record.flags |= flag::of_lost(scratch.cursor.lost);
    scratch.record.what = u16::from(asked.on);
    scratch.record.detail = read::number(regs) as u32;
    if result < 0 {
        scratch.record.errno = -result as u32;
    }
    scratch.record.args = arguments::told_arguments(regs, result, asked.on);
    attach_names(scratch, jail, who.task, asked, (length, new_length));
    emit::conclude(scratch, jail, who, verdict);
}

/// True for a chdir(2) that was done: the task is in another directory, and nobody knows any more what a relative path started from.
#[inline(always)]
pub fn has_entered(nr: i32, result: i64) -> bool {
    const CHDIR: i32 = 80;
    nr == CHDIR && result == 0
}

/// Decides on the directory that the task has entered, by the path that the kernel has of it, and tells of it where a rule is against
/// it. Apart from [`leave`], whose every way the verifier would follow once more.
#[inline(always)]
pub fn entered(scratch: &mut Scratch, jail: JailCell, nr: i32) {
    global_entered(scratch, jail.memory(), nr as u32);
}

global!(global_entered(scratch, *jail, nr: u32) {
    entered_inline(scratch, jail, emit::noted(), nr as i32);
    NOTHING
});

/// [`entered`], inlined into its global function.
#[inline(always)]
fn entered_inline(scratch: &mut Scratch, jail: JailCell, who: Current, nr: i32) {
    const AT_FDCWD: i32 = -100;
    let place = path::base(who.task, AT_FDCWD);
    let columns = (column::STAT, column::STAT);
    let (length, verdict) = look_up_place(scratch, jail, place, columns);
    let verdict = advised(jail, verdict, 0).forget(scratch);
    if verdict.action < action::LOG {
        return;
    }
    emit::begin(&mut scratch.record, kind::LOOK, who);
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    let record = &mut scratch.record;
    record.what = u16::from(on::STAT);
    record.detail = nr as u32;
    record.path_len = length as u16;
    record.flags |= flag::RAW_UNREADABLE;
    if length == 0 {
        record.flags |= flag::OBJECT_UNREADABLE;
    }
    emit::conclude(scratch, jail, who, verdict);
}

/// The verdict without what is mere advice, unless the look was in vain and not many were before.
#[inline(always)]
fn advised(jail: JailCell, verdict: Verdict, result: i64) -> Verdict {
    const ENOENT: i64 = -2;
    if u32::from(verdict.rule) != jail.advisory() {
        return verdict;
    }
    let left = jail.advice_left();
    let before = left.get();
    if result != ENOENT || before == 0 {
        return Verdict::NONE;
    }
    left.set(before - 1);
    verdict
}

/// The new name first, then the object, then the directory that a relative object starts from.
#[inline(always)]
fn attach_names(
    scratch: &mut Scratch,
    jail: JailCell,
    task: u64,
    asked: Arguments,
    (length, new_length): (u32, u32),
) {
    if asked.new.path != 0 {
        emit::note_raw(&mut scratch.record, jail, new_length);
    } else {
        scratch.record.flags |= flag::RAW_UNREADABLE;
    }
    if length == UNREADABLE || asked.object.by_descriptor != 0 && asked.new.path == 0 {
        // A descriptor's own path is where the text begins.
        let known = if length == UNREADABLE { 0 } else { length };
        scratch.record.path_len = known as u16;
        if known == 0 {
            scratch.record.flags |= flag::OBJECT_UNREADABLE;
        }
        return;
    }
    let at = u32::from(scratch.record.raw_len);
    // Of a descriptor whose file got another name, that name has taken the place of the path: its file is told as
    // the directory that nothing starts from.
    let length =
        length & verifier::opaque(u64::from(asked.object.by_descriptor).wrapping_sub(1)) as u32;
    if asked.new.path == 0 || read::append_user_bytes(scratch, at, asked.object.path, length) {
        scratch.record.path_len = length as u16;
    } else {
        scratch.record.flags |= flag::OBJECT_UNREADABLE;
    }
    // Branch-free, so that the verifier does not fork states for each operand.
    let first = u64::from(scratch.text[(at as usize) % PATH] ^ b'/');
    let is_empty = u64::from(verifier::apart(u64::from(length)) == 0);
    let is_relative = verifier::opaque(first | is_empty);
    // An absolute one starts from a root that the process of others may have chosen.
    if is_relative != 0 || scratch.cursor.roams != 0 {
        let place = match is_relative {
            0 => path::root(task),
            _ => path::base(task, asked.object.directory),
        };
        let base = path::resolve(scratch, place);
        let behind = at + u32::from(scratch.record.path_len);
        let is_no_root = verifier::is_some(is_relative) | verifier::is_some(base.length ^ 1);
        if base.is_whole() && base.length != 0 && is_no_root != 0 {
            read::append_path(scratch, behind, base.from, base.length);
            scratch.record.argv_len = base.length as u16;
            scratch.record.flags |= flag::BASE;
        }
    }
}
