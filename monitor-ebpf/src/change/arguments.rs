//! The arguments of calls that change names and attributes, and what each call does to names.

use turnkey_abi::syscalls::{class, on};
use turnkey_abi::{column, kind};

use crate::own_kind;
use crate::read;
use crate::verifier::{self, Forget, Passage};

const AT_FDCWD: i32 = -100;
const RENAME_EXCHANGE: u32 = 2;

/// An argument that means a file, and the directory that it starts from.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Name {
    pub(super) directory: i32,
    /// The address of the path.
    pub(super) path: u64,
    /// Not 0: there is no path, and the descriptor itself is meant.
    pub(super) by_descriptor: u32,
}

/// The arguments of any of the calls.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Arguments {
    /// [`kind::CHANGE`] or [`kind::LOOK`]
    pub(super) kind: u16,
    pub(super) on: u8,
    /// The column in which the rules are asked of every name.
    pub(super) column: u32,
    /// The column of the call's own kind, in which they are asked of the object; the same without one.
    pub(super) own: u32,
    /// Bits of [`effect`].
    pub(super) effects: u32,
    pub(super) object: Name,
    /// The other name of a link or a rename; otherwise [`Name::NONE`]. No `Option`: the verifier
    /// does not let undefined values be moved about.
    pub(super) new: Name,
}

/// Effects of an act on names.
pub(super) mod effect {
    /// The object is under another name, too, or instead.
    pub const AWAY: u32 = 1;
    /// An object is there by the new name.
    pub const MADE: u32 = 2;
    /// If the object is a directory, so is all that is in it.
    pub const MOVED: u32 = 4;
    /// Both ways.
    pub const EXCHANGED: u32 = 8;
    /// The object's name is gone.
    pub const REMOVED: u32 = 16;
    /// The object leads to where the new name says, and so does all that is asked for below it.
    pub const ALIAS: u32 = 32;
    /// The act is told only when a rule has something to say of it.
    pub const QUIET: u32 = 64;
    /// The symlink's aim is written from the root on.
    pub const ABSOLUTE: u32 = 128;
    /// Both ways, and if what was there by the new name is a directory, so is all that is in it.
    pub const MOVED_BACK: u32 = 256;
    /// The path leads to a descriptor by the list in /proc, as it is written there. The highest of these.
    pub const LISTED: u32 = 512;
}

impl Arguments {
    /// The arguments of an act on one object, whose call has no column of its own.
    #[inline(always)]
    fn about(on: u8, column: u32, effects: u32, object: Name) -> Self {
        Self {
            kind: kind::CHANGE,
            on,
            column,
            own: column,
            effects,
            object,
            new: Name::NONE,
        }
    }

    /// True when the act is about what the path's last component leads to, by whatever links.
    #[inline(always)]
    pub(super) fn is_followed(self, regs: u64) -> bool {
        let may_follow = self.on == on::CHMOD
            || self.on == on::ATTRIBUTE
            || self.on == on::LINK && read::number(regs) == LINKAT
            || self.own == column::own(on::TRUNCATE);
        may_follow && self.object.by_descriptor == 0 && follows(regs)
    }
}

/// 1 for an access(2) that asked whether it may write, and may not, or else 0: whoever asks first does not try. Branch-free, so that
/// the verifier does not fork states.
#[inline(always)]
pub(super) fn asked_to_write_in_vain(regs: u64, result: i64) -> u64 {
    const W_OK: u64 = 2;
    const ACCESS: u64 = 21;
    const FACCESSAT: u64 = 269;
    const FACCESSAT2: u64 = 439;
    const EPERM: i64 = -1;
    const EACCES: i64 = -13;
    const EROFS: i64 = -30;
    let nr = u64::from(read::number(regs) as u32);
    let differs = |left: u64, right: u64| verifier::is_some(left ^ right);
    let first = differs(nr, ACCESS) ^ 1;
    let second = (differs(nr, FACCESSAT) & differs(nr, FACCESSAT2)) ^ 1;
    let modes = read::argument(regs, 1).long() & first.wrapping_neg()
        | read::argument(regs, 2).long() & second.wrapping_neg();
    let is_other = [EPERM, EACCES, EROFS].map(|errno| differs(result as u64, errno as u64));
    let is_refused = is_other[0] & is_other[1] & is_other[2] ^ 1;
    (modes & W_OK) >> 1 & is_refused
}

impl Name {
    const NONE: Self = Self {
        directory: 0,
        path: 0,
        by_descriptor: 0,
    };

    #[inline(always)]
    fn at(directory: i32, path: u64) -> Self {
        Self {
            directory,
            path,
            by_descriptor: 0,
        }
    }
}

