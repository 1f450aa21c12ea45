//! The one table of arguments that no jail passes to a syscall it may otherwise make.
//!
//! A filter sees registers of 64 bits; the kernel reads fewer. What it does not read may hold
//! anything, by accident or by design, so every condition says which bits count and compares
//! those alone: garbage above them neither slips through nor breaks an honest call.
//!
//! Filters see no memory. What stands behind a pointer (the flags of clone3(2), the mode of
//! openat2(2)) cannot be judged here: such calls are [`super::ABSENT`] or
//! [`super::ABSENT_WITHOUT_SET_ID`].

use crate::tables::SyscallPolicy;

/// Some values of a syscall's arguments that are answered with an error instead of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentRefusal {
    /// The calls, all with the same arguments in the same places.
    pub syscalls: &'static [&'static str],
    /// The refused thing, in words.
    pub what: &'static str,
    /// The reason.
    pub why: &'static str,
    /// In which jails.
    pub only: RefusalScope,
    /// All of these must hold.
    pub when: &'static [ArgumentCondition],
    /// The error that the program gets.
    pub answer: RefusalErrno,
}

/// Jails that a refusal speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalScope {
    /// All.
    Every,
    /// Jails in which no file may be given a set-id bit.
    WithoutSetId,
    /// Jails in the host's network.
    HostNetwork,
}

impl RefusalScope {
    /// True for a jail of this policy.
    #[must_use]
    pub fn covers(self, policy: &SyscallPolicy) -> bool {
        match self {
            Self::Every => true,
            Self::WithoutSetId => !policy.set_id_files,
            Self::HostNetwork => policy.host_network,
        }
    }
}

/// A condition on one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentCondition {
    /// The index of the argument, from 0.
    pub argument: u8,
    /// The bits that the kernel reads and this condition speaks of; all in the lower half.
    pub bits: u32,
    /// The test of the masked bits.
    pub test: BitTest,
}

/// The tests of an argument's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitTest {
    /// The bits are one of these values.
    Is(&'static [u32]),
    /// The bits are none of these values.
    IsNot(&'static [u32]),
    /// At least one is set.
    IsSet,
}

/// Errors that the kernel itself would give for such an argument on some machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalErrno {
    /// `EPERM`, as without a privilege.
    Permission,
    /// `EINVAL`, as from a kernel that does not know the value.
    Invalid,
    /// `ENOMEM`, as from a kernel that has none of the kind.
    Memory,
    /// `EAFNOSUPPORT`, as from a kernel without the family of sockets.
    Family,
    /// `EPROTONOSUPPORT`, as from a kernel without the protocol.
    Protocol,
    /// `ESOCKTNOSUPPORT`, as from a kernel without the type of sockets.
    SocketType,
}

impl RefusalErrno {
    /// The number.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Permission => 1,
            Self::Memory => 12,
            Self::Invalid => 22,
            Self::Protocol => 93,
            Self::SocketType => 94,
            Self::Family => 97,
        }
    }

    /// The kernel's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Permission => "EPERM",
            Self::Memory => "ENOMEM",
            Self::Invalid => "EINVAL",
            Self::Protocol => "EPROTONOSUPPORT",
            Self::SocketType => "ESOCKTNOSUPPORT",
            Self::Family => "EAFNOSUPPORT",
        }
    }
}

/// All bits of an `int` or `unsigned int`.
const WORD: u32 = u32::MAX;
/// `S_ISUID` and `S_ISGID` in a mode.
const SET_ID_BITS: u32 = 0o6000;
const SET_ID: &str = "the set-user-id and set-group-id bits of a file's mode";
/// `O_CREAT`, and the bit of `O_TMPFILE` that no other flag has: without them no mode is read.
const MAKES_A_FILE: u32 = 0o20_000_100;
/// The flag of a send for urgent data.
pub const MSG_OOB: u32 = 1;
const URGENT: &str = "urgent data, `MSG_OOB`";
/// The family of netlink(7), which leads to the kernel and to no other process.
const AF_NETLINK: u32 = 16;
const HUGE: &str = "huge pages of the host's pool";
const NOT_THE_JAILS: &str =
    "the pool is the whole machine's, and no limit of the jail's memory counts it";
