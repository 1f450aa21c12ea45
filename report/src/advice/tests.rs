//! Tests of the advice, act by act.

use super::super::fixture;
use super::super::stopper::Outcome;
use super::*;
use turnkey_policy::AttemptKind;

fn read(path: &str, outcome: Outcome) -> ReportedAct {
    let access = vec![FileAccess::Read];
    let object = Object::File {
        path: Some(path.to_owned()),
        truncated: false,
        access,
        raw: None,
        to: None,
        memory: Vec::new(),
    };
    ReportedAct {
        on: Some(AttemptKind::Open),
        object,
        outcome,
        errno: 0,
        for_arguments: None,
    }
}

fn rule(paths: &[&str]) -> Rule {
    let path = paths.iter().map(|path| Glob::parse(path).unwrap());
    Rule {
        path: path.collect(),
        ..fixture::policy().rules[fixture::CREDENTIALS].clone()
    }
}

fn advice(paths: &[&str], path: &str) -> String {
    for_rule(
        "untrusted",
        &rule(paths),
        &read(path, Outcome::Denied(Stopper::Monitor)),
    )
}

#[test]
fn a_path_under_a_wildcard_is_allowed_beside_the_rule() {
    assert_eq!(
        advice(&["**/.ssh/id_*"], "/workspace/.ssh/id_{old}"),
        r#"in a profile that extends "untrusted":
[[rule]]
id = "allow-credential-file"
on = ["open"]
path = ["/workspace/.ssh/id_\\{old\\}"]
access = ["read"]
action = "allow""#
    );
}

#[test]
fn a_name_that_stands_for_any_file_is_never_allowed() {
    for path in ["/proc/self/cwd/f", "//proc/./1/../self/fd/3", "/dev/stdout"] {
        assert_eq!(advice(&["/workspace/f"], path), ANY_FILE, "{path}");
        assert_ne!(advice(&["/{proc,dev}/**", "//**"], path), ANY_FILE);
    }
    assert_ne!(advice(&["/x"], "/workspace/proc/root"), ANY_FILE);
}

