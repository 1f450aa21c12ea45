//! execve(2), execveat(2), and the images that they start.

use turnkey_abi::syscalls::class;
use turnkey_abi::{Actor, PATH, Record, action, column, flag, kind, magic, started};

use crate::actor;
use crate::automaton::{self, Verdict};
use crate::change;
use crate::code;
use crate::emit::{self, Current};
use crate::open::{self, decide_argument, decide_file};
use crate::path::{self, Resolved};
use crate::peers;
use crate::read::{self, JailCell, Scratch, UNREADABLE, offset};
use crate::verifier::{NOTHING, global};

const AT_FDCWD: i32 = -100;
const EXECVE: i32 = 59;
const EXECVEAT: i32 = 322;
const EPERM: u32 = 1;
const AT_EMPTY_PATH: u32 = 0x1000;

/// The arguments of either call.
#[derive(Clone, Copy)]
struct Arguments {
    directory: i32,
    path: u64,
    /// An empty path means `directory` itself.
    empty_path: bool,
}

#[inline(always)]
fn arguments(call: u8, regs: u64) -> Arguments {
    let first = read::argument(regs, 0);
    if call == class::EXECVE {
        return Arguments {
            directory: AT_FDCWD,
            path: first.long(),
            empty_path: false,
        };
    }
    let path = read::argument(regs, 1).long();
    let flags = read::argument(regs, 4).word();
    Arguments {
        directory: first.int(),
        path,
        empty_path: flags & AT_EMPTY_PATH != 0,
    }
}

/// Reads the argument and asks the rules about it. Also returns the length of the text, which for
/// a bare descriptor becomes the kernel's path of it.
#[inline(always)]
fn decide(scratch: &mut Scratch, jail: JailCell, task: u64, asked: Arguments) -> (u32, Verdict) {
    let length = read::user_text(scratch, asked.path);
    // A text that cannot be read here may be an empty one on a page that is not there yet. Taking it
    // for empty can add a kill, for a descriptor that is a forbidden program, and takes none away.
    let may_be_empty = length == 0 || length == UNREADABLE;
    if !may_be_empty || !asked.empty_path {
        let from = (asked.directory, false);
        let (verdict, _) = decide_argument(scratch, jail, from, (length, column::EXEC));
        return (length, verdict);
    }
    let file = path::file_of(task, asked.directory as u32);
    if file == 0 {
        return (length, Verdict::NONE);
    }
    let resolved = emit::resolve_file(scratch, file);
    if !resolved.is_whole() {
        return (0, decide_file(scratch, jail, resolved, column::EXEC));
    }
    read::append_path(scratch, 0, resolved.from, resolved.length);
    (
        resolved.length,
        decide_file(scratch, jail, resolved, column::EXEC),
    )
}

/// At entry: kills when the argument alone is enough for that. The command's own start is never
/// matched.
#[inline(always)]
pub fn enter(scratch: &mut Scratch, jail: JailCell, who: Current, call: u8, regs: u64) {
    if jail.started().get() == started::NOT {
        return;
    }
    actor::asks(jail, who);
    let (length, verdict) = decide(scratch, jail, who.task, arguments(call, regs));
    if verdict.kills() {
        automaton::execute(jail, who.thread);
        tell_attempt(scratch, jail, who, (length, 0), verdict);
    }
}

/// At exit, which a successful exec passes as the new image: tells of a failed attempt.
#[inline(always)]
pub fn leave(scratch: &mut Scratch, jail: JailCell, call: u8, result: i64) {
    global_leave_exec(scratch, jail.memory(), call.into(), result);
}

