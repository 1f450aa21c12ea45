//! Secrets that the program's home lacks: who asks for them decides.

use turnkey_policy::{AttemptKind, Behaviour, Policy};

use super::super::fixture::{Story, policy};
use super::{P, is_silent, names};

/// The story's profile, with a home that holds nothing.
fn empty_home() -> Policy {
    let mut policy = policy("");
    policy.settle_home(&policy.homes(None), &|_| false);
    policy
}

#[test]
fn who_asks_decides_on_a_secret_that_the_home_lacks() {
    let asks = |exe: &str, secret: &str| {
        let mut story = Story::under(&empty_home());
        story.exec(P, exe, &["x"]).wants(P, secret, 0);
        story
            .found()
            .iter()
            .any(|(one, _)| *one == Behaviour::CredentialAccess)
    };
    // Settings of its own.
    for (exe, secret) in [
        ("/usr/bin/docker", "/workspace/.docker/config.json"),
        ("/usr/bin/kubectl", "/workspace/.kube/config"),
        ("/usr/bin/curl", "/workspace/.netrc"),
        ("/usr/bin/python3.11", "/workspace/.netrc"),
        ("/usr/bin/python3.11", "/workspace/.aws/credentials"),
        ("/usr/bin/ssh", "/workspace/.ssh/id_rsa"),
        (
            "/usr/lib/git-core/git-credential-store",
            "/workspace/.git-credentials",
        ),
    ] {
        assert!(!asks(exe, secret), "{exe} {secret}");
    }
    // A secret of somebody else's.
    for (exe, secret) in [
        ("/usr/bin/cat", "/workspace/.docker/config.json"),
        ("/usr/bin/cp", "/workspace/.aws/credentials"),
        ("/usr/bin/base64", "/workspace/.ssh/id_rsa"),
        ("/usr/bin/python3.11", "/workspace/.ssh/id_ed25519"),
        ("/usr/bin/perl", "/workspace/.gnupg/secring.gpg"),
        (
            "/usr/bin/node",
            "/workspace/.config/chromium/Default/Cookies",
        ),
        // No rule speaks of these.
        ("/usr/bin/cat", "/workspace/.bitcoin/wallet.dat"),
        ("/usr/bin/python3.11", "/workspace/.electrum/wallets/first"),
        (
            "/usr/bin/tar",
            "/workspace/.local/share/keyrings/login.keyring",
        ),
        (
            "/usr/bin/python3.11",
            "/workspace/.config/BraveSoftware/Brave-Browser/Default/Login Data",
        ),
        (
            "/usr/bin/node",
            "/workspace/.config/discord/Local Storage/leveldb/000005.ldb",
        ),
    ] {
        assert!(asks(exe, secret), "{exe} {secret}");
    }
    // What is there is a matter of the rules.
    let mut story = Story::new();
    story
        .exec(P, "/usr/bin/cat", &["cat"])
        .reads(P, "/workspace/.netrc");
    assert_eq!(story.found(), []);
    // The run made it.
    let mut story = Story::under(&empty_home());
    story
        .exec(P, "/usr/bin/cat", &["cat"])
        .writes(P, "/workspace/.netrc");
    story.reads(P, "/workspace/.netrc");
    assert_eq!(story.found(), []);
}

/// `/home/eve`, `~` of the run and a directory of the workspace, with this in it.
fn homes(kept: &str) -> [String; 4] {
    ["/root/", "/home/eve/", "/workspace/", ""].map(|home| format!("{home}{kept}"))
}

const KEPT: [&str; 6] = [
    ".ssh",
    ".aws/",
    ".gnupg/.",
    ".mozilla/*",
    ".local/share/keyrings",
    ".config/google-chrome",
];

