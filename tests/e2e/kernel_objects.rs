//! What no namespace splits, and what would look past the jail: J34, J38, J39, J41 to J43, J45.

use std::collections::BTreeMap;
use std::process::Stdio;

use turnkey_policy::syscalls;
use turnkey_tests::{Ran, Run, as_nobody, in_the_guest, measured, open_to_all, outside, scratch};

/// The answers of an attack program: what was tried, and the error number or `done`.
fn answers(text: &str) -> BTreeMap<&str, &str> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .collect()
}

#[track_caller]
fn expect_all(ran: &Ran, count: usize) {
    let seen = answers(&ran.stdout);
    ran.expect(seen.len() == count, "the program came to its end");
    for (name, told) in seen {
        let answer = match syscalls::ABSENT.contains(&name) {
            true => libc::ENOSYS,
            false => libc::EPERM,
        };
        ran.expect(told == answer.to_string(), name);
    }
}

/// Every call of J43 succeeds outside, each in mounts and namespaces of its own.
#[test]
pub fn j43_nothing_is_mounted_made_or_joined() {
    const FORBIDDEN: &str = include_str!("../attacks/forbidden.py");
    let (_, told) = outside("python3", &["-c", FORBIDDEN, "apart"]);
    let control = answers(&told);
    // Twelve of mounts, four of devices; time has no flag of clone(2).
    assert_eq!(control.len(), 12 + 4 + 8 * 3 - 1, "{told}");
    for (name, answer) in &control {
        assert_eq!(*answer, "done", "the control: {name} {told}");
    }
    let ran = Run::new().option("--unmonitored").python(FORBIDDEN);
    expect_all(&ran, control.len());
}

/// What takes a capability to do to a child or a file of one's own, on some hosts at least: counters
/// are a matter of `kernel.perf_event_paranoid`. Any user does the others.
const TAKES_ROOT: [&str; 6] = [
    "perf_event_open",
    "process_madvise",
    "bpf",
    "open_by_handle_at",
    "syslog",
    "acct",
];

/// What would change the machine if it succeeded. Outside, the attempt gets past the question who
/// asks, to the one what for, and fails on that: no module, no such one, flags that no kernel has,
/// no such file. That is another error than the jail's, and as far as a test goes.
const FAILS_ON_ITS_ARGUMENTS: [(&str, i32); 6] = [
    ("init_module", libc::ENOEXEC),
    ("finit_module", libc::EBADF),
    ("delete_module", libc::ENOENT),
    ("kexec_load", libc::EINVAL),
    ("kexec_file_load", libc::EBADF),
    ("swapoff", libc::ENOENT),
];

/// Kernels are built without these, except the guest's.
const NOT_EVERYWHERE: [&str; 6] = [
    "iopl",
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "kexec_file_load",
];

/// Linux has it no more, since 6.7. The number is refused all the same.
const GONE: &str = "lookup_dcookie";

/// What the control run of a call has to answer.
fn expected_outside(name: &str, answer: &str) -> String {
    let is_absent = answer == libc::ENOSYS.to_string();
    if is_absent && (name == GONE || NOT_EVERYWHERE.contains(&name) && !in_the_guest()) {
        measured(&format!(
            "this kernel has no {name}, so it has no control here"
        ));
        return answer.to_owned();
    }
    let fails = FAILS_ON_ITS_ARGUMENTS.iter().find(|(it, _)| *it == name);
    fails.map_or_else(|| String::from("done"), |(_, error)| error.to_string())
}

