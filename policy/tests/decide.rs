//! Which rule decides.

use proptest::prelude::*;
use turnkey_policy::{Access, Action, Attempt, Candidate, Glob, On, Rule, decide, precedence};

fn rule(id: &str, on: On, paths: &[&str], access: &[Access], action: Action) -> Rule {
    Rule {
        path: paths
            .iter()
            .map(|path| Glob::parse(path).expect("a pattern"))
            .collect(),
        access: access.iter().copied().collect(),
        ..Rule::new(id, [on], action)
    }
}

fn open(id: &str, paths: &[&str], action: Action) -> Rule {
    rule(id, On::Open, paths, Access::ALL, action)
}

/// The id of the rule that decides on opening a path.
fn decided<'r>(rules: &'r [Rule], path: &str, access: &[Access]) -> Option<&'r str> {
    let attempt = Attempt {
        path: Some(path.as_bytes()),
        access,
        ..Attempt::of(On::Open)
    };
    decide(rules, &attempt).map(|index| rules[index].id.as_str())
}

#[test]
fn an_exact_path_decides_before_a_longer_pattern() {
    let rules = [
        open("pattern", &["/etc/very/long/directory/*"], Action::Kill),
        open("exact", &["/etc/very/long/directory/a"], Action::Allow),
    ];
    assert_eq!(
        decided(&rules, "/etc/very/long/directory/a", &[Access::Read]),
        Some("exact")
    );
    assert_eq!(
        decided(&rules, "/etc/very/long/directory/b", &[Access::Read]),
        Some("pattern")
    );
    assert_eq!(decided(&rules, "/etc", &[Access::Read]), None);
}

#[test]
fn a_pattern_that_yields_shields_nothing() {
    let broad = Rule {
        yields: true,
        ..open(
            "broad",
            &["/workspace/**", "/workspace/exact"],
            Action::Allow,
        )
    };
    let rules = [
        broad,
        open("secret", &["**/.netrc", "/work**"], Action::Log),
        open("rest", &[], Action::Kill),
    ];
    let read = |path| decided(&rules, path, &[Access::Read]);
    assert_eq!(read("/workspace/.netrc"), Some("secret"));
    assert_eq!(read("/workspace/exact"), Some("secret"));
    assert_eq!(read("/etc/passwd"), Some("rest"));
    let rules = [&rules[..1], &rules[2..]].concat();
    assert_eq!(
        decided(&rules, "/workspace/a", &[Access::Read]),
        Some("broad")
    );
}

#[test]
fn more_literal_bytes_decide_before_fewer() {
    let rules = [
        open("short", &["/etc/**"], Action::Kill),
        open("long", &["/etc/ssl/**"], Action::Allow),
    ];
    assert_eq!(
        decided(&rules, "/etc/ssl/certs", &[Access::Read]),
        Some("long")
    );
    assert_eq!(
        decided(&rules, "/etc/shadow", &[Access::Read]),
        Some("short")
    );
}

#[test]
fn any_path_decides_before_none() {
    let rules = [
        open("every", &[], Action::Kill),
        open("some", &["**"], Action::Allow),
    ];
    assert_eq!(decided(&rules, "/x", &[Access::Read]), Some("some"));
}

#[test]
fn each_pattern_of_a_rule_stands_for_itself() {
    let rules = [
        open("mixed", &["/a/**", "/etc/shadow"], Action::Allow),
        open("broad", &["/a/b/**", "/etc/*"], Action::Kill),
    ];
    assert_eq!(decided(&rules, "/a/b/c", &[Access::Read]), Some("broad"));
    assert_eq!(
        decided(&rules, "/etc/shadow", &[Access::Read]),
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
        decided(&rules, "/x", &[Access::Read]).map(str::to_owned)
    };
    assert_eq!(tied(Action::Deny, Action::Kill).as_deref(), Some("second"));
    assert_eq!(tied(Action::Log, Action::Deny).as_deref(), Some("second"));
    assert_eq!(tied(Action::Allow, Action::Log).as_deref(), Some("second"));
    assert_eq!(tied(Action::Kill, Action::Kill).as_deref(), Some("first"));
}

#[test]
fn allowing_to_write_shields_no_reading() {
    let rules = [
        rule(
            "no-read",
            On::Open,
            &["/etc/*"],
            &[Access::Read],
            Action::Kill,
        ),
        rule(
            "may-write",
            On::Open,
            &["/etc/shadow"],
            &[Access::Write],
            Action::Allow,
        ),
    ];
    assert_eq!(
        decided(&rules, "/etc/shadow", &[Access::Write]),
        Some("may-write")
    );
    assert_eq!(
        decided(&rules, "/etc/shadow", &[Access::Read]),
        Some("no-read")
    );
    assert_eq!(
        decided(&rules, "/etc/shadow", &[Access::Read, Access::Write]),
        Some("no-read")
    );
    assert_eq!(decided(&rules, "/etc/shadow", &[]), None);
}

