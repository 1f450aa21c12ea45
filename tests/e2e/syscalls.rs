//! What the filter answers to real calls, against the policy's one table.

use std::collections::BTreeMap;

use turnkey_expectations::expected;
use turnkey_policy::syscalls::{self, FilterAnswer, arguments};
use turnkey_policy::{Overrides, Policy, SHIPPED, load};
use turnkey_tests::{Run, has_x32};

expected!(
    not_on[ORDINARY_6_12],
    "thousands of calls and a compiler, for a filter that is the same on every kernel"
);

const WALK: &str = include_str!("../attacks/walk.c");
const LAST: u32 = 600;

/// Allowed calls that the kernel itself answers with EPERM, each with the reason.
const KERNEL_REFUSES: [(&str, &str); 1] = [(
    "setgroups",
    "the capability is asked for before the arguments",
)];

/// Calls that reach past the process that makes them even with senseless arguments: left out of
/// the control run.
const NOT_OUTSIDE: [&str; 2] = ["sync", "syncfs"];

/// What came of one call: `answered -1`, `killed 31`.
type Outcomes = BTreeMap<(String, u32), (String, i64)>;

fn outcomes(text: &str) -> Outcomes {
    let line = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let mut word = || words.next().expect("four words");
        let (table, number) = (word(), word().parse().expect("a number"));
        let (outcome, value) = (word(), word().parse().expect("a number"));
        ((table, number), (outcome, value))
    };
    text.lines().map(line).collect()
}

fn untrusted() -> Policy {
    let no_files = |path: &str| Err(format!("{path} was asked for"));
    load("untrusted", &no_files, &Overrides::default()).expect("it is shipped")
}

/// Whether an outcome is what the table says to this number.
fn agrees(policy: &Policy, number: u32, outcome: &(String, i64)) -> bool {
    let name = syscalls::name(number).unwrap_or_default();
    let answered = |value: i64| outcome.0 == "answered" && outcome.1 == value;
    let eperm = i64::from(-libc::EPERM);
    match syscalls::answer(&policy.syscalls, number) {
        FilterAnswer::Killed => outcome.0 == "killed" && outcome.1 == i64::from(libc::SIGSYS),
        FilterAnswer::Absent => answered(i64::from(-libc::ENOSYS)),
        FilterAnswer::Refused => answered(eperm),
        // The walk gives clone(2) flags that it can use.
        FilterAnswer::Allowed if name == "clone" => outcome.0 == "answered" && outcome.1 >= 0,
        FilterAnswer::Allowed => match arguments::refused(&policy.syscalls, name, &[u64::MAX; 6]) {
            Some(error) => answered(-i64::from(error.number())),
            None if KERNEL_REFUSES.iter().any(|(known, _)| *known == name) => answered(eperm),
            None => !answered(eperm) && outcome.1 != i64::from(libc::SIGSYS),
        },
    }
}

