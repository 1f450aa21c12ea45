//! Acts on names and attributes of a file that is reached by another path than its own.

use turnkey_expectations::expected;
use turnkey_facts::Kind;
use turnkey_policy::RuleAction;

use super::harness::{Seen, policy, python, rule};

expected!(on [BY_DAY, TRACEPOINT_6_12, MONITOR_6_1, TRACEPOINT_6_1]);

/// Kinds of the rules about the files, in their order.
const KINDS: [&str; 6] = ["truncate", "chmod", "attribute", "link", "rename", "unlink"];

/// The beginning of the programs: each act has a directory with a file of its own, `real/secret`, of which `d` is a
/// descriptor. `alias` is a symlink to it and `way` one to its directory, both from before the run; `p` is its place in the list of
/// descriptors.
const BEGIN: &str = "import os
def quietly(act, *arguments):
    try: act(*arguments)
    except OSError: pass
def at(number):
    global d, p
    os.chdir(f'{top}/{number}')
    d = os.open('real/secret', os.O_RDWR)
    p = f'/proc/self/fd/{d}'
";

/// Acts by a symlink from before the run, each with its kind: only the kernel's own objects tell which file it is.
const BY_SYMLINK: [(&str, &str); 11] = [
    ("truncate", "os.truncate('alias', 0)"),
    ("truncate", "os.truncate('way/secret', 0)"),
    ("chmod", "os.chmod('alias', 0o700)"),
    ("chmod", "os.chown('way/secret', os.getuid(), -1)"),
    (
        "chmod",
        "quietly(os.setxattr, 'alias', b'system.posix_acl_access', bytes.fromhex('02000000'))",
    ),
    ("attribute", "os.utime('alias')"),
    (
        "attribute",
        "quietly(os.setxattr, 'way/secret', b'user.a', b'x')",
    ),
    ("attribute", "quietly(os.removexattr, 'alias', b'user.a')"),
    ("link", "os.link('way/secret', 'other')"),
    ("rename", "os.rename('way/secret', 'other')"),
    ("unlink", "os.unlink('way/secret')"),
];

/// Acts by a descriptor, or by the list of descriptors: known by their arguments as well.
const BY_DESCRIPTOR: [(&str, &str); 11] = [
    ("truncate", "os.truncate(p, 0)"),
    ("truncate", "os.truncate(f'/dev/fd/{d}', 0)"),
    ("truncate", "os.truncate(f'/proc/thread-self/fd/{d}', 0)"),
    ("truncate", "os.ftruncate(d, 0)"),
    ("chmod", "os.chmod(p, 0o700)"),
    ("chmod", "os.fchmod(d, 0o700)"),
    ("chmod", "os.chown(p, os.getuid(), -1)"),
    ("attribute", "os.utime(p)"),
    ("attribute", "os.utime(d)"),
    ("attribute", "quietly(os.setxattr, p, b'user.a', b'x')"),
    ("attribute", "quietly(os.setxattr, d, b'user.a', b'x')"),
];

/// Runs acts, one after the other, where every rule about their files does the same.
fn run<'a>(acts: impl Iterator<Item = &'a str>, action: Option<&str>) -> Seen {
    let directory = tempfile::tempdir().expect("room for a test");
    let top = directory.path().display();
    let mut program = format!("top = '{top}'\n{BEGIN}");
    for (number, act) in acts.enumerate() {
        let place = directory.path().join(number.to_string());
        std::fs::create_dir_all(place.join("real")).expect("room for a test");
        std::fs::write(place.join("real/secret"), "kept").expect("room for a test");
        for (target, name) in [("real/secret", "alias"), ("real", "way")] {
            std::os::unix::fs::symlink(target, place.join(name)).expect("room for a test");
        }
        program += &format!("at({number})\n{act}\n");
    }
    let path = format!("path = [\"{top}/*/real/secret\"]");
    let rules = action.map(|action| KINDS.map(|on| rule(on, on, action, &path)).concat());
    program += "print('survived')";
    python(&policy(&rules.unwrap_or_default()), &program)
}

/// Checks that each act was told once, and those of which it can be known which file they are about by its rule.
fn assert_told(acts: &[(&str, &str)], are_known: impl Fn(&Seen) -> bool) {
    let ways = || acts.iter().map(|(_, way)| *way);
    let free = run(ways(), None);
    free.assert_lived();
    let seen = run(ways(), Some("log"));
    seen.assert_lived();
    let decided = seen.events.iter().filter(|event| event.decision.is_some());
    let told = decided.flat_map(|event| {
        let rule = event.decision.map_or(0, |decision| decision.rule);
        let times = usize::try_from(1 + event.repeated).expect("few");
        std::iter::repeat_n(KINDS[rule], times)
    });
    let told: Vec<_> = told.collect();
    let known = are_known(&seen);
    let expected: Vec<_> = acts.iter().filter(|_| known).map(|(on, _)| *on).collect();
    assert_eq!(told, expected, "{}", seen.tell());
    let acts_in = |seen: &Seen| {
        let changes = seen.events.iter();
        let changes = changes.filter(|event| matches!(event.kind, Kind::Change { .. }));
        changes.map(|event| 1 + event.repeated).sum::<u64>()
    };
    let quiet = acts.iter().filter(|(_, way)| way.contains("ftruncate"));
    let quiet = u64::try_from(quiet.count()).expect("few");
    assert_eq!(acts_in(&seen), acts_in(&free) + quiet, "{}", seen.tell());
}

