//! Persistence: files that are run later, and the hooks of git that are nobody's.

use turnkey_policy::AttemptKind;

use super::*;

#[test]
fn what_is_written_to_run_later_is_persistence() {
    let expected = Behaviour::Persistence;
    for path in [
        "/root/.bashrc",
        "/etc/cron.d/x",
        "/workspace/.git/hooks/pre-commit",
        "/workspace/.git/hooks/reference-transaction",
        "/workspace/.git/hooks/post-index-change",
        "/etc/systemd/system/x.service",
        "/root/.ssh/authorized_keys",
        "/workspace/venv/lib/python3.11/site-packages/x.pth",
        "/etc/passwd",
    ] {
        names(
            |story| {
                story.wants(P, path, 0o2101);
            },
            expected,
        );
    }
    names(
        |story| {
            story.renames(P, "/tmp/x", "/root/.profile");
        },
        expected,
    );
}

/// A pipeline runs what is in its file with its own secrets. Who begins a project writes one, too.
#[test]
fn a_pipeline_that_is_there_is_changed_to_run_something_later() {
    for path in [
        "/workspace/.github/workflows/ci.yml",
        "/workspace/.gitlab-ci.yml",
        "/workspace/azure-pipelines.yml",
        "/workspace/Jenkinsfile",
        "/workspace/.envrc",
        "/workspace/app/.husky/pre-commit",
        "/workspace/.vscode/tasks.json",
        "/workspace/.claude/settings.json",
    ] {
        names(
            |story| {
                story.reads(P, path).writes(P, path);
            },
            Behaviour::Persistence,
        );
        names(
            |story| {
                story.reads(P, path).renames(P, "/workspace/sedX1", path);
            },
            Behaviour::Persistence,
        );
        is_silent(|story| {
            story.writes(P, path).reads(P, path).writes(P, path);
        });
        is_silent(|story| {
            story.reads(P, path);
        });
    }
    names(
        |story| {
            story.writes(P, "/root/.ssh/config");
        },
        Behaviour::Persistence,
    );
}

#[test]
fn settings_that_run_commands_when_a_person_works_are_for_later() {
    for path in [
        "/workspace/.psqlrc",
        "/root/.gdbinit",
        "/home/ada/.xprofile",
        "/workspace/.local/share/dbus-1/services/x.service",
    ] {
        names(
            |story| {
                story.writes(P, path);
            },
            Behaviour::Persistence,
        );
        is_silent(|story| {
            story.reads(P, path);
        });
    }
    is_silent(|story| {
        story.writes(P, "/workspace/dotfiles/.gdbinit");
        story.writes(P, "/workspace/.vimrc");
    });
}

const TEMPLATE: &str = "/usr/share/git-core/templates/hooks/pre-commit";

/// The hooks of an installed template are git's own work in a repository that it makes, and in no other.
#[test]
fn a_program_that_acts_as_its_owner_is_left_for_later() {
    for (nr, args) in [
        (90, [0, 0o4755, 0, 0, 0, 0]),
        (91, [0, 0xffff_ffff_0000_09ed, 0, 0, 0, 0]),
        (268, [0, 0, 0o6711, 0, 0, 0]),
        (452, [0, 0, 0o4001, 0, 0, 0]),
    ] {
        for errno in [0, 1] {
            names(
                |story| {
                    story.sets_mode(P, (nr, args), "/tmp/sh", errno);
                },
                Behaviour::Persistence,
            );
        }
    }
    // A script is made executable, a directory keeps its group, and nobody runs a file without a right to it.
    for mode in [0o755, 0o2775, 0o1777, 0o4644] {
        is_silent(|story| {
            story.sets_mode(P, (90, [0, mode, 0, 0, 0, 0]), "/workspace/x", 0);
        });
    }
    // An owner of this number is no mode.
    is_silent(|story| {
        story.sets_mode(P, (92, [0, 0o4755, 0o4755, 0, 0, 0]), "/workspace/x", 0);
    });
}

#[test]
fn what_is_thrown_away_with_the_run_runs_no_more() {
    for place in ["/tmp", "/dev/shm/x"] {
        is_silent(|story| {
            story.writes(P, &format!("{place}/r/.git/hooks/pre-commit"));
            story.writes(P, &format!("{place}/.bashrc"));
        });
    }
    names(
        |story| {
            story.writes(P, "/var/tmp/r/.git/hooks/pre-commit");
        },
        Behaviour::Persistence,
    );
}

/// A home that a test makes in its own directory: no session reads it, unless the home was there.
#[test]
fn a_home_that_the_run_has_made_is_nobodys() {
    let places = [
        ".bashrc",
        ".config/autostart/x.desktop",
        ".ssh/authorized_keys",
    ];
    for (made, home, is_own) in [
        ("/workspace/h", "/workspace/h", true),
        ("/workspace/a/h", "/workspace/a/h", true),
        ("/workspace/a", "/workspace/h", false),
        ("/workspace/a", "/workspace/a/h", false),
        ("/workspace/.h", "/workspace/.h", false),
        ("/workspace", "/workspace", false),
        ("/home/ada", "/home/ada", false),
    ] {
        for place in places {
            let tell = |story: &mut Story| {
                story.changed(P, AttemptKind::Open, made, 0);
                story.writes(P, &format!("{home}/{place}"));
            };
            match is_own {
                true => is_silent(tell),
                false => names(tell, Behaviour::Persistence),
            }
        }
    }
}

