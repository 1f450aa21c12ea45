//! The syscalls that do what events tell of.

use turnkey_facts::NetworkAct;
use turnkey_policy::AttemptKind;

/// The syscalls behind an act.
pub(super) fn calls(act: NetworkAct) -> &'static [&'static str] {
    match act {
        NetworkAct::Connect => &["connect"],
        NetworkAct::Bind => &["bind"],
        NetworkAct::Listen => &["listen"],
        NetworkAct::Send => &["sendto", "sendmsg", "sendmmsg"],
    }
}

/// The syscalls that change names or attributes of files, make or empty them by name, or ask about them.
pub(super) fn calls_that_change(on: AttemptKind) -> &'static [&'static str] {
    match on {
        AttemptKind::Link => &["link", "linkat"],
        AttemptKind::Rename => &["rename", "renameat", "renameat2"],
        AttemptKind::Unlink => &["unlink", "unlinkat", "rmdir"],
        AttemptKind::Open => &[
            "symlink",
            "symlinkat",
            "mknod",
            "mknodat",
            "mkdir",
            "mkdirat",
            "truncate",
        ],
        AttemptKind::Stat => &[
            "access",
            "faccessat",
            "faccessat2",
            "file_getattr",
            "getxattr",
            "getxattrat",
            "inotify_add_watch",
            "lgetxattr",
            "listxattr",
            "listxattrat",
            "llistxattr",
            "lstat",
            "newfstatat",
            "readlink",
            "readlinkat",
            "stat",
            "statfs",
            "statx",
        ],
        AttemptKind::Attribute => &[
            "file_setattr",
            "fremovexattr",
            "fsetxattr",
            "futimesat",
            "lremovexattr",
            "lsetxattr",
            "removexattr",
            "removexattrat",
            "setxattr",
            "setxattrat",
            "utime",
            "utimensat",
            "utimes",
        ],
        _ => &[
            "chmod",
            "chown",
            "lchown",
            "fchmod",
            "fchown",
            "fchmodat",
            "fchmodat2",
            "fchownat",
        ],
    }
}
