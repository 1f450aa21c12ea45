//! The calls that programs are made of, and what their arguments may be.

/// What may stand in an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A path.
    Path,
    /// A file that is there at first, and that no rule speaks of.
    Plain,
    /// A path of what rules speak of.
    Guarded,
    /// An empty path.
    Empty,
    /// A path to something that is made.
    New,
    /// A descriptor that paths begin at.
    Dir,
    /// A descriptor of a file.
    Fd,
    /// A descriptor of a socket.
    Socket,
    /// Flags of open(2).
    Flags,
    /// `struct open_how`.
    How,
    /// A mode.
    Mode,
    /// `mknod(2)`'s mode.
    Node,
    /// An address of a socket.
    Address,
    /// The size of the address before.
    Size,
    /// `struct msghdr`, and behind it a second one.
    Message,
    /// Bytes to be sent.
    Data,
    /// Memory for a result.
    Buffer,
    /// An address that memory may lie at.
    Memory,
    /// Protection of memory.
    Protection,
    /// Flags of mmap(2).
    Mapping,
    /// The name of an attribute.
    Attribute,
    /// `struct clone_args`.
    Cloned,
    /// One of these numbers.
    Of(&'static [u64]),
    /// Any number.
    Any,
    /// The result is a descriptor of a file.
    GivesFd,
    /// The result is a descriptor of a socket.
    GivesSocket,
}

use Slot::{
    Address, Any, Attribute, Buffer, Cloned, Data, Dir, Empty, Fd, Flags, GivesFd, GivesSocket,
    Guarded, How, Mapping, Memory, Message, Mode, New, Node, Of, Path, Plain, Protection, Size,
    Socket,
};

/// A call, and its arguments.
pub type Rule = (&'static str, &'static [Slot]);

const ZERO: Slot = Of(&[0]);
const IDS: Slot = Of(&[0, 1000, 0xffff_ffff]);
const HERE: Slot = Of(&[0xffff_ff9c]);
const FOLLOWS: Slot = Of(&[0, 0, 0, 0x100, 0x400, 0x1000, 0x8000_0000]);
const SIZE: Slot = Of(&[0, 1, 28, 28, 4096, 65536]);

