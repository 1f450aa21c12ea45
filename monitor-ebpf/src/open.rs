//! open(2), openat(2), openat2(2), creat(2), open_by_handle_at(2).
//!
//! At entry only the argument is known, and another thread can still change it: it may condemn,
//! never acquit. At exit the kernel's own file is known, and it decides.

use turnkey_abi::syscalls::class;
use turnkey_abi::{BY_HANDLE, NOWHERE, column, flag, kind, magic};

use crate::automaton::{self, Verdict};
use crate::class_of;
use crate::emit::{self, Current};
use crate::entry;
use crate::identity;
use crate::path::{self, Place, Resolved};
use crate::read::{self, JailCell, Scratch, UNREADABLE, offset};
use crate::verifier::{self, Forget, NOTHING, global, halves, two};

const O_WRONLY: u32 = 0o1;
const O_ACCMODE: u32 = 0o3;
const O_CREAT: u32 = 0o100;
const O_TRUNC: u32 = 0o1000;
const O_PATH: u32 = 0o10_000_000;
/// The kernel opens a program to run it: exec decides.
const FMODE_EXEC: u32 = 0x20;
const RESOLVE_IN_ROOT: u64 = 0x10;
const FMODE_READ: u32 = 1;
const FMODE_WRITE: u32 = 2;
const AT_FDCWD: i32 = -100;
const EPERM: u32 = 1;
const ENOENT: i64 = -2;

/// No column: the open gives no access that a rule could speak of.
const NO_COLUMN: u32 = column::COUNT as u32;

/// The arguments of any of these calls.
#[derive(Clone, Copy)]
struct Arguments {
    directory: i32,
    path: u64,
    flags: u32,
    /// An absolute path starts at `directory`, too.
    in_root: bool,
    /// True when all of these arguments could be read.
    known: bool,
}

#[inline(always)]
fn arguments(call: u8, regs: u64) -> Arguments {
    let first = read::argument(regs, 0);
    let second = read::argument(regs, 1);
    let third = read::argument(regs, 2);
    let at = |directory, path, flags| Arguments {
        directory,
        path,
        flags,
        in_root: false,
        known: true,
    };
    match call {
        class::OPEN => at(AT_FDCWD, first.long(), second.word()),
        class::CREAT => at(AT_FDCWD, first.long(), O_CREAT | O_TRUNC | O_WRONLY),
        class::OPENAT => at(first.int(), second.long(), third.word()),
        // The handle is no text.
        class::BY_HANDLE => at(AT_FDCWD, 0, third.word()),
        _ => {
            // struct open_how: flags, mode, resolve.
            let (how, known) = read::user::<[u64; 3]>(third.long());
            let in_root = how[2] & RESOLVE_IN_ROOT != 0;
            Arguments {
                in_root,
                known,
                ..at(first.int(), second.long(), how[0] as u32)
            }
        }
    }
}

/// The column for a way of opening. Bit 0 reads, bit 1 writes.
#[inline(always)]
fn column_of(access: u32) -> u32 {
    match access & 3 {
        0 => NO_COLUMN,
        1 => column::READ,
        2 => column::WRITE,
        _ => column::BOTH,
    }
}

#[inline(always)]
fn access_of_flags(flags: u32) -> u32 {
    if flags & O_PATH != 0 {
        return 0;
    }
    let asked = match flags & O_ACCMODE {
        0 => 1,
        1 => 2,
        _ => 3,
    };
    asked | creates(flags)
}

#[inline(always)]
fn creates(flags: u32) -> u32 {
    if flags & (O_CREAT | O_TRUNC) != 0 {
        2
    } else {
        0
    }
}

#[inline(always)]
fn access_of_file(file: u64, flags: u32) -> u32 {
    access_of_mode(read::kernel(file + u64::from(offset!(file_f_mode))), flags)
}

#[inline(always)]
fn access_of_mode(mode: u32, flags: u32) -> u32 {
    let access = mode & (FMODE_READ | FMODE_WRITE);
    if access == 0 {
        0
    } else {
        access | creates(flags)
    }
}