#[test]
fn m37_by_a_symlink_from_before_the_run_a_file_keeps_its_rules() {
    assert_told(&BY_SYMLINK, |seen| seen.by_objects);
}

#[test]
fn m37_by_a_descriptor_a_file_keeps_its_rules() {
    // Guests have no such directory.
    let is_there = |way: &str| !way.contains("/dev/fd") || std::path::Path::new("/dev/fd").exists();
    let acts = BY_DESCRIPTOR.into_iter().filter(|(_, way)| is_there(way));
    assert_told(&acts.collect::<Vec<_>>(), |_| true);
}

/// Checks that an act kills, and is told once.
#[track_caller]
fn assert_killed_once(act: &str) {
    let seen = run(std::iter::once(act), Some("kill"));
    seen.assert_killed();
    assert_eq!(seen.stdout(), "", "{act}");
    let kills = seen.decisions();
    let kills = kills
        .iter()
        .filter(|(_, action)| *action == RuleAction::Kill);
    assert_eq!(kills.count(), 1, "{act} is told once: {}", seen.tell());
    assert!(seen.evidence.complete, "{}", seen.tell());
}

#[test]
fn m37_an_act_by_a_descriptor_kills() {
    for act in ["os.truncate(p, 0)", "os.ftruncate(d, 0)", "os.utime(d)"] {
        assert_killed_once(act);
    }
}

#[test]
fn m37_an_act_by_a_symlink_kills_where_objects_are_known() {
    let act = "os.truncate('alias', 0)";
    if run(std::iter::once(act), Some("log")).by_objects {
        assert_killed_once(act);
        assert_killed_once("os.utime('way/secret')");
    } else {
        run(std::iter::once(act), Some("kill")).assert_lived();
    }
}

#[test]
fn another_file_of_that_number_or_name_is_not_taken_for_it() {
    // A directory of that name is no list of descriptors, one that is closed leads nowhere, and others are others.
    let acts = [
        "os.mkdir('fd')\nopen(f'fd/{d}', 'w').close()\nos.truncate(f'fd/{d}', 0)\nos.chmod(f'fd/{d}', 0o700)",
        "os.close(d)\nquietly(os.truncate, p, 0)\nquietly(os.chmod, p, 0)",
        "e = os.open('e', os.O_RDWR | os.O_CREAT)\nos.ftruncate(e, 0)\nos.truncate(f'/proc/self/fd/{e}', 0)\nos.utime(e)",
        "m = os.memfd_create('m')\nos.ftruncate(m, 4096)\nos.utime(m)\nquietly(os.setxattr, m, b'user.a', b'x')",
        "r, w = os.pipe()\nos.utime(r)\nquietly(os.fchmod, w, 0o600)",
        // The symlink in the list, and not what it leads to.
        "quietly(lambda: os.setxattr(p, b'user.a', b'x', follow_symlinks=False))",
        "quietly(lambda: os.removexattr(p, b'user.a', follow_symlinks=False))",
        "quietly(lambda: os.utime(p, follow_symlinks=False))",
        "quietly(lambda: os.chown(p, os.getuid(), -1, follow_symlinks=False))",
        "quietly(lambda: os.chown(p[1:], os.getuid(), -1, dir_fd=os.open('/', os.O_PATH), follow_symlinks=False))",
    ];
    run(acts.into_iter(), Some("kill")).assert_lived();
}

#[test]
fn a_descriptor_without_a_path_is_told_by_its_place_in_the_list() {
    let act = "import socket
s = socket.socket()
for descriptor in [*os.pipe(), s.fileno()]:
    p = f'/proc/self/fd/{descriptor}'
    os.chmod(p, 0o600)
    os.utime(p)";
    let seen = run(std::iter::once(act), Some("log"));
    seen.assert_lived();
    let told = seen.kinds(|kind| match kind {
        Kind::Change { object, .. } => Some(String::from_utf8_lossy(&object.path()).into_owned()),
        _ => None,
    });
    let is_there = |path: &String| path.starts_with("/proc/self/fd/");
    assert!(told.len() == 6 && told.iter().all(is_there), "{told:?}");
}
