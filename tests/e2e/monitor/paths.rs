//! Another name for the same file, and names that are hard to read.

use turnkey_expectations::expected;
use turnkey_tests::{Run, as_nobody, compile, open_to_all, scratch};

use super::{Attack, events, guard, rule, times, violations};

const LAZY: &str = include_str!("../../attacks/lazy.c");

/// Ways to say /etc/shadow, each an expression whose last part opens it.
const SPELLINGS: [&str; 13] = [
    "open('/etc/../etc//./shadow')",
    "open('/proc/self/root/etc/shadow')",
    "open('/proc/thread-self/root/etc/shadow')",
    "(os.chdir('/etc'), open('shadow'))",
    "(os.chdir('/etc'), open('/proc/self/cwd/shadow'))",
    "(os.chdir('/usr/lib'), open('../../etc/shadow'))",
    "os.open('shadow', os.O_RDONLY, dir_fd=os.open('/etc', os.O_RDONLY))",
    "os.open('../../etc/shadow', os.O_RDONLY, dir_fd=os.open('/usr/lib', os.O_PATH))",
    "(os.symlink('/etc/shadow', '/tmp/link'), open('/tmp/link'))",
    "(os.symlink('/etc', '/tmp/etc'), open('/tmp/etc/shadow'))",
    "(os.symlink('/usr/lib', '/tmp/lib'), open('/tmp/lib/../../etc/shadow'))",
    "open('/proc/self/fd/%d/shadow' % os.open('/etc', os.O_PATH))",
    "open('/dev/fd/%d' % os.open('/etc/shadow', os.O_PATH))",
];

expected!(
    m04_j62_another_spelling_of_the_path_is_the_same_file: not_on [ORDINARY_6_12],
    "a run for each spelling; `lsm::a_denied_file_is_opened_by_no_way` has them in one"
);
#[test]
fn m04_j62_another_spelling_of_the_path_is_the_same_file() {
    let program = |spellings: &[&str]| {
        let opened = spellings
            .iter()
            .map(|one| format!("{one}\nprint('opened')"));
        format!("import os\n{}", opened.collect::<Vec<_>>().join("\n"))
    };
    // In one run, and so each has its own link to make.
    let all: Vec<String> = (SPELLINGS.iter().enumerate())
        .map(|(number, one)| one.replace("/tmp/", &format!("/tmp/{number}-")))
        .collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let control = Run::new().option("--mode observe").python(&program(&all));
    let opened = control.stdout.matches("opened").count();
    control.expect(opened == SPELLINGS.len(), "the control: each opens it");
    let told = times(&control, "/etc/shadow", "allowed");
    control.expect(told >= SPELLINGS.len() as u64, "and each is told");
    for spelling in SPELLINGS {
        let ran = Run::new().python(&program(&[spelling]));
        ran.expect_code(121);
        ran.expect(!ran.stdout.contains("opened"), spelling);
        let told = violations(&ran, "credential-file").any(|one| one["path"] == "/etc/shadow");
        ran.expect(told, spelling);
    }
}

const BIND: &str = "cd \"$0\" && echo hidden > secret && : > alias && \
    unshare -Urm sh -c 'mount --bind secret alias && echo content: $(cat alias)'";

#[test]
fn m07_no_bind_mount_gives_a_file_another_name() {
    let directory = scratch();
    open_to_all(directory.path());
    let place = directory.path().join("of-nobody");
    std::fs::create_dir(&place).unwrap();
    std::os::unix::fs::chown(&place, Some(65534), Some(65534)).unwrap();
    let (_, told) = as_nobody("/bin/sh", &["-c", BIND, &place.display().to_string()]);
    assert_eq!(told, "content: hidden\n", "the control: nobody can outside");

    let ran = Run::new().run(&["/bin/sh", "-c", BIND, "/tmp"]);
    ran.expect(!ran.stdout.contains("content"), "no namespace to mount in");
    let told = violations(&ran, "nested-namespace").any(|one| one["syscall"] == "unshare");
    ran.expect(told, "and it is told");

    let mount = "import ctypes
done = ctypes.CDLL(None).mount(b'/tmp', b'/tmp', None, 4096, None)
print('content' if done == 0 else 'refused', flush=True)";
    let (_, told) = as_nobody("unshare", &["-Urm", "python3", "-c", mount]);
    assert_eq!(told, "content\n", "the control: in a namespace it works");
    let ran = Run::new().python(mount);
    ran.expect_code(121);
    ran.expect(!ran.stdout.contains("content"), "nor without one");
    let told = violations(&ran, "mount").any(|one| one["syscall"] == "mount");
    ran.expect(told, "and it is told");
}