/// The rules' verdict on the first `length` bytes of the text, a path argument relative to `directory`; with `in_root`
/// even when it is absolute. Also returns where it starts from, which is then in [`Scratch::path`] and empty for an
/// absolute one.
#[inline(always)]
pub fn decide_argument(
    scratch: &mut Scratch,
    jail: JailCell,
    (directory, in_root): (i32, bool),
    (length, column): (u32, u32),
) -> (Verdict, Resolved) {
    let from = two(u32::from(in_root), directory as u32);
    let verdict = global_decide_argument(scratch, jail.memory(), from, two(length, column));
    (Verdict::of_word(verdict), scratch.cursor.resolved)
}

global!(global_decide_argument(scratch, *jail, from: u64, asked: u64) {
    let (in_root, directory) = halves(from);
    let from = (directory as i32, in_root != 0);
    decide_argument_inline(scratch, jail, from, halves(asked)).word()
});

/// [`decide_argument`], inlined into its global function.
#[inline(always)]
fn decide_argument_inline(
    scratch: &mut Scratch,
    jail: JailCell,
    from: (i32, bool),
    (length, column): (u32, u32),
) -> Verdict {
    scratch.cursor.resolved = Resolved::EMPTY;
    let Some(table) = emit::table(jail) else {
        return Verdict::NONE;
    };
    if length == 0 || length == UNREADABLE || !automaton::speaks_of(table, column) {
        return Verdict::NONE;
    }
    scratch.cursor.resolved = base_of_argument(scratch, jail, from);
    let base = scratch.cursor.resolved;
    if !base.is_whole() {
        return Verdict::NONE;
    }
    automaton::decide_written(scratch, table, jail, base, (length, column))
}

/// The base that the path argument in the text starts from: [`Resolved::EMPTY`], when it is absolute, and starts from the root of
/// the mount namespace.
#[inline(always)]
fn base_of_argument(
    scratch: &mut Scratch,
    jail: JailCell,
    (directory, in_root): (i32, bool),
) -> Resolved {
    let task = read::current_task();
    let is_absolute = scratch.text[0] == b'/' && !in_root;
    if is_absolute && scratch.cursor.roams == 0 {
        return Resolved::EMPTY;
    }
    let place = if is_absolute {
        path::root(task)
    } else {
        path::base(task, directory)
    };
    let base = path::resolve(scratch, place);
    if is_absolute && base.length == 1 {
        return Resolved::EMPTY;
    }
    if base.is_whole() {
        return base;
    }
    jail.count_unresolved();
    Resolved::UNKNOWN
}

/// The state of the automaton that the path argument in the first `length` bytes of the text ends in;
/// [`NOWHERE`] when it cannot be known. Where nobody else learns which file the kernel has found, [`Cursor::magic`] tells of
/// the kernel's own links on the way to it.
///
/// [`Cursor::magic`]: read::Cursor::magic
#[inline(always)]
pub fn state_of_argument(
    scratch: &mut Scratch,
    jail: JailCell,
    (directory, length): (i32, u32),
) -> u32 {
    global_state_of_argument(scratch, jail.memory(), directory as u32, length)
}

global!(global_state_of_argument(scratch, *jail, directory: u32, length: u32) {
    state_of_argument_inline(scratch, jail, (directory as i32, length))
});

/// [`state_of_argument`], inlined into its global function.
#[inline(always)]
fn state_of_argument_inline(
    scratch: &mut Scratch,
    jail: JailCell,
    (directory, length): (i32, u32),
) -> u32 {
    let mut state = NOWHERE;
    scratch.cursor.magic = magic::NONE;
    scratch.cursor.stepped = 0;
    if length != 0
        && length != UNREADABLE
        && let Some(table) = emit::table(jail)
    {
        let base = base_of_argument(scratch, jail, (directory, false)).forget(scratch);
        if base.is_whole() {
            state = automaton::state_of_written(scratch, table, jail, base, length);
            state = state.forget(scratch);
            if !jail.has_hooks() || scratch.cursor.looks != 0 {
                scratch.cursor.magic = automaton::magic_of_written(scratch, table, base, length);
            }
        } else {
            // Below such a directory every path is longer still; a step back may lead to any. That from a symlink to where it starts is no
            // one's.
            automaton::count_steps(scratch, table, length);
            let from_symlink = verifier::is_some(scratch.cursor.own);
            let steps_back = verifier::is_some(u64::from(scratch.cursor.stepped) ^ from_symlink);
            scratch.cursor.stepped = NOWHERE & steps_back.wrapping_neg() as u32;
        }
    }
    state
}

