//! Rules and paths at random, which meet often.

pub mod actors;
pub mod peers;

use proptest::prelude::*;
use turnkey_policy::{AttemptKind, FileFlag, Glob, OpenAccess, Rule, RuleAction, SameFile};

/// Few letters, so that patterns and paths meet often.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "/",
        "/",
        "a",
        "b",
        "ab",
        ".",
        "*",
        "**",
        "?",
        "/**/",
        "{a,b}",
        "{a*,/b,}",
        "\\*",
        "x{a,b{a,c}}",
    ])
}

fn pattern() -> impl Strategy<Value = Glob> {
    prop::collection::vec(piece(), 1..7).prop_filter_map("is no pattern", |pieces| {
        Glob::parse(&format!("/{}", pieces.concat())).ok()
    })
}

/// Files that rules can mean, each under a few names; short ones, which random paths meet.
pub const FILES: [&[&str]; 3] = [&["/a", "/b"], &["/a/b"], &["/ab", "/a/a", "/x"]];

/// A pattern that names single files.
fn exact() -> impl Strategy<Value = Glob> {
    let names = FILES.concat().into_iter().chain(["/{a,ab}", "/nowhere"]);
    prop::sample::select(names.collect::<Vec<_>>())
        .prop_map(|text| Glob::parse(text).expect("a pattern"))
}

/// Kinds of attempt that random rules are about.
const KINDS: [AttemptKind; 8] = [
    AttemptKind::Open,
    AttemptKind::Exec,
    AttemptKind::Map,
    AttemptKind::Stat,
    AttemptKind::Link,
    AttemptKind::Rename,
    AttemptKind::Unlink,
    AttemptKind::Chmod,
];

/// A rule for some kinds of attempts on files, the first of them more often, with up to three patterns; some speak of
/// files by flags or by themselves.
pub fn any_rule() -> impl Strategy<Value = Rule> {
    let on = prop_oneof![
        4 => prop::sample::subsequence(KINDS[..4].to_vec(), 1..=4),
        1 => prop::sample::subsequence(KINDS.to_vec(), 1..=4),
    ];
    let access = prop::sample::subsequence(vec![OpenAccess::Read, OpenAccess::Write], 1..=2);
    let action = prop::sample::select(vec![RuleAction::Allow, RuleAction::Log, RuleAction::Kill]);
    let flags = prop::sample::subsequence(FileFlag::ALL, 0..=3);
    let path = prop::collection::vec(pattern(), 0..4);
    let files = prop::collection::vec(exact(), 1..3);
    let more = (
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.3),
        prop::option::of(pattern()),
        prop::option::of(pattern()),
    );
    (on, path, access, action, flags, files, more).prop_map(
        |(on, path, access, action, flags, files, (flagged, by_file, yields, silent, spoken))| {
            let by_file =
                by_file && action != RuleAction::Allow && !on.contains(&AttemptKind::Stat);
            let has_flags = flagged && !by_file && on.iter().all(|on| on.has_flags());
            let path = if by_file { files } else { path };
            // No pattern matches a path that is not known.
            let can_be = |flag: &FileFlag| *flag != FileFlag::Truncated || path.is_empty();
            let flags = flags.into_iter().filter(|flag| has_flags && can_be(flag));
            let flags = flags.collect();
            Rule {
                on: on.into_iter().collect(),
                path,
                access: access.into_iter().collect(),
                flags,
                same_file: match by_file {
                    true => SameFile::Optional,
                    false => SameFile::No,
                },
                yields,
                // A rule that means files by themselves means them wherever they are.
                silent: silent.filter(|_| !by_file),
                spoken,
                ..Rule::new("any", [], action)
            }
        },
    )
}

/// An absolute path, in any spelling.
pub fn path() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop::sample::select(b"//aabcx.*\xff".to_vec());
    prop::collection::vec(byte, 0..12).prop_map(|rest| [b"/".as_slice(), &rest].concat())
}
