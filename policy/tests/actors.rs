//! Rules that name who acts.

use std::cmp::Reverse;

use proptest::prelude::*;
use turnkey_policy::{
    ActorPaths, Attempt, AttemptKind, FileFlag, Glob, OpenAccess, Rule, RuleAction, SameFile,
    asks_who_acts, decide, decide_unknown,
};

fn globs(patterns: &[&str]) -> Vec<Glob> {
    let globs = patterns.iter().map(|text| Glob::parse(text));
    globs.map(|glob| glob.expect("a pattern")).collect()
}

fn rule(path: &[&str], exe: &[&str], script: &[&str], action: RuleAction) -> Rule {
    Rule {
        path: globs(path),
        exe: globs(exe),
        script: globs(script),
        ..Rule::new("any", [AttemptKind::Open], action)
    }
}

fn actor<'a>(exe: &'a str, script: Option<&'a str>) -> Option<ActorPaths<'a>> {
    Some(ActorPaths {
        exe: exe.as_bytes(),
        script: script.map(str::as_bytes),
    })
}

fn opens(rules: &[Rule], actor: Option<ActorPaths<'_>>, path: &str) -> Option<usize> {
    let attempt = Attempt {
        path: Some(path.as_bytes()),
        access: OpenAccess::ALL,
        actor,
        ..Attempt::new(AttemptKind::Open)
    };
    decide(rules, &attempt)
}

#[test]
fn an_exception_for_one_program_is_for_nobody_else() {
    let rules = [
        rule(&["/key"], &[], &[], RuleAction::Kill),
        rule(
            &["/key"],
            &["/usr/bin/git", "/usr/lib/git-core/*"],
            &[],
            RuleAction::Allow,
        ),
    ];
    assert_eq!(opens(&rules, actor("/usr/bin/git", None), "/key"), Some(1));
    assert_eq!(
        opens(&rules, actor("/usr/lib/git-core/fetch", None), "/key"),
        Some(1)
    );
    assert_eq!(opens(&rules, actor("/usr/bin/git2", None), "/key"), Some(0));
    assert_eq!(opens(&rules, actor("memfd:git", None), "/key"), Some(0));
    assert_eq!(opens(&rules, None, "/key"), Some(0));
}

#[test]
fn both_conditions_have_to_be_met() {
    let rules = [rule(
        &["/key"],
        &["/bin/sh"],
        &["/run/me", "/run/too"],
        RuleAction::Kill,
    )];
    let by = |exe, script| opens(&rules, actor(exe, script), "/key");
    assert_eq!(by("/bin/sh", Some("/run/me")), Some(0));
    assert_eq!(by("/bin/sh", Some("/run/too")), Some(0));
    assert_eq!(by("/bin/sh", Some("/run/other")), None);
    assert_eq!(by("/bin/sh", None), None);
    assert_eq!(by("/bin/bash", Some("/run/me")), None);
}

#[test]
fn what_is_tried_on_comes_before_who_tries() {
    let rules = [
        rule(&["/srv/**"], &["/usr/bin/git"], &[], RuleAction::Allow),
        rule(&["/srv/keys/*"], &[], &[], RuleAction::Kill),
    ];
    // A broad allowance for a program is no hole in a rule about a file.
    assert_eq!(
        opens(&rules, actor("/usr/bin/git", None), "/srv/keys/a"),
        Some(1)
    );
    assert_eq!(
        opens(&rules, actor("/usr/bin/git", None), "/srv/a"),
        Some(0)
    );
}

#[test]
fn a_script_comes_before_a_program_and_the_narrower_before_the_broader() {
    let rules = [
        rule(
            &["/a"],
            &["/usr/**", "/usr/bin/python3"],
            &[],
            RuleAction::Kill,
        ),
        rule(&["/a"], &["/usr/bin/*"], &[], RuleAction::Deny),
        rule(&["/a"], &["/usr/bin/python3"], &[], RuleAction::Log),
        rule(&["/a"], &[], &["/srv/*"], RuleAction::Allow),
    ];
    let by = |exe, script| opens(&rules, actor(exe, script), "/a");
    assert_eq!(by("/usr/lib/x", None), Some(0));
    assert_eq!(by("/usr/bin/x", None), Some(1));
    assert_eq!(by("/usr/bin/python3", None), Some(2));
    assert_eq!(by("/usr/bin/python3", Some("/srv/x")), Some(3));
}

#[test]
fn a_file_that_is_known_by_itself_is_not_shielded_by_who_opens_it() {
    let known = Rule {
        same_file: SameFile::Optional,
        ..rule(&["/key"], &[], &[], RuleAction::Kill)
    };
    let rules = [
        known,
        rule(&["/key"], &["/usr/bin/git"], &[], RuleAction::Allow),
    ];
    let attempt = Attempt {
        path: Some(b"/key"),
        access: OpenAccess::ALL,
        was: &[b"/key"],
        actor: actor("/usr/bin/git", None),
        ..Attempt::new(AttemptKind::Open)
    };
    assert_eq!(decide(&rules, &attempt), Some(0));
}

