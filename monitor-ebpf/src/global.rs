//! Functions that the kernel's verifier looks at by themselves, once each: global ones, as it calls them.
//!
//! Of any other function it follows every call, with all that it knows of the arguments. A global one is looked at once, with any
//! arguments, and of what it returns the verifier knows no more than the type (`btf_prepare_func_args` of kernel/bpf/btf.c, since
//! Linux 5.6; the linkage is that of the name, which is why each has one of its own). It takes up to five numbers, and pointers to memory
//! of a known size, which may be NULL for all that the verifier knows, and each argument has to be of use. Whatever else comes and goes is in the
//! work memory. The task is always the current one: a pointer to it is no number.
//!
//! The stack of all functions that are at work at the same time is 512 bytes, each rounded up to 32 (`check_max_stack_depth` of
//! kernel/bpf/verifier.c, until Linux 6.13). A call of another function here costs its caller what that takes.

#![expect(
    unsafe_code,
    reason = "names of their own, and pointers that the verifier takes for NULL"
)]

use turnkey_abi::{Jail, Table};

use crate::automaton::{self, Verdict};
use crate::change::{self, Names};
use crate::emit;
use crate::entry;
use crate::identity;
use crate::open;
use crate::path::{self, Place, Resolved};
use crate::read::{self, JailCell, Scratch};
use crate::verifier::{self, Forget};
use crate::{code, exec, network, question, refused};

/// The answer of a function that has none to give, or was handed no memory.
const NOTHING: u32 = 0;

/// A global function of the work memory, and of a jail or its rules where it names them; the rest of its arguments are numbers.
macro_rules! global {
    (
        $name:ident($scratch:ident $(, *$jail:ident)? $(, &$table:ident)? $(, $number:ident: $type:ty)*)
        $body:block
    ) => {
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $name(
            $scratch: &mut Scratch,
            $($jail: &mut Jail,)?
            $($table: &'static Table,)?
            $($number: $type,)*
        ) -> u32 {
            // SAFETY: the address is that of the reference, which nothing uses from here on.
            let $scratch: &mut Scratch = unsafe { &mut *(given!(&raw mut *$scratch) as *mut _) };
            $(let $jail = JailCell::at(given!(&raw mut *$jail) as *mut Jail);)?
            // SAFETY: the address is that of the reference.
            $(let $table: &'static Table = unsafe { &*(given!(&raw const *$table) as *const _) };)?
            $body
        }
    };
}

/// The address of an argument, which the compiler knows not to be NULL, and the verifier does not.
macro_rules! given {
    ($argument:expr) => {{
        let address = verifier::opaque($argument as u64);
        if address == 0 {
            return NOTHING;
        }
        address
    }};
}

/// [`path::walk`].
#[inline(always)]
pub fn resolve(scratch: &mut Scratch, place: Place) -> Resolved {
    // What a hook is handed is a pointer, to the verifier as well, until it has been in memory.
    let (mount, dentry) = place.parts();
    let (mount, dentry) = (mount.forget(scratch), dentry.forget(scratch));
    global_resolve(scratch, mount, dentry);
    scratch.cursor.resolved
}

global!(global_resolve(scratch, mount: u64, dentry: u64) {
    scratch.cursor.resolved = path::walk(scratch, Place::on_mount(mount, dentry));
    NOTHING
});

/// [`entry::walk`].
#[inline(always)]
pub fn walk_entries(scratch: &mut Scratch, directory: i32, (length, steps): (u32, u32)) {
    global_walk_entries(scratch, directory as u32, length, steps);
}

global!(global_walk_entries(scratch, directory: u32, length: u32, steps: u32) {
    entry::walk(scratch, directory as i32, (length, steps));
    NOTHING
});

/// [`automaton::walk_plain`].
#[inline(always)]
pub fn walk_plain(
    scratch: &mut Scratch,
    table: &'static Table,
    start: u32,
    (from, length): (u32, u32),
) -> u32 {
    global_walk_plain(scratch, table, start, from, length)
}

global!(global_walk_plain(scratch, &table, start: u32, from: u32, length: u32) {
    automaton::walk_plain(scratch, table, start, (from, length))
});

/// [`automaton::walk_written`].
#[inline(always)]
pub fn walk_written(
    scratch: &mut Scratch,
    table: &'static Table,
    start: u32,
    base: Resolved,
    length: u32,
) -> u32 {
    global_walk_written(scratch, table, start, two(base.from, base.length), length)
}

global!(global_walk_written(scratch, &table, start: u32, base: u64, length: u32) {
    automaton::walk_written(scratch, table, start, halves(base), length)
});

/// [`automaton::walk_untidy`].
#[inline(always)]
pub fn walk_untidy(
    scratch: &mut Scratch,
    table: &'static Table,
    start: u32,
    (from, base): (u32, u32),
    length: u32,
) -> u32 {
    global_walk_untidy(scratch, table, start, two(from, base), length)
}

global!(global_walk_untidy(scratch, &table, start: u32, base: u64, length: u32) {
    automaton::walk_untidy(scratch, table, start, halves(base), length)
});

/// [`open::ask_about_argument`].
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
    open::ask_about_argument(scratch, jail, from, halves(asked)).word()
});

