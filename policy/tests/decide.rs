//! Tests of the order in which rules decide.

use proptest::prelude::*;
use turnkey_policy::{
    Attempt, AttemptKind, Candidate, Glob, OpenAccess, Rule, RuleAction, decide, precedence,
};

fn rule(
    id: &str,
    on: AttemptKind,
    paths: &[&str],
    access: &[OpenAccess],
    action: RuleAction,
) -> Rule {
    Rule {
        path: paths
            .iter()
            .map(|path| Glob::parse(path).expect("a pattern"))
            .collect(),
        access: access.iter().copied().collect(),
        ..Rule::new(id, [on], action)
    }
}

fn open(id: &str, paths: &[&str], action: RuleAction) -> Rule {
    rule(id, AttemptKind::Open, paths, OpenAccess::ALL, action)
}

/// The id of the rule that decides on opening a path.
fn decided<'r>(rules: &'r [Rule], path: &str, access: &[OpenAccess]) -> Option<&'r str> {
    let attempt = Attempt {
        path: Some(path.as_bytes()),
        access,
        ..Attempt::new(AttemptKind::Open)
    };
    decide(rules, &attempt).map(|index| rules[index].id.as_str())
}

#[test]
fn an_exact_path_decides_before_a_longer_pattern() {
    let rules = [
        open("pattern", &["/etc/very/long/directory/*"], RuleAction::Kill),
        open("exact", &["/etc/very/long/directory/a"], RuleAction::Allow),
    ];
    assert_eq!(
        decided(&rules, "/etc/very/long/directory/a", &[OpenAccess::Read]),
        Some("exact")
    );
    assert_eq!(
        decided(&rules, "/etc/very/long/directory/b", &[OpenAccess::Read]),
        Some("pattern")
    );
    assert_eq!(decided(&rules, "/etc", &[OpenAccess::Read]), None);
}

#[test]
fn a_pattern_that_yields_shields_nothing() {
    let broad = Rule {
        yields: true,
        ..open(
            "broad",
            &["/workspace/**", "/workspace/exact"],
            RuleAction::Allow,
        )
    };
    let rules = [
        broad,
        open("secret", &["**/.netrc", "/work**"], RuleAction::Log),
        open("rest", &[], RuleAction::Kill),
    ];
    let read = |path| decided(&rules, path, &[OpenAccess::Read]);
    assert_eq!(read("/workspace/.netrc"), Some("secret"));
    assert_eq!(read("/workspace/exact"), Some("secret"));
    assert_eq!(read("/etc/passwd"), Some("rest"));
    let rules = [&rules[..1], &rules[2..]].concat();
    assert_eq!(
        decided(&rules, "/workspace/a", &[OpenAccess::Read]),
        Some("broad")
    );
}

#[test]
fn more_literal_bytes_decide_before_fewer() {
    let rules = [
        open("short", &["/etc/**"], RuleAction::Kill),
        open("long", &["/etc/ssl/**"], RuleAction::Allow),
    ];
    assert_eq!(
        decided(&rules, "/etc/ssl/certs", &[OpenAccess::Read]),
        Some("long")
    );
    assert_eq!(
        decided(&rules, "/etc/shadow", &[OpenAccess::Read]),
        Some("short")
    );
}

#[test]
fn any_path_decides_before_none() {
    let rules = [
        open("every", &[], RuleAction::Kill),
        open("some", &["**"], RuleAction::Allow),
    ];
    assert_eq!(decided(&rules, "/x", &[OpenAccess::Read]), Some("some"));
}

#[test]
fn each_pattern_of_a_rule_stands_for_itself() {
    let rules = [
        open("mixed", &["/a/**", "/etc/shadow"], RuleAction::Allow),
        open("broad", &["/a/b/**", "/etc/*"], RuleAction::Kill),
    ];
    assert_eq!(
        decided(&rules, "/a/b/c", &[OpenAccess::Read]),
        Some("broad")
    );
    assert_eq!(
        decided(&rules, "/etc/shadow", &[OpenAccess::Read]),
        Some("mixed")
    );
}

#[test]
fn on_a_tie_the_stronger_action_decides_then_the_earlier_rule() {
    let tied = |first, second| {
        let rules = [
            open("first", &["/x"], first),
            open("second", &["/x"], second),
        ];
        decided(&rules, "/x", &[OpenAccess::Read]).map(str::to_owned)
    };
    assert_eq!(
        tied(RuleAction::Deny, RuleAction::Kill).as_deref(),
        Some("second")
    );
    assert_eq!(
        tied(RuleAction::Log, RuleAction::Deny).as_deref(),
        Some("second")
    );
    assert_eq!(
        tied(RuleAction::Allow, RuleAction::Log).as_deref(),
        Some("second")
    );
    assert_eq!(
        tied(RuleAction::Kill, RuleAction::Kill).as_deref(),
        Some("first")
    );
}

