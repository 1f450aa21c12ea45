//! Rules on hidden paths: what a profile shows silences them, whichever is written more narrowly.

use std::path::Path;

use turnkey_policy::{
    Attempt, AttemptKind, Glob, HostPath, OpenAccess, Overrides, Policy, Severity, decide, load,
};

const NOTICE: &str = r#"
schema = "turnkey.profile/v1"
name = "mine"
extends = ["strict"]

[[rule]]
id = "notice"
on = ["open", "exec"]
path = ["/srv/**", "/var/log/{private,nginx}/*", "/home/*/.profile"]
action = "log"
yields = true
hidden = true

[[rule]]
id = "secret"
on = "open"
path = "/srv/keys/*"
action = "kill"
"#;

fn policy(overrides: &Overrides) -> Policy {
    let read_file = |path: &str| match path {
        "mine.toml" => Ok(NOTICE.to_owned()),
        path => Err(format!("no {path} here")),
    };
    load("mine.toml", &read_file, overrides).expect("a profile")
}

fn showing(paths: &[&str]) -> Policy {
    let read = paths.iter().map(|path| ("read", *path));
    policy(&Overrides::from_flags(read).expect("flags"))
}

fn decided<'p>(policy: &'p Policy, path: &str) -> Option<&'p str> {
    let attempt = Attempt {
        path: Some(path.as_bytes()),
        access: &[OpenAccess::Read],
        ..Attempt::new(AttemptKind::Open)
    };
    decide(&policy.rules, &attempt).map(|rule| policy.rules[rule].id.as_str())
}

#[test]
fn what_nobody_shows_is_told() {
    let policy = showing(&[]);
    assert_eq!(decided(&policy, "/srv/a"), Some("notice"));
    assert_eq!(decided(&policy, "/var/log/nginx/access"), Some("notice"));
}

#[test]
fn a_place_within_the_pattern_is_silent_and_its_neighbours_are_not() {
    let policy = showing(&["/srv/web"]);
    assert_eq!(decided(&policy, "/srv/web"), None);
    assert_eq!(decided(&policy, "/srv/web/a/b"), None);
    assert_eq!(decided(&policy, "/srv/website"), Some("notice"));
    assert_eq!(decided(&policy, "/srv/a"), Some("notice"));
}

#[test]
fn a_place_around_the_pattern_is_silent_though_the_pattern_is_narrower() {
    let policy = showing(&["/var"]);
    assert_eq!(decided(&policy, "/var/log/nginx/access"), None);
    assert_eq!(decided(&policy, "/srv/a"), Some("notice"));
}

#[test]
fn what_is_spoken_of_all_the_same_is_told_though_it_is_shown() {
    let mut policy = showing(&["/srv/web"]);
    let spoken = Glob::parse("/srv/web/bin/*").ok();
    let notice = policy.rules.iter_mut().find(|rule| rule.id == "notice");
    notice.expect("it is there").spoken = spoken;
    assert_eq!(decided(&policy, "/srv/web/bin/x"), Some("notice"));
    assert_eq!(decided(&policy, "/srv/web/bin/x/y"), None);
    assert_eq!(decided(&policy, "/srv/web/lib"), None);
}

#[test]
fn what_is_shown_shields_nothing_from_another_rule() {
    let policy = showing(&["/srv"]);
    assert_eq!(decided(&policy, "/srv/keys/a"), Some("secret"));
    assert_eq!(decided(&policy, "/srv/a"), None);
}

#[test]
fn a_tree_of_its_own_shows_everything() {
    let policy = policy(&Overrides::from_flags([("root", "/srv/image")]).expect("a flag"));
    assert_eq!(decided(&policy, "/srv/a"), None);
    assert_eq!(decided(&policy, "/home/ada/.profile"), None);
}

#[test]
fn a_place_that_is_added_later_counts_once_it_is_settled() {
    let mut policy = showing(&[]);
    policy.filesystem.read.push(HostPath {
        path: Path::new("/home/ada").to_owned(),
        at: None,
        optional: false,
        list: true,
        why: String::new(),
    });
    policy.settle_shown();
    assert_eq!(decided(&policy, "/home/ada/.profile"), None);
    assert_eq!(decided(&policy, "/home/eve/.profile"), Some("notice"));
}

#[test]
fn the_workspace_at_its_own_path_is_shown() {
    let mut policy = showing(&[]);
    policy.filesystem.names.push("/home/ada".into());
    policy.settle_workspace();
    for shown in ["/home/ada/.profile", "/workspace/.profile"] {
        assert_eq!(decided(&policy, shown), None, "{shown}");
    }
    assert_eq!(decided(&policy, "/home/adam/.profile"), Some("notice"));
}

/// Every place that a profile shows costs the kernel's table states, also where no notice meets it.
#[test]
fn the_shipped_notices_meet_nothing_that_the_shipped_profiles_show() {
    let no_files = |path: &str| Err(format!("no {path} here"));
    let policy = load("untrusted", &no_files, &Overrides::default()).expect("a profile");
    let hidden: Vec<_> = policy.rules.iter().filter(|rule| rule.hidden).collect();
    assert_eq!(hidden.len(), 8);
    for rule in hidden {
        assert!(rule.silent.is_none(), "{}: {:?}", rule.id, rule.silent);
    }
}