#[test]
fn a_tool_that_takes_where_secrets_are_kept_needs_no_open() {
    for place in KEPT.iter().flat_map(|kept| homes(kept)) {
        let place = &*place;
        for argv in [
            &["tar", "czf", "/tmp/x.tgz", place][..],
            &["tar", "--create", "-f", "x.tar", "-C", "/", place],
            &["bsdtar", "-cf", "-", place],
            &["zip", "-qr", "/tmp/x.zip", "a", place],
            &["7z", "a", "x.7z", place],
            &["cp", "-a", place, "/tmp/x"],
            &["rsync", "-a", place, "host:/x"],
            &["scp", "-r", place, "host:"],
            &["mv", place, "/tmp"],
        ] {
            names(
                |story| {
                    story.exec(P, "/usr/bin/any", argv);
                },
                Behaviour::CredentialAccess,
            );
        }
    }
    for argv in [
        &["cp", "/root/.pgpass", "x"][..],
        &["tar", "czf", "x.tgz", "/etc/wireguard/"],
        &["cp", "/etc/ppp/chap-secrets", "x"],
    ] {
        names(
            |story| {
                story.exec(P, "/usr/bin/any", argv);
            },
            Behaviour::CredentialAccess,
        );
    }
}

#[test]
fn putting_something_there_and_taking_ones_own_are_none() {
    for place in KEPT.iter().flat_map(|kept| homes(kept)) {
        let place = &*place;
        for argv in [
            &["tar", "xzf", "x.tgz", "-C", place][..],
            &["tar", "--extract", "--file=x.tar", place],
            &["cp", "-a", "/tmp/x", place],
            &["rsync", "-a", "host:/x", place],
            &["install", "-d", "-m", "700", place],
            &["mkdir", "-p", place],
            &["ls", place],
        ] {
            let mut story = Story::new();
            story.exec(P, "/usr/bin/any", argv);
            let found = story.found();
            let takes = |(one, _): &(Behaviour, u64)| *one == Behaviour::CredentialAccess;
            assert!(!found.iter().any(takes), "{argv:?}");
        }
    }
    is_silent(|story| {
        story.writes(P, "/workspace/.ssh/id_test");
        story.exec(11, "/usr/bin/tar", &["tar", "cf", "/tmp/x.tar", ".ssh"]);
        story.exec(12, "/usr/bin/cp", &["cp", ".sshd", ".aws-sam", "/tmp"]);
    });
}

#[test]
fn an_agent_out_of_reach_and_a_key_of_the_kernel_are_credential_access() {
    for socket in [
        "/run/user/0/keyring/ssh",
        "/var/run/user/1000/gnupg/S.gpg-agent.ssh",
        "/tmp/ssh-XXXX/agent.12",
        "/root/.gnupg/S.gpg-agent",
    ] {
        names(
            |story| {
                story.connects_to_path(P, socket);
            },
            Behaviour::CredentialAccess,
        );
    }
    for (call, operation) in [("keyctl", 10), ("keyctl", 11), ("request_key", 0x7f00)] {
        names(
            |story| {
                story.calls(P, call, [operation, 0, 0]);
            },
            Behaviour::CredentialAccess,
        );
    }
    const OWN: &str = "/workspace/.gnupg/S.gpg-agent";
    for (program, socket, is_silent) in [
        ("/usr/bin/gpg", OWN, true),
        ("/usr/bin/gpgsm", OWN, true),
        ("/usr/bin/gpg", "/root/.gnupg/S.gpg-agent", false),
        ("/workspace/gpg", OWN, false),
        ("/usr/bin/python3", OWN, false),
    ] {
        let mut story = Story::new();
        story.exec(P, program, &["any"]).connects_to_path(P, socket);
        let found = story.found();
        let takes = |(one, _): &(Behaviour, u64)| *one == Behaviour::CredentialAccess;
        assert_eq!(!found.iter().any(takes), is_silent, "{program} {socket}");
    }
    // Name services, logs, a session of its own; a key that it adds.
    is_silent(|story| {
        for socket in [
            "/var/run/nscd/socket",
            "/dev/log",
            "/tmp/.X11-unix/X0",
            "/workspace/s",
        ] {
            story.connects_to_path(P, socket);
        }
        for operation in [0, 1, 5, 9] {
            story.calls(P, "keyctl", [operation, 0, 0]);
        }
        story.calls(P, "add_key", [0x7f00, 0, 0]);
    });
}

