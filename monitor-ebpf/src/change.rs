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

use turnkey_abi::syscalls::{class, on};
use turnkey_abi::{NOWHERE, PATH, Table, action, column, flag, kind};

use crate::automaton::{self, Verdict};
use crate::class_of;
use crate::emit::{self, Current};
use crate::identity;
use crate::network::EBADF;
use crate::open::{self, decide_file};
use crate::path::{self, Place, Resolved};
use crate::read::{self, JailCell, Scratch, UNREADABLE, offset};

const AT_FDCWD: i32 = -100;
const EPERM: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;

/// An argument that means a file, and the directory that it starts from.
#[derive(Clone, Copy)]
struct Name {
    directory: i32,
    /// The address of the path.
    path: u64,
    /// Not 0: there is no path, and the descriptor itself is meant.
    by_descriptor: u32,
}

/// The arguments of any of the calls.
#[derive(Clone, Copy)]
struct Arguments {
    /// [`kind::CHANGE`] or [`kind::LOOK`]
    kind: u16,
    on: u8,
    /// What the rules are asked of every name.
    column: u32,
    /// Bits of [`effect`].
    effects: u32,
    object: Name,
    /// The other name of a link or a rename; otherwise [`Name::NONE`]. No `Option`: the verifier
    /// does not let undefined values be moved about.
    new: Name,
}

/// What an act does to names.
mod effect {
    /// The object is under another name, too, or instead.
    pub const AWAY: u32 = 1;
    /// Something is there by the new name.
    pub const MADE: u32 = 2;
    /// If the object is a directory, so is all that is in it.
    pub const MOVED: u32 = 4;
    /// Both ways.
    pub const EXCHANGED: u32 = 8;
    /// The object's name is gone.
    pub const REMOVED: u32 = 16;
    /// The object leads to where the new name says, and so does all that is asked for below it.
    pub const ALIAS: u32 = 32;
    /// It is told only when a rule has something to say of it.
    pub const QUIET: u32 = 64;
    /// What the object leads to is written from the root on.
    pub const ABSOLUTE: u32 = 128;
}

impl Name {
    const NONE: Self = Self {
        directory: 0,
        path: 0,
        by_descriptor: 0,
    };
}

#[inline(always)]
fn arguments(call: u8, regs: u64) -> Arguments {
    let first = read::register(regs, offset!(regs_di));
    let second = read::register(regs, offset!(regs_si));
    let third = read::register(regs, offset!(regs_dx));
    let at = |directory: i32, path: u64| Name {
        directory,
        path,
        by_descriptor: 0,
    };
    let here = |path: u64| at(AT_FDCWD, path);
    let descriptor = Name {
        by_descriptor: 1,
        ..at(first.int(), 0)
    };
    let one = |on, column, effects, object| Arguments {
        kind: kind::CHANGE,
        on,
        column,
        effects,
        object,
        new: Name::NONE,
    };
    // Without a path a look is about a descriptor, which was opened: there is nothing to read.
    let look = |object: Name| Arguments {
        kind: kind::LOOK,
        ..one(on::STAT, column::STAT, effect::QUIET, object)
    };
    let make = |effects, object| one(on::OPEN, column::WRITE, effect::QUIET | effects, object);
    let two = |on, column, effects| Arguments {
        new: here(second.long()),
        ..one(on, column, effect::MADE | effects, here(first.long()))
    };
    let two_at = |on, column, effects| Arguments {
        new: at(third.int(), read::register(regs, offset!(regs_r10)).long()),
        ..one(on, column, effect::MADE | effects, at(first.int(), second.long()))
    };
    let moved = effect::AWAY | effect::MOVED;
    match call {
        class::LINK => two(on::LINK, column::LINK, effect::AWAY),
        class::LINKAT => {
            let followed = followed(regs, second.long());
            let linked = two_at(on::LINK, column::LINK, effect::AWAY);
            let is_followed = followed != UNREADABLE;
            Arguments {
                object: Name {
                    directory: if is_followed { followed as i32 } else { first.int() },
                    by_descriptor: u32::from(is_followed),
                    ..linked.object
                },
                ..linked
            }
        }
        class::RENAME => two(on::RENAME, column::RENAME, moved),
        class::RENAMEAT => two_at(on::RENAME, column::RENAME, moved | exchanged(regs)),
        class::UNLINK => one(on::UNLINK, column::UNLINK, effect::REMOVED, here(first.long())),
        class::UNLINKAT => one(
            on::UNLINK,
            column::UNLINK,
            effect::REMOVED,
            at(first.int(), second.long()),
        ),
        class::LOOK => look(here(first.long())),
        class::LOOKAT => look(at(first.int(), second.long())),
        class::WATCHES => look(here(second.long())),
        class::MAKE => make(0, here(first.long())),
        class::MAKEAT => make(0, at(first.int(), second.long())),
        class::SYMLINK => Arguments {
            new: here(first.long()),
            ..make(effect::ALIAS, here(second.long()))
        },
        class::SYMLINKAT => Arguments {
            new: at(second.int(), first.long()),
            ..make(effect::ALIAS, at(second.int(), third.long()))
        },
        class::CHMOD | class::XATTR => one(on::CHMOD, column::CHMOD, 0, here(first.long())),
        class::CHMODAT | class::XATTRAT => {
            one(on::CHMOD, column::CHMOD, 0, at(first.int(), second.long()))
        }
        _ => one(on::CHMOD, column::CHMOD, 0, descriptor),
    }
}

