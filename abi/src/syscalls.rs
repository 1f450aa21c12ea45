//! The syscalls that are looked at, by their number in the table of `x86_64`.
//!
//! This is one of the two places that know the CPU architecture; the other is the names of registers in
//! [`crate::Offsets`].

/// Numbers at or above this are in no table: the kernel has none yet, and the filter answers them.
pub const COUNT: usize = 512;

/// Rule kinds, in the order of `turnkey_policy::On`.
pub mod on {
    /// `open`
    pub const OPEN: u8 = 0;
    /// `exec`
    pub const EXEC: u8 = 1;
    /// `connect`
    pub const CONNECT: u8 = 2;
    /// `bind`
    pub const BIND: u8 = 3;
    /// `send`
    pub const SEND: u8 = 4;
    /// `ptrace`
    pub const PTRACE: u8 = 5;
    /// `mount`
    pub const MOUNT: u8 = 6;
    /// `setuid`
    pub const SETUID: u8 = 7;
    /// `namespace`
    pub const NAMESPACE: u8 = 8;
    /// `bpf`
    pub const BPF: u8 = 9;
    /// `module`
    pub const MODULE: u8 = 10;
    /// `keyring`
    pub const KEYRING: u8 = 11;
    /// `io_uring`
    pub const IO_URING: u8 = 12;
    /// `link`
    pub const LINK: u8 = 13;
    /// `rename`
    pub const RENAME: u8 = 14;
    /// `unlink`
    pub const UNLINK: u8 = 15;
    /// `chmod`
    pub const CHMOD: u8 = 16;
    /// `map`
    pub const MAP: u8 = 17;
    /// `stat`
    pub const STAT: u8 = 18;
    /// `attribute`
    pub const ATTRIBUTE: u8 = 19;
    /// `mkdir`. From here to [`XATTR`] are kinds of calls that are of a wider kind as well.
    pub const MKDIR: u8 = 20;
    /// `rmdir`
    pub const RMDIR: u8 = 21;
    /// `symlink`
    pub const SYMLINK: u8 = 22;
    /// `mknod`
    pub const MKNOD: u8 = 23;
    /// `truncate`
    pub const TRUNCATE: u8 = 24;
    /// `chown`
    pub const CHOWN: u8 = 25;
    /// `utimens`
    pub const UTIMENS: u8 = 26;
    /// `xattr`
    pub const XATTR: u8 = 27;
    /// `kill`
    pub const KILL: u8 = 28;
    /// None: no rule speaks of it. The last one, so that rule kinds can be added.
    pub const NONE: u8 = 31;
}