#[test]
fn allowing_to_write_shields_no_reading() {
    let rules = [
        rule(
            "no-read",
            AttemptKind::Open,
            &["/etc/*"],
            &[OpenAccess::Read],
            RuleAction::Kill,
        ),
        rule(
            "may-write",
            AttemptKind::Open,
            &["/etc/shadow"],
            &[OpenAccess::Write],
            RuleAction::Allow,
        ),
    ];
    assert_eq!(
        decided(&rules, "/etc/shadow", &[OpenAccess::Write]),
        Some("may-write")
    );
    assert_eq!(
        decided(&rules, "/etc/shadow", &[OpenAccess::Read]),
        Some("no-read")
    );
    assert_eq!(
        decided(
            &rules,
            "/etc/shadow",
            &[OpenAccess::Read, OpenAccess::Write]
        ),
        Some("no-read")
    );
    assert_eq!(decided(&rules, "/etc/shadow", &[]), None);
}

#[test]
fn rules_speak_of_their_kind_of_attempt_alone() {
    let rules = [
        rule(
            "exec",
            AttemptKind::Exec,
            &["/bin/*"],
            &[],
            RuleAction::Kill,
        ),
        rule("connect", AttemptKind::Connect, &[], &[], RuleAction::Deny),
    ];
    let attempt = |on, path| {
        decide(
            &rules,
            &Attempt {
                path,
                ..Attempt::new(on)
            },
        )
    };
    assert_eq!(attempt(AttemptKind::Exec, Some(&b"/bin/sh"[..])), Some(0));
    assert_eq!(attempt(AttemptKind::Connect, None), Some(1));
    assert_eq!(attempt(AttemptKind::Bind, None), None);
    // Nothing is known of the path, so a rule on paths cannot speak.
    assert_eq!(attempt(AttemptKind::Exec, None), None);
    assert_eq!(decided(&rules, "/bin/sh", &[OpenAccess::Read]), None);
}

#[test]
fn precedence_lists_every_pattern_once() {
    let rules = [
        open("every", &[], RuleAction::Kill),
        open("two", &["/a/*", "/a/b"], RuleAction::Log),
        rule("exec", AttemptKind::Exec, &["/a/b"], &[], RuleAction::Kill),
    ];
    let expected = [
        Candidate {
            pattern: Some(1),
            ..Candidate::whole_rule(1)
        },
        Candidate {
            pattern: Some(0),
            ..Candidate::whole_rule(1)
        },
        Candidate::whole_rule(0),
    ];
    assert_eq!(
        precedence(&rules, AttemptKind::Open, Some(OpenAccess::Read)),
        expected
    );
    assert_eq!(precedence(&rules, AttemptKind::Open, None), []);
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let pattern = prop::sample::select(vec![
        "/a", "/a/*", "/a/**", "**", "/a/b", "/?", "/{a,b}", "/a/{b,c}",
    ]);
    let access = prop::sample::subsequence(OpenAccess::ALL, 1..=2);
    let action = prop::sample::select(RuleAction::ALL);
    (prop::collection::vec(pattern, 0..3), access, action)
        .prop_map(|(paths, access, action)| rule("any", AttemptKind::Open, &paths, &access, action))
}

/// The documented order, said once more in other words: the best of all that match.
fn naive(rules: &[Rule], path: &[u8], access: OpenAccess) -> Option<usize> {
    let matching = rules
        .iter()
        .enumerate()
        .filter(|(_, rule)| rule.access.contains(&access));
    let best = matching.filter_map(|(index, rule)| {
        let specificity = match rule.path.is_empty() {
            true => Some(None),
            false => rule
                .path
                .iter()
                .filter(|glob| glob.matches(path))
                .map(Glob::specificity)
                .max()
                .map(Some),
        };
        specificity.map(|specificity| (specificity, rule.action, std::cmp::Reverse(index)))
    });
    best.max().map(|(_, _, index)| index.0)
}

