//! Opens: the kernel's own file decides, the argument may condemn.

use std::os::unix::fs::{MetadataExt, symlink};

use turnkey_expectations::expected;
use turnkey_facts::{File, Kind, Raw};
use turnkey_policy::RuleAction;

use super::harness::{kill_reading, policy, python, python_path, rule, run, run_in};

expected!(on [BY_DAY, TRACEPOINT_6_12, MONITOR_6_1, TRACEPOINT_6_1]);

fn opens(kind: &Kind) -> Option<(Option<File>, Raw, i32)> {
    match kind {
        Kind::Open {
            file, raw, errno, ..
        } => Some((file.clone(), raw.clone(), *errno)),
        _ => None,
    }
}

/// A directory with a secret in it; its path is what the kernel will say.
fn secret() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let path = directory
        .path()
        .canonicalize()
        .expect("it has a path")
        .join("secret");
    std::fs::write(&path, "top secret").expect("the secret can be written");
    let path = path.to_str().expect("the path is text").to_owned();
    (directory, path)
}

#[test]
fn an_open_is_told_with_the_kernels_own_file() {
    let (_directory, path) = secret();
    let metadata = std::fs::metadata(&path).expect("the secret is there");
    let seen = run(&policy(""), &["/bin/cat", &path]);
    seen.assert_lived();
    assert_eq!(seen.stdout(), "top secret");
    let found = seen
        .kinds(opens)
        .into_iter()
        .find(|(_, raw, _)| raw.bytes == path.as_bytes());
    let (file, _, errno) = found.unwrap_or_else(|| panic!("{}", seen.tell()));
    let file = file.expect("the open succeeded");
    assert_eq!(errno, 0);
    assert_eq!(file.path, path.as_bytes());
    assert_eq!(
        (file.inode, file.truncated, file.unlinked),
        (metadata.ino(), false, false)
    );
    assert!(seen.evidence.complete, "{}", seen.tell());
    assert_eq!(seen.evidence.lost.total(), 0);
}

#[test]
fn reading_a_secret_kills_before_anything_is_printed() {
    let (_directory, path) = secret();
    let seen = run(&policy(&kill_reading(&path)), &["/bin/cat", &path]);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
    assert_eq!(seen.decisions(), [(0, RuleAction::Kill)]);
}

#[test]
fn writing_is_another_access() {
    let (_directory, path) = secret();
    let program = format!("open({path:?}, 'w').write('x')");
    python(&policy(&kill_reading(&path)), &program).assert_lived();
    let both = format!("open({path:?}, 'r+')");
    python(&policy(&kill_reading(&path)), &both).assert_killed();
}

#[test]
fn a_symlink_does_not_hide_the_file() {
    let (directory, path) = secret();
    let link = directory.path().join("harmless");
    symlink(&path, &link).expect("a symlink can be made");
    let seen = run(
        &policy(&kill_reading(&path)),
        &["/bin/cat", link.to_str().expect("text")],
    );
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
    let killed = seen
        .kinds(opens)
        .pop()
        .unwrap_or_else(|| panic!("{}", seen.tell()));
    assert_eq!(killed.0.expect("it was opened").path, path.as_bytes());
    assert_eq!(killed.1.bytes, link.to_str().expect("text").as_bytes());
}

#[test]
fn every_spelling_of_a_path_is_the_same_path() {
    let (directory, path) = secret();
    let policy = policy(&kill_reading(&path));
    let parent = directory.path().canonicalize().expect("it has a path");
    let name = parent
        .file_name()
        .and_then(|name| name.to_str())
        .expect("text");
    for spelling in [
        String::from("secret"),
        String::from("./secret"),
        format!("../{name}/secret"),
        format!("{}//secret", parent.display()),
        format!("{}/./no-such/../secret", parent.display()),
        format!("/proc/self/root{path}"),
        String::from("/proc/self/cwd/secret"),
    ] {
        let seen = run_in(&policy, &parent, &["/bin/cat", &spelling]);
        seen.assert_killed();
        assert_eq!(seen.stdout(), "", "{spelling}");
    }
}

#[test]
fn a_directory_descriptor_does_not_hide_the_file() {
    let (directory, path) = secret();
    let parent = directory.path().canonicalize().expect("it has a path");
    let program = format!(
        "import os\nd = os.open({parent:?}, os.O_RDONLY)\nos.write(1, os.read(os.open('secret', os.O_RDONLY, dir_fd=d), 99))"
    );
    let seen = python(&policy(&kill_reading(&path)), &program);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
}

