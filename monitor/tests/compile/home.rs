//! The table of a policy whose home is empty.

use std::path::Path;

use turnkey_monitor::{Known, Tier, compile};
use turnkey_policy::{Attempt, AttemptKind, OpenAccess, Policy, RuleAction, WORKSPACE, decide};

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

/// Names behind a directory: one for each pattern of the rules on what is present that begins anywhere, and others.
const NAMES: &[&str] = &[
    "",
    "/.netrc",
    "/.ssh/id_rsa",
    "/.docker/config.json",
    "/.aws",
    "/.ssh/authorized_keys",
    "/.bashrc",
    "/.config/fish/config.fish",
    "/.config/autostart/x",
    "/.config/systemd/user/x",
    "/release_agent",
    "/.config",
    "/.ssh",
    "/file",
];

/// Places of the jail's own have answers of their own, by what is silent there, and the automaton has no more states for it.
#[test]
fn places_of_the_jails_own_are_answered_for_by_the_other_rules() {
    let memory_alone = in_an_empty_home();
    let mut workspace_too = in_an_empty_home();
    workspace_too.settle_lacking_workspace(false);
    let mut homeless = workspace_too.clone();
    homeless.settle_workspace_of_no_home(false, &homeless.homes(None));
    for policy in [memory_alone, workspace_too, homeless] {
        let rules = compile(&policy, Tier::Tracepoint).expect("it fits");
        let answers = rules.to(None);
        let places = ["/tmp", "/tmp/a", "/tmp/a/b", "/tmpx", "/tm", "/root"];
        let workspace = ["/workspace", "/workspace/tmp", "/workspace/a/b"];
        for (place, name) in places
            .iter()
            .chain(&workspace)
            .flat_map(|place| NAMES.iter().map(move |name| (place, name)))
        {
            let path = format!("{place}{name}");
            let file = Known::at(path.as_bytes());
            let mut asked = vec![
                (AttemptKind::Rename, &[][..], answers.rename(file)),
                (AttemptKind::Link, &[], answers.link(file)),
            ];
            for access in [&[OpenAccess::Read][..], &[OpenAccess::Write]] {
                asked.push((AttemptKind::Open, access, answers.open(file, access)));
            }
            for (kind, access, answer) in asked {
                let attempt = Attempt {
                    path: Some(path.as_bytes()),
                    access,
                    ..Attempt::new(kind)
                };
                let reference = decide(&policy.rules, &attempt);
                let answer = answer.map(|(rule, _)| rule);
                assert_eq!(answer, reference, "{kind:?} {access:?} {path}");
            }
        }
        let away = |path: &str| {
            let away = answers.away_below(path.as_bytes());
            away.map(|(rule, _)| policy.rules[rule].id.as_str())
        };
        for own in ["/tmp/a/.docker", "/tmp/a/.ssh"] {
            assert_eq!(away(own), None, "nothing of anybody is in it: {own}");
        }
        let lacking = policy.rules.iter().flat_map(|rule| &rule.lacking);
        let is_lacking = { lacking }.any(|place| place.path == Path::new(WORKSPACE));
        let expected = (!is_lacking).then_some("stored-credential");
        assert_eq!(away("/workspace/a/.docker"), expected);
        let mut later = policy
            .rules
            .iter()
            .filter(|rule| rule.is_on_writing_alone());
        let is_free = later.any(|rule| rule.at_home.is_some());
        let found = ["/workspace/.ssh", "/workspace/a/.ssh"].map(|path| away(path).is_some());
        assert_eq!(found, [true, !is_free], "of what runs later");
    }
}