const FAMILIES: &str = "most of them reach the machine itself or its neighbours past the network namespace, and few eyes have seen their code";
/// The jail's init, as the jail's processes number it.
const INIT: &[u32] = &[1];

const fn on(argument: u8, bits: u32, test: BitTest) -> ArgumentCondition {
    ArgumentCondition {
        argument,
        bits,
        test,
    }
}

/// Every refusal. For a syscall that stands in several, the first that holds answers.
pub const REFUSALS: &[ArgumentRefusal] = &[
    ArgumentRefusal {
        syscalls: &["clone"],
        what: "any flag that makes a namespace, `CLONE_NEW…`",
        why: "in a namespace of its own a program has capabilities, and with them corners of the kernel that are closed to ordinary users",
        // NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
        only: RefusalScope::Every,
        when: &[on(0, 0x7e02_0080, BitTest::IsSet)],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["ioctl"],
        what: "`TIOCSTI`, `TIOCLINUX`, `TIOCCONS`",
        why: "they type into a terminal, or take over what the console shows",
        only: RefusalScope::Every,
        when: &[on(1, WORD, BitTest::Is(&[0x5412, 0x541c, 0x541d]))],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["ioctl"],
        what: "`TIOCSETD`",
        why: "line disciplines are drivers for modems and serial links; a terminal of one's own would load them",
        only: RefusalScope::Every,
        when: &[on(1, WORD, BitTest::Is(&[0x5423]))],
        answer: RefusalErrno::Permission,
    },
    // MAP_HUGETLB
    ArgumentRefusal {
        syscalls: &["mmap"],
        what: HUGE,
        why: NOT_THE_JAILS,
        only: RefusalScope::Every,
        when: &[on(3, 0x4_0000, BitTest::IsSet)],
        answer: RefusalErrno::Memory,
    },
    // MFD_HUGETLB
    ArgumentRefusal {
        syscalls: &["memfd_create"],
        what: HUGE,
        why: NOT_THE_JAILS,
        only: RefusalScope::Every,
        when: &[on(1, 4, BitTest::IsSet)],
        answer: RefusalErrno::Invalid,
    },
    // SHM_HUGETLB
    ArgumentRefusal {
        syscalls: &["shmget"],
        what: HUGE,
        why: NOT_THE_JAILS,
        only: RefusalScope::Every,
        when: &[on(2, 0o4000, BitTest::IsSet)],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["socket"],
        what: "families other than `AF_UNIX`, `AF_INET`, `AF_INET6`, `AF_NETLINK`",
        why: FAMILIES,
        only: RefusalScope::Every,
        when: &[on(0, WORD, BitTest::IsNot(&[1, 2, 10, AF_NETLINK]))],
        answer: RefusalErrno::Family,
    },
    ArgumentRefusal {
        syscalls: &["socketpair"],
        what: "families other than `AF_UNIX`, `AF_INET`, `AF_INET6`",
        why: FAMILIES,
        only: RefusalScope::Every,
        when: &[on(0, WORD, BitTest::IsNot(&[1, 2, 10]))],
        answer: RefusalErrno::Family,
    },
    ArgumentRefusal {
        syscalls: &["socket"],
        what: "the family `AF_NETLINK`",
        why: "it would tell of the host's interfaces, addresses and routes",
        only: RefusalScope::HostNetwork,
        when: &[on(0, WORD, BitTest::Is(&[AF_NETLINK]))],
        answer: RefusalErrno::Family,
    },
    ArgumentRefusal {
        syscalls: &["socket"],
        what: "protocols of `AF_NETLINK` other than `NETLINK_ROUTE`",
        why: "getifaddrs(3) asks that one for the jail's own interfaces; the others are the kernel's audit, firewall, devices and sockets",
        only: RefusalScope::Every,
        when: &[
            on(0, WORD, BitTest::Is(&[AF_NETLINK])),
            on(2, WORD, BitTest::IsNot(&[0])),
        ],
        answer: RefusalErrno::Protocol,
    },
    ArgumentRefusal {
        syscalls: &["socket", "socketpair"],
        what: "the type `SOCK_PACKET`",
        why: "an old name for the family `AF_PACKET`",
        only: RefusalScope::Every,
        when: &[on(1, 0xf, BitTest::Is(&[10]))],
        answer: RefusalErrno::Family,
    },
    ArgumentRefusal {
        syscalls: &["socket", "socketpair"],
        what: "types other than `SOCK_STREAM`, `SOCK_DGRAM`, `SOCK_SEQPACKET`, `SOCK_RAW`",
        why: "the families above have no others; asking would load modules",
        only: RefusalScope::Every,
        when: &[on(1, 0xf, BitTest::IsNot(&[1, 2, 3, 5]))],
        answer: RefusalErrno::SocketType,
    },
    ArgumentRefusal {
        syscalls: &["socket", "socketpair"],
        what: "protocols other than the default, ICMP, TCP, UDP and ICMPv6",
        why: "asking for SCTP, DCCP, L2TP and their like would load modules that few eyes have seen",
        only: RefusalScope::Every,
        when: &[on(2, WORD, BitTest::IsNot(&[0, 1, 6, 17, 58]))],
        answer: RefusalErrno::Protocol,
    },
    ArgumentRefusal {
        syscalls: &["setsockopt"],
        what: "programs that the kernel runs for a socket: `SO_ATTACH_FILTER`, `SO_ATTACH_BPF`, `SO_ATTACH_REUSEPORT_CBPF`, `SO_ATTACH_REUSEPORT_EBPF`",
        why: "they reach the kernel's compiler of foreign code, and are for sniffers and for servers that spread their connections",
        only: RefusalScope::Every,
        when: &[
            // SOL_SOCKET
            on(1, WORD, BitTest::Is(&[1])),
            on(2, WORD, BitTest::Is(&[26, 50, 51, 52])),
        ],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["setsockopt"],
        what: "labels for flows of IPv6: `IPV6_FLOWLABEL_MGR`",
        why: "the kernel has some thousands for the whole machine, and a jail could take all that others than its root can have",
        only: RefusalScope::Every,
        when: &[
            // IPPROTO_IPV6
            on(1, WORD, BitTest::Is(&[41])),
            on(2, WORD, BitTest::Is(&[32])),
        ],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["sendto", "sendmmsg"],
        what: URGENT,
        why: "on Unix sockets it is a corner of the kernel with a history of faults, and hardly a program interrupts its peer so: telnet(1) and ftp(1) do",
        only: RefusalScope::Every,
        when: &[on(3, MSG_OOB, BitTest::IsSet)],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["sendmsg"],
        what: URGENT,
        why: "as for sendto",
        only: RefusalScope::Every,
        when: &[on(2, MSG_OOB, BitTest::IsSet)],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["linkat"],
        what: "`AT_SYMLINK_FOLLOW`, `AT_EMPTY_PATH`",
        why: "the new name would be of a file that no argument names, and rules about names would not hold for it",
        only: RefusalScope::Every,
        when: &[on(4, 0x1400, BitTest::IsSet)],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["prctl"],
        what: "`PR_SET_SECCOMP`",
        why: "a filter of the program's own could fake what its syscalls answered, and so what the monitor sees at their exit",
        only: RefusalScope::Every,
        when: &[on(0, WORD, BitTest::Is(&[22]))],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["prctl"],
        what: "`PR_SET_MM`, `PR_SET_SYSCALL_USER_DISPATCH`, `PR_SCHED_CORE`, `PR_SET_MEMORY_MERGE`",
        why: "they forge what /proc shows of a process, take calls back before anyone sees them, keep neighbours off a CPU core, and share memory with strangers",
        only: RefusalScope::Every,
        when: &[on(0, WORD, BitTest::Is(&[35, 59, 62, 67]))],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["prctl"],
        what: "options other than those that programs are known to set on themselves",
        why: "new kernels bring new options; each is looked at before it is let through",
        only: RefusalScope::Every,
        when: &[on(0, WORD, BitTest::IsNot(OPTIONS))],
        answer: RefusalErrno::Invalid,
    },
    ArgumentRefusal {
        syscalls: &["personality"],
        what: "values other than Linux, `ADDR_NO_RANDOMIZE`, and asking",
        why: "others make readable memory executable, or bring back the habits of systems long gone",
        only: RefusalScope::Every,
        when: &[on(0, WORD, BitTest::IsNot(&[0, 0x0004_0000, WORD]))],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["fcntl"],
        what: "`F_SETLEASE`, `F_NOTIFY`, `F_SETDELEG`",
        why: "a lease makes whoever opens the file wait for the jail; notices tell who else opens files",
        only: RefusalScope::Every,
        when: &[on(1, WORD, BitTest::Is(&[1024, 1026, 1040]))],
        answer: RefusalErrno::Invalid,
    },
    ArgumentRefusal {
        syscalls: &["madvise"],
        what: "`MADV_MERGEABLE`",
        why: "pages merged with those of others show by their speed what the others hold",
        only: RefusalScope::Every,
        when: &[on(2, WORD, BitTest::Is(&[12]))],
        answer: RefusalErrno::Invalid,
    },
    ArgumentRefusal {
        syscalls: &["mknod"],
        what: "devices",
        why: "the kernel refuses them without a capability; an empty overlay mark is the exception, and no program's business",
        // `umode_t` has 16 bits; the type of a file is in the upper four.
        only: RefusalScope::Every,
        when: &[on(1, 0xf000, BitTest::Is(&[0x2000, 0x6000]))],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["mknodat"],
        what: "devices",
        why: "as for mknod",
        only: RefusalScope::Every,
        when: &[on(2, 0xf000, BitTest::Is(&[0x2000, 0x6000]))],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["chmod", "creat", "fchmod", "mknod"],
        what: SET_ID,
        why: "inside they have no effect; on the host the program would leave a trap that runs as the host's user",
        only: RefusalScope::WithoutSetId,
        when: &[on(1, SET_ID_BITS, BitTest::IsSet)],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["fchmodat", "fchmodat2", "mknodat"],
        what: SET_ID,
        why: "as for chmod",
        only: RefusalScope::WithoutSetId,
        when: &[on(2, SET_ID_BITS, BitTest::IsSet)],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["open"],
        what: SET_ID,
        why: "as for chmod",
        only: RefusalScope::WithoutSetId,
        when: &[
            on(1, MAKES_A_FILE, BitTest::IsSet),
            on(2, SET_ID_BITS, BitTest::IsSet),
        ],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["openat"],
        what: SET_ID,
        why: "as for chmod",
        only: RefusalScope::WithoutSetId,
        when: &[
            on(2, MAKES_A_FILE, BitTest::IsSet),
            on(3, SET_ID_BITS, BitTest::IsSet),
        ],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["kill", "tkill", "rt_sigqueueinfo"],
        what: "a signal to the jail's init; signal 0, which asks whether it lives, passes",
        why: "the kernel drops them, as it is the init of its namespace; this says so",
        only: RefusalScope::Every,
        when: &[
            on(0, WORD, BitTest::Is(INIT)),
            on(1, WORD, BitTest::IsNot(&[0])),
        ],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["tgkill", "rt_tgsigqueueinfo"],
        what: "a signal to the jail's init",
        why: "as for kill",
        only: RefusalScope::Every,
        when: &[
            on(0, WORD, BitTest::Is(INIT)),
            on(2, WORD, BitTest::IsNot(&[0])),
        ],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &[
            "prlimit64",
            "sched_setaffinity",
            "sched_setattr",
            "sched_setparam",
            "sched_setscheduler",
        ],
        what: "limits and scheduling of the jail's init",
        why: "it has the program's user, so the kernel would let it be starved",
        only: RefusalScope::Every,
        when: &[on(0, WORD, BitTest::Is(INIT))],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["setpriority"],
        what: "the priority of the jail's init",
        why: "as for prlimit64",
        // PRIO_PROCESS
        only: RefusalScope::Every,
        when: &[
            on(0, WORD, BitTest::Is(&[0])),
            on(1, WORD, BitTest::Is(INIT)),
        ],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["setpriority"],
        what: "the priority of all processes of a user",
        why: "the jail's init is one of them",
        // All but PRIO_PROCESS, and PRIO_PGRP: no number inside names the group of the init.
        only: RefusalScope::Every,
        when: &[on(0, WORD, BitTest::IsNot(&[0, 1]))],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["ioprio_set"],
        what: "the priority of all processes of a user",
        why: "as for setpriority",
        // All but IOPRIO_WHO_PROCESS and IOPRIO_WHO_PGRP.
        only: RefusalScope::Every,
        when: &[on(0, WORD, BitTest::IsNot(&[1, 2]))],
        answer: RefusalErrno::Permission,
    },
    ArgumentRefusal {
        syscalls: &["ioprio_set"],
        what: "the priority of the jail's init",
        why: "as for prlimit64",
        // IOPRIO_WHO_PROCESS
        only: RefusalScope::Every,
        when: &[
            on(0, WORD, BitTest::Is(&[1])),
            on(1, WORD, BitTest::Is(INIT)),
        ],
        answer: RefusalErrno::Permission,
    },
];