#[test]
fn openat2_and_creat_are_seen() {
    let (_directory, path) = secret();
    // openat2(AT_FDCWD, path, &how, sizeof how), with how.flags = O_RDONLY
    let openat2 = format!(
        "import ctypes\nhow = (ctypes.c_uint64 * 3)(0, 0, 0)\nctypes.CDLL(None).syscall(437, -100, {path:?}.encode(), ctypes.byref(how), 24)"
    );
    python(&policy(&kill_reading(&path)), &openat2).assert_killed();
    let creat = format!("import ctypes\nctypes.CDLL(None).syscall(85, {path:?}.encode(), 0o600)");
    python(&policy(&kill_reading(&path)), &creat).assert_lived();
    let writing = rule(
        "w",
        "open",
        "kill",
        &format!("path = [{path:?}]\naccess = [\"write\"]"),
    );
    python(&policy(&writing), &creat).assert_killed();
}

#[test]
fn an_attempt_on_a_missing_file_is_an_attempt() {
    let policy = policy(&kill_reading("/no-such-place/secret"));
    let program = "\ntry:\n open('/no-such-place/secret')\nexcept OSError:\n print('survived')";
    let seen = python(&policy, program);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
}

#[test]
fn a_failed_open_is_told_with_its_errno() {
    let seen = run(&policy(""), &["/bin/cat", "/no-such-file"]);
    assert_eq!(seen.status().code(), Some(1));
    let found = seen
        .kinds(opens)
        .into_iter()
        .find(|(_, raw, _)| raw.bytes == b"/no-such-file");
    let (file, _, errno) = found.unwrap_or_else(|| panic!("{}", seen.tell()));
    assert_eq!((file, errno), (None, 2));
}

#[test]
fn observing_tells_and_lets_live() {
    let (_directory, path) = secret();
    let mut policy = policy(&kill_reading(&path));
    policy.enforcement.mode = turnkey_policy::EnforcementMode::Observe;
    let seen = run(&policy, &["/bin/cat", &path]);
    seen.assert_lived();
    assert_eq!(seen.stdout(), "top secret");
    assert_eq!(seen.decisions(), [(0, RuleAction::Log)]);
}

#[test]
fn a_more_specific_allow_shields() {
    let (directory, path) = secret();
    let parent = directory.path().canonicalize().expect("it has a path");
    let allow = rule(
        "a",
        "open",
        "allow",
        &format!("path = [{path:?}]\naccess = [\"read\"]"),
    );
    let kill = rule(
        "k",
        "open",
        "kill",
        &format!("path = [\"{}/**\"]\naccess = [\"read\"]", parent.display()),
    );
    let policy = policy(&format!("{allow}{kill}"));
    run(&policy, &["/bin/cat", &path]).assert_lived();
    run(&policy, &["/bin/cat", &format!("{path}2")]).assert_killed();
}

#[test]
fn a_condemned_jail_stays_condemned() {
    let (_directory, path) = secret();
    // The parent survives its child's crime only until its next system call.
    let program = format!(
        "import os\nif os.fork() == 0:\n open({path:?})\nos.wait()\nos.write(1, b'survived')"
    );
    let seen = python(&policy(&kill_reading(&path)), &program);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
}

#[test]
fn a_deep_directory_has_its_whole_path() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let mut path = directory.path().canonicalize().expect("it has a path");
    for depth in 0..90 {
        path.push(format!("d{depth}"));
    }
    std::fs::create_dir_all(&path).expect("directories can be made");
    path.push("secret");
    std::fs::write(&path, "deep").expect("the secret can be written");
    let path = path.to_str().expect("text");
    let seen = run(&policy(&kill_reading(path)), &["/bin/cat", path]);
    seen.assert_killed();
    let link = directory.path().join("link");
    symlink(path, &link).expect("a symlink can be made");
    let seen = run(
        &policy(&kill_reading(path)),
        &["/bin/cat", link.to_str().expect("text")],
    );
    seen.assert_killed();
}

