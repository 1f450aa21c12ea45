//! Random policies and random attempts: the running kernel decides as the reference does.

use std::path::{Path, PathBuf};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use turnkey_facts::{Event, Kind};
use turnkey_monitor::compile;
use turnkey_policy::{
    ActorPaths, Attempt, AttemptKind, EnforcementMode, OpenAccess, Policy, RuleAction, SameFile,
    decide,
};

use super::harness::{
    ACTORS, file_id, policy, python_executed, python_in, the_system_is_read_only, tier,
};
use super::open::normalised;
use crate::random::actors::acting;
use crate::random::{FILES, any_rule, path};

const POLICIES: usize = 10;
/// Most policies that are drawn. The policies that a kernel takes depend on its tier, and so does how many of the first
/// ones kill: as many more are drawn as it takes.
const MOST: usize = 40;
const ATTEMPTS: usize = 60;

/// Acts that are tried, and their access: `open` with flags, an exec, or a look by a call.
#[derive(Clone, Copy, Debug)]
enum How {
    Open(&'static str, &'static [OpenAccess]),
    Exec,
    Look(&'static str),
}

/// Each creates nothing, so that what exists stays the same.
const WAYS: [How; 8] = [
    How::Open("os.O_RDONLY", &[OpenAccess::Read]),
    How::Open("os.O_WRONLY", &[OpenAccess::Write]),
    How::Open("os.O_RDWR", &[OpenAccess::Read, OpenAccess::Write]),
    How::Open(
        "os.O_RDONLY | os.O_TRUNC",
        &[OpenAccess::Read, OpenAccess::Write],
    ),
    How::Open("os.O_PATH", &[]),
    How::Exec,
    How::Look("os.lstat({})"),
    How::Look("os.access({}, os.F_OK)"),
];

struct Try {
    path: Vec<u8>,
    how: How,
}

impl Try {
    /// The deciding rule by the reference.
    fn expected(&self, policy: &Policy, root: &Path) -> Option<usize> {
        let written = std::str::from_utf8(&self.path).expect("letters alone");
        let path = normalised("/", written);
        let (on, access) = match self.how {
            How::Open(_, access) => (AttemptKind::Open, access),
            How::Exec => (AttemptKind::Exec, [].as_slice()),
            How::Look(_) => (AttemptKind::Stat, [].as_slice()),
        };
        // What cannot be executed is known by its name alone, as what is only looked at.
        let was = match self.how {
            How::Open(..) => same_files(policy, root, written),
            How::Exec | How::Look(_) => Vec::new(),
        };
        let was: Vec<&[u8]> = was.iter().map(Vec::as_slice).collect();
        let path = Some(path.as_bytes());
        decide(
            &policy.rules,
            &Attempt {
                path,
                access,
                was: &was,
                actor: Some(ActorPaths {
                    exe: python_executed().as_os_str().as_encoded_bytes(),
                    script: None,
                }),
                ..Attempt::new(on)
            },
        )
    }

    fn statement(&self) -> String {
        let bytes = format!("b\"{}\"", self.path.escape_ascii());
        match self.how {
            How::Open(flags, _) => format!("lambda: os.close(os.open({bytes}, {flags}))"),
            How::Exec => format!("lambda: os.execv({bytes}, ['x'])"),
            How::Look(call) => format!("lambda: {}", call.replace("{}", &bytes)),
        }
    }