/// Asks the shipped profile of this name about a file.
fn shipped(name: &str, on: AttemptKind, path: &str) -> Option<String> {
    let no_files = |path: &str| Err(format!("no {path} here"));
    let policy = load(name, &no_files, &Overrides::default()).expect("a profile");
    let access: &[OpenAccess] = match on {
        AttemptKind::Open => &[OpenAccess::Read],
        _ => &[],
    };
    let attempt = Attempt {
        path: Some(path.as_bytes()),
        access,
        ..Attempt::new(on)
    };
    decide(&policy.rules, &attempt).map(|rule| policy.rules[rule].id.clone())
}

#[test]
fn asking_where_another_keeps_secrets_is_told_and_asking_for_ones_own_is_not() {
    for profile in ["untrusted", "python", "shell", "node", "sealed"] {
        for kept in [".ssh", ".aws/config", ".kube", ".config/gh", ".vault-token"] {
            for home in ["/root", "/home/eve"] {
                let path = format!("{home}/{kept}");
                let told = shipped(profile, AttemptKind::Stat, &path);
                assert_eq!(told.as_deref(), Some("host-secret"), "{profile}: {path}");
            }
            let own = format!("/workspace/{kept}");
            assert_eq!(shipped(profile, AttemptKind::Stat, &own), None, "{profile}");
        }
        let key = shipped(profile, AttemptKind::Open, "/root/.ssh/id_rsa");
        assert_eq!(key.as_deref(), Some("private-key"), "{profile}");
    }
}

#[test]
fn the_tables_of_the_network_are_told_and_what_runtimes_read_there_is_not() {
    for table in ["arp", "udp", "tcp6", "unix", "fib_trie"] {
        let told = shipped("python", AttemptKind::Open, &format!("/proc/7/net/{table}"));
        assert_eq!(told.as_deref(), Some("host-network"), "{table}");
    }
    // Counters and routes say little by themselves, and are low.
    for table in ["dev", "route", "snmp", "sockstat"] {
        let told = shipped("python", AttemptKind::Open, &format!("/proc/7/net/{table}"));
        assert_eq!(told.as_deref(), Some("host-facts"), "{table}");
    }
    for table in ["if_inet6", "ipv6_route"] {
        let told = shipped("python", AttemptKind::Open, &format!("/proc/7/net/{table}"));
        assert_eq!(told, None, "{table}");
    }
}

/// A banner is little under a profile for any program, and much for code that only computes.
#[test]
fn what_the_host_says_to_people_weighs_by_what_a_profile_is_for() {
    let no_files = |path: &str| Err(format!("no {path} here"));
    for (profile, severity) in [("python", Severity::Low), ("sealed", Severity::High)] {
        let policy = load(profile, &no_files, &Overrides::default()).expect("a profile");
        for path in ["/etc/issue", "/etc/motd"] {
            let attempt = Attempt {
                path: Some(path.as_bytes()),
                access: &[OpenAccess::Read],
                ..Attempt::new(AttemptKind::Open)
            };
            let told = decide(&policy.rules, &attempt).map(|rule| &policy.rules[rule]);
            let told = told.map(|rule| (rule.id.as_str(), rule.severity));
            assert_eq!(told, Some(("host-facts", severity)), "{profile}: {path}");
        }
    }
}

/// Without a network a port at every address is an attempt; with one it is what servers do.
#[test]
fn a_port_at_every_address_is_told_where_there_is_no_network() {
    let no_files = |path: &str| Err(format!("no {path} here"));
    let policy = |profile: &str, mode: &str| {
        let flags = Overrides::from_flags([("network", mode)]).expect("a flag");
        load(profile, &no_files, &flags).expect("a profile")
    };
    for mode in ["loopback", "host"] {
        let rules = policy("python", mode).rules;
        assert!(
            rules
                .iter()
                .all(|rule| rule.id != "network-listen" || rule.on.is_empty()),
            "{mode}"
        );
    }
    for profile in ["sealed", "python", "node"] {
        told_at_every_address(&policy(profile, "none"));
    }
}

fn told_at_every_address(policy: &Policy) {
    let told = |address: &str| {
        let attempt = Attempt {
            address: Some(address.parse().expect("an address and a port")),
            ..Attempt::new(AttemptKind::Bind)
        };
        decide(&policy.rules, &attempt).map(|rule| policy.rules[rule].id.as_str())
    };
    for chosen in ["0.0.0.0:31337", "[::]:80", "0.0.0.0:8000"] {
        assert_eq!(told(chosen), Some("network-listen"), "{chosen}");
    }
    // Of loopback, and of the kernel's choice, as listen(2) tells it.
    for other in ["127.0.0.1:8000", "[::1]:80", "0.0.0.0:0", "0.0.0.0:44695"] {
        assert_eq!(told(other), None, "{other}");
    }
}
