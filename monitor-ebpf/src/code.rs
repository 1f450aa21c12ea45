//! mmap(2), mprotect(2), pkey_mprotect(2), shmat(2): memory that is made executable.
//!
//! Loaders map libraries all day, so a mapping of a file is told only when a rule names its path.
//! Code that no file of the tree holds is told always: anonymous memory, memory files, deleted files,
//! and pages that differ from their file or may come to. Rules without a path speak of that alone.
//!
//! Code that another process of the jail has written, or can write as long as the memory is shared, is not the program
//! that a rule allows something: who makes it executable is nobody's actor from then on.

use turnkey_abi::syscalls::{class, on};
use turnkey_abi::{action, column, flag, kind};

use crate::actor;
use crate::automaton::{self, Verdict, decide_kind};
use crate::class_of;
use crate::emit::{self, Current};
use crate::open::decide_file;
use crate::path::{self, Resolved};
use crate::read::{self, Area, JailCell, Scratch, offset};
use crate::verifier::{Forget, NOTHING, Passage, global};

const EPERM: u32 = 1;
const EACCES: u32 = 13;
const PROT_READ: u64 = 1;
const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;
const MAP_TYPE: u64 = 0xf;
const MAP_PRIVATE: u64 = 2;
const MAP_ANONYMOUS: u64 = 0x20;
const SHM_EXEC: u64 = 0o100_000;
/// Readable memory of such a task is executable: personality(2).
const READ_IMPLIES_EXEC: u32 = 0x40_0000;
const VM_WRITE: u64 = 2;
const VM_SHARED: u64 = 8;
const FMODE_WRITE: u32 = 2;

/// The content of executable memory. Numbers only, which the verifier can be made to forget.
#[derive(Clone, Copy)]
pub struct Code {
    /// The `struct file`, or 0.
    file: u64,
    /// The bits below.
    traits: u64,
}

/// The pages differ from the file, or may come to.
const WRITABLE: u64 = 1;
/// No path leads to the file any more, or never did.
const UNLINKED: u64 = 2;
/// The content is not known: taken for the worst.
const UNKNOWN: u64 = 4;

impl Code {
    const ANONYMOUS: Self = Self { file: 0, traits: 0 };

    const LOST: Self = Self {
        file: 0,
        traits: UNKNOWN,
    };

    #[inline(always)]
    fn of_file(file: u64, writable: bool) -> Self {
        let links: u32 = read::kernel(path::user_inode(file) + u64::from(offset!(inode_i_nlink)));
        let unlinked = if links == 0 { UNLINKED } else { 0 };
        let writable = if writable { WRITABLE } else { 0 };
        Self {
            file,
            traits: unlinked | writable,
        }
    }

    /// The content of a mapping that is yet to be made.
    #[inline(always)]
    pub fn of_mapping(file: u64, protection: u64, flags: u64) -> Self {
        if file == 0 {
            return Self::ANONYMOUS;
        }
        let mode: u32 = read::kernel(file + u64::from(offset!(file_f_mode)));
        let shared = flags & MAP_TYPE != MAP_PRIVATE && mode & FMODE_WRITE != 0;
        Self::of_file(file, shared || protection & PROT_WRITE != 0)
    }

    /// The content of an area that the task's memory has. Without the right to write its file, a mapping is never
    /// shared in the kernel's eyes.
    #[inline(always)]
    pub fn of_area(area: Area, protection: u64) -> Self {
        if area.file == 0 {
            return Self::ANONYMOUS;
        }
        let written = area.flags & (VM_WRITE | VM_SHARED) != 0 || area.anonymous != 0;
        Self::of_file(area.file, written || protection & PROT_WRITE != 0)
    }

    #[inline(always)]
    fn has(self, of: u64) -> bool {
        self.traits & of != 0
    }

    /// True when no file of the tree holds the code.
    #[inline(always)]
    fn is_fileless(self) -> bool {
        self.file == 0 || self.traits != 0
    }
}

impl Forget for Code {
    #[inline(always)]
    fn forget(self, memory: &mut impl Passage) -> Self {
        Self {
            file: self.file.forget(memory),
            traits: self.traits.forget(memory),
        }
    }
}

