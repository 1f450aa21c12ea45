//! Each detector's stories: what it names, and the near misses at which it must stay silent.

use turnkey_policy::{Behaviour, BehaviourResponse, EnforcementMode, Policy};

mod arranging;
mod exhaustion;
mod history;
mod injection;
mod looking;
mod mass;
mod names;
mod network;
mod persistence;
mod processes;
mod purpose;
mod secrets;
mod system;

use super::fixture::{Story, policy, response};
use super::*;

/// The process of most stories.
const P: u32 = 10;

#[track_caller]
fn names(tell: impl FnOnce(&mut Story), expected: Behaviour) {
    let mut story = Story::new();
    tell(&mut story);
    let found = story.found();
    assert!(found.iter().any(|(one, _)| *one == expected), "{found:?}");
}

#[track_caller]
fn is_silent(tell: impl FnOnce(&mut Story)) {
    let mut story = Story::new();
    tell(&mut story);
    assert_eq!(story.found(), []);
}

#[test]
fn a_sweep_over_secrets_or_a_decoy_is_credential_access() {
    let expected = Behaviour::CredentialAccess;
    names(
        |story| {
            story.wants(P, "/root/.ssh/id_rsa", 0);
            story.wants(P, "/root/.aws/credentials", 0);
        },
        expected,
    );
    // A decoy of the profile.
    names(
        |story| {
            story.wants(P, "/etc/shadow", 0);
        },
        expected,
    );
}

#[test]
fn one_kind_of_secret_and_public_halves_are_no_sweep() {
    is_silent(|story| {
        story.reads(P, "/root/.ssh/id_rsa");
        story.reads(P, "/root/.ssh/id_ed25519");
        story.reads(P, "/root/.ssh/known_hosts");
    });
    is_silent(|story| {
        story.reads(P, "/root/.ssh/id_rsa.pub");
        story.reads(P, "/root/.aws/config");
        story.reads(P, "/etc/passwd");
        story.writes(P, "/workspace/.docker/config.json");
        story.reads(P, "/root/.netrc");
    });
}

#[test]
fn five_questions_in_a_burst_are_discovery() {
    names(
        |story| {
            for (pid, command) in [&["id"][..], &["whoami"], &["uname", "-a"], &["ps"], &["ip"]]
                .iter()
                .enumerate()
            {
                let pid = 20 + u32::try_from(pid).unwrap();
                story.exec(pid, &format!("/usr/bin/{}", command[0]), command);
            }
        },
        Behaviour::Discovery,
    );
    names(
        |story| {
            story.reads(P, "/proc/version").reads(P, "/proc/net/tcp");
            story.reads(P, "/etc/issue").lists(P, "/home");
            story.lists(P, "/root");
        },
        Behaviour::Discovery,
    );
}

#[test]
fn the_same_question_again_or_slow_ones_are_no_discovery() {
    is_silent(|story| {
        for pid in 20..60 {
            story.exec(pid, "/usr/bin/uname", &["uname", "-m"]);
        }
    });
    // One word each, which a script goes by.
    is_silent(|story| {
        for command in [
            &["id", "-u"][..],
            &["whoami"],
            &["uname"],
            &["hostname", "-s"],
            &["nproc"],
            &["ps", "-p", "1"],
            &["id", "-gn"],
            &["df", "."],
            &["printenv", "HOME"],
        ] {
            story.exec(P, &format!("/usr/bin/{}", command[0]), command);
        }
    });
    // One question, whatever it takes to answer it.
    is_silent(|story| {
        story
            .exec(P, "/usr/bin/ps", &["ps", "aux"])
            .lists(P, "/proc");
        for file in ["uptime", "version", "mounts", "loadavg", "devices"] {
            story.reads(P, &format!("/proc/{file}"));
        }
        story.reads(P, "/proc/1/cmdline");
        story.exec(11, "/usr/bin/ls", &["ls", "."]);
    });
    is_silent(|story| {
        for command in ["id", "whoami", "uname", "ps", "ip", "ss"] {
            story.exec(P, &format!("/usr/bin/{command}"), &[command]);
            story.wait(11);
        }
    });
    // What the C library and interpreters look at by themselves.
    is_silent(|story| {
        for path in [
            "/etc/passwd",
            "/etc/group",
            "/etc/nsswitch.conf",
            "/etc/resolv.conf",
            "/etc/hosts",
            "/proc/cpuinfo",
            "/proc/meminfo",
            "/proc/self/status",
            "/proc/self/maps",
            "/etc/os-release",
        ] {
            story.reads(P, path);
        }
    });
}

