//! Names that are moved, where only arguments tell of them: which file it was is looked up in the kernel's lists.

use super::arguments::{Name, effect};
use crate::entry;
use crate::path;
use crate::read::{self, JailCell, Scratch};
use crate::verifier;

/// Before a symlink is there: notes where it may lead once it is moved. A text that is not read may be any.
#[inline(always)]
pub fn note_aim(jail: JailCell, regs: u64) {
    jail.aliased().set(1);
    let aim = read::argument(regs, 0).long();
    let (first, is_known) = read::user::<u8>(aim);
    if !is_known || first != b'/' {
        jail.relative().set(1);
    }
    // A `..` behind a name is recorded when the symlink is made.
    if !is_known || first == b'.' {
        jail.climbing().set(1);
    }
}

/// Looks for what is by the old name, the first `length` bytes of the text, and for the directory that had the object.
#[inline(always)]
pub(super) fn find_old(scratch: &mut Scratch, (name, length): (Name, u32)) {
    scratch.cursor.parent = entry::find(scratch, name.directory, length);
    scratch.cursor.back = path::mode(scratch.course.found);
}

/// Looks for what has got the new name, the first `length` bytes of the text: the effects without that on the content of a
/// directory, when it is certainly none. A symlink that has got into another directory, by itself or with the one that it is in, may
/// lead to any file from there, and acts through it are not asked about: [`Cursor::lost`] tells of it.
///
/// [`Cursor::lost`]: read::Cursor::lost
#[inline(always)]
pub(super) fn find_new(
    scratch: &mut Scratch,
    jail: JailCell,
    ((name, length), effects): ((Name, u32), u32),
) -> u32 {
    let parent = entry::find(scratch, name.directory, length);
    let is_apart =
        verifier::is_some(scratch.cursor.parent ^ parent) | (verifier::is_some(parent) ^ 1);
    scratch.cursor.parent = is_apart;
    let mode = path::mode(scratch.course.found);
    let back = scratch.cursor.back;
    // Of a linked file both names are: overlayfs forgets the new one (ovl_instantiate of fs/overlayfs/dir.c).
    let is_rename = u64::from(effects & effect::MOVED) / u64::from(effect::MOVED);
    let is_exchange = u64::from(effects & effect::EXCHANGED) / u64::from(effect::EXCHANGED);
    let links = path::may_be_symlink(mode) & is_rename
        | path::may_be_symlink(back) & (is_exchange | is_rename ^ 1);
    let files = (effect::MOVED * path::is_certainly_a_file(mode))
        | (effect::MOVED_BACK * path::is_certainly_a_file(back));
    let effects = effects & !files;
    let content = verifier::is_some(effects & (effect::MOVED | effect::MOVED_BACK));
    let moved = links & u64::from(jail.relative().get());
    let carried = content & u64::from(jail.climbing().get());
    scratch.cursor.lost |= (scratch.cursor.parent & (moved | carried)) << 1;
    effects
}

/// Notes whether a name in the text leads where it says, of an act of which no hook tells what it was on, in a run that has made
/// symlinks.
#[inline(always)]
pub(super) fn look_for_symlinks(
    scratch: &mut Scratch,
    jail: JailCell,
    (directory, length, follows): (i32, u32, u64),
) {
    if jail.has_hooks() || jail.aliased().get() == 0 {
        return;
    }
    let end = entry::End {
        follows,
        is_nowhere: 0,
    };
    let trusted = entry::leads_straight(scratch, directory, (length, end));
    scratch.cursor.trusted = trusted;
}