/// The descriptor of which a linkat(2) links the file: by itself, or by its name in /proc. [`UNREADABLE`]: none.
/// The filter of syscalls refuses all such calls, and others that follow something.
#[inline(always)]
fn followed(regs: u64, path: u64) -> u32 {
    const AT_SYMLINK_FOLLOW: u32 = 0x400;
    const AT_EMPTY_PATH: u32 = 0x1000;
    let flags = read::register(regs, offset!(regs_r8)).word();
    if flags & AT_EMPTY_PATH != 0 {
        return read::register(regs, offset!(regs_di)).word();
    }
    if flags & AT_SYMLINK_FOLLOW != 0 {
        return read::user_number_at_end(path);
    }
    UNREADABLE
}

/// What renameat2(2) does besides, by its flags. renameat(2) has none: what its register holds is anything.
#[inline(always)]
fn exchanged(regs: u64) -> u32 {
    const RENAMEAT2: i32 = 316;
    let flags = read::register(regs, offset!(regs_r8)).word();
    if read::number(regs) == RENAMEAT2 && flags & RENAME_EXCHANGE != 0 {
        effect::EXCHANGED
    } else {
        0
    }
}

/// Whether a call makes a device, which the filter of syscalls refuses.
#[inline(always)]
pub fn makes_device(regs: u64) -> bool {
    const MKNOD: i32 = 133;
    const MKNODAT: i32 = 259;
    let mode = match read::number(regs) {
        MKNOD => read::register(regs, offset!(regs_si)).word(),
        MKNODAT => read::register(regs, offset!(regs_dx)).word(),
        _ => 0,
    };
    // S_IFMT, S_IFCHR, S_IFBLK of linux/stat.h.
    matches!(mode & 0o170_000, 0o020_000 | 0o060_000)
}

/// Whether a call on attributes sets or takes away an access control list, which is another way to change the
/// mode. No other attribute is anybody's business.
#[inline(always)]
pub fn changes_access(call: u8, regs: u64) -> bool {
    let name = match call {
        class::XATTRAT => read::register(regs, offset!(regs_r10)),
        _ => read::register(regs, offset!(regs_si)),
    };
    let (begin, is_known) = read::user::<[u8; 16]>(name.long());
    // A name on a page that is not there yet may be any.
    !is_known || begin == *b"system.posix_acl"
}