#[test]
fn a_hook_is_of_git_in_a_new_repository_alone() {
    let hook = "/workspace/r/.git/hooks/pre-commit";
    for word in ["init", "clone"] {
        is_silent(|story| {
            story.exec(P, "/usr/bin/git", &["git", "-c", "a=b", word, "r"]);
            story.reads(P, TEMPLATE).writes(P, hook);
        });
    }
    let told = |exec: &dyn Fn(&mut Story)| {
        names(
            |story| {
                exec(story);
                story.reads(P, TEMPLATE).writes(P, hook);
            },
            Behaviour::Persistence,
        );
    };
    // A template that came with the workspace, and one that the run made, wherever.
    told(&|story| {
        story.exec(P, "/usr/bin/git", &["git", "init", "r"]);
        story.reads(P, "/workspace/t/hooks/pre-commit");
    });
    told(&|story| {
        story.writes(P, "/opt/t/hooks/pre-commit");
        story.exec(P, "/usr/bin/git", &["git", "init", "r"]);
        story.reads(P, "/opt/t/hooks/pre-commit");
    });
    names(
        |story| {
            story.exec(P, "/usr/bin/git", &["git", "init", "r"]);
            story.writes(P, hook);
        },
        Behaviour::Persistence,
    );
    told(&|story| {
        let argv = ["git", "init", "--template=/tmp/t", "r"];
        story.exec(P, "/usr/bin/git", &argv);
        story.reads(P, "/workspace/r/.git/config");
    });
    told(&|story| {
        story.exec(P, "/workspace/git", &["git", "init"]);
    });
    told(&|story| {
        story.exec(P, "/usr/bin/git", &["git", "config", "x"]);
    });
    told(&|story| {
        story.exec(P, "/usr/bin/cp", &["cp", "init"]);
    });
}

/// A repository is the run's own where it made the directory, and everything that it has put into it.
#[test]
fn a_hook_in_a_repository_of_the_runs_own_is_nobody_elses() {
    const EEXIST: i32 = 17;
    let git = "/workspace/r/.git";
    let path = |name: &str| format!("{git}/{name}");
    let made = |story: &mut Story| {
        story.changed(P, AttemptKind::Open, git, 0);
        story.writes(P, &path("HEAD.lock"));
        story.renames(P, &path("HEAD.lock"), &path("HEAD"));
    };
    let hook = |story: &mut Story| {
        story.exec(P, "/usr/bin/cat", &["cat"]);
        story.writes(P, &path("hooks/commit-msg"));
    };
    is_silent(|story| {
        made(story);
        hook(story);
    });
    let told = |before: &dyn Fn(&mut Story)| {
        let tell = |story: &mut Story| {
            before(story);
            hook(story);
        };
        names(tell, Behaviour::Persistence);
    };
    // One that was there, whatever of it is written anew.
    told(&|story| {
        story.changed(P, AttemptKind::Open, git, EEXIST);
    });
    told(&|story| {
        story.writes(P, &path("HEAD"));
    });
    told(&|story| {
        story.deletes(P, &path("HEAD")).writes(P, &path("HEAD"));
    });
    // Moved away, and its content into another one of its name.
    told(&|story| {
        story.renames(P, git, "/workspace/g");
        made(story);
    });
    told(&|story| {
        story.renames(P, "/workspace/r", "/workspace/old");
        made(story);
        story.renames(P, "/workspace/old/.git/config", &path("config"));
    });
    told(&|story| {
        story.changed(P, AttemptKind::Open, "/workspace/s/.git", 0);
    });
}

#[test]
fn reading_them_samples_of_git_and_an_installer_are_none() {
    is_silent(|story| {
        story.reads(P, "/root/.bashrc").reads(P, "/etc/passwd");
        story.writes(P, "/workspace/.git/hooks/pre-commit.sample");
        story.exec(
            11,
            "/usr/bin/python3.11",
            &["python3", "-m", "pip", "install", "x"],
        );
        story.writes(11, "/workspace/venv/lib/python3.11/site-packages/x.pth");
        // It has a package built, which writes its own.
        story.fork(11, 12);
        story.exec(
            12,
            "/usr/bin/python3.11",
            &["python3", "setup.py", "develop"],
        );
        story.writes(
            12,
            "/workspace/.local/lib/python3.11/site-packages/easy-install.pth",
        );
    });
    // The package's own code runs there, too.
    names(
        |story| {
            let argv = &["python3", "-m", "pip", "install", "x"];
            story.exec(11, "/usr/bin/python3.11", argv);
            story.fork(11, 12);
            let argv = &["python3", "setup.py", "develop"];
            story.exec(12, "/usr/bin/python3.11", argv);
            story.writes(12, "/workspace/.local/lib/python3.11/site-packages/x.pth");
        },
        Behaviour::Persistence,
    );
}

/// Both names of a rename start where the program is, which is told of the old one.
#[test]
fn a_startup_file_is_where_the_program_was_when_it_named_it() {
    let renamed = |directory: &'static str| {
        move |story: &mut Story| {
            story.renames_in(P, directory, "made", ".profile");
        }
    };
    is_silent(renamed("/tmp/home"));
    names(renamed("/home/ada"), Behaviour::Persistence);
}
