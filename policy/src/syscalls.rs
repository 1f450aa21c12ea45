//! The one table of syscalls: which exist, which a profile can allow, and under which group.
//!
//! The jailer's filter answers `EPERM` to a syscall that exists and is not allowed, and
//! `ENOSYS` to one it has never heard of and to those of [`ABSENT`], so that programs fall back
//! the way they do on an older kernel.
//!
//! What is in no group cannot be allowed by any profile; [`NEVER`] says why.

pub mod arguments;
mod groups;
mod never;
mod table;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::tables::SyscallPolicy;

pub use groups::{GROUPS, UNIONS};
pub use never::{ForbiddenSyscalls, NEVER, why_never};

/// A named set of syscalls that profiles allow together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyscallGroup {
    /// With the leading `@`.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Names as in the kernel's table.
    pub syscalls: &'static [&'static str],
}

/// A name for several groups at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupUnion {
    /// With the leading `@`.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Names of groups.
    pub groups: &'static [&'static str],
}

/// The filter's answer to a number, before it looks at the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterAnswer {
    /// The kernel gets the call, unless [`arguments`] refuses its arguments.
    Allowed,
    /// `EPERM`: known and not allowed.
    Refused,
    /// `ENOSYS`: unknown, or to be taken for unknown.
    Absent,
    /// Death of the process: a call of another architecture.
    Killed,
}

/// The bit that marks the numbers of x32, a second way into the same kernel.
pub const X32_BIT: u32 = 0x4000_0000;

/// Syscalls that exist and that the jail answers with `ENOSYS` all the same: programs probe
/// for them and fall back, while `EPERM` would stop them. None can be allowed.
///
/// clone3(2) hides its flags from the filter behind a pointer; `io_uring` does file and network
/// operations that pass neither the filter nor the monitor; the rest is [`NUMA`].
pub const ABSENT: &[&str] = &[
    "clone3",
    "get_mempolicy",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "mbind",
    "migrate_pages",
    "move_pages",
    "set_mempolicy",
    "set_mempolicy_home_node",
];

/// The syscalls of numa(7): those of [`ABSENT`] that programs ask for in passing, and that a kernel
/// built without NUMA does not have either. Asking is absent together with setting: libnuma takes an
/// answer to get_mempolicy(2) for a sign that the others work, and complains about each that does not.
pub const NUMA: &[&str] = &[
    "get_mempolicy",
    "mbind",
    "migrate_pages",
    "move_pages",
    "set_mempolicy",
    "set_mempolicy_home_node",
];

/// Absent where no file may be given a set-id bit: openat2(2) hides the mode of a new file behind a
/// pointer. Programs fall back to openat(2).
pub const ABSENT_WITHOUT_SET_ID: &[&str] = &["openat2"];

/// The syscalls that the jail's own init needs, and the program's process until it is the program. Both run under
/// the program's filter.
pub const ESSENTIAL: &[&str] = &[
    "access",
    "chdir",
    "clone",
    "close",
    "execve",
    "exit",
    "exit_group",
    "kill",
    "newfstatat",
    "openat",
    "poll",
    "ppoll",
    "read",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "setsid",
    "wait4",
    "waitid",
    "write",
];

/// The group of each syscall, and its name with the table's own lifetime.
static GROUPED: LazyLock<BTreeMap<&'static str, &'static SyscallGroup>> = LazyLock::new(|| {
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
pub fn group(name: &str) -> Option<&'static SyscallGroup> {
    GROUPS.iter().find(|group| group.name == name)
}

/// The group that holds the syscall of this name; `None` for one that no profile can allow.
#[must_use]
pub fn group_of(name: &str) -> Option<&'static SyscallGroup> {
    GROUPED.get(name).copied()
}

/// The syscalls of the group or union of this name.
#[must_use]
pub fn named(name: &str) -> Option<Vec<&'static str>> {
    if let Some(group) = group(name) {
        return Some(group.syscalls.to_vec());
    }
    let union = UNIONS.iter().find(|union| union.name == name)?;
    let groups = union.groups.iter().filter_map(|name| group(name));
    Some(groups.flat_map(|group| group.syscalls.to_vec()).collect())
}

/// Every name that [`named`] knows.
pub fn names() -> impl Iterator<Item = &'static str> {
    let groups = GROUPS.iter().map(|group| group.name);
    groups.chain(UNIONS.iter().map(|union| union.name))
}

/// The answer of a jail's filter to a number of x86_64's table. Every number of any other table
/// is [`FilterAnswer::Killed`].
#[must_use]
pub fn answer(policy: &SyscallPolicy, number: u32) -> FilterAnswer {
    match name(number) {
        // -1 is no call of anybody's: the kernel itself puts it in the place of a skipped one.
        None if number & X32_BIT != 0 && number != u32::MAX => FilterAnswer::Killed,
        None => FilterAnswer::Absent,
        Some(name) if is_absent(policy, name) => FilterAnswer::Absent,
        Some(name) if policy.allow.contains(name) => FilterAnswer::Allowed,
        Some(_) => FilterAnswer::Refused,
    }
}

fn is_absent(policy: &SyscallPolicy, name: &str) -> bool {
    ABSENT.contains(&name) || !policy.set_id_files && ABSENT_WITHOUT_SET_ID.contains(&name)
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
    fn a_union_holds_what_its_groups_hold() {
        for union in UNIONS {
            let together: usize = union
                .groups
                .iter()
                .map(|name| group(name).expect("a group").syscalls.len())
                .sum();
            assert_eq!(named(union.name).expect("known").len(), together);
            assert!(group(union.name).is_none(), "{} stands twice", union.name);
        }
        assert!(named("@network-local").expect("known").contains(&"listen"));
        assert_eq!(named("@everything"), None);
    }

    #[test]
    fn what_is_absent_is_sorted_and_holds_the_calls_about_numa() {
        assert!(ABSENT.is_sorted() && NUMA.is_sorted());
        assert!(NUMA.iter().all(|name| ABSENT.contains(name)));
    }

    #[test]
    fn every_number_has_one_answer() {
        let allow = BTreeSet::from(["read", "clone", "openat2"]);
        let mut policy = SyscallPolicy {
            allow,
            set_id_files: true,
            host_network: false,
        };
        let by_name = |policy: &SyscallPolicy, name| answer(policy, number(name).expect("known"));
        assert_eq!(by_name(&policy, "read"), FilterAnswer::Allowed);
        assert_eq!(by_name(&policy, "openat"), FilterAnswer::Refused);
        assert_eq!(by_name(&policy, "clone3"), FilterAnswer::Absent);
        assert_eq!(answer(&policy, 9999), FilterAnswer::Absent);
        assert_eq!(answer(&policy, X32_BIT), FilterAnswer::Killed);
        assert_eq!(answer(&policy, u32::MAX), FilterAnswer::Absent);
        assert_eq!(by_name(&policy, "openat2"), FilterAnswer::Allowed);
        policy.set_id_files = false;
        assert_eq!(by_name(&policy, "openat2"), FilterAnswer::Absent);
    }

    #[test]
    fn what_starts_a_jail_is_in_core_and_in_the_calls_that_open_files() {
        let held = ["@core", "@file-open"].map(|name| group(name).expect("the group exists"));
        for syscall in ESSENTIAL {
            let mut held = held.iter().flat_map(|group| group.syscalls);
            assert!(held.any(|name| name == syscall), "{syscall}");
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