global!(global_leave_exec(scratch, *jail, call: u32, result: i64) {
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
    if result >= 0 {
        return;
    }
    let left =
        emit::table(jail).map_or(Verdict::NONE, |table| change::left_by_hook(scratch, table));
    let (length, verdict) = decide(scratch, jail, who.task, arguments(call, regs));
    let mut verdict = verdict.or(left);
    if jail.started().get() == started::NOT {
        verdict = Verdict::NONE;
    }
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    tell_attempt(scratch, jail, who, (length, -result as u32), verdict);
}

#[inline(always)]
fn tell_attempt(
    scratch: &mut Scratch,
    jail: JailCell,
    who: Current,
    (length, errno): (u32, u32),
    verdict: Verdict,
) {
    emit::begin(&mut scratch.record, kind::EXEC_ATTEMPT, who);
    emit::note_raw(&mut scratch.record, jail, length);
    scratch.record.errno = errno;
    emit::conclude(scratch, jail, who, verdict);
}

/// After an exec succeeded, before the new image's first instruction: the kernel's own file and
/// its own copy of the name decide. `thread` is the thread that asked for it: by now it has its process's id.
#[inline(always)]
pub fn replaced(scratch: &mut Scratch, jail: JailCell, who: Current, (thread, binprm): (u32, u64)) {
    let first = jail.started().get() != started::TOLD;
    let before = actor::before(scratch, jail, who.task, thread);
    scratch.cursor.role = before.caller();
    jail.started().set(started::TOLD);
    let filename: u64 = read::kernel(binprm + u64::from(offset!(binprm_filename)));
    let length = read::kernel_text(scratch, filename);
    let from = (AT_FDCWD, false);
    let (mut by_name, base) = decide_argument(scratch, jail, from, (length, column::EXEC));
    if length == UNREADABLE || !base.is_whole() {
        by_name = decide_file(scratch, jail, Resolved::UNKNOWN, column::EXEC);
    }
    // The kernel gives the interpreter's name a place of its own.
    let interpreter: u64 = read::kernel(binprm + u64::from(offset!(binprm_interp)));
    let is_script = interpreter != filename;
    if is_script {
        by_name = by_name.or(decide_listed(scratch, jail, who.task, length));
    }
    emit::begin(&mut scratch.record, kind::EXEC, who);
    emit::note_raw(&mut scratch.record, jail, length);
    if is_script {
        scratch.record.flags |= flag::SCRIPT;
    }
    let traits = (is_script, before.steady || first);
    let script = actor::script(scratch, jail, who.task, traits, length);
    let file: u64 = read::kernel(binprm + u64::from(offset!(binprm_file)));
    emit::describe_file(scratch, file);
    let resolved = emit::resolve_file(scratch, file);
    emit::attach_path(scratch, jail, resolved);
    let verdict = decide_file(scratch, jail, resolved, column::EXEC).or(by_name);
    let mut verdict = verdict.or(left_by_entry(scratch, jail, thread));
    if jail.is_marked() {
        read::forget_mark(thread);
    }
    if first {
        verdict = Verdict::NONE;
    }
    actor::executes(scratch, jail, who.task, resolved, (script, Actor::new(0)));
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    if read::level() != 0 {
        note_anew(&mut scratch.record, who.task, file);
    }
    attach_arguments(scratch, who.task);
    emit::finish_single(scratch, jail, verdict);
    if !first {
        code::begins(scratch, jail, who, file);
    }
}

/// Notes it when a process executes anew what the process outside of the group executes that has made it, as a container's
/// runtime does, perhaps from a copy that has no name. Nothing of a container's own tree is seen in that one's mount namespace.
#[inline(always)]
fn note_anew(record: &mut Record, task: u64, file: u64) {
    let parent = actor::parent_of(task);
    let namespace = path::mount_namespace(task);
    let inode: u64 = read::kernel(file + u64::from(offset!(file_f_inode)));
    let of_parent = actor::executed_by(parent);
    let of_parent: u64 = read::kernel(of_parent + u64::from(offset!(file_f_inode)));
    let is_same = inode == of_parent || record.flags & flag::UNLINKED != 0;
    if is_same
        && namespace != 0
        && namespace == path::mount_namespace(parent)
        && !peers::is_neighbour(parent)
    {
        record.flags |= flag::ANEW;
        let [first, second] = read::kernel(parent + u64::from(offset!(task_comm)));
        (record.args[0], record.args[1]) = (first, second);
    }
}

/// The rules' verdict on a script that was asked for by a link of the kernel's in /proc, where [`entry_hook`] is not asked. By a
/// descriptor of the process's own it is the file that the interpreter is about to open by that; any other link may lead to any file.
#[inline(always)]
fn decide_listed(scratch: &mut Scratch, jail: JailCell, task: u64, length: u32) -> Verdict {
    scratch.cursor.own = 0;
    open::state_of_argument(scratch, jail, (AT_FDCWD, length));
    if scratch.cursor.magic == magic::NONE {
        return Verdict::NONE;
    }
    let descriptor = read::descriptor_in_proc(scratch);
    let file = path::file_of(task, descriptor);
    let mut resolved = Resolved::UNKNOWN;
    if path::has_path(file) {
        resolved = emit::resolve_file(scratch, file);
    }
    decide_file(scratch, jail, resolved, column::EXEC)
}

/// As [`replaced`], where that can be left out: decides, and leaves the telling to it but for what
/// kills. The name is that of the trace event, the file that of the new memory.
#[inline(always)]
pub fn judge(scratch: &mut Scratch, jail: JailCell, who: Current, (thread, filename): (u32, u64)) {
    let before = actor::before(scratch, jail, who.task, 0);
    let memory: u64 = read::kernel(who.task + u64::from(offset!(task_mm)));
    let file: u64 = read::kernel(memory + u64::from(offset!(mm_exe_file)));
    if jail.started().get() == started::NOT {
        jail.started().set(started::UNTOLD);
        let resolved = emit::resolve_file(scratch, file);
        becomes(scratch, jail, who.task, resolved, before);
        return;
    }
    let length = read::kernel_text(scratch, filename);
    let from = (AT_FDCWD, false);
    let (mut by_name, base) = decide_argument(scratch, jail, from, (length, column::EXEC));
    if length == UNREADABLE || !base.is_whole() {
        by_name = decide_file(scratch, jail, Resolved::UNKNOWN, column::EXEC);
    }
    let resolved = emit::resolve_file(scratch, file);
    let verdict = decide_file(scratch, jail, resolved, column::EXEC).or(by_name);
    let verdict = verdict.or(left_by_entry(scratch, jail, thread));
    becomes(scratch, jail, who.task, resolved, before);
    if verdict.kills() {
        automaton::execute(jail, who.thread);
        tell_attempt(scratch, jail, who, (length, 0), verdict);
    }
}

/// Settles the role from here on. Whether a script was started is not known here: where rules ask for
/// that, it is the worst until the exec is told.
#[inline(always)]
fn becomes(scratch: &mut Scratch, jail: JailCell, task: u64, exe: Resolved, before: actor::Before) {
    let names_scripts = emit::table(jail).is_some_and(|table| table.script_count > 1);
    let script = if names_scripts {
        actor::LOST
    } else {
        actor::NO_SCRIPT
    };
    actor::executes(scratch, jail, task, exe, (script, before.untold()));
}

/// Puts the new image's arguments behind the path.
#[inline(always)]
fn attach_arguments(scratch: &mut Scratch, task: u64) {
    let memory: u64 = read::kernel(task + u64::from(offset!(task_mm)));
    let start: u64 = read::kernel(memory + u64::from(offset!(mm_arg_start)));
    let end: u64 = read::kernel(memory + u64::from(offset!(mm_arg_end)));
    let mut length = end - start;
    if length >= PATH as u64 {
        length = PATH as u64 - 1;
        scratch.record.flags |= flag::ARGV_TRUNCATED;
    }
    let at = u32::from(scratch.record.raw_len) + u32::from(scratch.record.path_len);
    if read::append_user_bytes(scratch, at, start, length as u32) {
        scratch.record.argv_len = length as u16;
    } else {
        scratch.record.flags |= flag::ARGV_TRUNCATED;
    }
}

/// Before a program, a script or an interpreter is loaded, where nobody heeds an answer: leaves what the rules say of the
/// file for the end of the call. Once the interpreter is loaded, nothing tells which file the script was.
#[inline(always)]
pub fn entry_hook(scratch: &mut Scratch, jail: JailCell, who: Current, binprm: u64) {
    if jail.started().get() == started::NOT {
        return;
    }
    let file: u64 = read::kernel(binprm + u64::from(offset!(binprm_file)));
    let resolved = emit::resolve_file(scratch, file);
    let verdict = decide_file(scratch, jail, resolved, column::EXEC);
    leave_for_end(scratch, jail, who, verdict);
}

/// Leaves a verdict for the end of the call, if there is no stronger one: the kernel asks about the script first, and then about each
/// interpreter.
#[inline(always)]
fn leave_for_end(scratch: &mut Scratch, jail: JailCell, who: Current, verdict: Verdict) {
    let verdict = verdict.or(left_by_entry(scratch, jail, who.thread));
    if verdict.action >= action::LOG {
        let left = (verdict.rule, verdict.refuses());
        emit::left(jail, read::notice(jail, who.thread, left));
    }
}

/// The verdict that a hook left of the exec that a thread has asked for.
#[inline(always)]
fn left_by_entry(scratch: &mut Scratch, jail: JailCell, thread: u32) -> Verdict {
    let Some(table) = emit::table(jail) else {
        return Verdict::NONE;
    };
    if jail.is_marked() {
        // Whichever call it was, the kernel takes it for execve(2) once the image is there (set_personality_64bit).
        let marks = [EXECVE, EXECVEAT].map(|nr| read::mark_of(thread, nr).rest());
        scratch.cursor.marked = marks[0] | marks[1];
    } else {
        scratch.cursor.marked = 0;
    }
    change::left_by_hook(scratch, table)
}

/// Before a program, a script or an interpreter is loaded: `false` refuses. The command's own start
/// is never matched.
#[inline(always)]
pub fn hook(scratch: &mut Scratch, jail: JailCell, who: Current, binprm: u64) -> bool {
    if jail.started().get() == started::NOT {
        return true;
    }
    let filename: u64 = read::kernel(binprm + u64::from(offset!(binprm_filename)));
    let length = read::kernel_text(scratch, filename);
    let from = (AT_FDCWD, false);
    let (by_name, _) = decide_argument(scratch, jail, from, (length, column::EXEC));
    let file: u64 = read::kernel(binprm + u64::from(offset!(binprm_file)));
    let resolved = emit::resolve_file(scratch, file);
    let verdict = decide_file(scratch, jail, resolved, column::EXEC).or(by_name);
    if !verdict.refuses() {
        leave_for_end(scratch, jail, who, verdict);
        return true;
    }
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    tell_attempt(scratch, jail, who, (length, EPERM), verdict);
    emit::left(jail, read::mark_told(jail, who.thread));
    false
}
