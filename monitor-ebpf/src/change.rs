//! link(2), rename(2), unlink(2), chmod(2) and their relatives: acts on names and attributes. And stat(2) and its
//! relatives, which only ask about a path: looks.
//!
//! An argument may condemn and never acquit, as with opens. But what is gone or has another name
//! after the call cannot be looked at then: only the hooks of BPF LSM know which file it was.

use turnkey_abi::syscalls::{class, on};
use turnkey_abi::{PATH, action, column, flag, kind};

use crate::automaton::{self, Verdict};
use crate::class_of;
use crate::emit::{self, Current};
use crate::network::EBADF;
use crate::open::{decide_argument, decide_file};
use crate::path::{self, Place, Resolved};
use crate::read::{self, JailCell, Scratch, UNREADABLE, offset};

const AT_FDCWD: i32 = -100;
const EPERM: u32 = 1;
/// Where no task has memory.
const NOWHERE: u64 = u64::MAX;

/// A path argument and the directory that it starts from.
#[derive(Clone, Copy)]
struct Name {
    directory: i32,
    /// 0: the descriptor alone is meant.
    path: u64,
}

/// The arguments of any of the calls.
#[derive(Clone, Copy)]
struct Arguments {
    /// [`kind::CHANGE`] or [`kind::LOOK`]
    kind: u16,
    on: u8,
    object: Name,
    /// The other name of a link or a rename; otherwise [`Name::NONE`]. No `Option`: the verifier
    /// does not let undefined values be moved about.
    new: Name,
}

impl Name {
    const NONE: Self = Self {
        directory: 0,
        path: 0,
    };
}

#[inline(always)]
fn arguments(call: u8, regs: u64) -> Arguments {
    let first = read::register(regs, offset!(regs_di)).long();
    let second = read::register(regs, offset!(regs_si)).long();
    let at = |directory: u64, path| Name {
        directory: directory as i32,
        path,
    };
    let here = |path| at(AT_FDCWD as u64, path);
    let one = |on, object| Arguments {
        kind: kind::CHANGE,
        on,
        object,
        new: Name::NONE,
    };
    // Without a path a look is about a descriptor, which was opened: there is nothing to read.
    let look = |object: Name| {
        let path = if object.path == 0 {
            NOWHERE
        } else {
            object.path
        };
        Arguments {
            kind: kind::LOOK,
            ..one(on::STAT, Name { path, ..object })
        }
    };
    let two = |on| Arguments {
        kind: kind::CHANGE,
        on,
        object: here(first),
        new: here(second),
    };
    let two_at = |on| Arguments {
        kind: kind::CHANGE,
        on,
        object: at(first, second),
        new: at(
            read::register(regs, offset!(regs_dx)).long(),
            read::register(regs, offset!(regs_r10)).long(),
        ),
    };
    match call {
        class::LINK => two(on::LINK),
        class::LINKAT => two_at(on::LINK),
        class::RENAME => two(on::RENAME),
        class::RENAMEAT => two_at(on::RENAME),
        class::UNLINK => one(on::UNLINK, here(first)),
        class::UNLINKAT => one(on::UNLINK, at(first, second)),
        class::CHMOD => one(on::CHMOD, here(first)),
        class::CHMODAT => one(on::CHMOD, at(first, second)),
        class::LOOK => look(here(first)),
        class::LOOKAT => look(at(first, second)),
        class::WATCHES => look(here(second)),
        _ => one(on::CHMOD, at(first, 0)),
    }
}

/// The same, without what the verifier knows of it: it would follow each call to the end by itself.
#[inline(always)]
fn forget(scratch: &mut Scratch, asked: Arguments) -> Arguments {
    let mut name = |name: Name| Name {
        directory: read::forgotten(scratch, name.directory as u64) as i32,
        path: read::forgotten(scratch, name.path),
    };
    let object = name(asked.object);
    let new = name(asked.new);
    Arguments {
        kind: read::forgotten(scratch, u64::from(asked.kind)) as u16,
        on: read::forgotten(scratch, u64::from(asked.on)) as u8,
        object,
        new,
    }
}

/// The column for a kind of change. They have one order, so that there is no branch for the verifier to follow.
#[inline(always)]
fn column_of(on: u8) -> u32 {
    const BEFORE: u32 = on::LINK as u32 - column::LINK;
    const { assert!(on::RENAME as u32 - BEFORE == column::RENAME) };
    const { assert!(on::UNLINK as u32 - BEFORE == column::UNLINK) };
    const { assert!(on::CHMOD as u32 - BEFORE == column::CHMOD) };
    const { assert!(on::STAT as u32 - BEFORE == column::STAT) };
    u32::from(on) - BEFORE
}

/// Reads a name to the start of the text and asks the rules about it; its length.
#[inline(always)]
fn decide_name(
    scratch: &mut Scratch,
    jail: JailCell,
    task: u64,
    name: Name,
    column: u32,
) -> (u32, Verdict) {
    if name.path == 0 {
        let file = path::file_of(task, name.directory as u32);
        let resolved = path::resolve(scratch, task, path::place_of(file));
        let verdict = decide_file(scratch, jail, resolved, column);
        if !resolved.is_whole() {
            return (0, verdict);
        }
        read::append_path(scratch, 0, resolved.from, resolved.length);
        return (resolved.length, verdict);
    }
    let length = read::user_text(scratch, name.path);
    let from = (name.directory, false);
    let (verdict, _) = decide_argument(scratch, jail, task, from, (length, column));
    (length, verdict)
}

