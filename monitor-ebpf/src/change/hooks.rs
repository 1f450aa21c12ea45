//! The same acts before they are done, where the kernel asks, on its own objects.

use turnkey_abi::syscalls::{class, on};
use turnkey_abi::{NOWHERE, Table, action, column, flag, kind};

use super::arguments::effect;
use super::naming::{Names, naming, of_symlink, verdict_at};
use crate::automaton::{self, Verdict};
use crate::class_of;
use crate::emit::{self, Current};
use crate::identity;
use crate::open;
use crate::path::{self, Place, Resolved};
use crate::read::{self, JailCell, Scratch, UNREADABLE};
use crate::verifier::Forget;

const EPERM: u32 = 1;

/// The act that a hook is asked about: its kind, the object's place, and the place of the new name.
pub struct Act {
    pub on: u8,
    /// The column of the kind that such calls have by themselves; that of the act without one.
    pub own: u32,
    pub object: Place,
    pub new: Option<Place>,
    /// Both are exchanged for each other.
    pub exchange: bool,
}

impl Act {
    /// The column of the rules that speak of such acts themselves.
    #[inline(always)]
    fn column(&self) -> u32 {
        column_of(self.on)
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

/// The column of a kind of change.
#[inline(always)]
pub const fn column_of(on: u8) -> u32 {
    match on {
        on::LINK => column::LINK,
        on::RENAME => column::RENAME,
        on::UNLINK => column::UNLINK,
        on::ATTRIBUTE => column::ATTRIBUTE,
        _ => column::CHMOD,
    }
}

/// The rules' verdict on a place for its own sake, in the column of the act, and on the file that is there by itself
/// when it is taken away; and the state of the automaton that its path ends in. A path that is not known is taken for
/// the worst.
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
        verdict = verdict_at(scratch, table, state, own);
    } else {
        verdict = automaton::decide_unknown(scratch, table, own).or(verdict);
        verdict = automaton::decide_unknown(scratch, table, away).or(verdict);
    }
    let state = state.forget(scratch);
    verdict = verdict.forget(scratch);
    verdict = identity::or_by_file(scratch, table, resolved.inode, own, verdict);
    verdict = identity::or_by_file(scratch, table, resolved.inode, away, verdict);
    (verdict, state)
}

