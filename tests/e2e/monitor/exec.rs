//! A program under another name, from no name at all, or from a thread.

use turnkey_expectations::expected;
use turnkey_tests::Run;

use super::{Attack, events, guard, only, rule, times, violations};

const THREAD: &str = include_str!("../../attacks/thread.c");
const FIRST: &str = include_str!("../../attacks/first.c");

const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// Where a path of the host leads.
fn resolved(path: &str) -> String {
    let path = std::fs::canonicalize(path).expect("it is there");
    path.to_str().expect("a plain name").to_owned()
}

fn python() -> String {
    resolved("/usr/bin/python3")
}

#[test]
fn m09_a_copy_of_a_program_is_not_on_the_list() {
    let listed = only(&[
        &resolved("/bin/sh"),
        "/usr/bin/cp",
        "/usr/bin/mv",
        "/usr/bin/ln",
    ]);
    for (copy, path) in [
        // Under the name of one that is listed, too.
        ("cp /usr/bin/echo cp", "/workspace/cp"),
        (
            "cp /usr/bin/echo first; mv first second; exec ./second done",
            "/workspace/second",
        ),
        ("ln -s /usr/bin/echo cp", "/usr/bin/echo"),
    ] {
        let script = format!("{copy}; ./cp done");
        let attack = Attack {
            jail: &|| Run::new().profile(&listed),
            program: &["/bin/sh", "-c", &script],
            mark: "done\n",
            rule: "unlisted",
            paths: &[path, "./cp", "./second"],
        };
        attack.is_survived();
    }
}

#[test]
fn m10_a_program_that_the_loader_starts_is_not_on_the_list_either() {
    let script = format!("{LOADER} /usr/bin/echo done");
    let loader = resolved(LOADER);
    let listed = only(&[&resolved("/bin/sh")]);
    let attack = Attack {
        jail: &|| Run::new().profile(&listed),
        program: &["/bin/sh", "-c", &script],
        mark: "done\n",
        rule: "unlisted",
        paths: &[&loader, LOADER],
    };
    attack.is_survived();
}

#[test]
fn m10_a_program_that_the_loader_starts_is_opened_under_its_name() {
    let script = format!("{LOADER} /usr/bin/echo done");
    let exec = rule("echo", "exec", "kill", "path = \"/usr/bin/echo\"");
    let control = Run::new().profile(&exec).shell(&script);
    control.expect(
        control.stdout == "done\n",
        "the control: a rule on exec alone",
    );
    control.expect(
        times(&control, "/usr/bin/echo", "allowed") == 1,
        "it was opened",
    );
    let attack = Attack {
        jail: &|| Run::new().profile(&guard("/usr/bin/echo")),
        program: &["/bin/sh", "-c", &script],
        mark: "done\n",
        rule: "guard",
        paths: &["/usr/bin/echo"],
    };
    attack.is_survived();
}

/// Programs without a name: what they are called, how they are made, and how they show.
const NAMELESS: [(&str, &str, &str); 3] = [
    (
        "memory",
        "fd = os.memfd_create('payload'); os.write(fd, echo)",
        "memfd:payload",
    ),
    (
        "deleted",
        "fd = os.open('gone', os.O_RDWR | os.O_CREAT, 0o700); os.write(fd, echo); os.close(fd)
fd = os.open('gone', os.O_RDONLY); os.unlink('gone')",
        "/workspace/gone",
    ),
    (
        "unnamed",
        "file = os.open('/tmp', os.O_RDWR | os.O_TMPFILE, 0o700); os.write(file, echo)
fd = os.open(f'/proc/self/fd/{file}', os.O_RDONLY); os.close(file)",
        "/tmp/",
    ),
];

/// Makes a program whose loader is the memory file that is its descriptor 7, and executes it.
const NAMELESS_LOADER: &str = "
import os
usual, program = b'/lib64/ld-linux-x86-64.so.2', open('/usr/bin/echo', 'rb').read()
assert usual in program
with open('program', 'wb') as file:
    file.write(program.replace(usual, b'/proc/self/fd/7'.ljust(len(usual), bytes(1))))
os.chmod('program', 0o700)
memory = os.memfd_create('loader', 0)
os.write(memory, open(usual, 'rb').read())
os.dup2(memory, 7, inheritable=True)
os.execv('program', ['echo', 'done'])";