/// The arguments, with the column of the call's own kind.
#[inline(always)]
pub(super) fn arguments(call: u8, regs: u64) -> Arguments {
    let wider = wider(call, regs);
    let kind = match call {
        class::UNLINKAT if removes_directory(regs) => on::RMDIR,
        _ => own_kind(read::number(regs)),
    };
    // An access control list is a mode.
    let is_mode = wider.on == on::CHMOD && kind == on::XATTR;
    if kind == on::NONE || is_mode {
        return wider;
    }
    Arguments {
        own: column::own(kind),
        ..wider
    }
}

/// True when an unlinkat(2) is of a directory.
#[inline(always)]
fn removes_directory(regs: u64) -> bool {
    const AT_REMOVEDIR: u32 = 0x200;
    read::argument(regs, 2).word() & AT_REMOVEDIR != 0
}

#[inline(always)]
fn wider(call: u8, regs: u64) -> Arguments {
    let first = read::argument(regs, 0);
    let second = read::argument(regs, 1);
    let third = read::argument(regs, 2);
    let (at, one) = (Name::at, Arguments::about);
    let here = |path: u64| at(AT_FDCWD, path);
    let descriptor = Name {
        by_descriptor: 1,
        ..at(first.int(), 0)
    };
    // Without a path a look is about a descriptor, which was opened: there is nothing to read.
    let look = |object: Name| Arguments {
        kind: kind::LOOK,
        ..one(on::STAT, column::STAT, effect::QUIET, object)
    };
    let make = |effects, object| one(on::OPEN, column::WRITE, effects, object);
    let mark = |object| {
        if changes_access(call, regs) {
            one(on::CHMOD, column::CHMOD, 0, object)
        } else {
            one(on::ATTRIBUTE, column::ATTRIBUTE, 0, object)
        }
    };
    let two = |on, column, effects| Arguments {
        new: here(second.long()),
        ..one(on, column, effect::MADE | effects, here(first.long()))
    };
    let two_at = |on, column, effects| Arguments {
        new: at(third.int(), read::argument(regs, 3).long()),
        ..one(
            on,
            column,
            effect::MADE | effects,
            at(first.int(), second.long()),
        )
    };
    let moved = effect::AWAY | effect::MOVED;
    match call {
        class::LINK => two(on::LINK, column::LINK, effect::AWAY),
        class::LINKAT => {
            let linked = two_at(on::LINK, column::LINK, effect::AWAY);
            Arguments {
                object: entry_or_descriptor(regs, linked.object),
                ..linked
            }
        }
        class::RENAME => two(on::RENAME, column::RENAME, moved),
        class::RENAMEAT => two_at(on::RENAME, column::RENAME, moved | exchanged(regs)),
        class::UNLINK => one(
            on::UNLINK,
            column::UNLINK,
            effect::REMOVED,
            here(first.long()),
        ),
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
        class::CHMOD => one(on::CHMOD, column::CHMOD, 0, here(first.long())),
        class::CHMODAT => one(
            on::CHMOD,
            column::CHMOD,
            0,
            entry_or_descriptor(regs, at(first.int(), second.long())),
        ),
        class::XATTR | class::TIMES => mark(here(first.long())),
        class::TIMESAT if second.long() == 0 => mark(descriptor),
        class::XATTRAT | class::TIMESAT => {
            mark(entry_or_descriptor(regs, at(first.int(), second.long())))
        }
        class::FXATTR => mark(descriptor),
        // Writing by a descriptor was decided on when that was opened, and is told only where a rule is about this.
        class::FTRUNCATE => one(
            on::OPEN,
            column::own(on::TRUNCATE),
            effect::QUIET,
            descriptor,
        ),
        _ => one(on::CHMOD, column::CHMOD, 0, descriptor),
    }
}

/// The descriptor itself, where a path is empty and a call's flags say that then it is meant (`AT_EMPTY_PATH`); of a path that is not
/// empty they say nothing.
#[inline(always)]
fn entry_or_descriptor(regs: u64, entry: Name) -> Name {
    const AT_EMPTY_PATH: u32 = 0x1000;
    let has_text = entry.path != 0 && read::user::<u8>(entry.path).0 != 0;
    let is_meant = flags(regs) & AT_EMPTY_PATH != 0 && !has_text;
    Name {
        by_descriptor: u32::from(is_meant),
        ..entry
    }
}

