//! The list in which each test stands: those that `cargo xtask test` runs, for people who wait, and those of the night.
//!
//! A new test is run by `cargo xtask test`, where it may take two seconds, unless a line below says otherwise. A
//! line that fits no test is an error, so that the list cannot grow stale. The tests that run in guests have their
//! own lists, in tests/machines/src/.

use anyhow::{Result, bail};

/// Tests that `cargo xtask test --nightly` runs besides.
pub struct Nightly {
    /// The test binary: the name of its target, or of the package for unit tests.
    binary: &'static str,
    /// The beginning of their names.
    prefix: &'static str,
    /// The reason why they take longer than somebody wants to wait for, and what stands in for them by day.
    why: &'static str,
}

/// The one table.
pub const NIGHTLY: &[Nightly] = &[
    Nightly {
        binary: "e2e",
        prefix: "allowed::j51_a_relay",
        why: "waits until the kernel has let go of connections; `lifetime::` has what a killed turnkey leaves",
    },
    Nightly {
        binary: "e2e",
        prefix: "allowed::who_does_not_read",
        why: "fills buffers to their end; `allowed::j68_` has their bound",
    },
    Nightly {
        binary: "e2e",
        prefix: "attach::required::at_twenty",
        why: "twenty-four watchers, each with programs of its own; `attach::required::at_a_moment` kills three",
    },
    Nightly {
        binary: "e2e",
        prefix: "attach::robust::a_thousand_times",
        why: "a thousand attachments pay the verifier; `attach::robust::a_busy_group` has two",
    },
    Nightly {
        binary: "e2e",
        prefix: "attach::robust::ten_thousand",
        why: "ten thousand processes; `attach::everybody_is_found` has many groups",
    },
    Nightly {
        binary: "e2e",
        prefix: "behaviours::a_program_that_waits_for_the_end",
        why: "it waits, as the program does that it is about; the other behaviours do not",
    },
    Nightly {
        binary: "e2e",
        prefix: "bombs::j53_spinners",
        why: "five seconds of a clock; `bombs::j53_a_sleeper` has it by day",
    },
    Nightly {
        binary: "e2e",
        prefix: "bombs::j53_the_processor_time",
        why: "five seconds of a clock; `limits::` has it by day",
    },
    Nightly {
        binary: "e2e",
        prefix: "crowd::",
        why: "two hundred jails take the whole machine; `lifetime::` kills one",
    },
    Nightly {
        binary: "e2e",
        prefix: "faults_of_the_monitor::a_failure_of_the_monitor",
        why: "a run for each call of the monitor that can fail; `faults::` has those of the jail",
    },
    Nightly {
        binary: "e2e",
        prefix: "files::j55_",
        why: "a hundred thousand files; `hostile::j55_` and the tests of rendering have the names",
    },
    Nightly {
        binary: "e2e",
        prefix: "guide::packages",
        why: "an installer reads the database of packages at each step; `layers::packages::` has a small one",
    },
    Nightly {
        binary: "e2e",
        prefix: "guide::profiles",
        why: "every command of a long walk; `guide::` has the other one",
    },
    Nightly {
        binary: "e2e",
        prefix: "learn::examples::",
        why: "each example is learned from and run again; `learn::` has what learning is",
    },
    Nightly {
        binary: "e2e",
        prefix: "learn::network::a_host_that_was_tried",
        why: "waits for connections that nobody answers; the others of `learn::network::` do not",
    },
    Nightly {
        binary: "e2e",
        prefix: "monitor::evidence::m20_j64_a_flood",
        why: "floods; `live::evidence::m20_a_flood_of_violations` has one by day",
    },
    Nightly {
        binary: "e2e",
        prefix: "monitor::evidence::m21_many_processes",
        why: "twenty thousand processes; `live::shared::m21_` has jails that take all they can",
    },
    Nightly {
        binary: "e2e",
        prefix: "monitor::trust::m33_programs_that_are_loaded",
        why: "a run under ptrace for each program that does not act; `m33_a_run_whose_start` has one by day",
    },
    Nightly {
        binary: "e2e",
        prefix: "profiles::go::",
        why: "the compiler takes its time; `interfaces::` and `profiles::compile::` have what the profile is made of",
    },
    Nightly {
        binary: "e2e",
        prefix: "profiles::python::an_environment_of_the_workspace_with_pips",
        why: "pip is slow wherever it runs; an environment without it is made by day",
    },
    Nightly {
        binary: "e2e",
        prefix: "profiles::python::pip",
        why: "pip is slow wherever it runs",
    },
    Nightly {
        binary: "e2e",
        prefix: "profiles::rust::six_programs",
        why: "six programs are compiled; `profiles::rust::one_file` compiles one",
    },
    Nightly {
        binary: "e2e",
        prefix: "progress::a_short_run",
        why: "waits for what must not appear",
    },
    Nightly {
        binary: "e2e",
        prefix: "rootless::again::j23_",
        why: "every number once more; `syscalls::j23_` has them by day, and other callers `rootless::`",
    },
    Nightly {
        binary: "e2e",
        prefix: "shared::a_flood_in_one_jail",
        why: "floods; the other tests of `shared::` have what jails share",
    },
    Nightly {
        binary: "e2e",
        prefix: "shared::a_folder_that_somebody_else_made",
        why: "loads the programs for each kind of folder; `shared::what_somebody_else` has one",
    },
    Nightly {
        binary: "e2e",
        prefix: "sinks::a_receiver_that_never_answers",
        why: "five seconds of a clock; the tests of the queue have it by day",
    },
    Nightly {
        binary: "live",
        prefix: "live::evidence::m20_a_flood_of_opens",
        why: "floods; `live::evidence::m20_a_flood_of_violations` has one by day",
    },
    Nightly {
        binary: "live",
        prefix: "live::evidence::m20_a_million",
        why: "a million; `live::evidence::m20_a_flood_of_violations` has fewer",
    },
    Nightly {
        binary: "live",
        prefix: "live::faults::m34_a_file_that_is_not_known",
        why: "a run for each way; `m34_an_argument` and `m34_full_rings` are by day",
    },
    Nightly {
        binary: "live",
        prefix: "live::faults::m34_an_exec_that_is_not_known",
        why: "a run for each way; `m34_an_argument` and `m34_full_rings` are by day",
    },
    Nightly {
        binary: "live",
        prefix: "live::shared::a_group_that_somebody_else_takes",
        why: "loads and unloads in turns; needs the machine for itself",
    },
];

