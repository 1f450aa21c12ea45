//! The machines that `cargo xtask vm` boots: kernel, disk, memory, copies. A test says itself on which of them it runs, and why
//! it does not: tests/expectations/.

use std::collections::BTreeSet;

use turnkey_expectations::machine;

use super::contents::{Disk, ORDINARY, PACKAGED, PROGRAMS};
use super::kernel::{Build, CLOUD_6_1, CLOUD_6_12, GENERAL_6_12, NEWEST};

/// A kernel and how it is started: a column of docs/kernel-support.md.
pub struct Boot {
    /// As the table names it.
    pub name: &'static str,
    /// The kernel.
    pub kernel: &'static Build,
    /// The addition to the kernel's command line.
    pub command_line: &'static str,
}

/// One machine to boot.
pub struct Machine {
    /// As the output names it.
    pub name: &'static str,
    /// The kernel and its command line.
    pub boot: &'static Boot,
    /// With which root file system.
    pub disk: &'static Disk,
    /// The number of such machines that share the tests: each is one thread of the host.
    pub copies: usize,
    /// The machine's memory.
    pub megabytes: u32,
    /// The number of its CPUs.
    pub cpus: u32,
    /// The reason why it is booted only when it is named; `None`: always.
    pub only_named: Option<&'static str>,
}

/// Debian's own list of security modules without bpf: what is left is the tracepoint tier.
const WITHOUT_BPF: &str = "lsm=landlock,lockdown,yama,apparmor";

const fn boot(name: &'static str, kernel: &'static Build, command_line: &'static str) -> Boot {
    Boot {
        name,
        kernel,
        command_line,
    }
}

const LSM_6_12: Boot = boot("6.12 lsm", &CLOUD_6_12, "");
const TRACEPOINT_6_12: Boot = boot("6.12 tracepoint", &CLOUD_6_12, WITHOUT_BPF);
// Debian's own list without landlock.
const WITHOUT_LANDLOCK: Boot = boot(
    "6.12 without Landlock",
    &CLOUD_6_12,
    "lsm=lockdown,yama,apparmor,bpf",
);
const LSM_6_1: Boot = boot("6.1 lsm", &CLOUD_6_1, "");
const TRACEPOINT_6_1: Boot = boot("6.1 tracepoint", &CLOUD_6_1, WITHOUT_BPF);
/// With the programs that people run under the shipped profiles, on a disk that has them.
const PROGRAMS_6_12: Boot = boot("6.12 programs", &CLOUD_6_12, "");
/// Debian's kernels leave a task that is in the kernel alone, and others do not.
const PREEMPTS: &str = "preempt=full";

const PREEMPT_6_12: Boot = boot("6.12 preempt", &CLOUD_6_12, PREEMPTS);
const PREEMPT_6_1: Boot = boot("6.1 preempt", &CLOUD_6_1, PREEMPTS);
/// Debian builds x32 into its general kernel, and switches it off unless this is said.
const GENERAL: Boot = boot("6.12 general", &GENERAL_6_12, "syscall.x32=y");

const LSM_NEWEST: Boot = boot("newest lsm", &NEWEST, "");
// Where nothing but tracepoints decides, whoever interrupts them is to have it easy.
const TRACEPOINT_NEWEST: Boot = boot(
    "newest tracepoint",
    &NEWEST,
    "lsm=landlock,lockdown,yama,apparmor preempt=full",
);
const PREEMPT_NEWEST: Boot = boot("newest preempt", &NEWEST, PREEMPTS);

/// Every column of the table but the host's, in order.
pub const BOOTS: &[&Boot] = &[
    &LSM_6_12,
    &PROGRAMS_6_12,
    &TRACEPOINT_6_12,
    &LSM_6_1,
    &TRACEPOINT_6_1,
    &WITHOUT_LANDLOCK,
    &PREEMPT_6_12,
    &PREEMPT_6_1,
    &GENERAL,
    &LSM_NEWEST,
    &TRACEPOINT_NEWEST,
    &PREEMPT_NEWEST,
];

/// The memory of an ordinary machine, in megabytes.
const MEMORY: u32 = 1024;

/// The CPUs of an ordinary machine.
const CPUS: u32 = 1;

