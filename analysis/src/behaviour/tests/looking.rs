//! Stories of programs that look around in the system, and of some that only find what they need.

use super::*;

/// `O_DIRECTORY`
const DIRECTORY: u32 = 0o200_000;

#[track_caller]
fn discovers_files(tell: impl FnOnce(&mut Story)) {
    names(tell, Behaviour::FileDiscovery);
}

#[test]
fn a_listing_of_which_nothing_is_used_is_file_discovery() {
    for place in [
        "/",
        "/etc",
        "/usr/share/pam",
        "/sys/kernel",
        "/var/lib/misc",
        "/usr/lib",
    ] {
        discovers_files(|story| {
            story
                .lists(P, place)
                .reads(P, "/usr/lib/python3/json/tool.py");
            story.ends(P);
        });
        // Its process becomes another program, or outlives the jail.
        discovers_files(|story| {
            story.lists(P, place).exec(P, "/workspace/x", &["x"]);
        });
        discovers_files(|story| {
            story.lists(P, place);
        });
    }
    // What is not there shows that somebody looks.
    for place in ["/app", "/opt", "/srv/www", "/etc/nginx"] {
        discovers_files(|story| {
            story.wants(P, place, DIRECTORY);
        });
    }
}

#[test]
fn a_program_that_only_lists_is_told_what_to_list() {
    for argv in [
        &["ls", "-la", "/etc/ssh/"][..],
        &["find", "/", "-perm", "-4000"],
        &["tree", "/home"],
        &["ls", "/etc/pam.d/"],
        &["du", "-sh", "/var/log"],
        &["find", "-L", "-O2", "/srv", "-newer", "a"],
    ] {
        discovers_files(|story| {
            story.exec(P, "/usr/bin/any", argv);
        });
    }
    // What others are compared with is no place to look in.
    for argv in [
        &["find", ".", "-newer", "/etc/hostname"][..],
        &["find", "-samefile", "/etc/issue"],
        &["find", "(", "-path", "/srv/x", ")"],
        &["ls", "-l", "/dev/null", "/dev/stdin"],
    ] {
        is_silent(|story| {
            story.exec(P, "/usr/bin/any", argv);
        });
    }
}

#[test]
fn whoever_uses_what_it_listed_discovers_nothing() {
    // Time zones, fonts, a package's own data; a directory is used when one in it is listed.
    is_silent(|story| {
        story.lists(P, "/usr/share/zoneinfo");
        story.lists(P, "/usr/share/zoneinfo/Africa");
        story.reads(P, "/usr/share/zoneinfo/Africa/Cairo").ends(P);
    });
    is_silent(|story| {
        story
            .lists(P, "/usr/share/fonts")
            .reads(P, "/usr/share/fonts/one.ttf");
        story.ends(P);
    });
    // Data that every host has alike is looked through; who lists one directory of it looks around.
    let through = |story: &mut Story, count: usize| {
        story.lists(P, "/usr/share");
        for one in 1..count {
            story.lists(P, &format!("/usr/share/{one}"));
        }
    };
    is_silent(|story| through(story, 8));
    is_silent(|story| {
        through(story, 8);
        story.ends(P);
        story.exec(
            P,
            "/usr/bin/find",
            &["find", "/usr/share/man", "-name", "x"],
        );
    });
    discovers_files(|story| through(story, 7));
    discovers_files(|story| {
        through(story, 8);
        story.lists(P, "/etc/ssl");
    });
    discovers_files(|story| {
        story.exec(P, "/usr/bin/ls", &["ls", "/usr/share/pam"]);
    });
    // Who lists all processes asks each of them; who only lists them looks around.
    is_silent(|story| {
        story.lists(P, "/proc").reads(P, "/proc/12/stat");
    });
    for path in ["/proc/self/stat", "/proc/12/cmdline", "/proc/12/comm"] {
        discovers_files(|story| {
            story.lists(P, "/proc").reads(P, path);
        });
    }
    is_silent(|story| {
        story.lists(P, "/usr/share/tools");
        story.exec(P, "/usr/share/tools/one", &["one"]);
    });
}

