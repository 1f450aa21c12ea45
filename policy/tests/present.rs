//! Rules on what is present: what the program's home lacks silences them there, and nowhere else.

use std::path::{Path, PathBuf};

use turnkey_policy::{
    Attempt, AttemptKind, Beginning, OpenAccess, Overrides, Policy, RuleAction, decide, load,
};

fn untrusted(lines: &str) -> Policy {
    let text = format!(
        "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"untrusted\"]\n{lines}"
    );
    let read = |path: &str| match path {
        "mine.toml" => Ok(text.clone()),
        path => Err(format!("no {path} here")),
    };
    load("mine.toml", &read, &Overrides::default()).expect("a profile")
}

/// A home with these files.
fn with(mut policy: Policy, homes: &[PathBuf], files: &[&str]) -> Policy {
    policy.settle_home(homes, &|asked: Beginning<'_>| {
        files.iter().any(|file| match asked.is_open {
            true => file.as_bytes().starts_with(asked.bytes),
            false => file.as_bytes() == asked.bytes,
        })
    });
    policy
}

fn home() -> Vec<PathBuf> {
    vec![PathBuf::from("/workspace")]
}

fn decided<'p>(
    policy: &'p Policy,
    on: AttemptKind,
    path: &str,
    access: &[OpenAccess],
) -> Option<&'p str> {
    let attempt = Attempt {
        path: Some(path.as_bytes()),
        access,
        ..Attempt::new(on)
    };
    decide(&policy.rules, &attempt).map(|rule| policy.rules[rule].id.as_str())
}

fn read<'p>(policy: &'p Policy, path: &str) -> Option<&'p str> {
    decided(policy, AttemptKind::Open, path, &[OpenAccess::Read])
}

/// One path for each pattern of the shipped rules, below a home.
const SECRETS: &[&str] = &[
    ".ssh/id_ed25519",
    ".ssh/identity",
    ".gnupg/private-keys-v1.d/0123.key",
    ".gnupg/secring.gpg",
    ".aws/credentials",
    ".azure/accessTokens.json",
    ".azure/msal_token_cache.json",
    ".config/gcloud/credentials.db",
    ".config/gcloud/legacy_credentials/me/adc.json",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".git-credentials",
    ".kube/config",
    ".netrc",
    ".pgpass",
    ".pypirc",
    ".vault-token",
    ".mozilla/firefox/x.default/logins.json",
    ".config/chromium/Default/Cookies",
];

/// The same of the rules on writing alone.
const RUN_LATER: &[&str] = &[
    ".bashrc",
    ".zprofile",
    ".config/fish/config.fish",
    ".ssh/authorized_keys",
    ".ssh/rc",
    ".config/systemd/user/x.service",
    ".config/autostart/x.desktop",
    "release_agent",
];

/// A file that runs later is the jail's own where it is gone with the jail, and nowhere else.
#[test]
fn what_runs_later_may_be_written_in_memory_of_the_jails_own_alone() {
    let unsettled = untrusted("");
    let mut empty = with(untrusted(""), &home(), &[]);
    empty.settle_lacking_workspace(false);
    for file in RUN_LATER {
        for on in [AttemptKind::Open, AttemptKind::Link, AttemptKind::Rename] {
            let access: &[OpenAccess] = match on {
                AttemptKind::Open => &[OpenAccess::Write],
                _ => &[],
            };
            for place in ["/workspace", "/workspace/a", "/root", "/tmp", "/tmp/a/b"] {
                let path = format!("{place}/{file}");
                let before = decided(&unsettled, on, &path, access);
                let expected = before.filter(|_| !place.starts_with("/tmp"));
                assert_eq!(
                    decided(&empty, on, &path, access),
                    expected,
                    "{on:?} {path}"
                );
            }
            let own = format!("/workspace/{file}");
            assert!(on != AttemptKind::Open || decided(&empty, on, &own, access).is_some());
        }
    }
}