#[test]
fn rules_speak_of_their_kind_of_attempt_alone() {
    let rules = [
        rule("exec", On::Exec, &["/bin/*"], &[], Action::Kill),
        rule("connect", On::Connect, &[], &[], Action::Deny),
    ];
    let attempt = |on, path| {
        decide(
            &rules,
            &Attempt {
                path,
                ..Attempt::of(on)
            },
        )
    };
    assert_eq!(attempt(On::Exec, Some(&b"/bin/sh"[..])), Some(0));
    assert_eq!(attempt(On::Connect, None), Some(1));
    assert_eq!(attempt(On::Bind, None), None);
    // Nothing is known of the path, so a rule on paths cannot speak.
    assert_eq!(attempt(On::Exec, None), None);
    assert_eq!(decided(&rules, "/bin/sh", &[Access::Read]), None);
}

#[test]
fn precedence_lists_every_pattern_once() {
    let rules = [
        open("every", &[], Action::Kill),
        open("two", &["/a/*", "/a/b"], Action::Log),
        rule("exec", On::Exec, &["/a/b"], &[], Action::Kill),
    ];
    let expected = [
        Candidate {
            pattern: Some(1),
            ..Candidate::of(1)
        },
        Candidate {
            pattern: Some(0),
            ..Candidate::of(1)
        },
        Candidate::of(0),
    ];
    assert_eq!(precedence(&rules, On::Open, Some(Access::Read)), expected);
    assert_eq!(precedence(&rules, On::Open, None), []);
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let pattern = prop::sample::select(vec![
        "/a", "/a/*", "/a/**", "**", "/a/b", "/?", "/{a,b}", "/a/{b,c}",
    ]);
    let access = prop::sample::subsequence(Access::ALL, 1..=2);
    let action = prop::sample::select(Action::ALL);
    (prop::collection::vec(pattern, 0..3), access, action)
        .prop_map(|(paths, access, action)| rule("any", On::Open, &paths, &access, action))
}

/// The documented order, said once more in other words: the best of all that match.
fn naive(rules: &[Rule], path: &[u8], access: Access) -> Option<usize> {
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
            for access in Access::ALL {
                let attempt = Attempt { path: Some(path.as_bytes()), access: &[*access], ..Attempt::of(On::Open) };
                prop_assert_eq!(decide(&rules, &attempt), naive(&rules, path.as_bytes(), *access));
            }
        }
    }

    #[test]
    fn two_accesses_are_decided_as_strictly_as_the_stricter(rules in prop::collection::vec(any_rule(), 0..8)) {
        for path in ["/a", "/a/b", "/a/b/c"] {
            let attempt = Attempt { path: Some(path.as_bytes()), access: Access::ALL, ..Attempt::of(On::Open) };
            let action = |index: Option<usize>| index.map(|index| rules[index].action);
            let stricter = Access::ALL.iter().map(|access| action(naive(&rules, path.as_bytes(), *access))).max();
            prop_assert_eq!(Some(action(decide(&rules, &attempt))), stricter);
        }
    }
}

/// The rule that decides on an act on a name, among one for each use of a file.
fn on_name(on: On, path: &str) -> Option<&'static str> {
    let rules = [
        rule("read", On::Open, &["/a"], &[Access::Read], Action::Log),
        rule(
            "write",
            On::Open,
            &["/a", "/w"],
            &[Access::Write],
            Action::Deny,
        ),
        rule("exec", On::Exec, &["/a", "/x"], &[], Action::Kill),
        rule("link", On::Link, &["/x", "/l"], &[], Action::Allow),
    ];
    let attempt = Attempt {
        path: Some(path.as_bytes()),
        ..Attempt::of(on)
    };
    let names = ["read", "write", "exec", "link"];
    decide(&rules, &attempt).map(|index| names[index])
}

#[test]
fn who_links_or_renames_a_file_is_asked_for_every_use_that_it_loses_and_no_rule_shields_it() {
    for on in [On::Link, On::Rename] {
        assert_eq!(on_name(on, "/a"), Some("exec"), "the strongest");
        assert_eq!(on_name(on, "/w"), Some("write"));
        assert_eq!(on_name(on, "/x"), Some("exec"), "allowed, and stronger");
    }
    assert_eq!(on_name(On::Link, "/l"), Some("link"));
    assert_eq!(on_name(On::Rename, "/l"), None);
}

#[test]
fn who_unlinks_a_file_writes_at_its_name() {
    assert_eq!(on_name(On::Unlink, "/a"), Some("write"));
    assert_eq!(on_name(On::Unlink, "/x"), None);
    assert_eq!(on_name(On::Chmod, "/a"), None);
}
