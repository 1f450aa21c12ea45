//! Directories: the table's answer to one stands for all that may be in it.

use proptest::prelude::*;
use turnkey_monitor::{Answers, Known};
use turnkey_policy::{ActorPaths, AttemptKind, Glob, OpenAccess, Rule, RuleAction, SameFile};

use super::random::actors::acting;
use super::random::{any_rule, path};
use super::{compile_few, rule};

const WRITE: usize = 1;

/// Strength of the answers to reading, writing, executing and mapping a file, in this order.
fn uses(answers: Answers<'_>, path: &[u8]) -> [Option<RuleAction>; 4] {
    let file = Known::at(path);
    [
        answers.open(file, &[OpenAccess::Read]),
        answers.open(file, &[OpenAccess::Write]),
        answers.exec(file),
        answers.map(Some(file)),
    ]
    .map(action)
}

fn action(answer: Option<(usize, RuleAction)>) -> Option<RuleAction> {
    answer.map(|(_, action)| action)
}

/// A file in a directory.
fn in_directory(directory: &[u8], rest: &[u8]) -> Vec<u8> {
    [directory, b"/", rest].concat()
}

/// A directory; the root is the empty one.
fn directory() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => path().prop_filter("a directory's path has no slash at its end", |path| path.last() != Some(&b'/')),
        1 => Just(Vec::new()),
    ]
}

/// The rest of a path in a directory: not empty, as no path of a file ends in a slash.
fn rest() -> impl Strategy<Value = Vec<u8>> {
    path()
        .prop_map(|path| path[1..].to_vec())
        .prop_filter("names nothing", |rest| !rest.is_empty())
}

/// Every text of one to so many of the bytes that random patterns and paths are made of.
fn short_rests(length: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut last = vec![Vec::new()];
    for _ in 0..length {
        let longer = |rest: &Vec<u8>| {
            let rest = rest.clone();
            b"/abx.*~"
                .iter()
                .map(move |byte| [&rest[..], &[*byte]].concat())
        };
        last = last.iter().flat_map(longer).collect();
        all.extend_from_slice(&last);
    }
    all
}

/// Asserts that renaming one directory to another is answered as strongly as one file in it requires.
fn assert_covers(answers: Answers<'_>, [old, new]: [&[u8]; 2], rest: &[u8]) {
    let (before, after) = (
        uses(answers, &in_directory(old, rest)),
        uses(answers, &in_directory(new, rest)),
    );
    let away = [old, new].map(|one| action(answers.away_below(one)));
    let moved = away[0].max(action(answers.made_below(new)));
    let text = || String::from_utf8_lossy(rest).into_owned();
    for (number, (before, after)) in before.into_iter().zip(after).enumerate() {
        if before == after {
            continue;
        }
        assert_ne!(answers.inside(old), answers.inside(new), "{}", text());
        assert!(
            away[0].max(away[1]) >= before.max(after),
            "use {number} of {}: {before:?} {after:?}, {away:?}",
            text()
        );
        // A rule that would no longer be asked, and one about what is written there.
        if before > after || number == WRITE {
            assert!(
                moved >= before.max(after),
                "use {number} of {}: {before:?} {after:?}, {moved:?}",
                text()
            );
        }
    }
}

/// Patterns that no name with a `z` in it can match a part of.
fn pattern_without_z() -> impl Strategy<Value = Glob> {
    let below = prop::collection::vec(
        prop::sample::select(vec!["a", "b", "/", "**", "*", "/**/"]),
        0..4,
    );
    let anywhere = prop::collection::vec(prop::sample::select(vec!["a", "b", "/a", "/b"]), 1..4);
    prop_oneof![
        below.prop_map(|pieces| format!("/a{}", pieces.concat())),
        anywhere.prop_map(|pieces| format!("/**/{}", pieces.concat())),
    ]
    .prop_filter_map("is no pattern", |text| Glob::parse(&text).ok())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_in_a_directory_that_is_renamed_was_asked_about(
        rules in prop::collection::vec(acting(any_rule(), &["/a", "/b"]), 0..6),
        directories in prop::collection::vec(directory(), 2..5),
        rests in prop::collection::vec(rest(), 1..20),
        exe in prop::sample::select(vec![None, Some("/a"), Some("/c")]),
    ) {
        let compiled = compile_few(&rules)?;
        let actor = exe.map(|exe| ActorPaths { exe: exe.as_bytes(), script: None });
        let answers = compiled.to(actor);
        let rests: Vec<Vec<u8>> = rests.into_iter().chain(short_rests(2)).collect();
        for old in &directories {
            for new in &directories {
                for rest in &rests {
                    assert_covers(answers, [old, new], rest);
                }
            }
        }
    }

    #[test]
    fn of_directories_that_no_pattern_tells_from_others_nothing_is_said(
        rules in prop::collection::vec((any_rule(), prop::collection::vec(pattern_without_z(), 0..4)), 0..6),
        depths in prop::collection::vec(1..5_usize, 2..4),
    ) {
        let of = |(rule, path): (Rule, Vec<Glob>)| Rule { path, silent: None, spoken: None, same_file: SameFile::No, flags: [].into(), ..rule };
        let rules: Vec<Rule> = rules.into_iter().map(of).collect();
        let compiled = compile_few(&rules)?;
        let answers = compiled.to(None);
        let plain: Vec<Vec<u8>> = depths.iter().map(|depth| b"/z".repeat(*depth)).collect();
        for directory in &plain {
            prop_assert_eq!(answers.inside(directory), answers.inside(&plain[0]));
            prop_assert_eq!(answers.away_below(directory), None);
            prop_assert_eq!(answers.made_below(directory), None);
        }
    }

    #[test]
    fn directories_differ_by_how_strongly_they_are_answered_and_not_by_which_rule(
        rules in prop::collection::vec(any_rule(), 1..5),
        directories in prop::collection::vec(directory(), 2..6),
    ) {
        let pieces = |rule: &Rule| -> Vec<Rule> {
            let one = |path: &Glob| Rule { path: vec![path.clone()], ..rule.clone() };
            if rule.path.is_empty() { vec![rule.clone()] } else { rule.path.iter().map(one).collect() }
        };
        let in_pieces: Vec<Rule> = rules.iter().flat_map(pieces).collect();
        let (whole, in_pieces) = (compile_few(&rules)?, compile_few(&in_pieces)?);
        let (whole, in_pieces) = (whole.to(None), in_pieces.to(None));
        for one in &directories {
            let below = |answers: Answers<'_>| [answers.away_below(one), answers.made_below(one)].map(action);
            prop_assert_eq!(below(whole), below(in_pieces));
            for other in &directories {
                let alike = |answers: Answers<'_>| answers.inside(one) == answers.inside(other);
                prop_assert_eq!(alike(whole), alike(in_pieces));
            }
        }
    }
}

/// Another rule that is as strong was named in its place.
#[test]
fn the_rule_that_is_told_of_a_directory_is_one_about_what_is_in_it() {
    let kills = |id, path| {
        rule(
            id,
            AttemptKind::Open,
            &[path],
            &[OpenAccess::Read],
            RuleAction::Kill,
        )
    };
    let rules = [
        kills("elsewhere", "/dev/mem"),
        kills("inside", "/w/vault/*"),
    ];
    let compiled = compile_few(&rules).expect("they fit");
    let told = compiled.to(None).away_below(b"/w/vault");
    assert_eq!(told, Some((1, RuleAction::Kill)));
}