#[test]
fn a_program_that_no_directory_names_is_fileless() {
    let expected = Behaviour::FilelessExecution;
    names(
        |story| {
            story.nameless(P, "memfd:x");
        },
        expected,
    );
    names(
        |story| {
            story.nameless(P, "/tmp/deleted");
        },
        expected,
    );
    names(
        |story| {
            story.exec(P, "/dev/shm/x", &["x"]);
        },
        expected,
    );
    names(
        |story| {
            story.script(P, "/dev/fd/3");
        },
        expected,
    );
}

/// The program that the dynamic loader was given is what it opens first: ld.so(8).
#[test]
fn a_program_that_the_dynamic_loader_is_given_is_fileless() {
    const LOADER: &str = "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2";
    for program in ["memfd:x", "/dev/shm/x"] {
        names(
            |story| {
                story.exec(P, LOADER, &["ld.so", "/proc/self/fd/7"]);
                story.wants(P, "/nowhere/x", 0).reads(P, program);
            },
            Behaviour::FilelessExecution,
        );
    }
    // The program's own files are none, and neither are those of a program that the loader was not executed for.
    is_silent(|story| {
        story.exec(P, LOADER, &["ld.so", "/usr/bin/tool"]);
        story.reads(P, "/usr/bin/tool").reads(P, "/dev/shm/x");
        story.exec(P, LOADER, &["ld.so", "/usr/bin/tool"]);
        story.exec(P, "/usr/bin/tool", &["tool"]);
        story.reads(P, "/dev/shm/x");
        story.exec(11, LOADER, &["ld.so"]).ends(11);
        story.reads(11, "/dev/shm/x");
    });
}

#[test]
fn a_program_that_deletes_its_temporary_files_is_not_fileless() {
    is_silent(|story| {
        story.exec(P, "/usr/bin/python3.11", &["python3"]);
        story.writes(P, "/tmp/x").deletes(P, "/tmp/x");
        story.exec(11, "/tmp/tool", &["tool"]);
    });
}

#[test]
fn another_user_or_privileges_are_an_escalation() {
    let expected = Behaviour::PrivilegeEscalation;
    names(
        |story| {
            story.exec(P, "/usr/bin/sudo", &["sudo", "id"]);
        },
        expected,
    );
    names(
        |story| {
            story.calls(P, "setuid", [0; 3]);
        },
        expected,
    );
    names(
        |story| {
            story.calls(P, "capset", [1; 3]);
        },
        expected,
    );
    names(
        |story| {
            story.calls(P, "unshare", [1 << 28, 0, 0]);
        },
        expected,
    );
}

#[test]
fn another_ordinary_user_is_no_escalation() {
    is_silent(|story| {
        story.calls(P, "setuid", [1000; 3]);
        story.exec(P, "/usr/bin/sum", &["sum"]);
    });
}

#[test]
fn what_lies_outside_every_jail_is_an_escape() {
    let expected = Behaviour::JailEscape;
    for call in ["mount", "bpf", "init_module"] {
        names(
            |story| {
                story.calls(P, call, [0; 3]);
            },
            expected,
        );
    }
    names(
        |story| {
            story.calls(P, "ptrace", [16, 1, 0]);
        },
        expected,
    );
    names(
        |story| {
            story.wants(P, "/proc/1/root/etc/hostname", 0);
        },
        expected,
    );
    names(
        |story| {
            story.wants(P, "/proc/sys/kernel/core_pattern", 1);
        },
        expected,
    );
    for socket in [
        "/var/run/docker.sock",
        "docker.sock",
        "../../run/docker.sock",
        "../run/containerd/containerd.sock",
        "podman.sock",
        "/run/user/1000/bus",
        "/run/libvirt/virtqemud-sock",
        "//run//docker.sock",
        "/usr/../run/./docker.sock",
        "/proc/self/root/run/docker.sock",
    ] {
        names(
            |story| {
                story.connects_to_path(P, socket);
            },
            expected,
        );
    }
    names(
        |story| {
            story.symlinks(P, "/tmp/s", "/run");
            story.connects_to_path(P, "/tmp/s/docker.sock");
        },
        expected,
    );
    for socket in [
        "app.sock",
        "../bus",
        "/workspace/docker.sock",
        "docker.sock.d/own",
    ] {
        is_silent(|story| {
            story.connects_to_path(P, socket);
        });
    }
}