/// The loader is the first code that runs, whatever file the program is.
#[test]
fn a_loader_without_a_name_is_a_program_of_its_own() {
    let program = ["python3", "-c", NAMELESS_LOADER];
    let listed = only(&[&python(), "/workspace/program"]);
    let attack = Attack {
        jail: &|| Run::new().profile(&listed),
        program: &program,
        mark: "done",
        rule: "memory-exec",
        paths: &["memfd:loader"],
    };
    attack.is_survived();
    // With a loader of the system's the same program is on the list.
    let usual = NAMELESS_LOADER.replace("b'/proc/self/fd/7'", "usual");
    let ran = Run::new().profile(&listed).python(&usual);
    ran.expect(ran.stdout == "done\n" && ran.code == 0, "the control");
}

/// Makes a program whose loader is a file in shared memory, as long as the usual one's path, and executes it.
const LOADER_IN_MEMORY: &str = "
import os
program, usual = open('/usr/bin/echo', 'rb').read(), b'/lib64/ld-linux-x86-64.so.2'
loader = b'/dev/shm/LD'
assert usual in program
with open(loader, 'wb') as file: file.write(open(usual, 'rb').read())
with open('program', 'wb') as file: file.write(program.replace(usual, loader.ljust(len(usual), bytes(1))))
for path in (loader, 'program'): os.chmod(path, 0o700)
os.execv('program', ['echo', 'done'])";

#[test]
fn m10_a_loader_that_the_jail_made_is_a_program_of_its_own() {
    let control = Run::new().option("--mode observe").python(LOADER_IN_MEMORY);
    control.expect(
        control.stdout == "done\n",
        "the control: it loads the program",
    );
    let ran = Run::new().python(LOADER_IN_MEMORY);
    ran.expect_code(121);
    ran.expect(ran.stdout.is_empty(), "it runs nothing");
    ran.expect(violations(&ran, "memory-exec").count() > 0, "it is told");
    let usual = LOADER_IN_MEMORY
        .replace("b'/dev/shm/LD'", "usual")
        .replace("open(loader, 'wb')", "open('x', 'wb')")
        .replace("(loader, 'program')", "('program',)");
    let ran = Run::new().python(&usual);
    ran.expect(ran.stdout == "done\n", "the usual one is none");
}

/// Makes a program whose stack is executable, by the flags of its `PT_GNU_STACK` in elf(5), and executes it.
const EXECUTABLE_STACK: &str = "
import os, struct
program = bytearray(open('/usr/bin/echo', 'rb').read())
first, = struct.unpack_from('<Q', program, 32)
size, count = struct.unpack_from('<HH', program, 54)
for at in range(first, first + size * count, size):
    kind, flags = struct.unpack_from('<II', program, at)
    if kind == 0x6474e551:
        struct.pack_into('<I', program, at + 4, flags | FLAG)
with open('program', 'wb') as file:
    file.write(program)
os.chmod('program', 0o700)
os.execv('program', ['echo', 'done'])";

#[test]
fn an_executable_stack_is_code_in_no_file() {
    let no_code = rule("no-code", "map", "kill", "");
    let program = EXECUTABLE_STACK.replace("FLAG", "1");
    let attack = Attack {
        jail: &|| Run::new().profile(&no_code),
        program: &["python3", "-c", &program],
        mark: "done",
        rule: "no-code",
        paths: &[""],
    };
    attack.is_survived();
    let usual = EXECUTABLE_STACK.replace("FLAG", "0");
    let ran = Run::new().profile(&no_code).python(&usual);
    ran.expect(ran.stdout == "done\n" && ran.code == 0, "the control");
}

/// Makes a program of which a loaded part is executable and written to, and executes it. Of which one, its flags say: it is what the
/// part has without.
const WRITTEN_CODE: &str = "
import os, struct
program = bytearray(open('/usr/bin/echo', 'rb').read())
first, = struct.unpack_from('<Q', program, 32)
size, count = struct.unpack_from('<HH', program, 54)
for at in range(first, first + size * count, size):
    kind, flags = struct.unpack_from('<II', program, at)
    if kind == 1 and flags == OF:
        struct.pack_into('<I', program, at + 4, 7)
with open('program', 'wb') as file:
    file.write(program)
os.chmod('program', 0o700)
os.execv('program', ['echo', 'done'])";