    /// True when there is an event of it, when that rule decides.
    fn is_told(&self, policy: &Policy, rule: Option<usize>) -> bool {
        let is_against = rule.is_some_and(|rule| policy.rules[rule].action != RuleAction::Allow);
        !matches!(self.how, How::Look(_)) || is_against
    }
}

/// The path that a spelling leads to; none, when it goes through a file.
fn reached(root: &Path, written: &str) -> Option<PathBuf> {
    let mut path = root.to_owned();
    for name in written.split('/') {
        if !path.is_dir() {
            return None;
        }
        match name {
            "" | "." => {}
            ".." if path == root => {}
            ".." => drop(path.pop()),
            name => path.push(name),
        }
    }
    Some(path)
}

/// The paths in rules about files that lead to the same file as a spelling.
fn same_files(policy: &Policy, root: &Path, written: &str) -> Vec<Vec<u8>> {
    let inside = |path: &[u8]| {
        let path = std::str::from_utf8(path).expect("letters alone");
        file_id(&root.join(path.trim_start_matches('/')))
    };
    let rules = policy.rules.iter();
    let rules = rules.filter(|rule| rule.same_file != SameFile::No);
    let paths = rules.flat_map(|rule| rule.path.iter().filter_map(|glob| glob.spellings(64)));
    let file = reached(root, written).and_then(|path| file_id(&path));
    let is_same = |other: &Vec<u8>| file.is_some() && inside(other) == file;
    paths.flatten().filter(is_same).collect()
}

fn any<S: Strategy>(strategy: &S, runner: &mut TestRunner) -> S::Value {
    let tree = strategy.new_tree(runner);
    tree.expect("there is always a value").current()
}

/// A policy that this kernel takes.
fn any_policy(runner: &mut TestRunner) -> Policy {
    loop {
        let rules = (0..6).map(|_| any(&acting(any_rule(), ACTORS), runner));
        let policy = Policy {
            rules: rules.collect(),
            ..policy("")
        };
        if compile(&policy, tier()).is_ok() {
            return policy;
        }
    }
}

fn tries(runner: &mut TestRunner) -> Vec<Try> {
    let letters = path().prop_filter("is text", |path| path.is_ascii());
    let try_any = |number: usize| Try {
        path: any(&letters, runner),
        how: WAYS[number % WAYS.len()],
    };
    (0..ATTEMPTS).map(try_any).collect()
}

/// Makes a file. A path can be a file's own, and a directory of another one: the first that is made stays.
fn make(path: &Path, text: &str) {
    if let Some(parent) = path.parent()
        && std::fs::create_dir_all(parent).is_ok()
        && !path.exists()
    {
        let _ = std::fs::write(path, text);
    }
}

/// Makes files with several names, of which rules may mean any.
fn make_links(root: &Path) {
    for names in FILES {
        let [first, others @ ..] = names else {
            continue;
        };
        let inside = |name: &str| root.join(name.trim_start_matches('/'));
        make(&inside(first), "linked");
        for other in others {
            let _ = std::fs::hard_link(inside(first), inside(other));
        }
    }
}

/// Makes every other attempt in a root where some of the paths exist, counting on standard output.
fn program(tries: &[Try], root: &Path) -> String {
    make_links(root);
    for entry in tries.iter().step_by(3) {
        let written = std::str::from_utf8(&entry.path).expect("letters alone");
        let inside = root.join(normalised("/", written).trim_start_matches('/'));
        make(&inside, "there");
    }
    let statements: Vec<String> = tries.iter().map(Try::statement).collect();
    format!(
        "import os\nos.chroot({root:?})\nos.chdir('/')\nfor attempt in [{}]:\n try: attempt()\n except OSError: pass\n os.write(1, b'.')\nos._exit(0)",
        statements.join(", ")
    )
}

/// The rule that decided on each attempt, in their order; the last ones are those of the program.
fn decided(events: &[Event]) -> Vec<Option<usize>> {
    let attempts = events.iter().filter(|event| {
        let is_look = matches!(
            event.kind,
            Kind::Change {
                on: AttemptKind::Stat,
                ..
            }
        );
        is_look || matches!(event.kind, Kind::Open { .. } | Kind::ExecAttempt { .. })
    });
    let each = attempts.flat_map(|event| {
        let times = usize::try_from(1 + event.repeated).expect("few");
        std::iter::repeat_n(event.decision.map(|decision| decision.rule), times)
    });
    each.collect()
}

#[test]
fn the_kernel_decides_random_policies_as_the_reference_does() {
    the_system_is_read_only();
    let mut runner = TestRunner::deterministic();
    let (mut policies, mut ruled, mut killed, mut looks) = (0, 0, 0, 0);
    for number in 0..MOST {
        if number >= POLICIES && killed > 1 {
            break;
        }
        policies = number + 1;
        let root = tempfile::tempdir().expect("a directory can be made");
        let mut policy = any_policy(&mut runner);
        let tries = tries(&mut runner);
        let program = program(&tries, root.path());
        let expected: Vec<Option<usize>> = tries
            .iter()
            .map(|one| one.expected(&policy, root.path()))
            .collect();
        ruled += expected.iter().flatten().count();

        policy.enforcement.mode = EnforcementMode::Observe;
        let seen = python_in(root.path(), &policy, &program);
        seen.assert_lived();
        assert_eq!(seen.stdout().len(), ATTEMPTS);
        let told = decided(&seen.events);
        let all = tries.iter().zip(&expected);
        let loud: Vec<_> = all
            .filter(|(one, expected)| one.is_told(&policy, **expected))
            .collect();
        looks += loud
            .iter()
            .filter(|(one, _)| matches!(one.how, How::Look(_)))
            .count();
        // The interpreter opens its own files first.
        let (own, told) = told.split_at(told.len() - loud.len());
        for ((one, expected), told) in loud.iter().zip(told) {
            let path = one.path.escape_ascii();
            assert_eq!(
                told, *expected,
                "{:?} {path} in {:#?}",
                one.how, policy.rules
            );
        }

        // Enforced, it lives until the first that kills, and not longer.
        policy.enforcement.mode = EnforcementMode::Enforce;
        let kills = |rule: &Option<usize>| {
            rule.is_some_and(|rule| policy.rules[rule].action == RuleAction::Kill)
        };
        let until = match own.iter().any(kills) {
            true => Some(0),
            false => expected.iter().position(kills),
        };
        let seen = python_in(root.path(), &policy, &program);
        assert_eq!(seen.condemned, until.is_some(), "{}", seen.tell());
        assert_eq!(
            seen.stdout().len(),
            until.unwrap_or(ATTEMPTS),
            "{}",
            seen.tell()
        );
        killed += usize::from(until.is_some_and(|until| until > 0));
    }
    eprintln!(
        "{ruled} of {} attempts met a rule, {looks} by a look that was told; {killed} of {policies} policies killed",
        policies * ATTEMPTS
    );
    assert!(ruled > 100 && killed > 1 && looks > 10);
}