/// Notes in [`Cursor::magic`] that the path argument which was looked up last leads to a file that no text tells, as a `..` of it
/// follows a symlink, or what may be one; or as nobody knows where it begins or ends ([`NOWHERE`] in [`Cursor::stepped`]).
///
/// [`Cursor::magic`]: read::Cursor::magic
/// [`Cursor::stepped`]: read::Cursor::stepped
#[inline(always)]
pub fn doubt_steps(scratch: &mut Scratch, jail: JailCell, (directory, length): (i32, u32)) {
    let steps = scratch.cursor.stepped;
    if steps == 0 || jail.has_hooks() {
        return;
    }
    if steps == NOWHERE || !entry::steps_back_surely(scratch, directory, (length, steps)) {
        scratch.cursor.magic = magic::BELOW;
    }
}

/// The rules' verdict on a resolved path, which may be unknown.
#[inline(always)]
pub fn decide_file(
    scratch: &mut Scratch,
    jail: JailCell,
    resolved: Resolved,
    column: u32,
) -> Verdict {
    scratch.cursor.resolved = resolved;
    Verdict::of_word(global_decide_file(scratch, jail.memory(), column))
}

global!(global_decide_file(scratch, *jail, column: u32) {
    let resolved = scratch.cursor.resolved;
    decide_file_inline(scratch, jail, resolved, column).word()
});

/// [`decide_file`], inlined into its global function.
#[inline(always)]
fn decide_file_inline(
    scratch: &mut Scratch,
    jail: JailCell,
    resolved: Resolved,
    column: u32,
) -> Verdict {
    let Some(table) = emit::table(jail) else {
        return Verdict::NONE;
    };
    if !automaton::speaks_of(table, column) {
        return Verdict::NONE;
    }
    let verdict = if resolved.is_whole() {
        let column = identity::column_of(scratch, resolved.inode, column);
        automaton::decide_path(scratch, table, resolved, column)
    } else {
        automaton::decide_unknown(scratch, table, column)
    };
    let by_path = verdict.forget(scratch);
    identity::or_by_file(scratch, table, resolved.inode, column, by_path)
}

/// At entry: kills when the argument alone is enough for that.
#[inline(always)]
pub fn enter(scratch: &mut Scratch, jail: JailCell, who: Current, call: u8, regs: u64) {
    let asked = arguments(call, regs);
    let length = read::user_text(scratch, asked.path);
    if !asked.known || length == UNREADABLE {
        return;
    }
    let column = column_of(access_of_flags(asked.flags));
    let from = (asked.directory, asked.in_root);
    // The end of the call knows what was opened, or that nothing was.
    scratch.cursor.trusted = 1;
    let (verdict, base) = decide_argument(scratch, jail, from, (length, column));
    if verdict.kills() {
        automaton::execute(jail, who.thread);
        emit::begin(&mut scratch.record, kind::OPEN, who);
        emit::note_raw(&mut scratch.record, jail, length);
        emit::attach_base(scratch, base);
        scratch.record.detail = asked.flags;
        emit::finish(scratch, jail, verdict);
    }
}

/// 1 for the result of a call that did not fail. Branch-free, so that the verifier does not fork states.
#[inline(always)]
pub fn is_done(result: i64) -> u32 {
    (verifier::opaque(result as u64) >> 63 ^ 1) as u32
}

/// True when the end of a call is an open: a handle that opened nothing names no file.
#[inline(always)]
pub fn is_told(call: u8, result: i64) -> bool {
    call != class::BY_HANDLE || result >= 0
}

