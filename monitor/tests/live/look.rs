//! Looks: stat(2) and other calls that ask about a path and open nothing.

use std::path::{Path, PathBuf};

use turnkey_abi::syscalls::{SYSCALLS, class};
use turnkey_expectations::expected;
use turnkey_facts::{Event, Kind};
use turnkey_policy::{AttemptKind, RuleAction};

use super::harness::{policy, python, python_executed, rule, run_noting, the_system_is_read_only};

expected!(on BY_TIER);

/// Head of every program: the calls by their numbers, and memory for their answers.
const PROGRAM: &str = "import ctypes, os\ncall = ctypes.CDLL(None).syscall\nroom = ctypes.create_string_buffer(4096)\n";

/// The path of a look, and its errno.
fn look(event: &Event) -> Option<(String, i32)> {
    match &event.kind {
        Kind::Change {
            on: AttemptKind::Stat,
            object,
            errno,
            ..
        } => Some((String::from_utf8_lossy(&object.path()).into_owned(), *errno)),
        _ => None,
    }
}

/// A directory of our own, by its only name, and a policy that does this for looks at what is in it.
fn watched(action: &str) -> (tempfile::TempDir, PathBuf, turnkey_policy::Policy) {
    let directory = tempfile::tempdir().expect("room for a test");
    let at = directory.path().canonicalize().expect("it is there");
    let path = format!("path = [\"{}/**\"]", at.display());
    let rules = rule("looks", "stat", action, &path);
    (directory, at, policy(&rules))
}

/// Whoever asks first whether it may write does not try: that is told though no rule is about the file, by each call that asks, and no
/// other look is.
#[test]
fn who_asks_to_write_and_may_not_is_told_of() {
    let (_directory, _at, policy) = watched("log");
    let program = "os.setresuid(65534, 65534, 65534)
call(21, b'/proc/version', 2)
call(269, -100, b'/proc/cmdline', 6)
call(439, -100, b'/proc/uptime', 2, 0x200)
call(21, b'/proc/version', 4)
call(269, -100, b'/dev/null', 2)
call(21, b'/proc/absent', 2)
call(4, b'/proc/version', room)";
    let seen = python(&policy, &format!("{PROGRAM}{program}"));
    seen.assert_lived();
    let told: Vec<_> = seen.events.iter().filter_map(look).collect();
    let expected = ["version", "cmdline", "uptime"];
    let expected = expected.map(|name| (format!("/proc/{name}"), nix::libc::EACCES));
    assert_eq!(told, expected, "{}", seen.tell());
}

/// The spelling by which a directory is entered hides nothing: the kernel knows which it is then.
#[test]
fn a_directory_that_is_entered_is_looked_at() {
    let (_directory, at, policy) = watched("log");
    std::fs::create_dir_all(at.join("a/b")).expect("room for a test");
    std::os::unix::fs::symlink(at.join("a"), at.join("link")).expect("room for a test");
    let place = at.display();
    let program = format!(
        "import os\nos.chdir('{place}')\nos.chdir('a')\nos.chdir('b')\nos.chdir('/')\nos.chdir('{place}/link')\n\
         try: os.chdir('c')\nexcept OSError: pass"
    );
    let seen = python(&policy, &program);
    seen.assert_lived();
    let told: Vec<_> = seen.events.iter().filter_map(look).collect();
    let expected = [("a", 0), ("a/b", 0), ("a", 0), ("a/c", 2)];
    let expected = expected.map(|(path, errno)| (at.join(path).display().to_string(), errno));
    assert_eq!(told, expected, "{}", seen.tell());
    let (_directory, at, policy) = watched("kill");
    std::fs::create_dir(at.join("a")).expect("room for a test");
    let program = format!(
        "import os\nos.chdir('{}')\nos.chdir('a')\nprint('there')",
        at.display()
    );
    let seen = python(&policy, &program);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
}

