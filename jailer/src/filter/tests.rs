//! Calls by name: what the emitted programs answer to them.

use std::collections::BTreeSet;

use turnkey_policy::{SyscallPolicy, syscalls};

use super::SeccompFilters;
use super::simulation::{
    ALLOW, ENOSYS, EPERM, all_that_any_policy_allows, ask, errno, every_group,
};

#[test]
fn ordinary_calls_pass() {
    let filters = all_that_any_policy_allows();
    for number in [
        libc::SYS_read,
        libc::SYS_openat,
        libc::SYS_execve,
        libc::SYS_wait4,
        libc::SYS_futex,
    ] {
        assert_eq!(ask(&filters, number, [0; 6]), ALLOW, "{number}");
    }
}

#[test]
fn bytes_are_the_filters_they_were_made_of_or_none() {
    let filters = all_that_any_policy_allows();
    let bytes = filters.to_bytes();
    let again = SeccompFilters::from_bytes(&bytes).expect("they are whole");
    assert_eq!(again.allowed, filters.allowed);
    assert_eq!(
        (&again.refuse, &again.allow),
        (&filters.refuse, &filters.allow)
    );
    for length in [0, 8, 23, 24, 32, bytes.len() - 8, bytes.len() - 1] {
        let cut = SeccompFilters::from_bytes(&bytes[..length]);
        assert!(cut.is_none(), "{length} of {} bytes", bytes.len());
    }
    let one_more = [bytes.as_slice(), &[0; 8]].concat();
    assert!(
        SeccompFilters::from_bytes(&one_more).is_none(),
        "and none behind"
    );
    let mut without = bytes;
    without[8..16].fill(0);
    assert!(
        SeccompFilters::from_bytes(&without).is_none(),
        "a program that is empty"
    );
}

#[test]
fn j45_dangerous_calls_are_refused_as_known() {
    let filters = all_that_any_policy_allows();
    let refused = [
        libc::SYS_bpf,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_fsopen,
        libc::SYS_mount_setattr,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_keyctl,
        libc::SYS_userfaultfd,
        libc::SYS_perf_event_open,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_kexec_file_load,
        libc::SYS_open_by_handle_at,
        libc::SYS_name_to_handle_at,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        libc::SYS_reboot,
        libc::SYS_iopl,
    ];
    for number in refused {
        assert_eq!(ask(&filters, number, [0; 6]), EPERM, "{number}");
    }
}

#[test]
fn j28_unknown_numbers_look_unknown() {
    let filters = all_that_any_policy_allows();
    for number in [600, 9999, 0x3fff_ffff] {
        assert_eq!(ask(&filters, number, [0; 6]), ENOSYS, "{number}");
    }
}

#[test]
fn j25_j27_what_must_look_unknown_does() {
    let filters = all_that_any_policy_allows();
    let numbers = [
        libc::SYS_clone3,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_get_mempolicy,
        libc::SYS_mbind,
        libc::SYS_migrate_pages,
        libc::SYS_move_pages,
        libc::SYS_set_mempolicy,
        libc::SYS_set_mempolicy_home_node,
    ];
    assert_eq!(syscalls::ABSENT.len(), numbers.len());
    for number in numbers {
        assert_eq!(ask(&filters, number, [0; 6]), ENOSYS, "{number}");
    }
}

#[test]
fn j44_a_process_is_made_but_no_namespace() {
    let filters = all_that_any_policy_allows();
    let thread = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD;
    assert_eq!(ask(&filters, libc::SYS_clone, [17, 0, 0, 0, 0, 0]), ALLOW);
    assert_eq!(
        ask(
            &filters,
            libc::SYS_clone,
            [u64::from(thread.cast_unsigned()), 0, 0, 0, 0, 0]
        ),
        ALLOW
    );
    let namespaces = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    for flag in namespaces {
        let flag = u64::from(flag.cast_unsigned());
        // The kernel takes the flags of clone(2) as a long, but reads only 32 of them.
        for flags in [flag, flag | 17, flag | 1 << 40] {
            assert_eq!(
                ask(&filters, libc::SYS_clone, [flags, 0, 0, 0, 0, 0]),
                EPERM,
                "{flags:#x}"
            );
        }
    }
    // Bit 33 would be CLONE_INTO_CGROUP, which clone(2) does not read.
    assert_eq!(
        ask(&filters, libc::SYS_clone, [1 << 33 | 17, 0, 0, 0, 0, 0]),
        ALLOW
    );
}