#[test]
fn a_part_of_a_program_that_is_written_to_is_code_in_no_file() {
    let no_code = rule("no-code", "map", "kill", "");
    // Its code, and its data with what is behind them.
    for of in ["5", "6"] {
        let program = WRITTEN_CODE.replace("OF", of);
        let attack = Attack {
            jail: &|| Run::new().profile(&no_code),
            program: &["python3", "-c", &program],
            mark: "done",
            rule: "no-code",
            paths: &[""],
        };
        attack.is_survived();
    }
}

#[test]
fn m11_a_program_without_a_name_is_not_on_the_list_and_shows_as_such() {
    let listed = only(&[&python()]);
    for (what, made, path) in NAMELESS {
        let program = format!(
            "import os\necho = open('/usr/bin/echo', 'rb').read()\n{made}\nos.execve(fd, ['echo', 'done'], {{}})"
        );
        let jail = || Run::new().profile(&listed).with_events();
        let control = jail().option("--mode observe").python(&program);
        control.expect(control.stdout == "done\n", what);
        let shows = events(&control, "exec").any(|event| {
            let called = event["exe"]["path"].as_str().unwrap_or_default();
            event["exe"]["unlinked"] == true && called.starts_with(path)
        });
        control.expect(shows, "the control: it shows as unlinked");
        let ran = jail().python(&program);
        ran.expect_code(121);
        ran.expect(ran.stdout.is_empty(), what);
        // The profile below has a rule of its own on memory.
        let told = ran.violations().iter().any(|violation| {
            let called = violation["path"].as_str().unwrap_or_default();
            called.starts_with(path)
        });
        ran.expect(told, "and it is told");
    }
}

/// Ways to have an interpreter do what a file says.
const ROUTES: [(&str, &str); 7] = [
    ("python3 evil.py", "/workspace/evil.py"),
    ("sh < evil.sh", "/workspace/evil.sh"),
    ("exec 5< evil.sh; sh /dev/fd/5", "/workspace/evil.sh"),
    (". ./evil.sh", "/workspace/evil.sh"),
    ("./evil.sh", "/workspace/evil.sh"),
    ("cat evil.sh | sh", "/workspace/evil.sh"),
    (
        "python3 -c \"exec(open('evil.py').read())\"",
        "/workspace/evil.py",
    ),
];

