//! Patterns and paths, line by line: the table of the kernel says what the reference says.
//!
//! A line that begins with `/` is a path, and so is every pattern. Any other is a rule: its first
//! byte stands for action, access and kind, the rest for its patterns, with a `|` between them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use turnkey_fuzz::{BARE, assert_agrees};
use turnkey_monitor::{Tier, compile};
use turnkey_policy::{AttemptKind, Glob, OpenAccess, Policy, Rule, RuleAction};

fuzz_target!(|text: &[u8]| {
    let lines = || text.split(|byte| *byte == b'\n');
    let rules: Vec<Rule> = lines().filter_map(rule).collect();
    let policy = Policy {
        rules: rules.clone(),
        ..BARE.clone()
    };
    let Ok(table) = compile(&policy, Tier::Lsm) else {
        return;
    };
    for path in lines().filter(|line| line.first() == Some(&b'/')) {
        assert_agrees(&table, &rules, path);
    }
    for pattern in rules.iter().flat_map(|rule| &rule.path) {
        assert_agrees(&table, &rules, pattern.as_str().as_bytes());
    }
});

fn rule(line: &[u8]) -> Option<Rule> {
    let (first, patterns) = line.split_first().filter(|(first, _)| **first != b'/')?;
    let patterns = std::str::from_utf8(patterns).ok()?;
    let path: Vec<Glob> = patterns
        .split('|')
        .filter_map(|pattern| Glob::parse(pattern).ok())
        .collect();
    let some = |bit: u8| first & bit != 0;
    let mut on = vec![AttemptKind::Open];
    if some(1) {
        on.push(AttemptKind::Exec);
    }
    let access = match (some(2), some(4)) {
        (true, true) => vec![OpenAccess::Read, OpenAccess::Write],
        (true, false) => vec![OpenAccess::Read],
        _ => vec![OpenAccess::Write],
    };
    let action = match first >> 3 & 3 {
        0 => RuleAction::Allow,
        1 => RuleAction::Log,
        2 => RuleAction::Deny,
        _ => RuleAction::Kill,
    };
    Some(Rule {
        path,
        access: access.into_iter().collect(),
        ..Rule::new("any", on, action)
    })
}