#[test]
fn j35_only_four_socket_families_exist_and_pairs_of_three() {
    let filters = all_that_any_policy_allows();
    let ask = |call, single: [u64; 3]| {
        let [family, kind, protocol] = single;
        ask(&filters, call, [family, kind, protocol, 0, 0, 0])
    };
    for family in 0..64 {
        // AF_UNIX, AF_INET, AF_INET6, AF_NETLINK; the kernel looks at 32 bits of an `int`.
        let expected = match family {
            1 | 2 | 10 => [ALLOW; 2],
            16 => [ALLOW, errno(libc::EAFNOSUPPORT)],
            _ => [errno(libc::EAFNOSUPPORT); 2],
        };
        for upper in [0, 1 << 32, u64::MAX << 32] {
            let calls = [libc::SYS_socket, libc::SYS_socketpair];
            let made = calls.map(|call| ask(call, [family | upper, 1, 0]));
            assert_eq!(made, expected, "{family} {upper:#x}");
        }
    }
    let make = |family, kind, protocol| {
        let single = [family, kind, protocol];
        let answer = ask(libc::SYS_socket, single);
        assert_eq!(ask(libc::SYS_socketpair, single), answer);
        answer
    };
    const CLOEXEC: u64 = 0o2_000_000;
    assert_eq!(make(2, 2 | CLOEXEC, 17), ALLOW);
    // SOCK_PACKET is AF_PACKET by another name, SCTP a module.
    assert_eq!(make(2, 10, 0), errno(libc::EAFNOSUPPORT));
    assert_eq!(make(2, 1, 132), errno(libc::EPROTONOSUPPORT));
    assert_eq!(make(2, 4, 0), errno(libc::ESOCKTNOSUPPORT));
}

#[test]
fn j26_terminal_injection_is_refused_with_any_upper_half() {
    let filters = all_that_any_policy_allows();
    for request in [
        libc::TIOCSTI,
        libc::TIOCLINUX,
        libc::TIOCCONS,
        libc::TIOCSETD,
    ] {
        for upper in [0, 1, 0xffff_ffff] {
            assert_eq!(
                ask(
                    &filters,
                    libc::SYS_ioctl,
                    [0, request | upper << 32, 0, 0, 0, 0]
                ),
                EPERM
            );
        }
    }
    assert_eq!(
        ask(&filters, libc::SYS_ioctl, [0, libc::TCGETS, 0, 0, 0, 0]),
        ALLOW
    );
    assert_eq!(
        ask(&filters, libc::SYS_ioctl, [0, libc::FIONREAD, 0, 0, 0, 0]),
        ALLOW
    );
}

#[test]
fn the_personality_of_other_systems_is_refused() {
    let filters = all_that_any_policy_allows();
    let set = |value| ask(&filters, libc::SYS_personality, [value, 0, 0, 0, 0, 0]);
    for upper in [0, 1 << 32] {
        assert_eq!(set(0xffff_ffff | upper), ALLOW);
        assert_eq!(set(0x0004_0000 | upper), ALLOW);
        // READ_IMPLIES_EXEC would make every readable page executable.
        assert_eq!(set(0x0040_0000 | upper), EPERM);
        assert_eq!(set(0x0044_0000 | upper), EPERM);
    }
}

