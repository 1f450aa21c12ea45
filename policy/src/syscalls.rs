//! The one table of syscalls: which exist, which a profile can allow, and under which group.
//!
//! The jailer's filter answers `EPERM` to a syscall that exists and is not allowed, and
//! `ENOSYS` to one it has never heard of and to those of [`ABSENT`], so that programs fall back
//! the way they do on an older kernel.
//!
//! What is in no group cannot be allowed by any profile: it would let a program leave the jail,
//! look into other processes, blind the monitor, or reach corners of the kernel that the
//! programs we run have no use for.

mod table;

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A named set of syscalls that profiles allow together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// With the leading `@`.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Names as in the kernel's table.
    pub syscalls: &'static [&'static str],
}

/// Syscalls that exist and that the jail answers with `ENOSYS` all the same: programs probe
/// for them and fall back, while `EPERM` would stop them. None can be allowed.
///
/// clone3(2) hides its flags from the filter behind a pointer; `io_uring` does file and network
/// operations that pass neither the filter nor the monitor.
pub const ABSENT: &[&str] = &[
    "clone3",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
];

/// What the jail's own init needs. It runs under the same filter as the program.
pub const ESSENTIAL: &[&str] = &[
    "clone",
    "close",
    "execve",
    "exit",
    "exit_group",
    "kill",
    "poll",
    "ppoll",
    "read",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "wait4",
    "waitid",
    "write",
];

