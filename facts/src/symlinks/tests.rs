//! Paths that names lead to through the symlinks of a run.

use super::*;
use crate::event::Task;

const CHMOD: u32 = 90;
const LINK_AT: u32 = 265;
const CHOWN_AT: u32 = 260;
const SYMLINK: u32 = 88;
const RENAME: u32 = 82;
const RENAME_AT_2: u32 = 316;
const UNLINK: u32 = 87;

fn event(on: AttemptKind, nr: u32, path: &str, new: Option<&str>) -> Event {
    let base = (!path.starts_with('/')).then(|| b"/workspace".to_vec());
    let object = Raw {
        base,
        bytes: path.as_bytes().to_vec(),
        truncated: false,
        unreadable: false,
    };
    let task = Task {
        pid: 10,
        tid: 10,
        jail_pid: 2,
        uid: 1000,
        parent_pid: 1,
        start_ns: 0,
        comm: Vec::new(),
    };
    let call = NamingCall { nr, args: [0; 6] };
    let new = new.map(|new| new.as_bytes().to_vec());
    Event {
        seq: 0,
        time_ns: 0,
        last_ns: 0,
        repeated: 0,
        task,
        kind: Kind::Change {
            on,
            object,
            new,
            resolved: false,
            call,
            errno: 0,
        },
        decision: None,
    }
}

fn symlink(path: &str, aim: &str) -> Event {
    event(AttemptKind::Open, SYMLINK, path, Some(aim))
}

fn renamed(old: &str, new: &str) -> Event {
    event(AttemptKind::Rename, RENAME, old, Some(new))
}

fn after(events: &[Event]) -> Symlinks {
    let mut known = Symlinks::default();
    events.iter().for_each(|event| known.note(event));
    known
}

fn reached(known: &Symlinks, path: &str) -> Option<String> {
    let followed = known.followed(&event(AttemptKind::Chmod, CHMOD, path, None))?;
    let Kind::Change { object, .. } = followed.kind else {
        return None;
    };
    Some(String::from_utf8_lossy(&object.path()).into_owned())
}

#[test]
fn names_lead_as_the_kernel_walks_them() {
    let known = after(&[
        symlink("x", "/etc/passwd"),
        symlink("d", "/etc"),
        symlink("/tmp/up", "../workspace/d"),
        symlink("loop", "loop"),
    ]);
    for (path, expected) in [
        ("x", Some("/etc/passwd")),
        ("d/group", Some("/etc/group")),
        ("./d/../x", Some("/etc/passwd")),
        ("/tmp/up/passwd", Some("/etc/passwd")),
        ("y", None),
        ("d2/x", None),
    ] {
        assert_eq!(reached(&known, path).as_deref(), expected, "{path}");
    }
    assert!(reached(&known, "loop").is_none_or(|path| path == "/workspace/loop"));
}

#[test]
fn a_call_that_may_not_follow_its_last_symlink_is_about_that() {
    let known = after(&[symlink("x", "/etc/passwd"), symlink("d", "/etc")]);
    let unlinked = |path| known.followed(&event(AttemptKind::Unlink, UNLINK, path, None));
    assert_eq!(unlinked("x"), None);
    assert!(unlinked("d/passwd").is_some());
    let mut owned = event(AttemptKind::Chmod, CHOWN_AT, "x", None);
    assert!(known.followed(&owned).is_some());
    if let Kind::Change { call, .. } = &mut owned.kind {
        call.args[4] = 0x100;
    }
    assert_eq!(known.followed(&owned), None);
}

#[test]
fn an_open_that_failed_is_of_where_its_name_leads() {
    let known = after(&[symlink("x", "/etc/passwd")]);
    let opened = |flags: u32, errno: i32| {
        let mut event = event(AttemptKind::Chmod, CHMOD, "x", None);
        let Kind::Change { object: raw, .. } = event.kind else {
            return None;
        };
        event.kind = Kind::Open {
            file: None,
            raw,
            flags,
            by_handle: false,
            errno,
        };
        known.followed(&event)
    };
    const WRITE_ONLY: u32 = 1;
    assert!(opened(WRITE_ONLY, 13).is_some());
    assert_eq!(opened(WRITE_ONLY | NO_FOLLOW, 40), None);
    assert_eq!(opened(WRITE_ONLY, 0), None, "the kernel knows which it was");
}

