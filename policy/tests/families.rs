//! J30: calls that do the same thing by another name are allowed together or not at all, so that
//! refusing one of them refuses the act.

use turnkey_policy::{Overrides, SHIPPED, load, syscalls};

/// Calls of the same power.
const FAMILIES: &[&[&str]] = &[
    &["open", "openat", "openat2", "creat"],
    &["stat", "lstat", "newfstatat", "statx"],
    &["access", "faccessat", "faccessat2"],
    &["readlink", "readlinkat"],
    &["getdents", "getdents64"],
    &["link", "linkat"],
    &["symlink", "symlinkat"],
    &["unlink", "unlinkat", "rmdir"],
    &["rename", "renameat", "renameat2"],
    &["mkdir", "mkdirat"],
    &["mknod", "mknodat"],
    &["chmod", "fchmod", "fchmodat", "fchmodat2"],
    &["chown", "lchown", "fchown", "fchownat"],
    &["truncate", "ftruncate", "fallocate"],
    &["utime", "utimes", "futimesat", "utimensat"],
    &["setxattr", "lsetxattr", "fsetxattr", "setxattrat"],
    &["getxattr", "lgetxattr", "fgetxattr", "getxattrat"],
    &["listxattr", "llistxattr", "flistxattr", "listxattrat"],
    &[
        "removexattr",
        "lremovexattr",
        "fremovexattr",
        "removexattrat",
    ],
    &["read", "pread64", "readv", "preadv", "preadv2"],
    &["write", "pwrite64", "writev", "pwritev", "pwritev2"],
    &["sendfile", "splice", "copy_file_range"],
    &["inotify_init", "inotify_init1"],
    &["socket", "socketpair"],
    &["sendto", "sendmsg", "sendmmsg"],
    &["recvfrom", "recvmsg", "recvmmsg"],
    &["accept", "accept4", "listen"],
    &["tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"],
    &["setuid", "setreuid", "setresuid", "setfsuid"],
    &["setgid", "setregid", "setresgid", "setfsgid", "setgroups"],
    &["sched_setscheduler", "sched_setattr", "sched_setparam"],
    &["shmget", "shmat", "shmctl", "shmdt"],
    &[
        "mount",
        "open_tree",
        "open_tree_attr",
        "move_mount",
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
        "mount_setattr",
    ],
    &["umount2", "pivot_root", "chroot"],
    &["unshare", "setns", "clone3"],
    &[
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "process_madvise",
        "pidfd_getfd",
        "kcmp",
    ],
    &["name_to_handle_at", "open_by_handle_at"],
    &[
        "init_module",
        "finit_module",
        "delete_module",
        "kexec_load",
        "kexec_file_load",
    ],
    &["add_key", "request_key", "keyctl"],
    &["io_uring_setup", "io_uring_enter", "io_uring_register"],
    &[
        "io_setup",
        "io_submit",
        "io_getevents",
        "io_pgetevents",
        "io_cancel",
        "io_destroy",
    ],
    &["bpf", "perf_event_open", "userfaultfd"],
    &["settimeofday", "clock_settime", "adjtimex", "clock_adjtime"],
    &["sethostname", "setdomainname"],
    &["iopl", "ioperm", "modify_ldt"],
    &["quotactl", "quotactl_fd"],
    &["sync", "syncfs"],
    &["statmount", "listmount"],
    &["fanotify_init", "fanotify_mark"],
    &[
        "migrate_pages",
        "move_pages",
        "mbind",
        "get_mempolicy",
        "set_mempolicy",
        "set_mempolicy_home_node",
    ],
];

/// Calls of the same power of which the weaker-looking one alone can be refused, and why that is
/// no gap.
const APART: &[(&[&str], &str)] = &[
    (
        &["execve", "execveat"],
        "every jail needs execve to start its program; rules on exec speak of both",
    ),
    (
        &["clone", "fork", "vfork"],
        "every jail needs clone for its own init; the number of processes is a limit's business",
    ),
    (
        &["kill", "tgkill", "pidfd_send_signal"],
        "every jail needs kill for its own init; none of them reaches past the namespace",
    ),
    (
        &["mprotect", "pkey_mprotect"],
        "every program needs mprotect; nothing hangs on which of the two makes memory executable",
    ),
];

#[test]
fn j30_calls_of_the_same_power_are_allowed_together() {
    for (profile, _) in SHIPPED {
        let no_files = |path: &str| Err(format!("{path} was asked for"));
        let policy = load(profile, &no_files, &Overrides::default()).expect("it is shipped");
        let allows = |name: &&&str| policy.syscalls.allow.contains(**name);
        for family in FAMILIES {
            let allowed = family.iter().filter(allows).count();
            assert!(
                allowed == 0 || allowed == family.len(),
                "{profile} allows a part of {family:?}"
            );
        }
    }
}

#[test]
fn j30_calls_of_the_same_power_stand_in_one_group() {
    let group_of = |name: &str| {
        assert!(syscalls::number(name).is_some(), "{name} is unknown");
        let holds = |group: &&syscalls::SyscallGroup| group.syscalls.contains(&name);
        syscalls::GROUPS.iter().find(holds).map(|group| group.name)
    };
    for family in FAMILIES {
        let first = group_of(family[0]);
        assert!(
            family.iter().all(|name| group_of(name) == first),
            "{family:?}"
        );
    }
}

#[test]
fn j30_where_a_family_is_torn_the_stronger_part_is_the_one_that_stays() {
    for (family, why) in APART {
        assert!(!why.is_empty());
        let core = syscalls::group("@core").expect("the group exists");
        assert!(core.syscalls.contains(&family[0]), "{family:?}");
        for name in *family {
            assert!(syscalls::allowable(name).is_some(), "{name}");
        }
    }
}
