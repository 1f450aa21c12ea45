//! Rules and paths at random, which meet often.

use proptest::prelude::*;
use turnkey_policy::{Access, Action, Glob, On, Rule, Severity};

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

/// A rule for opening, executing or both, with up to three patterns.
pub fn any_rule() -> impl Strategy<Value = Rule> {
    let on = prop::sample::subsequence(vec![On::Open, On::Exec], 1..=2);
    let access = prop::sample::subsequence(vec![Access::Read, Access::Write], 1..=2);
    let action = prop::sample::select(vec![Action::Allow, Action::Log, Action::Kill]);
    (on, prop::collection::vec(pattern(), 0..4), access, action).prop_map(
        |(on, path, access, action)| Rule {
            on: on.into_iter().collect(),
            path,
            access: access.into_iter().collect(),
            id: "any".to_owned(),
            action,
            severity: Severity::Medium,
            technique: None,
            why: String::new(),
        },
    )
}

/// An absolute path, in any spelling.
pub fn path() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop::sample::select(b"//aabcx.*\xff".to_vec());
    prop::collection::vec(byte, 0..12).prop_map(|rest| [b"/".as_slice(), &rest].concat())
}