/// df(1) opens a mount point, without `O_DIRECTORY`, and find(1) goes through data as deep as it is told.
#[test]
fn what_a_program_opens_for_its_answer_is_no_list() {
    is_silent(|story| {
        story.exec(P, "/usr/bin/df", &["df", "-h", "/"]);
        story.reads(P, "/").ends(P);
    });
    let find = ["find", "/usr/share/zoneinfo", "-maxdepth", "1"];
    is_silent(|story| {
        story.exec(P, "/usr/bin/find", &find);
        story.lists(P, "/usr/share/zoneinfo").ends(P);
    });
    discovers_files(|story| {
        story.exec(P, "/workspace/df2", &["df"]);
        story.reads(P, "/").ends(P);
    });
    discovers_files(|story| {
        story.exec(P, "/usr/bin/df", &["df"]);
        story.lists(P, "/etc").ends(P);
    });
    discovers_files(|story| {
        story.exec(P, "/usr/bin/find", &["find", "."]);
        story.lists(P, "/etc").ends(P);
    });
    discovers_files(|story| {
        story.exec(P, "/workspace/search", &find);
        story.lists(P, "/usr/share/zoneinfo").ends(P);
    });
}

#[test]
fn places_in_which_programs_look_for_what_they_load_are_no_discovery() {
    for place in [
        "/usr/lib/python3/dist-packages",
        "/usr/bin",
        "/usr/local/bin",
        "/usr/local/lib/python3.11",
        "/usr/lib/x86_64-linux-gnu",
        "/etc/profile.d",
        "/usr/share/fonts/truetype",
        "/etc/ssl/certs",
        "/proc/self/fd",
        "/proc/12/task",
        "/tmp",
        "/workspace",
        "/workspace/a/b",
        "/sys/devices/system/cpu",
    ] {
        is_silent(|story| {
            story.lists(P, place).ends(P);
            let told = if place.ends_with(".d") { "." } else { place };
            story.exec(P, "/usr/bin/ls", &["ls", "-l", told]);
        });
    }
    is_silent(|story| {
        story.wants(P, "/usr/share/fonts", DIRECTORY);
        story.wants(P, "/root/.local", DIRECTORY);
        // A database that asks whether its disk turns.
        story.wants(P, "/sys/block", DIRECTORY);
    });
    // O_PATH: a step on the way to somewhere else.
    is_silent(|story| {
        story.wants(P, "/etc", DIRECTORY | 0o10_000_000).ends(P);
    });
}

#[test]
fn what_the_profile_gives_may_be_listed() {
    let given = policy(
        "[filesystem]\nread = [{ path = \"/srv/data\", why = \"w\" }, { path = \"/etc/ssh\", why = \"w\" }]\n",
    );
    let mut story = Story::under(&given);
    story.lists(P, "/srv/data").lists(P, "/etc/ssh").ends(P);
    assert_eq!(story.found(), []);
}

#[test]
fn listings_that_are_remembered_are_bounded() {
    let mut story = Story::new();
    for pid in 100..10_100 {
        story.lists(pid, "/etc");
    }
    let weight = story.weight();
    for pid in 20_100..30_100 {
        story.lists(pid, "/etc");
    }
    assert!(story.weight() < weight + weight / 2);
}

#[test]
fn a_list_of_accounts_that_is_read_itself_is_account_discovery() {
    let expected = Behaviour::AccountDiscovery;
    for list in ["/etc/passwd", "/etc/group"] {
        names(
            |story| {
                story.exec(P, "/usr/bin/cat", &["cat", list]).reads(P, list);
            },
            expected,
        );
    }
    // An interpreter of a toolchain.
    names(
        |story| {
            story.exec(
                P,
                "/root/.pyenv/versions/3.11.7/bin/python3.11",
                &["python3"],
            );
            story.reads(P, "/etc/passwd");
        },
        expected,
    );
    // Another program in the same process has asked.
    names(
        |story| {
            story
                .exec(P, "/usr/bin/bash", &["bash"])
                .reads(P, "/etc/nsswitch.conf");
            story
                .exec(P, "/usr/bin/cat", &["cat"])
                .reads(P, "/etc/passwd");
        },
        expected,
    );
    for copy in [
        "/etc/passwd-",
        "/usr/share/base-passwd/group.master",
        "/var/backups/passwd.bak",
        "/etc/group.dpkg-old",
    ] {
        names(
            |story| {
                story.reads(P, copy);
            },
            expected,
        );
    }
}

