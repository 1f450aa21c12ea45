//! The tests that are expected on each kernel: the one place where one is left out, with the reason.
//!
//! A new end-to-end test is expected in the guest unless a line below says otherwise. A line that
//! fits no test is an error, so that the list cannot grow stale.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use super::contents::{Disk, ORDINARY, PACKAGED, PROGRAMS};
use super::kernel::{Build, CLOUD_6_1, CLOUD_6_12, GENERAL_6_12, NEWEST};
use super::left_out::{
    BY_TIER, NOT_AMONG_PROGRAMS, NOT_BY_TIER, NOT_IN_THE_GUEST, NOT_LIVE_IN_THE_GUEST,
};

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
    /// The tests that must run, and pass.
    pub tests: &'static [Tests],
    /// The number of such machines that share the tests: each is one thread of the host.
    pub copies: usize,
    /// The machine's memory.
    pub megabytes: u32,
    /// The reason why it is booted only when it is named; `None`: always.
    pub only_named: Option<&'static str>,
}

/// A choice of tests.
pub enum Tests {
    /// All of the binary but these.
    AllBut(&'static str, &'static [LeftOut]),
    /// The binary's tests that begin with one of these; why not the others.
    Only(&'static str, &'static [&'static str], &'static str),
    /// The binary's tests that begin with one of these, but not these. The others are for other
    /// machines.
    Part(&'static str, &'static [&'static str], &'static [LeftOut]),
    /// The binary's tests that begin so. The others are for other machines.
    Module(&'static str, &'static str),
}

/// Tests that are not run in a guest.
pub struct LeftOut {
    /// The beginning of their names.
    pub prefix: &'static str,
    /// The reason why nothing is lost.
    pub why: &'static str,
}

/// Debian's own list of security modules without bpf: what is left is the tracepoint tier.
const WITHOUT_BPF: &str = "lsm=landlock,lockdown,yama,apparmor";

const LSM_6_12: Boot = Boot {
    name: "6.12 lsm",
    kernel: &CLOUD_6_12,
    command_line: "",
};
const TRACEPOINT_6_12: Boot = Boot {
    name: "6.12 tracepoint",
    kernel: &CLOUD_6_12,
    command_line: WITHOUT_BPF,
};
const WITHOUT_LANDLOCK: Boot = Boot {
    name: "6.12 without Landlock",
    kernel: &CLOUD_6_12,
    // Debian's own list without landlock.
    command_line: "lsm=lockdown,yama,apparmor,bpf",
};
const LSM_6_1: Boot = Boot {
    name: "6.1 lsm",
    kernel: &CLOUD_6_1,
    command_line: "",
};
const TRACEPOINT_6_1: Boot = Boot {
    name: "6.1 tracepoint",
    kernel: &CLOUD_6_1,
    command_line: WITHOUT_BPF,
};
/// With the programs that people run under the shipped profiles, on a disk that has them.
const PROGRAMS_6_12: Boot = Boot {
    name: "6.12 programs",
    kernel: &CLOUD_6_12,
    command_line: "",
};
/// Debian's kernels leave a task that is in the kernel alone, and others do not.
const PREEMPTS: &str = "preempt=full";

const PREEMPT_6_12: Boot = Boot {
    name: "6.12 preempt",
    kernel: &CLOUD_6_12,
    command_line: PREEMPTS,
};
const PREEMPT_6_1: Boot = Boot {
    name: "6.1 preempt",
    kernel: &CLOUD_6_1,
    command_line: PREEMPTS,
};
/// Debian builds x32 into its general kernel, and switches it off unless this is said.
const GENERAL: Boot = Boot {
    name: "6.12 general",
    kernel: &GENERAL_6_12,
    command_line: "syscall.x32=y",
};

const LSM_NEWEST: Boot = Boot {
    name: "newest lsm",
    kernel: &NEWEST,
    command_line: "",
};
const TRACEPOINT_NEWEST: Boot = Boot {
    name: "newest tracepoint",
    kernel: &NEWEST,
    // Where nothing but tracepoints decides, whoever interrupts them is to have it easy.
    command_line: "lsm=landlock,lockdown,yama,apparmor preempt=full",
};
const PREEMPT_NEWEST: Boot = Boot {
    name: "newest preempt",
    kernel: &NEWEST,
    command_line: PREEMPTS,
};

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

/// The machine that `cargo xtask test` boots.
pub const BY_DAY: &str = "6.12 by day";

/// Every machine of `cargo xtask vm`.
pub const MACHINES: &[Machine] = &[
    // What it takes BPF LSM, a pure version 2 of control groups or another kernel to show, as far as that takes no
    // longer than somebody wants to wait.
    Machine {
        name: BY_DAY,
        boot: &LSM_6_12,
        disk: &ORDINARY,
        tests: &[
            Tests::Module("guest", "lsm::"),
            Tests::Module("guest", "tier::lsm::"),
            Tests::Module("e2e", "limits::a_fork_bomb"),
            Tests::Module("e2e", "limits::swap"),
            Tests::Module("e2e", "limits::threads"),
            Tests::Module("live", "live::open::"),
            Tests::Module("live", "live::objects::"),
            Tests::Module("live", "live::actors::m09_code"),
            Tests::Module("observer", "by_day::"),
        ],
        copies: 2,
        megabytes: MEMORY,
        only_named: Some("other machines have its tests, and more"),
    },
    Machine {
        name: "6.12",
        boot: &LSM_6_12,
        disk: &ORDINARY,
        tests: &[Tests::AllBut("e2e", NOT_IN_THE_GUEST)],
        copies: 2,
        megabytes: MEMORY,
        only_named: None,
    },
    Machine {
        name: "6.12 lsm",
        boot: &LSM_6_12,
        disk: &ORDINARY,
        tests: &[
            Tests::Module("guest", "lsm::"),
            Tests::Module("guest", "tier::lsm::"),
            Tests::Module("guest", "tier::price::"),
            Tests::Module("guest", "apparmor::"),
            Tests::Module("guest", "alone::"),
            Tests::Module("guest", "containers::"),
            Tests::Module("guest", "pids::"),
        ],
        copies: 1,
        megabytes: MEMORY,
        only_named: None,
    },
    Machine {
        name: "6.12 observer",
        boot: &LSM_6_12,
        disk: &ORDINARY,
        tests: &[Tests::Module("observer", "long::")],
        copies: 2,
        megabytes: MEMORY,
        only_named: Some("it is for who changes what is told; another machine has a short run"),
    },
    Machine {
        name: "6.12 crowd",
        boot: &LSM_6_12,
        disk: &ORDINARY,
        tests: &[Tests::Module("guest", "crowd::")],
        copies: 1,
        // A process takes some thirty kilobytes of the kernel's memory.
        megabytes: 6144,
        only_named: None,
    },
    Machine {
        name: "6.12 systemd",
        boot: &LSM_6_12,
        disk: &ORDINARY,
        tests: &[Tests::Module("guest", "systemd::")],
        copies: 1,
        megabytes: MEMORY,
        only_named: None,
    },
    Machine {
        name: "6.12 packaged",
        boot: &LSM_6_12,
        disk: &PACKAGED,
        tests: &[Tests::Module("guest", "packaged::")],
        copies: 1,
        megabytes: MEMORY,
        only_named: None,
    },
    Machine {
        name: "6.12 monitor",
        boot: &LSM_6_12,
        disk: &ORDINARY,
        tests: &[Tests::AllBut("live", NOT_LIVE_IN_THE_GUEST)],
        copies: 2,
        megabytes: MEMORY,
        only_named: None,
    },
    Machine {
        name: "6.12 tracepoint",
        boot: &TRACEPOINT_6_12,
        disk: &ORDINARY,
        tests: &[
            Tests::Only("live", BY_TIER, NOT_BY_TIER),
            Tests::Module("guest", "tier::tracepoint::"),
            Tests::Module("guest", "pids::"),
        ],
        copies: 1,
        megabytes: MEMORY,
        only_named: None,
    },
    Machine {
        name: "6.12 without Landlock",
        boot: &WITHOUT_LANDLOCK,
        disk: &ORDINARY,
        tests: &[Tests::Module("guest", "without_landlock::")],
        copies: 1,
        megabytes: MEMORY,
        only_named: None,
    },
    Machine {
        name: "6.1 monitor",
        boot: &LSM_6_1,
        disk: &ORDINARY,
        tests: &[
            Tests::Only("live", BY_TIER, NOT_BY_TIER),
            Tests::Module("guest", "tier::lsm::"),
        ],
        copies: 1,
        megabytes: MEMORY,
        only_named: None,
    },
    Machine {
        name: "6.1 tracepoint",
        boot: &TRACEPOINT_6_1,
        disk: &ORDINARY,
        tests: &[
            Tests::Only("live", BY_TIER, NOT_BY_TIER),
            Tests::Module("guest", "tier::tracepoint::"),
            Tests::Module("e2e", "left_loaded::"),
        ],
        copies: 1,
        megabytes: MEMORY,
        only_named: None,
    },
    Machine {
        name: "6.1",
        boot: &LSM_6_1,
        disk: &ORDINARY,
        tests: &[Tests::Module("guest", "oldest::")],
        copies: 1,
        megabytes: MEMORY,
        only_named: None,
    },
    Machine {
        name: "6.12 preempt",
        boot: &PREEMPT_6_12,
        disk: &ORDINARY,
        tests: &[Tests::Module("guest", "preempt::whole::")],
        copies: 1,
        megabytes: MEMORY,
        only_named: None,
    },
    Machine {
        name: "6.1 preempt",
        boot: &PREEMPT_6_1,
        disk: &ORDINARY,
        tests: &[Tests::Module("guest", "preempt::whole::")],
        copies: 1,
        megabytes: MEMORY,
        only_named: None,
    },
    Machine {
        name: "6.12 general",
        boot: &GENERAL,
        disk: &ORDINARY,
        tests: &[
            Tests::Module("e2e", "syscalls::j23"),
            Tests::Module("e2e", "monitor::calls::m14"),
            Tests::Module("e2e", "procfs::j40"),
        ],
        copies: 1,
        megabytes: MEMORY,
        only_named: None,
    },
    Machine {
        name: "6.12 programs",
        boot: &PROGRAMS_6_12,
        disk: &PROGRAMS,
        tests: &[Tests::Part(
            "e2e",
            &["guide::", "learn::", "profiles::", "progress::", "report::"],
            NOT_AMONG_PROGRAMS,
        )],
        copies: 2,
        megabytes: 3072,
        only_named: Some(TAKES_LONG),
    },
    Machine {
        name: "newest",
        boot: &LSM_NEWEST,
        disk: &ORDINARY,
        tests: &[
            Tests::AllBut("live", NOT_LIVE_IN_THE_GUEST),
            Tests::Module("guest", "tier::lsm::"),
            Tests::Module("guest", "lsm::"),
            Tests::Module("guest", "preempt::whole::"),
            Tests::Module("e2e", "left_loaded::"),
        ],
        copies: 1,
        megabytes: MEMORY,
        only_named: Some(CHANGES),
    },
    Machine {
        name: "newest tracepoint",
        boot: &TRACEPOINT_NEWEST,
        disk: &ORDINARY,
        tests: &[
            Tests::AllBut("live", NOT_LIVE_IN_THE_GUEST),
            Tests::Module("guest", "tier::tracepoint::"),
            Tests::Module("guest", "preempt::kills::"),
            Tests::Module("e2e", "left_loaded::"),
        ],
        copies: 1,
        megabytes: MEMORY,
        only_named: Some(CHANGES),
    },
    Machine {
        name: "newest preempt",
        boot: &PREEMPT_NEWEST,
        disk: &ORDINARY,
        tests: &[Tests::Module("guest", "preempt::whole::")],
        copies: 1,
        megabytes: MEMORY,
        only_named: Some(CHANGES),
    },
];

const TAKES_LONG: &str = "interpreters and compilers take an emulated processor most of an hour";

const CHANGES: &str = "the kernel is another one from week to week, and no change of ours";

impl Tests {
    /// The test binary.
    pub fn binary(&self) -> &'static str {
        match self {
            Tests::AllBut(binary, _)
            | Tests::Only(binary, ..)
            | Tests::Part(binary, ..)
            | Tests::Module(binary, _) => binary,
        }
    }

    /// The tests of the binary that are expected to run, and those that are not with the reason.
    pub fn choose(&self, all: &[String]) -> Result<Choice> {
        if let Tests::AllBut(_, left_out) | Tests::Part(_, _, left_out) = self {
            refuse_stale(left_out, all)?;
        }
        let mut choice = Choice::default();
        for name in all {
            match self.why_not(name) {
                Answer::Runs => choice.run.push(name.clone()),
                Answer::LeftOut(why) => choice.left_out.push((name.clone(), why)),
                Answer::IsForOthers => {}
            }
        }
        if choice.run.is_empty() {
            bail!("no test of `{}` would run in the guest", self.binary());
        }
        Ok(choice)
    }

    fn why_not(&self, name: &str) -> Answer {
        let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        match self {
            Tests::Part(_, prefixes, _) if !begins(prefixes) => Answer::IsForOthers,
            Tests::AllBut(_, left_out) | Tests::Part(_, _, left_out) => left_out
                .iter()
                .find(|it| name.starts_with(it.prefix))
                .map_or(Answer::Runs, |it| Answer::LeftOut(it.why)),
            Tests::Only(_, prefixes, why) => {
                if begins(prefixes) {
                    Answer::Runs
                } else {
                    Answer::LeftOut(why)
                }
            }
            Tests::Module(_, prefix) if name.starts_with(prefix) => Answer::Runs,
            Tests::Module(..) => Answer::IsForOthers,
        }
    }
}

/// The fate of a test on a machine.
enum Answer {
    Runs,
    LeftOut(&'static str),
    IsForOthers,
}

/// The tests of a binary on a machine.
#[derive(Debug, Default)]
pub struct Choice {
    /// Expected.
    pub run: Vec<String>,
    /// Not expected, and why.
    pub left_out: Vec<(String, &'static str)>,
}

fn refuse_stale(left_out: &[LeftOut], all: &[String]) -> Result<()> {
    for line in left_out {
        if !all.iter().any(|name| name.starts_with(line.prefix)) {
            bail!(
                "tests/machines/src/left_out.rs leaves out `{}` ({}), and no test begins so",
                line.prefix,
                line.why
            );
        }
    }
    Ok(())
}

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

