//! The lints say of random rules what the reference does: a rule is said never to decide
//! exactly when it decides on none of the paths that its patterns can tell apart.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use proptest::prelude::*;
use turnkey_policy::lint::{CheckedProfile, Lint};
use turnkey_policy::{ActorPaths, Attempt, AttemptKind, FileFlag, OpenAccess, check, decide};

const PATTERNS: &[&str] = &[
    "/a/*", "/a/**", "/a/?", "/a/b", "**/b", "/a/*/**", "/a/{b,?}", "memfd:*", "memfd:**", "**",
    "/**",
];

/// Every way in which a path can meet some of the patterns and not the others.
const PATHS: &[&str] = &[
    "/",
    "/a",
    "/b",
    "/c",
    "/a/b",
    "/a/c",
    "/a/cc",
    "/a/b/b",
    "/a/b/c",
    "/a/c/b",
    "/a/c/c",
    "/a/cc/c",
    "/a/cc/b",
    "/a/c/c/b",
    "/a/c/c/c",
    "/c/b",
    "/c/c",
    "memfd:",
    "memfd:x",
    "memfd:x/y",
    "memfd:x/b",
    "pipe:[1]",
];

#[derive(Clone, Debug)]
struct DrawnRules {
    patterns: Vec<&'static str>,
    action: &'static str,
    flags: Vec<&'static str>,
    access: &'static str,
    exe: Option<&'static str>,
}

/// Programs, and patterns of them.
const PROGRAMS: [&str; 3] = ["/p/a", "/p/b", "/c"];

fn drawn() -> impl Strategy<Value = DrawnRules> {
    let patterns = prop::collection::vec(prop::sample::select(PATTERNS), 0..3);
    let action = prop::sample::select(&["allow", "log", "deny", "kill"][..]);
    let flags = prop::sample::subsequence(&["memfd", "deleted"][..], 0..=2);
    let access = prop::sample::select(&["read", "write"][..]);
    let exe = prop::sample::select(&["/p/a", "/p/b", "/p/*", "/**"][..]);
    let exe = prop::option::weighted(0.2, exe);
    (patterns, action, flags, access, exe).prop_map(|(patterns, action, flags, access, exe)| {
        DrawnRules {
            patterns,
            action,
            flags,
            access,
            exe,
        }
    })
}

fn checked(rules: &[DrawnRules]) -> CheckedProfile {
    let mut text =
        "schema = \"turnkey.profile/v1\"\nname = \"x\"\n[syscalls]\nallow = \"@basic\"\n"
            .to_owned();
    for (index, rule) in rules.iter().enumerate() {
        let DrawnRules {
            patterns,
            action,
            flags,
            access,
            exe,
        } = rule;
        let exe = exe.map_or(String::new(), |exe| format!("exe = {exe:?}\n"));
        let list = |key: &str, words: &[&str]| match words {
            [] => String::new(),
            words => format!("{key} = {words:?}\n"),
        };
        let (path, flags) = (list("path", patterns), list("flags", flags));
        let _ = writeln!(
            text,
            "[[rule]]\nid = \"r{index}\"\non = \"open\"\naccess = \"{access}\"\naction = \"{action}\"\nwhy = \"x\"\n{path}{flags}{exe}"
        );
    }
    check(
        "./x.toml",
        &|_| Ok(text.clone()),
        &|_| Vec::new(),
        time::Date::MIN,
    )
    .unwrap_or_else(|error| panic!("{text}{:?}", error.problems()))
}

/// The rules that decide on some attempt.
fn deciding(checked: &CheckedProfile) -> BTreeSet<usize> {
    let rules = &checked.policy.rules;
    let mut deciding = BTreeSet::new();
    let accesses = [OpenAccess::Read, OpenAccess::Write].into_iter();
    let ways = accesses.flat_map(|access| PROGRAMS.map(|exe| (access, exe)));
    for (access, exe) in ways {
        for path in PATHS.iter().map(|path| Some(path.as_bytes())).chain([None]) {
            let is_memory = path.is_some_and(|path| path.starts_with(b"memfd:"));
            let flags = match (path, is_memory) {
                (None, _) => vec![None, Some(FileFlag::Memfd), Some(FileFlag::Deleted)],
                (_, true) => vec![Some(FileFlag::Memfd)],
                (_, false) => vec![None, Some(FileFlag::Deleted)],
            };
            deciding.extend(flags.into_iter().filter_map(|flag| {
                let access = &[access];
                decide(
                    rules,
                    &Attempt {
                        path,
                        access,
                        flag,
                        actor: Some(ActorPaths {
                            exe: exe.as_bytes(),
                            script: None,
                        }),
                        ..Attempt::new(AttemptKind::Open)
                    },
                )
            }));
        }
    }
    deciding
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_rule_is_said_never_to_decide_exactly_when_it_does_not(
        rules in prop::collection::vec(drawn(), 1..6)
    ) {
        let checked = checked(&rules);
        let deciding = deciding(&checked);
        let dead = |index: &usize| checked.findings.iter().any(|finding| {
            matches!(finding.lint(), Lint::NeverMatches | Lint::Shadowed)
                && finding.to_string().starts_with(&format!("the rule \"r{index}\" "))
        });
        let said: BTreeSet<usize> = (0..rules.len()).filter(dead).collect();
        let silent: BTreeSet<usize> = (0..rules.len()).filter(|rule| !deciding.contains(rule)).collect();
        // Lists of programs are compared as they are written: what several rules leave nobody is not said.
        if rules.iter().all(|rule| rule.exe.is_none()) {
            prop_assert_eq!(said, silent);
        } else {
            prop_assert!(said.is_subset(&silent), "{:?} are said, {:?} are silent", said, silent);
        }
    }
}
