//! Rules that tell many actors apart.

use super::*;

/// A rule for each of so many programs, and as many for scripts.
fn by_actor(programs: usize, scripts: usize) -> Vec<Rule> {
    let named = |number: usize| vec![Glob::parse(&format!("/{number}")).expect("a pattern")];
    let of_program = (0..programs).map(|number| Rule {
        exe: named(number),
        ..rule("exe", AttemptKind::Open, &["/x"], READ, RuleAction::Kill)
    });
    let of_script = (0..scripts).map(|number| Rule {
        script: named(number),
        ..rule("script", AttemptKind::Open, &["/x"], READ, RuleAction::Kill)
    });
    of_program.chain(of_script).collect()
}

#[test]
fn more_kinds_of_actors_than_fit_are_refused_whole() {
    let fits = |programs, scripts| {
        let rules = policy(by_actor(programs, scripts));
        compile(&rules, Tier::Tracepoint).map(|_| ())
    };
    // One of 31 roles is that of all others.
    assert_eq!(fits(30, 0), Ok(()));
    assert_eq!(fits(31, 0), Err(CompileError::TooManyActors));
    assert_eq!(fits(0, 30), Ok(()));
    assert_eq!(fits(0, 31), Err(CompileError::TooManyActors));
    assert_eq!(fits(4, 5), Ok(()));
    assert_eq!(fits(5, 5), Err(CompileError::TooManyActors));
}

#[test]
fn the_thirtieth_actor_is_told_from_the_others() {
    let rules = compile(&policy(by_actor(30, 0)), Tier::Tracepoint).expect("they fit");
    let opens = |exe: &str| {
        let exe = exe.as_bytes();
        let actor = ActorPaths { exe, script: None };
        rules.to(Some(actor)).open(Known::at(b"/x"), READ)
    };
    assert_eq!(opens("/0"), Some((0, RuleAction::Kill)));
    assert_eq!(opens("/29"), Some((29, RuleAction::Kill)));
    assert_eq!(opens("/30"), None);
    assert_eq!(opens("/2"), Some((2, RuleAction::Kill)));
    assert_eq!(
        rules.to(None).open(Known::at(b"/x"), READ),
        Some((0, RuleAction::Kill))
    );
}

#[test]
fn answers_in_more_ways_than_fit_are_refused_whole() {
    // Each path has a rule of its own, and each of them an answer for each role.
    let mut rules: Vec<Rule> = (0..200)
        .map(|number| {
            rule(
                "any",
                AttemptKind::Open,
                &[&format!("/{number}")],
                READ,
                RuleAction::Kill,
            )
        })
        .collect();
    assert!(compile(&policy(rules.clone()), Tier::Tracepoint).is_ok());
    rules.extend(by_actor(30, 0));
    let error = compile(&policy(rules), Tier::Tracepoint).map(|_| ());
    assert!(
        matches!(
            error,
            Err(CompileError::Patterns(AutomatonError::Rows { .. }))
        ),
        "{error:?}"
    );
}