    const OUT: &[LeftOut] = &[LeftOut {
        prefix: "usage::",
        why: "a test",
    }];

    #[test]
    fn new_test_is_expected_by_default() {
        let all = names(&["limits::old", "limits::new", "usage::flag"]);
        let chosen = Tests::AllBut("e2e", OUT).choose(&all).expect("fits");
        assert_eq!(chosen.run, ["limits::old", "limits::new"]);
        assert_eq!(chosen.left_out, [("usage::flag".to_owned(), "a test")]);
    }

    #[test]
    fn line_that_fits_no_test_is_refused() {
        let error = Tests::AllBut("e2e", OUT).choose(&names(&["limits::old"]));
        assert!(error.expect_err("stale").to_string().contains("usage::"));
    }

    #[test]
    fn what_only_some_are_run_of_leaves_the_others_out_with_a_reason() {
        let all = names(&["open::a", "exec::b", "network::c"]);
        let only = Tests::Only("live", &["open::", "exec::"], "slow");
        let chosen = only.choose(&all).expect("fits");
        assert_eq!(chosen.run, ["open::a", "exec::b"]);
        assert_eq!(chosen.left_out, [("network::c".to_owned(), "slow")]);
    }

    #[test]
    fn part_leaves_out_with_a_reason_and_the_rest_to_others() {
        let all = names(&["usage::flag", "usage::word", "limits::old", "open::a"]);
        const WORD: &[LeftOut] = &[LeftOut {
            prefix: "usage::word",
            why: "a test",
        }];
        let part = Tests::Part("e2e", &["usage::", "limits::"], WORD);
        let chosen = part.choose(&all).expect("fits");
        assert_eq!(chosen.run, ["usage::flag", "limits::old"]);
        assert_eq!(chosen.left_out, [("usage::word".to_owned(), "a test")]);
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
    fn module_without_tests_is_refused() {
        assert!(
            Tests::Module("guest", "gone::")
                .choose(&names(&["here::x"]))
                .is_err()
        );
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

    #[test]
    fn every_line_says_why() {
        for list in [NOT_IN_THE_GUEST, NOT_AMONG_PROGRAMS, NOT_LIVE_IN_THE_GUEST] {
            assert!(list.iter().all(|line| !line.why.is_empty()));
        }
    }
}
