//! Programs and calls of one purpose.

use super::*;

#[test]
fn a_program_of_one_purpose_is_named_by_it_whether_it_is_there_or_not() {
    for (argv, expected) in [
        (&["iptables", "-F"][..], Behaviour::DefenseImpairment),
        (&["ufw", "disable"], Behaviour::DefenseImpairment),
        (&["setenforce", "0"], Behaviour::DefenseImpairment),
        (&["tcpdump", "-s", "0", "-w", "x.pcap"], Behaviour::Capture),
        (&["xclip", "-o"], Behaviour::Capture),
        (&["userdel", "somebody"], Behaviour::SystemChange),
        (&["date", "-s", "2001-01-01"], Behaviour::SystemChange),
        (&["chattr", "-R", "+i", "/usr/bin"], Behaviour::SystemChange),
        (
            &["ip", "route", "replace", "default", "via", "10.0.0.1"],
            Behaviour::SystemChange,
        ),
        (
            &["sysctl", "kernel.randomize_va_space=0"],
            Behaviour::SystemChange,
        ),
        (&["systemctl", "stop", "auditd"], Behaviour::ProcessKilling),
        (&["service", "cron", "stop"], Behaviour::ProcessKilling),
        (&["nmap", "-sS", "10.0.0.0/8"], Behaviour::PortScan),
        (&["john", "hashes"], Behaviour::CredentialAccess),
    ] {
        names(
            |story| {
                story.exec(P, "/usr/bin/any", argv);
            },
            expected,
        );
    }
    for (path, expected) in [
        ("/usr/sbin/nft", Behaviour::DefenseImpairment),
        ("/usr/local/bin/tshark", Behaviour::Capture),
        ("/usr/sbin/insmod", Behaviour::SystemChange),
        ("/usr/bin/hydra", Behaviour::CredentialAccess),
    ] {
        names(
            |story| {
                story.tell(P, wanted(path));
            },
            expected,
        );
    }
}

#[test]
fn who_only_asks_such_a_program_is_not_named() {
    for argv in [
        &["iptables", "-L", "-n"][..],
        &["nft", "list", "ruleset"],
        &["ufw", "status"],
        &["tcpdump", "--version"],
        &["ip", "addr"],
        &["ip", "-4", "route", "show"],
        &["date", "+%s"],
        &["date", "-u"],
        &["sysctl", "kernel.ostype"],
        &["systemctl", "is-active", "cron"],
        &["service", "cron", "restart"],
        &["hwclock", "--show"],
        &["swapon", "--show"],
    ] {
        is_silent(|story| {
            story.exec(P, "/usr/bin/any", argv);
        });
    }
    // Of several uses: with which words it was to be started is not known.
    for path in [
        "/usr/bin/ip",
        "/usr/bin/date",
        "/usr/bin/systemctl",
        "/usr/bin/cat",
    ] {
        is_silent(|story| {
            story.tell(P, wanted(path));
        });
    }
}

#[test]
fn a_search_of_path_for_one_program_is_one_sighting() {
    let mut story = Story::new();
    for directory in ["/usr/local/bin", "/usr/bin", "/usr/sbin"] {
        story.tell(P, wanted(&format!("{directory}/ufw")));
    }
    assert_eq!(story.found(), [(Behaviour::DefenseImpairment, 1)]);
}

#[test]
fn settings_of_the_machine_and_sockets_of_others_packets_are_named() {
    const RAW: u64 = 3;
    for call in [
        "clock_settime",
        "settimeofday",
        "sethostname",
        "iopl",
        "swapoff",
    ] {
        names(
            |story| {
                story.calls(P, call, [0, 0, 0]);
            },
            Behaviour::SystemChange,
        );
    }
    for socket in [
        [17, RAW | 0x80000, 0x300],
        [17, 2, 0],
        [2, RAW, 6],
        [10, RAW, 255],
    ] {
        names(
            |story| {
                story.tell(P, socket_refused(socket));
            },
            Behaviour::Capture,
        );
    }
    // ping(8), and sockets of rare kinds.
    for socket in [[2, RAW, 1], [10, RAW, 58], [31, 1, 0], [38, 5, 0]] {
        is_silent(|story| {
            story.tell(P, socket_refused(socket));
        });
    }
}