/// An installer of packages reads what it keeps about the package `passwd`.
#[test]
fn a_file_with_the_name_of_a_list_in_its_own_is_no_list() {
    for other in [
        "/var/lib/dpkg/info/passwd.list",
        "/var/lib/dpkg/info/passwd.conffiles",
        "/usr/share/bash-completion/completions/passwd.sh",
        "/usr/share/doc/group-policy",
        "/etc/passwd-quality.conf",
    ] {
        let mut story = Story::new();
        story.exec(P, "/usr/bin/dpkg", &["dpkg"]).reads(P, other);
        assert_eq!(story.found(), [], "{other}");
    }
}

#[test]
fn asking_for_the_name_of_a_number_is_no_account_discovery() {
    is_silent(|story| {
        story.exec(P, "/usr/bin/python3.11", &["python3"]);
        story.reads(P, "/etc/nsswitch.conf").reads(P, "/etc/passwd");
        story.fork(P, 11).reads(11, "/etc/group");
    });
    // No such file is an answer, too.
    is_silent(|story| {
        story.exec(P, "/usr/bin/id", &["id"]);
        story
            .wants(P, "/etc/nsswitch.conf", 0)
            .reads(P, "/etc/passwd");
    });
    // A program that the run built may have no C library to ask.
    is_silent(|story| {
        story
            .exec(P, "/workspace/a.out", &["a.out"])
            .reads(P, "/etc/passwd");
    });
    is_silent(|story| {
        story.exec(P, "/usr/bin/cat", &["cat"]);
        story
            .reads(P, "/usr/share/doc/passwd")
            .reads(P, "/workspace/passwd.bak");
        story.reads(P, "/usr/share/bash-completion/completions/group");
    });
}

#[test]
fn the_whole_list_is_asked_for_and_a_name_is_not() {
    names(
        |story| {
            story.exec(P, "/usr/bin/getent", &["getent", "passwd"]);
        },
        Behaviour::AccountDiscovery,
    );
    is_silent(|story| {
        story.exec(P, "/usr/bin/getent", &["getent", "passwd", "jail"]);
        story.exec(11, "/usr/bin/getent", &["getent", "hosts"]);
    });
}

#[test]
fn settings_of_administrators_that_a_script_reads_are_file_discovery() {
    for path in [
        "/etc/fstab",
        "/etc/ssh/sshd_config",
        "/etc/sysctl.d/10-net.conf",
        "/etc/nginx/sites-enabled/default",
        "/etc/cron.daily/backup",
    ] {
        for exe in ["/usr/bin/cat", "/usr/bin/bash", "/usr/bin/python3.11"] {
            for there in [true, false] {
                discovers_files(|story| {
                    story.exec(P, exe, &["any"]);
                    match there {
                        true => story.reads(P, path),
                        false => story.wants_answered(P, path, 0, 2),
                    };
                });
            }
        }
    }
}

#[test]
fn settings_are_read_by_those_whose_they_are_and_where_they_are_given() {
    let tools = [
        ("/usr/bin/ssh", "/etc/ssh/ssh_config"),
        ("/usr/sbin/nginx", "/etc/nginx/nginx.conf"),
        ("/usr/bin/mount", "/etc/fstab"),
        ("/usr/bin/python3.11", "/etc/os-release"),
        ("/usr/bin/python3.11", "/etc/apache2/mime.types"),
        ("/usr/bin/bash", "/etc/profile.d/locale.sh"),
        ("/usr/bin/cat", "/workspace/etc/fstab"),
    ];
    for (exe, path) in tools {
        is_silent(|story| {
            story.exec(P, exe, &["any"]).wants_answered(P, path, 0, 2);
        });
    }
    let given = policy("[filesystem]\nread = [{ path = \"/etc/ssh\", why = \"w\" }]\n");
    let mut story = Story::under(&given);
    story.exec(P, "/usr/bin/cat", &["cat"]);
    story.reads(P, "/etc/ssh/ssh_config");
    assert_eq!(story.found(), []);
}