#[test]
fn a_handle_past_every_directory_is_an_escape_and_one_of_the_kernels_own_is_none() {
    for (path, is_unknown) in [("/etc/hostname", false), ("/", false), ("", true)] {
        names(
            |story| {
                story.opens_by_handle(P, path, is_unknown);
            },
            Behaviour::JailEscape,
        );
    }
    is_silent(|story| {
        story.opens_by_handle(P, "", false);
        story.opens_by_handle(P, "/sys/fs/cgroup/web", false);
    });
}

#[test]
fn event_loops_debuggers_and_looks_are_no_escape() {
    is_silent(|story| {
        story.calls(P, "io_uring_setup", [64, 0, 0]);
        story.calls(P, "ptrace", [0; 3]);
        story.reads(P, "/proc/sys/kernel/core_pattern");
        story.reads(P, "/proc/self/mountinfo");
        story.connects_to_path(P, "/run/nscd/socket");
    });
}

#[test]
fn removing_itself_looking_around_and_waiting_are_evasion() {
    let expected = Behaviour::Evasion;
    names(
        |story| {
            story.exec(P, "/workspace/x", &["./x"]);
            story.deletes(P, "/workspace/x");
        },
        expected,
    );
    names(
        |story| {
            story.exec(P, "/usr/bin/python3.11", &["python3", "-S", "x.py"]);
            story.deletes(P, "/workspace/x.py");
        },
        expected,
    );
    // By a program of its own: `rm -- "$0"`.
    let removed = |program: &'static str| {
        move |story: &mut Story| {
            story.exec(P, "/usr/bin/bash", &["bash", "x.sh"]);
            story
                .fork(P, 11)
                .exec(11, &format!("/usr/bin/{program}"), &[program, "x.sh"]);
            story.reads(P, "/workspace/x.sh");
            story.writes(11, "/workspace/x.sh");
            story.deletes(11, "/workspace/x.sh");
        }
    };
    names(removed("rm"), expected);
    names(removed("shred"), Behaviour::DefenseImpairment);
    names(
        |story| {
            story.wants(P, "/.dockerenv", 0);
            story.wants(P, "/sys/class/dmi/id/sys_vendor", 0);
        },
        expected,
    );
    let idle = End {
        idle: Some("did nothing for 30 s".to_owned()),
        ..End::default()
    };
    assert_eq!(Story::new().ended(&idle)[0].behaviour, expected);
    let mut server = Story::new();
    server.listens(P, "127.0.0.1:8000");
    assert_eq!(server.ended(&idle), [], "a server waits for others");
    let mut client = Story::new();
    client.connects(P, "198.51.100.1:80");
    assert_eq!(client.ended(&idle), [], "a client waits for one");
}

#[test]
fn one_look_and_somebody_elses_file_are_no_evasion() {
    is_silent(|story| {
        story.wants(P, "/.dockerenv", 0);
        story.wants(P, "/.dockerenv", 0);
        story.exec(P, "/usr/bin/python3.11", &["python3", "make.py"]);
        story
            .writes(P, "/workspace/x.py")
            .deletes(P, "/workspace/x.py");
        story.exec(11, "/usr/bin/rm", &["rm", "-f", "/tmp/scratch"]);
        story.deletes(11, "/tmp/scratch");
    });
}

