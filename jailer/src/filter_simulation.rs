//! Runs the emitted filters the way the kernel does, on calls that must not be made for real.

use std::collections::BTreeSet;

use turnkey_policy::{Syscalls, syscalls};

use super::{FAMILIES, Filters, NAMESPACE_FLAGS};
use crate::sys::Instruction;

// linux/audit.h and linux/seccomp.h
const X86_64: u32 = 0xc000_003e;
const I386: u32 = 0x4000_0003;
const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const X32_BIT: u32 = 0x4000_0000;

const EPERM: u32 = ERRNO | libc::EPERM.cast_unsigned();
const ENOSYS: u32 = ERRNO | libc::ENOSYS.cast_unsigned();
const EAFNOSUPPORT: u32 = ERRNO | libc::EAFNOSUPPORT.cast_unsigned();

/// `struct seccomp_data` as words.
fn data(architecture: u32, number: u32, arguments: [u64; 6]) -> Vec<u32> {
    let halves = |value: u64| {
        [
            u32::try_from(value & 0xffff_ffff).unwrap(),
            u32::try_from(value >> 32).unwrap(),
        ]
    };
    let mut words = vec![number, architecture, 0, 0];
    words.extend(arguments.into_iter().flat_map(halves));
    words
}

/// The classic BPF that seccomp accepts: loads of words, jumps, and `and`, linux/filter.h.
fn run(program: &[Instruction], data: &[u32]) -> u32 {
    let (mut accumulator, mut at) = (0_u32, 0_usize);
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        let branch = |taken: bool| usize::from(if taken { jt } else { jf });
        match code {
            0x20 => accumulator = data[usize::try_from(k).unwrap() / 4],
            0x54 => accumulator &= k,
            0x05 => at += usize::try_from(k).unwrap(),
            0x15 => at += branch(accumulator == k),
            0x25 => at += branch(accumulator > k),
            0x35 => at += branch(accumulator >= k),
            0x45 => at += branch(accumulator & k != 0),
            0x06 => return k,
            other => panic!("unknown operation {other:#x}"),
        }
    }
}

/// The kernel takes the answer with the highest precedence, which is the lowest as a signed number.
fn answer(filters: &Filters, architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let data = data(architecture, number, arguments);
    let answers = [run(&filters.refuse, &data), run(&filters.allow, &data)];
    answers
        .into_iter()
        .min_by_key(|answer| (answer & 0xffff_0000).cast_signed())
        .unwrap()
}

fn all_that_any_policy_allows() -> Filters {
    let allow: BTreeSet<&'static str> = syscalls::GROUPS
        .iter()
        .flat_map(|group| group.syscalls.iter().copied())
        .collect();
    Filters::build(&Syscalls { allow }).unwrap()
}

fn ask(filters: &Filters, number: libc::c_long, arguments: [u64; 6]) -> u32 {
    answer(filters, X86_64, u32::try_from(number).unwrap(), arguments)
}

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
    assert_eq!(syscalls::ABSENT.len(), 4);
    let filters = all_that_any_policy_allows();
    let numbers = [
        libc::SYS_clone3,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
    ];
    for number in numbers {
        assert_eq!(ask(&filters, number, [0; 6]), ENOSYS, "{number}");
    }
}

#[test]
fn j23_j24_every_call_of_another_architecture_kills() {
    let filters = all_that_any_policy_allows();
    for number in 0..600 {
        assert_eq!(
            answer(&filters, I386, number, [0; 6]),
            KILL_PROCESS,
            "ia32 {number}"
        );
        assert_eq!(
            answer(&filters, X86_64, number | X32_BIT, [0; 6]),
            KILL_PROCESS,
            "x32 {number}"
        );
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
    for flag in NAMESPACE_FLAGS {
        let flag = u64::from(flag.cast_unsigned());
        // The kernel takes the flags of clone(2) as a long, but knows only 32 of them.
        for flags in [flag, flag | 17, flag | 1 << 40] {
            assert_eq!(
                ask(&filters, libc::SYS_clone, [flags, 0, 0, 0, 0, 0]),
                EPERM,
                "{flags:#x}"
            );
        }
    }
}

#[test]
fn j35_only_three_socket_families_exist() {
    let filters = all_that_any_policy_allows();
    for family in 0..64_u64 {
        let expected = if FAMILIES
            .map(|family| u64::try_from(family).unwrap())
            .contains(&family)
        {
            ALLOW
        } else {
            EAFNOSUPPORT
        };
        assert_eq!(
            ask(&filters, libc::SYS_socket, [family, 1, 0, 0, 0, 0]),
            expected,
            "{family}"
        );
        // The kernel looks at 32 bits: whatever the filter answers, it must not be an open door.
        let disguised = ask(
            &filters,
            libc::SYS_socket,
            [family | 1 << 32, 1, 0, 0, 0, 0],
        );
        assert_eq!(
            disguised == ALLOW,
            expected == ALLOW,
            "{family} with a high bit"
        );
    }
}

#[test]
fn j26_terminal_injection_is_refused_with_any_upper_half() {
    let filters = all_that_any_policy_allows();
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
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
    assert_eq!(
        ask(
            &filters,
            libc::SYS_personality,
            [0xffff_ffff, 0, 0, 0, 0, 0]
        ),
        ALLOW
    );
    // READ_IMPLIES_EXEC would make every readable page executable.
    assert_ne!(
        ask(
            &filters,
            libc::SYS_personality,
            [0x0040_0000, 0, 0, 0, 0, 0]
        ),
        ALLOW
    );
}

#[test]
fn what_a_policy_leaves_out_is_refused() {
    let filters = Filters::build(&Syscalls {
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
}