/// The same, without what the verifier knows of it: it would follow each call to the end by itself.
#[inline(always)]
fn forget(scratch: &mut Scratch, asked: Arguments) -> Arguments {
    let mut word = |word: u64| read::forgotten(scratch, word);
    let mut name = |name: Name| Name {
        directory: word(name.directory as u64) as i32,
        path: word(name.path),
        by_descriptor: word(u64::from(name.by_descriptor)) as u32,
    };
    let object = name(asked.object);
    let new = name(asked.new);
    Arguments {
        kind: word(u64::from(asked.kind)) as u16,
        on: word(u64::from(asked.on)) as u8,
        column: word(u64::from(asked.column)) as u32,
        effects: word(u64::from(asked.effects)) as u32,
        object,
        new,
    }
}

/// Reads a name to the start of the text: its length, and the state of the automaton that it ends in.
#[inline(always)]
fn look_up(scratch: &mut Scratch, jail: JailCell, task: u64, name: Name) -> (u32, u32) {
    let length = read::user_text(scratch, name.path);
    let state = open::state_of_argument(scratch, jail, task, (name.directory, length));
    (length, state)
}

/// As [`look_up`], for the other name of an act, or for the aim of a symlink, whose own name is the first
/// `length` bytes of the text: what is relative starts there.
#[inline(always)]
fn look_up_new(
    scratch: &mut Scratch,
    jail: JailCell,
    task: u64,
    name: Name,
    (is_aim, length): (bool, u32),
) -> (u32, u32) {
    let is_sibling = is_aim && length != UNREADABLE && read::user::<u8>(name.path).0 != b'/';
    let length = if is_sibling {
        read::append_sibling(scratch, length, name.path)
    } else {
        read::user_text(scratch, name.path)
    };
    let length = read::forgotten(scratch, u64::from(length)) as u32;
    let state = open::state_of_argument(scratch, jail, task, (name.directory, length));
    (length, state)
}

/// As [`look_up`], for a descriptor, of which the kernel's own file is known; with what the rules say of it.
#[inline(always)]
fn look_up_descriptor(
    scratch: &mut Scratch,
    jail: JailCell,
    task: u64,
    (descriptor, column): (u32, u32),
) -> (u32, Verdict) {
    let file = path::file_of(task, descriptor);
    let resolved = path::resolve(scratch, task, path::place_of(file));
    // Who links a descriptor's file gives it another name.
    let column = if column == column::LINK {
        column::AWAY
    } else {
        column
    };
    let column = read::forgotten(scratch, u64::from(column)) as u32;
    let verdict = decide_file(scratch, jail, resolved, column);
    if !resolved.is_whole() {
        return (0, verdict);
    }
    read::append_path(scratch, 0, resolved.from, resolved.length);
    (resolved.length, verdict)
}

/// What the rules say of a name in a column; nothing, when it is not known.
#[inline(always)]
fn at(scratch: &Scratch, table: &Table, state: u32, column: u32) -> Verdict {
    automaton::decide_state(scratch, table, state, column)
}

/// Two names of one act, by the states that they end in.
#[derive(Clone, Copy)]
struct Names {
    old: u32,
    new: u32,
}

/// What becomes of a file that is under the new name and not, or not only, under the old one.
#[inline(always)]
fn of_file(scratch: &Scratch, table: &Table, names: Names) -> Verdict {
    let made = at(scratch, table, names.new, column::WRITE);
    if automaton::are_alike(table, names.old, names.new) {
        return made;
    }
    at(scratch, table, names.old, column::AWAY).or(made)
}

/// What becomes of all that is in a directory that is under the new name and not under the old one.
#[inline(always)]
fn of_content(scratch: &Scratch, table: &Table, names: Names) -> Verdict {
    if automaton::are_alike_inside(table, names.old, names.new) {
        return Verdict::NONE;
    }
    below(scratch, table, names.old, column::AWAY)
        .or(below(scratch, table, names.new, column::WRITE))
}

#[inline(always)]
fn below(scratch: &Scratch, table: &Table, state: u32, column: u32) -> Verdict {
    automaton::decide_below(scratch, table, state, column)
}