#[test]
fn symlinks_go_with_their_names_and_end_with_them() {
    let made = symlink("t/x", "/etc/passwd");
    let at = |events: &[Event], path: &str| {
        let all = [std::slice::from_ref(&made), events].concat();
        reached(&after(&all), path).is_some()
    };
    assert!(at(&[], "t/x"));
    assert!(at(&[renamed("t/x", "y")], "y"));
    assert!(!at(&[renamed("t/x", "y")], "t/x"));
    assert!(at(&[renamed("t", "u")], "u/x"), "with its directory");
    assert!(!at(&[renamed("file", "t/x")], "t/x"), "a file in its place");
    assert!(!at(
        &[event(AttemptKind::Unlink, UNLINK, "t/x", None)],
        "t/x"
    ));
}

#[test]
fn a_move_is_of_no_symlink_only_where_all_are_known() {
    let made = [symlink("t/x", "a"), symlink("dl", "d")];
    let none =
        |known: &Symlinks, event: &Event| known.knows_names(event) && known.moves_none(event);
    let known = after(&made);
    assert!(none(&known, &renamed("plain", "dl/n")));
    for (old, new) in [
        ("t/x", "y"),
        ("t", "u"),
        ("dl", "d/x"),
        ("../workspace/plain", "y"),
        ("/proc/self/cwd/plain", "y"),
        ("plain", "/dev/fd/3/y"),
    ] {
        assert!(!none(&known, &renamed(old, new)), "{old} to {new}");
    }
    let mut linked = event(AttemptKind::Link, LINK_AT, "plain", Some("dl/n"));
    assert!(none(&known, &linked));
    if let Kind::Change { call, .. } = &mut linked.kind {
        call.args[4] = 0x400;
    }
    assert!(!none(&known, &linked), "it may follow one from before");
    let exchanged = event(AttemptKind::Rename, RENAME_AT_2, "plain", Some("t/x"));
    assert!(!none(&known, &exchanged), "the other one is a symlink");
    let again = [&made[..], &[renamed("t/x", "z")]].concat();
    assert!(!none(&after(&again), &renamed("z", "y")), "by its new name");
    let to_kernels = [&made[..], &[symlink("p", "/proc/self")]].concat();
    assert!(!none(&after(&to_kernels), &renamed("p/cwd/plain", "y")));
    let mut lost = symlink("x", "a");
    if let Kind::Change { object, .. } = &mut lost.kind {
        object.base = None;
    }
    assert!(
        !none(&after(&[lost]), &renamed("plain", "y")),
        "one is not known"
    );
}

/// A failed call makes nothing, so that a flood of them leaves room for the next symlink.
#[test]
fn symlinks_that_were_not_made_take_no_room() {
    let mut known = Symlinks::default();
    for number in 0..20 {
        let aim = format!("/{number}/").repeat(2_000_000);
        let mut failed = symlink("x", &aim);
        if let Kind::Change { errno, .. } = &mut failed.kind {
            *errno = 2;
        }
        known.note(&failed);
    }
    known.note(&symlink("m", ".."));
    assert_eq!(
        reached(&known, "m/etc/shadow").as_deref(),
        Some("/etc/shadow")
    );
    assert_eq!(known.forgotten(), 0);
}

#[test]
fn symlinks_without_room_and_at_unknown_places_are_counted() {
    let mut known = Symlinks::default();
    let long = "a/".repeat(1 << 20);
    (0..9).for_each(|number| known.note(&symlink(&number.to_string(), &long)));
    assert_eq!(known.forgotten(), 2, "seven have room");
    let gone = |name| event(AttemptKind::Unlink, UNLINK, name, None);
    known.note(&gone("0"));
    known.note(&symlink("0", "b"));
    assert_eq!(
        (known.forgotten(), reached(&known, "0").as_deref()),
        (2, Some("/workspace/b"))
    );
    let mut nowhere = symlink("x", "b");
    if let Kind::Change { object, .. } = &mut nowhere.kind {
        object.base = None;
    }
    known.note(&nowhere);
    assert_eq!(known.forgotten(), 3);
    // Where a hook has seen the file itself, no text has to tell.
    if let Kind::Change { resolved, .. } = &mut nowhere.kind {
        *resolved = true;
    }
    known.note(&nowhere);
    assert_eq!(known.forgotten(), 3);
}