impl Nightly {
    fn has(&self, binary: &str, test: &str) -> bool {
        self.binary == binary && test.starts_with(self.prefix)
    }
}

/// True when a test is left to the night.
pub fn is_nightly(binary: &str, test: &str) -> bool {
    NIGHTLY.iter().any(|line| line.has(binary, test))
}

/// The tests for nextest to run, as one of its filter expressions.
pub fn filter() -> String {
    let lines: Vec<String> = NIGHTLY
        .iter()
        .map(|line| format!("(binary(={}) & test(/^{}/))", line.binary, line.prefix))
        .collect();
    match lines.as_slice() {
        [] => "all()".to_owned(),
        _ => format!("not ({})", lines.join(" | ")),
    }
}

/// Refuses a line that fits none of the tests, each given by its binary and its name.
pub fn refuse_stale(tests: &[(String, String)]) -> Result<()> {
    for line in NIGHTLY {
        if !tests.iter().any(|(binary, test)| line.has(binary, test)) {
            bail!(
                "xtask/src/test/lists.rs leaves `{} {}` to the night ({}), and no test begins so",
                line.binary,
                line.prefix,
                line.why
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_and_say_why() {
        let keys = |line: &Nightly| (line.binary, line.prefix);
        assert!(NIGHTLY.is_sorted_by_key(keys));
        assert!(NIGHTLY.iter().all(|line| !line.why.is_empty()));
    }

    #[test]
    fn prefix_means_the_same_to_nextest_as_here() {
        // Letters, digits, `_` and `:` alone: nothing of a regular expression.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
        for line in NIGHTLY {
            assert!(line.prefix.bytes().all(is_plain), "{}", line.prefix);
        }
    }
}