/// Groups of calls: a program takes most of its calls from some of them.
pub const GROUPS: &[&[Rule]] = &[
    &[
        ("open", &[Path, Flags, Mode, GivesFd]),
        ("openat", &[Dir, Path, Flags, Mode, GivesFd]),
        ("openat", &[Dir, Path, Flags, Mode, GivesFd]),
        (
            "openat2",
            &[Dir, Path, How, Of(&[24, 24, 24, 16, 32]), GivesFd],
        ),
        ("creat", &[New, Mode, GivesFd]),
        ("close", &[Fd]),
        ("dup2", &[Fd, Of(&[3, 4, 5, 6, 7, 8])]),
        ("memfd_create", &[Path, Of(&[0, 1, 2]), GivesFd]),
        ("fcntl", &[Fd, Of(&[0, 1, 3]), ZERO, GivesFd]),
        ("open_by_handle_at", &[Dir, Buffer, ZERO]),
    ],
    &[
        ("link", &[Path, New]),
        ("link", &[Plain, New]),
        ("unlink", &[Plain]),
        ("linkat", &[Dir, Path, Dir, New, FOLLOWS]),
        ("linkat", &[HERE, Path, HERE, New, Of(&[0x400])]),
        ("linkat", &[HERE, Path, HERE, New, Of(&[0x400])]),
        ("rename", &[Path, New]),
        ("rename", &[Guarded, New]),
        ("link", &[Guarded, New]),
        ("renameat2", &[HERE, Guarded, HERE, Path, Of(&[2, 0])]),
        ("renameat", &[Dir, Path, Dir, New, Any]),
        ("renameat2", &[Dir, Path, Dir, New, Of(&[0, 1, 2, 4, 3])]),
        ("unlink", &[New]),
        ("rmdir", &[New]),
        ("unlinkat", &[Dir, New, Of(&[0, 0x200, 0x400])]),
        ("mkdir", &[New, Mode]),
    ],
    &[
        ("chmod", &[Path, Mode]),
        ("fchmod", &[Fd, Mode]),
        ("fchmodat", &[Dir, Path, Mode]),
        ("fchmodat2", &[Dir, Path, Mode, FOLLOWS]),
        ("chown", &[Path, IDS, IDS]),
        ("lchown", &[Path, IDS, IDS]),
        ("fchown", &[Fd, IDS, IDS]),
        ("fchownat", &[Dir, Path, IDS, IDS, FOLLOWS]),
        ("setxattr", &[Path, Attribute, Data, SIZE, ZERO]),
        ("lsetxattr", &[Path, Attribute, Data, SIZE, ZERO]),
        ("fsetxattr", &[Fd, Attribute, Data, SIZE, ZERO]),
        ("removexattr", &[Path, Attribute]),
        ("utime", &[Path, ZERO]),
        ("utimes", &[Path, ZERO]),
        ("futimesat", &[Dir, Path, ZERO]),
        ("utimensat", &[Dir, Path, ZERO, Of(&[0, 0, 0x100])]),
        ("utimensat", &[Fd, ZERO, ZERO, ZERO]),
        ("fremovexattr", &[Fd, Attribute]),
        ("lremovexattr", &[Path, Attribute]),
    ],
    &[
        ("symlink", &[Path, New]),
        ("symlink", &[Guarded, New]),
        ("symlinkat", &[Path, Dir, New]),
        ("mkdir", &[New, Mode]),
        ("mkdirat", &[Dir, New, Mode]),
        ("mknod", &[New, Node, Any]),
        ("mknodat", &[Dir, New, Node, Any]),
        ("truncate", &[Path, SIZE]),
        ("unlink", &[New]),
    ],
    &[
        ("stat", &[Path, Buffer]),
        ("lstat", &[Path, Buffer]),
        ("access", &[Path, Of(&[0, 1, 2, 4])]),
        ("readlink", &[Path, Buffer, SIZE]),
        ("statfs", &[Path, Buffer]),
        ("getxattr", &[Path, Attribute, Buffer, SIZE]),
        ("lgetxattr", &[Path, Attribute, Buffer, SIZE]),
        ("listxattr", &[Path, Buffer, SIZE]),
        ("llistxattr", &[Path, Buffer, SIZE]),
        ("newfstatat", &[Dir, Path, Buffer, FOLLOWS]),
        ("readlinkat", &[Dir, Path, Buffer, SIZE]),
        ("faccessat", &[Dir, Path, Of(&[0, 1, 2, 4])]),
        ("faccessat2", &[Dir, Path, Of(&[0, 1, 2, 4]), FOLLOWS]),
        ("statx", &[Dir, Path, FOLLOWS, Of(&[0x7ff]), Buffer]),
        ("inotify_init1", &[ZERO, GivesFd]),
        ("inotify_add_watch", &[Fd, Path, Of(&[2, 0xfff])]),
    ],
    &[
        ("mmap", &[ZERO, SIZE, Protection, Mapping, Fd, ZERO]),
        ("mmap", &[Memory, SIZE, Protection, Mapping, Fd, ZERO]),
        ("mmap", &[ZERO, SIZE, Of(&[5]), Of(&[1, 1, 2]), Fd, ZERO]),
        ("open", &[Plain, Of(&[0o4002]), Mode, GivesFd]),
        ("mprotect", &[Memory, SIZE, Protection]),
        ("mprotect", &[Memory, Of(&[0x20_0000, 4096]), Protection]),
        (
            "pkey_mprotect",
            &[Memory, SIZE, Protection, Of(&[0, 0xffff_ffff])],
        ),
        ("shmget", &[ZERO, SIZE, Of(&[0o1777]), GivesFd]),
        ("shmat", &[Fd, ZERO, Of(&[0, 0o100_000, 0o10_000])]),
        ("memfd_create", &[Path, Of(&[0, 1]), GivesFd]),
        ("ftruncate", &[Fd, SIZE]),
        ("openat", &[Dir, Path, Flags, Mode, GivesFd]),
    ],
    &[
        (
            "socket",
            &[
                Of(&[1, 2, 10, 16, 17, 40]),
                Of(&[1, 2, 3, 5, 0x801]),
                Of(&[0, 6, 17, 1, 255]),
                GivesSocket,
            ],
        ),
        (
            "socket",
            &[
                Of(&[1, 2, 10]),
                Of(&[1, 2, 0x801, 0x802]),
                ZERO,
                GivesSocket,
            ],
        ),
        ("socketpair", &[Of(&[1, 2]), Of(&[1, 2, 5]), ZERO, Buffer]),
        ("connect", &[Socket, Address, Size]),
        ("bind", &[Socket, Address, Size]),
        ("listen", &[Socket, Any]),
        (
            "sendto",
            &[
                Socket,
                Data,
                Of(&[0, 1, 12, 29]),
                Of(&[0x40, 0x4040]),
                Address,
                Size,
            ],
        ),
        ("sendmsg", &[Socket, Message, Of(&[0x40, 0x4040])]),
        (
            "sendmmsg",
            &[Socket, Message, Of(&[1, 2, 0]), Of(&[0x40, 0x4040])],
        ),
        ("close", &[Socket]),
    ],
    &[
        ("ptrace", &[Any, Any, Any, Any]),
        ("mount", &[Path, Path, Path, Any, ZERO]),
        ("umount2", &[Path, Any]),
        ("bpf", &[Any, Buffer, Any]),
        ("unshare", &[Of(&[0, 0x2_0000, 0x1000_0000, 0x400])]),
        ("setns", &[Fd, Any]),
        ("keyctl", &[Any, Any]),
        ("io_uring_setup", &[Any, Buffer]),
        ("chroot", &[Path]),
        ("setuid", &[IDS]),
        ("setresuid", &[IDS, IDS, IDS]),
        ("setgroups", &[Of(&[0, 1]), Buffer]),
        ("kill", &[Of(&[0xffff_ffff, 1, 99, 0]), Of(&[0, 10])]),
        ("pidfd_send_signal", &[Fd, Of(&[0, 10]), ZERO, ZERO]),
        ("tgkill", &[Of(&[1, 2]), Of(&[1, 2]), Of(&[0, 10])]),
        (
            "ioctl",
            &[Fd, Of(&[0x5412, 0x541c, 0x5401, 0x8927]), Buffer],
        ),
        (
            "prctl",
            &[Of(&[35, 22, 38, 4, 16]), Of(&[0, 1, 2]), ZERO, ZERO, ZERO],
        ),
        ("personality", &[Of(&[0xffff_ffff, 0x40_000, 0x20000])]),
        ("prlimit64", &[Of(&[0, 1, 99]), Of(&[7]), ZERO, Buffer]),
        ("setpriority", &[Of(&[0, 2]), Of(&[0, 1]), Of(&[19])]),
        ("clone3", &[Cloned, Of(&[88])]),
        ("600", &[Any, Any]),
        ("498", &[Any]),
        ("511", &[Any]),
        ("512", &[Any]),
        ("sync", &[]),
        ("name_to_handle_at", &[Dir, Path, Buffer, Buffer, ZERO]),
        ("getpid", &[]),
        ("sched_yield", &[]),
    ],
    &[
        ("execve", &[Path, ZERO, ZERO]),
        ("execveat", &[Dir, Path, ZERO, ZERO, FOLLOWS]),
        ("execveat", &[Fd, Empty, ZERO, ZERO, Of(&[0x1000])]),
        ("getpid", &[]),
        ("openat", &[Dir, Path, Flags, Mode, GivesFd]),
    ],
];

