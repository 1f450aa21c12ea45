//! Processes of others that are ended or traced, and those that the run itself has started.

use turnkey_policy::AttemptKind;

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

/// A list of all, or by name, behind which kill stands; whoever has work of its own may mean that.
#[test]
fn a_list_of_processes_that_is_handed_to_kill_is_process_killing() {
    let pipeline = |list: &'static [&'static str], works: bool, kill: &'static str| {
        move |story: &mut Story| {
            story.exec(P, "/usr/bin/bash", &["bash", "x.sh"]);
            if works {
                story.fork(P, 20);
                story.exec(20, "/usr/bin/python3", &["python3", "serve.py"]);
            }
            for (child, argv) in [
                (11, list),
                (12, &["grep", "python"][..]),
                (13, &["xargs", "-r", kill, "-9"]),
            ] {
                story.fork(P, child);
                story.exec(child, &format!("/usr/bin/{}", argv[0]), argv);
            }
        }
    };
    let expected = Behaviour::ProcessKilling;
    names(pipeline(&["ps", "aux"], false, "kill"), expected);
    names(pipeline(&["pidof", "sshd"], false, "/bin/kill"), expected);
    is_silent(pipeline(&["ps", "aux"], true, "kill"));
    is_silent(pipeline(&["ps", "aux"], false, "echo"));
    is_silent(pipeline(&["pgrep", "-P", "10"], false, "kill"));
}

/// kill may be started before what lists for it.
#[test]
fn a_list_is_handed_on_whichever_is_started_first() {
    names(
        |story| {
            story.exec(P, "/usr/bin/xargs", &["xargs", "kill"]);
            story.exec(11, "/usr/bin/pgrep", &["pgrep", "sshd"]);
        },
        Behaviour::ProcessKilling,
    );
}

/// A name with a slash is none that a file can have.
#[test]
fn a_task_that_calls_itself_as_one_of_the_kernel_does_impairs_defences() {
    for comm in [
        "kworker/0:1",
        "[sshd]",
        "sshd",
        "systemd-journal",
        "kswapd0",
        "kauditd",
    ] {
        let mut story = Story::new();
        story.exec(P, "/usr/bin/python3.11", &["python3", "x.py"]);
        story.comm = comm;
        story.reads(P, "/workspace/x").reads(P, "/workspace/y");
        assert_eq!(story.found(), [(Behaviour::DefenseImpairment, 1)], "{comm}");
    }
    for (comm, exe) in [
        ("[", "/usr/bin/["),
        ("kworker", "/workspace/kworker"),
        ("python3", "/usr/bin/python3.11"),
        ("worker/0", "/usr/bin/python3.11"),
        ("sshd", "/usr/sbin/sshd"),
        ("systemd-detect-", "/usr/bin/systemd-detect-virt"),
        ("kswapd0", "/workspace/kswapd0"),
        ("kswapd-report", "/usr/bin/python3.11"),
    ] {
        let mut story = Story::new();
        story.comm = comm;
        story.exec(P, exe, &["x"]).reads(P, "/workspace/x");
        assert_eq!(story.found(), [], "{comm}");
    }
}

/// A shell starts nothing that it does not find; how it ends tells that it was to.
#[test]
fn a_command_that_a_shell_does_not_find_is_one_that_was_to_run() {
    let bash = |name: &'static str, ends: bool| {
        move |story: &mut Story| {
            story.exec(P, "/usr/bin/bash", &["bash", "x.sh"]);
            story.looks_for(P, &format!("/usr/bin/{name}")).fork(P, 11);
            if ends {
                story.finds_nothing(11);
            }
        }
    };
    names(bash("crontab", true), Behaviour::Persistence);
    names(bash("modprobe", true), Behaviour::SystemChange);
    names(bash("ufw", true), Behaviour::DefenseImpairment);
    is_silent(bash("jq", true));
    // `command -v`
    is_silent(bash("ufw", false));
    // One that looks by itself, and is no shell.
    is_silent(|story| {
        story.exec(P, "/usr/bin/python3", &["python3", "x.py"]);
        story.looks_for(P, "/usr/bin/crontab").finds_nothing(P);
    });
    // dash looks in the copy of itself, or ends with it.
    names(
        |story| {
            story.exec(P, "/usr/bin/dash", &["sh", "-c", "ufw disable"]);
            story.looks_for(P, "/usr/bin/ufw").finds_nothing(P);
        },
        Behaviour::DefenseImpairment,
    );
    // What is found later in PATH was not sought in vain: the next program begins anew.
    is_silent(|story| {
        story.exec(P, "/usr/bin/dash", &["sh", "x.sh"]);
        story.looks_for(P, "/usr/bin/ufw").fork(P, 11);
        story
            .exec(11, "/usr/sbin/ufw", &["ufw", "status"])
            .finds_nothing(11);
    });
}

