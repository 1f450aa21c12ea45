//! The kernel's table says what the policy's reference says.

mod random;

use proptest::prelude::*;
use random::{any_rule, path};
use turnkey_monitor::{CompileError, Rules, Tier, compile};
use turnkey_policy::{
    Access, Action, Attempt, Glob, Mode, On, Overrides, Policy, Rule, SHIPPED, Severity, decide,
};

fn policy(rules: Vec<Rule>) -> Policy {
    let mut policy = shipped("untrusted");
    policy.rules = rules;
    policy
}

fn shipped(name: &str) -> Policy {
    turnkey_policy::load(
        name,
        &|_| Err(String::from("no files")),
        &Overrides::default(),
    )
    .expect("a shipped profile is right")
}

fn rule(id: &str, on: On, paths: &[&str], access: &[Access], action: Action) -> Rule {
    Rule {
        id: id.to_owned(),
        on: [on].into(),
        path: paths
            .iter()
            .map(|path| Glob::parse(path).expect("a pattern"))
            .collect(),
        access: access.iter().copied().collect(),
        action,
        severity: Severity::Medium,
        technique: None,
        why: String::new(),
    }
}

const READ: &[Access] = &[Access::Read];
const BOTH: &[Access] = &[Access::Read, Access::Write];

/// What the reference says of an open, with the action as the policy has it.
fn reference(rules: &[Rule], on: On, path: &[u8], access: &[Access]) -> Option<(usize, Action)> {
    let decided = decide(
        rules,
        &Attempt {
            on,
            path: Some(path),
            access,
        },
    );
    decided.map(|index| (index, rules[index].action))
}

#[track_caller]
fn assert_agrees(rules: &Rules, of: &[Rule], path: &[u8]) {
    for access in [READ, &[Access::Write], BOTH, &[]] {
        let expected = reference(of, On::Open, path, access);
        assert_eq!(
            rules.decide_open(path, access),
            expected,
            "{access:?} {}",
            path.escape_ascii()
        );
    }
    let expected = reference(of, On::Exec, path, &[]);
    assert_eq!(
        rules.decide_exec(path),
        expected,
        "exec {}",
        path.escape_ascii()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_automaton_says_what_the_reference_says(
        rules in prop::collection::vec(any_rule(), 0..6),
        paths in prop::collection::vec(path(), 1..20),
    ) {
        let compiled = compile(&policy(rules.clone()), Tier::Tracepoint).expect("few rules fit");
        for path in paths {
            assert_agrees(&compiled, &rules, &path);
        }
    }
}

#[test]
fn every_shipped_profile_fits_and_says_what_it_says() {
    let paths: &[&[u8]] = &[
        b"/etc/shadow",
        b"/etc/passwd",
        b"/etc/passwd-",
        b"/workspace/.ssh/id_ed25519",
        b"/root/.aws/credentials",
        b"/usr/lib/python3/os.py",
        b"/usr/bin/cat",
        b"memfd:payload",
        b"/dev/shm/x",
        b"/",
        b"",
    ];
    for (name, _) in SHIPPED.iter().map(|profile| (profile.0, ())) {
        let policy = shipped(name);
        let rules =
            compile(&policy, Tier::Tracepoint).unwrap_or_else(|error| panic!("{name}: {error}"));
        for path in paths {
            assert_agrees(&rules, &policy.rules, path);
        }
    }
}

#[test]
fn observing_turns_every_action_but_allow_into_log() {
    let rules = vec![
        rule("kill", On::Open, &["/k"], READ, Action::Kill),
        rule("allow", On::Open, &["/a"], READ, Action::Allow),
    ];
    let mut policy = policy(rules);
    policy.mode = Mode::Observe;
    let rules = compile(&policy, Tier::Tracepoint).expect("it fits");
    assert_eq!(rules.decide_open(b"/k", READ), Some((0, Action::Log)));
    assert_eq!(rules.decide_open(b"/a", READ), Some((1, Action::Allow)));
    assert_eq!(rules.decide_open(b"/x", READ), None);
}

#[test]
fn where_the_kernel_asks_first_a_file_can_be_denied() {
    for on in [On::Open, On::Exec] {
        let policy = policy(vec![rule("no-way", on, &["/x"], READ, Action::Deny)]);
        compile(&policy, Tier::Lsm).expect("the hooks refuse it");
    }
}

#[test]
fn a_file_cannot_be_denied_and_the_error_says_what_to_do() {
    for (on, word) in [(On::Open, "open"), (On::Exec, "exec")] {
        let policy = policy(vec![rule("no-way", on, &["/x"], READ, Action::Deny)]);
        let error = compile(&policy, Tier::Tracepoint).expect_err("this tier cannot");
        assert_eq!(
            error,
            CompileError::CannotDeny {
                rule: "no-way".into(),
                on: word
            }
        );
        let text = error.to_string();
        assert!(
            text.contains("no-way") && text.contains("action = \"kill\""),
            "{text}"
        );
    }
}

#[test]
fn a_denied_syscall_must_be_one_that_the_filter_refuses() {
    let mut policy = policy(vec![rule("no-mount", On::Mount, &[], &[], Action::Deny)]);
    compile(&policy, Tier::Tracepoint).expect("the filter refuses mount");
    policy.syscalls.allow.insert("umount2");
    let error = compile(&policy, Tier::Tracepoint).expect_err("the filter lets it pass");
    assert_eq!(
        error,
        CompileError::AllowedSyscall {
            rule: "no-mount".into(),
            syscall: "umount2"
        }
    );
}

#[test]
fn too_many_rules_are_refused_whole() {
    let rules = (0..1024)
        .map(|_| rule("r", On::Open, &["/x"], READ, Action::Log))
        .collect();
    assert_eq!(
        compile(&policy(rules), Tier::Tracepoint).map(|_| ()),
        Err(CompileError::TooManyRules { count: 1024 })
    );
}

#[test]
fn patterns_that_need_too_many_states_are_refused_whole() {
    // "an `a`, then exactly 20 more bytes" must remember which of the last 20 bytes were `a`.
    let pattern = format!("/**a{}", "?".repeat(20));
    let rules = vec![rule("r", On::Open, &[&pattern], READ, Action::Log)];
    let error = compile(&policy(rules), Tier::Tracepoint).expect_err("2^20 states do not fit");
    assert!(matches!(error, CompileError::Patterns(_)), "{error}");
}

#[test]
fn as_many_rules_as_fit_all_count() {
    let paths: Vec<String> = (0..1023).map(|index| format!("/{index}")).collect();
    let rules = paths
        .iter()
        .map(|path| rule("r", On::Open, &[path], READ, Action::Kill))
        .collect();
    let rules = compile(&policy(rules), Tier::Tracepoint).expect("1023 rules fit");
    assert_eq!(rules.decide_open(b"/0", READ), Some((0, Action::Kill)));
    assert_eq!(
        rules.decide_open(b"/1022", READ),
        Some((1022, Action::Kill))
    );
    assert_eq!(rules.decide_open(b"/1023", READ), None);
}