/// [`open::ask_about_file`].
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
    open::ask_about_file(scratch, jail, resolved, column).word()
});

/// [`change::decide_descriptor`].
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
    change::decide_descriptor(scratch, jail, resolved, (column, own)).word()
});

/// [`identity::decide`].
#[inline(always)]
pub fn decide_by_file(
    scratch: &mut Scratch,
    table: &'static Table,
    inode: u64,
    column: u32,
) -> Verdict {
    let inode = inode.forget(scratch);
    Verdict::of_word(global_decide_by_file(scratch, table, inode, column))
}

global!(global_decide_by_file(scratch, &table, inode: u64, column: u32) {
    identity::decide(scratch, table, inode, column).word()
});

/// [`open::look_up_argument`].
#[inline(always)]
pub fn state_of_argument(
    scratch: &mut Scratch,
    jail: JailCell,
    (directory, length): (i32, u32),
) -> u32 {
    global_state_of_argument(scratch, jail.memory(), directory as u32, length)
}

global!(global_state_of_argument(scratch, *jail, directory: u32, length: u32) {
    open::look_up_argument(scratch, jail, (directory as i32, length))
});

/// [`change::decide_names`].
#[inline(always)]
pub fn decide_names(
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
    change::decide_names(scratch, table, effects, Names { old, new }).word()
});

/// [`network::decide_address`].
#[inline(always)]
pub fn decide_address(scratch: &mut Scratch, jail: JailCell, what: u16, length: u32) -> Verdict {
    let verdict = global_decide_address(scratch, jail.memory(), what.into(), length);
    Verdict::of_word(verdict)
}

global!(global_decide_address(scratch, *jail, what: u32, length: u32) {
    network::decide_address(scratch, jail, what as u16, length).word()
});

/// [`emit::note`] of the current task.
#[inline(always)]
pub fn note(scratch: &mut Scratch) {
    global_note(scratch);
}

global!(global_note(scratch) {
    emit::note(scratch, emit::current());
    NOTHING
});

/// [`emit::seal_and_send`].
#[inline(always)]
pub fn finish(scratch: &mut Scratch, jail: JailCell, verdict: Verdict) {
    global_finish(scratch, jail.memory(), verdict.word());
}

global!(global_finish(scratch, *jail, verdict: u32) {
    emit::seal_and_send(scratch, jail, Verdict::of_word(verdict));
    NOTHING
});

/// [`open::leave`].
#[inline(always)]
pub fn leave_open(scratch: &mut Scratch, jail: JailCell, call: u8, result: i64) {
    global_leave_open(scratch, jail.memory(), call.into(), result);
}

global!(global_leave_open(scratch, *jail, call: u32, result: i64) {
    let regs = read::current_registers();
    open::leave(scratch, jail, emit::noted(), call as u8, regs, result);
    NOTHING
});

/// [`exec::leave`].
#[inline(always)]
pub fn leave_exec(scratch: &mut Scratch, jail: JailCell, call: u8, result: i64) {
    global_leave_exec(scratch, jail.memory(), call.into(), result);
}

global!(global_leave_exec(scratch, *jail, call: u32, result: i64) {
    let regs = read::current_registers();
    exec::leave(scratch, jail, emit::noted(), call as u8, regs, result);
    NOTHING
});

/// [`network::decide_bound`].
#[inline(always)]
pub fn decide_bound(scratch: &mut Scratch, jail: JailCell) -> Verdict {
    Verdict::of_word(global_decide_bound(scratch, jail.memory()))
}

global!(global_decide_bound(scratch, *jail) {
    network::decide_bound(scratch, jail, read::current_registers()).word()
});

/// [`network::leave`], with the verdict that there is.
#[inline(always)]
pub fn leave_network(
    scratch: &mut Scratch,
    jail: JailCell,
    call: u8,
    result: i64,
    verdict: Verdict,
) {
    let verdict = verdict.word();
    global_leave_network(scratch, jail.memory(), call.into(), result, verdict);
}

global!(global_leave_network(scratch, *jail, call: u32, result: i64, verdict: u32) {
    let end = (read::current_registers(), result);
    let verdict = Verdict::of_word(verdict);
    network::leave(scratch, jail, emit::noted(), call as u8, end, verdict);
    NOTHING
});

/// [`network::listened`].
#[inline(always)]
pub fn listened(scratch: &mut Scratch, jail: JailCell, result: i64) {
    global_listened(scratch, jail.memory(), result);
}