/// Options of prctl(2) that pass, linux/prctl.h. Those that need a capability fail in the kernel.
const OPTIONS: &[u32] = &[
    1,           // PR_SET_PDEATHSIG
    2,           // PR_GET_PDEATHSIG
    3,           // PR_GET_DUMPABLE
    4,           // PR_SET_DUMPABLE
    7,           // PR_GET_KEEPCAPS
    8,           // PR_SET_KEEPCAPS
    13,          // PR_GET_TIMING
    14,          // PR_SET_TIMING
    15,          // PR_SET_NAME
    16,          // PR_GET_NAME
    21,          // PR_GET_SECCOMP
    23,          // PR_CAPBSET_READ
    24,          // PR_CAPBSET_DROP
    25,          // PR_GET_TSC
    26,          // PR_SET_TSC
    27,          // PR_GET_SECUREBITS
    28,          // PR_SET_SECUREBITS
    29,          // PR_SET_TIMERSLACK
    30,          // PR_GET_TIMERSLACK
    33,          // PR_MCE_KILL
    34,          // PR_MCE_KILL_GET
    36,          // PR_SET_CHILD_SUBREAPER
    37,          // PR_GET_CHILD_SUBREAPER
    38,          // PR_SET_NO_NEW_PRIVS
    39,          // PR_GET_NO_NEW_PRIVS
    40,          // PR_GET_TID_ADDRESS
    41,          // PR_SET_THP_DISABLE
    42,          // PR_GET_THP_DISABLE
    47,          // PR_CAP_AMBIENT
    52,          // PR_GET_SPECULATION_CTRL
    53,          // PR_SET_SPECULATION_CTRL
    65,          // PR_SET_MDWE
    66,          // PR_GET_MDWE
    68,          // PR_GET_MEMORY_MERGE
    78,          // PR_FUTEX_HASH
    0x4155_5856, // PR_GET_AUXV
    0x5356_4d41, // PR_SET_VMA: names for memory
    0x5961_6d61, // PR_SET_PTRACER: nothing here can trace
];