#[test]
fn m08_a_file_that_was_copied_up_is_the_same_file() {
    let jail = || {
        let run = Run::new().file("ledger", "balance: 5\n");
        run.profile(&guard("/workspace/ledger"))
    };
    // A change of mode alone makes overlayfs copy the file: another inode on another file system.
    let read = Attack {
        jail: &jail,
        program: &["/bin/sh", "-c", "chmod 640 ledger; cat ledger"],
        mark: "balance: 5",
        rule: "guard",
        paths: &["/workspace/ledger"],
    };
    let control = read.works_and_is_told();
    let copied = control.list("/files_changed").iter();
    let copied = copied.filter(|changed| changed["path"] == "ledger");
    control.expect(copied.count() == 1, "the control: it was copied up");
    read.is_killed();
    let written = Attack {
        program: &[
            "/bin/sh",
            "-c",
            "echo 'balance: 9' >> ledger; tail -1 ledger",
        ],
        mark: "balance: 9",
        ..read
    };
    written.is_survived();
}

/// Makes a directory whose path is longer than any path can be, and opens `f` in it.
const DEEP: &str = "import os
os.chdir('/tmp')
for _ in range(25):
    os.mkdir('d' * 200)
    os.chdir('d' * 200)
os.symlink('/usr/bin/echo', 'link')
with open('program', 'wb') as copy: copy.write(open('/usr/bin/echo', 'rb').read())
os.chmod('program', 0o700)
";

#[test]
fn m31_a_path_that_is_too_long_to_be_known_is_taken_for_the_worst() {
    for (act, rule) in [
        (
            "open('program', 'rb'); print('done', flush=True)",
            "browser-store",
        ),
        ("os.execv('program', ['echo', 'done'])", "memory-exec"),
    ] {
        let program = format!("{DEEP}{act}");
        let jail = || Run::new().with_events();
        let control = jail().option("--mode observe").python(&program);
        control.expect(control.stdout == "done\n", "the control: it works");
        let cut = control
            .events
            .iter()
            .filter(|event| event["path_truncated"] == true || event["exe"]["truncated"] == true);
        control.expect(cut.count() >= 1, "and it is told that the path is cut");
        let ran = jail().python(&program);
        ran.expect_code(121);
        ran.expect(!ran.stdout.contains("done"), "without effect");
        ran.expect(!ran.violations().is_empty(), rule);
    }
}

#[test]
fn m31_a_rule_means_the_files_whose_path_is_too_long_to_be_known() {
    let program = format!("{DEEP}open('program', 'rb'); print('done', flush=True)");
    let cut = |action: &str, more: &str| {
        let rule = rule("cut", "open", action, more);
        Run::new().profile(&rule).python(&program)
    };
    let control = cut("kill", "flags = \"deleted\"");
    control.expect_code(121);
    control.expect(
        violations(&control, "cut").next().is_none(),
        "the control: another rule",
    );
    let ran = cut("kill", "flags = \"truncated\"");
    ran.expect_code(121);
    ran.expect(!ran.stdout.contains("done"), "without effect");
    let told = violations(&ran, "cut").any(|one| one["path_truncated"] == true);
    ran.expect(told, "and it is told, by that rule");
    // It speaks of them before those that take them for the worst.
    let logged = cut("log", "flags = \"truncated\"");
    logged.expect_code(0);
    logged.expect(logged.stdout == "done\n", "it is only told");
    logged.expect(violations(&logged, "cut").next().is_some(), "by that rule");
}

expected!(
    m31_only_a_step_back_from_there_is_to_a_file_that_nobody_knows: not_on [ORDINARY_6_12],
    "with BPF LSM a hook is asked about the file itself, whose own path is too long"
);
/// Below such a directory every path is longer still, and a step back from it may lead to any file.
#[test]
fn m31_only_a_step_back_from_there_is_to_a_file_that_nobody_knows() {
    let acts = |names: &str| {
        let (deep, _) = DEEP.split_once("os.symlink").expect("it makes one");
        let program = format!(
            "{deep}os.mkdir('a'); os.rename({names}); os.rmdir('b'); print('done', flush=True)"
        );
        Run::new()
            .profile(&rule("moved", "rename", "kill", "path = \"/guarded\"\n"))
            .python(&program)
    };
    let plain = acts("'a', 'b'");
    plain.expect(plain.stdout == "done\n", "nothing is forbidden");
    let back = acts("'../' + 'd' * 200 + '/a', 'b'");
    back.expect_code(121);
    back.expect(!back.stdout.contains("done"), "without effect");
}

#[test]
fn m31_an_argument_that_is_too_long_matches_no_list() {
    let long = "os.execv('/usr/bin/' + './' * 2500 + 'echo', ['echo', 'done'])";
    let program =
        format!("import os\ntry: {long}\nexcept OSError as e: print(e.errno, flush=True)");
    let shorter = program.replace("2500", "1500");
    let control = Run::new().profile(&super::only(&["/usr/bin/*"]));
    let control = control.python(&shorter);
    control.expect(
        control.stdout == "done\n",
        "the control: what is known whole is on the list",
    );
    let ran = Run::new().with_events().python(&program);
    ran.expect(
        ran.stdout == format!("{}\n", libc::ENAMETOOLONG),
        "the kernel's answer",
    );
    let cut = events(&ran, "exec_attempt").filter(|event| event["raw"]["truncated"] == true);
    ran.expect(cut.count() == 1, "told as far as it was read");
    let listed = Run::new().profile(&super::only(&["/usr/bin/*"]));
    let listed = listed.python(&program);
    listed.expect_code(121);
    listed.expect(listed.stdout.is_empty(), "what is on the list it is not");
    let told = violations(&listed, "unlisted").any(|one| one["path_truncated"] == true);
    listed.expect(told, "and it is told");
}