global!(global_listened(scratch, *jail, result: i64) {
    let end = (read::current_registers(), result);
    network::listened(scratch, jail, emit::noted(), end);
    NOTHING
});

/// [`question::leave`].
#[inline(always)]
pub fn leave_question(scratch: &mut Scratch, jail: JailCell, call: u8, result: i64) {
    global_leave_question(scratch, jail.memory(), call.into(), result);
}

global!(global_leave_question(scratch, *jail, call: u32, result: i64) {
    let end = (read::current_registers(), result);
    question::leave(scratch, jail, emit::noted(), call as u8, end);
    NOTHING
});

/// [`question::written`].
#[inline(always)]
pub fn written(scratch: &mut Scratch, jail: JailCell, nr: i32) {
    global_written(scratch, jail.memory(), nr as u32);
}

global!(global_written(scratch, *jail, nr: u32) {
    let regs = read::current_registers();
    question::written(scratch, jail, emit::current(), nr as i32, regs);
    NOTHING
});

/// [`code::leave`].
#[inline(always)]
pub fn leave_code(scratch: &mut Scratch, jail: JailCell, call: u8, result: i64) {
    global_leave_code(scratch, jail.memory(), call.into(), result);
}

global!(global_leave_code(scratch, *jail, call: u32, result: i64) {
    let end = (read::current_registers(), result);
    code::leave(scratch, jail, emit::noted(), call as u8, end);
    NOTHING
});

/// [`refused::leave`].
#[inline(always)]
pub fn leave_refused(scratch: &mut Scratch, jail: JailCell, call: (u8, i32), result: i64) {
    let (call, nr) = (u32::from(call.0), call.1 as u32);
    global_leave_refused(scratch, jail.memory(), call, nr, result);
}

global!(global_leave_refused(scratch, *jail, call: u32, nr: u32, result: i64) {
    let end = (read::current_registers(), result);
    let _ = refused::leave(scratch, jail, emit::noted(), (call as u8, nr), end);
    NOTHING
});

/// [`refused::filtered`].
#[inline(always)]
pub fn filtered(scratch: &mut Scratch, jail: JailCell, nr: i32, result: i64) {
    global_filtered(scratch, jail.memory(), nr as u32, result);
}

global!(global_filtered(scratch, *jail, nr: u32, result: i64) {
    refused::filtered(scratch, jail, emit::current(), (nr as i32, result));
    NOTHING
});

/// [`change::entered`].
#[inline(always)]
pub fn entered(scratch: &mut Scratch, jail: JailCell, nr: i32) {
    global_entered(scratch, jail.memory(), nr as u32);
}

global!(global_entered(scratch, *jail, nr: u32) {
    change::entered(scratch, jail, emit::noted(), nr as i32);
    NOTHING
});

/// [`change::note_arguments`].
#[inline(always)]
pub fn note_arguments(scratch: &mut Scratch, jail: JailCell, call: u8, result: i64) {
    global_note_arguments(scratch, jail.memory(), call.into(), result);
}

global!(global_note_arguments(scratch, *jail, call: u32, result: i64) {
    let end = (read::current_registers(), result);
    change::note_arguments(scratch, jail, call as u8, end);
    NOTHING
});

/// [`change::note_object`].
#[inline(always)]
pub fn note_object(scratch: &mut Scratch, jail: JailCell, verdict: Verdict) -> Verdict {
    Verdict::of_word(global_note_object(scratch, jail.memory(), verdict.word()))
}

global!(global_note_object(scratch, *jail, verdict: u32) {
    let regs = read::current_registers();
    change::note_object(scratch, jail, regs, Verdict::of_word(verdict)).word()
});

/// [`change::note_new`].
#[inline(always)]
pub fn note_new(scratch: &mut Scratch, jail: JailCell, verdict: Verdict) -> Verdict {
    Verdict::of_word(global_note_new(scratch, jail.memory(), verdict.word()))
}

global!(global_note_new(scratch, *jail, verdict: u32) {
    change::note_new(scratch, jail, Verdict::of_word(verdict)).word()
});

/// [`change::tell`].
#[inline(always)]
pub fn tell_change(scratch: &mut Scratch, jail: JailCell, verdict: Verdict) {
    global_tell_change(scratch, jail.memory(), verdict.word());
}

global!(global_tell_change(scratch, *jail, verdict: u32) {
    let regs = read::current_registers();
    change::tell(scratch, jail, emit::noted(), regs, Verdict::of_word(verdict));
    NOTHING
});

/// Two numbers as one.
#[inline(always)]
fn two(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The numbers that [`two`] has put together.
#[inline(always)]
fn halves(both: u64) -> (u32, u32) {
    ((both >> 32) as u32, both as u32)
}