/// What the rules say of the names that an act makes true and untrue, but for those that speak of such acts
/// themselves. `moves` is whether the object may be a directory.
#[inline(always)]
fn naming(
    scratch: &mut Scratch,
    table: &Table,
    effects: u32,
    names: Names,
) -> Verdict {
    let mut verdict = Verdict::NONE;
    if effects & effect::MADE != 0 {
        verdict = of_file(scratch, table, names);
    }
    verdict = verdict.forget(scratch);
    if effects & effect::MOVED != 0 {
        verdict = of_content(scratch, table, names).or(verdict);
    }
    verdict = verdict.forget(scratch);
    if effects & effect::EXCHANGED != 0 {
        let back = Names {
            old: names.new,
            new: names.old,
        };
        verdict = of_file(scratch, table, back).or(verdict);
        verdict = verdict.forget(scratch);
        verdict = of_content(scratch, table, back).or(verdict);
    }
    verdict = verdict.forget(scratch);
    if effects & effect::REMOVED != 0 {
        verdict = at(scratch, table, names.old, column::WRITE).or(verdict);
    }
    if effects & effect::ALIAS != 0 {
        verdict = below(scratch, table, names.old, column::WRITE).or(verdict);
        verdict = of_aim(scratch, table, names.new, effects).or(verdict);
    }
    verdict.forget(scratch)
}

/// What the rules say of giving what a symlink leads to another name, which is what it does: of all that is in a
/// directory, as calls that take names do not tell where these led; and of a file, which is no more than told:
/// whoever opens the symlink is asked about the file, and nobody can link the file by it. An absolute aim leads out of what the program works on more often than not, to
/// where nothing can be written: there, only what must not be read counts.
#[inline(always)]
fn of_aim(scratch: &Scratch, table: &Table, aim: u32, effects: u32) -> Verdict {
    let column = if effects & effect::ABSOLUTE != 0 {
        column::READ
    } else {
        column::AWAY
    };
    at(scratch, table, aim, column)
        .told()
        .or(below(scratch, table, aim, column))
}

