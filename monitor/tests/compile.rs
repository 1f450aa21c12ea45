//! The kernel's table says what the policy's reference says.

#[path = "compile/actors.rs"]
mod actors;
#[path = "compile/below.rs"]
mod below;
#[path = "compile/home.rs"]
mod home;
#[path = "compile/names.rs"]
mod names;
#[path = "compile/own.rs"]
mod own;
mod random;

use std::net::Ipv4Addr;

use proptest::prelude::*;
use random::actors::acting;
use random::peers::{any_peer_rule, peer};
use random::{FILES, any_rule, path};
use turnkey_monitor::{AutomatonError, CompileError, FileId, Known, Rules, Tier, compile};
use turnkey_policy::{
    ActorPaths, Attempt, AttemptKind, EnforcementMode, FileFlag, Glob, OpenAccess, Overrides,
    Policy, Rule, RuleAction, SHIPPED, SameFile, Subnet, decide, decide_unknown,
};

fn policy(rules: Vec<Rule>) -> Policy {
    let mut policy = shipped("untrusted");
    policy.rules = rules;
    policy
}

fn shipped(name: &str) -> Policy {
    turnkey_policy::load(
        name,
        &|_| Err(String::from("no files")),
        &Overrides::default(),
    )
    .expect("a shipped profile is right")
}

fn rule(
    id: &str,
    on: AttemptKind,
    paths: &[&str],
    access: &[OpenAccess],
    action: RuleAction,
) -> Rule {
    Rule {
        path: paths
            .iter()
            .map(|path| Glob::parse(path).expect("a pattern"))
            .collect(),
        access: access.iter().copied().collect(),
        ..Rule::new(id, [on], action)
    }
}

const READ: &[OpenAccess] = &[OpenAccess::Read];
const BOTH: &[OpenAccess] = &[OpenAccess::Read, OpenAccess::Write];

/// A file as the reference knows it.
#[derive(Clone, Copy)]
struct File<'a> {
    path: &'a [u8],
    /// True when a directory has a name of it.
    named: bool,
    /// Index into [`FILES`].
    index: Option<usize>,
}

impl File<'_> {
    fn reference(
        &self,
        rules: &[Rule],
        actor: Option<ActorPaths<'_>>,
        on: AttemptKind,
        access: &[OpenAccess],
    ) -> Option<(usize, RuleAction)> {
        let was: Vec<&[u8]> = self.index.map_or(vec![], |index| {
            FILES[index].iter().map(|path| path.as_bytes()).collect()
        });
        let flag = match (self.path.starts_with(b"memfd:"), self.named) {
            (true, _) => Some(FileFlag::Memfd),
            (false, false) => Some(FileFlag::Deleted),
            (false, true) => None,
        };
        let attempt = Attempt {
            path: Some(self.path),
            access,
            flag,
            was: &was,
            actor,
            ..Attempt::new(on)
        };
        decide(rules, &attempt).map(|index| (index, rules[index].action))
    }

    fn known(&self) -> Known<'_> {
        Known {
            path: self.path,
            nameless: !self.named,
            id: self.index.map(id),
        }
    }
}

/// Sorted otherwise than their indexes, and with equal numbers on other devices.
fn id(index: usize) -> FileId {
    [
        FileId::new((8, 1), 7),
        FileId::new((0, 40), 1 << 63 | 7),
        FileId::new((0, 40), 7),
    ][index]
}

/// Few rules fit, unless too many of them name programs of their own, as the generator has it now and then.
fn compile_few(rules: &[Rule]) -> Result<Rules, TestCaseError> {
    match compile(&policy(rules.to_vec()), Tier::Lsm) {
        Err(CompileError::TooManyActors) => Err(TestCaseError::reject("too many kinds of actors")),
        compiled => Ok(compiled.expect("few rules fit")),
    }
}

/// The rules, told where the files are.
fn whole(rules: &[Rule]) -> Result<Rules, TestCaseError> {
    let mut compiled = compile_few(rules)?;
    let found = compiled.watched_paths().iter();
    let found: Vec<_> = found
        .map(|watched| {
            let is_there =
                |files: &&[&str]| files.iter().any(|path| path.as_bytes() == watched.path);
            FILES.iter().position(is_there).map(id)
        })
        .collect();
    compiled.know(&found);
    Ok(compiled)
}