#[test]
fn every_call_that_looks_is_told_with_its_path() {
    let (_directory, at, policy) = watched("log");
    let of = |class: u8| SYSCALLS.iter().filter(move |call| call.class == class);
    let calls = [
        (class::LOOK, "path, room, room, 0"),
        (class::LOOKAT, "-100, path, room, 0, 0, 0"),
        (class::WATCHES, "watches, path, 1"),
    ];
    let calls: Vec<_> = calls
        .into_iter()
        .flat_map(|(class, arguments)| of(class).map(move |call| (call, arguments)))
        .collect();
    assert!(calls.len() >= 18, "{}", calls.len());
    let mut program = format!("{PROGRAM}watches = ctypes.CDLL(None).inotify_init()\n");
    for (call, arguments) in &calls {
        let path = at.join(call.name);
        std::fs::write(&path, "x").expect("room for a test");
        program += &format!(
            "path = b'{}'\ncall({}, {arguments})\n",
            path.display(),
            call.nr
        );
    }
    let seen = python(&policy, &program);
    seen.assert_lived();
    // A kernel that does not have a call answers as the filter would.
    let lacks = |event: &Event| match event.kind {
        Kind::Refused {
            nr: nr @ 464..,
            errno: nix::libc::ENOSYS,
            ..
        } => calls.iter().find(|(call, _)| u32::from(call.nr) == nr),
        _ => None,
    };
    let told = seen.events.iter().filter_map(|event| {
        let lacking = lacks(event).map(|(call, _)| at.join(call.name).display().to_string());
        lacking.or(look(event).map(|it| it.0))
    });
    let told: Vec<String> = told.collect();
    let expected = calls.iter().map(|(call, _)| at.join(call.name));
    let expected: Vec<String> = expected.map(|path| path.display().to_string()).collect();
    assert_eq!(told, expected, "{}", seen.tell());
    let lacking = seen.events.iter().filter_map(lacks).count();
    assert_eq!(seen.evidence.seen.look, (calls.len() - lacking) as u64);
    assert!(seen.evidence.complete, "{}", seen.tell());
}

#[test]
fn every_spelling_of_a_path_is_looked_at_as_the_same() {
    let (_directory, at, policy) = watched("log");
    std::fs::create_dir(at.join("sub")).expect("room for a test");
    std::fs::write(at.join("secret"), "x").expect("room for a test");
    let name = at.file_name().and_then(|name| name.to_str()).expect("text");
    let spellings = [
        "os.stat('secret')".to_owned(),
        "os.stat('./sub//../secret')".to_owned(),
        format!("os.lstat('../{name}/secret')"),
        format!("os.stat('{}/nothing/../secret')", at.display()),
        format!("os.stat('/proc/../{}/./secret')", at.display()),
        "os.stat('secret', dir_fd=os.open('.', os.O_PATH))".to_owned(),
        "os.stat('../secret', dir_fd=os.open('sub', os.O_PATH))".to_owned(),
        "os.access('secret', os.R_OK)".to_owned(),
        "call(254, watches, b'secret', 1)".to_owned(),
    ];
    let only = format!("path = [\"{}\"]", at.join("secret").display());
    let policy_of_one = super::harness::policy(&rule("secret", "stat", "log", &only));
    for spelling in &spellings {
        let program = format!(
            "{PROGRAM}watches = ctypes.CDLL(None).inotify_init()\nos.chdir('{}')\n\
             try: {spelling}\nexcept FileNotFoundError: pass",
            at.display()
        );
        let seen = python(&policy_of_one, &program);
        seen.assert_lived();
        assert_eq!(
            seen.decisions(),
            [(0, RuleAction::Log)],
            "{spelling} {}",
            seen.tell()
        );
    }
    let other = format!("{PROGRAM}os.chdir('{}')\nos.stat('sub')", at.display());
    assert_eq!(python(&policy_of_one, &other).decisions(), []);
    assert_eq!(python(&policy, &other).decisions(), [(0, RuleAction::Log)]);
}

#[test]
fn a_directory_that_is_gone_hides_no_look() {
    let (_directory, at, policy) = watched("log");
    let program = format!(
        "{PROGRAM}os.mkdir('{at}/gone')\nos.chdir('{at}/gone')\nos.rmdir('{at}/gone')\nos.access('x', 0)",
        at = at.display()
    );
    let seen = python(&policy, &program);
    seen.assert_lived();
    let told: Vec<_> = seen.events.iter().filter_map(look).collect();
    let expected = [("gone", 0), ("gone/x", nix::libc::ENOENT)];
    let expected = expected.map(|(path, errno)| (at.join(path).display().to_string(), errno));
    assert_eq!(told, expected, "{}", seen.tell());
}

#[test]
fn what_names_no_path_is_no_look() {
    // Every look of the interpreter's is told, and so would these be.
    let policy = policy(&rule("all", "stat", "log", ""));
    let program = format!(
        "{PROGRAM}os.access('/first', 0)\nd = os.open('/', os.O_PATH)\n\
         call(5, d, room)\ncall(262, d, b'', room, 0x1000)\ncall(332, d, b'', 0x1000, 0x7ff, room)\n\
         call(262, d, 0, room, 0x1000)\ncall(332, d, 0, 0x1000, 0x7ff, room)\n\
         call(4, 1, room)\ncall(4, -4096, room)\ncall(21, 0, 0)\ncall(254, -1, 8, 1)\ncall(89, 1 << 46, room, 9)\n\
         os.access('/last', 0)"
    );
    let seen = python(&policy, &program);
    seen.assert_lived();
    let told: Vec<String> = seen.events.iter().filter_map(look).map(|it| it.0).collect();
    let first = told.iter().position(|path| path == "/first");
    let first = first.unwrap_or_else(|| panic!("{}", seen.tell()));
    assert_eq!(told[first..], ["/first", "/last"], "{}", seen.tell());
}