expected!(
    m12_a_script_is_seen_by_whatever_route_it_reaches_its_interpreter,
    m12_code_without_a_file_is_in_the_arguments: not_on [ORDINARY_6_12],
    "a run for each route to an interpreter; the hook is the one of the other \
     `monitor::exec::`"
);
#[test]
fn m12_a_script_is_seen_by_whatever_route_it_reaches_its_interpreter() {
    let jail = || {
        let run = Run::new().file("evil.py", "print('evil ran', flush=True)\n");
        let script = run.path().join("evil.sh");
        std::fs::write(&script, "#!/bin/sh\necho evil ran\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).unwrap();
        run.profile(&guard("/workspace/evil.*"))
    };
    let all = ROUTES.map(|(route, _)| format!("( {route} )")).join("\n");
    let control = jail().option("--mode observe").shell(&all);
    let worked = control.stdout.matches("evil ran").count();
    control.expect(worked == ROUTES.len(), "the control: each works");
    for (route, path) in ROUTES {
        let attack = Attack {
            jail: &jail,
            program: &["/bin/sh", "-c", route],
            mark: "evil ran",
            rule: "guard",
            paths: &[path],
        };
        attack.is_killed();
    }
}

/// What answers for a script where arguments are all that is known.
#[derive(Clone, Copy, PartialEq)]
enum Answers {
    ItsRule,
    /// The strictest rule of all, as the name may be that of any file.
    Strictest,
    Nobody,
}

/// Ways to execute the script `there/evil.sh`, or one whose interpreter that is, as expressions of Python.
const STARTS: [(&str, Answers); 12] = [
    ("execute('there/evil.sh')", Answers::ItsRule),
    ("execute('/workspace/there/evil.sh')", Answers::ItsRule),
    ("execute('./there/../there/evil.sh')", Answers::ItsRule),
    ("os.chdir('there') or execute('evil.sh')", Answers::ItsRule),
    ("execute(f'/proc/self/fd/{opened()}')", Answers::ItsRule),
    ("execute(f'/dev/fd/{opened()}')", Answers::ItsRule),
    (
        "libc.execveat(opened(), b'', argv, None, 0x1000)",
        Answers::ItsRule,
    ),
    (
        "threading.Thread(target=lambda: execute('there/evil.sh')).start() or time.sleep(9)",
        Answers::ItsRule,
    ),
    (
        "execute(f'/proc/{os.getpid()}/fd/{opened()}')",
        Answers::Strictest,
    ),
    (
        "execute('/proc/self/cwd/there/evil.sh')",
        Answers::Strictest,
    ),
    (
        "os.symlink('there/evil.sh', 'linked') or execute('linked')",
        Answers::Nobody,
    ),
    ("execute('started')", Answers::Nobody),
];

/// Prints what the script printed that was started in a way.
fn start_of(way: &str) -> String {
    format!(
        "import ctypes, os, sys, threading, time
libc, argv = ctypes.CDLL(None), (ctypes.c_char_p * 2)(b'evil', None)
with open('started', 'w') as file: file.write('#!/workspace/there/evil.sh\\n')
os.chmod('started', 0o755)
def opened():
    number = os.open('there/evil.sh', os.O_RDONLY)
    os.set_inheritable(number, True)
    return number
def execute(name): os.execv(name, ['evil'])
{way}"
    )
}

expected!(m12_a_script_is_its_rules_by_whatever_name_it_is_started: on [TRACEPOINT_6_1, NEWEST_TRACEPOINT]);
#[test]
fn m12_a_script_is_its_rules_by_whatever_name_it_is_started() {
    for (way, answers) in STARTS {
        let jail = |mode: &str, action: &str| {
            let run = Run::new().option(mode);
            let there = run.path().join("there");
            std::fs::create_dir(&there).unwrap();
            turnkey_tests::open_to_all(&there);
            let script = there.join("evil.sh");
            std::fs::write(&script, "#!/bin/sh\necho evil ran\n").unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&script, mode).unwrap();
            let path = "path = \"/workspace/there/evil.sh\"";
            let run = run.profile(&rule("evil", "exec", action, path));
            run.python(&start_of(way))
        };
        let noted = jail("--mode observe", "kill");
        noted.expect(noted.stdout == "evil ran\n", &format!("the control: {way}"));
        let ran = jail("--mode enforce", "kill");
        let answers = if super::symlinks::by_arguments(&ran) {
            answers
        } else {
            Answers::ItsRule
        };
        if answers == Answers::Nobody {
            ran.expect(
                ran.stdout == "evil ran\n",
                &format!("docs/profile.md says so: {way}"),
            );
            continue;
        }
        ran.expect_code(121);
        ran.expect(ran.stdout.is_empty(), &format!("it does not run: {way}"));
        if answers == Answers::ItsRule {
            for ran in [ran, noted, jail("--mode enforce", "log")] {
                let told = violations(&ran, "evil").filter(|one| one["on"] == "exec");
                let told = told.count();
                // Where one program kills and another one tells (0023), an attempt and the exec are told.
                let is_told = told == 1 || ran.code == 121 && told == 2;
                ran.expect(is_told, &format!("it is told once: {way}"));
            }
        }
    }
}

/// A program that is in memory alone is as forbidden when it is a script.
#[test]
fn m10_a_script_in_memory_alone_is_not_executed() {
    for name in [
        "/proc/self/fd/{fd}",
        "/dev/fd/{fd}",
        "/proc/{os.getpid()}/fd/{fd}",
    ] {
        let program = format!(
            "import os
fd = os.memfd_create('made', 0)
os.write(fd, b'#!/bin/sh\\necho evil ran\\n')
os.execv(f'{name}', ['evil'])"
        );
        let control = Run::new().option("--mode observe").python(&program);
        control.expect(control.stdout == "evil ran\n", "the control: it runs");
        let ran = Run::new().python(&program);
        ran.expect_code(121);
        ran.expect(ran.stdout.is_empty(), &format!("it does not run: {name}"));
        ran.expect(violations(&ran, "memory-exec").count() == 1, "it is told");
    }
}