/// The protection that one of the calls asks for, as the kernel will take it.
#[inline(always)]
fn protection(call: u8, task: u64, regs: u64) -> u64 {
    let third = read::argument(regs, 2).long();
    let asked = match call {
        class::SHMAT if third & SHM_EXEC != 0 => PROT_READ | PROT_EXEC,
        class::SHMAT => PROT_READ,
        _ => third,
    };
    let personality: u32 = read::kernel(task + u64::from(offset!(task_personality)));
    if asked & PROT_READ != 0 && personality & READ_IMPLIES_EXEC != 0 {
        asked | PROT_EXEC
    } else {
        asked
    }
}

/// True when one of the calls is about executable memory.
#[inline(always)]
pub fn is_asked(call: u8, task: u64, regs: u64) -> bool {
    protection(call, task, regs) & PROT_EXEC != 0
}

/// The content of the task's memory from an address up to `end`; [`Code::LOST`] when no single area holds all of it.
#[inline(always)]
fn at(address: u64, end: u64, protection: u64) -> Code {
    let area = read::area_at(address);
    if area.end == 0 || end > area.end {
        return Code::LOST;
    }
    Code::of_area(area, protection)
}

/// True when another process can write what is mapped from a file, or had its way with the file.
#[inline(always)]
fn is_foreign(file: u64) -> bool {
    path::user_place(file).is_writable()
}

/// True when no other process can write an area's memory.
#[inline(always)]
pub fn is_own(area: Area) -> bool {
    area.flags & VM_SHARED == 0 && (area.file == 0 || !is_foreign(area.file))
}

/// True when another process can write a mapping that is yet to be made. Anonymous memory that is shared is a
/// file without a name, which a fork or its number brings to others.
#[inline(always)]
pub fn is_shared(file: u64, flags: u64) -> bool {
    let shared = flags & MAP_TYPE != MAP_PRIVATE;
    if file == 0 {
        return shared;
    }
    let mode: u32 = read::kernel(file + u64::from(offset!(file_f_mode)));
    shared && mode & FMODE_WRITE != 0 || is_foreign(file)
}

/// Before a call: mixes who acts when another process can write what the call makes executable, or when that is
/// not known.
#[inline(always)]
fn mix_before(jail: JailCell, task: u64, call: u8, regs: u64) {
    let flags = read::argument(regs, 3).long();
    let shared = match call {
        class::MPROTECT => !is_all_own(protected(regs)),
        class::MMAP if flags & MAP_ANONYMOUS != 0 => is_shared(0, flags),
        class::MMAP => {
            let descriptor = read::argument(regs, 4).word();
            let file = path::file_of(task, descriptor);
            file == 0 || is_shared(file, flags)
        }
        _ => true,
    };
    if shared {
        actor::mix(jail, task);
    }
}

/// After a call: the same, of what is there now. Meanwhile another thread may have changed what was at the address,
/// and what the descriptor is. A protection that fails holds up to where it failed.
#[inline(always)]
fn mix_after(jail: JailCell, task: u64, call: u8, (regs, result): (u64, i64)) {
    let place = match call {
        class::MPROTECT => protected(regs),
        _ if result < 0 => return,
        _ => (result as u64, result as u64),
    };
    if !is_all_own(place) {
        actor::mix(jail, task);
    }
}

/// The addresses of a protection, of its first byte and behind its last one.
#[inline(always)]
fn protected(regs: u64) -> (u64, u64) {
    let first = read::argument(regs, 0).long();
    let length = read::argument(regs, 1).long();
    (first, first + length)
}

/// True when no other process can write what is between two addresses, or at the first one.
#[inline(always)]
fn is_all_own((first, end): (u64, u64)) -> bool {
    read::all_areas(first, end, is_own)
}

/// The content that the arguments of a call are about, before it is done or after it failed.
#[inline(always)]
fn argued(call: u8, task: u64, regs: u64) -> Code {
    let asked = protection(call, task, regs);
    let flags = read::argument(regs, 3).long();
    match call {
        class::MPROTECT => {
            let (first, end) = protected(regs);
            at(first, end, asked)
        }
        class::MMAP if flags & MAP_ANONYMOUS == 0 => {
            let descriptor = read::argument(regs, 4).word();
            let file = path::file_of(task, descriptor);
            if file == 0 {
                return Code::LOST;
            }
            Code::of_mapping(file, asked, flags)
        }
        // A System V segment is a file that never had a name.
        _ => Code::ANONYMOUS,
    }
}

