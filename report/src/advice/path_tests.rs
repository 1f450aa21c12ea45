//! Tests of the advice about paths that name nothing the next time, and of those that no advice opens.

use super::super::fixture;
use super::super::stopper::Outcome;
use super::*;

fn act(path: &str, on: AttemptKind, access: FileAccess, outcome: Outcome) -> ReportedAct {
    ReportedAct {
        on: Some(on),
        object: Object::File {
            path: Some(path.to_owned()),
            truncated: false,
            access: vec![access],
            raw: None,
            to: None,
            memory: Vec::new(),
        },
        outcome,
        errno: 0,
        for_arguments: None,
    }
}

fn rule(pattern: &str) -> Rule {
    Rule {
        path: vec![Glob::parse(pattern).unwrap()],
        access: [OpenAccess::Read, OpenAccess::Write].into(),
        ..fixture::policy().rules[fixture::CREDENTIALS].clone()
    }
}

fn proposed(pattern: &str, path: &str, access: FileAccess) -> String {
    let outcome = Outcome::Denied(Stopper::Monitor);
    let advice = for_rule_alone(
        "untrusted",
        &rule(pattern),
        &act(path, AttemptKind::Open, access, outcome),
    );
    let mut lines = advice.lines();
    let line = lines.find(|line| line.starts_with("path = "));
    line.unwrap_or_default().to_owned()
}

#[test]
fn the_name_of_a_file_for_a_while_is_proposed_as_a_pattern() {
    let path = "/workspace/.git/objects/3f/tmp_obj_AbC123";
    assert_eq!(
        proposed("/workspace/.git/**", path, FileAccess::Write),
        r#"path = ["/workspace/.git/objects/*/tmp_obj_*"]"#
    );
    // Whoever reads it knows its name.
    let exact = format!(r#"path = ["{path}"]"#);
    assert_eq!(
        proposed("/workspace/.git/**", path, FileAccess::Read),
        exact
    );
    // The pattern would not win against such a rule.
    assert_eq!(
        proposed(
            "/workspace/.git/objects/*/tmp_obj_A*",
            path,
            FileAccess::Write
        ),
        exact
    );
    assert_eq!(
        proposed(
            "/workspace/.git/**",
            "/workspace/.git/config",
            FileAccess::Write
        ),
        r#"path = ["/workspace/.git/config"]"#
    );
}

#[test]
fn the_working_directory_itself_is_removed_in_no_mode() {
    let advice = |path: &str, access: FileAccess| {
        let object = act(
            path,
            AttemptKind::Unlink,
            access,
            Outcome::Denied(Stopper::Mounts),
        )
        .object;
        for_layer(Stopper::Mounts, &object, None).unwrap_or_default()
    };
    for access in [FileAccess::Unlink, FileAccess::Rename] {
        let told = advice("/workspace", access);
        assert!(
            told.starts_with("no profile can allow it: it is a mount point"),
            "{told}"
        );
    }
    for (path, access) in [
        ("/workspace/a", FileAccess::Unlink),
        ("/workspace/a", FileAccess::Write),
        ("/workspace", FileAccess::Attribute),
    ] {
        assert_eq!(advice(path, access), "--workdir-mode overlay", "{path}");
    }
}