#[test]
fn a_path_that_the_rule_names_is_taken_out_of_it() {
    let text = advice(&["/etc/{shadow,passwd}-", "**/key"], "/etc/passwd-");
    assert!(text.contains("replaces = true"), "{text}");
    assert!(
        text.contains(r#"path = ["**/key", "/etc/shadow-"]"#),
        "{text}"
    );
    assert!(text.contains(r#"action = "kill""#), "{text}");
}

#[test]
fn the_longer_name_wins_over_alternatives_with_a_shorter_one() {
    // Specificity counts the shortest alternative, so the exact path is more specific.
    let text = advice(&["/etc/{a,gshadow}"], "/etc/gshadow");
    assert!(text.contains(r#"id = "allow-credential-file""#), "{text}");
}

#[test]
fn a_rule_that_says_nothing_else_is_turned_into_allow() {
    let text = advice(&["/etc/shadow"], "/etc/shadow");
    assert!(text.contains("replaces = true"), "{text}");
    assert!(text.ends_with(r#"action = "allow""#), "{text}");
}

#[test]
fn what_another_layer_stopped_needs_its_flag_as_well() {
    let act = read(
        "/root/.ssh/id_rsa",
        Outcome::Denied(Stopper::MountNamespace),
    );
    let text = for_rule("untrusted", &rule(&["**/.ssh/id_*"]), &act);
    assert!(
        text.starts_with("--read /root/.ssh/id_rsa, and in a profile"),
        "{text}"
    );
}

#[test]
fn following_the_advice_allows_the_act() {
    use turnkey_policy::decide::{Attempt, decide};
    let cases: [&[&str]; 4] = [
        &["**/.ssh/id_*"],
        &["/etc/{shadow,passwd}-", "**/key"],
        &["/etc/{a,gshadow}"],
        &["/etc/shadow"],
    ];
    let paths = [
        "/root/.ssh/id_rsa",
        "/etc/passwd-",
        "/etc/gshadow",
        "/etc/shadow",
    ];
    for (patterns, path) in cases.into_iter().zip(paths) {
        let old = rule(patterns);
        let (new, replaces) = change(&old, &read(path, Outcome::Unknown));
        let rules = if replaces { vec![new] } else { vec![old, new] };
        let attempt = Attempt {
            path: Some(path.as_bytes()),
            access: &[OpenAccess::Read],
            ..Attempt::new(AttemptKind::Open)
        };
        let decided = decide(&rules, &attempt).map(|index| rules[index].action);
        assert!(
            decided.is_none_or(|action| action == RuleAction::Allow),
            "{path}: {decided:?}"
        );
    }
}

#[test]
fn following_the_advice_allows_what_a_rule_on_a_wider_kind_decided() {
    use turnkey_policy::decide::{Attempt, decide};
    let path = "/workspace/.ssh/id_rsa";
    let kinds = AttemptKind::ALL.iter().filter(|kind| kind.has_path());
    let sets: Vec<Vec<AttemptKind>> = kinds
        .clone()
        .map(|kind| vec![*kind])
        .chain([kinds.clone().copied().collect()])
        .collect();
    let mut decisions = 0;
    for (acts, on) in kinds.flat_map(|kind| sets.iter().map(move |on| (*kind, on))) {
        let whole = Glob::parse(path).unwrap();
        for patterns in [whole.clone(), Glob::parse("**/.ssh/id_*").unwrap()] {
            let old = Rule {
                on: on.iter().copied().collect(),
                access: OpenAccess::ALL.iter().copied().collect(),
                path: vec![patterns],
                same_file: SameFile::No,
                ..rule(&[])
            };
            let attempt = Attempt {
                path: Some(path.as_bytes()),
                access: &[OpenAccess::Read],
                ..Attempt::new(acts)
            };
            let rules = [old.clone()];
            if decide(&rules, &attempt).is_none() {
                continue;
            }
            decisions += 1;
            let act = ReportedAct {
                on: Some(acts),
                ..read(path, Outcome::Unknown)
            };
            let (new, replaces) = change(&old, &act);
            let rules = if replaces { vec![new] } else { vec![old, new] };
            let decided = decide(&rules, &attempt).map(|index| rules[index].action);
            assert!(
                decided.is_none_or(|action| action == RuleAction::Allow),
                "{acts} by a rule on {on:?}: {decided:?}"
            );
        }
    }
    assert!(decisions >= 100, "rules decide: {decisions}");
}

#[test]
fn an_address_is_allowed_beside_the_rule_unless_it_names_just_that() {
    let connect = |address: &str| ReportedAct {
        on: Some(AttemptKind::Connect),
        object: Object::Address {
            address: address.to_owned(),
            socket: None,
            name: None,
        },
        outcome: Outcome::Denied(Stopper::Monitor),
        errno: 0,
        for_arguments: None,
    };
    let outbound = Rule {
        port: Ports::new(1, 65535).into_iter().collect(),
        ..fixture::policy().rules[fixture::OUTBOUND].clone()
    };
    let act = connect("[::ffff:127.0.0.1]:5432");
    let (allow, replaces) = change(&outbound, &act);
    assert!(!replaces);
    let text = snippet(&allow, replaces);
    assert!(
        text.contains("address = [\"127.0.0.1\"]\nport = [\"5432\"]\naction = \"allow\""),
        "{text}"
    );
    let rules = [outbound, allow.clone()];
    let attempt = turnkey_policy::Attempt {
        address: "127.0.0.1:5432".parse().ok(),
        ..turnkey_policy::Attempt::new(AttemptKind::Connect)
    };
    assert_eq!(turnkey_policy::decide(&rules, &attempt), Some(1));
    let exact = Rule {
        action: RuleAction::Deny,
        ..allow
    };
    let (instead, replaces) = change(&exact, &act);
    assert!(replaces && instead.action == RuleAction::Allow && instead.address == exact.address);
    let (_, replaces) = change(&exact, &connect("0.0.0.0:5432"));
    assert!(replaces, "it is decided on as several");
}

#[test]
fn talking_to_itself_takes_a_loopback_and_no_rule() {
    let rule = &fixture::policy().rules[fixture::OUTBOUND];
    let act = |address: &str, on| ReportedAct {
        on: Some(on),
        object: Object::Address {
            address: address.to_owned(),
            socket: Some(SocketType::Stream),
            name: None,
        },
        outcome: Outcome::Denied(Stopper::CgroupProgram),
        errno: libc::EPERM,
        for_arguments: None,
    };
    assert_eq!(
        for_rule("mine", rule, &act("127.0.0.1:80", AttemptKind::Connect)),
        "--network loopback (the jail's own), or --allow 127.0.0.1:80 (the host's)"
    );
    assert_eq!(
        for_rule("mine", rule, &act("0.0.0.0:80", AttemptKind::Connect)),
        "--network loopback (the jail's own)"
    );
    let bind = for_rule("mine", rule, &act("127.0.0.1:80", AttemptKind::Bind));
    assert!(bind.contains("[[rule]]"), "{bind}");
    let alone = for_rule_alone("mine", rule, &act("192.0.2.7:80", AttemptKind::Connect));
    assert!(alone.starts_with("in a profile"), "{alone}");
}

#[test]
fn a_socket_that_the_filter_leaves_out_is_told_from_one_of_a_kind_that_no_jail_has() {
    let rule = &fixture::policy().rules[fixture::OUTBOUND];
    let socket = |stopper, errno, for_arguments| ReportedAct {
        on: Some(AttemptKind::Connect),
        object: Object::Syscall("socket".to_owned()),
        outcome: Outcome::Denied(stopper),
        errno,
        for_arguments,
    };
    let left_out = socket(Stopper::Seccomp, libc::EPERM, None);
    let left_out = for_rule("judge", rule, &left_out);
    assert!(
        left_out.starts_with("[syscalls] allow = [\"@network-local\"]"),
        "{left_out}"
    );
    assert_eq!(
        for_call(Some(Stopper::Seccomp), "socket", None).as_deref(),
        Some("in a profile: [syscalls] allow = [\"@network-local\"]")
    );
    for (stopper, errno, for_arguments) in [
        (
            Stopper::Seccomp,
            libc::EAFNOSUPPORT,
            Some(RefusalScope::Every),
        ),
        (Stopper::CgroupProgram, libc::EPERM, None),
    ] {
        let never = for_rule("mine", rule, &socket(stopper, errno, for_arguments));
        assert!(never.contains("Unix, TCP and UDP"), "{never}");
        let never = for_call(Some(stopper), "socket", for_arguments).unwrap();
        assert!(never.contains("Unix, TCP and UDP"), "{never}");
    }
}

#[test]
fn layers_without_a_rule_name_their_flag() {
    let file = |path: &str, access| Object::File {
        path: Some(path.to_owned()),
        truncated: false,
        access,
        raw: None,
        to: None,
        memory: Vec::new(),
    };
    for path in ["/wt", "/usr/bin/env"] {
        let advice = for_layer(Stopper::Mounts, &file(path, vec![FileAccess::Write]), None);
        assert_eq!(advice.as_deref(), Some("--root-mode overlay"), "{path}");
    }
    let write = file("/srv/a b", vec![FileAccess::Write]);
    assert_eq!(
        for_layer(Stopper::Mounts, &write, None).as_deref(),
        Some("--write '/srv/a b'")
    );
    // Reading a file permits none of these; a name is its directory's.
    for (access, flag) in [
        (FileAccess::Unlink, Some("--write /srv/bin")),
        (FileAccess::Rename, Some("--write /srv/bin")),
        (FileAccess::Chmod, Some("--write /srv/bin/env")),
        (FileAccess::Attribute, Some("--write /srv/bin/env")),
        (FileAccess::Link, None),
    ] {
        let change = file("/srv/bin/env", vec![access]);
        assert_eq!(for_layer(Stopper::Mounts, &change, None).as_deref(), flag);
    }
    let escaped = file("/usr/\\xff", vec![FileAccess::Read]);
    assert_eq!(for_layer(Stopper::Landlock, &escaped, None), None);
    let relative = file("notes", vec![FileAccess::Read]);
    assert_eq!(for_layer(Stopper::Mounts, &relative, None), None);
    assert_eq!(for_layer(Stopper::FilePermissions, &write, None), None);
    let mapped = Object::Address {
        address: "[::ffff:127.0.0.1]:80".to_owned(),
        socket: None,
        name: None,
    };
    let advice = for_layer(Stopper::CgroupProgram, &mapped, None).unwrap();
    assert!(advice.starts_with("--network loopback"), "{advice}");
}

#[test]
fn what_no_profile_can_bring_in_is_not_advised() {
    let advise = |stopped_by, path: &str| {
        let act = read(path, Outcome::Denied(stopped_by));
        for_layer(stopped_by, &act.object, None).unwrap()
    };
    assert_eq!(
        advise(Stopper::MountNamespace, "/proc/cpuinfo"),
        "in a profile: [filesystem] proc = \"common\""
    );
    for path in ["/sys/kernel/notes", "/run/docker.sock", "/dev/sda"] {
        assert_eq!(
            advise(Stopper::MountNamespace, path),
            "no profile can allow it: every jail has its own, and not the host's"
        );
    }
    assert!(advise(Stopper::Landlock, "/").contains("without `list = false`"));
    assert_eq!(advise(Stopper::Landlock, "/usr/bin"), "--read /usr/bin");
    assert_eq!(advise(Stopper::MountNamespace, "/opt"), "--read /opt");
    // Homes, and what several people or services keep, are shown in part.
    for path in ["/home", "/home/ada", "/root", "/srv", "/var/lib"] {
        let told = advise(Stopper::MountNamespace, path);
        assert_eq!(
            told, "--read with the path below it that is meant",
            "{path}"
        );
    }
    let below = advise(Stopper::MountNamespace, "/home/ada/data");
    assert_eq!(below, "--read /home/ada/data");
    // A workspace that is read-only.
    let workspace = advise(Stopper::Mounts, "/workspace/file");
    assert_eq!(workspace, "--workdir-mode overlay");
}

#[test]
fn calls_name_their_group_or_why_there_is_none() {
    let call = |name: &str| for_call(Some(Stopper::Seccomp), name, None).unwrap();
    assert_eq!(
        call("ptrace"),
        "no profile can allow it: it looks into other processes, or changes them; a program that was built with \
         -fsanitize=address goes on without it by --env LSAN_OPTIONS=detect_leaks=0"
    );
    assert_eq!(
        call("execveat"),
        "in a profile: [syscalls] allow = [\"execveat\"], or \"@process\" for its like"
    );
    assert_eq!(
        call("syscall 500"),
        "no profile can allow it: it is none of the syscalls that turnkey knows"
    );
}

#[test]
fn a_call_that_is_refused_for_its_arguments_is_not_to_be_allowed_by_name() {
    let clone = ReportedAct {
        on: Some(AttemptKind::Namespace),
        object: Object::Syscall("clone".to_owned()),
        outcome: Outcome::Denied(Stopper::Seccomp),
        errno: libc::EPERM,
        for_arguments: Some(RefusalScope::Every),
    };
    let rule = &fixture::policy().rules[fixture::ESCAPE];
    assert_eq!(for_rule("untrusted", rule, &clone), NO_SUCH_ARGUMENTS);
    let set_id = for_call(
        Some(Stopper::Seccomp),
        "mknod",
        Some(RefusalScope::WithoutSetId),
    );
    assert_eq!(set_id.as_deref(), Some(NO_SET_ID));
}

/// Advice on each call that a shipped profile leaves out is true: following it allows the call, or
/// there is no way to.
#[test]
fn advice_on_a_call_that_a_shipped_profile_leaves_out_is_true() {
    use turnkey_policy::syscalls::{FilterAnswer, answer};
    use turnkey_policy::{Overrides, SHIPPED, load};
    let no_files = |path: &str| Err(format!("{path} was asked for"));
    let mut followed = 0;
    for (profile, _) in SHIPPED {
        let policy = load(profile, &no_files, &Overrides::default()).unwrap();
        if policy.makes_no_jail() {
            continue;
        }
        let number = |name: &str| syscalls::number(name).unwrap();
        let is_left_out =
            |name: &&str| answer(&policy.syscalls, number(name)) != FilterAnswer::Allowed;
        for name in syscalls::known().filter(is_left_out) {
            let advice = for_call(Some(Stopper::Seccomp), name, None).unwrap();
            let Some(line) = advice.strip_prefix("in a profile: ") else {
                assert!(syscalls::allowable(name).is_none(), "{name}: {advice}");
                continue;
            };
            // The first way of two.
            let line = line.split(", or ").next().unwrap();
            let line = line.strip_prefix("[syscalls] ").unwrap();
            let text = format!(
                "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [{profile:?}]\n\
                 [syscalls]\n{line}\n"
            );
            let files = |path: &str| match path {
                "mine.toml" => Ok(text.clone()),
                _ => Err(format!("{path} was asked for")),
            };
            let policy = load("mine.toml", &files, &Overrides::default());
            let policy = policy.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            assert_eq!(
                answer(&policy.syscalls, number(name)),
                FilterAnswer::Allowed,
                "{profile}: {name}"
            );
            followed += 1;
        }
    }
    assert!(followed > 50, "{followed}");
}

/// The wording of each kind of advice, each with a trial: `tests/e2e/report/advised.rs`.
const KINDS: &str = include_str!("../../../tests/data/advice.json");

/// True when a text fits the pattern, with anything at each `*`.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let begins = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(begins) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    for part in &parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    parts.last().is_some_and(|last| last.is_empty()) || rest.is_empty()
}

/// All layers; one that is added is added here.
const STOPPERS: [Stopper; 10] = [
    Stopper::MountNamespace,
    Stopper::Mounts,
    Stopper::Landlock,
    Stopper::FilePermissions,
    Stopper::CgroupProgram,
    Stopper::NetworkNamespace,
    Stopper::Seccomp,
    Stopper::Capabilities,
    Stopper::UserNamespace,
    Stopper::Monitor,
];

/// Acts of every shape that advice tells apart, with the call's refused arguments.
fn objects() -> Vec<Object> {
    let accesses = [
        FileAccess::Read,
        FileAccess::Write,
        FileAccess::Execute,
        FileAccess::Link,
        FileAccess::Rename,
        FileAccess::Unlink,
        FileAccess::Chmod,
        FileAccess::Map,
        FileAccess::Stat,
        FileAccess::Attribute,
    ];
    let paths = [
        "/",
        "/home",
        "/srv/a",
        "/proc/cpuinfo",
        "/etc/passwd",
        "/srv/\\x1b",
        "/workspace/a",
    ];
    let file = |path: &str, access| Object::File {
        path: Some(path.to_owned()),
        truncated: false,
        access: vec![access],
        raw: None,
        to: None,
        memory: Vec::new(),
    };
    let files = paths
        .iter()
        .flat_map(|path| accesses.map(|access| file(path, access)));
    let addresses = [
        "127.0.0.1:80",
        "127.0.0.1:0",
        "127.0.0.1:53",
        "0.0.0.0:80",
        "10.0.0.1:80",
        "10.0.0.1:0",
        "unix:/run/a",
    ];
    let sockets = [None, Some(SocketType::Stream), Some(SocketType::Datagram)];
    let address = |address: &str, socket| Object::Address {
        address: address.to_owned(),
        socket,
        name: None,
    };
    let addresses = addresses
        .iter()
        .flat_map(|one| sockets.map(|socket| address(one, socket)));
    let calls = (0..512).filter_map(syscalls::name).chain(["syscall 999"]);
    files
        .chain(addresses)
        .chain(calls.map(|name| Object::Syscall(name.to_owned())))
        .collect()
}

#[test]
fn each_advice_is_of_a_kind_that_is_tried_and_each_kind_is_given() {
    let kinds: std::collections::BTreeMap<String, String> =
        serde_json::from_str(KINDS).expect("kinds by name");
    let mut given = BTreeSet::new();
    let mut take = |advice: String| {
        let of = kinds.iter().filter(|(_, pattern)| fits(pattern, &advice));
        let of: Vec<&String> = of.map(|(kind, _)| kind).collect();
        assert!(!of.is_empty(), "no kind says: {advice}");
        given.extend(of.into_iter().cloned());
    };
    let rules = [
        rule(&["/srv/**"]),
        rule(&["/srv/a"]),
        Rule::new("whole", AttemptKind::ALL.iter().copied(), RuleAction::Deny),
        Rule {
            address: vec![Subnet::one("10.0.0.0".parse().expect("an address"))],
            ..Rule::new("peers", [AttemptKind::Connect], RuleAction::Deny)
        },
        Rule {
            hidden: true,
            ..rule(&["/srv/**"])
        },
    ];
    for object in objects() {
        for stopper in STOPPERS {
            for only in [
                None,
                Some(RefusalScope::Every),
                Some(RefusalScope::WithoutSetId),
            ] {
                let act = ReportedAct {
                    on: Some(match &object {
                        Object::File { .. } => AttemptKind::Open,
                        Object::Address { .. } => AttemptKind::Connect,
                        Object::Syscall(_) => AttemptKind::Ptrace,
                    }),
                    object: object.clone(),
                    outcome: Outcome::Denied(stopper),
                    errno: libc::EPERM,
                    for_arguments: only,
                };
                let layer = match &object {
                    Object::Syscall(name) => for_call(Some(stopper), name, only),
                    _ => for_layer(stopper, &object, only),
                };
                layer.into_iter().for_each(&mut take);
                for rule in &rules {
                    take(for_rule("untrusted", rule, &act));
                    take(for_rule_alone("untrusted", rule, &act));
                }
            }
        }
    }
    for kind in kinds.keys() {
        assert!(given.contains(kind), "nothing advises {kind}");
    }
}