#[track_caller]
fn assert_agrees(rules: &Rules, of: &[Rule], actor: Option<ActorPaths<'_>>, file: File<'_>) {
    let answers = rules.to(actor);
    for access in [READ, &[OpenAccess::Write], BOTH, &[]] {
        assert_eq!(
            answers.open(file.known(), access),
            file.reference(of, actor, AttemptKind::Open, access),
            "{access:?} {:?} {actor:?}",
            file.known()
        );
    }
    assert_eq!(
        answers.exec(file.known()),
        file.reference(of, actor, AttemptKind::Exec, &[]),
        "exec {:?} {actor:?}",
        file.known()
    );
    assert_eq!(
        answers.map(Some(file.known())),
        file.reference(of, actor, AttemptKind::Map, &[]),
        "map {:?} {actor:?}",
        file.known()
    );
    let on_name = [
        (AttemptKind::Link, answers.link(file.known())),
        (AttemptKind::Rename, answers.rename(file.known())),
        (AttemptKind::Unlink, answers.unlink(file.known())),
        (AttemptKind::Chmod, answers.chmod(file.known())),
    ];
    for (on, answer) in on_name {
        assert_eq!(
            answer,
            file.reference(of, actor, on, &[]),
            "{on:?} {:?} {actor:?}",
            file.known()
        );
    }
    // Nobody knows which file a look is about.
    let attempt = Attempt {
        path: Some(file.path),
        actor,
        ..Attempt::new(AttemptKind::Stat)
    };
    let expected = decide(of, &attempt).map(|index| (index, of[index].action));
    assert_eq!(
        answers.look(file.path),
        expected,
        "{:?} {actor:?}",
        file.path
    );
}

#[track_caller]
fn assert_agrees_without_a_path(rules: &Rules, of: &[Rule], actor: Option<ActorPaths<'_>>) {
    let attempt = Attempt {
        actor,
        ..Attempt::new(AttemptKind::Map)
    };
    let expected = decide(of, &attempt).map(|index| (index, of[index].action));
    assert_eq!(rules.to(actor).map(None), expected);
}

fn any_file() -> impl Strategy<Value = (Vec<u8>, bool, Option<usize>)> {
    let memory = path().prop_map(|path| [b"memfd:".as_slice(), &path[1..]].concat());
    let path = prop_oneof![4 => path(), 1 => memory];
    (path, any::<bool>(), prop::option::of(0..FILES.len()))
}

/// Patterns of programs and scripts that meet [`ACTORS`] often.
const PATTERNS: &[&str] = &[
    "/a", "/b", "/a/*", "/{a,b}", "/a/b", "/**", "**/b", "memfd:**",
];

/// Paths of programs and scripts.
const ACTORS: [&str; 7] = ["/a", "/b", "/a/b", "/a/c", "/c", "/c/d/b", "memfd:b"];

/// The paths of a program and of a script; `None` when the actor is unknown.
type Acting = Option<(&'static str, Option<&'static str>)>;

fn actor() -> impl Strategy<Value = Acting> {
    let path = || prop::sample::select(&ACTORS[..]);
    prop::option::weighted(0.8, (path(), prop::option::of(path())))
}