/// The content that a call has made executable. Memory that was anonymous then is so whatever is there by now.
#[inline(always)]
fn made(call: u8, task: u64, regs: u64, result: i64) -> Code {
    let flags = read::argument(regs, 3).long();
    if call == class::MPROTECT || call == class::MMAP && flags & MAP_ANONYMOUS != 0 {
        return argued(call, task, regs);
    }
    let address = result as u64;
    at(address, address + 1, protection(call, task, regs))
}

/// The rules' verdict, and the path of the file, if there is one.
#[inline(always)]
fn judge(scratch: &mut Scratch, jail: JailCell, code: Code) -> (Verdict, Resolved) {
    let mut verdict = Verdict::NONE;
    if code.is_fileless()
        && let Some(table) = emit::table(jail)
    {
        verdict = decide_kind(table, scratch.cursor.role, on::MAP);
    }
    verdict = verdict.forget(scratch);
    let mut resolved = Resolved::UNKNOWN;
    if code.file != 0 {
        resolved = path::resolve(scratch, path::user_place(code.file));
    }
    if code.file != 0 || code.has(UNKNOWN) {
        resolved = resolved.forget(scratch);
        verdict = decide_file(scratch, jail, resolved, column::MAP).or(verdict);
    }
    (verdict.forget(scratch), resolved.forget(scratch))
}

/// Before the first instruction of a new image, whose program is `file`: decides on the code that is none of that program's, and tells of
/// it. The loader that a program names may be a memory file, which then is what runs; and a stack or a part of the image may be
/// executable and written to.
#[inline(always)]
pub fn begins(scratch: &mut Scratch, jail: JailCell, who: Current, file: u64) {
    const VM_EXEC: u64 = 4;
    let regs = read::current_registers();
    let loader = read::area_at(read::register(regs, offset!(regs_ip)).long());
    let program: u64 = read::kernel(file + u64::from(offset!(file_f_inode)));
    let is_programs = loader.file == 0 || path::user_inode(loader.file) == program;
    let code = Code::of_area(loader, 0).forget(scratch);
    if !is_programs && (code.is_fileless() || is_brought(who.task, loader.file)) {
        begin(scratch, jail, (who, regs), code);
    }
    let stack = read::area_at(read::register(regs, offset!(regs_sp)).long());
    let memory: u64 = read::kernel(who.task + u64::from(offset!(task_mm)));
    let start: u64 = read::kernel(memory + u64::from(offset!(mm_start_code)));
    let end: u64 = read::kernel(memory + u64::from(offset!(mm_end_code)));
    // An image may ask for memory that it can write and execute; where it has no more in the file, that begins at the end of the code.
    let is_either = read::all_areas_with_gaps(start, end, |area| {
        area.flags & VM_EXEC == 0 || area.flags & VM_WRITE == 0
    });
    if stack.flags & VM_EXEC != 0 || !is_either {
        begin(scratch, jail, (who, regs), Code::ANONYMOUS);
    }
}

/// True for a loader that the jail may have written itself, elsewhere than in a root that is written to as a whole: that of every
/// program is there, and no rule means it. What others fill has such places everywhere.
#[inline(always)]
fn is_brought(task: u64, file: u64) -> bool {
    let (mount, _) = path::user_place(file).parts();
    let (root, _) = path::root(task).parts();
    read::level() == 0 && mount != root && is_foreign(file)
}

/// Decides on code that an exec has brought in no file of the tree, as on a program and on a mapping, and tells of it.
#[inline(always)]
fn begin(scratch: &mut Scratch, jail: JailCell, (who, regs): (Current, u64), code: Code) {
    let (mut verdict, resolved) = judge(scratch, jail, code);
    if code.file != 0 {
        verdict = decide_file(scratch, jail, resolved, column::EXEC).or(verdict);
    }
    tell(scratch, jail, (who, regs), (code, resolved), (0, verdict));
}

