//! The columns of a row of answers, by the kinds of attempt that they answer to.

use turnkey_abi::column;
use turnkey_abi::syscalls::on;
use turnkey_policy::AttemptKind;

/// The kinds of the columns behind [`column::BOTH`], but for [`column::AWAY`].
pub(super) const REST: [AttemptKind; 16] = [
    AttemptKind::Exec,
    AttemptKind::Link,
    AttemptKind::Rename,
    AttemptKind::Unlink,
    AttemptKind::Chmod,
    AttemptKind::Map,
    AttemptKind::Stat,
    AttemptKind::Attribute,
    AttemptKind::Mkdir,
    AttemptKind::Rmdir,
    AttemptKind::Symlink,
    AttemptKind::Mknod,
    AttemptKind::Truncate,
    AttemptKind::Chown,
    AttemptKind::Utimens,
    AttemptKind::Xattr,
];

/// The column of an answer: one stands between, which is no kind's.
pub(super) const fn column_of(answer: u32) -> u32 {
    answer + (answer >= column::AWAY) as u32
}

/// The columns whose strongest answer is that of [`column::FOLLOWED`].
pub(super) const FOLLOWED: [u32; 6] = [
    column::CHMOD,
    column::ATTRIBUTE,
    column::own(on::TRUNCATE),
    column::own(on::CHOWN),
    column::own(on::UTIMENS),
    column::own(on::XATTR),
];
