//! Changes of what belongs to the system, and of what only seems to.

use turnkey_policy::AttemptKind;

use super::*;

/// As the kernel answers where a mount is read-only.
const READ_ONLY: i32 = 30;
const ABSENT: i32 = 2;
/// `O_WRONLY | O_CREAT | O_APPEND`
const WRITE_CREATE: u32 = 0o2101;

#[test]
fn code_of_an_installation_in_a_home_is_the_systems_and_notes_of_tools_are_their_own() {
    let policy = policy("[filesystem]\nread = [{ path = \"/home/you/.pyenv\", why = \"w\" }]\n");
    let of = |path: &str, errno: i32| {
        let mut story = Story::under(&policy);
        story.wants_answered(P, path, WRITE_CREATE, errno);
        story.found()
    };
    for code in [
        "lib/python3.11/json/__init__.py",
        "bin/pip",
        "lib/x.so",
        "lib/x.py.tmp",
    ] {
        let found = of(&format!("/home/you/.pyenv/{code}"), READ_ONLY);
        assert_eq!(found, [(Behaviour::SystemChange, 1)], "{code}");
    }
    for note in ["version.lock", "cache/state.json", "lib/__pycache__/x.pyc"] {
        assert_eq!(
            of(&format!("/home/you/.pyenv/{note}"), READ_ONLY),
            [],
            "{note}"
        );
    }
}

/// Scripts look first and give up: `[ -w /etc/hosts ]`, `os.access(path, os.W_OK)`.
#[test]
fn asking_whether_a_file_may_be_written_is_wanting_to_write_it() {
    const ACCESS: u32 = 21;
    const FACCESSAT2: u32 = 439;
    let asks = |call: (u32, [u64; 6]), path: &str, errno: i32| {
        let mut story = Story::new();
        story.calls_on(P, AttemptKind::Stat, call, (path, errno));
        story.found()
    };
    let to_write = [
        (ACCESS, [0, 2, 0, 0, 0, 0]),
        // To read and write, with what no kernel looks at above.
        (FACCESSAT2, [0, 0, 0xdead_0000_0006, 0, 0, 0]),
    ];
    let wanted = [(Behaviour::SystemChange, 1)];
    for call in to_write {
        for path in [
            "/etc/hosts",
            "/usr/lib/python3/json.py",
            "/usr/bin/ls",
            "/root/.bashrc",
        ] {
            assert_eq!(asks(call, path, READ_ONLY), wanted, "{path}");
        }
        // A place to install to, or to keep a cache at, is chosen so.
        for path in [
            "/usr/lib/python3/dist-packages",
            "/usr/local",
            "/root",
            "/var/www",
        ] {
            assert_eq!(asks(call, path, READ_ONLY), [], "{path}");
        }
        assert_eq!(asks(call, "/workspace/x.py", READ_ONLY), []);
        // What may be written is written then, and what is not there is not meant.
        assert_eq!(asks(call, "/etc/hosts", 0), []);
        assert_eq!(asks(call, "/etc/hosts", ABSENT), []);
    }
    let to_read = (ACCESS, [0, 4, 0, 0, 0, 0]);
    assert_eq!(asks(to_read, "/etc/shadow", 13), []);
    // The second argument of this one is the path.
    let by_path = (FACCESSAT2, [0, 2, 4, 0, 0, 0]);
    assert_eq!(asks(by_path, "/etc/hosts", READ_ONLY), []);
}

/// Erlang asks all that access(2) can say of a program that it is about to start.
#[test]
fn asking_all_of_a_program_that_is_started_then_is_no_wish_to_write_it() {
    const TO_WRITE: (u32, [u64; 6]) = (21, [0, 2, 0, 0, 0, 0]);
    let asks = |starts: Option<(&str, &str)>| {
        let mut story = Story::new();
        story.calls_on(P, AttemptKind::Stat, TO_WRITE, ("/bin/sh", READ_ONLY));
        if let Some((file, name)) = starts {
            story.exec(P + 1, file, &[name, "-c", "uname"]);
        }
        story.found()
    };
    assert_eq!(asks(Some(("/usr/bin/dash", "/bin/sh"))), []);
    assert_eq!(asks(Some(("/bin/sh", "sh"))), []);
    let wanted = [(Behaviour::SystemChange, 1)];
    assert_eq!(asks(Some(("/usr/bin/ls", "ls"))), wanted);
    assert_eq!(asks(None), wanted);
}

#[test]
fn what_is_made_in_another_home_is_told_though_no_such_home_is_there() {
    let of = |path: &str, flags: u32| {
        let mut story = Story::new();
        story.wants_answered(P, path, flags, ABSENT);
        story.found()
    };
    let wanted = [(Behaviour::SystemChange, 1)];
    assert_eq!(of("/home/frank/letter.odt", WRITE_CREATE), wanted);
    let mut story = Story::new();
    story.changed(P, AttemptKind::Open, "/home/frank", ABSENT);
    assert_eq!(story.found(), wanted, "mkdir");
    // Nothing is made by a look, nor by one who would change what is not there.
    assert_eq!(of("/home/frank/letter.odt", 0), []);
    assert_eq!(of("/home/frank/letter.odt", 1), []);
}