#[test]
fn j43_devices_are_no_files_to_make() {
    let filters = all_that_any_policy_allows();
    let make = |mode: u32| {
        let mode = u64::from(mode);
        let answer = ask(&filters, libc::SYS_mknod, [0, mode, 0, 0, 0, 0]);
        assert_eq!(
            ask(&filters, libc::SYS_mknodat, [0, 0, mode, 0, 0, 0]),
            answer
        );
        answer
    };
    assert_eq!(make(libc::S_IFCHR | 0o600), EPERM);
    assert_eq!(make(libc::S_IFBLK | 0o600), EPERM);
    // The kernel reads sixteen bits of a mode.
    assert_eq!(make(libc::S_IFBLK | 0x0001_0000), EPERM);
    // FIFOs, sockets and files are nobody's way out.
    for kind in [libc::S_IFIFO, libc::S_IFSOCK, libc::S_IFREG, 0] {
        assert_eq!(make(kind | 0o600), ALLOW, "{kind:o}");
        assert_eq!(make(kind | 0x2000_0000), ALLOW, "{kind:o}");
    }
}

#[test]
fn j38_leases_and_notices_are_not_taken() {
    let filters = all_that_any_policy_allows();
    let command = |command: i32| {
        let command = u64::from(command.cast_unsigned());
        ask(&filters, libc::SYS_fcntl, [0, command, 0, 0, 0, 0])
    };
    assert_eq!(command(libc::F_SETLEASE), errno(libc::EINVAL));
    assert_eq!(command(libc::F_NOTIFY), errno(libc::EINVAL));
    for ordinary in [
        libc::F_GETFL,
        libc::F_SETFD,
        libc::F_SETLK,
        libc::F_OFD_SETLK,
    ] {
        assert_eq!(command(ordinary), ALLOW, "{ordinary}");
    }
}

#[test]
fn j45_sockets_get_no_program_and_send_nothing_urgent() {
    let filters = all_that_any_policy_allows();
    let upper = 0xdead_beef << 32;
    let option = |level, name| {
        ask(
            &filters,
            libc::SYS_setsockopt,
            [3, level | upper, name | upper, 0, 0, 0],
        )
    };
    // SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF
    for program in [26, 50, 51, 52] {
        assert_eq!(option(1, program), EPERM, "{program}");
        assert_eq!(option(6, program), ALLOW, "another level: {program}");
    }
    // SO_REUSEADDR, SO_DETACH_FILTER, SO_OOBINLINE
    for ordinary in [2, 27, 10] {
        assert_eq!(option(1, ordinary), ALLOW, "{ordinary}");
    }
    // IPV6_FLOWLABEL_MGR; IPV6_JOIN_GROUP, and the number of the first for TCP.
    assert_eq!(option(41, 32), EPERM);
    assert_eq!([option(41, 20), option(6, 32)], [ALLOW; 2]);
    // MSG_OOB, alone and with MSG_NOSIGNAL; MSG_NOSIGNAL alone.
    for (flags, answer) in [(1, EPERM), (0x4001, EPERM), (0x4000, ALLOW)] {
        let flags = flags | upper;
        let fourth = [3, 0, 0, flags, 0, 0];
        assert_eq!(ask(&filters, libc::SYS_sendto, fourth), answer);
        assert_eq!(ask(&filters, libc::SYS_sendmmsg, fourth), answer);
        let third = [3, 0, flags, 1, 0, 0];
        assert_eq!(ask(&filters, libc::SYS_sendmsg, third), answer);
    }
}

#[test]
fn j47_the_jails_init_is_left_alone() {
    let filters = all_that_any_policy_allows();
    let signal = u64::from(libc::SIGSTOP.cast_unsigned());
    assert_eq!(
        ask(&filters, libc::SYS_kill, [1, signal, 0, 0, 0, 0]),
        EPERM
    );
    assert_eq!(
        ask(&filters, libc::SYS_tgkill, [1, 1, signal, 0, 0, 0]),
        EPERM
    );
    assert_eq!(
        ask(&filters, libc::SYS_prlimit64, [1, 7, 0, 0, 0, 0]),
        EPERM
    );
    assert_eq!(
        ask(&filters, libc::SYS_setpriority, [0, 1, 19, 0, 0, 0]),
        EPERM
    );
    // Whether a parent lives may be asked; all others are the program's own.
    assert_eq!(ask(&filters, libc::SYS_kill, [1, 0, 0, 0, 0, 0]), ALLOW);
    assert_eq!(
        ask(&filters, libc::SYS_kill, [2, signal, 0, 0, 0, 0]),
        ALLOW
    );
    let group = u64::from((-1_i32).cast_unsigned());
    assert_eq!(
        ask(&filters, libc::SYS_kill, [group, signal, 0, 0, 0, 0]),
        ALLOW
    );
}

