//! Rules that name who acts, in jails: what is one program's own is nobody else's.

use turnkey_tests::{Run, binary, scratch};

use super::{Attack, rule, violations};

/// The profile below kills for reading stored credentials; this says whose own they are.
fn own(who: &str) -> String {
    let path = "path = \"**/.git-credentials\"\naccess = \"read\"";
    rule("owner", "open", "allow", &format!("{path}\n{who}"))
}

const GUARD: &str = "stored-credential";

fn jail(who: &str) -> Run {
    let run = Run::new().file(".git-credentials", "token\n");
    run.profile(&own(who)).with_events()
}

const OWNER: &str = "exe = \"/usr/bin/cat\"";
const PATHS: [&str; 2] = ["/workspace/.git-credentials", ".git-credentials"];

#[track_caller]
fn assert_killed(jail: &dyn Fn() -> Run, program: &[&str]) {
    let attack = Attack {
        jail,
        program,
        mark: "token",
        rule: GUARD,
        paths: &PATHS,
    };
    attack.is_survived();
}

#[test]
fn m09_its_credentials_are_the_programs_own() {
    let owner = jail(OWNER).run(&["cat", ".git-credentials"]);
    owner.expect_code(0);
    owner.expect(owner.stdout == "token\n", "the owner reads it");
    owner.expect(violations(&owner, GUARD).next().is_none(), "and may");
    assert_killed(&|| jail(OWNER), &["head", ".git-credentials"]);
}

/// Where no rule acts each of these works and is told as what the guard is for; where they act, those
/// that are `killed` are.
#[track_caller]
fn assert_all_are_guarded(jail: &dyn Fn() -> Run, scripts: &[&str], killed: &[&str]) {
    let all = scripts.join("\n");
    let control = jail().option("--mode observe").shell(&all);
    let worked = control.stdout.matches("token").count();
    control.expect(worked == scripts.len(), "the control: each works");
    let told: u64 = violations(&control, GUARD)
        .filter_map(|violation| violation["count"].as_u64().or(Some(1)))
        .sum();
    control.expect(told >= scripts.len() as u64, "and each is told");
    for script in killed {
        let ran = jail().shell(script);
        ran.expect_code(121);
        ran.expect(!ran.stdout.contains("token"), "without effect");
        ran.expect(violations(&ran, GUARD).next().is_some(), "and told");
    }
}

/// Who is not the owner, and seems to be.
const PRETENDERS: [&str; 5] = [
    "cp /usr/bin/head cat; ./cat .git-credentials",
    // M10: it is the loader that is executed.
    "/lib64/ld-linux-x86-64.so.2 /usr/bin/cat .git-credentials",
    "python3 -c \"import ctypes; ctypes.CDLL(None).prctl(15, b'cat'); print(open('.git-credentials').read())\"",
    "cp /usr/bin/cat copy; ./copy .git-credentials",
    // The owner's own name, and not the owner.
    "mkdir usr; cp /usr/bin/head usr/cat; cd usr; PATH=. cat ../.git-credentials; cd ..",
];

#[test]
fn m09_m10_a_pretender_is_not_the_program() {
    assert_all_are_guarded(&|| jail(OWNER), &PRETENDERS, &PRETENDERS[..3]);
}

#[test]
fn m11_a_copy_in_memory_is_not_the_program() {
    let program = "import os
fd = os.memfd_create('/usr/bin/cat')
os.write(fd, open('/usr/bin/cat', 'rb').read())
os.execve(fd, ['/usr/bin/cat', '.git-credentials'], {})";
    // The profile below has a rule of its own on programs in memory.
    let allowed = || {
        let rules = own(OWNER)
            + &rule(
                "in-memory",
                "exec",
                "allow",
                "flags = \"memfd\"\npath = \"memfd:**\"",
            );
        Run::new()
            .file(".git-credentials", "token\n")
            .profile(&rules)
    };
    assert_killed(&allowed, &["python3", "-c", program]);
}

/// What /proc shows as executed is the process's own to set, for who has the right.
#[test]
fn m09_what_proc_says_it_executes_decides_nothing() {
    let program = "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open('/usr/bin/cat', os.O_RDONLY)
print(libc.prctl(35, 13, fd, 0, 0), os.readlink('/proc/self/exe').startswith('/usr/bin/python'), flush=True)
print(open('.git-credentials').read())";
    let attack = Attack {
        jail: &|| jail(OWNER),
        program: &["python3", "-c", program],
        mark: "token",
        rule: GUARD,
        paths: &PATHS,
    };
    let control = attack.works_and_is_told();
    control.expect(
        control.stdout.starts_with("-1 True\n"),
        "nobody in a jail may set it",
    );
    attack.is_killed();
}

