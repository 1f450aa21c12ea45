//! Rules about files: by their state, and by themselves.

use turnkey_policy::{
    Attempt, AttemptKind, FileFlag, Glob, OpenAccess, Rule, RuleAction, SameFile, decide,
    decide_unknown,
};

fn rule(id: &str, path: &[&str], action: RuleAction) -> Rule {
    let path = path.iter().map(|path| Glob::parse(path));
    Rule {
        path: path.collect::<Result<_, _>>().expect("patterns"),
        ..Rule::new(id, [AttemptKind::Open, AttemptKind::Exec], action)
    }
}

fn flagged(id: &str, path: &[&str], flags: &[FileFlag], action: RuleAction) -> Rule {
    let flags = flags.iter().copied().collect();
    Rule {
        flags,
        ..rule(id, path, action)
    }
}

fn by_file(id: &str, path: &str, action: RuleAction) -> Rule {
    Rule {
        same_file: SameFile::Required,
        ..rule(id, &[path], action)
    }
}

/// The id of the rule that decides on executing a file.
fn decided<'r>(
    rules: &'r [Rule],
    path: &str,
    flag: Option<FileFlag>,
    was: &[&[u8]],
) -> Option<&'r str> {
    let attempt = Attempt {
        path: Some(path.as_bytes()),
        flag,
        was,
        ..Attempt::new(AttemptKind::Exec)
    };
    decide(rules, &attempt).map(|index| rules[index].id.as_str())
}

const DELETED: Option<FileFlag> = Some(FileFlag::Deleted);
const MEMFD: Option<FileFlag> = Some(FileFlag::Memfd);

#[test]
fn a_rule_with_flags_decides_before_any_path_and_of_nothing_else() {
    let rules = [
        rule("here", &["/workspace/x"], RuleAction::Allow),
        flagged("gone", &[], &[FileFlag::Deleted], RuleAction::Kill),
        rule("every", &[], RuleAction::Log),
    ];
    assert_eq!(decided(&rules, "/workspace/x", None, &[]), Some("here"));
    assert_eq!(decided(&rules, "/workspace/x", DELETED, &[]), Some("gone"));
    assert_eq!(decided(&rules, "memfd:x", MEMFD, &[]), Some("every"));
}

#[test]
fn a_file_whose_path_is_not_known_is_the_worst_there_is_unless_a_rule_means_it() {
    let mut rules = vec![
        rule("free", &[], RuleAction::Allow),
        rule("one", &["/srv/one"], RuleAction::Deny),
        rule("other", &["/srv/other"], RuleAction::Kill),
        flagged("gone", &[], &[FileFlag::Deleted], RuleAction::Kill),
    ];
    let unknown = |rules: &[Rule]| {
        let rule = decide_unknown(rules, AttemptKind::Open, OpenAccess::ALL, None);
        rule.map(|index| rules[index].id.clone())
    };
    assert_eq!(
        unknown(&rules).as_deref(),
        Some("other"),
        "the earlier of two"
    );
    assert_eq!(
        unknown(&rules[..1]),
        None,
        "none that allows is meant for it"
    );
    rules.push(flagged("cut", &[], &[FileFlag::Truncated], RuleAction::Log));
    assert_eq!(unknown(&rules).as_deref(), Some("cut"));
    rules.push(flagged(
        "cut-too",
        &[],
        &[FileFlag::Truncated],
        RuleAction::Deny,
    ));
    assert_eq!(unknown(&rules).as_deref(), Some("cut-too"), "the stronger");
    assert_eq!(
        decided(&rules, "/srv/one", None, &[]),
        Some("one"),
        "of no other file"
    );
    assert_eq!(decided(&rules, "/srv/one", DELETED, &[]), Some("gone"));
}

