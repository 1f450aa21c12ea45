//! Code in programs of others, and in those that are the run's own.

use super::super::End;
use super::fixture::Story;
use turnkey_policy::{AttemptKind, Behaviour};

use super::{P, is_silent, names};

#[test]
fn code_in_other_programs_is_injection() {
    let expected = Behaviour::Injection;
    names(
        |story| {
            story.exec(P, "/usr/bin/ls", &["ls"]);
            story
                .reads(P, "/workspace/evil.so")
                .reads(P, "/etc/ld.so.cache");
        },
        expected,
    );
    names(
        |story| {
            story.wants(P, "/etc/ld.so.preload", 0o101);
        },
        expected,
    );
    names(
        |story| {
            story.exec(P, "/usr/bin/python3.11", &["python3", "x.py"]);
            let code = "/workspace/venv/lib/python3.11/site-packages/requests/api.py";
            story.reads(P, code).writes(P, code);
        },
        expected,
    );
    for file in [
        "package.json",
        "lib/index.mjs",
        "lib/index.cjs",
        "build/x.node",
    ] {
        names(
            |story| {
                story.exec(P, "/usr/bin/node", &["node", "x.js"]);
                let file = format!("/workspace/node_modules/ethers/{file}");
                story.reads(P, &file).writes(P, &file);
            },
            expected,
        );
    }
    names(
        |story| {
            story.writes(P, "/usr/lib/python3/dist-packages/requests/api.py");
        },
        expected,
    );
}

#[test]
fn libraries_of_the_workspace_caches_and_installers_are_none() {
    is_silent(|story| {
        story.exec(P, "/workspace/tool", &["./tool"]);
        story.reads(P, "/workspace/lib/libtool.so");
        story.exec(11, "/usr/bin/python3.11", &["python3"]);
        story
            .reads(11, "/etc/ld.so.cache")
            .reads(11, "/workspace/fast.so");
        story.writes(11, "/w/site-packages/x/__pycache__/x.cpython-311.pyc");
        story.exec(
            12,
            "/usr/bin/node",
            &["node", "/usr/share/nodejs/npm/bin/npm-cli.js", "install"],
        );
        story.writes(12, "/workspace/node_modules/x/index.js");
    });
    // The place that LD_LIBRARY_PATH names is looked at first, and has nothing.
    is_silent(|story| {
        story.exec(P, "/usr/bin/gcc", &["gcc"]);
        story.wants(P, "/workspace/target/debug/deps/libc.so.6", 0);
        story.reads(P, "/etc/ld.so.cache");
    });
    // An environment that the run makes, and what is put there.
    is_silent(|story| {
        story.exec(P, "/usr/bin/python3.11", &["python3", "-c", "…"]);
        story.writes(P, "/workspace/env/pyvenv.cfg");
        let packages = "/workspace/env/lib/python3.11/site-packages";
        story.writes(P, &format!("{packages}/x.pth"));
        let code = format!("{packages}/x/__init__.py");
        story.writes(P, &code).reads(P, &code).writes(P, &code);
        story.writes(P, "/workspace/node_modules/.cache/new.js");
    });
}

/// `cp -a` makes the directories first, and the settings of an environment after its libraries.
#[test]
fn a_copy_of_what_is_installed_is_new_to_everybody() {
    let copied = |root: &'static str, package: &'static str| {
        move |story: &mut super::Story| {
            story.exec(P, "/usr/bin/cp", &["cp", "-a", "v", "w"]);
            let mut directory = String::new();
            for name in root.split('/').skip(1) {
                directory = format!("{directory}/{name}");
                story.changed(
                    P,
                    AttemptKind::Open,
                    &directory,
                    if name == "workspace" { 17 } else { 0 },
                );
            }
            story.wants(P, package, NEW);
        }
    };
    let library = "/workspace/w/lib/python3.11/site-packages";
    for package in [
        "/workspace/w/lib/python3.11/site-packages/x.pth",
        "/workspace/w/lib/python3.11/site-packages/x/__init__.py",
    ] {
        is_silent(copied(library, package));
        // Into one that is there.
        let told = move |story: &mut super::Story| {
            story.exec(P, "/usr/bin/cp", &["cp", "x", "w"]);
            story.wants(P, package, NEW);
        };
        assert!(told_of(told), "{package}");
    }
    for (root, file) in [
        (
            "/workspace/app/node_modules",
            "/workspace/app/node_modules/x/index.js",
        ),
        (
            "/workspace/app/node_modules/.bin",
            "/workspace/app/node_modules/.bin/jest",
        ),
        ("/workspace/.venv/bin", "/workspace/.venv/bin/pytest"),
    ] {
        is_silent(copied(root, file));
    }
    let own = "/workspace/.local/lib/python3.11/site-packages";
    names(
        copied(own, "/workspace/.local/lib/python3.11/site-packages/x.pth"),
        Behaviour::Persistence,
    );
}