#[test]
pub fn j45_nothing_looks_into_others_or_drives_the_kernel() {
    const DANGEROUS: &str = include_str!("../attacks/dangerous.py");
    // Root, where process accounting is its own to switch off.
    let apart = ["--pid", "--fork", "--mount-proc", "--ipc", "--net"];
    let program = ["/usr/bin/python3", "-c", DANGEROUS];
    let (_, told) = outside("unshare", &[&apart[..], &program].concat());
    let control = answers(&told);
    assert_eq!(control.len(), 32, "the program came to its end: {told}");
    for (name, answer) in &control {
        let expected = expected_outside(name, answer);
        assert_eq!(*answer, expected, "the control: {name} {told}");
    }
    let (_, by_nobody) = as_nobody(program[0], &program[1..]);
    for (name, answer) in answers(&by_nobody) {
        let needs_more = TAKES_ROOT.contains(&name) || control[name] != "done";
        assert!(
            needs_more || answer == "done",
            "the control by nobody: {name} {by_nobody}"
        );
    }
    let ran = Run::new().option("--unmonitored").python(DANGEROUS);
    expect_all(&ran, control.len());
}

/// Leaves a key, or looks for one and takes it away.
const KEYS: &str = "import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
ADD, CONTROL, SEARCH, INVALIDATE = 248, 250, 10, 21
what, name = sys.argv[1], sys.argv[2].encode()
for ring in (-3, -4, -5):
    if what == 'leave':
        libc.syscall(ADD, b'user', name, b'message', 7, ring)
    else:
        key = libc.syscall(CONTROL, SEARCH, ring, b'user', name, 0)
        if key > 0:
            print('found')
            libc.syscall(CONTROL, INVALIDATE, key)
print(ctypes.get_errno())";

#[test]
pub fn j34_no_key_is_left_for_a_later_run() {
    let name = format!("turnkey-test-{}", std::process::id());
    let arguments = |what: &'static str| ["-c", KEYS, what, &name].map(str::to_owned);
    let control = |what| {
        let arguments = arguments(what);
        as_nobody(
            "/usr/bin/python3",
            &arguments.each_ref().map(String::as_str),
        )
        .1
    };
    control("leave");
    assert!(
        control("look").contains("found"),
        "the control: outside the next process finds it"
    );
    let inside = |what| {
        let arguments = arguments(what);
        let words: Vec<&str> = ["python3"]
            .into_iter()
            .chain(arguments.iter().map(String::as_str))
            .collect();
        Run::new().option("--unmonitored").run(&words)
    };
    let left = inside("leave");
    left.expect(left.stdout == "1\n", "EPERM");
    let looked = inside("look");
    looked.expect(looked.stdout == "1\n", "EPERM, and nothing found");
}

/// A jail that has done something and stays until its input ends.
struct Standing {
    child: std::process::Child,
    _run: Run,
}