/// Every group.
pub const GROUPS: &[Group] = &[
    Group {
        name: "@basic",
        about: "what every program does: run, read, write, wait, end",
        syscalls: &[
            "arch_prctl",
            "brk",
            "clone",
            "close",
            "close_range",
            "dup",
            "dup2",
            "dup3",
            "epoll_create",
            "epoll_create1",
            "epoll_ctl",
            "epoll_pwait",
            "epoll_pwait2",
            "epoll_wait",
            "eventfd",
            "eventfd2",
            "execve",
            "exit",
            "exit_group",
            "fcntl",
            "futex",
            "getcpu",
            "getegid",
            "geteuid",
            "getgid",
            "getgroups",
            "getpgid",
            "getpgrp",
            "getpid",
            "getppid",
            "getrandom",
            "getresgid",
            "getresuid",
            "getrlimit",
            "getrusage",
            "getsid",
            "gettid",
            "getuid",
            "ioctl",
            "kill",
            "lseek",
            "mmap",
            "mprotect",
            "mremap",
            "munmap",
            "pipe",
            "pipe2",
            "poll",
            "ppoll",
            "prctl",
            "pread64",
            "preadv",
            "preadv2",
            "prlimit64",
            "pselect6",
            "pwrite64",
            "pwritev",
            "pwritev2",
            "read",
            "readv",
            "restart_syscall",
            "rseq",
            "rt_sigaction",
            "rt_sigprocmask",
            "rt_sigreturn",
            "sched_yield",
            "select",
            "set_robust_list",
            "set_tid_address",
            "setrlimit",
            "sigaltstack",
            "sysinfo",
            "umask",
            "uname",
            // Only the kernel's own trampolines call these two, in programs that an
            // administrator traces from outside.
            "uprobe",
            "uretprobe",
            "wait4",
            "waitid",
            "write",
            "writev",
        ],
    },
    Group {
        name: "@file",
        about: "open, inspect, change and watch files, as far as the jail's tree holds any",
        syscalls: &[
            "access",
            "cachestat",
            "chdir",
            "chmod",
            "chown",
            "copy_file_range",
            "creat",
            "faccessat",
            "faccessat2",
            "fadvise64",
            "fallocate",
            "fchdir",
            "fchmod",
            "fchmodat",
            "fchmodat2",
            "fchown",
            "fchownat",
            "fdatasync",
            "fgetxattr",
            "file_getattr",
            "file_setattr",
            "flistxattr",
            "flock",
            "fremovexattr",
            "fsetxattr",
            "fstat",
            "fstatfs",
            "fsync",
            "ftruncate",
            "futimesat",
            "getcwd",
            "getdents",
            "getdents64",
            "getxattr",
            "getxattrat",
            "inotify_add_watch",
            "inotify_init",
            "inotify_init1",
            "inotify_rm_watch",
            "lchown",
            "lgetxattr",
            "link",
            "linkat",
            "listxattr",
            "listxattrat",
            "llistxattr",
            "lremovexattr",
            "lsetxattr",
            "lstat",
            "mkdir",
            "mkdirat",
            // FIFOs and sockets; the kernel refuses devices, as there is no capability.
            "mknod",
            "mknodat",
            "newfstatat",
            "open",
            "openat",
            "openat2",
            "readahead",
            "readlink",
            "readlinkat",
            "removexattr",
            "removexattrat",
            "rename",
            "renameat",
            "renameat2",
            "rmdir",
            "sendfile",
            "setxattr",
            "setxattrat",
            "splice",
            "stat",
            "statfs",
            "statx",
            "symlink",
            "symlinkat",
            "sync_file_range",
            "tee",
            "truncate",
            "unlink",
            "unlinkat",
            "utime",
            "utimensat",
            "utimes",
        ],
    },
    Group {
        name: "@process",
        about: "start, schedule and wait for other programs",
        syscalls: &[
            "capget",
            // The identity calls below pass the filter and fail in the kernel, as there is no
            // capability; programs then behave as they do for any ordinary user.
            "capset",
            "execveat",
            "fork",
            "getpriority",
            "ioprio_get",
            "ioprio_set",
            // The jailer lets through only the values that leave address randomisation alone.
            "personality",
            "pidfd_open",
            "pidfd_send_signal",
            "sched_get_priority_max",
            "sched_get_priority_min",
            "sched_getaffinity",
            "sched_getattr",
            "sched_getparam",
            "sched_getscheduler",
            "sched_rr_get_interval",
            "sched_setaffinity",
            "sched_setattr",
            "sched_setparam",
            "sched_setscheduler",
            "setfsgid",
            "setfsuid",
            "setgid",
            "setgroups",
            "setpgid",
            "setpriority",
            "setregid",
            "setresgid",
            "setresuid",
            "setreuid",
            "setsid",
            "setuid",
            "vfork",
        ],
    },
    Group {
        name: "@thread",
        about: "locks and barriers between threads, beyond futex(2)",
        syscalls: &[
            "futex_requeue",
            "futex_wait",
            "futex_waitv",
            "futex_wake",
            "get_robust_list",
            "membarrier",
        ],
    },
    Group {
        name: "@memory",
        about: "advise, lock, protect and share memory",
        syscalls: &[
            "get_mempolicy",
            "madvise",
            "map_shadow_stack",
            // Running what it holds is what rules on exec of `memfd:**` are for.
            "memfd_create",
            "mincore",
            "mlock",
            "mlock2",
            "mlockall",
            "mseal",
            "msync",
            "munlock",
            "munlockall",
            "pkey_alloc",
            "pkey_free",
            "pkey_mprotect",
        ],
    },
    Group {
        name: "@time",
        about: "read clocks, sleep, set timers",
        syscalls: &[
            "alarm",
            "clock_getres",
            "clock_gettime",
            "clock_nanosleep",
            "getitimer",
            "gettimeofday",
            "nanosleep",
            "setitimer",
            "time",
            "timer_create",
            "timer_delete",
            "timer_getoverrun",
            "timer_gettime",
            "timer_settime",
            "timerfd_create",
            "timerfd_gettime",
            "timerfd_settime",
            "times",
        ],
    },
    Group {
        name: "@signal",
        about: "send and wait for signals within the jail",
        syscalls: &[
            "pause",
            "rt_sigpending",
            "rt_sigqueueinfo",
            "rt_sigsuspend",
            "rt_sigtimedwait",
            "rt_tgsigqueueinfo",
            "signalfd",
            "signalfd4",
            "tgkill",
            "tkill",
        ],
    },
    Group {
        name: "@network-local",
        about: "sockets; the network namespace decides what they reach",
        syscalls: &[
            "accept",
            "accept4",
            "bind",
            "connect",
            "getpeername",
            "getsockname",
            "getsockopt",
            "listen",
            "recvfrom",
            "recvmmsg",
            "recvmsg",
            "sendmmsg",
            "sendmsg",
            "sendto",
            "setsockopt",
            "shutdown",
            "socket",
            "socketpair",
        ],
    },
    Group {
        name: "@ipc",
        about: "System V and POSIX queues, semaphores and shared memory of the jail's own",
        syscalls: &[
            "mq_getsetattr",
            "mq_notify",
            "mq_open",
            "mq_timedreceive",
            "mq_timedsend",
            "mq_unlink",
            "msgctl",
            "msgget",
            "msgrcv",
            "msgsnd",
            "semctl",
            "semget",
            "semop",
            "semtimedop",
            "shmat",
            "shmctl",
            "shmdt",
            "shmget",
        ],
    },
];