#[test]
fn m27_children_and_threads_are_who_their_process_is() {
    let program = "import os, threading
def read(): print(open('.git-credentials').read(), end='', flush=True)
thread = threading.Thread(target=read); thread.start(); thread.join()
if os.fork() == 0:
    if os.fork() == 0: read(); os._exit(0)
    os.wait(); os._exit(0)
os.wait()";
    let who = "exe = \"/usr/bin/python3*\"";
    let ran = jail(who).run(&["/usr/bin/python3", "-c", program]);
    ran.expect_code(0);
    ran.expect(ran.stdout == "token\ntoken\n", "both read");
    let replaced = "import os, threading
threading.Thread(target=lambda: os.execv('/usr/bin/head', ['head', '.git-credentials'])).start()";
    assert_killed(&|| jail(who), &["/usr/bin/python3", "-c", replaced]);
}

const SCRIPT: &str = "#!/bin/sh\nread token < /workspace/.git-credentials; echo $token\n";

#[test]
fn a_script_is_who_it_was_started_as() {
    let with_script = || {
        let run = jail("script = \"/workspace/run\"").file("run", SCRIPT);
        let run = run.file("other", SCRIPT);
        for name in ["run", "other"] {
            let path = run.path().join(name);
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(path, mode).expect("the file is ours");
        }
        run
    };
    let owner = with_script().shell("/workspace/run; ./run; exit $?");
    owner.expect_code(0);
    owner.expect(
        owner.stdout == "token\ntoken\n",
        "both ways it is the script",
    );
    let others = [
        // What `..` leads to behind a symlink, nobody knows.
        "mkdir -p d/d; ln -s d/d l; cp other d/run; ./l/../run",
        "cp run mine; ./mine",
        "./other",
        "sh ./run",
        "ln -s other else; ./else",
    ];
    assert_all_are_guarded(&with_script, &others, &others[..2]);
    // The first died because nobody knew which script it was, and everybody is told so.
    let is_told = |script: &str| {
        let ran = with_script().shell(script);
        ran.expect_code(121);
        let told = violations(&ran, GUARD).any(|row| row["actor_unknown"] == true);
        let mut decided = ran.events.iter().map(|event| &event["decision"]);
        let event = decided.any(|decision| decision["actor_unknown"] == true);
        let said = ran
            .stderr
            .contains("which program or script this was is not known");
        ran.expect((event, said) == (told, told), "everywhere or nowhere");
        told
    };
    assert!(is_told(others[0]), "of one that nobody knows");
    assert!(!is_told(others[1]), "of one that is known, and another");
}

#[test]
fn addresses_and_calls_are_asked_about_by_who_acts() {
    let by = |who: &str| {
        rule(
            "out",
            "connect",
            "kill",
            &format!("address = \"192.0.2.1\"\nexe = \"{who}\""),
        )
    };
    let program = "import socket
try: socket.socket().connect(('192.0.2.1', 80))
except OSError: pass
print('went on')";
    let python = "/usr/bin/python3*";
    let others = Run::new()
        .profile(&by("/usr/bin/cat"))
        .run(&["/usr/bin/python3", "-c", program]);
    others.expect_code(0);
    others.expect(others.stdout == "went on\n", "it is not meant");
    let meant = Run::new()
        .profile(&by(python))
        .run(&["/usr/bin/python3", "-c", program]);
    meant.expect_code(121);
    meant.expect(meant.stdout.is_empty(), "it is meant");
    meant.expect(violations(&meant, "out").next().is_some(), "and told");
}