/// An instance that may still run from before; the options of pkill(1) have values.
#[test]
fn ending_by_its_name_what_is_started_anew_is_none() {
    let restarts = |program: &'static str, waits: u64| {
        move |story: &mut Story| {
            story.exec(P, "/usr/bin/bash", &["bash", "start.sh"]);
            let pkill = &["pkill", "-u", "1000", "-f", "serve.py"];
            story.fork(P, 11).exec(11, "/usr/bin/pkill", pkill).ends(11);
            story.wait(waits).fork(P, 12);
            story.exec(12, "/usr/bin/python3", &["python3", program]);
        }
    };
    is_silent(restarts("serve.py", 0));
    let expected = Behaviour::ProcessKilling;
    names(restarts("other.py", 0), expected);
    names(restarts("serve.py", 3), expected);
    // Who looks for it by the same name does not start it.
    names(
        |story| {
            story.exec(P, "/usr/bin/pkill", &["pkill", "-f", "serve.py"]);
            story.exec(11, "/usr/bin/pgrep", &["pgrep", "-f", "serve.py"]);
        },
        expected,
    );
    let mut story = Story::under(&response(expected, BehaviourResponse::Kill));
    story.exec(P, "/usr/bin/pkill", &["pkill", "-f", "serve.py"]);
    assert!(story.dies, "nothing waits where the jail is killed for it");
}

/// A script that looks again, after it has ended them.
#[test]
fn a_list_that_is_made_again_of_workers_that_are_gone_is_none() {
    is_silent(|story| {
        story.exec(P, "/usr/bin/bash", &["bash", "stop.sh"]);
        story
            .fork(P, 20)
            .exec(20, "/usr/bin/python3", &["python3", "w.py"]);
        for (list, kill) in [(11, 12), (13, 14)] {
            story
                .fork(P, list)
                .exec(list, "/usr/bin/pgrep", &["pgrep", "-f", "w.py"]);
            story
                .fork(P, kill)
                .exec(kill, "/usr/bin/xargs", &["xargs", "kill"]);
            story.ends(20);
        }
    });
}

/// A list of names shows nothing there, or another name than there is.
#[test]
fn a_name_that_is_looked_past_impairs_defences() {
    for name in [
        "...",
        ".. ",
        ". ",
        "....",
        "invoice\u{202e}fdp.sh",
        "\u{200b}x",
    ] {
        let mut story = Story::new();
        let path = format!("/tmp/{name}");
        story.changed(P, turnkey_policy::AttemptKind::Open, &path, 0);
        story.writes(P, &format!("{path}/x"));
        assert_eq!(
            story.found(),
            [(Behaviour::DefenseImpairment, 1)],
            "{name:?}"
        );
    }
    names(
        |story| {
            story.renames(P, "/workspace/x", "/workspace/...");
        },
        Behaviour::DefenseImpairment,
    );
    for name in [
        ".x",
        "..x",
        "a b",
        "x ",
        " ",
        "a...",
        "\u{1f468}\u{200d}\u{1f469}",
        "na\u{ef}ve",
    ] {
        is_silent(|story| {
            story.writes(P, &format!("/workspace/{name}"));
        });
    }
    is_silent(|story| {
        story.reads(P, "/workspace/...");
    });
}

/// The time of its last change is what tells others that a file was changed.
#[test]
fn a_file_that_is_made_to_look_untouched_impairs_defences() {
    let ended = |backdated: &[&str]| {
        let end = End {
            backdated: backdated.iter().map(|path| (*path).to_owned()).collect(),
            ..End::default()
        };
        let mut story = Story::new();
        story.changed(P, AttemptKind::Attribute, "/workspace/a.csv", 0);
        story.ended(&end)
    };
    let found = ended(&["a.csv", "b.csv", "c.csv"]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].behaviour, Behaviour::DefenseImpairment);
    let what = String::from_utf8_lossy(&found[0].steps[0].what);
    assert!(what.contains("a.csv and of 2 more"), "{what}");
    assert!(ended(&[]).is_empty());
    // Nobody has set a time: what is stored in a page of memory leaves it as it was.
    let end = End {
        backdated: vec![String::from("a.csv")],
        ..End::default()
    };
    let mut story = Story::new();
    story.writes(P, "/workspace/a.csv");
    assert!(story.ended(&end).is_empty());
}

/// A signal that nobody got is one that was tried.
#[test]
fn who_is_refused_a_signal_has_signalled_nobody() {
    let mut story = Story::new();
    story.calls(P, "kill", [1, 9, 0]);
    let found = story.ended(&End::default());
    let what = String::from_utf8_lossy(&found[0].steps[0].what);
    assert!(what.starts_with("tried to signal the jail"), "{what}");
}