/// Suites of tests make a home, and settings in it.
#[test]
fn secrets_in_a_home_of_the_runs_own_are_nobody_elses() {
    let asks = |story: &mut Story, home: &str| {
        for secret in [".netrc", ".aws/credentials", ".ssh/id_rsa"] {
            story.reads(P, &format!("{home}/{secret}"));
        }
    };
    is_silent(|story| {
        story.changed(P, AttemptKind::Open, "/tmp/home", 0);
        story.wants_answered(P, "/tmp/home/.docker/config.json", 0, 2);
        for secret in [".netrc", ".aws/credentials", ".ssh/id_rsa"] {
            story.writes(P, &format!("/tmp/home/{secret}"));
        }
        asks(story, "/tmp/home");
    });
    let told = |before: &dyn Fn(&mut Story), home: &str| {
        let tell = |story: &mut Story| {
            before(story);
            asks(story, home);
        };
        names(tell, Behaviour::CredentialAccess);
    };
    told(&|_| {}, "/tmp/home");
    told(
        &|story| {
            story.changed(P, AttemptKind::Open, "/tmp/home", 17);
        },
        "/tmp/home",
    );
    // A directory of settings in a home that is there, and a home that something was put into.
    told(
        &|story| {
            for one in [".ssh", ".aws"] {
                story.changed(P, AttemptKind::Open, &format!("/workspace/{one}"), 0);
            }
        },
        "/workspace",
    );
    told(
        &|story| {
            story.changed(P, AttemptKind::Open, "/tmp/home", 0);
            story.renames(P, "/workspace/secrets", "/tmp/home/.aws");
        },
        "/tmp/home",
    );
}

/// An interpreter reads the list of what was typed to it when a person talks to it, and no other.
#[test]
fn lists_of_what_was_typed_are_read_by_who_keeps_them() {
    let of = |argv: &[&str], path: &str| {
        let mut story = Story::under(&empty_home());
        story.exec(P, &format!("/usr/bin/{}", argv[0]), argv);
        story.wants(P, path, 0);
        story.found()
    };
    for argv in [&["python3", "-c", "x"][..], &["python3", "x.py"]] {
        let found = of(argv, "/workspace/.bash_history");
        assert_eq!(found, [(Behaviour::CredentialAccess, 1)], "{argv:?}");
    }
    for argv in [&["bash", "-i"][..], &["bash"]] {
        assert_eq!(of(argv, "/workspace/.bash_history"), [], "{argv:?}");
    }
    assert_eq!(of(&["psql"], "/workspace/.psql_history"), []);
}

/// A program that asks first opens nothing of what is not there.
#[test]
fn looking_for_what_two_applications_of_a_person_keep_is_credential_access() {
    let looks = |exe: &'static str, paths: &'static [&'static str]| {
        move |story: &mut Story| {
            story.exec(P, exe, &["x", "y"]);
            for path in paths {
                story.looks_for(P, &format!("/workspace/{path}"));
            }
        }
    };
    let python = "/usr/bin/python3.11";
    let expected = Behaviour::CredentialAccess;
    let chats = &[".config/discord/Local Storage/leveldb", ".config/Slack"];
    names(looks(python, chats), expected);
    names(
        looks(
            "/usr/bin/bash",
            &[".mozilla/firefox", ".config/chromium/Default"],
        ),
        expected,
    );
    names(
        looks(
            "/workspace/steal",
            &[".bitcoin/wallet.dat", ".electrum/wallets"],
        ),
        expected,
    );
    is_silent(looks(
        python,
        &[".config/discord", ".config/discord/Local Storage"],
    ));
    is_silent(looks(python, &[".config/matplotlib", ".config/pip"]));
    is_silent(looks(
        "/usr/bin/firefox",
        &[".mozilla/firefox", ".config/google-chrome"],
    ));
}
