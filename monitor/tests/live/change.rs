//! Names and attributes: link, rename, unlink, chmod.

use turnkey_facts::Kind;
use turnkey_monitor::Tier;
use turnkey_policy::{AttemptKind, RuleAction};

use super::harness::{policy, python, rule, tier};

/// The kind of change, the object's path, the new name, and the errno.
fn changes(kind: &Kind) -> Option<(AttemptKind, String, Option<String>, i32)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match kind {
        Kind::Change {
            on,
            object,
            new,
            errno,
            ..
        } => Some((*on, text(&object.path()), new.as_deref().map(text), *errno)),
        _ => None,
    }
}

#[test]
fn every_call_is_told_with_its_names_and_its_result() {
    let directory = tempfile::tempdir().expect("room for a test");
    let at = directory.path().display();
    let program = format!(
        "import os\nos.chdir('{at}')\nopen('a', 'w').close()\nos.link('a', 'b')\nos.rename('b', '{at}/c')\n\
         fd = os.open('.', os.O_PATH)\nos.rename('c', 'd', src_dir_fd=fd, dst_dir_fd=fd)\nos.chmod('a', 0o600)\n\
         os.chown('a', -1, -1)\nos.fchmod(os.open('a', 0), 0o644)\nos.unlink('d')\nos.mkdir('e')\nos.rmdir('e')\n\
         os.symlink('x', 's')\nos.utime('a')\nos.utime(os.open('a', 0))\nos.truncate('a', 0)\nos.mkfifo('p')\n\
         try: os.unlink('nothing')\nexcept OSError: pass"
    );
    let seen = python(&policy(""), &program);
    seen.assert_lived();
    // Two calls in a row that an event says the same of are one event.
    let acts = seen.events.iter().flat_map(|event| {
        let times = usize::try_from(1 + event.repeated).expect("few");
        std::iter::repeat_n(changes(&event.kind), times)
    });
    let told: Vec<_> = acts.flatten().collect();
    let expected = [
        (AttemptKind::Link, "a", Some("b"), 0),
        (AttemptKind::Rename, "b", Some("c"), 0),
        (AttemptKind::Rename, "c", Some("d"), 0),
        (AttemptKind::Chmod, "a", None, 0),
        (AttemptKind::Chmod, "a", None, 0),
        (AttemptKind::Chmod, "a", None, 0),
        (AttemptKind::Unlink, "d", None, 0),
        (AttemptKind::Open, "e", None, 0),
        (AttemptKind::Unlink, "e", None, 0),
        (AttemptKind::Open, "s", Some("x"), 0),
        (AttemptKind::Attribute, "a", None, 0),
        (AttemptKind::Attribute, "a", None, 0),
        (AttemptKind::Open, "a", None, 0),
        (AttemptKind::Open, "p", None, 0),
        (AttemptKind::Unlink, "nothing", None, 2),
    ];
    assert_eq!(told.len(), expected.len(), "{}", seen.tell());
    for ((on, object, new, errno), wanted) in told.iter().zip(expected) {
        assert_eq!((*on, *errno), (wanted.0, wanted.3));
        assert_eq!(*object, format!("{at}/{}", wanted.1));
        let new = new
            .as_deref()
            .map(|new| new.rsplit('/').next().unwrap_or(new));
        assert_eq!(new, wanted.2);
    }
}

#[test]
fn m06_a_rule_kills_for_either_name() {
    for (on, attempt) in [
        ("rename", "os.rename('secret', 'other')"),
        ("rename", "os.rename('other', 'secret')"),
        ("link", "os.link('secret', 'second')"),
        ("unlink", "os.unlink('secret')"),
        ("chmod", "os.chmod('secret', 0o777)"),
        ("chmod", "os.fchmod(os.open('secret', 0), 0o777)"),
        ("attribute", "os.utime('secret')"),
        ("attribute", "os.utime(os.open('secret', 0))"),
    ] {
        let directory = tempfile::tempdir().expect("room for a test");
        let secret = directory.path().join("secret");
        std::fs::write(&secret, "kept").expect("room for a test");
        std::fs::write(directory.path().join("other"), "other").expect("room for a test");
        let program = format!(
            "import os\nos.chdir('{}')\n{attempt}\nprint('survived')",
            directory.path().display()
        );
        let free = python(&policy(""), &program);
        assert_eq!(
            free.stdout(),
            "survived\n",
            "{attempt} works without a rule"
        );
        std::fs::write(&secret, "kept").expect("room for a test");
        std::fs::write(directory.path().join("other"), "other").expect("room for a test");
        let path = format!("path = [\"{}\"]", secret.display());
        let seen = python(&policy(&rule("kept", on, "kill", &path)), &program);
        seen.assert_killed();
        assert_eq!(seen.stdout(), "", "{attempt}");
        let kills = seen
            .decisions()
            .iter()
            .filter(|(_, action)| *action == RuleAction::Kill)
            .count();
        assert_eq!(kills, 1, "{attempt} is told once");
        if tier() == Tier::Lsm {
            let kept = std::fs::read_to_string(&secret).expect("it is still there");
            assert_eq!(kept, "kept", "{attempt} did not happen");
        }
    }
}

#[test]
fn a_descriptor_that_is_none_is_no_file() {
    let kills = policy(&rule("k", "chmod", "kill", "path = [\"/\", \"/**\"]"));
    let change = |descriptor: &str| {
        let program =
            format!("import ctypes, os\nd = {descriptor}\nctypes.CDLL(None).fchmod(d, 0o700)");
        python(&kills, &program)
    };
    change("os.open('/proc/self/comm', os.O_RDONLY)").assert_killed();
    for descriptor in ["999", "-1"] {
        let seen = change(descriptor);
        seen.assert_lived();
        let told = seen.kinds(|kind| match kind {
            Kind::Change { object, errno, .. } => Some((object.clone(), *errno)),
            _ => None,
        });
        let [(object, nix::libc::EBADF)] = &told[..] else {
            panic!("{}", seen.tell())
        };
        assert!(object.unreadable && object.bytes.is_empty(), "{object:?}");
    }
}
