//! The table of a policy whose home is empty.

use turnkey_monitor::{Known, Tier, compile};
use turnkey_policy::{Attempt, AttemptKind, OpenAccess, Policy, RuleAction, decide};

/// The shipped profile, of a run in a home that holds nothing.
fn in_an_empty_home() -> Policy {
    let no_files = |path: &str| Err(format!("no {path} here"));
    let mut policy = turnkey_policy::load(
        "untrusted",
        &no_files,
        &turnkey_policy::Overrides::default(),
    )
    .expect("a shipped profile");
    policy.settle_home(&policy.homes(None), &|_| false);
    policy
}

#[test]
fn an_empty_home_is_a_directory_like_others_and_what_lies_in_it_is_not() {
    let rules = compile(&in_an_empty_home(), Tier::Lsm).expect("it fits");
    let answers = rules.to(None);
    let read = |path: &str| answers.open(Known::at(path.as_bytes()), &[OpenAccess::Read]);
    assert!(
        read("/workspace/.netrc").is_none() && read("/workspace/.docker/config.json").is_none()
    );
    assert!(read("/workspace/a/.netrc").is_some() && read("/root/.docker/config.json").is_some());
    // `ln -s . self` brings nothing anywhere.
    for other in ["/workspace/self", "/workspace/a/b"] {
        let kinds = ["/workspace", other].map(|path| answers.inside(path.as_bytes()));
        assert_eq!(kinds[0], kinds[1], "{other}");
    }
    let guarded = b"/workspace/project/.docker";
    assert_ne!(
        answers.inside(guarded),
        answers.inside(b"/workspace/.docker")
    );
    let away = answers.away_below(guarded).map(|(_, action)| action);
    assert_eq!(
        away,
        Some(RuleAction::Kill),
        "it is not renamed to one that is not"
    );
}

#[test]
fn a_rule_about_the_home_does_not_make_a_link_to_it_a_matter_of_secrets() {
    let mut policy = in_an_empty_home();
    let mut own = policy.rules[0].clone();
    own.id = "out".to_owned();
    own.action = RuleAction::Log;
    own.present = false;
    own.silent = None;
    own.path = vec![turnkey_policy::Glob::parse("/workspace/out.txt").expect("a pattern")];
    policy.rules.push(own);
    let rules = compile(&policy, Tier::Lsm).expect("it fits");
    let away = rules.to(None).away_below(b"/workspace");
    let rule = away.map(|(rule, _)| policy.rules[rule].id.as_str());
    assert_eq!(
        rule,
        Some("out"),
        "`ln -s . self` is no act on a private key"
    );
}

/// A place of the jail's own has answers of its own, and the automaton no more states for it.
#[test]
fn memory_of_the_jails_own_is_answered_for_by_the_other_rules() {
    let policy = in_an_empty_home();
    let rules = compile(&policy, Tier::Tracepoint).expect("it fits");
    let answers = rules.to(None);
    let attempt = |path: &'static str, kind| Attempt {
        path: Some(path.as_bytes()),
        access: OpenAccess::ALL,
        ..Attempt::new(kind)
    };
    for path in [
        "/tmp",
        "/tmp/.netrc",
        "/tmp/a/.ssh/id_rsa",
        "/tmp/a/.ssh/authorized_keys",
        "/tmp/.bashrc",
        "/tmp/a/.docker/config.json",
        "/tmpx/.netrc",
        "/tm/.netrc",
        "/workspace/tmp/.netrc",
        "/workspace/.netrc",
        "/root/.netrc",
    ] {
        let file = Known::at(path.as_bytes());
        for (kind, answer) in [
            (AttemptKind::Open, answers.open(file, OpenAccess::ALL)),
            (AttemptKind::Rename, answers.rename(file)),
            (AttemptKind::Link, answers.link(file)),
        ] {
            let reference = decide(&policy.rules, &attempt(path, kind));
            assert_eq!(answer.map(|(rule, _)| rule), reference, "{kind:?} {path}");
        }
    }
    let away = |path: &str| {
        answers
            .away_below(path.as_bytes())
            .map(|(rule, _)| policy.rules[rule].id.as_str())
    };
    assert_eq!(away("/tmp/a/.docker"), None, "nothing of anybody is in it");
    assert_eq!(away("/workspace/a/.docker"), Some("stored-credential"));
    assert_eq!(
        away("/tmp/a/.ssh"),
        Some("authorized-keys"),
        "which is not on what is present"
    );
}