fn named(known: Acting) -> Option<ActorPaths<'static>> {
    known.map(|(exe, script)| ActorPaths {
        exe: exe.as_bytes(),
        script: script.map(str::as_bytes),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_table_says_what_the_reference_says(
        rules in prop::collection::vec(acting(any_rule(), PATTERNS), 0..6),
        files in prop::collection::vec((any_file(), actor()), 1..20),
        somebody in actor(),
    ) {
        let compiled = whole(&rules)?;
        let somebody = named(somebody);
        assert_agrees_without_a_path(&compiled, &rules, somebody);
        for (on, access) in [(AttemptKind::Exec, &[][..]), (AttemptKind::Open, READ), (AttemptKind::Open, BOTH)] {
            let expected = decide_unknown(&rules, on, access, somebody);
            let expected = expected.map(|index| (index, rules[index].action));
            prop_assert_eq!(compiled.to(somebody).unknown(on, access), expected);
        }
        for ((path, has_name, index), actor) in &files {
            let file = File { path, named: *has_name, index: *index };
            assert_agrees(&compiled, &rules, named(*actor), file);
        }
    }

    #[test]
    fn the_list_of_addresses_says_what_the_reference_says(
        rules in prop::collection::vec(acting(any_peer_rule(), PATTERNS), 0..8),
        peers in prop::collection::vec((peer(), any::<bool>(), actor()), 1..40),
    ) {
        let compiled = compile_few(&rules)?;
        for (peer, to_itself, actor) in peers {
            let actor = named(actor);
            for on in [AttemptKind::Connect, AttemptKind::Bind, AttemptKind::Send] {
                let attempt = Attempt { address: Some(peer), to_itself, actor, ..Attempt::new(on) };
                let expected = decide(&rules, &attempt).map(|index| (index, rules[index].action));
                prop_assert_eq!(compiled.to(actor).peer(on, peer, to_itself), expected);
            }
        }
    }
}

#[test]
fn more_addresses_than_fit_are_refused_whole_and_those_that_never_decide_are_none() {
    let some = |count: u32| Rule {
        address: (0..count)
            .map(|number| Subnet::one(Ipv4Addr::from_bits(number).into()))
            .collect(),
        ..Rule::new("many", [AttemptKind::Connect], RuleAction::Kill)
    };
    let all = Rule::new("all", [AttemptKind::Connect], RuleAction::Deny);
    let rules = compile(&policy(vec![all.clone(), some(511)]), Tier::Tracepoint).expect("512 fit");
    let connect = |last: u32| {
        rules.to(None).peer(
            AttemptKind::Connect,
            (Ipv4Addr::from_bits(last), 1).into(),
            false,
        )
    };
    assert_eq!(connect(510), Some((1, RuleAction::Kill)));
    assert_eq!(connect(511), Some((0, RuleAction::Deny)));
    // Behind a rule about everything, no other of its kind is heard.
    let again = Rule::new("again", [AttemptKind::Connect], RuleAction::Log);
    compile(&policy(vec![again, all, some(511)]), Tier::Tracepoint).expect("512 decide");
    let error = compile(&policy(vec![some(513)]), Tier::Tracepoint).expect_err("513 do not");
    assert_eq!(error, CompileError::TooManyPeers { count: 513 });
}

#[test]
fn every_shipped_profile_fits_and_says_what_it_says() {
    let paths: &[&[u8]] = &[
        b"/etc/shadow",
        b"/etc/passwd",
        b"/etc/passwd-",
        b"/workspace/.ssh/id_ed25519",
        b"/root/.aws/credentials",
        b"/usr/lib/python3/os.py",
        b"/usr/bin/cat",
        b"memfd:payload",
        b"/dev/shm/x",
        b"/",
        b"",
    ];
    for (name, _) in SHIPPED.iter().map(|profile| (profile.0, ())) {
        // One of them only observes; what its rules say is said of them as written.
        let policy = shipped(name).with_mode(EnforcementMode::Enforce);
        let rules =
            compile(&policy, Tier::Tracepoint).unwrap_or_else(|error| panic!("{name}: {error}"));
        for path in paths {
            for named in [true, false] {
                let index = None;
                assert_agrees(&rules, &policy.rules, None, File { path, named, index });
            }
        }
    }
}

#[test]
fn observing_turns_every_action_but_allow_into_log() {
    let rules = vec![
        rule("kill", AttemptKind::Open, &["/k"], READ, RuleAction::Kill),
        rule("allow", AttemptKind::Open, &["/a"], READ, RuleAction::Allow),
    ];
    let mut policy = policy(rules);
    policy.enforcement.mode = EnforcementMode::Observe;
    let rules = compile(&policy, Tier::Tracepoint).expect("it fits");
    assert_eq!(
        rules.to(None).open(Known::at(b"/k"), READ),
        Some((0, RuleAction::Log))
    );
    assert_eq!(
        rules.to(None).open(Known::at(b"/a"), READ),
        Some((1, RuleAction::Allow))
    );
    assert_eq!(rules.to(None).open(Known::at(b"/x"), READ), None);
}

#[test]
fn where_the_kernel_asks_first_a_file_can_be_denied() {
    for on in [AttemptKind::Open, AttemptKind::Exec] {
        let policy = policy(vec![rule("no-way", on, &["/x"], READ, RuleAction::Deny)]);
        compile(&policy, Tier::Lsm).expect("the hooks refuse it");
    }
}

#[test]
fn a_file_cannot_be_denied_and_the_error_says_what_to_do() {
    for (on, word) in [(AttemptKind::Open, "open"), (AttemptKind::Exec, "exec")] {
        let policy = policy(vec![rule("no-way", on, &["/x"], READ, RuleAction::Deny)]);
        let error = compile(&policy, Tier::Tracepoint).expect_err("this tier cannot");
        assert_eq!(
            error,
            CompileError::CannotDeny {
                rule: "no-way".into(),
                on: word
            }
        );
        let text = error.to_string();
        assert!(
            text.contains("no-way") && text.contains("action = \"kill\""),
            "{text}"
        );
    }
}

#[test]
fn a_look_cannot_be_denied_anywhere() {
    for tier in [Tier::Lsm, Tier::Tracepoint] {
        let policy = policy(vec![rule(
            "no-way",
            AttemptKind::Stat,
            &["/x"],
            &[],
            RuleAction::Deny,
        )]);
        let error = compile(&policy, tier).expect_err("it is over when it is asked about");
        let rule = "no-way".to_owned();
        assert_eq!(error, CompileError::CannotDenyLooks { rule });
    }
}

#[test]
fn a_denied_syscall_must_be_one_that_the_filter_refuses() {
    let mut policy = policy(vec![rule(
        "no-mount",
        AttemptKind::Mount,
        &[],
        &[],
        RuleAction::Deny,
    )]);
    compile(&policy, Tier::Tracepoint).expect("the filter refuses mount");
    policy.syscalls.allow.insert("umount2");
    let error = compile(&policy, Tier::Tracepoint).expect_err("the filter lets it pass");
    assert_eq!(
        error,
        CompileError::AllowedSyscall {
            rule: "no-mount".into(),
            syscall: "umount2"
        }
    );
}

#[test]
fn too_many_rules_are_refused_whole() {
    let rules = (0..1024)
        .map(|_| rule("r", AttemptKind::Open, &["/x"], READ, RuleAction::Log))
        .collect();
    assert_eq!(
        compile(&policy(rules), Tier::Tracepoint).map(|_| ()),
        Err(CompileError::TooManyRules { count: 1024 })
    );
}

#[test]
fn patterns_that_need_too_many_states_are_refused_whole() {
    // "an `a`, then exactly 20 more bytes" must remember which of the last 20 bytes were `a`.
    let pattern = format!("/**a{}", "?".repeat(20));
    let rules = vec![rule(
        "r",
        AttemptKind::Open,
        &[&pattern],
        READ,
        RuleAction::Log,
    )];
    let error = compile(&policy(rules), Tier::Tracepoint).expect_err("2^20 states do not fit");
    assert!(matches!(error, CompileError::Patterns(_)), "{error}");
}

#[test]
fn as_many_rules_as_fit_all_count() {
    let paths: Vec<String> = (0..1023).map(|index| format!("/{index}")).collect();
    let rules = paths
        .iter()
        .map(|path| rule("r", AttemptKind::Open, &[path], READ, RuleAction::Kill))
        .collect();
    let rules = compile(&policy(rules), Tier::Tracepoint).expect("1023 rules fit");
    assert_eq!(
        rules.to(None).open(Known::at(b"/0"), READ),
        Some((0, RuleAction::Kill))
    );
    assert_eq!(
        rules.to(None).open(Known::at(b"/1022"), READ),
        Some((1022, RuleAction::Kill))
    );
    assert_eq!(rules.to(None).open(Known::at(b"/1023"), READ), None);
}

/// A rule that means a file by whatever name.
fn same_file(on: AttemptKind, path: &str) -> Rule {
    Rule {
        same_file: SameFile::Required,
        ..rule("same", on, &[path], READ, RuleAction::Kill)
    }
}

#[test]
fn more_files_than_fit_are_refused_whole() {
    let rules = |count: usize| {
        let rules = (0..count).map(|number| same_file(AttemptKind::Open, &format!("/{number}")));
        policy(rules.collect())
    };
    let mut most = compile(&rules(127), Tier::Tracepoint).expect("127 fit");
    let found: Vec<_> = (0..127)
        .map(|inode| Some(FileId::new((8, 1), inode)))
        .collect();
    most.know(&found);
    for inode in 0..127 {
        let file = Known {
            id: Some(FileId::new((8, 1), inode)),
            ..Known::at(b"/other")
        };
        assert!(most.to(None).open(file, READ).is_some(), "{inode}");
    }
    assert_eq!(
        compile(&rules(128), Tier::Tracepoint).map(|_| ()),
        Err(CompileError::TooManyFiles)
    );
    let spelled = same_file(AttemptKind::Open, &"/{a,b,c,d}".repeat(40));
    assert_eq!(
        compile(&policy(vec![spelled]), Tier::Tracepoint).map(|_| ()),
        Err(CompileError::TooManyFiles)
    );
}

#[test]
fn a_file_that_nobody_can_know_is_refused_and_the_error_says_what_to_do() {
    for on in [
        AttemptKind::Link,
        AttemptKind::Rename,
        AttemptKind::Unlink,
        AttemptKind::Chmod,
    ] {
        let policy = policy(vec![same_file(on, "/x")]);
        compile(&policy, Tier::Lsm).expect("the hooks know it");
        let error = compile(&policy, Tier::Tracepoint).expect_err("this tier does not");
        let text = error.to_string();
        assert!(
            text.contains("`same`") && text.contains(on.name()),
            "{text}"
        );
    }
}