/// At exit: decides on the arguments, and tells what came of it.
///
/// Nothing is decided at entry: a signal sent there would not keep the act from being done, and none
/// of these calls waits for anything.
#[inline(always)]
pub fn leave(
    scratch: &mut Scratch,
    jail: JailCell,
    who: Current,
    call: u8,
    (regs, result): (u64, i64),
) {
    let asked = forget(scratch, arguments(call, regs));
    let column = column_of(asked.on);
    let (length, verdict) = decide_name(scratch, jail, who.task, asked.object, column);
    let (length, mut verdict) = (
        read::forgotten(scratch, u64::from(length)) as u32,
        verdict.forget(scratch),
    );
    // Of what a program looks at, only what a rule has something against is told. In one comparison, by
    // which the verifier learns nothing of each that it would have to follow.
    const { assert!(action::NONE | action::ALLOW == 1 && action::LOG == 2) };
    let is_told = u64::from(asked.kind ^ kind::LOOK) | u64::from(verdict.action >> 1);
    if read::opaque(is_told) == 0 {
        return;
    }
    let mut new_length = 0;
    emit::begin(&mut scratch.record, asked.kind, who);
    if asked.new.path != 0 {
        let (length, of_new) = decide_name(scratch, jail, who.task, asked.new, column);
        verdict = of_new.or(verdict);
        new_length = length;
    }
    // A descriptor that is none, and nothing was done. Had something been done, another thread would have
    // closed the descriptor since, and the file could be the worst there is.
    // In one comparison again.
    let differs = (result ^ EBADF) as u64 | asked.object.path | u64::from(length);
    if read::opaque(differs) == 0 {
        verdict = Verdict::NONE;
    }
    verdict = verdict.forget(scratch);
    new_length = read::forgotten(scratch, u64::from(new_length)) as u32;
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    scratch.record.what = u16::from(asked.on);
    scratch.record.detail = read::number(regs) as u32;
    if result < 0 {
        scratch.record.errno = -result as u32;
    }
    attach_names(scratch, jail, who.task, asked, (length, new_length));
    emit::conclude(scratch, jail, who, verdict);
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
    }
    if length == UNREADABLE || asked.object.path == 0 {
        // A descriptor's own path is where the text begins.
        let known = if length == UNREADABLE { 0 } else { length };
        scratch.record.path_len = known as u16;
        return;
    }
    let at = u32::from(scratch.record.raw_len);
    if asked.new.path == 0 || read::append_user_bytes(scratch, at, asked.object.path, length) {
        scratch.record.path_len = length as u16;
    }
    let absolute = scratch.text[(at as usize) % PATH] == b'/';
    if !absolute {
        let base = path::resolve(scratch, task, path::base(task, asked.object.directory));
        let behind = at + u32::from(scratch.record.path_len);
        if base.is_whole() && base.length != 0 {
            read::append_path(scratch, behind, base.from, base.length);
            scratch.record.argv_len = base.length as u16;
            scratch.record.flags |= flag::BASE;
        }
    }
}

/// The act that a hook is asked about: its kind, the object's place, and the place of the new name.
pub struct Act {
    pub on: u8,
    pub object: Place,
    pub new: Option<Place>,
}

/// Before the act, on the kernel's own objects; `false` refuses.
///
/// What may pass is told at the exit of the call. What comes by no such call is told here.
#[inline(always)]
pub fn hook(scratch: &mut Scratch, jail: JailCell, who: Current, act: &Act) -> bool {
    let column = column_of(act.on);
    let mut verdict = Verdict::NONE;
    let mut new_length = 0;
    if let Some(new) = act.new {
        let resolved = path::resolve(scratch, who.task, new);
        verdict = decide_file(scratch, jail, resolved, column);
        new_length = put(scratch, 0, resolved);
    }
    let resolved = path::resolve(scratch, who.task, act.object);
    verdict = decide_file(scratch, jail, resolved, column).or(verdict);
    let regs = read::current_registers();
    let call = class_of(regs);
    if matches!(call, class::LINK..=class::FCHMOD) {
        if !verdict.refuses() {
            return true;
        }
        jail.hooked(who.thread).set(who.thread);
    }
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    emit::begin(&mut scratch.record, kind::CHANGE, who);
    scratch.record.what = u16::from(act.on);
    scratch.record.detail = read::number(regs) as u32;
    scratch.record.flags |= flag::FILE;
    scratch.record.raw_len = new_length as u16;
    scratch.record.path_len = put(scratch, new_length, resolved) as u16;
    if verdict.refuses() {
        scratch.record.errno = EPERM;
    }
    emit::finish(scratch, jail, verdict);
    !verdict.refuses()
}

/// Puts a path into the text; its length there.
#[inline(always)]
fn put(scratch: &mut Scratch, at: u32, path: Resolved) -> u32 {
    if !path.is_whole() {
        return 0;
    }
    read::append_path(scratch, at, path.from, path.length);
    path.length
}
