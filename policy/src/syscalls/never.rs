//! The calls that no profile can allow, each with the reason.

/// Calls that no profile can allow, for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForbiddenSyscalls {
    /// The reason, as the end of a sentence: one that speaks of "it", the call.
    pub why: &'static str,
    /// Names as in the kernel's table.
    pub syscalls: &'static [&'static str],
}

/// The reason why no profile can allow the call of this name; `None` for one that a group holds and for
/// one that the table does not know.
#[must_use]
pub fn why_never(name: &str) -> Option<&'static str> {
    let found = NEVER.iter().find(|never| never.syscalls.contains(&name));
    found.map(|never| never.why)
}

/// Every call that is in no group.
pub const NEVER: &[ForbiddenSyscalls] = &[
    ForbiddenSyscalls {
        why: "it looks into other processes, or changes them",
        syscalls: &[
            "kcmp",
            "pidfd_getfd",
            "process_madvise",
            "process_mrelease",
            "process_vm_readv",
            "process_vm_writev",
            "ptrace",
        ],
    },
    ForbiddenSyscalls {
        why: "it changes or lists what is mounted, or where the root directory is",
        syscalls: &[
            "chroot",
            "fsconfig",
            "fsmount",
            "fsopen",
            "fspick",
            "listmount",
            "mount",
            "mount_setattr",
            "move_mount",
            "open_tree",
            "open_tree_attr",
            "pivot_root",
            "statmount",
            "umount2",
        ],
    },
    ForbiddenSyscalls {
        why: "it makes or enters namespaces, and in one of its own a program has capabilities",
        syscalls: &["setns", "unshare"],
    },
    ForbiddenSyscalls {
        why: "its flags, which can ask for namespaces, lie where no filter sees them; programs go on with clone",
        syscalls: &["clone3"],
    },
    ForbiddenSyscalls {
        why: "what is done through it passes neither the filter nor the monitor; programs go on without",
        syscalls: &["io_uring_enter", "io_uring_register", "io_uring_setup"],
    },
    ForbiddenSyscalls {
        why: "on which memory a program lies is the host's to decide; a jail answers like a kernel without NUMA",
        syscalls: super::NUMA,
    },
    ForbiddenSyscalls {
        why: "it puts code into the kernel, or another kernel in its place",
        syscalls: &[
            "bpf",
            "create_module",
            "delete_module",
            "finit_module",
            "get_kernel_syms",
            "init_module",
            "kexec_file_load",
            "kexec_load",
            "query_module",
        ],
    },
    ForbiddenSyscalls {
        why: "it shows or watches what others and the kernel do",
        syscalls: &[
            "acct",
            "fanotify_init",
            "fanotify_mark",
            "lookup_dcookie",
            "perf_event_open",
            "syslog",
        ],
    },
    ForbiddenSyscalls {
        why: "it lets a program make the kernel wait for it, in the middle of its work",
        syscalls: &["userfaultfd"],
    },
    ForbiddenSyscalls {
        why: "it opens files by their number, past every path",
        syscalls: &["name_to_handle_at", "open_by_handle_at"],
    },
    ForbiddenSyscalls {
        why: "keys are kept by user, not by jail",
        syscalls: &["add_key", "keyctl", "request_key"],
    },
    ForbiddenSyscalls {
        why: "a filter or a restriction of the program's own could fake or hide what the jail answers",
        syscalls: &[
            "landlock_add_rule",
            "landlock_create_ruleset",
            "landlock_restrict_self",
            "lsm_get_self_attr",
            "lsm_list_modules",
            "lsm_set_self_attr",
            "seccomp",
        ],
    },
    ForbiddenSyscalls {
        why: "it hides memory, or shares it where nobody looks",
        syscalls: &["memfd_secret", "vmsplice"],
    },
    ForbiddenSyscalls {
        why: "it writes out the disks of the whole host",
        syscalls: &["sync", "syncfs"],
    },
    ForbiddenSyscalls {
        why: "it is for those who administer a machine: its clocks, names, disks and ports, and its end",
        syscalls: &[
            "adjtimex",
            "clock_adjtime",
            "clock_settime",
            "ioperm",
            "iopl",
            "nfsservctl",
            "quotactl",
            "quotactl_fd",
            "reboot",
            "setdomainname",
            "sethostname",
            "settimeofday",
            "swapoff",
            "swapon",
            "vhangup",
        ],
    },
    ForbiddenSyscalls {
        why: "it is for code of 16 and 32 bits, which a jail does not run",
        syscalls: &["get_thread_area", "modify_ldt", "set_thread_area"],
    },
    ForbiddenSyscalls {
        why: "it reaches corners of the kernel that hardly a program has a use for",
        syscalls: &[
            "io_cancel",
            "io_destroy",
            "io_getevents",
            "io_pgetevents",
            "io_setup",
            "io_submit",
            "remap_file_pages",
        ],
    },
    ForbiddenSyscalls {
        why: "it is left from old kernels, or was never there, and no program has a use for it",
        syscalls: &[
            "_sysctl",
            "afs_syscall",
            "epoll_ctl_old",
            "epoll_wait_old",
            "getpmsg",
            "putpmsg",
            "security",
            "sysfs",
            "tuxcall",
            "uselib",
            "ustat",
            "vserver",
        ],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{allowable, known};
    use super::*;

    #[test]
    fn every_call_is_in_a_group_or_has_one_reason_why_not() {
        let mut reasoned = BTreeSet::new();
        for never in NEVER {
            assert!(never.syscalls.is_sorted(), "{}", never.why);
            for name in never.syscalls {
                assert!(reasoned.insert(*name), "{name} stands twice");
                assert_eq!(why_never(name), Some(never.why));
            }
        }
        let left_out: BTreeSet<&str> = known().filter(|name| allowable(name).is_none()).collect();
        assert_eq!(reasoned, left_out);
        assert_eq!(why_never("read"), None);
        assert_eq!(why_never("openat3"), None);
    }
}
