//! Calls that have a kind of their own beside a wider one.

use super::*;

const OWN: [AttemptKind; 8] = [
    AttemptKind::Mkdir,
    AttemptKind::Rmdir,
    AttemptKind::Symlink,
    AttemptKind::Mknod,
    AttemptKind::Truncate,
    AttemptKind::Chown,
    AttemptKind::Utimens,
    AttemptKind::Xattr,
];

/// The kind itself, its neighbours and the wider ones, each with two actions.
#[test]
fn the_table_answers_to_each_as_the_reference_does() {
    let wider = [
        AttemptKind::Open,
        AttemptKind::Unlink,
        AttemptKind::Chmod,
        AttemptKind::Attribute,
    ];
    let mut answered = 0;
    for first in OWN.into_iter().chain(wider) {
        for second in OWN.into_iter().chain(wider) {
            let access = |on| match on {
                AttemptKind::Open => BOTH,
                _ => &[],
            };
            let one = rule("one", first, &["/x"], access(first), RuleAction::Log);
            let other = rule("other", second, &["/*"], access(second), RuleAction::Kill);
            let policy = policy(vec![one, other]);
            let rules = compile(&policy, Tier::Tracepoint).expect("they fit");
            for on in OWN {
                let attempt = Attempt {
                    path: Some(b"/x"),
                    ..Attempt::new(on)
                };
                let wanted = decide(&policy.rules, &attempt);
                let wanted = wanted.map(|rule| (rule, policy.rules[rule].action));
                assert_eq!(
                    rules.to(None).own(on, b"/x"),
                    wanted,
                    "{first} {second} {on}"
                );
                answered += usize::from(wanted.is_some());
            }
        }
    }
    assert!(answered > 100, "{answered} of them are decided on");
}

#[test]
fn a_rule_on_one_kind_is_about_no_other() {
    for on in OWN {
        let policy = policy(vec![rule("own", on, &["/x"], &[], RuleAction::Kill)]);
        let rules = compile(&policy, Tier::Tracepoint).expect("it fits");
        let answers = rules.to(None);
        for other in OWN {
            let wanted = (other == on).then_some((0, RuleAction::Kill));
            assert_eq!(answers.own(other, b"/x"), wanted, "{on} {other}");
        }
        assert_eq!(answers.open(Known::at(b"/x"), BOTH), None, "{on}");
        assert_eq!(answers.unlink(Known::at(b"/x")), None, "{on}");
        assert_eq!(answers.chmod(Known::at(b"/x")), None, "{on}");
    }
}

#[test]
fn a_signal_cannot_be_denied() {
    let policy = policy(vec![rule(
        "own",
        AttemptKind::Kill,
        &[],
        &[],
        RuleAction::Deny,
    )]);
    for tier in [Tier::Lsm, Tier::Tracepoint] {
        let error = compile(&policy, tier).expect_err("the filter lets it through");
        assert!(
            matches!(error, CompileError::AllowedSyscall { .. }),
            "{error:?}"
        );
    }
}
