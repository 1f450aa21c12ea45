//! Rules about files: by their state, and by themselves.

use turnkey_policy::{
    Access, Action, Attempt, FileFlag, Glob, On, Rule, SameFile, decide, decide_unknown,
};

fn rule(id: &str, path: &[&str], action: Action) -> Rule {
    let path = path.iter().map(|path| Glob::parse(path));
    Rule {
        path: path.collect::<Result<_, _>>().expect("patterns"),
        ..Rule::new(id, [On::Open, On::Exec], action)
    }
}

fn flagged(id: &str, path: &[&str], flags: &[FileFlag], action: Action) -> Rule {
    let flags = flags.iter().copied().collect();
    Rule {
        flags,
        ..rule(id, path, action)
    }
}

fn by_file(id: &str, path: &str, action: Action) -> Rule {
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
        ..Attempt::of(On::Exec)
    };
    decide(rules, &attempt).map(|index| rules[index].id.as_str())
}

const DELETED: Option<FileFlag> = Some(FileFlag::Deleted);
const MEMFD: Option<FileFlag> = Some(FileFlag::Memfd);

#[test]
fn a_rule_with_flags_decides_before_any_path_and_of_nothing_else() {
    let rules = [
        rule("here", &["/workspace/x"], Action::Allow),
        flagged("gone", &[], &[FileFlag::Deleted], Action::Kill),
        rule("every", &[], Action::Log),
    ];
    assert_eq!(decided(&rules, "/workspace/x", None, &[]), Some("here"));
    assert_eq!(decided(&rules, "/workspace/x", DELETED, &[]), Some("gone"));
    assert_eq!(decided(&rules, "memfd:x", MEMFD, &[]), Some("every"));
}

#[test]
fn a_file_whose_path_is_not_known_is_the_worst_there_is_unless_a_rule_means_it() {
    let mut rules = vec![
        rule("free", &[], Action::Allow),
        rule("one", &["/srv/one"], Action::Deny),
        rule("other", &["/srv/other"], Action::Kill),
        flagged("gone", &[], &[FileFlag::Deleted], Action::Kill),
    ];
    let unknown = |rules: &[Rule]| {
        let rule = decide_unknown(rules, On::Open, Access::ALL, None);
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
    rules.push(flagged("cut", &[], &[FileFlag::Truncated], Action::Log));
    assert_eq!(unknown(&rules).as_deref(), Some("cut"));
    rules.push(flagged(
        "cut-too",
        &[],
        &[FileFlag::Truncated],
        Action::Deny,
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
        flagged("nameless", &[], &both, Action::Kill),
        flagged("built", &["/build/**"], &[FileFlag::Deleted], Action::Allow),
    ];
    assert_eq!(decided(&rules, "/build/x", DELETED, &[]), Some("built"));
    assert_eq!(decided(&rules, "/x", DELETED, &[]), Some("nameless"));
    assert_eq!(decided(&rules, "memfd:x", MEMFD, &[]), Some("nameless"));
    assert_eq!(decided(&rules, "/build/x", None, &[]), None);
}

#[test]
fn a_rule_about_a_file_speaks_of_it_by_any_name() {
    let rules = [by_file("file", "/secret", Action::Kill)];
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
        rule("name", &["/alias"], Action::Allow),
        by_file("file", "/secret", Action::Deny),
    ];
    assert_eq!(decided(&rules, "/alias", None, secret), Some("file"));
    let rules = [
        by_file("file", "/secret", Action::Log),
        rule("name", &["/alias"], Action::Kill),
    ];
    assert_eq!(decided(&rules, "/alias", None, secret), Some("name"));
    let rules = [
        by_file("file", "/secret", Action::Kill),
        rule("name", &["/alias"], Action::Kill),
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
        by_file("log", "/a", Action::Log),
        by_file("kill", "/b", Action::Kill),
        by_file("later", "/b", Action::Kill),
    ];
    let known: &[&[u8]] = &[b"/a", b"/b"];
    assert_eq!(decided(&rules, "/c", None, known), Some("kill"));
    assert_eq!(decided(&rules, "/c", None, &[b"/a"]), Some("log"));
}

/// What a rule on reading a file says of attempts on it by another name.
fn alias(on: On, access: &[Access]) -> Option<usize> {
    let rules = [Rule {
        on: [On::Open].into(),
        access: [Access::Read].into(),
        ..by_file("file", "/secret", Action::Kill)
    }];
    let attempt = Attempt {
        path: Some(b"/alias"),
        access,
        was: &[b"/secret"],
        ..Attempt::of(on)
    };
    decide(&rules, &attempt)
}

#[test]
fn a_rule_about_a_file_binds_its_access_alone_where_the_file_stays_what_it_is() {
    assert_eq!(alias(On::Open, &[Access::Read]), Some(0));
    assert_eq!(alias(On::Open, Access::ALL), Some(0));
    assert_eq!(alias(On::Open, &[]), None);
    for on in [On::Exec, On::Map, On::Stat, On::Attribute] {
        assert_eq!(alias(on, &[]), None, "{on:?}");
    }
}

#[test]
fn what_could_leave_a_file_another_one_is_asked_of_every_rule_about_it() {
    assert_eq!(alias(On::Open, &[Access::Write]), Some(0));
    for on in [On::Link, On::Rename, On::Unlink, On::Chmod] {
        assert_eq!(alias(on, &[]), Some(0), "{on:?}");
    }
}