/// Paths to what is there, or is not.
pub const PATHS: &[&str] = &[
    "/workspace/a",
    "a",
    "./a",
    "d/x",
    "d/../a",
    "/workspace/d/./x",
    "/workspace//b",
    "l",
    "dl/x",
    "dl",
    "loop",
    "none",
    "nothing",
    "q0",
    "q1",
    "ql",
    "d/q",
    "s0",
    "s1",
    "d/../s0",
    "/workspace/s2/../s1",
    "k0",
    "kl",
    "tl",
    "./tl",
    "kd/k",
    "vault/v",
    "vault",
    "d/y",
    "moved/v",
    "moved",
    "h",
    "b",
    "ra",
    "rb",
    "e/x",
    "d",
    "e",
    "/etc/passwd",
    "/etc/shadow",
    "/proc/self/status",
    "/proc/self/exe",
    "/proc/self/fd/0",
    "/proc/self/cwd/a",
    "/proc/thread-self/root/workspace/b",
    "/proc/self/root/workspace/k0",
    "/proc/thread-self/root/workspace/kd/k",
    "/dev/null",
    "/usr",
    "/nonexistent",
    "/root/x",
    "",
    ".",
    "/",
    "..",
    "a/x",
    "a/",
    "/tmp/t0",
    "/tmp",
    "fifo",
    "sock0",
    "script",
    "interp",
    "new0",
    "new1",
    "newd/x",
    "../etc/hostname",
    "/workspace/../workspace/q0",
];