#[test]
fn the_page_names_every_behaviour_with_its_weight() {
    let page = include_str!("../../../docs/behaviours.md");
    for behaviour in Behaviour::ALL {
        let (severity, technique) = (behaviour.severity(), behaviour.technique());
        let row = format!("| `{behaviour}` | {severity} | {technique} |");
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn every_behaviour_has_a_story_that_names_it() {
    let here = concat!(
        include_str!("tests.rs"),
        include_str!("tests/network.rs"),
        include_str!("tests/injection.rs"),
        include_str!("tests/looking.rs"),
        include_str!("tests/persistence.rs"),
        include_str!("tests/processes.rs"),
        include_str!("tests/purpose.rs"),
        include_str!("tests/exhaustion.rs"),
        include_str!("tests/system.rs")
    );
    for behaviour in Behaviour::ALL {
        let variant = format!("Behaviour::{behaviour:?}");
        assert!(here.contains(&variant), "{behaviour}");
    }
}

fn scan(policy: &Policy) -> Story {
    let mut story = Story::under(policy);
    for port in 20..30 {
        story.connects(P, &format!("127.0.0.1:{port}"));
    }
    story
}

#[test]
fn a_jail_dies_of_a_behaviour_where_the_policy_says_so() {
    let scan_is = |said| response(Behaviour::PortScan, said);
    assert!(scan(&scan_is(BehaviourResponse::Kill)).dies);
    assert!(!scan(&scan_is(BehaviourResponse::Log)).dies);
    assert!(!scan(&policy("")).dies);
    assert_eq!(scan(&scan_is(BehaviourResponse::Off)).found(), []);
    let observed = scan_is(BehaviourResponse::Kill).with_mode(EnforcementMode::Observe);
    assert!(!scan(&observed).dies);
}

#[test]
fn evidence_is_bounded_and_every_time_counts() {
    let mut story = Story::new();
    for number in 0..100 {
        story.exec(P, "/usr/bin/sudo", &["sudo", &number.to_string()]);
    }
    let found = story.ended(&End::default());
    let one = &found[0];
    assert_eq!(
        (one.behaviour, one.count),
        (Behaviour::PrivilegeEscalation, 100)
    );
    assert_eq!(one.steps.len(), STEPS);
}

/// One of everything that detectors remember, all different.
fn bustle(story: &mut Story, number: u32) {
    let name = format!("/workspace/{number:08}.{:02}", number % 97);
    let address = format!(
        "10.{}.{}.1:{}",
        number >> 8 & 255,
        number & 255,
        1 + number % 50_000
    );
    story.fork(1, number).connects(number, &address);
    story.writes(number, &name).reads(number, &name);
    story.reads(
        number,
        &format!("/workspace/old/{number:08}.{:02}", number % 97),
    );
    story.deletes(
        number,
        &format!("/workspace/new/{number:08}.{:02}", number % 97),
    );
    story.renames(number, &name, &format!("{name}.{number:08}"));
    story.writes(number, &format!("/workspace/held/{number:08}.enc"));
    story.deletes(number, &format!("/workspace/held/old{number:08}.txt"));
    story.looks_for(number, &format!("/workspace/.config/{number:08}"));
    story.asks(number, &format!("{}.{number:08}.org", "a".repeat(40)));
}

/// Nanoseconds that this thread was on a CPU: schedstat of proc(5).
fn spent() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|first| first.parse().ok());
    first.expect("the kernel counts it")
}

/// A flood of events does not hold up the watcher: twice as many cost twice as much.
#[test]
fn an_event_costs_the_same_however_many_came_before() {
    let cost = |numbers: u32| {
        let mut story = Story::new();
        let before = spent();
        for number in 0..numbers {
            bustle(&mut story, 100 + number);
        }
        spent() - before
    };
    // The clock of a CPU that others need, too, is not exact.
    let is_even = || cost(3000) < 3 * cost(1500);
    assert!((0..3).any(|_| is_even()));
}

#[test]
fn memory_is_bounded_whatever_the_jail_does() {
    let mut story = Story::new();
    let mut numbers = 100..8_100;
    for number in numbers.by_ref().take(6_000) {
        bustle(&mut story, number);
    }
    let half = story.weight();
    for number in numbers {
        bustle(&mut story, number);
    }
    let whole = story.weight();
    assert!(whole < half + half / 20, "{half}, then {whole}");
    assert!(whole < 32 << 20, "{whole}");
}