/// Records that no name led to the file.
#[inline(always)]
fn note_handle(scratch: &mut Scratch, call: u8) {
    if call == class::BY_HANDLE {
        scratch.record.what = BY_HANDLE;
    }
}

/// True for the calls that open files.
#[inline(always)]
fn opens(call: u8) -> bool {
    matches!(call, class::OPEN..=class::OPENAT2 | class::BY_HANDLE)
}

/// Copies the path argument to [`Scratch::text`]; its length, which is 0 for a call that has none.
#[inline(always)]
fn text_of(scratch: &mut Scratch, call: u8, asked: Arguments) -> u32 {
    if call == class::BY_HANDLE {
        return 0;
    }
    read::user_text(scratch, asked.path)
}

/// At exit: decides on the file that was opened, or on the failed attempt, and tells.
#[inline(always)]
pub fn leave(scratch: &mut Scratch, jail: JailCell, call: u8, result: i64) {
    global_leave_open(scratch, jail.memory(), call.into(), result);
}

global!(global_leave_open(scratch, *jail, call: u32, result: i64) {
    let regs = read::current_registers();
    leave_inline(scratch, jail, emit::noted(), call as u8, regs, result);
    NOTHING
});

/// [`leave`], inlined into its global function.
#[inline(always)]
fn leave_inline(
    scratch: &mut Scratch,
    jail: JailCell,
    who: Current,
    call: u8,
    regs: u64,
    result: i64,
) {
    let asked = arguments(call, regs);
    let column = column_of(access_of_flags(asked.flags));
    let from = (asked.directory, asked.in_root);
    let length = text_of(scratch, call, asked).forget(scratch);
    scratch.cursor.trusted = is_done(result);
    if result < 0 && jail.aliased().get() != 0 && !asked.in_root {
        let end = entry::End {
            follows: 1,
            is_nowhere: verifier::is_some((result ^ ENOENT) as u64) ^ 1,
        };
        let straight = entry::leads_straight(scratch, asked.directory, (length, end));
        scratch.cursor.trusted = straight;
    }
    let (mut verdict, base) = decide_argument(scratch, jail, from, (length, column));
    emit::begin(&mut scratch.record, kind::OPEN, who);
    emit::note_raw(&mut scratch.record, jail, length);
    scratch.record.detail = asked.flags;
    note_handle(scratch, call);
    if result < 0 {
        scratch.record.errno = -result as u32;
        emit::attach_base(scratch, base);
    } else {
        let opened = decide_opened(scratch, jail, who.task, result as u32, asked.flags);
        let by_name = verdict.rule;
        verdict = opened.or(verdict);
        note_unknown_file(scratch, verdict.rule ^ by_name);
    }
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    emit::conclude(scratch, jail, who, verdict);
}

/// Notes that the rule is one about any file, where it is not the one about the name, and nobody knows the file. Branch-free, so that
/// the verifier does not fork states.
#[inline(always)]
fn note_unknown_file(scratch: &mut Scratch, differs: u16) {
    let flags = scratch.record.flags & (flag::FILE_GONE | flag::PATH_TRUNCATED);
    let lost = verifier::is_some(flags) & verifier::is_some(differs);
    scratch.record.flags |= flag::of_lost(lost);
}

/// Describes the file behind the new descriptor and asks the rules about it.
#[inline(always)]
fn decide_opened(
    scratch: &mut Scratch,
    jail: JailCell,
    task: u64,
    descriptor: u32,
    flags: u32,
) -> Verdict {
    let file = path::file_of(task, descriptor);
    if file == 0 {
        // Another thread closed it already. What it was cannot be known any more.
        scratch.record.flags |= flag::FILE_GONE;
        jail.count_unresolved();
        let column = column_of(access_of_flags(flags));
        return decide_file(scratch, jail, Resolved::UNKNOWN, column);
    }
    read::head(scratch, file);
    let mode = read::of_head(scratch, file, offset!(file_f_mode));
    let inode = read::of_head(scratch, file, offset!(file_f_inode));
    let place = Place::of_head(scratch, file);
    let column = column_of(access_of_mode(mode, flags));
    emit::describe_inode(scratch, inode);
    let resolved = path::resolve(scratch, place);
    emit::attach_path(scratch, jail, resolved);
    decide_file(scratch, jail, resolved, column)
}