/// Whether an act had its effect, or was kept from it by somebody who refuses: one that could not be done for
/// another reason, such as a rename to another file system, made nothing true.
#[inline(always)]
fn is_attempt(result: i64) -> bool {
    const REFUSED: [i64; 3] = [-1, -13, -30];
    result >= 0 || result == REFUSED[0] || result == REFUSED[1] || result == REFUSED[2]
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
    let Some(table) = emit::table(jail) else {
        return;
    };
    let mut verdict = automaton::verdict(table, jail.take_noticed(who.thread));
    let (length, mut old) = if asked.object.by_descriptor != 0 {
        let descriptor = (asked.object.directory as u32, asked.column);
        let (length, of_file) = look_up_descriptor(scratch, jail, who.task, descriptor);
        verdict = of_file.or(verdict);
        (length, NOWHERE)
    } else {
        look_up(scratch, jail, who.task, asked.object)
    };
    let length = read::forgotten(scratch, u64::from(length)) as u32;
    old = read::forgotten(scratch, u64::from(old)) as u32;
    verdict = at(scratch, table, old, asked.column).or(verdict);
    verdict = verdict.forget(scratch);
    let (mut new_length, mut new) = (0, NOWHERE);
    let mut effects = asked.effects;
    if asked.new.path != 0 {
        let is_aim = effects & effect::ALIAS != 0;
        (new_length, new) = look_up_new(scratch, jail, who.task, asked.new, (is_aim, length));
        effects = read::forgotten(scratch, u64::from(effects)) as u32;
        new = read::forgotten(scratch, u64::from(new)) as u32;
        if effects & effect::ALIAS == 0 {
            verdict = at(scratch, table, new, asked.column).or(verdict);
        } else if read::user::<u8>(asked.new.path).0 == b'/' {
            effects |= effect::ABSOLUTE;
        }
        verdict = verdict.forget(scratch);
        // Hooks know what it is.
        let stays = effects & effect::MOVED != 0
            && (result != 0
                || jail.has_hooks()
                || is_file(scratch, who.task, asked.new, new_length));
        if stays {
            effects &= !effect::MOVED;
        }
    }
    if !is_attempt(result) {
        effects &= effect::QUIET | effect::ALIAS | effect::ABSOLUTE;
    }
    let effects = read::forgotten(scratch, u64::from(effects)) as u32;
    new_length = read::forgotten(scratch, u64::from(new_length)) as u32;
    new = read::forgotten(scratch, u64::from(new)) as u32;
    verdict = verdict.forget(scratch);
    verdict = naming(scratch, table, effects, Names { old, new }).or(verdict);
    verdict = verdict.forget(scratch);
    // Of what a program looks at or makes, only what a rule has something against is told. In one comparison,
    // by which the verifier learns nothing of each that it would have to follow.
    const { assert!(action::NONE | action::ALLOW == 1 && action::LOG == 2) };
    let is_told = u64::from(effects & effect::QUIET ^ effect::QUIET) | u64::from(verdict.action >> 1);
    if read::opaque(is_told) == 0 {
        return;
    }
    emit::begin(&mut scratch.record, asked.kind, who);
    // A descriptor that is none, and nothing was done. Had something been done, another thread would have
    // closed the descriptor since, and the file could be the worst there is.
    // In one comparison again.
    let is_descriptor = u64::from(asked.object.by_descriptor ^ 1);
    let differs = (result ^ EBADF) as u64 | is_descriptor | u64::from(length);
    if read::opaque(differs) == 0 {
        verdict = Verdict::NONE;
    }
    verdict = verdict.forget(scratch);
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

/// Whether what was renamed is certainly no directory. Of the new name's first `length` bytes in the text that
/// is known when it stands in a directory that the kernel tells: the working directory, or that of a descriptor.
#[inline(always)]
fn is_file(scratch: &Scratch, task: u64, new: Name, length: u32) -> bool {
    path::is_certainly_a_file(scratch, path::base(task, new.directory), length)
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
    if length == UNREADABLE || asked.object.by_descriptor != 0 {
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
    /// Both are exchanged for each other.
    pub exchange: bool,
}

impl Act {
    /// The column of the rules that speak of such acts themselves.
    #[inline(always)]
    fn column(&self) -> u32 {
        match self.on {
            on::LINK => column::LINK,
            on::RENAME => column::RENAME,
            on::UNLINK => column::UNLINK,
            _ => column::CHMOD,
        }
    }

    /// Bits of [`effect`].
    #[inline(always)]
    fn effects(&self) -> u32 {
        match self.on {
            on::LINK => effect::AWAY | effect::MADE,
            on::RENAME if self.exchange => effect::AWAY | effect::MADE | effect::EXCHANGED,
            on::RENAME => effect::AWAY | effect::MADE,
            on::UNLINK => effect::REMOVED,
            _ => 0,
        }
    }
}

/// What the rules say of a place for its own sake, in the column of the act, and of the file that is there by
/// itself when it is taken away; and the state of the automaton that its path ends in. A path that is not known
/// is taken for the worst.
#[inline(always)]
fn decide_place(
    scratch: &mut Scratch,
    table: &'static Table,
    resolved: Resolved,
    (own, away): (u32, u32),
) -> (Verdict, u32) {
    let mut state = NOWHERE;
    let mut verdict = Verdict::NONE;
    if resolved.is_whole() {
        state = automaton::state_of_path(scratch, table, resolved);
        verdict = at(scratch, table, state, own);
    } else {
        verdict = automaton::decide_unknown(scratch, table, own).or(verdict);
        verdict = automaton::decide_unknown(scratch, table, away).or(verdict);
    }
    let state = read::forgotten(scratch, u64::from(state)) as u32;
    verdict = verdict.forget(scratch);
    verdict = identity::or_by_file(scratch, table, resolved.inode, own, verdict);
    verdict = identity::or_by_file(scratch, table, resolved.inode, away, verdict);
    (verdict, state)
}

/// Before the act, on the kernel's own objects; `false` refuses.
///
/// What may pass is told at the exit of the call. What comes by no such call is told here.
#[inline(always)]
pub fn hook(scratch: &mut Scratch, jail: JailCell, who: Current, act: &Act) -> bool {
    let Some(table) = emit::table(jail) else {
        return !jail.strict();
    };
    let column = act.column();
    let effects = act.effects();
    let mut verdict = Verdict::NONE;
    let (mut new_length, mut new) = (0, NOWHERE);
    if let Some(place) = act.new {
        let resolved = path::resolve(scratch, who.task, place);
        (verdict, new) = decide_place(scratch, table, resolved, (column, column::WRITE));
        new_length = put(scratch, 0, resolved);
    }
    let away = if effects & effect::REMOVED != 0 {
        column::WRITE
    } else if effects & effect::AWAY != 0 {
        column::AWAY
    } else {
        column
    };
    let resolved = path::resolve(scratch, who.task, act.object);
    let (of_object, old) = decide_place(scratch, table, resolved, (column, away));
    verdict = of_object.or(verdict).forget(scratch);
    let effects = if act.on == on::RENAME && act.object.is_directory() {
        effects | effect::MOVED
    } else {
        effects
    };
    let effects = read::forgotten(scratch, u64::from(effects)) as u32;
    verdict = naming(scratch, table, effects, Names { old, new }).or(verdict);
    let regs = read::current_registers();
    if is_judged_at_exit(class_of(regs)) {
        if !verdict.refuses() {
            if verdict.action != action::LOG || jail.notice(who.thread, verdict.rule) {
                return true;
            }
        } else {
            jail.hooked(who.thread).set(who.thread);
        }
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

/// Whether [`leave`] decides once more on a call that such a hook is asked in.
#[inline(always)]
fn is_judged_at_exit(call: u8) -> bool {
    matches!(call, class::LINK..=class::FCHMOD | class::MAKE..=class::XATTRAT)
}

/// A symlink that is to be made.
#[derive(Clone, Copy)]
pub struct Link {
    /// Where.
    pub directory: Place,
    /// The address of the kernel's copy of what it leads to.
    pub aim: u64,
}

/// As [`of_aim`], on the kernel's own copy.
#[inline(always)]
fn decide_kernel_aim(
    scratch: &mut Scratch,
    table: &'static Table,
    task: u64,
    link: Link,
) -> Verdict {
    let length = read::kernel_text(scratch, link.aim);
    if length == 0 || length == UNREADABLE {
        return Verdict::NONE;
    }
    let (mut effects, mut base) = (effect::ABSOLUTE, Resolved::EMPTY);
    if scratch.text[0] != b'/' {
        effects = 0;
        base = path::resolve(scratch, task, link.directory);
    }
    let base = base.forget(scratch);
    let effects = read::forgotten(scratch, u64::from(effects)) as u32;
    if !base.is_whole() {
        return automaton::decide_unknown(scratch, table, column::AWAY);
    }
    let state = automaton::state_of_written(scratch, table, base, length);
    of_aim(scratch, table, state, effects)
}

/// Before something is made at a place or emptied there, which is writing to it, whichever call does
/// it; `false` refuses.
#[inline(always)]
pub fn make_hook(
    scratch: &mut Scratch,
    jail: JailCell,
    who: Current,
    (place, link): (Place, Option<Link>),
) -> bool {
    let Some(table) = emit::table(jail) else {
        return !jail.strict();
    };
    let mut verdict = Verdict::NONE;
    if let Some(link) = link {
        verdict = decide_kernel_aim(scratch, table, who.task, link).forget(scratch);
    }
    let resolved = path::resolve(scratch, who.task, place);
    let columns = (column::WRITE, column::WRITE);
    let (of_place, state) = decide_place(scratch, table, resolved, columns);
    verdict = of_place.or(verdict);
    if link.is_some() {
        verdict = below(scratch, table, state, column::WRITE).or(verdict);
    }
    verdict = verdict.forget(scratch);
    let call = class_of(read::current_registers());
    let by_open = matches!(call, class::OPEN..=class::OPENAT2);
    if !verdict.refuses() {
        // An open is decided on again at its end, with the file that it has opened.
        let is_silent = verdict.action != action::LOG || by_open;
        if is_silent || is_judged_at_exit(call) && jail.notice(who.thread, verdict.rule) {
            return true;
        }
    } else if by_open || is_judged_at_exit(call) {
        jail.hooked(who.thread).set(who.thread);
    }
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    open::tell_made(scratch, jail, who, resolved, verdict);
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
