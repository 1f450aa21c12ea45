//! Random rules that name actors.

use proptest::prelude::*;
use turnkey_policy::{Glob, Rule, SameFile};

fn list(patterns: &'static [&str]) -> impl Strategy<Value = Vec<Glob>> {
    let pattern = prop::sample::select(patterns);
    let pattern = pattern.prop_map(|text| Glob::parse(text).expect("a pattern"));
    prop::collection::vec(pattern, 1..3)
}

/// Rules of which some name programs, scripts or both, by these patterns.
pub fn acting(
    rule: impl Strategy<Value = Rule>,
    patterns: &'static [&str],
) -> impl Strategy<Value = Rule> {
    let lists = (list(patterns), list(patterns), 0..6_u8);
    (rule, lists).prop_map(|(rule, (exe, script, which))| {
        if rule.same_file != SameFile::No {
            return rule;
        }
        let of = |list: Vec<Glob>, asks: bool| if asks { list } else { Vec::new() };
        Rule {
            exe: of(exe, which < 3),
            script: of(script, which == 2 || which == 3),
            ..rule
        }
    })
}