/// Below the directories of a workspace in which nobody has a home; in the program's own home, and everywhere else, as before.
#[test]
fn what_runs_later_may_be_written_where_nobody_would_run_it() {
    let unsettled = untrusted("");
    let homes = [home(), vec![PathBuf::from("/workspace/own/home")]].concat();
    let mut empty = with(untrusted(""), &homes, &[]);
    empty.settle_workspace_of_no_home(false, &homes);
    for file in RUN_LATER {
        for on in [AttemptKind::Open, AttemptKind::Link, AttemptKind::Rename] {
            let access: &[OpenAccess] = match on {
                AttemptKind::Open => &[OpenAccess::Write],
                _ => &[],
            };
            for (place, is_free) in [
                ("/workspace/a", true),
                ("/workspace/own", true),
                ("/workspace/own/home/a", true),
                ("/workspace", false),
                ("/workspace/own/home", false),
                ("/workspaces/a", false),
                ("/root", false),
            ] {
                let path = format!("{place}/{file}");
                let before = decided(&unsettled, on, &path, access);
                let now = decided(&empty, on, &path, access);
                assert_eq!(now, before.filter(|_| !is_free), "{on:?} {path}");
                let later = homes.iter().all(|home| home != Path::new(place));
                assert_eq!(empty.is_run_later(path.as_bytes(), &homes), later, "{path}");
            }
        }
    }
    let secret = "/workspace/a/.netrc";
    assert_eq!(read(&empty, secret), read(&unsettled, secret));
}

#[test]
fn every_secret_that_the_home_lacks_may_be_asked_for_there_and_nowhere_else() {
    let unsettled = untrusted("");
    let empty = with(untrusted(""), &home(), &[]);
    for secret in SECRETS {
        let [own, other, deeper] =
            ["/workspace", "/root", "/workspace/project"].map(|home| format!("{home}/{secret}"));
        for on in [AttemptKind::Open, AttemptKind::Link, AttemptKind::Rename] {
            let access = if on == AttemptKind::Open {
                OpenAccess::ALL
            } else {
                &[]
            };
            let rule = decided(&unsettled, on, &own, access);
            assert!(rule.is_some(), "{own}");
            assert_eq!(decided(&empty, on, &own, access), None, "{own}");
            assert_eq!(decided(&empty, on, &other, access), rule, "{other}");
            assert_eq!(decided(&empty, on, &deeper, access), rule, "{deeper}");
        }
    }
}

#[test]
fn the_list_above_has_a_path_for_every_pattern() {
    let policy = untrusted("");
    for (files, on_writing) in [(SECRETS, false), (RUN_LATER, true)] {
        let rules = policy.rules.iter().filter(|rule| rule.present);
        let rules = rules.filter(|rule| rule.is_on_writing_alone() == on_writing);
        let patterns = rules.flat_map(|rule| &rule.path);
        for glob in patterns.filter(|glob| glob.as_str().starts_with("**/")) {
            let matches = |file: &&str| glob.matches(format!("/workspace/{file}").as_bytes());
            assert!(files.iter().any(matches), "{glob}");
        }
    }
}

#[test]
fn what_is_there_is_guarded_and_its_neighbours_are_not() {
    for secret in SECRETS {
        let own = format!("/workspace/{secret}");
        let policy = with(untrusted(""), &home(), &[&own]);
        assert!(read(&policy, &own).is_some(), "{own}");
    }
    let policy = with(
        untrusted(""),
        &home(),
        &["/workspace/.config/other/file", "/workspace/.netrc"],
    );
    assert_eq!(
        read(&policy, "/workspace/.netrc"),
        Some("stored-credential")
    );
    assert_eq!(read(&policy, "/workspace/.config/gh/hosts.yml"), None);
    assert_eq!(read(&policy, "/workspace/.pgpass"), None);
}

#[test]
fn a_decoy_is_there() {
    let policy = untrusted("[filesystem]\ndecoys = [\"~/.ssh/id_rsa\"]\n");
    let policy = with(policy, &home(), &[]);
    assert_eq!(read(&policy, "/workspace/.ssh/id_rsa"), Some("private-key"));
    assert_eq!(read(&policy, "/workspace/.netrc"), None);
}

#[test]
fn writing_what_runs_later_is_asked_about_in_an_empty_home_too() {
    let policy = with(untrusted(""), &home(), &[]);
    for (path, rule) in [
        ("/workspace/.bashrc", "shell-startup"),
        ("/workspace/.ssh/authorized_keys", "authorized-keys"),
    ] {
        assert_eq!(
            decided(&policy, AttemptKind::Open, path, &[OpenAccess::Write]),
            Some(rule)
        );
    }
    assert_eq!(read(&policy, "/etc/shadow"), Some("credential-file"));
}