#[test]
fn m12_code_without_a_file_is_in_the_arguments() {
    let ran = Run::new().shell("python3 -c 'print(\"evil ran\")'; sh -c 'echo evil ran'");
    ran.expect(ran.stdout == "evil ran\nevil ran\n", "it runs");
    for code in ["print(\"evil ran\")", "echo evil ran"] {
        let shows = ran
            .list("/processes")
            .iter()
            .any(|process| process["argv"][2] == code);
        ran.expect(shows, code);
    }
}

#[test]
fn m27_j63_a_thread_that_is_not_the_first_acts_for_its_process() {
    let jail = || {
        let run = Run::new().compiled("thread", THREAD).with_events();
        run.profile(&rule("echo", "exec", "kill", "path = \"/usr/bin/echo\""))
    };
    let attack = Attack {
        jail: &jail,
        program: &["./thread"],
        mark: "executed",
        rule: "echo",
        paths: &["/usr/bin/echo"],
    };
    let control = attack.works_and_is_told();
    let killed = attack.is_killed();
    for ran in [&control, &killed] {
        let setuid = events(ran, "refused").find(|event| event["syscall"] == "setuid");
        let setuid = setuid.cloned().unwrap_or_default();
        let process = &setuid["process"];
        ran.expect(setuid["errno"] == "EPERM", "nobody else can be become");
        ran.expect(process["host_tid"] != process["host_pid"], "by a thread");
        ran.expect(process["pid"] == 2, "of the program's process");
        let change = violations(ran, "change-of-user").next();
        ran.expect(
            change.is_some_and(|one| one["process"]["pid"] == 2),
            "and it is told",
        );
        ran.expect(!ran.stdout.contains("became root"), "without effect");
    }
    let exec = events(&control, "exec").find(|event| event["exe"]["path"] == "/usr/bin/echo");
    let exec = exec.cloned().unwrap_or_default();
    control.expect(
        exec["process"]["pid"] == 2,
        "the new image is the same process",
    );
}

#[test]
fn j66_the_first_instruction_is_watched() {
    let jail = || {
        let run = Run::new().with_events();
        let source = run.path().join("first.c");
        std::fs::write(&source, FIRST).unwrap();
        let program = run.path().join("first").display().to_string();
        let flags = [
            "-O1",
            "-static",
            "-nostdlib",
            "-o",
            &program,
            source.to_str().unwrap(),
        ];
        let (status, _) = turnkey_tests::outside("cc", &flags);
        assert!(status.success(), "it compiles");
        run
    };
    let attack = Attack {
        jail: &jail,
        program: &["./first"],
        mark: "opened",
        rule: "credential-file",
        paths: &["/etc/shadow"],
    };
    for ran in [attack.works_and_is_told(), attack.is_killed()] {
        ran.expect(ran.at("/events/complete") == true, "nothing is missing");
        let numbers = ran.events.iter().map(|event| event["seq"].as_u64());
        let whole = numbers.eq((0..ran.events.len() as u64).map(Some));
        ran.expect(whole, "from the first event on");
        let program = |event: &&serde_json::Value| event["process"]["pid"] == 2;
        let mut kinds = ran
            .events
            .iter()
            .filter(program)
            .map(|event| &event["kind"]);
        ran.expect(
            kinds.next().is_some_and(|kind| kind == "exec"),
            "it was started",
        );
        ran.expect(
            kinds.next().is_some_and(|kind| kind == "open"),
            "and did that",
        );
    }
}

#[test]
fn a_script_and_what_interprets_it_are_both_told() {
    let run = Run::new()
        .with_events()
        .file("inner", "#!/bin/sh\necho said\n");
    let script = run.path().join("inner");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).expect("a test owns its directory");
    let ran = run.shell("./inner; /bin/true");
    ran.expect_code(0);
    ran.expect(ran.stdout == "said\n", "it ran");
    let of = |name: &str| {
        let mut rows = ran.list("/processes").iter();
        let row = rows.find(|row| row["comm"] == name);
        row.unwrap_or_else(|| panic!("{name} is told"))
    };
    let inner = of("inner");
    ran.expect(inner["script"] == "./inner", "the script");
    let interpreter = inner["exe"]["path"].as_str().unwrap_or_default();
    ran.expect(interpreter.ends_with("sh"), "its interpreter");
    ran.expect(of("true").get("script").is_none(), "a program is no script");
    let scripts = ran.events.iter().filter(|event| event["script"] == true);
    ran.expect(scripts.count() == 1, "one of the events");
}