/// Classes of syscalls, by the arguments that are looked at.
pub mod class {
    /// A syscall that is not looked at.
    pub const NONE: u8 = 0;
    /// `open(path, flags, …)`
    pub const OPEN: u8 = 1;
    /// `creat(path, …)`
    pub const CREAT: u8 = 2;
    /// `openat(dirfd, path, flags, …)`
    pub const OPENAT: u8 = 3;
    /// `openat2(dirfd, path, how, size)`
    pub const OPENAT2: u8 = 4;
    /// `execve(path, …)`
    pub const EXECVE: u8 = 5;
    /// `execveat(dirfd, path, argv, envp, flags)`
    pub const EXECVEAT: u8 = 6;
    /// `connect(fd, address, length)`
    pub const CONNECT: u8 = 7;
    /// `bind(fd, address, length)`
    pub const BIND: u8 = 8;
    /// `sendto(fd, data, size, flags, address, length)`
    pub const SENDTO: u8 = 9;
    /// `sendmsg(fd, message, flags)` and `sendmmsg(fd, messages, …)`, which begin alike
    pub const SENDMSG: u8 = 10;
    /// `socket(family, type, protocol)`, `socketpair(…)`: only refusals
    pub const SOCKET: u8 = 11;
    /// `clone(flags, …)`: only with a namespace flag
    pub const CLONE: u8 = 12;
    /// `clone3(args, size)`: only with a namespace flag
    pub const CLONE3: u8 = 13;
    /// `open_by_handle_at(directory, handle, flags)`: an open without a path; a failed one is told when it is refused
    pub const BY_HANDLE: u8 = 14;
    /// `link(old, new)`
    pub const LINK: u8 = 15;
    /// `linkat(olddir, old, newdir, new, flags)`
    pub const LINKAT: u8 = 16;
    /// `rename(old, new)`
    pub const RENAME: u8 = 17;
    /// `renameat(olddir, old, newdir, new)`, and `renameat2`, which begins alike
    pub const RENAMEAT: u8 = 18;
    /// `unlink(path)` and `rmdir(path)`
    pub const UNLINK: u8 = 19;
    /// `unlinkat(dir, path, flags)`
    pub const UNLINKAT: u8 = 20;
    /// `chmod(path, mode)`, `chown(path, …)`, `lchown(path, …)`
    pub const CHMOD: u8 = 21;
    /// `fchmodat(dir, path, …)`, `fchmodat2`, `fchownat`
    pub const CHMODAT: u8 = 22;
    /// `fchmod(fd, mode)`, `fchown(fd, …)`
    pub const FCHMOD: u8 = 23;
    /// `mmap(address, length, protection, flags, fd, offset)`
    pub const MMAP: u8 = 24;
    /// `mprotect(address, length, protection)` and `pkey_mprotect`, which begins alike
    pub const MPROTECT: u8 = 25;
    /// `shmat(id, address, flags)`
    pub const SHMAT: u8 = 26;
    /// `listen(fd, backlog)`
    pub const LISTEN: u8 = 27;
    /// `stat(path, …)`, `access(path, …)`, `readlink(path, …)` and other looks: calls that ask about a path,
    /// and open nothing
    pub const LOOK: u8 = 28;
    /// `newfstatat(dir, path, …)`, `statx`, `faccessat`, `readlinkat` and other looks from a directory
    pub const LOOKAT: u8 = 29;
    /// `inotify_add_watch(fd, path, mask)`
    pub const WATCHES: u8 = 30;
    /// `kill(pid, signal)` and its relatives: refusals, signals to everybody at once or to nobody, and those to others that a rule is about
    pub const KILL: u8 = 31;
    /// Plus a rule kind of [`super::on`]: the watch-list. With [`super::on::NONE`] only refusals.
    pub const WATCH: u8 = 32;
    /// `truncate(path, length)`, `mknod(path, …)` other than of a device, `mkdir(path, …)`: a file made or
    /// emptied by its name
    pub const MAKE: u8 = 64;
    /// `mknodat(dir, path, …)`, `mkdirat(dir, path, …)`
    pub const MAKEAT: u8 = 65;
    /// `symlink(target, path)`
    pub const SYMLINK: u8 = 66;
    /// `symlinkat(target, dir, path)`
    pub const SYMLINKAT: u8 = 67;
    /// `setxattr(path, name, …)`, `removexattr(path, name)` and those of `l`
    pub const XATTR: u8 = 68;
    /// `fsetxattr(fd, name, …)`, `fremovexattr(fd, name)`
    pub const FXATTR: u8 = 69;
    /// `setxattrat(dir, path, flags, name, …)`, `removexattrat(dir, path, flags, name)`
    pub const XATTRAT: u8 = 70;
    /// `utime(path, times)`, `utimes(path, times)`
    pub const TIMES: u8 = 71;
    /// `ftruncate(fd, length)`
    pub const FTRUNCATE: u8 = 72;
    /// `utimensat(dir, path, times, flags)` and `futimesat(dir, path, times)`, in which no path means the descriptor;
    /// `file_setattr(dir, path, …)`
    pub const TIMESAT: u8 = 73;
    /// In no table: a number at or above [`super::COUNT`], or below 0.
    pub const UNKNOWN: u8 = 255;
}

/// A syscall that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syscall {
    /// The syscall's number.
    pub nr: u16,
    /// The kernel's name for it.
    pub name: &'static str,
    /// One of [`class`].
    pub class: u8,
}

const fn looked_at(nr: u16, name: &'static str, class: u8) -> Syscall {
    Syscall { nr, name, class }
}

const fn watched(nr: u16, name: &'static str, on: u8) -> Syscall {
    Syscall {
        nr,
        name,
        class: class::WATCH + on,
    }
}