proptest! {
    #[test]
    fn the_best_match_decides(rules in prop::collection::vec(any_rule(), 0..8)) {
        for path in ["/a", "/b", "/a/b", "/a/b/c", "/x"] {
            for access in OpenAccess::ALL {
                let attempt = Attempt { path: Some(path.as_bytes()), access: &[*access], ..Attempt::new(AttemptKind::Open) };
                prop_assert_eq!(decide(&rules, &attempt), naive(&rules, path.as_bytes(), *access));
            }
        }
    }

    #[test]
    fn two_accesses_are_decided_as_strictly_as_the_stricter(rules in prop::collection::vec(any_rule(), 0..8)) {
        for path in ["/a", "/a/b", "/a/b/c"] {
            let attempt = Attempt { path: Some(path.as_bytes()), access: OpenAccess::ALL, ..Attempt::new(AttemptKind::Open) };
            let action = |index: Option<usize>| index.map(|index| rules[index].action);
            let stricter = OpenAccess::ALL.iter().map(|access| action(naive(&rules, path.as_bytes(), *access))).max();
            prop_assert_eq!(Some(action(decide(&rules, &attempt))), stricter);
        }
    }
}

/// The rule that decides on an act on a name, among one for each use of a file.
fn on_name(on: AttemptKind, path: &str) -> Option<&'static str> {
    let rules = [
        rule(
            "read",
            AttemptKind::Open,
            &["/a"],
            &[OpenAccess::Read],
            RuleAction::Log,
        ),
        rule(
            "write",
            AttemptKind::Open,
            &["/a", "/w"],
            &[OpenAccess::Write],
            RuleAction::Deny,
        ),
        rule(
            "exec",
            AttemptKind::Exec,
            &["/a", "/x"],
            &[],
            RuleAction::Kill,
        ),
        rule(
            "link",
            AttemptKind::Link,
            &["/x", "/l"],
            &[],
            RuleAction::Allow,
        ),
    ];
    let attempt = Attempt {
        path: Some(path.as_bytes()),
        ..Attempt::new(on)
    };
    let names = ["read", "write", "exec", "link"];
    decide(&rules, &attempt).map(|index| names[index])
}

#[test]
fn who_links_or_renames_a_file_is_asked_for_every_use_that_it_loses_and_no_rule_shields_it() {
    for on in [AttemptKind::Link, AttemptKind::Rename] {
        assert_eq!(on_name(on, "/a"), Some("exec"), "the strongest");
        assert_eq!(on_name(on, "/w"), Some("write"));
        assert_eq!(on_name(on, "/x"), Some("exec"), "allowed, and stronger");
    }
    assert_eq!(on_name(AttemptKind::Link, "/l"), Some("link"));
    assert_eq!(on_name(AttemptKind::Rename, "/l"), None);
}

#[test]
fn who_unlinks_a_file_writes_at_its_name() {
    assert_eq!(on_name(AttemptKind::Unlink, "/a"), Some("write"));
    assert_eq!(on_name(AttemptKind::Unlink, "/x"), None);
    assert_eq!(on_name(AttemptKind::Chmod, "/a"), None);
}

/// Rules on the wider kind hold beside those on the call's own kind.
#[test]
fn a_call_of_a_kind_of_its_own_is_one_of_the_wider_kind_too() {
    for (on, wider) in [
        (AttemptKind::Mkdir, AttemptKind::Open),
        (AttemptKind::Symlink, AttemptKind::Open),
        (AttemptKind::Mknod, AttemptKind::Open),
        (AttemptKind::Truncate, AttemptKind::Open),
        (AttemptKind::Rmdir, AttemptKind::Unlink),
        (AttemptKind::Chown, AttemptKind::Chmod),
        (AttemptKind::Utimens, AttemptKind::Attribute),
        (AttemptKind::Xattr, AttemptKind::Attribute),
    ] {
        let access = if wider == AttemptKind::Open {
            &[OpenAccess::Write][..]
        } else {
            &[]
        };
        let own = |action| rule("own", on, &["/x"], &[], action);
        let of_wider = |action| rule("wider", wider, &["/x"], access, action);
        let attempt = Attempt {
            path: Some(b"/x"),
            ..Attempt::new(on)
        };
        let decided = |rules: &[Rule]| decide(rules, &attempt);
        assert_eq!(decided(&[own(RuleAction::Kill)]), Some(0), "{on}");
        assert_eq!(decided(&[of_wider(RuleAction::Kill)]), Some(0), "{on}");
        let rules = [own(RuleAction::Allow), of_wider(RuleAction::Kill)];
        assert_eq!(
            decided(&rules),
            Some(1),
            "{on}: allowing it overrides nothing"
        );
        let rules = [own(RuleAction::Kill), of_wider(RuleAction::Allow)];
        assert_eq!(
            decided(&rules),
            Some(0),
            "{on}: nor does allowing the wider"
        );
        let other = Attempt {
            on: wider,
            access,
            ..attempt
        };
        let rules = [own(RuleAction::Kill)];
        assert_eq!(decide(&rules, &other), None, "{on} is not all of {wider}");
    }
}