#[test]
fn a_file_whose_path_is_not_known_is_the_worst_of_those_who_are_meant() {
    let rules = [
        rule(&["/a"], &["/usr/bin/git"], &[], RuleAction::Kill),
        rule(&["/b"], &[], &[], RuleAction::Deny),
    ];
    let unknown = |actor| decide_unknown(&rules, AttemptKind::Open, OpenAccess::ALL, actor);
    assert_eq!(unknown(actor("/usr/bin/git", None)), Some(0));
    assert_eq!(unknown(actor("/usr/bin/vi", None)), Some(1));
    assert_eq!(unknown(None), Some(0));
}

/// All of these match [`EVERYBODY`], each more narrowly.
const PATTERNS: [&str; 3] = ["/**", "/p*", "/prog"];
const EVERYBODY: Option<ActorPaths<'_>> = Some(ActorPaths {
    exe: b"/prog",
    script: Some(b"/prog"),
});

fn any_rule() -> impl Strategy<Value = Rule> {
    let names = || prop::option::weighted(0.4, prop::sample::select(&PATTERNS[..]));
    let paths = prop::sample::subsequence(vec!["/a", "/a*", "/**", "/b"], 0..3);
    let flags = prop::option::weighted(0.2, Just(FileFlag::Truncated));
    let action = prop::sample::select(RuleAction::ALL);
    (paths, names(), names(), flags, action).prop_map(|(paths, exe, script, flag, action)| {
        let paths = if flag.is_some() { Vec::new() } else { paths };
        let list = |name: Option<&'static str>| globs(&name.into_iter().collect::<Vec<_>>());
        Rule {
            path: globs(&paths),
            exe: list(exe),
            script: list(script),
            flags: flag.into_iter().collect(),
            ..Rule::new("any", [AttemptKind::Open], action)
        }
    })
}

/// The answers to those whom the rules that name somebody mean in every possible way.
fn of_everybody(rules: &[Rule], attempt: &Attempt<'_>) -> Vec<Option<usize>> {
    let naming: Vec<usize> = (0..rules.len())
        .filter(|index| rules[*index].names_actors())
        .collect();
    let answer = |chosen: u32| {
        let mut rules = rules.to_vec();
        for (bit, index) in naming.iter().enumerate() {
            if chosen & 1 << bit == 0 {
                rules[*index].on.clear();
            }
        }
        let attempt = Attempt {
            actor: EVERYBODY,
            ..*attempt
        };
        decide(&rules, &attempt)
    };
    (0..1_u32 << naming.len()).map(answer).collect()
}

#[test]
fn it_matters_who_acts_where_a_rule_in_front_names_somebody() {
    let everybody = rule(&["/etc/shadow"], &[], &[], RuleAction::Kill);
    let exception = rule(&["/key"], &["/usr/bin/git"], &[], RuleAction::Allow);
    let rules = [
        everybody,
        exception,
        rule(&["/**"], &[], &[], RuleAction::Kill),
    ];
    let asks = |path: &str| {
        let attempt = Attempt {
            path: Some(path.as_bytes()),
            access: OpenAccess::ALL,
            ..Attempt::new(AttemptKind::Open)
        };
        asks_who_acts(&rules, &attempt)
    };
    assert!(asks("/key"));
    assert!(!asks("/etc/shadow") && !asks("/srv/a"));
    // The path could be that one.
    let lost = Attempt {
        access: OpenAccess::ALL,
        ..Attempt::new(AttemptKind::Open)
    };
    assert!(asks_who_acts(&rules, &lost));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    /// Of somebody who is not known each rule that names somebody may be meant or not: the strongest of
    /// all that this leaves.
    #[test]
    fn nobody_is_let_through_for_not_being_known(
        rules in prop::collection::vec(any_rule(), 0..7),
        path in prop::option::of(prop::sample::select(&["/a", "/b", "/c"][..])),
    ) {
        let attempt = Attempt {
            path: path.map(str::as_bytes),
            access: &[OpenAccess::Read],
            flag: path.is_none().then_some(FileFlag::Truncated),
            ..Attempt::new(AttemptKind::Open)
        };
        let answers = of_everybody(&rules, &attempt);
        let strongest = answers.iter().flatten().max_by_key(|rule| (rules[**rule].action, Reverse(**rule)));
        prop_assert_eq!(decide(&rules, &attempt), strongest.copied());
        // Where it is said that it does not matter who acts, everybody has the same answer.
        if !asks_who_acts(&rules, &attempt) {
            let answer = decide(&rules, &attempt);
            prop_assert!(answers.iter().all(|other| *other == answer));
        }
    }
}