/// True when a call follows a symlink that its path ends in; one that does not is about the symlink.
#[inline(always)]
fn follows(regs: u64) -> bool {
    const LCHOWN: i32 = 94;
    const LSETXATTR: i32 = 189;
    const LREMOVEXATTR: i32 = 198;
    const AT_SYMLINK_NOFOLLOW: u32 = 0x100;
    const AT_SYMLINK_FOLLOW: u32 = 0x400;
    match read::number(regs) {
        LCHOWN | LSETXATTR | LREMOVEXATTR => false,
        LINKAT => flags(regs) & AT_SYMLINK_FOLLOW != 0,
        _ => flags(regs) & AT_SYMLINK_NOFOLLOW == 0,
    }
}

const LINKAT: i32 = 265;

/// The flags (`AT_*`) of the calls that have them; 0 of others.
#[inline(always)]
fn flags(regs: u64) -> u32 {
    const FCHOWNAT: i32 = 260;
    const UTIMENSAT: i32 = 280;
    const FCHMODAT2: i32 = 452;
    const SETXATTRAT: i32 = 463;
    const REMOVEXATTRAT: i32 = 466;
    const FILE_SETATTR: i32 = 469;
    let flags = match read::number(regs) {
        SETXATTRAT | REMOVEXATTRAT => read::argument(regs, 2),
        UTIMENSAT | FCHMODAT2 => read::argument(regs, 3),
        LINKAT | FCHOWNAT | FILE_SETATTR => read::argument(regs, 4),
        _ => return 0,
    };
    flags.word()
}

/// Effects of `RENAME_EXCHANGE`, a flag of renameat2(2). renameat(2) takes no flags: its register holds anything.
#[inline(always)]
fn exchanged(regs: u64) -> u32 {
    const RENAMEAT2: i32 = 316;
    let flags = read::argument(regs, 4).word();
    if read::number(regs) == RENAMEAT2 && flags & RENAME_EXCHANGE != 0 {
        effect::EXCHANGED | effect::MOVED_BACK
    } else {
        0
    }
}

/// True when a call makes a device.
#[inline(always)]
pub fn makes_device(regs: u64) -> bool {
    const MKNOD: i32 = 133;
    const MKNODAT: i32 = 259;
    let mode = match read::number(regs) {
        MKNOD => read::argument(regs, 1).word(),
        MKNODAT => read::argument(regs, 2).word(),
        _ => 0,
    };
    // S_IFMT, S_IFCHR, S_IFBLK of linux/stat.h.
    matches!(mode & 0o170_000, 0o020_000 | 0o060_000)
}

/// True when a call on attributes sets or takes away an access control list, which is another way to change the mode.
#[inline(always)]
fn changes_access(call: u8, regs: u64) -> bool {
    let name = match call {
        class::XATTRAT => read::argument(regs, 3),
        class::XATTR | class::FXATTR => read::argument(regs, 1),
        _ => return false,
    };
    let (begin, is_known) = read::user::<[u8; 16]>(name.long());
    // A name on a page that is not there yet may be any.
    !is_known || begin == *b"system.posix_acl"
}

/// The second, third and fifth argument, when one of them is a mode, an owner, what a look asks for or whether a link follows, or the filter may have answered because of one.
/// Branch-free, so that the verifier does not fork states.
#[inline(always)]
pub(super) fn told_arguments(regs: u64, result: i64, on: u8) -> [u64; 3] {
    const EPERM: i64 = -1;
    const EINVAL: i64 = -22;
    let differs = |errno: i64| verifier::is_some((result ^ errno) as u64);
    let is_other = verifier::is_some(on ^ on::CHMOD)
        & verifier::is_some(on ^ on::STAT)
        & verifier::is_some(on ^ on::LINK);
    let mask = (differs(EPERM) & differs(EINVAL) & is_other).wrapping_sub(1);
    [
        read::argument(regs, 1).long() & mask,
        read::argument(regs, 2).long() & mask,
        read::argument(regs, 4).long() & mask,
    ]
}

impl Forget for Name {
    #[inline(always)]
    fn forget(self, memory: &mut impl Passage) -> Self {
        Self {
            directory: self.directory.forget(memory),
            path: self.path.forget(memory),
            by_descriptor: self.by_descriptor.forget(memory),
        }
    }
}

/// Made known no more, because the verifier would follow each call to the end by itself.
impl Forget for Arguments {
    #[inline(always)]
    fn forget(self, memory: &mut impl Passage) -> Self {
        Self {
            kind: self.kind.forget(memory),
            on: self.on.forget(memory),
            column: self.column.forget(memory),
            own: self.own.forget(memory),
            effects: self.effects.forget(memory),
            object: self.object.forget(memory),
            new: self.new.forget(memory),
        }
    }
}