#[test]
fn what_a_policy_leaves_out_is_refused() {
    let filters = SeccompFilters::build(&SyscallPolicy {
        set_id_files: true,
        host_network: false,
        allow: BTreeSet::from(["read", "write", "exit_group"]),
    })
    .unwrap();
    assert_eq!(ask(&filters, libc::SYS_read, [0; 6]), ALLOW);
    assert_eq!(ask(&filters, libc::SYS_openat, [0; 6]), EPERM);
}

#[test]
fn m03_the_program_installs_no_filter_of_its_own() {
    let filters = all_that_any_policy_allows();
    let option = u64::from(libc::PR_SET_SECCOMP.cast_unsigned());
    for upper in [0, 1 << 32] {
        assert_eq!(
            ask(&filters, libc::SYS_prctl, [option | upper, 2, 0, 0, 0, 0]),
            EPERM
        );
    }
    assert_eq!(ask(&filters, libc::SYS_seccomp, [1, 0, 0, 0, 0, 0]), EPERM);
    let name = u64::from(libc::PR_SET_NAME.cast_unsigned());
    assert_eq!(ask(&filters, libc::SYS_prctl, [name, 0, 0, 0, 0, 0]), ALLOW);
    // What the table does not know is refused as the kernel refuses what it does not know.
    let unknown = [1000, 0, 0, 0, 0, 0];
    assert_eq!(ask(&filters, libc::SYS_prctl, unknown), errno(libc::EINVAL));
}

#[test]
fn j21_no_mode_sets_an_id_where_the_host_can_be_written() {
    let strict = SeccompFilters::build(&every_group(false)).unwrap();
    let ordinary = all_that_any_policy_allows();
    let changes = |filters: &SeccompFilters, mode: u64| {
        [
            ask(filters, libc::SYS_chmod, [0, mode, 0, 0, 0, 0]),
            ask(filters, libc::SYS_fchmod, [0, mode, 0, 0, 0, 0]),
            ask(filters, libc::SYS_fchmodat, [0, 0, mode, 0, 0, 0]),
            ask(filters, libc::SYS_fchmodat2, [0, 0, mode, 0, 0, 0]),
            ask(filters, libc::SYS_creat, [0, mode, 0, 0, 0, 0]),
            ask(filters, libc::SYS_open, [0, 0o101, mode, 0, 0, 0]),
            ask(filters, libc::SYS_openat, [0, 0, 0o101, mode, 0, 0]),
            ask(filters, libc::SYS_mknod, [0, mode, 0, 0, 0, 0]),
            ask(filters, libc::SYS_mknodat, [0, 0, mode, 0, 0, 0]),
        ]
    };
    for set_id in [0o4755, 0o2755, 0o6000] {
        assert_eq!(changes(&strict, set_id), [EPERM; 9], "{set_id:o}");
        assert_eq!(changes(&ordinary, set_id), [ALLOW; 9], "{set_id:o}");
    }
    for mode in [0o755, 0o1777, 0o4_0000_0644] {
        assert_eq!(changes(&strict, mode), [ALLOW; 9], "{mode:o}");
    }
    assert_eq!(ask(&strict, libc::SYS_openat2, [0; 6]), ENOSYS);
    assert_eq!(ask(&ordinary, libc::SYS_openat2, [0; 6]), ALLOW);
}
