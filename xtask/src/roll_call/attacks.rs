//! The attacks on the jail that are known from other runners, in the words of one line.

/// One of them.
#[derive(Debug)]
pub struct Attack {
    /// `J01` to `J60`.
    pub id: &'static str,
    /// For people.
    pub title: &'static str,
}

const fn attack(id: &'static str, title: &'static str) -> Attack {
    Attack { id, title }
}

/// All of them, by id.
pub const ATTACKS: &[Attack] = &[
    attack("J01", "the target of a mount is a symlink"),
    attack("J02", "`..` in a destination"),
    attack("J03", "the source of a mask is a symlink"),
    attack("J04", "the console or a terminal is a symlink"),
    attack("J05", "/dev is a symlink"),
    attack("J06", "/proc or /sys is a symlink or no procfs"),
    attack("J07", "a directory swapped for a symlink in between"),
    attack("J08", "empty files left on the host"),
    attack("J09", "restrictions miss what is mounted below"),
    attack("J10", "a mount flag that cannot be set is ignored"),
    attack("J11", "/proc without its restrictions"),
    attack("J12", "a temporary path that an attacker planted"),
    attack("J13", "litter in the user's tree"),
    attack("J14", "the control group file system is writable"),
    attack("J15", "a directory descriptor of the caller"),
    attack("J16", "the runner is overwritten"),
    attack("J17", "a program by another spelling"),
    attack("J18", "a program started by the loader"),
    attack("J19", "a program in memory"),
    attack("J20", "foreign code by environment"),
    attack("J21", "a set-user-id program"),
    attack("J22", "capabilities that stay"),
    attack("J23", "calls of x32"),
    attack("J24", "calls of ia32"),
    attack("J25", "io_uring"),
    attack("J26", "64 bits compared where 32 count"),
    attack("J27", "clone3 with hidden flags"),
    attack("J28", "calls that nobody knows yet"),
    attack("J29", "a filter that was not installed"),
    attack("J30", "gaps of the filter"),
    attack("J31", "the first exec refused by its own rule"),
    attack("J32", "a decision on memory that changes"),
    attack("J33", "a decision that never comes"),
    attack("J34", "keys left for a later run"),
    attack("J35", "sockets to the hypervisor"),
    attack("J36", "abstract sockets of the host"),
    attack("J37", "socket files of the host"),
    attack("J38", "locks and leases as a channel"),
    attack("J39", "shared memory and queues"),
    attack("J40", "settings of the kernel"),
    attack("J41", "a crash handler of the host"),
    attack("J42", "release_agent of control groups v1"),
    attack("J43", "mounts, devices, other namespaces"),
    attack("J44", "a user namespace of its own"),
    attack("J45", "calls that look into others or the kernel"),
    attack("J46", "memory of the supervisor and siblings"),
    attack("J47", "signals to the outside"),
    attack("J48", "joining a jail through its namespaces"),
    attack("J49", "typing into the caller's terminal"),
    attack("J50", "a caller that ignores its children"),
    attack("J51", "processes that outlive the run"),
    attack("J52", "more memory than allowed"),
    attack("J53", "more processor time than allowed"),
    attack("J54", "more output than anyone reads"),
    attack("J55", "more disk than allowed, hostile names"),
    attack("J56", "results that are symlinks or devices"),
    attack("J57", "a hostile tree at clean-up"),
    attack("J58", "the next run's profile"),
    attack("J59", "Landlock that is not there"),
    attack("J60", "user namespaces off by AppArmor"),
];