/// Every machine of `cargo xtask vm`.
pub const MACHINES: &[Machine] = &[
    Machine {
        name: machine::BY_DAY,
        boot: &LSM_6_12,
        disk: &ORDINARY,
        copies: 2,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: Some("other machines have its tests, and more"),
    },
    Machine {
        name: machine::ORDINARY_6_12,
        boot: &LSM_6_12,
        disk: &ORDINARY,
        copies: 2,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: None,
    },
    Machine {
        name: machine::LSM_6_12,
        boot: &LSM_6_12,
        disk: &ORDINARY,
        copies: 1,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: None,
    },
    Machine {
        name: machine::OBSERVER_6_12,
        boot: &LSM_6_12,
        disk: &ORDINARY,
        copies: 2,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: Some("it is for who changes what is told; another machine has a short run"),
    },
    Machine {
        name: machine::CROWD_6_12,
        boot: &LSM_6_12,
        disk: &ORDINARY,
        copies: 1,
        // A process takes some thirty kilobytes of the kernel's memory.
        megabytes: 6144,
        cpus: CPUS,
        only_named: None,
    },
    Machine {
        name: machine::SYSTEMD_6_12,
        boot: &LSM_6_12,
        disk: &ORDINARY,
        copies: 1,
        megabytes: MEMORY,
        // Where a test says which of them a program may have.
        cpus: 2,
        only_named: None,
    },
    Machine {
        name: machine::PACKAGED_6_12,
        boot: &LSM_6_12,
        disk: &PACKAGED,
        copies: 1,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: None,
    },
    Machine {
        name: machine::MONITOR_6_12,
        boot: &LSM_6_12,
        disk: &ORDINARY,
        copies: 2,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: None,
    },
    Machine {
        name: machine::TRACEPOINT_6_12,
        boot: &TRACEPOINT_6_12,
        disk: &ORDINARY,
        copies: 1,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: None,
    },
    Machine {
        name: machine::WITHOUT_LANDLOCK_6_12,
        boot: &WITHOUT_LANDLOCK,
        disk: &ORDINARY,
        copies: 1,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: None,
    },
    Machine {
        name: machine::MONITOR_6_1,
        boot: &LSM_6_1,
        disk: &ORDINARY,
        copies: 1,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: None,
    },
    Machine {
        name: machine::TRACEPOINT_6_1,
        boot: &TRACEPOINT_6_1,
        disk: &ORDINARY,
        copies: 1,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: None,
    },
    Machine {
        name: machine::OLDEST_6_1,
        boot: &LSM_6_1,
        disk: &ORDINARY,
        copies: 1,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: None,
    },
    Machine {
        name: machine::PREEMPT_6_12,
        boot: &PREEMPT_6_12,
        disk: &ORDINARY,
        copies: 1,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: None,
    },
    Machine {
        name: machine::PREEMPT_6_1,
        boot: &PREEMPT_6_1,
        disk: &ORDINARY,
        copies: 1,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: None,
    },
    Machine {
        name: machine::GENERAL_6_12,
        boot: &GENERAL,
        disk: &ORDINARY,
        copies: 1,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: None,
    },
    Machine {
        name: machine::PROGRAMS_6_12,
        boot: &PROGRAMS_6_12,
        disk: &PROGRAMS,
        copies: 2,
        megabytes: 3072,
        cpus: CPUS,
        only_named: Some(TAKES_LONG),
    },
    Machine {
        name: machine::NEWEST,
        boot: &LSM_NEWEST,
        disk: &ORDINARY,
        copies: 1,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: Some(CHANGES),
    },
    Machine {
        name: machine::NEWEST_TRACEPOINT,
        boot: &TRACEPOINT_NEWEST,
        disk: &ORDINARY,
        copies: 1,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: Some(CHANGES),
    },
    Machine {
        name: machine::NEWEST_PREEMPT,
        boot: &PREEMPT_NEWEST,
        disk: &ORDINARY,
        copies: 1,
        megabytes: MEMORY,
        cpus: CPUS,
        only_named: Some(CHANGES),
    },
];

const TAKES_LONG: &str = "interpreters and compilers take an emulated CPU most of an hour";

const CHANGES: &str = "the kernel is another one from week to week, and no change of ours";

/// The tests of one machine, dealt out to its copies.
pub fn deal(tests: &[String], copies: usize) -> Vec<Vec<String>> {
    let copies = copies.max(1);
    let hand = |first| tests.iter().skip(first).step_by(copies).cloned().collect();
    (0..copies)
        .map(hand)
        .filter(|hand: &Vec<_>| !hand.is_empty())
        .collect()
}

/// The expected tests that have not passed, as a set of what is missing.
pub fn missing<'a>(expected: &'a [String], passed: &BTreeSet<String>) -> Vec<&'a str> {
    let absent = expected.iter().filter(|test| !passed.contains(*test));
    absent.map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn every_boot_has_a_machine_and_every_machine_a_column() {
        for boot in BOOTS {
            assert!(MACHINES.iter().any(|it| it.boot.name == boot.name));
        }
        for machine in MACHINES {
            assert!(BOOTS.iter().any(|it| it.name == machine.boot.name));
        }
    }

    #[test]
    fn every_test_is_dealt_once() {
        let tests = names(&["a", "b", "c"]);
        assert_eq!(deal(&tests, 2), [names(&["a", "c"]), names(&["b"])]);
        assert_eq!(deal(&tests, 5).len(), 3, "no machine without a test");
    }

    #[test]
    fn test_that_did_not_pass_is_missing() {
        let passed = BTreeSet::from(["a".to_owned()]);
        assert_eq!(missing(&names(&["a", "b"]), &passed), ["b"]);
    }
}