#[test]
fn m31_odd_names_are_matched_byte_by_byte() {
    let names = [
        ("b'a\\nb'", "/workspace/odd/a\\nb"),
        ("b'\\xff\\xfe'", "/workspace/odd/\\xff\\xfe"),
        ("b'gone (deleted)'", "/workspace/odd/gone (deleted)"),
        ("b'//deleted'", "/workspace/odd/deleted"),
        ("b' '", "/workspace/odd/ "),
        ("b'*'", "/workspace/odd/*"),
    ];
    let made = names.map(|(name, _)| name).join(", ");
    let program = format!(
        "import os\nos.mkdir('odd')\nfor name in ({made}):\n open(b'odd/' + name, 'w').write('x')\n print(open(b'odd/' + name).read())"
    );
    let secret = rule("odd", "open", "kill", "path = \"/workspace/odd/*\"");
    let jail = || Run::new().profile(&secret);
    let control = jail().option("--mode observe").python(&program);
    control.expect(control.stdout == "x\n".repeat(names.len()), "each works");
    for (name, path) in names {
        let told = violations(&control, "odd").filter(|one| one["path"] == path);
        control.expect(told.count() >= 2, name);
    }
    let ran = jail().python(&program);
    ran.expect_code(121);
    ran.expect(ran.stdout.is_empty(), "and none does under the rule");
}

/// The attack program makes calls whose arguments stand on pages that are not in memory: a monitor
/// that reads them on entry reads nothing.
fn lazy() -> Run {
    let run = Run::new().compiled("lazy", LAZY).file("secret", "hidden\n");
    let sections = [
        guard("/workspace/secret"),
        rule("absent", "open", "kill", "path = \"/nowhere/*\""),
        rule("program", "exec", "kill", "path = \"/usr/bin/echo\""),
    ];
    run.profile(&sections.concat()).with_events()
}

#[test]
fn m34_j62_an_argument_on_a_page_that_is_not_there_is_no_way_around() {
    for call in ["open", "openat2"] {
        let attack = Attack {
            jail: &lazy,
            program: &["./lazy", call, "/workspace/secret"],
            mark: "hidden",
            rule: "guard",
            paths: &["/workspace/secret"],
        };
        attack.is_survived();
    }
    let attack = Attack {
        jail: &lazy,
        program: &["./lazy", "exec", "/usr/bin/echo"],
        mark: "executed",
        rule: "program",
        paths: &["/usr/bin/echo"],
    };
    attack.is_survived();
}

#[test]
fn m34_j62_a_failed_attempt_from_such_a_page_is_seen_when_the_call_returns() {
    let program = ["./lazy", "open", "/nowhere/file"];
    let control = lazy().option("--mode observe").run(&program);
    let answer = format!("failed {}\n", libc::ENOENT);
    control.expect(control.stdout == answer, "the control: it sees the answer");
    control.expect(
        violations(&control, "absent").any(|one| one["action"] == "log"),
        "and is told",
    );
    let ran = lazy().run(&program);
    ran.expect_code(121);
    ran.expect(
        !ran.stdout.contains("failed"),
        "dead before it saw the answer",
    );
    let told = events(&ran, "open").find(|event| event["decision"]["rule"] == "absent");
    let told = told.cloned().unwrap_or_default();
    ran.expect(told["path"] == "/nowhere/file", "the path is told");
    ran.expect(told["errno"] == "ENOENT", "on entry it could not be read");
}

#[test]
fn m34_an_argument_that_is_nowhere_is_told_as_such() {
    let efault = format!("{}\n", libc::EFAULT);
    let directory = scratch();
    open_to_all(directory.path());
    let outside = directory.path().join("lazy");
    compile(&outside, LAZY);
    let (_, told) = as_nobody(&outside, &["unmapped", "-"]);
    assert_eq!(
        told,
        efault.repeat(5),
        "the control: the kernel's own answers"
    );
    let ran = lazy().run(&["./lazy", "unmapped", "-"]);
    ran.expect_code(0);
    ran.expect(ran.stdout == told, "and so inside");
    for (kind, count) in [("open", 2), ("exec_attempt", 2)] {
        let unreadable = events(&ran, kind).filter(|event| event["raw"]["unreadable"] == true);
        ran.expect(unreadable.count() == count, kind);
    }
    let connect = events(&ran, "connect").filter(|event| event["address"] == "unreadable");
    ran.expect(connect.count() == 1, "connect");
}