#[test]
fn devices_that_show_what_a_person_does_are_capture() {
    for device in [
        "/dev/input/event0",
        "/dev/video0",
        "/dev/fb0",
        "/dev/vcs1",
        "/dev/tty1",
        "/dev/console",
    ] {
        names(
            |story| {
                story.wants(P, device, 0);
            },
            Behaviour::Capture,
        );
    }
    is_silent(|story| {
        story.reads(P, "/dev/urandom");
        story.reads(P, "/workspace/dev/video0");
        // Its own terminal, and what is connected to a machine; a log goes to the console.
        story
            .reads(P, "/dev/tty")
            .reads(P, "/dev/ttyS0")
            .reads(P, "/dev/pts/3");
        story.writes(P, "/dev/console");
    });
}

#[test]
fn files_replaced_by_copies_with_an_unusual_ending_are_held_for_ransom() {
    let expected = Behaviour::MassChange;
    // Its own files, as a program that shows what it would do makes them first.
    names(
        |story| {
            for file in ["a.txt", "b.pdf", "c.jpg"].map(|name| format!("/workspace/docs/{name}")) {
                story.writes(P, &file).reads(P, &file);
                story.writes(P, &format!("{file}.locked")).deletes(P, &file);
            }
            story.writes(P, "/workspace/docs/README_DECRYPT.txt");
        },
        expected,
    );
    names(
        |story| {
            for number in 0..6 {
                let file = format!("/tmp/x/{number}.dat");
                story
                    .writes(P, &file)
                    .renames(P, &file, &format!("{file}.crypt"));
            }
        },
        expected,
    );
}

#[test]
fn files_that_lose_name_and_ending_are_held_for_ransom() {
    let renames = |story: &mut Story, name: &dyn Fn(u32) -> String| {
        for number in 0..12 {
            let file = format!("/tmp/pictures/IMG_{number}.jpg");
            story.writes(P, &file);
            story.renames(P, &file, &format!("/tmp/pictures/{}", name(number)));
        }
    };
    names(
        |story| renames(story, &|number| format!("{:x}.wncry", number + 0xa000)),
        Behaviour::MassChange,
    );
    // Other names with the same ending, the same names with another, and none at all, as stores have that name files by content.
    is_silent(|story| renames(story, &|number| format!("holiday {number}.jpg")));
    is_silent(|story| renames(story, &|number| format!("IMG_{number}.dcm")));
    is_silent(|story| renames(story, &|number| format!("{:x}", number + 0xa000)));
}

#[test]
fn packers_rotations_and_few_files_are_no_ransom() {
    for ending in ["gz", "bak", "1", "tmp"] {
        is_silent(|story| {
            for number in 0..20 {
                let file = format!("/workspace/log{number}");
                story.writes(P, &file).reads(P, &file);
                story
                    .writes(P, &format!("{file}.{ending}"))
                    .deletes(P, &file);
            }
            story.writes(P, "/workspace/README.md");
        });
    }
    // Two are none, and a copy of a file that stays takes nothing.
    is_silent(|story| {
        for number in 0..20 {
            let file = format!("/workspace/{number}.txt");
            story
                .writes(P, &file)
                .reads(P, &file)
                .writes(P, &format!("{file}.enc"));
            if number < 2 {
                story.deletes(P, &file);
            }
        }
        story.writes(P, "/workspace/restore.txt");
    });
}

fn wanted(path: &str) -> turnkey_facts::Kind {
    turnkey_facts::Kind::ExecAttempt {
        raw: crate::behaviour::fixture::raw(path),
        errno: 2,
    }
}