impl Standing {
    fn start(program: &str) -> Standing {
        use std::io::{BufRead, BufReader};
        let run = Run::new().option("--unmonitored");
        let program =
            format!("{program}\nimport sys\nprint('standing', flush=True)\nsys.stdin.read()");
        let mut command = run.command(&["python3", "-c", &program]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a jail that stands");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("it speaks"))
            .read_line(&mut line)
            .expect("a jail that stands");
        assert_eq!(line, "standing\n");
        Standing { child, _run: run }
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(turnkey_tests::finish(self.child).status.success());
    }
}

const LEAVE_SHARED: &str = "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
segment = libc.shmget(KEY, 4096, 0o1666)
queue = libc.msgget(KEY, 0o1666)
libc.mq_open.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
mail = libc.mq_open(b'/turnkey-KEY', os.O_CREAT | os.O_RDWR, 0o666, None)
open('/dev/shm/turnkey-KEY', 'w').write('message')
# Inside, Landlock refuses POSIX queues altogether: they are files of no place of the tree.
assert min(segment, queue) >= 0 and (mail >= 0 or os.getuid() == 1000), ctypes.get_errno()";

const LOOK_FOR_SHARED: &str = "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mq_open.argtypes = [ctypes.c_char_p, ctypes.c_int]
print(libc.shmget(KEY, 0, 0) >= 0, libc.msgget(KEY, 0) >= 0,
    libc.mq_open(b'/turnkey-KEY', os.O_RDWR) >= 0, os.path.exists('/dev/shm/turnkey-KEY'))";

const TAKE_SHARED_AWAY: &str = "
libc.shmctl(libc.shmget(KEY, 0, 0), 0, None); libc.msgctl(libc.msgget(KEY, 0), 0, None)
libc.mq_unlink(b'/turnkey-KEY'); os.unlink('/dev/shm/turnkey-KEY')";

#[test]
pub fn j39_memory_and_queues_are_the_jails_own() {
    // A key that only this test has.
    let key = (0x7475_0000 | std::process::id() & 0xffff).to_string();
    let with_key = |program: &str| program.replace("KEY", &key);
    let look = with_key(LOOK_FOR_SHARED);
    let (status, _) = outside("python3", &["-c", &with_key(LEAVE_SHARED)]);
    assert!(status.success());
    let (_, told) = outside(
        "python3",
        &["-c", &format!("{look}{}", with_key(TAKE_SHARED_AWAY))],
    );
    assert_eq!(
        told, "True True True True\n",
        "the control: outside the next process finds all"
    );
    let first = Standing::start(&with_key(LEAVE_SHARED));
    let second = Run::new().option("--unmonitored").python(&look);
    second.expect(
        second.stdout == "False False False False\n",
        "another jail finds nothing",
    );
    let (_, told) = outside("python3", &["-c", &look]);
    assert_eq!(told, "False False False False\n", "nor does the host");
    first.end();
}

/// SECURITY.md says so, and that it is not for lack of a place: Landlock has no rule for queues.
#[test]
fn j39_a_posix_queue_is_not_to_be_had() {
    let program = "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mq_open.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
print(libc.mq_open(b'/turnkey-own', os.O_CREAT | os.O_RDWR, 0o666, None) >= 0, ctypes.get_errno())";
    let arguments = ["-Uri", "python3", "-c", program];
    let (_, told) = outside("unshare", &arguments);
    assert_eq!(told, "True 0\n", "the control: in a namespace of one's own");
    let ran = Run::new().option("--unmonitored").python(program);
    ran.expect(ran.stdout == "False 13\n", "EACCES");
}

const LEASE: &str = "import fcntl, os, sys
path = sys.argv[1]
fd = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
for command, argument, where in ((fcntl.F_SETLEASE, fcntl.F_WRLCK, fd), (fcntl.F_NOTIFY, fcntl.DN_ACCESS, os.open('/usr', os.O_RDONLY))):
    try:
        fcntl.fcntl(where, command, argument)
        print('taken')
    except OSError as error: print(error.errno)";

#[test]
pub fn j38_nobody_is_made_to_wait_by_a_lease() {
    let shared = scratch();
    let path = shared.path().join("file").display().to_string();
    let (_, told) = outside("python3", &["-c", LEASE, &path]);
    assert_eq!(told, "taken\ntaken\n", "the control");
    let option = format!("--unmonitored --write {}", shared.path().display());
    let ran = Run::new()
        .option(&option)
        .run(&["python3", "-c", LEASE, &path]);
    ran.expect(
        ran.stdout == "22\n22\n",
        "EINVAL, as from a kernel without leases",
    );
}

/// SECURITY.md has it out of scope; this shows that what it says is so.
#[test]
fn j38_a_lock_on_a_file_that_two_jails_see_is_a_channel() {
    let lock = "import fcntl\nfile = open('/usr/bin/env', 'rb')\n";
    let take = format!("{lock}fcntl.flock(file, fcntl.LOCK_EX)");
    let try_it = format!(
        "{lock}try:\n    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n    print('free')\nexcept BlockingIOError: print('held')"
    );
    let first = Standing::start(&take);
    let while_held = Run::new().option("--unmonitored").python(&try_it);
    first.end();
    let afterwards = Run::new().option("--unmonitored").python(&try_it);
    while_held.expect(while_held.stdout == "held\n", "seen by the other jail");
    afterwards.expect(afterwards.stdout == "free\n", "the control");
}

/// Has the kernel run a program as root when a group is left empty: cgroups(7), version 1.
const RELEASE_AGENT: &str = "import ctypes, os, sys, time
place = '/tmp/hierarchy'
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs(place + '/group', exist_ok=True)
print(libc.mount(b'none', place.encode(), b'cgroup', 0, b'none,name=turnkey-test'), flush=True)
def write(name, text):
    with open(place + name, 'w') as file: file.write(text)
os.makedirs(place + '/group', exist_ok=True)
write('/release_agent', sys.argv[1])
write('/group/notify_on_release', '1')
if os.fork() == 0:
    write('/group/cgroup.procs', '0')
    os._exit(0)
os.wait()
time.sleep(0.5)
os.rmdir(place + '/group')
libc.umount(place.encode())";

/// A hierarchy is one of the whole machine while it is there: only the guest's is ours.
#[test]
fn j42_no_release_agent_runs_on_the_host() {
    let directory = scratch();
    open_to_all(directory.path());
    let (agent, mark) = (
        directory.path().join("agent"),
        directory.path().join("released"),
    );
    std::fs::write(&agent, format!("#!/bin/sh\nid -u > {}\n", mark.display())).unwrap();
    open_to_all(&agent);
    let path = agent.display().to_string();
    let program = ["python3", "-c", RELEASE_AGENT, &path];
    let ran = Run::new().option("--unmonitored").run(&program);
    ran.expect(ran.stdout == "-1\n", "no hierarchy is mounted");
    if in_the_guest() {
        assert!(!mark.exists(), "no agent ran");
        let (_, told) = outside("unshare", &[&["--mount"], &program[..]].concat());
        assert_eq!(told, "0\n", "the control: outside it is");
        turnkey_tests::eventually("the control: the agent runs, as root", || {
            std::fs::read_to_string(&mark).is_ok_and(|text| text == "0\n")
        });
    } else {
        measured("an agent is set and waited for in the guest alone");
    }
}

const CORE_PATTERN: &str = "/proc/sys/kernel/core_pattern";

/// Puts the handler of crashes back.
struct Handler(String);

impl Drop for Handler {
    fn drop(&mut self) {
        let _ = std::fs::write(CORE_PATTERN, &self.0);
    }
}

/// The host's setting is not a test's to change: only the guest's machine has a handler of its own.
#[test]
pub fn j41_a_crash_starts_no_handler_of_the_host() {
    let ran = Run::new().shell("grep '^Max core' /proc/self/limits; kill -SEGV $$");
    ran.expect_code(128 + 11);
    // One byte is the kernel's own sign for "no core, not even through a pipe"; with 0 the host's
    // crash handler would still be started.
    let sizes: Vec<_> = ran.stdout.split_whitespace().skip(4).take(2).collect();
    ran.expect(sizes == ["1", "1"], "soft and hard limit");
    if !in_the_guest() {
        eprintln!("a handler is set and looked for in the guest alone");
        return;
    }
    let directory = scratch();
    open_to_all(directory.path());
    let (handler, mark) = (
        directory.path().join("handler"),
        directory.path().join("started"),
    );
    let text = format!("#!/bin/sh\necho \"$1\" >> {}\n", mark.display());
    std::fs::write(&handler, text).unwrap();
    open_to_all(&handler);
    let _before = Handler(std::fs::read_to_string(CORE_PATTERN).unwrap());
    std::fs::write(CORE_PATTERN, format!("|{} %p", handler.display())).unwrap();
    Run::new().shell("kill -SEGV $$").expect_code(128 + 11);
    let in_jail = mark.exists();
    // The control, with the limit that is thought to be enough.
    outside("/bin/sh", &["-c", "ulimit -c 0; kill -SEGV $$"]);
    turnkey_tests::eventually("the control: outside it is started", || mark.exists());
    assert!(!in_jail, "nobody was told of the jail's crash");
}
