//! Identity of files, which rules know besides the path: device and inode, and whether there is a name.

use std::path::{Path, PathBuf};

use turnkey_facts::{File, Kind};
use turnkey_monitor::Tier;
use turnkey_policy::RuleAction;

use super::harness::{policy, python, rule, run, run_in, tier};

/// A directory with a secret, an alias of it, and another file.
fn files() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let path = directory.path().canonicalize().expect("it has a path");
    std::fs::write(path.join("secret"), "hidden").expect("it can be written");
    std::fs::write(path.join("other"), "free").expect("it can be written");
    std::fs::hard_link(path.join("secret"), path.join("alias")).expect("it can be linked");
    (directory, path)
}

fn by_file(on: &str, action: &str, path: &Path, more: &str) -> String {
    let more = format!("path = [{path:?}]\nsame_file = \"required\"\n{more}");
    rule("file", on, action, &more)
}

fn opened(kind: &Kind) -> Option<File> {
    match kind {
        Kind::Open { file, .. } => file.clone(),
        _ => None,
    }
}

#[test]
fn m05_a_hard_link_is_the_file_and_another_file_is_not() {
    let (_directory, path) = files();
    let by_name = policy(&rule(
        "name",
        "open",
        "kill",
        &format!("path = {:?}", path.join("secret")),
    ));
    let control = run_in(&by_name, &path, &["/bin/cat", "alias"]);
    assert_eq!(
        control.stdout(),
        "hidden",
        "the control: it is another name"
    );
    let policy = policy(&by_file("open", "kill", &path.join("secret"), ""));
    let seen = run_in(&policy, &path, &["/bin/cat", "alias"]);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
    assert_eq!(seen.decisions(), [(0, RuleAction::Kill)]);
    let told = seen.kinds(opened).pop().expect("it is told");
    assert_eq!(
        Path::new(std::str::from_utf8(&told.path).expect("text")),
        path.join("alias")
    );
    let seen = run_in(&policy, &path, &["/bin/cat", "other"]);
    seen.assert_lived();
    assert_eq!(
        (seen.stdout().as_str(), seen.decisions().len()),
        ("free", 0)
    );
}

#[test]
fn m05_an_access_that_the_rule_does_not_speak_of_is_free() {
    let (_directory, path) = files();
    let policy = policy(&by_file(
        "open",
        "kill",
        &path.join("secret"),
        "access = \"write\"",
    ));
    let open = |mode: &str| format!("open({:?}, {mode:?})", path.join("alias"));
    python(&policy, &open("r")).assert_lived();
    python(&policy, &open("r+")).assert_killed();
    // An overlay would make another file of one that is written to.
    let reading = by_file("open", "kill", &path.join("secret"), "access = \"read\"");
    python(&super::harness::policy(&reading), &open("a")).assert_killed();
}

#[test]
fn m07_a_bind_mount_is_the_file() {
    let (_directory, path) = files();
    let policy = policy(&by_file("open", "kill", &path.join("secret"), ""));
    let script = "mount --bind secret other && cat other";
    let control = run_in(
        &super::harness::policy(""),
        &path,
        &["/usr/bin/unshare", "-m", "/bin/sh", "-c", script],
    );
    assert_eq!(control.stdout(), "hidden", "the control");
    let seen = run_in(
        &policy,
        &path,
        &["/usr/bin/unshare", "-m", "/bin/sh", "-c", script],
    );
    assert!(seen.condemned, "{}", seen.tell());
    assert_eq!(seen.stdout(), "");
}

#[test]
fn j17_a_hard_link_of_a_program_is_the_program() {
    let (_directory, path) = files();
    std::fs::copy("/bin/echo", path.join("tool")).expect("it can be copied");
    std::fs::hard_link(path.join("tool"), path.join("made")).expect("it can be linked");
    let policy = policy(&by_file("exec", "kill", &path.join("tool"), ""));
    let seen = run_in(
        &policy,
        &path,
        &["/bin/sh", "-c", "./made done; echo went on"],
    );
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
    // Where perf calls the programs, one tells of it before the program is there and another afterwards.
    let decisions = seen.decisions();
    let is_kill = |decision: &(usize, RuleAction)| *decision == (0, RuleAction::Kill);
    assert!(
        !decisions.is_empty() && decisions.iter().all(is_kill),
        "{}",
        seen.tell()
    );
}

#[test]
fn where_hooks_are_asked_a_file_is_denied_by_any_name() {
    if tier() == Tier::Tracepoint {
        // Refused when it is compiled: a test of that is in `compile`.
        return;
    }
    let (_directory, path) = files();
    let on = "[\"open\", \"exec\", \"link\", \"rename\", \"unlink\", \"chmod\"]";
    let text = by_file("open", "deny", &path.join("secret"), "");
    let policy = policy(&text.replace("on = \"open\"", &format!("on = {on}")));
    let script =
        "cat alias; ln alias new; mv alias new; rm -f alias; chmod 600 alias; ls; echo went on";
    let seen = run_in(&policy, &path, &["/bin/sh", "-c", script]);
    seen.assert_lived();
    assert_eq!(seen.stdout(), "alias\nother\nsecret\nwent on\n");
    assert!(seen.decisions().len() >= 5, "{}", seen.tell());
}

/// Python that has `fd` open on a file of the kind, and reads it by another open.
const NAMELESS: [(&str, &str); 3] = [
    ("memfd", "fd = os.memfd_create('x'); os.write(fd, b'text')"),
    (
        "deleted",
        "fd = os.open('other', os.O_RDONLY); os.unlink('other')",
    ),
    (
        "deleted",
        "fd = os.open('.', os.O_TMPFILE | os.O_RDWR); os.write(fd, b'text')",
    ),
];

#[test]
fn m11_a_file_without_a_name_is_known_by_its_flag() {
    for (flag, make) in NAMELESS {
        let (_directory, path) = files();
        let program = format!(
            "import os\nos.chdir({path:?})\n{make}\nopen('/proc/self/fd/%d' % fd).read()\nos.write(1, b'read')"
        );
        let other = if flag == "memfd" { "deleted" } else { "memfd" };
        let with = |flag: &str| {
            policy(&rule(
                "nameless",
                "open",
                "kill",
                &format!("flags = {flag:?}"),
            ))
        };
        let control = python(&with(other), &program);
        control.assert_lived();
        assert_eq!(control.stdout(), "read", "the control");
        std::fs::write(path.join("other"), "free").expect("it can be written");
        let seen = python(&with(flag), &program);
        seen.assert_killed();
        assert_eq!(seen.stdout(), "");
    }
}

#[test]
fn a_file_with_a_name_has_no_flag() {
    let flags = "flags = [\"memfd\", \"deleted\"]";
    let policy = policy(&rule("nameless", "open", "kill", flags));
    let (_directory, path) = files();
    let script = "echo x > made; cat made alias; rm made; ls; ls /proc/self/fd > /dev/null";
    run_in(&policy, &path, &["/bin/sh", "-c", script]).assert_lived();
    run(&policy, &["/bin/ls", "/nowhere"]);
}