/// Which group holds a syscall, and its name with the table's own lifetime.
static GROUPED: LazyLock<BTreeMap<&'static str, &'static Group>> = LazyLock::new(|| {
    let pairs = GROUPS
        .iter()
        .flat_map(|group| group.syscalls.iter().map(move |name| (*name, group)));
    pairs.collect()
});

static NUMBERS: LazyLock<BTreeMap<&'static str, u32>> =
    LazyLock::new(|| table::TABLE.iter().copied().collect());

/// Every syscall of x86_64, by number.
pub fn known() -> impl Iterator<Item = &'static str> {
    table::TABLE.iter().map(|(name, _)| *name)
}

/// A syscall's number on x86_64. A library that builds filters may be older than the kernel and
/// know the number only.
#[must_use]
pub fn number(name: &str) -> Option<u32> {
    NUMBERS.get(name).copied()
}

/// The name of a syscall of x86_64.
#[must_use]
pub fn name(number: u32) -> Option<&'static str> {
    let found = table::TABLE.binary_search_by_key(&number, |(_, number)| *number);
    found.ok().map(|index| table::TABLE[index].0)
}

/// The group of this name, which begins with `@`.
#[must_use]
pub fn group(name: &str) -> Option<&'static Group> {
    GROUPS.iter().find(|group| group.name == name)
}

/// The syscall with this name as a profile may allow it: `None` when no group holds it.
#[must_use]
pub fn allowable(name: &str) -> Option<&'static str> {
    GROUPED.get_key_value(name).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_table_is_ordered_and_names_are_unique() {
        assert!(table::TABLE.windows(2).all(|pair| pair[0].1 < pair[1].1));
        let names: BTreeSet<_> = known().collect();
        assert_eq!(names.len(), table::TABLE.len());
    }

    #[test]
    fn numbers_are_those_of_the_kernel() {
        // From the manual pages and headers, one of each range of the table.
        assert_eq!(number("read"), Some(0));
        assert_eq!(number("execve"), Some(59));
        assert_eq!(number("openat"), Some(257));
        assert_eq!(number("rseq"), Some(334));
        assert_eq!(number("clone3"), Some(435));
        assert_eq!(number("mseal"), Some(462));
        assert_eq!(number("openat3"), None);
        assert_eq!(name(59), Some("execve"));
        assert_eq!(name(400), None);
    }

    #[test]
    fn every_grouped_syscall_is_known_and_in_one_group() {
        let mut seen = BTreeSet::new();
        for group in GROUPS {
            assert!(group.name.starts_with('@'), "{}", group.name);
            assert!(group.syscalls.is_sorted(), "{} is not sorted", group.name);
            for syscall in group.syscalls {
                assert!(number(syscall).is_some(), "{syscall} is unknown");
                assert!(seen.insert(*syscall), "{syscall} stands twice");
            }
        }
    }

    #[test]
    fn the_jails_init_finds_what_it_needs_in_basic() {
        let basic = group("@basic").expect("the group exists");
        for syscall in ESSENTIAL {
            assert!(basic.syscalls.contains(syscall), "{syscall}");
        }
    }

    #[test]
    fn no_group_holds_a_way_out() {
        let ways_out = [
            "acct",
            "add_key",
            "adjtimex",
            "bpf",
            "chroot",
            "clock_adjtime",
            "clock_settime",
            "delete_module",
            "fanotify_init",
            "finit_module",
            "fsconfig",
            "fsmount",
            "fsopen",
            "fspick",
            "init_module",
            "ioperm",
            "iopl",
            "kcmp",
            "kexec_file_load",
            "kexec_load",
            "keyctl",
            "lookup_dcookie",
            "migrate_pages",
            "modify_ldt",
            "mount",
            "mount_setattr",
            "move_mount",
            "move_pages",
            "name_to_handle_at",
            "nfsservctl",
            "open_by_handle_at",
            "open_tree",
            "open_tree_attr",
            "perf_event_open",
            "pidfd_getfd",
            "pivot_root",
            "process_madvise",
            "process_mrelease",
            "process_vm_readv",
            "process_vm_writev",
            "ptrace",
            "quotactl",
            "quotactl_fd",
            "reboot",
            "request_key",
            "seccomp",
            "setdomainname",
            "sethostname",
            "setns",
            "settimeofday",
            "swapoff",
            "swapon",
            "sync",
            "syncfs",
            "syslog",
            "umount2",
            "unshare",
            "userfaultfd",
            "vhangup",
            "vmsplice",
        ];
        for syscall in ways_out.iter().chain(ABSENT) {
            assert!(number(syscall).is_some(), "{syscall} is unknown");
            assert_eq!(allowable(syscall), None, "{syscall}");
        }
    }
}
