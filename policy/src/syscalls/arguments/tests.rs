//! Refusals against the bits that the kernel reads.

use super::*;

/// The refusals of the strictest jail.
fn refused(syscall: &str, arguments: &[u64; 6]) -> Option<RefusalErrno> {
    let strictest = SyscallPolicy {
        allow: std::collections::BTreeSet::new(),
        set_id_files: false,
        host_network: true,
    };
    super::refused(&strictest, syscall, arguments)
}

#[test]
fn every_refusal_speaks_of_syscalls_that_could_be_allowed() {
    for refusal in REFUSALS {
        assert!(!refusal.when.is_empty() && !refusal.why.is_empty());
        for syscall in refusal.syscalls {
            assert!(crate::syscalls::allowable(syscall).is_some(), "{syscall}");
        }
    }
}

#[test]
fn a_value_that_the_bits_cannot_hold_would_never_match() {
    for condition in REFUSALS.iter().flat_map(|refusal| refusal.when) {
        assert!(condition.argument < 6 && condition.bits != 0);
        if let BitTest::Is(values) | BitTest::IsNot(values) = condition.test {
            assert!(!values.is_empty());
            assert!(values.iter().all(|value| value & !condition.bits == 0));
        }
    }
}

#[test]
fn only_the_bits_that_the_kernel_reads_count() {
    const TIOCSTI: u64 = 0x5412;
    let upper = 0xdead_beef << 32;
    assert_eq!(
        refused("ioctl", &[0, TIOCSTI | upper, 0, 0, 0, 0]),
        Some(RefusalErrno::Permission)
    );
    assert_eq!(refused("socket", &[2 | upper, 1, 0, 0, 0, 0]), None);
    // A character device, in the sixteen bits of a mode; and a FIFO with garbage above them.
    assert_eq!(
        refused("mknod", &[0, 0x0004_2180, 0, 0, 0, 0]),
        Some(RefusalErrno::Permission)
    );
    assert_eq!(refused("mknod", &[0, 0x2000_1180, 0, 0, 0, 0]), None);
}

#[test]
fn netlink_is_asked_for_the_jails_own_interfaces_alone() {
    let jail = |host_network| SyscallPolicy {
        allow: std::collections::BTreeSet::new(),
        set_id_files: true,
        host_network,
    };
    let socket = |policy: &SyscallPolicy, protocol| {
        super::refused(policy, "socket", &[16, 0x80003, protocol, 0, 0, 0])
    };
    let (own, host) = (jail(false), jail(true));
    assert_eq!(socket(&own, 0), None);
    for protocol in 1..64 {
        assert_eq!(socket(&own, protocol), Some(RefusalErrno::Protocol));
    }
    // The kernel reads 32 bits of it.
    assert_eq!(socket(&own, 4 | 1 << 32), Some(RefusalErrno::Protocol));
    assert_eq!(socket(&own, 1 << 32), None);
    assert_eq!(socket(&host, 0), Some(RefusalErrno::Family));
    let pair = super::refused(&own, "socketpair", &[16, 3, 0, 0, 0, 0]);
    assert_eq!(pair, Some(RefusalErrno::Family));
}

#[test]
fn a_mode_counts_only_where_a_file_is_made() {
    const O_CREAT: u64 = 0o100;
    let open = |flags, mode| refused("open", &[0, flags, mode, 0, 0, 0]);
    assert_eq!(open(O_CREAT, 0o4755), Some(RefusalErrno::Permission));
    assert_eq!(open(0o20_200_000, 0o2755), Some(RefusalErrno::Permission));
    assert_eq!(open(O_CREAT, 0o755), None);
    // A mode nobody reads, and one that only looks like it.
    assert_eq!(open(0, 0o4755), None);
    assert_eq!(open(0o200_000, 0o4755), None);
}

#[test]
fn the_init_may_be_asked_for_and_not_signalled() {
    assert_eq!(refused("kill", &[1, 0, 0, 0, 0, 0]), None);
    assert_eq!(
        refused("kill", &[1, 9, 0, 0, 0, 0]),
        Some(RefusalErrno::Permission)
    );
    assert_eq!(refused("kill", &[2, 9, 0, 0, 0, 0]), None);
}