/// By number: the kind of a call that has one of its own beside the wider one of its class, and [`on::NONE`]. Of
/// unlinkat(2), `rmdir` is meant by a flag.
pub const OWN: [u8; COUNT] = {
    let mut kinds = [on::NONE; COUNT];
    let mut index = 0;
    while index < SYSCALLS.len() {
        let Syscall { nr, class, .. } = SYSCALLS[index];
        kinds[nr as usize] = own(nr, class);
        index += 1;
    }
    kinds
};

const fn own(nr: u16, class: u8) -> u8 {
    match (class, nr) {
        (_, 83 | 258) => on::MKDIR,
        (_, 84) => on::RMDIR,
        (class::SYMLINK | class::SYMLINKAT, _) => on::SYMLINK,
        (_, 133 | 259) => on::MKNOD,
        (_, 76 | 77) => on::TRUNCATE,
        (_, 92 | 93 | 94 | 260) => on::CHOWN,
        (_, 132 | 235 | 261 | 280) => on::UTIMENS,
        (class::XATTR | class::FXATTR | class::XATTRAT, _) => on::XATTR,
        _ => on::NONE,
    }
}

/// Every syscall that is looked at.
pub const SYSCALLS: &[Syscall] = &[
    looked_at(2, "open", class::OPEN),
    looked_at(85, "creat", class::CREAT),
    looked_at(257, "openat", class::OPENAT),
    looked_at(437, "openat2", class::OPENAT2),
    looked_at(304, "open_by_handle_at", class::BY_HANDLE),
    looked_at(59, "execve", class::EXECVE),
    looked_at(322, "execveat", class::EXECVEAT),
    looked_at(42, "connect", class::CONNECT),
    looked_at(49, "bind", class::BIND),
    looked_at(44, "sendto", class::SENDTO),
    looked_at(46, "sendmsg", class::SENDMSG),
    looked_at(307, "sendmmsg", class::SENDMSG),
    looked_at(50, "listen", class::LISTEN),
    looked_at(41, "socket", class::SOCKET),
    looked_at(53, "socketpair", class::SOCKET),
    looked_at(56, "clone", class::CLONE),
    looked_at(435, "clone3", class::CLONE3),
    looked_at(86, "link", class::LINK),
    looked_at(265, "linkat", class::LINKAT),
    looked_at(82, "rename", class::RENAME),
    looked_at(264, "renameat", class::RENAMEAT),
    looked_at(316, "renameat2", class::RENAMEAT),
    looked_at(87, "unlink", class::UNLINK),
    looked_at(84, "rmdir", class::UNLINK),
    looked_at(263, "unlinkat", class::UNLINKAT),
    looked_at(90, "chmod", class::CHMOD),
    looked_at(92, "chown", class::CHMOD),
    looked_at(94, "lchown", class::CHMOD),
    looked_at(268, "fchmodat", class::CHMODAT),
    looked_at(452, "fchmodat2", class::CHMODAT),
    looked_at(260, "fchownat", class::CHMODAT),
    looked_at(91, "fchmod", class::FCHMOD),
    looked_at(93, "fchown", class::FCHMOD),
    looked_at(76, "truncate", class::MAKE),
    looked_at(77, "ftruncate", class::FTRUNCATE),
    looked_at(83, "mkdir", class::MAKE),
    looked_at(258, "mkdirat", class::MAKEAT),
    looked_at(133, "mknod", class::MAKE),
    looked_at(259, "mknodat", class::MAKEAT),
    looked_at(88, "symlink", class::SYMLINK),
    looked_at(266, "symlinkat", class::SYMLINKAT),
    looked_at(188, "setxattr", class::XATTR),
    looked_at(189, "lsetxattr", class::XATTR),
    looked_at(190, "fsetxattr", class::FXATTR),
    looked_at(197, "removexattr", class::XATTR),
    looked_at(198, "lremovexattr", class::XATTR),
    looked_at(199, "fremovexattr", class::FXATTR),
    looked_at(463, "setxattrat", class::XATTRAT),
    looked_at(466, "removexattrat", class::XATTRAT),
    looked_at(132, "utime", class::TIMES),
    looked_at(235, "utimes", class::TIMES),
    looked_at(261, "futimesat", class::TIMESAT),
    looked_at(280, "utimensat", class::TIMESAT),
    looked_at(469, "file_setattr", class::TIMESAT),
    looked_at(9, "mmap", class::MMAP),
    looked_at(10, "mprotect", class::MPROTECT),
    looked_at(329, "pkey_mprotect", class::MPROTECT),
    looked_at(30, "shmat", class::SHMAT),
    // Ask about a path, and open nothing.
    looked_at(4, "stat", class::LOOK),
    looked_at(6, "lstat", class::LOOK),
    looked_at(21, "access", class::LOOK),
    looked_at(80, "chdir", class::LOOK),
    looked_at(89, "readlink", class::LOOK),
    looked_at(137, "statfs", class::LOOK),
    looked_at(191, "getxattr", class::LOOK),
    looked_at(192, "lgetxattr", class::LOOK),
    looked_at(194, "listxattr", class::LOOK),
    looked_at(195, "llistxattr", class::LOOK),
    looked_at(262, "newfstatat", class::LOOKAT),
    looked_at(267, "readlinkat", class::LOOKAT),
    looked_at(269, "faccessat", class::LOOKAT),
    looked_at(332, "statx", class::LOOKAT),
    looked_at(439, "faccessat2", class::LOOKAT),
    looked_at(464, "getxattrat", class::LOOKAT),
    looked_at(465, "listxattrat", class::LOOKAT),
    looked_at(468, "file_getattr", class::LOOKAT),
    looked_at(254, "inotify_add_watch", class::WATCHES),
    watched(101, "ptrace", on::PTRACE),
    watched(310, "process_vm_readv", on::PTRACE),
    watched(311, "process_vm_writev", on::PTRACE),
    watched(312, "kcmp", on::PTRACE),
    watched(438, "pidfd_getfd", on::PTRACE),
    watched(165, "mount", on::MOUNT),
    watched(166, "umount2", on::MOUNT),
    watched(155, "pivot_root", on::MOUNT),
    watched(161, "chroot", on::MOUNT),
    watched(428, "open_tree", on::MOUNT),
    watched(429, "move_mount", on::MOUNT),
    watched(430, "fsopen", on::MOUNT),
    watched(431, "fsconfig", on::MOUNT),
    watched(432, "fsmount", on::MOUNT),
    watched(433, "fspick", on::MOUNT),
    watched(442, "mount_setattr", on::MOUNT),
    watched(467, "open_tree_attr", on::MOUNT),
    watched(105, "setuid", on::SETUID),
    watched(106, "setgid", on::SETUID),
    watched(113, "setreuid", on::SETUID),
    watched(114, "setregid", on::SETUID),
    watched(116, "setgroups", on::SETUID),
    watched(117, "setresuid", on::SETUID),
    watched(119, "setresgid", on::SETUID),
    watched(122, "setfsuid", on::SETUID),
    watched(123, "setfsgid", on::SETUID),
    watched(126, "capset", on::SETUID),
    watched(272, "unshare", on::NAMESPACE),
    watched(308, "setns", on::NAMESPACE),
    watched(321, "bpf", on::BPF),
    watched(298, "perf_event_open", on::BPF),
    watched(323, "userfaultfd", on::BPF),
    watched(175, "init_module", on::MODULE),
    watched(313, "finit_module", on::MODULE),
    watched(176, "delete_module", on::MODULE),
    watched(246, "kexec_load", on::MODULE),
    watched(320, "kexec_file_load", on::MODULE),
    watched(169, "reboot", on::MODULE),
    watched(248, "add_key", on::KEYRING),
    watched(249, "request_key", on::KEYRING),
    watched(250, "keyctl", on::KEYRING),
    watched(425, "io_uring_setup", on::IO_URING),
    watched(426, "io_uring_enter", on::IO_URING),
    watched(427, "io_uring_register", on::IO_URING),
    // No profile can allow these.
    watched(103, "syslog", on::NONE),
    watched(134, "uselib", on::NONE),
    watched(136, "ustat", on::NONE),
    watched(139, "sysfs", on::NONE),
    watched(153, "vhangup", on::NONE),
    watched(154, "modify_ldt", on::NONE),
    watched(156, "_sysctl", on::NONE),
    watched(159, "adjtimex", on::NONE),
    watched(162, "sync", on::NONE),
    watched(163, "acct", on::NONE),
    watched(164, "settimeofday", on::NONE),
    watched(167, "swapon", on::NONE),
    watched(168, "swapoff", on::NONE),
    watched(170, "sethostname", on::NONE),
    watched(171, "setdomainname", on::NONE),
    watched(172, "iopl", on::NONE),
    watched(173, "ioperm", on::NONE),
    watched(174, "create_module", on::NONE),
    watched(177, "get_kernel_syms", on::NONE),
    watched(178, "query_module", on::NONE),
    watched(179, "quotactl", on::NONE),
    watched(180, "nfsservctl", on::NONE),
    watched(181, "getpmsg", on::NONE),
    watched(182, "putpmsg", on::NONE),
    watched(183, "afs_syscall", on::NONE),
    watched(184, "tuxcall", on::NONE),
    watched(185, "security", on::NONE),
    watched(205, "set_thread_area", on::NONE),
    watched(206, "io_setup", on::NONE),
    watched(207, "io_destroy", on::NONE),
    watched(208, "io_getevents", on::NONE),
    watched(209, "io_submit", on::NONE),
    watched(210, "io_cancel", on::NONE),
    watched(211, "get_thread_area", on::NONE),
    watched(212, "lookup_dcookie", on::NONE),
    watched(214, "epoll_ctl_old", on::NONE),
    watched(215, "epoll_wait_old", on::NONE),
    watched(216, "remap_file_pages", on::NONE),
    watched(227, "clock_settime", on::NONE),
    watched(236, "vserver", on::NONE),
    watched(237, "mbind", on::NONE),
    watched(238, "set_mempolicy", on::NONE),
    watched(239, "get_mempolicy", on::NONE),
    watched(256, "migrate_pages", on::NONE),
    watched(278, "vmsplice", on::NONE),
    watched(279, "move_pages", on::NONE),
    watched(300, "fanotify_init", on::NONE),
    watched(301, "fanotify_mark", on::NONE),
    watched(303, "name_to_handle_at", on::NONE),
    watched(305, "clock_adjtime", on::NONE),
    watched(306, "syncfs", on::NONE),
    watched(317, "seccomp", on::NONE),
    watched(333, "io_pgetevents", on::NONE),
    watched(440, "process_madvise", on::NONE),
    watched(443, "quotactl_fd", on::NONE),
    watched(444, "landlock_create_ruleset", on::NONE),
    watched(445, "landlock_add_rule", on::NONE),
    watched(446, "landlock_restrict_self", on::NONE),
    watched(447, "memfd_secret", on::NONE),
    watched(448, "process_mrelease", on::NONE),
    watched(450, "set_mempolicy_home_node", on::NONE),
    watched(457, "statmount", on::NONE),
    watched(458, "listmount", on::NONE),
    watched(459, "lsm_get_self_attr", on::NONE),
    watched(460, "lsm_set_self_attr", on::NONE),
    watched(461, "lsm_list_modules", on::NONE),
    // The filter refuses some arguments of these.
    watched(16, "ioctl", on::NONE),
    watched(157, "prctl", on::NONE),
    watched(135, "personality", on::NONE),
    looked_at(62, "kill", class::KILL),
    looked_at(200, "tkill", class::KILL),
    looked_at(234, "tgkill", class::KILL),
    looked_at(129, "rt_sigqueueinfo", class::KILL),
    looked_at(297, "rt_tgsigqueueinfo", class::KILL),
    looked_at(424, "pidfd_send_signal", class::KILL),
    watched(302, "prlimit64", on::NONE),
    watched(203, "sched_setaffinity", on::NONE),
    watched(314, "sched_setattr", on::NONE),
    watched(142, "sched_setparam", on::NONE),
    watched(144, "sched_setscheduler", on::NONE),
    watched(141, "setpriority", on::NONE),
    watched(251, "ioprio_set", on::NONE),
    watched(54, "setsockopt", on::NONE),
];

/// The class of every number below [`COUNT`].
pub const CLASSES: [u8; COUNT] = classes();

const fn classes() -> [u8; COUNT] {
    let mut classes = [class::NONE; COUNT];
    let mut index = 0;
    while index < SYSCALLS.len() {
        let syscall = SYSCALLS[index];
        assert!(
            classes[syscall.nr as usize] == class::NONE,
            "two entries for one number"
        );
        classes[syscall.nr as usize] = syscall.class;
        index += 1;
    }
    classes
}