impl ArgumentCondition {
    /// True when the condition holds for these registers.
    #[must_use]
    pub fn matches(&self, arguments: &[u64; 6]) -> bool {
        let register = arguments
            .get(usize::from(self.argument))
            .copied()
            .unwrap_or(0);
        // The lower half, as the condition's bits all lie there.
        let value = u32::try_from(register & u64::from(self.bits)).unwrap_or(0);
        match self.test {
            BitTest::Is(values) => values.contains(&value),
            BitTest::IsNot(values) => !values.contains(&value),
            BitTest::IsSet => value != 0,
        }
    }
}

impl ArgumentRefusal {
    /// True when the refusal is of this call with these registers.
    #[must_use]
    pub fn matches(&self, syscall: &str, arguments: &[u64; 6]) -> bool {
        self.syscalls.contains(&syscall) && self.when.iter().all(|one| one.matches(arguments))
    }
}

/// The refusals in a jail of this policy, in the order in which they are asked.
pub fn refusals(policy: &SyscallPolicy) -> impl Iterator<Item = &'static ArgumentRefusal> {
    REFUSALS
        .iter()
        .filter(|refusal| refusal.only.covers(policy))
}

/// The first refusal that speaks of these arguments of an allowed syscall; it is the one that answers.
#[must_use]
pub fn refusal(
    policy: &SyscallPolicy,
    syscall: &str,
    arguments: &[u64; 6],
) -> Option<&'static ArgumentRefusal> {
    refusals(policy).find(|refusal| refusal.matches(syscall, arguments))
}

/// The filter's answer to these arguments of an allowed syscall, when it does not let them
/// through: the meaning that the emitted program is tested against.
#[must_use]
pub fn refused(
    policy: &SyscallPolicy,
    syscall: &str,
    arguments: &[u64; 6],
) -> Option<RefusalErrno> {
    refusal(policy, syscall, arguments).map(|refusal| refusal.answer)
}

#[cfg(test)]
mod tests;