expected!(
    j23_j24_j28_j45_every_number_of_every_table_is_answered_as_the_table_says,
    j23_a_call_of_x32_kills_its_process,
    j23_nobody_is_reached_by_calls_of_x32: on [GENERAL_6_12]
);
#[test]
pub fn j23_j24_j28_j45_every_number_of_every_table_is_answered_as_the_table_says() {
    let policy = untrusted();
    let ran = Run::new()
        .option("--unmonitored")
        .compiled("walk", WALK)
        .run(&["./walk", "all"]);
    let seen = outcomes(&ran.stdout);
    ran.expect(
        seen.len() == 3 * (usize::try_from(LAST).unwrap() + 1),
        "the walk came to its end",
    );
    let killed = ("killed".to_owned(), i64::from(libc::SIGSYS));
    let wrong: Vec<_> = seen
        .iter()
        .filter(|((table, number), outcome)| match table.as_str() {
            "x86_64" => !agrees(&policy, *number, outcome),
            _ => **outcome != killed,
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The control of the walk: what the filter refuses, the kernel alone would mostly not.
#[test]
fn j45_outside_the_same_calls_reach_the_kernel() {
    let policy = untrusted();
    let directory = turnkey_tests::scratch();
    turnkey_tests::open_to_all(directory.path());
    let program = directory.path().join("walk");
    turnkey_tests::compile(&program, WALK);
    let refused: Vec<_> = (0..=LAST)
        .filter(|number| syscalls::answer(&policy.syscalls, *number) == FilterAnswer::Refused)
        .filter(|number| !NOT_OUTSIDE.contains(&syscalls::name(*number).unwrap_or_default()))
        .map(|number| number.to_string())
        .collect();
    let arguments: Vec<&str> = refused.iter().map(String::as_str).collect();
    let (status, text) = turnkey_tests::as_nobody(&program, &arguments);
    assert!(status.success(), "{text}");
    let seen = outcomes(&text);
    let reached = |name: &str| {
        let number = syscalls::number(name).expect("the table knows it");
        let answered = &seen[&("x86_64".to_owned(), number)];
        answered.1 != i64::from(-libc::EPERM) && answered.1 != i64::from(-libc::ENOSYS)
    };
    for name in [
        "ptrace",
        "unshare",
        "setns",
        "add_key",
        "process_vm_readv",
        "pidfd_getfd",
    ] {
        assert!(reached(name), "{name} {text}");
    }
    let names = refused
        .iter()
        .filter_map(|number| syscalls::name(number.parse().ok()?));
    let count = names.filter(|name| reached(name)).count();
    assert!(count * 2 > refused.len(), "{count} of {}", refused.len());
}

/// Where the kernel has the table of x32, its calls work outside; elsewhere no such call is there,
/// and nothing dies of them.
#[test]
fn j23_a_call_of_x32_kills_its_process() {
    let program = "import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(0x40000000 | 39) > 0 or ctypes.get_errno())";
    let (status, told) = turnkey_tests::outside("python3", &["-c", program]);
    assert!(status.success(), "{status}");
    let expected = if has_x32() { "True\n" } else { "38\n" };
    assert_eq!(told, expected, "the control");
    let ran = Run::new().option("--unmonitored").python(program);
    ran.expect_code(128 + libc::SIGSYS);
    ran.expect(ran.stdout.is_empty(), "no answer");
}

/// Reaches a server by calls of x32 alone: socket(2) and connect(2).
const REACH_BY_X32: &str = "import ctypes, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *words):
    return libc.syscall(0x40000000 | number, *[ctypes.c_long(word) for word in words])
address = ctypes.create_string_buffer(struct.pack('=H', socket.AF_INET)
    + struct.pack('!H4s8x', int(sys.argv[1]), socket.inet_aton('127.0.0.1')))
reaching = call(41, socket.AF_INET, socket.SOCK_STREAM, 0)
print('reached' if call(42, reaching, ctypes.addressof(address), 16) == 0 else ctypes.get_errno())";

#[test]
fn j23_nobody_is_reached_by_calls_of_x32() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let program = ["-c", REACH_BY_X32, &port];
    let (_, told) = turnkey_tests::as_nobody("/usr/bin/python3", &program);
    if has_x32() {
        assert_eq!(told, "reached\n", "the control");
        assert!(listener.accept().is_ok(), "the control: somebody came");
    } else {
        assert_eq!(told, "38\n", "the control: there is no such call");
    }
    let program = [&["python3"], &program[..]].concat();
    let ran = Run::new().option("--network loopback").run(&program);
    ran.expect_code(128 + libc::SIGSYS);
    ran.expect(listener.accept().is_err(), "nobody came");
}

const RING: &str = "import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def ring():
    parameters = (ctypes.c_uint8 * 120)()
    return libc.syscall(425, 1, ctypes.byref(parameters))
";

#[test]
pub fn j25_no_ring_can_be_made_or_handed_in() {
    let inside = format!(
        "{RING}import os
answers = [ring() or 0, ctypes.get_errno()]
for descriptor in (0, 7):
    libc.syscall(426, descriptor, 0, 0, 0, 0)
    answers.append(ctypes.get_errno())
    libc.syscall(427, descriptor, 0, 0, 0)
    answers.append(ctypes.get_errno())
names = ' '.join(os.readlink(f'/proc/self/fd/{{fd}}') for fd in (0, 1, 2))
print(*answers, 'io_uring' in names, os.path.exists('/proc/self/fd/7'))"
    );
    // The launcher's standard input and descriptor 7 are rings.
    let launcher = format!(
        "{RING}import os, sys
made = ring()
if made < 0: raise OSError(ctypes.get_errno())
os.dup2(made, 0); os.dup2(made, 7)
os.execvp(sys.argv[1], sys.argv[1:])"
    );
    let turnkey = turnkey_tests::binary().display().to_string();
    let arguments = [
        "-c",
        &launcher,
        &turnkey,
        "run",
        "--unmonitored",
        "--workdir-mode",
        "none",
    ];
    let control = [
        &["-c", launcher.as_str()][..],
        &["readlink", "/proc/self/fd/0"],
    ]
    .concat();
    let (_, told) = turnkey_tests::outside("python3", &control);
    assert!(
        told.contains("io_uring"),
        "the control: outside it is handed on: {told}"
    );
    let whole = [&arguments[..], &["--", "python3", "-c", &inside]].concat();
    let (_, told) = turnkey_tests::outside("python3", &whole);
    assert_eq!(
        told, "-1 38 38 38 38 38 False False\n",
        "ENOSYS, and no ring"
    );
}

#[test]
pub fn j27_clone3_does_not_exist_and_threads_do() {
    let program = "import ctypes, threading
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER = 0x10000000
flags = (ctypes.c_uint64 * 11)(CLONE_NEWUSER)
answer = libc.syscall(435, ctypes.byref(flags), 88)
if answer == 0: libc._exit(0)
print(answer > 0, ctypes.get_errno())
thread = threading.Thread(target=lambda: print('thread'))
thread.start(); thread.join()";
    let (_, told) = turnkey_tests::outside("python3", &["-c", program]);
    assert_eq!(
        told, "True 0\nthread\n",
        "the control: outside it makes a user namespace"
    );
    let ran = Run::new().option("--unmonitored").python(program);
    ran.expect(
        ran.stdout == "False 38\nthread\n",
        "ENOSYS, and the C library falls back",
    );
}

#[test]
pub fn j28_an_unknown_call_is_unknown() {
    let program = "import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for number in (470 + 100, 9999, 0x3fffffff):
    print(libc.syscall(number), ctypes.get_errno())";
    let unknown = "-1 38\n-1 38\n-1 38\n";
    let (_, told) = turnkey_tests::outside("python3", &["-c", program]);
    assert_eq!(told, unknown, "the control: so the kernel answers");
    let ran = Run::new().option("--unmonitored").python(program);
    ran.expect(ran.stdout == unknown, "ENOSYS, as from an older kernel");
}

#[test]
pub fn j29_the_filters_are_there_in_every_mode_and_profile() {
    let filters = |text: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Seccomp_filters:"));
        line.and_then(|count| count.trim().parse::<u32>().ok())
    };
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let expected = filters(&own).map(|count| count + 2);
    assert!(expected.is_some(), "the control: {own}");
    let no_files = |path: &str| Err(format!("{path} was asked for"));
    let shipped = SHIPPED.iter().map(|(name, _)| {
        let policy = load(name, &no_files, &Overrides::default());
        policy.expect("a shipped profile is right")
    });
    let jails = shipped.filter(|policy| !policy.makes_no_jail());
    let each = jails.map(|policy| format!("--unmonitored --profile {}", policy.name));
    let modes = ["--mode enforce", "--mode observe"].map(str::to_owned);
    // What cat(1) needs, for the profile that shows nothing of the host.
    let tree = "--read /usr --read /bin --read /lib --read /lib64";
    for options in each.chain(modes).map(|options| format!("{options} {tree}")) {
        let ran = Run::new()
            .option(&options)
            .run(&["cat", "/proc/self/status"]);
        ran.expect(ran.stdout.contains("Seccomp:\t2"), &options);
        ran.expect(filters(&ran.stdout) == expected, &options);
    }
}

#[test]
fn j31_a_profile_that_forbids_exec_still_starts_its_program() {
    let ran = Run::new()
        .option("--profile strict")
        .run(&["/bin/echo", "started"]);
    ran.expect_code(0);
    ran.expect(
        ran.stdout == "started\n",
        "its own exec is not the program's",
    );
    let second = Run::new()
        .option("--profile strict")
        .shell("/bin/echo started");
    second.expect_code(121);
    second.expect(
        second.stdout.is_empty(),
        "the control: the rule is in force",
    );
}

/// Has somebody decide on its child's getppid(2), who never does, seccomp_unotify(2).
const UNDECIDED: &str = "import ctypes, os, signal, struct, time
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
def instruction(code, true, false, value): return struct.pack('HBBI', code, true, false, value)
text = (instruction(0x20, 0, 0, 0) + instruction(0x15, 0, 1, 110)
    + instruction(0x06, 0, 0, 0x7fc00000) + instruction(0x06, 0, 0, 0x7fff0000))
kept = ctypes.create_string_buffer(text)
filter = struct.pack('HxxxxxxQ', 4, ctypes.addressof(kept))
listener = libc.syscall(317, 1, 8, filter)
assert listener >= 0, ctypes.get_errno()
child = os.fork()
if child == 0:
    libc.syscall(110)
    os._exit(0)
time.sleep(0.5)
print('answered' if os.waitpid(child, os.WNOHANG)[0] else 'held', flush=True)
os.kill(child, signal.SIGKILL)";

#[test]
fn j32_j33_nobody_is_asked_to_decide() {
    let (_, told) = turnkey_tests::outside("python3", &["-c", UNDECIDED]);
    assert_eq!(told, "held\n", "the control: a decider holds calls up");
    // A supervisor that decides would hold a listener; one that is stopped would hold the calls.
    use nix::sys::signal::{Signal, kill};
    let run = Run::new().option("--unmonitored");
    let shared = turnkey_tests::scratch();
    let place = shared.path().display().to_string();
    let run = run.option(&format!("--write {place}"));
    let script = format!("echo x > {place}/ready; sleep 0.5; ls /usr > {place}/listed");
    let turnkey = run.command(&["/bin/sh", "-c", &script]).spawn().unwrap();
    turnkey_tests::eventually("the program runs", || shared.path().join("ready").exists());
    let pid = nix::unistd::Pid::from_raw(i32::try_from(turnkey.id()).unwrap());
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let names: Vec<_> = descriptors
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .map(|target| target.display().to_string())
        .collect();
    kill(pid, Signal::SIGSTOP).unwrap();
    turnkey_tests::eventually("calls go on while turnkey is stopped", || {
        shared.path().join("listed").exists()
    });
    kill(pid, Signal::SIGCONT).unwrap();
    assert!(turnkey_tests::finish(turnkey).status.success());
    assert!(
        !names.is_empty() && !names.iter().any(|name| name.contains("seccomp")),
        "{names:?}"
    );
}

#[test]
fn the_call_that_a_program_fails_of_is_told() {
    let program = "import ctypes, sys
rings = ctypes.CDLL(None).syscall(425, 8, 0)
sys.exit(rings < 0 and sys.argv[1] == 'needed')";
    for (need, code) in [("needed", 1), ("not needed", 0)] {
        let ran = Run::new().run(&["python3", "-c", program, need]);
        ran.expect_code(code);
        let told = ran.stderr.contains("calling io_uring_setup (ENOSYS)");
        ran.expect(told == (code == 1), "to who fails of it alone");
    }
}