#[test]
fn a_change_of_the_system_is_one_whoever_refused_it() {
    let expected = Behaviour::SystemChange;
    let changes = [
        AttemptKind::Unlink,
        AttemptKind::Chmod,
        AttemptKind::Attribute,
    ];
    for (on, path) in changes
        .into_iter()
        .zip(["/usr/bin/ls", "/etc/hosts", "/root/notes"])
    {
        for errno in [0, READ_ONLY] {
            names(
                |story| {
                    story.changed(P, on, path, errno);
                },
                expected,
            );
        }
    }
    names(
        |story| {
            story.writes(P, "/usr/lib/libc.so.6");
        },
        expected,
    );
    names(
        |story| {
            story.changed(P, AttemptKind::Open, "/etc/new", READ_ONLY);
        },
        expected,
    );
    names(
        |story| {
            story.changed(P, AttemptKind::Unlink, "/var/log/auth.log", ABSENT);
        },
        expected,
    );
}

#[test]
fn caches_own_files_and_what_is_not_there_are_no_change_of_the_system() {
    is_silent(|story| {
        story.writes(
            P,
            "/usr/lib/python3/dist-packages/a/__pycache__/a.cpython-311.pyc.1",
        );
        story.wants_answered(P, "/etc/.hosts.swp", WRITE_CREATE, READ_ONLY);
        story.changed(P, AttemptKind::Unlink, "/tmp/mine", 0);
        story.changed(P, AttemptKind::Unlink, "/workspace/mine", 0);
        story.changed(P, AttemptKind::Attribute, "/workspace/mine", 0);
        story.changed(P, AttemptKind::Unlink, "/usr/bin/ls", 22);
        story.changed(P, AttemptKind::Unlink, "/var/cache/fontconfig/x", READ_ONLY);
    });
    let own = policy("[filesystem]\nwrite = [{ path = \"/srv/data\", why = \"its own\" }]");
    let mut story = Story::under(&own);
    story.changed(P, AttemptKind::Unlink, "/srv/data/x", 0);
    assert_eq!(story.found(), []);
}

#[test]
fn who_deletes_everywhere_deletes_the_whole_file_system() {
    for first in [0, 60] {
        let mut story = Story::new();
        for number in 0..first {
            story.deletes(P, &format!("/workspace/{number}.txt"));
        }
        for path in ["/usr/bin/ls", "/etc/hosts", "/var/lib/dpkg/status"] {
            story.changed(P, AttemptKind::Unlink, path, READ_ONLY);
        }
        let found = story.ended(&End::default());
        let whole = found
            .iter()
            .find(|one| one.behaviour == Behaviour::MassChange);
        let step = &whole.expect("it has a name").steps[0];
        let text = String::from_utf8_lossy(&step.what);
        assert_eq!(
            text,
            "tried to delete the whole file system: /etc, /usr, /var"
        );
    }
}

/// rm(1), mv(1) and sed(1) look first, and try nothing where nothing is; what they were told says what was meant.
#[test]
fn a_tool_that_is_told_to_change_the_system_need_find_nothing() {
    let wanted = [(Behaviour::SystemChange, 1)];
    let of = |argv: &[&str]| {
        let mut story = Story::new();
        story
            .exec(P, &format!("/usr/bin/{}", argv[0]), argv)
            .ends(P);
        story.found()
    };
    for argv in [
        &["rm", "-rf", "/home/ada"][..],
        &["mv", "/etc/hosts", "hosts"],
        &["chown", "-R", "jail", "/srv/www"],
        &["sed", "-i", "s/a/b/", "/etc/resolv.conf"],
        &["rm", "-rf", "/"],
        &["rm", "-rf", "--no-preserve-root", "//"],
        &["rm", "-r", "/."],
    ] {
        assert_eq!(of(argv), wanted, "{argv:?}");
    }
    for argv in [
        &[
            "rm",
            "-rf",
            "/workspace/build",
            "/tmp/x",
            "/var/cache/x",
            "dist",
        ][..],
        &["cat", "/etc/resolv.conf"],
        &["chmod", "755", "/"],
        &["sed", "s/a/b/", "/etc/resolv.conf"],
    ] {
        assert_eq!(of(argv), [], "{argv:?}");
    }
    // Somebody's home is not shown, so nothing is in it.
    let mut story = Story::new();
    story.changed(P, AttemptKind::Unlink, "/home/ada/thesis.docx", ABSENT);
    assert_eq!(story.found(), wanted);
    // One that the kernel told of is told once.
    let mut story = Story::new();
    story.exec(P, "/usr/bin/rm", &["rm", "-f", "/etc/hosts"]);
    story.changed(P, AttemptKind::Unlink, "/etc/hosts", READ_ONLY);
    story.ends(P);
    assert_eq!(story.found(), wanted);
    // The workspace by the name that it has on the host, and what the profile gives.
    let mut policy = policy("[filesystem]\nwrite = [{ path = \"/srv/out\", why = \"w\" }]\n");
    policy.filesystem.names = vec!["/home/ada/project".into()];
    let mut story = Story::under(&policy);
    story.exec(
        P,
        "/usr/bin/rm",
        &["rm", "-r", "/home/ada/project/build", "/srv/out/x"],
    );
    story.ends(P);
    assert_eq!(story.found(), []);
}