#[test]
fn a_path_that_is_too_long_to_know_is_treated_as_the_worst() {
    // 40 directories of 200 bytes: more than PATH_MAX, reached one by one.
    let program = "import os, shutil\nos.chdir(os.environ['TOP'])\nfor _ in range(40):\n os.mkdir('d' * 200)\n os.chdir('d' * 200)\nos.close(os.open('file', os.O_RDWR | os.O_CREAT))\nos.write(1, b'survived')";
    let directory = tempfile::tempdir().expect("a directory can be made");
    let top = format!("TOP={}", directory.path().display());
    let command = ["/usr/bin/env", &top, python_path(), "-S", "-c", program];
    let seen = run(&policy(&kill_reading("/some/secret")), &command);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
    assert!(seen.evidence.unresolved > 0, "{}", seen.tell());
    let truncated = seen
        .kinds(opens)
        .into_iter()
        .filter_map(|(file, ..)| file)
        .any(|file| file.truncated);
    assert!(truncated, "{}", seen.tell());
    let mut decided = seen.events.iter().filter_map(|event| event.decision);
    assert!(decided.all(|one| one.file_unknown), "{}", seen.tell());
}

#[test]
fn a_memory_file_has_its_name_for_a_path() {
    let program = "import os\nfd = os.memfd_create('payload')\nopen(f'/proc/self/fd/{fd}')";
    let seen = python(&policy(""), program);
    seen.assert_lived();
    let files: Vec<File> = seen
        .kinds(opens)
        .into_iter()
        .filter_map(|(file, ..)| file)
        .collect();
    let memory = files.iter().find(|file| file.path == b"memfd:payload");
    assert!(memory.is_some_and(|file| file.unlinked), "{}", seen.tell());
}

#[test]
fn an_unreadable_argument_is_told() {
    let program = "import ctypes\nctypes.CDLL(None).syscall(257, -100, 8, 0, 0)";
    let seen = python(&policy(""), program);
    seen.assert_lived();
    assert!(
        seen.kinds(opens)
            .iter()
            .any(|(_, raw, errno)| raw.unreadable && *errno == 14),
        "{}",
        seen.tell()
    );
    assert_eq!(seen.evidence.unreadable, 1);
}

/// A path as the kernel's programs read it, by how it was written.
pub(super) fn normalised(base: &str, written: &str) -> String {
    let whole = if written.starts_with('/') {
        written.to_owned()
    } else {
        format!("{base}/{written}")
    };
    let mut components: Vec<&str> = Vec::new();
    for component in whole.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                components.pop();
            }
            name => components.push(name),
        }
    }
    format!("/{}", components.join("/"))
}

/// Prefix of the spellings that are opened from the root.
const FROM_ROOT: &str = "no-root/";

/// Paths that do not exist, in strange spellings; the same ones in every run.
fn spellings() -> Vec<String> {
    const PIECES: [&str; 11] = [
        "/", "/", "//", "/./", "/../", "/..", ".", "...", "a", "b", ".a",
    ];
    let mut state = 1_u64;
    let mut next = || {
        // Knuth's MMIX generator; its upper bits are good enough here.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits")
    };
    let mut spelling = |prefix: &str| {
        let pieces: Vec<&str> = (0..1 + next() % 12)
            .map(|_| PIECES[next() % PIECES.len()])
            .collect();
        format!("{prefix}{}", pieces.concat())
    };
    (0..200)
        .flat_map(|_| {
            [
                spelling("/no-such/"),
                spelling("no-such/"),
                spelling("./no-such/"),
                spelling(FROM_ROOT),
                spelling("./no-root/"),
            ]
        })
        .collect()
}

#[test]
fn the_kernel_reads_spellings_as_the_reference_does() {
    let read = "access = [\"read\"]";
    let policy = policy(
        &[
            rule(
                "exact",
                "open",
                "log",
                &format!("path = [\"/no-such/a\", \"/no-root/a\", \"/\"]\n{read}"),
            ),
            rule(
                "below",
                "open",
                "log",
                &format!("path = [\"/no-such/**/b\", \"/no-root/**/b\"]\n{read}"),
            ),
            rule(
                "any",
                "open",
                "log",
                &format!("path = [\"/*/no-such/**\", \"/*/*/no-such/**\"]\n{read}"),
            ),
        ]
        .concat(),
    );
    let directory = tempfile::tempdir_in("/tmp").expect("a directory can be made");
    let base = directory.path().canonicalize().expect("it has a path");
    let spellings = spellings();
    let program = format!(
        "import os\nfor path in {spellings:?}:\n os.chdir('/' if {FROM_ROOT:?} in path else {base:?})\n try: os.close(os.open(path, os.O_RDONLY))\n except OSError: pass"
    );
    let seen = run_in(&policy, &base, &[python_path(), "-S", "-E", "-c", &program]);
    seen.assert_lived();
    let mut compared = 0;
    for event in &seen.events {
        let Kind::Open {
            file: None, raw, ..
        } = &event.kind
        else {
            continue;
        };
        let Some(written) = spellings
            .iter()
            .find(|spelling| spelling.as_bytes() == raw.bytes)
        else {
            continue;
        };
        let from = if written.contains(FROM_ROOT) {
            "/"
        } else {
            base.to_str().expect("text")
        };
        let path = normalised(from, written);
        let attempt = turnkey_policy::Attempt {
            path: Some(path.as_bytes()),
            access: &[turnkey_policy::OpenAccess::Read],
            ..turnkey_policy::Attempt::new(turnkey_policy::AttemptKind::Open)
        };
        let expected = turnkey_policy::decide(&policy.rules, &attempt);
        assert_eq!(
            event.decision.map(|decision| decision.rule),
            expected,
            "{written} is {path}"
        );
        compared += 1;
    }
    assert!(
        compared > 400,
        "most do not exist, and each is told: {compared}"
    );
}