/// The verdict of rules on a kind that calls have by themselves.
#[inline(always)]
fn by_itself(
    scratch: &Scratch,
    table: &Table,
    (resolved, state): (Resolved, u32),
    own: u32,
) -> Verdict {
    if resolved.is_whole() {
        verdict_at(scratch, table, state, own)
    } else {
        automaton::decide_unknown(scratch, table, own)
    }
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
        let resolved = path::resolve(scratch, place);
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
    let resolved = path::resolve(scratch, act.object);
    let (of_object, old) = decide_place(scratch, table, resolved, (column, away));
    verdict = of_object.or(verdict);
    verdict = by_itself(scratch, table, (resolved, old), act.own)
        .or(verdict)
        .forget(scratch);
    let effects = if act.on == on::RENAME && act.object.is_directory() {
        effects | effect::MOVED
    } else {
        effects
    };
    let effects = if act.exchange && act.new.is_some_and(Place::is_directory) {
        effects | effect::MOVED_BACK
    } else {
        effects
    };
    let effects = effects.forget(scratch);
    verdict = naming(scratch, table, effects, Names { old, new }).or(verdict);
    // No rule can deny a change of times or extended attributes.
    let prevents = jail.prevents() && act.on != on::ATTRIBUTE;
    let regs = read::current_registers();
    if is_judged_at_exit(class_of(regs)) && is_left(jail, who, verdict, prevents) {
        return true;
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
    if prevents && verdict.refuses() {
        scratch.record.errno = EPERM;
    }
    emit::finish(scratch, jail, verdict);
    !verdict.refuses()
}

/// True when the end of the call does all there is to do, of which a verdict is left for it. What is refused here is told
/// here, and not once more.
#[inline(always)]
fn is_left(jail: JailCell, who: Current, verdict: Verdict, prevents: bool) -> bool {
    let refused = verdict.refuses();
    if prevents && refused {
        emit::left(jail, read::mark_told(jail, who.thread));
        return false;
    }
    verdict.action < action::LOG || read::notice(jail, who.thread, (verdict.rule, refused))
}

/// True when [`leave`] decides once more on a call that such a hook is asked in.
#[inline(always)]
fn is_judged_at_exit(call: u8) -> bool {
    matches!(call, class::LINK..=class::FCHMOD | class::MAKE..=class::TIMESAT)
}

/// A symlink that is to be made.
#[derive(Clone, Copy)]
pub struct Link {
    /// The directory that the symlink is made in.
    pub directory: Place,
    /// The address of the kernel's copy of what it leads to.
    pub aim: u64,
}

/// The aim of a symlink that is to be made, by the kernel's own copy: the state that it ends in, [`NOWHERE`] of one that is not known, and
/// what its text does. Puts the verdict on a directory that is not known into `unknown`.
#[inline(always)]
fn kernel_aim(
    scratch: &mut Scratch,
    table: &'static Table,
    jail: JailCell,
    (link, unknown): (Link, &mut Verdict),
) -> (u32, u32) {
    let length = read::kernel_text(scratch, link.aim);
    if length == 0 || length == UNREADABLE {
        return (NOWHERE, 0);
    }
    let (mut effects, mut base) = (effect::ABSOLUTE, Resolved::EMPTY);
    if scratch.text[0] != b'/' {
        effects = 0;
        base = path::resolve(scratch, link.directory);
    }
    let base = base.forget(scratch);
    let effects = effects.forget(scratch);
    if !base.is_whole() {
        *unknown = automaton::decide_unknown(scratch, table, column::AWAY);
        return (NOWHERE, effects);
    }
    let state = automaton::state_of_written(scratch, table, jail, base, length);
    (state, effects)
}

/// Before something is made at a place or emptied there, which is writing to it, whichever call does
/// it; `false` refuses.
#[inline(always)]
pub fn make_hook(
    scratch: &mut Scratch,
    jail: JailCell,
    who: Current,
    (place, link, own): (Place, Option<Link>, u32),
) -> bool {
    let Some(table) = emit::table(jail) else {
        return !jail.strict();
    };
    let mut verdict = Verdict::NONE;
    let (mut aim, mut effects) = (NOWHERE, 0);
    if let Some(link) = link {
        (aim, effects) = kernel_aim(scratch, table, jail, (link, &mut verdict));
    }
    verdict = verdict.forget(scratch);
    let aim = aim.forget(scratch);
    let effects = effects.forget(scratch);
    let call = class_of(read::current_registers());
    let by_open = matches!(call, class::OPEN..=class::OPENAT2 | class::BY_HANDLE);
    // An open that makes or empties a file is no call of that kind.
    let own = if by_open { column::WRITE } else { own };
    // Writing by a descriptor was decided on when that was opened.
    let asked = if call == class::FTRUNCATE {
        own
    } else {
        column::WRITE
    };
    let asked = asked.forget(scratch);
    let own = own.forget(scratch);
    let resolved = path::resolve(scratch, place);
    let (of_place, state) = decide_place(scratch, table, resolved, (asked, asked));
    verdict = of_place.or(verdict);
    verdict = by_itself(scratch, table, (resolved, state), own).or(verdict);
    if link.is_some() {
        let names = Names {
            old: state,
            new: aim,
        };
        verdict = of_symlink(scratch, table, names, effects).or(verdict);
    }
    verdict = verdict.forget(scratch);
    let prevents = jail.prevents();
    if by_open && (!prevents || !verdict.refuses()) {
        // It is decided on again at its end, with the file that it has opened.
        return true;
    }
    if (by_open || is_judged_at_exit(call)) && is_left(jail, who, verdict, prevents)
        || verdict.action < action::LOG
    {
        return true;
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
