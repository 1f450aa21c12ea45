//! Profiles to policies: merging, overrides, the digest.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use turnkey_policy::{
    AttemptKind, EnforcementMode, Layer, LoadError, NetworkMode, OnLoss, OpenAccess, Overrides,
    Policy, RuleAction, Severity, WorkdirMode, flags, load,
};

#[path = "load/overriding.rs"]
mod overriding;

/// Loads the first of some files.
fn load_files(files: &[(&str, &str)], overrides: &Overrides) -> Result<Policy, LoadError> {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    let first = files.keys().next().expect("at least one file");
    let read = |path: &str| {
        files
            .get(path)
            .map(|text| (*text).to_owned())
            .ok_or("no such file".to_owned())
    };
    load(first, &read, overrides)
}

/// Loads a profile from the text behind its first lines.
fn policy(text: &str) -> Policy {
    load_files(&[("a.toml", &profile(text))], &Overrides::default())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn profile(text: &str) -> String {
    format!(
        "schema = \"turnkey.profile/v1\"\nname = \"test\"\nsyscalls.allow = [\"@basic\"]\n{text}"
    )
}

fn message(result: Result<Policy, LoadError>) -> String {
    result.expect_err("it is wrong").to_string()
}

#[test]
fn what_is_not_said_is_as_strict_as_untrusted() {
    let policy = policy("");
    assert_eq!(policy.name, "test");
    assert_eq!(policy.enforcement.mode, EnforcementMode::Enforce);
    assert_eq!(policy.network.mode, NetworkMode::None);
    assert_eq!(policy.filesystem.workdir.mode, WorkdirMode::Overlay);
    assert!(policy.filesystem.read.is_empty() && policy.filesystem.write.is_empty());
    assert_eq!(policy.enforcement.on_loss, OnLoss::Mark);
    assert_eq!(policy.enforcement.required.len(), Layer::ALL.len());
    let no_files = |_: &str| Err(String::new());
    let untrusted = load("untrusted", &no_files, &Overrides::default()).expect("it is shipped");
    assert_eq!(policy.limits, untrusted.limits);
    assert_eq!(policy.identity, untrusted.identity);
}

const EVERY_KEY: &str = r#"
description = "all of them"
[filesystem]
read = [{ path = "/usr", why = "programs" }, { path = "/opt", optional = true }]
write = [{ path = "/srv/out" }]
scratch = [{ path = "/tmp", size = "2M" }]
workdir = { mode = "read-only" }
decoys = ["/etc/shadow"]
[network]
mode = "loopback"
[limits]
memory = "1G"
swap = "1M"
cpu = "250%"
pids = 0x20
wall = "2m"
cpu_time = "500ms"
output = "2K"
io_read = "10M"
io_write = "64K"
disk = "8M"
file_size = "3"
open_files = 1_000
[identity]
user = "someone"
hostname = "somewhere"
[env]
pass = "LANG"
set = { HOME = "/workspace", EMPTY = "" }
[enforcement]
required = ["seccomp", "root"]
on_loss = "kill"
mode = "observe"
[[rule]]
id = "r"
on = ["open", "exec"]
path = "~/x"
access = "write"
action = "log"
severity = "low"
technique = "T1003.008"
why = "because"
"#;

#[test]
fn every_key_reaches_the_policy() {
    let policy = policy(EVERY_KEY);
    assert_eq!(policy.description, "all of them");
    let read = &policy.filesystem.read;
    assert_eq!(
        (
            read[0].path.as_path(),
            read[0].optional,
            read[0].why.as_str()
        ),
        (Path::new("/usr"), false, "programs")
    );
    assert_eq!(
        (read[1].path.as_path(), read[1].optional),
        (Path::new("/opt"), true)
    );
    assert_eq!(policy.filesystem.write[0].path, Path::new("/srv/out"));
    assert_eq!(policy.filesystem.scratch[0].path, Path::new("/tmp"));
    assert_eq!(policy.filesystem.scratch[0].size, 2 << 20);
    assert_eq!(policy.filesystem.workdir.mode, WorkdirMode::ReadOnly);
    assert_eq!(policy.filesystem.decoys, [Path::new("/etc/shadow")]);
    assert_eq!(policy.network.mode, NetworkMode::Loopback);
    assert_eq!(
        (
            policy.identity.user.as_str(),
            policy.identity.hostname.as_str()
        ),
        ("someone", "somewhere")
    );
    assert_eq!(policy.environment.pass, ["LANG"]);
    assert_eq!(policy.environment.set["EMPTY"], "");
    assert_eq!(
        policy.enforcement.required,
        [Layer::Seccomp, Layer::Root].into()
    );
    assert_eq!(policy.enforcement.on_loss, OnLoss::Kill);
    assert_eq!(policy.enforcement.mode, EnforcementMode::Observe);
}

#[test]
fn every_limit_reaches_the_policy() {
    let limits = policy(EVERY_KEY).limits;
    assert_eq!(
        (limits.memory, limits.swap, limits.cpu, limits.pids),
        (1 << 30, 1 << 20, 250, 32)
    );
    assert_eq!(
        (limits.wall, limits.cpu_time),
        (Duration::from_secs(120), Duration::from_millis(500))
    );
    assert_eq!(
        (limits.output, limits.file_size, limits.open_files),
        (2048, 3, 1000)
    );
    assert_eq!(
        (limits.io_read, limits.io_write, limits.disk),
        (Some(10 << 20), Some(64 << 10), 8 << 20)
    );
}

#[test]
fn every_key_of_a_rule_reaches_the_policy() {
    let policy = policy(EVERY_KEY);
    let rule = &policy.rules[0];
    assert_eq!(rule.on, [AttemptKind::Open, AttemptKind::Exec].into());
    assert_eq!(rule.path[0].as_str(), "/workspace/x");
    assert_eq!(rule.access, [OpenAccess::Write].into());
    assert_eq!(
        (rule.action, rule.severity),
        (RuleAction::Log, Severity::Low)
    );
    assert_eq!(
        (rule.technique.as_deref(), rule.why.as_str()),
        (Some("T1003.008"), "because")
    );
}

#[test]
fn an_open_rule_without_access_means_both() {
    let policy = policy("[[rule]]\nid = \"r\"\non = \"open\"\naction = \"kill\"\n");
    assert_eq!(
        policy.rules[0].access,
        OpenAccess::ALL.iter().copied().collect()
    );
    assert_eq!(policy.rules[0].severity, Severity::Medium);
}

#[test]
fn observing_turns_every_act_into_a_log_line() {
    assert_eq!(
        EnforcementMode::Observe.apply(RuleAction::Kill),
        RuleAction::Log
    );
    assert_eq!(
        EnforcementMode::Observe.apply(RuleAction::Deny),
        RuleAction::Log
    );
    assert_eq!(
        EnforcementMode::Observe.apply(RuleAction::Allow),
        RuleAction::Allow
    );
    assert_eq!(
        EnforcementMode::Enforce.apply(RuleAction::Kill),
        RuleAction::Kill
    );
}

const BASE: &str = r#"
    [filesystem]
    read = [{ path = "/usr", why = "base" }, { path = "/opt" }]
    [limits]
    memory = "10M"
    pids = 10
    [env]
    pass = ["A"]
    set = { X = "base", Y = "base" }
    [[rule]]
    id = "one"
    on = "mount"
    action = "kill"
    [[rule]]
    id = "two"
    on = "bpf"
    action = "kill"
"#;

#[test]
fn a_profile_lies_over_what_it_builds_on_key_by_key() {
    let above = profile(
        r#"
        extends = "b.toml"
        [filesystem]
        read = [{ path = "/srv" }, { path = "/usr", why = "above" }]
        [limits]
        memory = "20M"
        [env]
        pass = ["B", "A"]
        set = { Y = "above" }
        [[rule]]
        id = "three"
        on = "bind"
        action = "deny"
        [[rule]]
        id = "one"
        on = "mount"
        action = "log"
        replaces = true
        "#,
    );
    let policy = load_files(
        &[("a.toml", &above), ("b.toml", &profile(BASE))],
        &Overrides::default(),
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let read: Vec<_> = policy
        .filesystem
        .read
        .iter()
        .map(|entry| (entry.path.to_str(), entry.why.as_str()))
        .collect();
    assert_eq!(
        read,
        [
            (Some("/usr"), "above"),
            (Some("/opt"), ""),
            (Some("/srv"), "")
        ]
    );
    assert_eq!((policy.limits.memory, policy.limits.pids), (20 << 20, 10));
    assert_eq!(policy.environment.pass, ["A", "B"]);
    let set: Vec<_> = policy
        .environment
        .set
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(set, ["X=base", "Y=above"]);
    let rules: Vec<_> = policy
        .rules
        .iter()
        .map(|rule| (rule.id.as_str(), rule.action))
        .collect();
    assert_eq!(
        rules,
        [
            ("one", RuleAction::Log),
            ("two", RuleAction::Kill),
            ("three", RuleAction::Deny)
        ]
    );
}

#[test]
fn a_base_of_two_bases_counts_once() {
    let files = [
        ("a.toml", profile("extends = [\"b.toml\", \"c.toml\"]")),
        (
            "b.toml",
            profile("extends = \"d.toml\"\nlimits.memory = \"20M\""),
        ),
        (
            "c.toml",
            profile("extends = \"d.toml\"\nlimits.swap = \"5M\""),
        ),
        ("d.toml", profile(BASE)),
    ];
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| (*name, text.as_str()))
        .collect();
    let policy =
        load_files(&files, &Overrides::default()).unwrap_or_else(|error| panic!("{error}"));
    // Were the base merged once more above the second, its 10M would be back.
    assert_eq!(
        (policy.limits.memory, policy.limits.swap),
        (20 << 20, 5 << 20)
    );
    assert_eq!(policy.rules.len(), 2);
}

#[test]
fn a_base_is_looked_for_beside_the_profile_that_names_it() {
    let files = [
        ("dir/a.toml", profile("extends = \"sub/b.toml\"")),
        ("dir/sub/b.toml", profile("extends = \"untrusted\"")),
    ];
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| (*name, text.as_str()))
        .collect();
    let policy =
        load_files(&files, &Overrides::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(policy.rules.iter().any(|rule| rule.id == "credential-file"));
}

#[test]
fn a_shipped_name_never_leads_to_a_file() {
    let read = |path: &str| panic!("{path} was read");
    assert!(load("untrusted", &read, &Overrides::default()).is_ok());
    assert!(message(load("untrustet", &read, &Overrides::default())).contains("no profile called"));
}

fn overridden(flags: &[(&str, &str)]) -> Result<Policy, LoadError> {
    let overrides = Overrides::from_flags(flags.iter().copied()).expect("flags");
    load_files(&[("a.toml", &profile(BASE))], &overrides)
}

#[test]
fn what_no_jail_can_run_with_is_refused() {
    let refused = |text: &str| {
        message(load_files(
            &[("a.toml", &profile(text))],
            &Overrides::default(),
        ))
    };
    assert_eq!(
        refused("limits.memory = \"0\""),
        "`limits.memory`: this is too little to run anything"
    );
    assert_eq!(
        refused("limits.io_read = \"1K\""),
        "`limits.io_read`: this is too little to run anything"
    );
    assert_eq!(
        refused("limits.wall = \"0s\""),
        "`limits.wall`: this is too little to run anything"
    );
    assert_eq!(
        refused("limits.pids = 1"),
        "`limits.pids`: this is too little to run anything"
    );
    assert_eq!(
        refused("limits.pids = -5"),
        "`limits.pids`: \"-5\" is not a count"
    );
    assert_eq!(
        refused("identity.user = \"nobody\""),
        "`identity.user`: the jail's own nobody already has this name"
    );
    assert_eq!(
        refused("identity.hostname = \"-x\""),
        "`identity.hostname`: \"-x\" is not a host name"
    );
    let no_basic = "schema = \"turnkey.profile/v1\"\nname = \"x\"\nsyscalls.allow = [\"@time\"]";
    let error = message(load_files(&[("a.toml", no_basic)], &Overrides::default()));
    assert!(
        error
            .starts_with("no jail starts without the syscalls access, chdir, clone, close, execve"),
        "{error}"
    );
}

#[test]
fn paths_that_cannot_be_where_they_are_put_are_refused() {
    let refused = |text: &str| {
        message(load_files(
            &[("a.toml", &profile(text))],
            &Overrides::default(),
        ))
    };
    let read = |path: &str| refused(&format!("filesystem.read = [{{ path = \"{path}\" }}]"));
    assert_eq!(
        read("/proc/self"),
        "`filesystem.read`: nothing can be put at /proc/self"
    );
    assert_eq!(
        read("/workspace/x"),
        "`filesystem.read`: nothing can be put at /workspace/x"
    );
    assert_eq!(
        read("/etc"),
        "`filesystem.read`: /etc would cover /etc/group, which the jail makes itself"
    );
    assert_eq!(
        read("/etc/passwd"),
        "`filesystem.read`: /etc/passwd is a file that the jail makes itself"
    );
    assert_eq!(
        read("/"),
        "`filesystem.read`: / would cover /etc/group, which the jail makes itself"
    );
    for path in ["/usr/../etc", "/usr/./lib", "/usr//lib", "/usr/"] {
        assert_eq!(
            read(path),
            format!("`filesystem.read.path`: \"{path}\" is not a plain path")
        );
    }
    assert_eq!(
        refused("filesystem.read = [{ path = \"/a\" }]\nfilesystem.write = [{ path = \"/a\" }]"),
        "/a is in `filesystem.read` and in `filesystem.write`"
    );
    assert_eq!(
        refused("filesystem.read = [{ path = \"/srv\" }]\nfilesystem.decoys = [\"/srv/key\"]"),
        "the decoy /srv/key collides with /srv of `filesystem.read`"
    );
    assert_eq!(
        refused("filesystem.decoys = [\"~/.ssh/id_rsa\"]\nfilesystem.workdir.mode = \"read-only\""),
        "the decoy /workspace/.ssh/id_rsa cannot be planted in a read-only working directory"
    );
}

#[test]
fn the_digest_tells_texts_and_flags_apart() {
    let digest = |text: &str, memory: Option<&str>| {
        let flags = memory.map(|memory| ("memory", memory));
        let overrides = Overrides::from_flags(flags).expect("a flag");
        load_files(&[("a.toml", &profile(text))], &overrides)
            .expect("it is right")
            .sha256
    };
    let plain = digest("", None);
    assert_eq!(plain.len(), 64);
    assert_eq!(plain, digest("", None));
    assert_ne!(plain, digest("# a comment", None));
    assert_ne!(plain, digest("", Some("256M")));
    assert_ne!(digest("", Some("256M")), digest("", Some("257M")));
}

#[test]
fn sizes_of_texts_and_numbers_of_rules_are_bounded() {
    let long = profile(&"#".repeat(1 << 20));
    assert_eq!(
        message(load_files(&[("a.toml", &long)], &Overrides::default())),
        "the profile a.toml is larger than 1 MiB"
    );
    let rules: String = (0..1024)
        .map(|n| format!("[[rule]]\nid = \"r{n}\"\non = \"bpf\"\naction = \"log\"\n"))
        .collect();
    assert_eq!(
        message(load_files(
            &[("a.toml", &profile(&rules))],
            &Overrides::default()
        )),
        "there are more than 1023 rules"
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_loader_panic(text in any::<String>()) {
        let _ = load_files(&[("a.toml", &text)], &Overrides::default());
    }

    /// Text that looks like a profile reaches deeper than text that does not.
    #[test]
    fn no_value_makes_the_loader_panic(
        table in prop::sample::select(vec!["", "limits.", "filesystem.", "network.", "env.", "identity.", "syscalls.", "enforcement."]),
        key in prop::sample::select(vec!["read", "memory", "mode", "set", "pass", "allow", "required", "rule", "extends", "workdir", "scratch", "pids", "on_loss", "name"]),
        value in prop::sample::select(vec!["1", "-1", "1.5", "true", "\"\"", "\"~/\\u00e9[\"", "[]", "[[]]", "[{}]", "{}", "{ path = 1 }", "[{ path = \"/a\", size = \"1M\" }]", "1979-05-27", "[{ id = \"x\", on = \"open\", action = \"kill\", path = \"\\\\\" }]", "99999999999999999999"]),
    ) {
        let text = format!("schema = \"turnkey.profile/v1\"\n{table}{key} = {value}\n");
        let _ = load_files(&[("a.toml", &text)], &Overrides::default());
    }

    #[test]
    fn no_flag_makes_the_loader_panic(text in any::<String>()) {
        let overrides = Overrides::from_flags(flags().map(|flag| (flag.name, text.clone())));
        let overrides = overrides.expect("every flag is one");
        prop_assert!(load_files(&[("a.toml", &profile(""))], &overrides).is_err());
    }
}