/// `O_WRONLY | O_CREAT | O_EXCL`
const NEW: u32 = 0o301;

fn told_of(tell: impl Fn(&mut super::Story)) -> bool {
    let mut story = super::Story::new();
    tell(&mut story);
    !story.found().is_empty()
}

#[test]
fn the_memory_of_another_process_is_not_the_programs() {
    const OWN: u32 = 10;
    let opens = |path: &'static str, flags| {
        move |story: &mut super::Story| {
            story.wants_answered(P, path, flags, 13);
        }
    };
    names(opens("/proc/3/mem", 0), Behaviour::CredentialAccess);
    names(opens("/proc/3/task/4/mem", 0), Behaviour::CredentialAccess);
    names(opens("/proc/3/mem", 2), Behaviour::Injection);
    is_silent(opens("/proc/10/mem", 0));
    is_silent(opens("/proc/3/maps", 0));
    is_silent(opens("/proc/3/status", 0));
    assert_eq!(P, OWN, "the third is the program's own");
}

/// PATH finds a home's own programs first.
#[test]
fn a_program_of_a_home_that_is_called_as_one_of_the_system_is_an_injection() {
    let expected = Behaviour::Injection;
    for path in [
        "/workspace/.local/bin/sudo",
        "/home/ada/bin/ssh",
        "/root/.local/bin/git",
    ] {
        names(
            |story| {
                story.writes(P, path);
            },
            expected,
        );
        names(
            |story| {
                story.renames(P, "/workspace/x", path);
            },
            expected,
        );
    }
    is_silent(|story| {
        story.writes(P, "/workspace/.local/bin/my-tool");
        story.writes(P, "/workspace/bin/ls");
        story.writes(P, "/workspace/env/bin/git");
        story.reads(P, "/workspace/.local/bin/sudo");
    });
}

/// A test runner in whose place another program is put; only the end tells that one was there.
#[test]
fn a_program_of_a_package_that_was_there_and_is_another_now_is_injected() {
    let written = |there: bool, exe: &str| {
        let path = "/workspace/node_modules/.bin/jest";
        let mut story = Story::new();
        story.exec(P, exe, &["any"]).writes(P, path);
        let replaced = vec![path.to_owned()];
        let end = End {
            replaced: if there { replaced } else { Vec::new() },
            ..End::default()
        };
        let found = story.ended(&end);
        found
            .iter()
            .any(|one| one.behaviour == Behaviour::Injection)
    };
    assert!(written(true, "/usr/bin/bash"));
    assert!(!written(false, "/usr/bin/bash"), "a new one");
    assert!(!written(true, "/usr/bin/npm"), "an installer's work");
}

/// Questions about a process of the run's own, and those of ps(1), are asked every day.
#[test]
fn the_map_of_anothers_memory_and_its_environment_are_what_secrets_are_looked_for_in() {
    let opens = |path: &'static str, exe: &'static str| {
        move |story: &mut Story| {
            story.exec(P, exe, &["x"]).fork(P, 11);
            story.wants_answered(P, path, 0, 13);
        }
    };
    let python = "/usr/bin/python3.11";
    let expected = Behaviour::CredentialAccess;
    names(opens("/proc/1/maps", python), expected);
    names(opens("/proc/7/environ", "/workspace/x"), expected);
    is_silent(opens("/proc/11/maps", python));
    is_silent(opens("/proc/10/maps", python));
    is_silent(opens("/proc/7/maps", "/usr/bin/lsof"));
    is_silent(opens("/proc/7/status", python));
}
