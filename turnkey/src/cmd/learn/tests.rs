//! From what was seen to a profile, without a kernel.

use std::collections::BTreeSet;

use proptest::prelude::*;
use turnkey_policy::RuleAction;

use super::contacts::{ContactKey, ContactKind};
use super::seen::{FileUse, FileWant, UsedBy};
use super::*;
use turnkey_supervisor::files;

fn below() -> BaseProfile {
    let load = turnkey_policy::load("untrusted", &files::read_text, &Overrides::default());
    BaseProfile {
        policy: load.expect("a shipped profile is right"),
        added_to: None,
        base: "untrusted".to_owned(),
    }
}

fn by(program: &str, count: u64) -> UsedBy {
    UsedBy {
        programs: [(program.to_owned(), count)].into(),
        succeeded: true,
        ..UsedBy::default()
    }
}

fn place() -> ProfileTarget {
    ProfileTarget {
        path: None,
        overwrite: false,
        out: None,
    }
}

fn text(seen: &SeenUses, calls: &[&'static str], level: u8) -> String {
    let below = below();
    let calls = calls.iter().copied().collect();
    let sources = DraftSources {
        seen,
        policy: &below.policy,
        calls: &calls,
        around: &ContactFacts::default(),
        is_added_to: false,
        installations: &[],
    };
    let draft = draft::draft(&sources, level);
    let measured = MeasuredUsage::default();
    let flags = Overrides::default();
    write(
        &below,
        &sources,
        &measured,
        "cat data",
        &flags,
        &place(),
        &draft,
    )
    .expect("it can be written")
}

fn seen(uses: &[(FileWant, &[u8])]) -> SeenUses {
    let mut seen = SeenUses::default();
    for (want, path) in uses {
        let wanted = FileUse {
            want: *want,
            path: path.to_vec(),
        };
        seen.uses.entry(wanted).or_default().join(&by("cat", 1));
    }
    seen
}

#[test]
fn a_learned_profile() {
    let mut seen = seen(&[
        (FileWant::Read, b"/etc/ld.so.cache"),
        (FileWant::Read, b"/etc/shadow"),
        (FileWant::Read, b"/lib/x86_64-linux-gnu/libc.so.6"),
        (FileWant::Read, b"/proc/17/status"),
        (FileWant::Read, b"/usr/bin/pyvenv.cfg"),
        (FileWant::Read, b"/usr/lib/python3.13/json/decoder.py"),
        (FileWant::Read, b"/usr/lib/python3/dist-packages/x.py"),
        (FileWant::Read, b"/workspace/data/a.csv"),
        (FileWant::Read, b"/workspace/data/b.csv"),
        (FileWant::Read, b"/workspace/data/.env"),
        (FileWant::Write, b"/tmp/tmpab12cd34/part"),
        (FileWant::Write, b"/workspace/out,1.txt"),
        (FileWant::Run, b"/usr/bin/sort"),
    ]);
    seen.acts
        .insert((None, "connect to unix:/run/x".to_owned()), by("cat", 2));
    let contact = ContactKey {
        act: ContactKind::Connect,
        datagrams: false,
        address: "198.51.100.7:443".parse().expect("an address"),
    };
    let made = seen.contacts.made.entry(contact).or_default();
    made.by.join(&by("cat", 3));
    made.names.insert("example.org".to_owned());
    insta::assert_snapshot!(text(&seen, &["openat", "nanosleep", "read"], 0));
}

#[test]
fn names_are_folded_by_where_they_are() {
    let fold = places::FoldBreadth {
        level: 0,
        scratch: &[b"/scratch".to_vec(), b"/tmp".to_vec()],
        mounts: &[b"/tmp/host".to_vec()],
        varied: &[(b"/workspace/monday".to_vec(), "*day".to_owned())].into(),
        installations: &[b"/home/me/.pyenv/versions/3.11.7".to_vec()],
    };
    let cases: [(&str, &[&str]); 21] = [
        ("/etc/ssl/openssl.cnf", &["/etc/ssl/openssl.cnf"]),
        (
            "/home/me/.pyenv/versions/3.11.7/lib/os.py",
            &["/home/me/.pyenv/versions/*/**"],
        ),
        ("/proc/12/task/12/comm", &["/proc/*/task/*/comm"]),
        ("/dev/pts/3", &["/dev/pts/*"]),
        ("/usr/lib/python3.13/os.py", &["/usr/lib/python3*/**"]),
        ("/usr/lib/gcc/x86_64-linux-gnu/12/cc1", &["/usr/lib/gcc/**"]),
        (
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            &["/usr/lib/x86_64-linux-gnu/*.so*"],
        ),
        (
            "/usr/lib/x86_64-linux-gnu/gconv/a",
            &["/usr/lib/x86_64-linux-gnu/gconv/**"],
        ),
        ("/usr/include/stdio.h", &["/usr/include/**"]),
        ("/usr/share/node-18.2/x", &["/usr/share/node-*/**"]),
        ("/usr/bin/ls", &["/usr/bin/ls"]),
        ("/workspace/data/a.csv", &["/workspace/data/*"]),
        ("/workspace/.gitconfig", &["/workspace/.gitconfig"]),
        ("/workspace/monday/a", &["/workspace/*day/*"]),
        ("/workspace/run-20261125/a", &["/workspace/run-*/*"]),
        ("/workspace/.cache-7f3a9c01", &["/workspace/.cache-*"]),
        ("/tmp", &["/tmp"]),
        ("/tmp/tmpabcdefgh", &["/tmp/**"]),
        ("/scratch/build/x", &["/scratch/**"]),
        ("/tmp/host/a.csv", &["/tmp/host/*"]),
        ("/workspace/a*b/\u{202e}", &["/workspace/a\\*b/*"]),
    ];
    for (path, expected) in cases {
        let patterns = places::patterns(fold, FileWant::Read, path.as_bytes(), false);
        assert_eq!(patterns, expected, "{path}");
    }
    let directory = places::patterns(fold, FileWant::Read, b"/workspace/data", true);
    assert_eq!(directory, ["/workspace/data"]);
    for (level, root) in [(3, "/usr/include"), (4, "/usr/include"), (4, "/lib")] {
        let fold = places::FoldBreadth { level, ..fold };
        let patterns = places::patterns(fold, FileWant::Read, root.as_bytes(), false);
        let glob = turnkey_policy::Glob::parse(&patterns[0]).expect("a pattern");
        assert!(
            glob.matches(root.as_bytes()),
            "{patterns:?} at level {level}"
        );
    }
    let program = places::patterns(fold, FileWant::Run, b"/usr/lib/gcc/12/cc1", false);
    assert_eq!(program, ["/usr/lib/gcc/12/cc1"]);
    let built = places::patterns(fold, FileWant::Run, b"/tmp/go-build17/exe/main", false);
    assert_eq!(built, ["/tmp/**/main"]);
    let varied = places::patterns(fold, FileWant::Run, b"/workspace/monday/main", false);
    assert_eq!(varied, ["/workspace/*day/main"]);
}

/// A path out of pieces that meet the tiers.
fn path() -> impl Strategy<Value = Vec<u8>> {
    let top = prop::sample::select(vec![
        "/etc",
        "/usr/lib",
        "/usr/share",
        "/usr",
        "/opt",
        "/tmp",
        "/workspace",
        "/proc",
        "/dev/shm",
        "/srv",
        "/lib64",
        "",
    ]);
    let name = prop_oneof![
        prop::sample::select(vec![
            "python3.13",
            "x86_64-linux-gnu",
            "libc.so.6",
            "tmpab12cd",
            "ccZgLXkA.cdtor.c",
            "12",
            "a",
            ".env",
            "data",
            "a*b",
            "{x,y}",
            "q?",
            "\\",
            "shadow",
            ".ssh",
            "id_rsa",
            ".bashrc",
            "b,c",
            "~",
            "$HOME",
            "include",
            "sem.mp-1_xY",
            "#1234",
        ])
        .prop_map(|name| name.as_bytes().to_vec()),
        prop::collection::vec(
            prop::num::u8::ANY.prop_filter("no byte of a name", |byte| !b"\0/".contains(byte)),
            1..6
        )
        .prop_filter("no name", |name| name != b"." && name != b".."),
    ];
    (top, prop::collection::vec(name, 1..4)).prop_map(|(top, names)| {
        let names = names.iter().map(|name| [b"/", name.as_slice()].concat());
        [top.as_bytes().to_vec(), names.collect::<Vec<_>>().concat()].concat()
    })
}

fn wanted() -> impl Strategy<Value = (FileWant, Vec<u8>)> {
    let want = prop::sample::select(vec![FileWant::Read, FileWant::Write, FileWant::Run]);
    (want, path())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever was seen is allowed, unless a rule below is against it or it looks like a secret; and
    /// what a rule below stops is stopped as before.
    #[test]
    fn what_was_seen_is_allowed_and_what_was_stopped_is_not(
        uses in prop::collection::vec(wanted(), 1..20),
        others in prop::collection::vec(wanted(), 1..20),
        level in 0..=places::LEVELS,
        makes in any::<bool>(),
    ) {
        let uses: Vec<_> = uses.iter().map(|(want, path)| (*want, path.as_slice())).collect();
        let seen = seen(&uses);
        let calls: &[&'static str] = if makes { &["mkdir"] } else { &[] };
        let text = text(&seen, calls, level);
        let policy = reread(&place(), &text);
        let policy = policy.unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        let below = below();
        let calls = calls.iter().copied().collect();
        let sources = DraftSources { seen: &seen, policy: &below.policy, calls: &calls,
            around: &ContactFacts::default(), is_added_to: false, installations: &[],
        };
        let stopped = draft::stopped_by(&policy, &sources);
        prop_assert!(stopped.is_empty(), "{stopped:?}\n{text}");
        let others = others.iter().map(|(want, path)| (*want, path.as_slice()));
        for (want, path) in others.chain(uses) {
            let before = draft::verdict(&below.policy.rules, want, path);
            if let Some(before) = before.filter(|rule| rule.action >= RuleAction::Deny) {
                let now = draft::verdict(&policy.rules, want, path);
                let stopped = now.is_some_and(|rule| rule.action >= before.action);
                prop_assert!(stopped, "{} under\n{text}", path.escape_ascii());
            }
        }
    }

    /// Learned again, nothing is added; and what a person wrote is still there.
    #[test]
    fn adding_the_same_again_changes_nothing(
        uses in prop::collection::vec(wanted(), 1..20),
        level in 0..=places::LEVELS,
    ) {
        let uses: Vec<_> = uses.iter().map(|(want, path)| (*want, path.as_slice())).collect();
        let seen = seen(&uses);
        let text = text(&seen, &[], level).replace("[syscalls]", "# By hand.\n[syscalls]");
        let policy = reread(&place(), &text).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        let merging = BaseProfile {
            policy: policy.clone(),
            added_to: Some((text.clone(), policy.clone())),
            base: String::new(),
        };
        let calls = BTreeSet::new();
        let sources = DraftSources { seen: &seen, policy: &policy, calls: &calls,
            around: &ContactFacts::default(), is_added_to: true, installations: &[],
        };
        let draft = draft::draft(&sources, level);
        let (measured, flags) = (MeasuredUsage::default(), Overrides::default());
        let again = write(&merging, &sources, &measured, "cat", &flags, &place(), &draft);
        prop_assert_eq!(again.expect("it can be written"), text);
    }
}
