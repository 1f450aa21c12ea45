//! The mount API of Linux 5.2 and later, each call as thin as the rest.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{Result, Word, as_word, call, fd, owned, word, word_of_bits};
use crate::host::kernel;

const EMPTY_PATH: &CStr = c"";

/// Attributes for [`mount_setattr`], as in mount_setattr(2).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MountAttributes {
    /// `MOUNT_ATTR_*` to set.
    pub set: u64,
    /// `MOUNT_ATTR_*` to clear.
    pub clear: u64,
    /// `MS_PRIVATE` and its relatives, or 0.
    pub propagation: u64,
    /// Descriptor of the user namespace for `MOUNT_ATTR_IDMAP`, or 0.
    pub user_namespace: u64,
}

/// open_tree(2) of what `descriptor` stands for: a detached copy of that mount and, when
/// `recursive`, of all below it.
pub fn clone_tree(descriptor: BorrowedFd<'_>, recursive: bool) -> Result<OwnedFd> {
    let recursive = if recursive { libc::AT_RECURSIVE } else { 0 };
    let flags = Word::from(kernel::OPEN_TREE_CLONE | kernel::OPEN_TREE_CLOEXEC)
        | Word::from(libc::AT_EMPTY_PATH | recursive);
    call(
        libc::SYS_open_tree,
        [fd(descriptor), as_word(EMPTY_PATH), flags, 0, 0, 0],
    )
    .map(owned)
}

/// mount_setattr(2) on the mount that `descriptor` stands for.
pub fn mount_setattr(
    descriptor: BorrowedFd<'_>,
    recursive: bool,
    attributes: &MountAttributes,
) -> Result<()> {
    let flags = Word::from(libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 });
    let size = word(std::mem::size_of::<MountAttributes>());
    let attributes = word(std::ptr::from_ref(attributes) as usize);
    call(
        libc::SYS_mount_setattr,
        [
            fd(descriptor),
            as_word(EMPTY_PATH),
            flags,
            attributes,
            size,
            0,
        ],
    )
    .map(drop)
}

/// move_mount(2): hangs a detached mount over what `target` stands for.
pub fn attach(mount: BorrowedFd<'_>, target: BorrowedFd<'_>) -> Result<()> {
    let flags = Word::from(kernel::MOVE_MOUNT_F_EMPTY_PATH | kernel::MOVE_MOUNT_T_EMPTY_PATH);
    call(
        libc::SYS_move_mount,
        [
            fd(mount),
            as_word(EMPTY_PATH),
            fd(target),
            as_word(EMPTY_PATH),
            flags,
            0,
        ],
    )
    .map(drop)
}

/// fsopen(2), fsconfig(2), fsmount(2): a new, detached mount of `kind` with `options`.
///
/// An option with an empty value is a flag.
pub fn new_mount<S: AsRef<CStr>>(
    kind: &CStr,
    options: &[(S, S)],
    attributes: u64,
) -> Result<OwnedFd> {
    let context = call(
        libc::SYS_fsopen,
        [
            as_word(kind),
            Word::from(kernel::FSOPEN_CLOEXEC),
            0,
            0,
            0,
            0,
        ],
    )
    .map(owned)?;
    for (name, value) in options {
        configure(&context, name.as_ref(), value.as_ref())?;
    }
    let create = Word::from(kernel::FSCONFIG_CMD_CREATE);
    call(
        libc::SYS_fsconfig,
        [fd(context.as_fd()), create, 0, 0, 0, 0],
    )?;
    let cloexec = Word::from(kernel::FSMOUNT_CLOEXEC);
    call(
        libc::SYS_fsmount,
        [
            fd(context.as_fd()),
            cloexec,
            word_of_bits(attributes),
            0,
            0,
            0,
        ],
    )
    .map(owned)
}

fn configure(context: &OwnedFd, name: &CStr, value: &CStr) -> Result<()> {
    let (command, value) = if value.is_empty() {
        (kernel::FSCONFIG_SET_FLAG, 0)
    } else {
        (kernel::FSCONFIG_SET_STRING, as_word(value))
    };
    call(
        libc::SYS_fsconfig,
        [
            fd(context.as_fd()),
            Word::from(command),
            as_word(name),
            value,
            0,
            0,
        ],
    )
    .map(drop)
}
