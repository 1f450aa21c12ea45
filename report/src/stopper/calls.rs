//! Which syscalls do what events tell of.

use turnkey_facts::NetworkAct;
use turnkey_policy::On;

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
pub(super) fn calls_that_change(on: On) -> &'static [&'static str] {
    match on {
        On::Link => &["link", "linkat"],
        On::Rename => &["rename", "renameat", "renameat2"],
        On::Unlink => &["unlink", "unlinkat", "rmdir"],
        On::Open => &[
            "symlink",
            "symlinkat",
            "mknod",
            "mknodat",
            "mkdir",
            "mkdirat",
            "truncate",
        ],
        On::Stat => &[
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
        On::Attribute => &[
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