/// Before the kernel lets a file be opened, for any task: by which way it came here does not matter.
/// `false` refuses.
///
/// What may pass is told at the exit of the call, with its result. What is refused is told here, and
/// so is what comes by no call that opens files, such as io_uring.
#[inline(always)]
pub fn hook(scratch: &mut Scratch, jail: JailCell, who: Current, file: u64) -> bool {
    let flags: u32 = read::kernel(file + u64::from(offset!(file_f_flags)));
    if flags & FMODE_EXEC != 0 || path::is_of_the_kernel(who.task, file) {
        return true;
    }
    let regs = read::current_registers();
    let call = class_of(regs);
    let by_call = opens(call);
    let column = column_of(access_of_file(file, flags));
    let mut length = 0;
    let mut verdict = Verdict::NONE;
    if by_call {
        let asked = arguments(call, regs);
        length = text_of(scratch, call, asked).forget(scratch);
        let from = (asked.directory, asked.in_root);
        scratch.cursor.trusted = 1;
        (verdict, _) = decide_argument(scratch, jail, from, (length, column));
    }
    let resolved = emit::resolve_file(scratch, file);
    let by_name = verdict.rule;
    verdict = decide_file(scratch, jail, resolved, column).or(verdict);
    if by_call {
        if !verdict.refuses() {
            return true;
        }
        emit::left(jail, read::mark_told(jail, who.thread));
    }
    tell_hooked(
        scratch,
        jail,
        who,
        (file, flags),
        (length, resolved),
        (verdict, by_name),
    )
}

/// Before a descriptor that was sent over a socket is put into a process of the jail.
#[inline(always)]
pub fn receive(scratch: &mut Scratch, jail: JailCell, who: Current, file: u64) -> bool {
    let flags: u32 = read::kernel(file + u64::from(offset!(file_f_flags)));
    let column = column_of(access_of_file(file, flags));
    let resolved = emit::resolve_file(scratch, file);
    let verdict = decide_file(scratch, jail, resolved, column);
    tell_hooked(
        scratch,
        jail,
        who,
        (file, flags),
        (0, resolved),
        (verdict, 0),
    )
}

/// Tells of what a hook was asked about that makes or empties a file, which is writing to it.
#[inline(always)]
pub fn tell_made(
    scratch: &mut Scratch,
    jail: JailCell,
    who: Current,
    resolved: Resolved,
    verdict: Verdict,
) {
    emit::begin(&mut scratch.record, kind::OPEN, who);
    // What is not there yet has a path and no inode.
    scratch.record.flags |= flag::FILE;
    emit::attach_path(scratch, jail, resolved);
    scratch.record.detail = O_WRONLY | O_CREAT;
    if jail.prevents() && verdict.refuses() {
        scratch.record.errno = EPERM;
    }
    emit::finish(scratch, jail, verdict);
}

/// Carries the verdict on a file out and tells of it, with the rule about the name; whether the act may go on.
#[inline(always)]
fn tell_hooked(
    scratch: &mut Scratch,
    jail: JailCell,
    who: Current,
    (file, flags): (u64, u32),
    (length, resolved): (u32, Resolved),
    (verdict, by_name): (Verdict, u16),
) -> bool {
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    emit::begin(&mut scratch.record, kind::OPEN, who);
    emit::note_raw(&mut scratch.record, jail, length);
    emit::describe_file(scratch, file);
    emit::attach_path(scratch, jail, resolved);
    note_unknown_file(scratch, verdict.rule ^ by_name);
    scratch.record.detail = flags;
    note_handle(scratch, class_of(read::current_registers()));
    if verdict.refuses() {
        scratch.record.errno = EPERM;
    }
    emit::finish(scratch, jail, verdict);
    !verdict.refuses()
}