#[test]
fn among_rules_with_flags_the_order_of_paths_holds() {
    let both = [FileFlag::Memfd, FileFlag::Deleted];
    let rules = [
        flagged("nameless", &[], &both, RuleAction::Kill),
        flagged(
            "built",
            &["/build/**"],
            &[FileFlag::Deleted],
            RuleAction::Allow,
        ),
    ];
    assert_eq!(decided(&rules, "/build/x", DELETED, &[]), Some("built"));
    assert_eq!(decided(&rules, "/x", DELETED, &[]), Some("nameless"));
    assert_eq!(decided(&rules, "memfd:x", MEMFD, &[]), Some("nameless"));
    assert_eq!(decided(&rules, "/build/x", None, &[]), None);
}

#[test]
fn a_rule_about_a_file_speaks_of_it_by_any_name() {
    let rules = [by_file("file", "/secret", RuleAction::Kill)];
    let secret: &[&[u8]] = &[b"/secret"];
    assert_eq!(decided(&rules, "/alias", None, secret), Some("file"));
    assert_eq!(decided(&rules, "/alias", None, &[b"/other"]), None);
    assert_eq!(
        decided(&rules, "/secret", None, &[]),
        Some("file"),
        "by its path"
    );
}

#[test]
fn no_rule_about_a_name_shields_a_file_and_none_about_a_file_shields_a_name() {
    let secret: &[&[u8]] = &[b"/secret"];
    let rules = [
        rule("name", &["/alias"], RuleAction::Allow),
        by_file("file", "/secret", RuleAction::Deny),
    ];
    assert_eq!(decided(&rules, "/alias", None, secret), Some("file"));
    let rules = [
        by_file("file", "/secret", RuleAction::Log),
        rule("name", &["/alias"], RuleAction::Kill),
    ];
    assert_eq!(decided(&rules, "/alias", None, secret), Some("name"));
    let rules = [
        by_file("file", "/secret", RuleAction::Kill),
        rule("name", &["/alias"], RuleAction::Kill),
    ];
    assert_eq!(
        decided(&rules, "/alias", None, secret),
        Some("name"),
        "a tie"
    );
}

#[test]
fn of_two_rules_about_a_file_the_stronger_decides() {
    let rules = [
        by_file("log", "/a", RuleAction::Log),
        by_file("kill", "/b", RuleAction::Kill),
        by_file("later", "/b", RuleAction::Kill),
    ];
    let known: &[&[u8]] = &[b"/a", b"/b"];
    assert_eq!(decided(&rules, "/c", None, known), Some("kill"));
    assert_eq!(decided(&rules, "/c", None, &[b"/a"]), Some("log"));
}

/// The decision of a rule on reading a file about attempts on it by another name.
fn alias(on: AttemptKind, access: &[OpenAccess]) -> Option<usize> {
    let rules = [Rule {
        on: [AttemptKind::Open].into(),
        access: [OpenAccess::Read].into(),
        ..by_file("file", "/secret", RuleAction::Kill)
    }];
    let attempt = Attempt {
        path: Some(b"/alias"),
        access,
        was: &[b"/secret"],
        ..Attempt::new(on)
    };
    decide(&rules, &attempt)
}

#[test]
fn a_rule_about_a_file_binds_its_access_alone_where_the_file_stays_what_it_is() {
    assert_eq!(alias(AttemptKind::Open, &[OpenAccess::Read]), Some(0));
    assert_eq!(alias(AttemptKind::Open, OpenAccess::ALL), Some(0));
    assert_eq!(alias(AttemptKind::Open, &[]), None);
    for on in [
        AttemptKind::Exec,
        AttemptKind::Map,
        AttemptKind::Stat,
        AttemptKind::Attribute,
    ] {
        assert_eq!(alias(on, &[]), None, "{on:?}");
    }
}

#[test]
fn what_could_leave_a_file_another_one_is_asked_of_every_rule_about_it() {
    assert_eq!(alias(AttemptKind::Open, &[OpenAccess::Write]), Some(0));
    for on in [
        AttemptKind::Link,
        AttemptKind::Rename,
        AttemptKind::Unlink,
        AttemptKind::Chmod,
    ] {
        assert_eq!(alias(on, &[]), Some(0), "{on:?}");
    }
}