/// Files that are there at first, or that others make.
pub const PLAIN: &[&str] = &[
    "a", "b", "h", "ra", "rb", "d/x", "e/x", "new0", "new1", "new2",
];

/// Paths that rules speak of, of directories with such in them, and symlinks to these.
pub const GUARDED: &[&str] = &[
    "vault",
    "vault/v",
    "/workspace/vault",
    "d/y",
    "d",
    "k0",
    "kd",
    "kd/k",
    "tl",
    "q0",
    "dl",
    "e/../vault",
];

/// Paths of what is made, moved and removed.
pub const NEW: &[&str] = &[
    "new0",
    "new1",
    "new2",
    "/workspace/new0",
    "newd",
    "newd/x",
    "q1",
    "q2",
    "s1",
    "k1",
    "kd/n",
    "e/moved",
    "vault/n",
    "vault",
    "moved",
    "moved/v",
    "d/y",
    "d/n",
    "e/n",
    "fifo",
    "/tmp/t0",
    "/tmp/t1",
    "/tmp/d",
    "l2",
    "a",
    "b",
    "d",
    "e",
    "/usr/x",
    "/etc/x",
    "dl/n",
    "/dev/shm/x",
    "",
    "/",
    "/proc/x",
    "nothing/x",
    "h",
];

/// Two names of one file that is raced for.
pub const RACING: &[(&str, u8, u8)] = &[
    ("/workspace/r?", b'a', b'b'),
    ("r?", b'a', b'b'),
    ("/workspace/?0", b'q', b'n'),
    ("?0", b'k', b's'),
    ("/workspace/d/?", b'x', b'q'),
];

/// As open(2) takes them: none waits for somebody at the other end of a pipe.
pub const FLAGS: &[u64] = &[
    0o4000,
    0o4000,
    0o4001,
    0o4002,
    0o4101,
    0o5101,
    0o4301,
    0o20_4000,
    0o1000_4000,
    0o1000_4000,
    0o2020_4002,
    0o40_4000,
    0o200_4000,
    0o4003,
    0o5000,
    0o4100,
    0o7001,
    0o2002_4100,
];

/// Modes, with and without the bits that let who runs a file be another user.
pub const MODES: &[u64] = &[
    0o644, 0o600, 0, 0o755, 0o777, 0o4755, 0o2755, 0o1777, 0o7777,
];
/// Of mknod(2): a file, a pipe, a socket, devices, and what is none.
pub const NODES: &[u64] = &[
    0o100_644, 0o010_644, 0o140_644, 0o020_644, 0o060_644, 0o644, 0o040_755,
];
/// Of mmap(2) and mprotect(2).
pub const PROTECTIONS: &[u64] = &[5, 7, 4, 5, 1, 3, 0];
/// Of mmap(2).
pub const MAPPINGS: &[u64] = &[0x22, 0x22, 0x02, 0x02, 0x01, 0x21, 0x03, 0x20, 0x12_0022];
/// Names of attributes.
pub const ATTRIBUTES: &[&str] = &[
    "system.posix_acl_access",
    "system.posix_acl_default",
    "user.x",
    "security.capability",
    "",
    "trusted.x",
];

/// Flags of clone(2), and whether who is made shares memory without being a thread.
pub const CLONES: &[u64] = &[
    0x5_0f00,
    0x5_0f00,
    0x1_0900,
    0x1_0b00,
    0x1_0d00,
    17,
    17,
    0x4111,
    0x111,
    0x411,
    0x611,
    0x2_0011,
    0x1000_0011,
    0x1_0000,
];
