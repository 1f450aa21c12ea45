//! Processes of others that are ended or traced, and those that the run itself has started.

use super::*;

#[test]
fn ending_processes_by_name_or_all_is_process_killing() {
    let expected = Behaviour::ProcessKilling;
    names(
        |story| {
            story.exec(P, "/usr/bin/pgrep", &["pkill", "-9", "sshd"]);
        },
        expected,
    );
    names(
        |story| {
            story.exec(P, "/usr/bin/kill", &["kill", "-9", "-1"]);
        },
        expected,
    );
    // An `int` in the lower half; what is above it is nobody's business.
    for everybody in [u64::MAX, 0xffff_ffff, 1] {
        names(
            |story| {
                story.calls(P, "kill", [everybody, 9, 0]);
            },
            expected,
        );
    }
}

#[test]
fn ending_a_child_by_its_number_is_none() {
    is_silent(|story| {
        story.exec(P, "/usr/bin/kill", &["kill", "-9", "1234"]);
        story.exec(P, "/usr/bin/kill", &["kill", "-1", "1234"]);
        story.calls(P, "kill", [1234, 9, 0]);
    });
}

#[test]
fn ending_its_own_children_by_name_is_none_and_neither_is_asking() {
    is_silent(|story| {
        story.exec(P, "/usr/bin/pkill", &["pkill", "-P", "10", "worker"]);
        story.exec(P, "/usr/bin/pkill", &["pkill", "-0", "worker"]);
        story.exec(P, "/usr/bin/killall", &["killall", "-l"]);
        story.calls(P, "kill", [u64::MAX, 0, 0]);
        story.calls(P, "kill", [1, 0, 0]);
    });
}

/// A script's worker by its name, as a regular expression that does not find itself, too.
#[test]
fn ending_what_the_run_started_by_its_name_is_none_and_of_others_it_is() {
    let script = |argv: &'static [&'static str]| {
        move |story: &mut Story| {
            story.exec(P, "/usr/bin/bash", &["bash", "job.sh"]);
            story.fork(P, 11);
            story.exec(11, "/usr/bin/sleep", &["/usr/bin/sleep", "100"]);
            story.fork(P, 12).exec(12, "/usr/bin/pkill", argv);
        }
    };
    is_silent(script(&["pkill", "sleep"]));
    is_silent(script(&["pkill", "-f", "[s]leep 1"]));
    is_silent(script(&["killall", "-9", "sleep"]));
    // A shell whose text has the name is not called by it, but its command line is.
    let of_text = |argv: &'static [&'static str]| {
        move |story: &mut Story| {
            story.exec(P, "/usr/bin/sh", &["sh", "-c", "sleep 9 & pkill sleep"]);
            story.fork(P, 11);
            story.exec(11, "/usr/bin/sleep", &["sleep", "9"]);
            story.fork(P, 12).exec(12, "/usr/bin/pkill", argv);
        }
    };
    is_silent(of_text(&["pkill", "-x", "sleep"]));
    names(
        of_text(&["pkill", "-9f", "sleep"]),
        Behaviour::ProcessKilling,
    );
    // Somebody else's, too; the script itself; nobody's any more.
    names(
        script(&["killall", "sleep", "sshd"]),
        Behaviour::ProcessKilling,
    );
    names(
        |story| {
            story.fork(P, 9).exec(9, "/usr/bin/bash", &["bash", "x"]);
            script(&["pkill", "bash"])(story);
        },
        Behaviour::ProcessKilling,
    );
    names(script(&["pkill", "-9"]), Behaviour::ProcessKilling);
    names(
        |story| {
            story.fork(P, 11).exec(11, "/usr/bin/sleep", &["sleep"]);
            story
                .ends(11)
                .exec(P, "/usr/bin/pkill", &["pkill", "sleep"]);
        },
        Behaviour::ProcessKilling,
    );
}

/// ptrace(2): `PTRACE_SEIZE`, as strace(1) calls it.
#[test]
fn tracing_what_one_started_is_no_escape_and_another_is() {
    let seizes = |tracer: u32, traced: u32| {
        move |story: &mut Story| {
            story.exec(P, "/usr/bin/bash", &["bash"]);
            story.fork(P, 11).fork(11, 12).fork(P, 13);
            story.calls(tracer, "ptrace", [0x4206, u64::from(traced), 0]);
        }
    };
    for (tracer, traced) in [(11, 12), (P, 12), (P, 13)] {
        is_silent(seizes(tracer, traced));
    }
    for (tracer, traced) in [(11, 13), (12, 11), (11, P), (11, 11), (P, 99)] {
        names(seizes(tracer, traced), Behaviour::JailEscape);
    }
}

#[test]
fn ps_looks_at_the_first_process_as_at_any_other() {
    let looks = |lists: bool| {
        move |story: &mut Story| {
            story.exec(P, "/usr/bin/ps", &["ps", "aux"]);
            if lists {
                story.lists(P, "/proc");
            }
            for file in ["cgroup", "environ"] {
                story.reads(P, &format!("/proc/1/{file}"));
            }
        }
    };
    is_silent(looks(true));
    names(looks(false), Behaviour::Evasion);
}

/// kill(2) of numbers that no process has: ESRCH.
#[test]
fn signals_to_numbers_that_nobody_ever_had_are_process_killing() {
    let signals = |numbers: &'static [u64]| {
        move |story: &mut Story| {
            story.exec(P, "/usr/bin/bash", &["bash"]);
            story.fork(P, 11).ends(11).fork(P, 12);
            for number in numbers {
                story.calls(P, "kill", [*number, 9, 0]);
            }
        }
    };
    names(signals(&[200, 201, 202, 203]), Behaviour::ProcessKilling);
    names(signals(&[11, 300, 12, 301, 302]), Behaviour::ProcessKilling);
    // Its own children of before, and the number in a file of long ago.
    is_silent(signals(&[11, 12, 11, 300, 300, 301]));
    is_silent(|story| {
        for number in 200..210 {
            story.calls(P, "kill", [number, 0, 0]);
        }
    });
}