/// What a run under no rules did, held against the profile afterwards: the owner may, and the other is named.
#[test]
fn diff_asks_the_rules_about_each_program() {
    let place = scratch();
    let profile = place.path().join("mine.toml").display().to_string();
    let head = "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"untrusted\"]\n";
    std::fs::write(&profile, format!("{head}{}", own(OWNER))).expect("the place is ours");
    let diff = |script: &str| {
        let run = Run::new().file(".git-credentials", "token\n");
        let ran = run.option("--mode observe").shell(script);
        ran.expect(ran.stdout.contains("token"), "it is read");
        let report = place.path().join("report.json").display().to_string();
        std::fs::write(&report, ran.report.to_string()).expect("the place is ours");
        let mut command = std::process::Command::new(binary());
        let output = command.args(["diff", &profile, &report]).output();
        let output = output.expect("turnkey can be started");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let (code, told) = diff("cat .git-credentials; cat .git-credentials");
    assert_eq!(code, Some(0), "{told}");
    let (code, told) = diff("cat .git-credentials; head .git-credentials");
    assert_eq!(code, Some(1), "{told}");
    let line = "read /workspace/.git-credentials (2 times, by head): rule `stored-credential` would kill it";
    assert!(told.contains(line), "{told}");
    assert!(!told.contains("by cat"), "{told}");
}

/// What is loaded into an allowed program, and acts as it.
const PLUG_IN: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static void act(void)
{
    char text[64];
    int file = open("/workspace/.git-credentials", O_RDONLY);
    ssize_t length = read(file, text, sizeof text);
    write(1, text, length > 0 ? length : 0);
    _exit(0);
}
unsigned la_version(unsigned version) { act(); return version; }
void gconv_init(void) { act(); }
__attribute__((constructor)) static void begin(void) { if (getenv("ACT")) act(); }
"#;

#[test]
fn j20_what_is_loaded_into_the_program_is_not_the_program() {
    let place = scratch();
    let source = place.path().join("plug.c");
    std::fs::write(&source, PLUG_IN).unwrap();
    let built = place.path().join("plug.so");
    let (status, _) = turnkey_tests::outside(
        "cc",
        &[
            "-shared",
            "-fPIC",
            "-o",
            built.to_str().unwrap(),
            source.to_str().unwrap(),
        ],
    );
    assert!(status.success(), "it compiles");
    let jail = || {
        let run = jail("exe = [\"/usr/bin/cat\", \"/usr/bin/iconv\"]");
        std::fs::copy(&built, run.path().join("EVIL.so")).unwrap();
        run.file(
            "gconv-modules",
            "module EVIL// INTERNAL EVIL 1\nmodule INTERNAL EVIL// EVIL 1\n",
        )
    };
    let owner = jail().shell("cat .git-credentials");
    owner.expect(owner.stdout == "token\n", "the program itself may");
    for script in [
        "ACT=1 LD_PRELOAD=/workspace/EVIL.so cat .git-credentials",
        "LD_AUDIT=/workspace/EVIL.so cat .git-credentials",
        "GCONV_PATH=/workspace ACT=1 iconv -f EVIL -t UTF-8 /dev/null",
    ] {
        let control = jail().option("--mode observe").shell(script);
        control.expect(control.stdout.contains("token"), "the control: it reads");
        let ran = jail().shell(script);
        ran.expect_code(121);
        ran.expect(!ran.stdout.contains("token"), script);
        ran.expect(violations(&ran, GUARD).next().is_some(), "and it is told");
    }
}

/// Memory that the program makes executable itself, as for code that it compiles, is its own; what others can write is not.
#[test]
fn j20_code_that_others_can_write_is_not_the_program_by_whatever_call() {
    const HEAD: &str = "import ctypes, os, mmap
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
page = b'\\xc3' * 4096
open('code', 'wb').write(page)
def by_protection(file):
    place = libc.mmap(None, 4096, 1, 2, file, 0)
    if libc.mprotect(place, 4096, 5): raise OSError('not protected')
def in_memory():
    file = os.memfd_create('code'); os.write(file, page)
    return os.open('/proc/self/fd/%d' % file, os.O_RDONLY)
";
    const READ: &str = "\nprint(open('.git-credentials').read())";
    let python = std::fs::canonicalize("/usr/bin/python3").unwrap();
    let jail = || jail(&format!("exe = \"{}\"", python.display()));
    let own = jail().python(&format!("{HEAD}mmap.mmap(-1, 4096, 0x22, 7){READ}"));
    own.expect(own.stdout == "token\n\n", "the program itself may");
    for way in [
        "by_protection(os.open('code', os.O_RDONLY))",
        "libc.mmap(None, 4096, 5, 2, in_memory(), 0)",
        "mmap.mmap(-1, 4096, 0x21, 5)",
    ] {
        let ran = jail().python(&format!("{HEAD}{way}{READ}"));
        ran.expect_code(121);
        ran.expect(!ran.stdout.contains("token"), way);
        ran.expect(violations(&ran, GUARD).next().is_some(), "and it is told");
    }
}