/// A guarded file that is brought to a name that is not guarded is asked about under the old one.
#[test]
fn a_guarded_file_is_not_renamed_to_a_name_that_the_home_lacks() {
    let policy = with(untrusted(""), &home(), &[]);
    for on in [AttemptKind::Link, AttemptKind::Rename] {
        let rule = decided(&policy, on, "/workspace/project/.netrc", &[]);
        assert_eq!(rule, Some("stored-credential"));
    }
}

#[test]
fn homes_are_the_workspace_and_what_the_environment_names() {
    let is = |lines: &str, expected: &[&str]| {
        let homes = untrusted(lines).homes(Some(Path::new("/home/ada")));
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(homes, expected, "{lines}");
    };
    is("", &["/workspace"]);
    is("[env.set]\nHOME = \"/tmp\"\n", &["/workspace", "/tmp"]);
    is(
        "[env.set]\nHOME = \"/tmp//./x/\"\n",
        &["/workspace", "/tmp/x"],
    );
    is("[env.set]\nHOME = \"/tmp/../root\"\n", &["/workspace"]);
    is("[env.set]\nHOME = \"tmp\"\n", &["/workspace"]);
    is("[env.set]\nHOME = \"/\"\n", &["/workspace"]);
}

#[test]
fn another_home_is_quiet_as_well() {
    let policy = untrusted("[env.set]\nHOME = \"/srv/me\"\n");
    let homes = policy.homes(None);
    let policy = with(policy, &homes, &[]);
    for path in ["/srv/me/.netrc", "/workspace/.netrc", "/srv/me/.ssh/id_rsa"] {
        assert_eq!(read(&policy, path), None, "{path}");
    }
    assert_eq!(read(&policy, "/srv/me/x/.netrc"), Some("stored-credential"));
}

/// A rule of one's own has to say so.
#[test]
fn a_rule_that_does_not_ask_for_it_speaks_of_what_is_absent() {
    let rule = "[[rule]]\nid = \"own\"\non = \"open\"\npath = \"**/.token\"\naction = \"kill\"\n";
    let policy = with(untrusted(rule), &home(), &[]);
    assert_eq!(read(&policy, "/workspace/.token"), Some("own"));
    let policy = with(untrusted(&format!("{rule}present = true\n")), &home(), &[]);
    assert_eq!(read(&policy, "/workspace/.token"), None);
    assert_eq!(read(&policy, "/srv/.token"), Some("own"));
    assert_eq!(
        policy
            .rules
            .iter()
            .filter(|rule| rule.action == RuleAction::Kill && rule.present)
            .count(),
        8
    );
}

#[test]
fn memory_of_the_jails_own_holds_nobodys_secret_at_any_depth() {
    let settled = |lines: &str, held: &[&str]| with(untrusted(lines), &home(), held);
    let own = settled("", &[]);
    for kind in [AttemptKind::Open, AttemptKind::Rename, AttemptKind::Link] {
        let decided = |path: &str| decided(&own, kind, path, OpenAccess::ALL);
        assert_eq!(decided("/tmp/a/home/.netrc"), None, "{kind:?}");
        for path in ["/tmpx/.netrc", "/workspace/a/.netrc", "/root/.netrc"] {
            assert_eq!(decided(path), Some("stored-credential"), "{kind:?} {path}");
        }
    }
    for (lines, held) in [
        (
            "[filesystem]\nscratch = [{ path = \"/tmp/b\", size = \"1M\" }]\n",
            &[][..],
        ),
        ("", &["/tmp/given"]),
    ] {
        let shared = settled(lines, held);
        assert_eq!(
            read(&shared, "/tmp/a/.netrc"),
            Some("stored-credential"),
            "{lines}"
        );
    }
    let mut named = untrusted("");
    named.filesystem.names = vec![PathBuf::from("/tmp/project")];
    let named = with(named, &home(), &[]);
    assert_eq!(
        read(&named, "/tmp/a/.netrc"),
        Some("stored-credential"),
        "a symlink to the workspace is there"
    );
}