/// True when rules speak of files that are made executable.
#[inline(always)]
fn is_named(jail: JailCell) -> bool {
    emit::table(jail).is_some_and(|table| automaton::speaks_of(table, column::MAP))
}

/// At entry: kills when what is there, or the arguments, are enough for that. Another thread may wait
/// for the memory; it is to find none.
#[inline(always)]
pub fn enter(scratch: &mut Scratch, jail: JailCell, who: Current, call: u8, regs: u64) {
    mix_before(jail, who.task, call, regs);
    let code = argued(call, who.task, regs).forget(scratch);
    // A descriptor of nothing, and memory that is not there: the call will fail.
    if code.has(UNKNOWN) || !code.is_fileless() && !is_named(jail) {
        return;
    }
    let (verdict, resolved) = judge(scratch, jail, code);
    if verdict.kills() {
        tell(scratch, jail, (who, regs), (code, resolved), (0, verdict));
    }
}

/// At exit: decides on what was made executable, and tells of it when it is worth telling.
#[inline(always)]
pub fn leave(scratch: &mut Scratch, jail: JailCell, call: u8, result: i64) {
    global_leave_code(scratch, jail.memory(), call.into(), result);
}

global!(global_leave_code(scratch, *jail, call: u32, result: i64) {
    let end = (read::current_registers(), result);
    leave_inline(scratch, jail, emit::noted(), call as u8, end);
    NOTHING
});

/// [`leave`], inlined into its global function.
#[inline(always)]
fn leave_inline(
    scratch: &mut Scratch,
    jail: JailCell,
    who: Current,
    call: u8,
    (regs, result): (u64, i64),
) {
    mix_after(jail, who.task, call, (regs, result));
    let errno = if result < 0 { -result as u32 } else { 0 };
    let code = if result < 0 {
        argued(call, who.task, regs)
    } else {
        made(call, who.task, regs, result)
    };
    let code = code.forget(scratch);
    let telling = code.is_fileless() || errno == EPERM || errno == EACCES;
    if !telling && !is_named(jail) {
        return;
    }
    let (verdict, resolved) = judge(scratch, jail, code);
    if telling || verdict.action > action::ALLOW {
        tell(
            scratch,
            jail,
            (who, regs),
            (code, resolved),
            (errno, verdict),
        );
    }
}

/// Before memory is made executable; `false` refuses. The image that an exec loads is that rule's.
///
/// What may pass is told at the exit of the call.
#[inline(always)]
pub fn hook(scratch: &mut Scratch, jail: JailCell, who: Current, code: Code, shared: bool) -> bool {
    let regs = read::current_registers();
    let call = class_of(regs);
    if matches!(call, class::EXECVE | class::EXECVEAT) {
        return true;
    }
    if shared {
        actor::mix(jail, who.task);
    }
    let code = code.forget(scratch);
    let (verdict, resolved) = judge(scratch, jail, code);
    if !verdict.refuses() {
        return true;
    }
    if matches!(call, class::MMAP..=class::SHMAT) {
        emit::left(jail, read::mark_told(jail, who.thread));
    }
    tell(
        scratch,
        jail,
        (who, regs),
        (code, resolved),
        (EPERM, verdict),
    );
    false
}

/// True when a protection that a hook is asked about is executable.
#[inline(always)]
pub fn is_executable(protection: u64) -> bool {
    protection & PROT_EXEC != 0
}

/// Carries the verdict out and tells of it.
#[inline(always)]
fn tell(
    scratch: &mut Scratch,
    jail: JailCell,
    (who, regs): (Current, u64),
    (code, resolved): (Code, Resolved),
    (errno, verdict): (u32, Verdict),
) {
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    emit::begin(&mut scratch.record, kind::MAP, who);
    if code.file != 0 {
        emit::describe_inode(scratch, path::user_inode(code.file));
        emit::attach_path(scratch, jail, resolved);
    }
    if code.has(WRITABLE) {
        scratch.record.flags |= flag::WRITABLE;
    }
    if code.has(UNKNOWN) {
        scratch.record.flags |= flag::FILE_GONE;
    }
    scratch.record.detail = read::number(regs) as u32;
    scratch.record.errno = errno;
    emit::conclude(scratch, jail, who, verdict);
}