fn socket_refused(args: [u64; 3]) -> turnkey_facts::Kind {
    turnkey_facts::Kind::Refused {
        nr: 41,
        on: Some(turnkey_policy::AttemptKind::Connect),
        args,
        errno: 97,
    }
}

/// chmod(2) and fchmodat(2).
#[test]
fn whoever_gives_a_secret_to_everybody_or_clears_the_kernels_log_impairs_a_defence() {
    let key = "/workspace/.ssh/id_ed25519";
    for (nr, args) in [(90, [0, 0o777, 0, 0, 0, 0]), (268, [0, 0, 0o644, 0, 0, 0])] {
        names(
            |story| {
                story.sets_mode(P, (nr, args), key, 0);
            },
            Behaviour::DefenseImpairment,
        );
    }
    for action in [4, 5] {
        names(
            |story| {
                story.calls(P, "syslog", [action, 0, 0]);
            },
            Behaviour::DefenseImpairment,
        );
    }
    is_silent(|story| {
        story.sets_mode(P, (90, [0, 0o600, 0, 0, 0, 0]), key, 0);
        let public = format!("{key}.pub");
        story.sets_mode(P, (90, [0, 0o644, 0, 0, 0, 0]), &public, 0);
        story.sets_mode(P, (90, [0, 0o777, 0, 0, 0, 0]), "/workspace/x", 0);
        story.calls(P, "syslog", [3, 0, 0]);
    });
}

/// ps(1) shows the kernel's threads in brackets, and nobody looks at these.
#[test]
fn a_program_that_is_called_like_a_thread_of_the_kernel_impairs_a_defence() {
    let expected = Behaviour::DefenseImpairment;
    names(
        |story| {
            story.exec(P, "/usr/bin/sleep", &["[kworker/u8:2]", "1"]);
        },
        expected,
    );
    names(
        |story| {
            story.exec(P, "/tmp/[kthreadd]", &["x"]);
        },
        expected,
    );
    is_silent(|story| {
        story.exec(P, "/usr/bin/[", &["[", "-f", "x", "]"]);
        story.exec(11, "/usr/bin/bash", &["-bash"]);
    });
}

/// Into one archive, after which the files are gone: with six, or with three and a note.
#[test]
fn files_that_are_deleted_after_a_program_locked_them_are_held_for_ransom() {
    let of = |argv: &[&str], files: usize, note: bool| {
        let mut story = Story::new();
        story.exec(P, &format!("/usr/bin/{}", argv[0]), argv);
        for number in 0..files {
            story.deletes(11, &format!("/workspace/{number}.txt"));
        }
        if note {
            story.writes(12, "/workspace/READ_ME.txt");
        }
        !story.found().is_empty()
    };
    let zip = &["zip", "-r", "-P", "x", "-m", "a.zip", "."][..];
    assert!(of(zip, 6, false) && of(zip, 3, true));
    assert!(!of(zip, 5, false) && !of(zip, 2, true));
    for argv in [
        &["gpg", "--batch", "-c", "-o", "a.gpg"][..],
        &["openssl", "enc", "-des3", "-in", "a.tar"],
        &["7z", "a", "-psecret", "a.7z", "docs"],
        &["age", "-p", "-o", "a.age", "a.tar"],
        &["ccencrypt", "a.tar"],
        &["zip", "-r9e", "a.zip", "docs"],
        &["gpg", "-vc", "a.tar"],
    ] {
        assert!(of(argv, 6, false), "{argv:?}");
    }
    for argv in [
        &["zip", "-r", "a.zip", "."][..],
        &["gpg", "--verify", "a.sig"],
        &["7z", "a", "-tzip", "a.zip", "docs"],
        &["gpg", "-d", "a.gpg"],
        &["openssl", "enc", "-d", "-des3", "-in", "a"],
        &["7z", "x", "-psecret", "a.7z"],
        &["tar", "czf", "a.tgz", "."],
    ] {
        assert!(!of(argv, 6, false), "{argv:?}");
    }
}