#[test]
fn m01_a_link_that_changes_under_the_open_hides_nothing() {
    let (directory, path) = secret();
    let top = directory.path().canonicalize().expect("it has a path");
    let program = format!(
        "import os\nos.chdir({top:?})\nopen('harmless', 'w').write('fine')\nos.symlink('harmless', 'link')\nif os.fork() == 0:\n while True:\n  for target in ('secret', 'harmless'):\n   os.symlink(target, 'new')\n   os.rename('new', 'link')\nfor _ in range(20000):\n content = open('link').read()\n if content != 'fine': os.write(1, content.encode())"
    );
    let seen = python(&policy(&kill_reading(&path)), &program);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
}

#[test]
fn a_path_is_seen_from_the_tasks_own_root() {
    let (directory, path) = secret();
    let top = directory.path().canonicalize().expect("it has a path");
    let program = format!("import os\nos.chroot({top:?})\nos.chdir('/')\nopen('secret')");
    let seen = python(&policy(&kill_reading("/secret")), &program);
    seen.assert_killed();
    let seen = python(&policy(&kill_reading(&path)), &program);
    seen.assert_lived();
    let files: Vec<File> = seen
        .kinds(opens)
        .into_iter()
        .filter_map(|(file, ..)| file)
        .collect();
    assert!(
        files.iter().any(|file| file.path == b"/secret"),
        "{}",
        seen.tell()
    );
}

/// A descriptor that is none leads nowhere; below the root is not what was asked for.
#[test]
fn a_descriptor_that_is_none_names_no_path() {
    let (_directory, path) = secret();
    let name = path.trim_start_matches('/');
    let kinds = ["open", "exec", "unlink"];
    let rules = kinds.map(|on| rule(on, on, "kill", &format!("path = [{path:?}]")));
    let policy = policy(&rules.concat());
    // openat(d, name, O_RDONLY); execveat(d, name, 0, 0, 0); unlinkat(d, name, AT_REMOVEDIR), which
    // removes no file; openat2(d, name, …) with RESOLVE_IN_ROOT.
    let calls = [
        "257, d, name, 0",
        "322, d, name, 0, 0, 0",
        "263, d, name, 0x200",
        "437, d, b'/' + name, (ctypes.c_uint64 * 3)(0, 0, 0x10), 24",
    ];
    let attempts = |descriptors: &str, calls: &[&str]| {
        let mut program = format!(
            "import ctypes, os\ncall, name = ctypes.CDLL(None).syscall, {name:?}.encode()\nfor d in {descriptors}:"
        );
        for call in calls {
            program += &format!("\n call({call})");
        }
        python(&policy, &program)
    };
    for call in calls {
        attempts("[os.open('/', os.O_RDONLY)]", &[call]).assert_killed();
    }
    let seen = attempts("[999, -1]", &calls);
    seen.assert_lived();
    let told = seen.kinds(|kind| match kind {
        Kind::Open { raw, errno, .. } | Kind::ExecAttempt { raw, errno } => {
            Some((raw.clone(), *errno))
        }
        Kind::Change { object, errno, .. } => Some((object.clone(), *errno)),
        _ => None,
    });
    let bad = told
        .into_iter()
        .filter(|(_, errno)| *errno == nix::libc::EBADF);
    let bad: Vec<Raw> = bad.map(|(raw, _)| raw).collect();
    assert_eq!(bad.len(), 8, "{}", seen.tell());
    for raw in bad {
        assert_eq!(raw.base, None, "{raw:?}");
        assert!(raw.bytes.ends_with(name.as_bytes()), "{raw:?}");
    }
}