#[test]
fn who_asks_many_numbers_who_they_are_looks_for_somebody() {
    let asks = |file: &'static str, last: u32| {
        move |story: &mut Story| {
            for number in 40..last {
                story.wants(P, &format!("/proc/{number}/{file}"), 0);
            }
        }
    };
    discovers_files(asks("environ", 48));
    discovers_files(asks("cmdline", 60));
    is_silent(asks("environ", 47));
    is_silent(asks("stat", 90));
}

#[test]
fn a_listing_that_was_asked_for_counts_once() {
    let mut story = Story::new();
    story
        .exec(P, "/usr/bin/ls", &["ls", "/etc"])
        .lists(P, "/etc");
    story.ends(P);
    assert_eq!(story.found(), [(Behaviour::FileDiscovery, 1)]);
}

/// inotify_add_watch(2), by its number.
const WATCH: u32 = 254;

#[test]
fn a_place_of_the_system_that_is_not_there_is_watched_as_it_is_listed() {
    let watches = |path: &'static str, errno: i32| {
        move |story: &mut Story| {
            let call = (WATCH, [0; 6]);
            story.calls_on(P, turnkey_policy::AttemptKind::Stat, call, (path, errno));
        }
    };
    for path in ["/root", "/var/log", "/srv/www", "/etc/nginx"] {
        discovers_files(watches(path, 2));
        // One that is there is told under a rule of the profile's own, which says what it weighs.
        is_silent(watches(path, 0));
    }
    // What a program looks for is its own, and what only asks is no watch.
    for path in [
        "/root/.config",
        "/usr/share/app",
        "/etc/app.d",
        "/workspace/src",
        "/tmp/x",
    ] {
        is_silent(watches(path, 2));
    }
    is_silent(|story| {
        story.calls_on(
            P,
            turnkey_policy::AttemptKind::Stat,
            (4, [0; 6]),
            ("/root", 2),
        );
    });
}

#[test]
fn a_file_where_the_system_has_directories_alone_is_nobodys() {
    for path in ["/usr/notes.txt", "/usr/local/key", "/usr/share/list"] {
        discovers_files(|story| {
            story
                .exec(P, "/usr/bin/python3", &["python3"])
                .reads(P, path);
        });
        // A virtual environment and a package are looked for there, and a program of its own reads what it brought.
        is_silent(|story| {
            story
                .exec(P, "/usr/bin/python3", &["python3"])
                .wants(P, path, 0);
        });
        is_silent(|story| {
            story.exec(P, "/usr/bin/any", &["any"]).reads(P, path);
        });
    }
    for path in ["/usr/lib/notes.txt", "/usr/share/app/list", "/usr"] {
        is_silent(|story| {
            story.exec(P, "/usr/bin/cat", &["cat"]).reads(P, path);
        });
    }
}

#[test]
fn a_tool_that_a_package_brought_as_a_script_looks_for_its_settings() {
    let looks = |story: &mut Story, script: &str| {
        story
            .script(P, script)
            .wants(P, "/etc/postgresql", DIRECTORY);
        story
            .reads(P, "/etc/postgresql/15/main/postgresql.conf")
            .ends(P);
    };
    is_silent(|story| looks(story, "/usr/bin/psql"));
    // The program's own script is none, and none that it put there.
    discovers_files(|story| looks(story, "/workspace/psql"));
    discovers_files(|story| {
        story.writes(P, "/usr/bin/psql");
        looks(story, "/usr/bin/psql");
    });
}

/// ls(1) of a file tells of that file.
#[test]
fn a_file_is_no_directory_to_list() {
    is_silent(|story| {
        let argv = &["ls", "-l", "/etc/passwd", "/etc/group", "/etc/nginx.conf"];
        story.exec(P, "/usr/bin/ls", argv);
    });
    names(
        |story| {
            story.exec(P, "/usr/bin/ls", &["ls", "-l", "/etc/passwd", "/etc/nginx"]);
        },
        Behaviour::FileDiscovery,
    );
}