#[test]
fn nothing_is_told_of_looks_that_no_rule_is_against() {
    let (_directory, at, _) = watched("log");
    let path = |name: &str| format!("path = [\"{}\"]", at.join(name).display());
    let program = format!(
        "{PROGRAM}os.access('{at}/x', 0)\nprint('done')",
        at = at.display()
    );
    let opens = rule("opens", "open", "kill", &path("x"));
    let elsewhere = rule("elsewhere", "stat", "kill", &path("y"));
    let allowed = rule("dir", "stat", "kill", &path("*")) + &rule("x", "stat", "allow", &path("x"));
    for rules in [String::new(), opens, elsewhere, allowed] {
        let seen = python(&policy(&rules), &program);
        seen.assert_lived();
        assert_eq!(seen.stdout(), "done\n");
        assert_eq!(seen.events.iter().filter_map(look).count(), 0, "{rules}");
        assert_eq!(seen.evidence.seen.look, 0, "{rules}");
    }
}

#[test]
fn a_rule_kills_for_a_look_before_its_answer_is_used() {
    let (_directory, at, policy) = watched("kill");
    let path = at.join("x");
    for attempt in [
        format!("os.stat('{}')", path.display()),
        format!("os.access('{}', 0)", path.display()),
        format!(
            "os.readlink('x', dir_fd=os.open('{}', os.O_PATH))",
            at.display()
        ),
        format!("call(254, 0, b'{}', 1)", path.display()),
    ] {
        let program =
            format!("{PROGRAM}try: {attempt}\nexcept OSError: pass\nos.write(1, b'survived')");
        let free = python(&super::harness::policy(""), &program);
        assert_eq!(free.stdout(), "survived", "{attempt} works without a rule");
        let seen = python(&policy, &program);
        seen.assert_killed();
        assert_eq!(seen.stdout(), "", "{attempt}");
        assert_eq!(seen.decisions(), [(0, RuleAction::Kill)], "{attempt}");
    }
}

#[test]
fn looks_of_one_kind_in_a_row_are_one_event() {
    let (_directory, at, policy) = watched("log");
    let program = format!(
        "{PROGRAM}for _ in range(500): os.access('{at}/x', 0)",
        at = at.display()
    );
    let seen = python(&policy, &program);
    seen.assert_lived();
    let looks = seen.events.iter().filter(|event| look(event).is_some());
    let times: Vec<u64> = looks.map(|event| 1 + event.repeated).collect();
    assert_eq!(times.iter().sum::<u64>(), 500, "{}", seen.tell());
    assert!(times.len() < 50, "{times:?}");
    assert!(seen.evidence.complete, "{}", seen.tell());
}

#[test]
fn each_of_many_threads_is_told_of_by_its_own_path() {
    let (_directory, at, policy) = watched("log");
    let program = format!(
        "{PROGRAM}import threading\ndef looks(name):\n for turn in range(50): os.access(f'{at}/{{name}}/{{turn % 2}}', 0)\n\
         threads = [threading.Thread(target=looks, args=(n,)) for n in range(8)]\n\
         [t.start() for t in threads]; [t.join() for t in threads]",
        at = at.display()
    );
    let seen = python(&policy, &program);
    seen.assert_lived();
    assert!(seen.evidence.complete, "{}", seen.tell());
    for name in 0..8 {
        let parent = at.join(name.to_string());
        let mine = seen.events.iter().filter(|event| {
            look(event).is_some_and(|(path, _)| Path::new(&path).parent() == Some(&parent))
        });
        let mine: Vec<&Event> = mine.collect();
        let times: u64 = mine.iter().map(|event| 1 + event.repeated).sum();
        assert_eq!(times, 50, "{name}");
        let threads = mine.iter().map(|event| event.task.tid);
        assert!(threads.clone().all(|thread| thread == mine[0].task.tid));
    }
}

#[test]
fn a_rule_tells_who_looks() {
    the_system_is_read_only();
    let (_directory, at, _) = watched("log");
    let looks = |exe: &str| {
        let more = format!("path = [\"{}/**\"]\nexe = [\"{exe}\"]", at.display());
        let program = format!("{PROGRAM}os.access('{}/x', 0)", at.display());
        python(&policy(&rule("who", "stat", "kill", &more)), &program)
    };
    looks(python_executed().to_str().expect("text")).assert_killed();
    looks("/usr/bin/somebody-else").assert_lived();
}

#[test]
fn looks_are_among_the_calls_that_are_noted() {
    let (_directory, at, policy) = watched("log");
    let path = at.join("x").display().to_string();
    for policy in [policy, super::harness::policy("")] {
        let seen = run_noting(&policy, &["/usr/bin/readlink", &path]);
        assert!(seen.calls.contains(&"readlink"), "{:?}", seen.calls);
    }
}
