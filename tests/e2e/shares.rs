//! What the kernel counts for a user, or once for all: a jail that takes all it can get takes it from nobody else.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use turnkey_expectations::expected;
use turnkey_tests::{NOBODY, Ran, Run, as_nobody, finish, in_the_guest, measured, outside};

/// What every program here begins with.
const HEAD: &str = "import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
IPC_RMID, SHM_LOCK = 0, 11
SIGNAL = signal.SIGRTMIN + 5
signal.pthread_sigmask(signal.SIG_BLOCK, [SIGNAL])
held = []
class Refused(Exception): pass
def must(answer):
    if answer < 0: raise Refused(ctypes.get_errno())
    return answer
";

/// Something that is counted.
struct Counted {
    name: &'static str,
    /// Python: takes one more, or raises.
    take: &'static str,
    /// Whether root is bound by it at all.
    binds_root: bool,
}

const COUNTED: [Counted; 4] = [
    Counted {
        name: "inotify instances",
        take: "must(libc.inotify_init1(0))",
        binds_root: true,
    },
    Counted {
        name: "queued signals",
        take: "must(libc.sigqueue(os.getpid(), SIGNAL, ctypes.c_void_p(1)))",
        binds_root: true,
    },
    Counted {
        name: "timers",
        take: "held.append(ctypes.c_void_p()); must(libc.timer_create(1, None, ctypes.byref(held[-1])))",
        binds_root: true,
    },
    // 1 MiB each, gone with the last who has it.
    Counted {
        name: "locked memory",
        take: "
    place = must(libc.shmget(0, 1 << 20, 0o1600))
    libc.shmat.restype = ctypes.c_void_p
    libc.shmat(place, None, 0)
    libc.shmctl(place, IPC_RMID, None)
    must(libc.shmctl(place, SHM_LOCK, None))",
        binds_root: false,
    },
];

/// Takes until it is refused, says how many it got, and holds them until its input ends.
fn hog(counted: &Counted) -> String {
    let take = counted.take;
    format!(
        "{HEAD}
def take(): {take}
taken = 0
try:
    while taken < 200000:
        take()
        taken += 1
except Refused as refused:
    print('refused after', taken, 'by', refused, flush=True)
sys.stdin.read()"
    )
}

/// Takes one, and says whether it could.
fn guest(counted: &Counted) -> String {
    let take = counted.take;
    format!(
        "{HEAD}
def take(): {take}
try:
    take()
    print('took one')
except Refused as refused:
    print('refused by', refused)"
    )
}

/// Holds all it could get while this lives.
struct Full {
    child: Child,
    input: Option<ChildStdin>,
    taken: u32,
}

impl Full {
    fn start(mut command: Command) -> Full {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it can be started");
        let input = child.stdin.take();
        let output = child.stdout.as_mut().expect("a pipe");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("a line");
        let word = line.split(' ').find_map(|word| word.trim().parse().ok());
        let taken = word.unwrap_or_else(|| panic!("nothing was refused: {line:?}"));
        Full {
            child,
            input,
            taken,
        }
    }

    fn end(mut self) -> u32 {
        drop(self.input.take());
        assert!(finish(self.child).status.success(), "it held on to the end");
        self.taken
    }
}

fn by_nobody(program: &str) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", program]).current_dir("/");
    command.uid(NOBODY).gid(NOBODY);
    command
}

fn takes_one(ran: &Ran, counted: &Counted) {
    let what = format!("{}: another jail has its own", counted.name);
    ran.expect(ran.stdout == "took one\n", &what);
}

/// A queue of messages lives on when its jail is gone, unless there is none.
#[test]
fn a_jail_has_no_posix_queue() {
    let open = "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
name = f'/turnkey-test-{os.getpid()}'.encode()
print(libc.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, None) >= 0, ctypes.get_errno())
libc.mq_unlink(name)";
    let (_, control) = outside("/usr/bin/python3", &["-c", open]);
    assert_eq!(control, "True 0\n", "the control");
    let ran = Run::new().option("--unmonitored").python(open);
    let refused = format!("False {}\n", libc::EACCES);
    ran.expect(ran.stdout == refused, "it cannot be made");
}

/// Pages that the buffers of pipes may have, 1 MiB for each pipe. Of a caller without privileges they are counted
/// together with the jail's, and SECURITY.md says so.
const PIPES: Counted = Counted {
    name: "pages of pipes",
    take: "
    F_SETPIPE_SZ = 1031
    held.append(os.pipe())
    must(libc.fcntl(held[-1][0], F_SETPIPE_SZ, 1 << 20))",
    binds_root: false,
};

/// A jail of root's that is full takes from nobody.
fn others_have_theirs(counted: &Counted) {
    let (hog, guest) = (hog(counted), guest(counted));
    let name = counted.name;
    let run = Run::new().option("--unmonitored");
    let full = Full::start(run.command(&["python3", "-c", &hog]));
    if counted.binds_root {
        let (_, told) = outside("/usr/bin/python3", &["-c", &guest]);
        assert_eq!(told, "took one\n", "root has its own: {name}");
    }
    takes_one(&Run::new().option("--unmonitored").python(&guest), counted);
    let told = as_nobody("/usr/bin/python3", &["-c", &guest]).1;
    assert_eq!(told, "took one\n", "any other user has: {name}");
    assert!(full.end() > 0, "the jail has some: {name}");
}

/// Full for an unprivileged user of the host, without a jail: how many there are.
fn control(counted: &Counted) -> u32 {
    let full = Full::start(by_nobody(&hog(counted)));
    let told = as_nobody("/usr/bin/python3", &["-c", &guest(counted)]).1;
    let name = counted.name;
    assert!(told.starts_with("refused"), "the control: {name}: {told}");
    full.end()
}

/// One test, because its parts would take from each other: all of them use up what nobody has.
#[test]
fn a_full_jail_takes_from_nobody_and_leaves_half_to_its_unprivileged_caller() {
    for counted in &COUNTED {
        let all = control(counted);
        others_have_theirs(counted);

        let name = counted.name;
        let run = Run::rootless();
        let full = Full::start(run.command(&["python3", "-c", &hog(counted)]));
        let told = as_nobody("/usr/bin/python3", &["-c", &guest(counted)]).1;
        assert_eq!(told, "took one\n", "the caller has some: {name}");
        let taken = full.end();
        assert!(0 < taken && taken <= all / 2, "{name}: {taken} of {all}");
    }
    control(&PIPES);
    others_have_theirs(&PIPES);
}

/// Descriptors that are on their way through sockets, of which a user has as many as one process may have open. As pages of
/// pipes they are counted for an unprivileged caller and the jail together.
const SENT: Counted = Counted {
    name: "descriptors in flight",
    take: "
    import resource, socket
    resource.setrlimit(resource.RLIMIT_NOFILE, (250, 250))
    pair = socket.socketpair()
    held.append(pair)
    try: socket.send_fds(pair[0], [b'x'], [0] * 10)
    except OSError as refused: raise Refused(refused.errno)",
    binds_root: false,
};

#[test]
fn descriptors_in_flight_are_the_jails_own() {
    control(&SENT);
    others_have_theirs(&SENT);
}

/// As the pages of pipes, counted for an unprivileged caller and the jail together.
const EPOLL: Counted = Counted {
    name: "watches of epoll",
    take: "
    import select
    held.append((select.epoll(), *os.pipe()))
    try: held[-1][0].register(held[-1][1])
    except OSError as refused: raise Refused(refused.errno)",
    binds_root: true,
};

/// Each is of another file, one of Python's own, of which some have two names.
const INOTIFY: Counted = Counted {
    name: "watches of inotify",
    take: "
    import glob
    names = sorted(glob.glob(os.path.dirname(os.__file__) + '/*.py'))
    files = list({os.stat(name).st_ino: name for name in names}.values())
    if not held: held.append(must(libc.inotify_init1(0)))
    must(libc.inotify_add_watch(held[0], files[len(held)].encode(), 2))
    held.append(None)",
    binds_root: true,
};

/// An ordinary machine has millions for each user, and one setting for all of them, which is not a test's to change.
fn with_few_for_each_user(counted: &Counted, switch: &str) {
    const FEW: u32 = 60;
    if !in_the_guest() {
        measured(&format!(
            "there are few {} in the guest alone",
            counted.name
        ));
        return;
    }
    let before = std::fs::read_to_string(switch).expect("/proc");
    std::fs::write(switch, FEW.to_string()).expect("a machine of ours");
    assert_eq!(control(counted), FEW, "the control: nobody else has any");
    others_have_theirs(counted);
    std::fs::write(switch, before).expect("a machine of ours");
}

expected!(watches_of_epoll_are_the_jails_own: on[BY_DAY]);
expected!(watches_of_inotify_are_the_jails_own: on[BY_DAY]);

#[test]
fn watches_of_epoll_are_the_jails_own() {
    with_few_for_each_user(&EPOLL, "/proc/sys/fs/epoll/max_user_watches");
}

#[test]
fn watches_of_inotify_are_the_jails_own() {
    with_few_for_each_user(&INOTIFY, "/proc/sys/fs/inotify/max_user_watches");
}

/// What else the kernel counts for a user, a namespace or the machine: takes one of each.
const OUT_OF_REACH: &str = "import ctypes, errno, socket
libc = ctypes.CDLL(None, use_errno=True)
place = ctypes.c_ulong()
talk = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
label = bytes(15) + bytes([1, 0, 0, 0, 0, 0, 1, 1]) + bytes(9)
ways = {
    'asynchronous IO': (206, 1, ctypes.byref(place)),
    'keys': (248, b'user', b'turnkey-test', b'x', 1, -1),
    'fanotify groups': (300, 0, 0),
    'flow labels': (54, talk.fileno(), 41, 32, label, len(label)),
    'memory of BPF': (321, 0, (ctypes.c_uint * 32)(2, 4, 8, 1), 128),
    'namespaces: time': (272, 0x80),
    'namespaces: user': (272, 0x10000000),
    'namespaces: mnt': (272, 0x20000),
    'namespaces: cgroup': (272, 0x2000000),
    'namespaces: uts': (272, 0x4000000),
    'namespaces: ipc': (272, 0x8000000),
    'namespaces: net': (272, 0x40000000),
    'namespaces: pid': (272, 0x20000000),
}
for name, (call, *words) in ways.items():
    came = libc.syscall(ctypes.c_long(call), *[w if not isinstance(w, int) else ctypes.c_long(w) for w in words])
    print(name, 'taken' if came >= 0 else errno.errorcode[ctypes.get_errno()])";

/// The counters of a user namespace that a kernel has, each with the test that shows it.
const OF_A_NAMESPACE: [(&str, &str); 12] = [
    ("max_cgroup_namespaces", "namespaces: cgroup"),
    ("max_fanotify_groups", "fanotify groups"),
    ("max_fanotify_marks", "fanotify groups"),
    ("max_inotify_instances", COUNTED[0].name),
    ("max_inotify_watches", INOTIFY.name),
    ("max_ipc_namespaces", "namespaces: ipc"),
    ("max_mnt_namespaces", "namespaces: mnt"),
    ("max_net_namespaces", "namespaces: net"),
    ("max_pid_namespaces", "namespaces: pid"),
    ("max_time_namespaces", "namespaces: time"),
    ("max_user_namespaces", "namespaces: user"),
    ("max_uts_namespaces", "namespaces: uts"),
];

/// Of these a jail has nothing at all, so it takes nothing. A kernel that counts something more needs another test.
#[test]
fn what_else_is_counted_is_out_of_reach() {
    let (_, control) = outside("/usr/bin/python3", &["-c", OUT_OF_REACH]);
    let names = control.lines().map(|line| line.strip_suffix(" taken"));
    let names: Option<Vec<&str>> = names.collect();
    let names = names.unwrap_or_else(|| panic!("the control: {control}"));
    let ran = Run::new().option("--unmonitored").python(OUT_OF_REACH);
    let refused = names.iter().map(|name| format!("{name} EPERM\n"));
    let refused: String = refused.collect();
    ran.expect(ran.stdout == refused, "each is refused");
    for entry in std::fs::read_dir("/proc/sys/user").expect("/proc") {
        let counter = entry.expect("/proc").file_name();
        let shown = OF_A_NAMESPACE.iter().find(|(name, _)| counter == *name);
        let (_, shown) = shown.unwrap_or_else(|| panic!("{counter:?} has no test"));
        let elsewhere = [COUNTED[0].name, INOTIFY.name];
        assert!(
            names.contains(shown) || elsewhere.contains(shown),
            "{shown}"
        );
    }
}

/// Huge pages are of one pool of the machine, which no control group's memory counts.
#[test]
fn a_jail_has_no_huge_page_of_the_host() {
    const POOL: &str = "/proc/sys/vm/nr_hugepages";
    let take = "import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
SIZE = 2 << 20
def mapped(flags, descriptor=-1):
    place = libc.mmap(None, SIZE, 3, flags, descriptor, 0)
    if place == 2 ** 64 - 1: return errno.errorcode[ctypes.get_errno()]
    ctypes.memset(place, 1, SIZE)
    return 'taken'
print(mapped(0x40022))
file = libc.memfd_create(b'x', 4)
print(errno.errorcode[ctypes.get_errno()] if file < 0 else mapped(1, file))
print(errno.errorcode[ctypes.get_errno()] if libc.shmget(0, SIZE, 0o5600) < 0 else 'made')
print('plain', mapped(0x22))";
    if in_the_guest() {
        std::fs::write(POOL, "4").expect("a machine of ours");
        let (_, control) = outside("/usr/bin/python3", &["-c", take]);
        assert_eq!(control, "taken\ntaken\nmade\nplain taken\n", "the control");
    } else {
        measured("there are huge pages in the guest alone");
    }
    let ran = Run::new().option("--unmonitored").python(take);
    if in_the_guest() {
        std::fs::write(POOL, "0").expect("a machine of ours");
    }
    let refused = "ENOMEM\nEINVAL\nEPERM\nplain taken\n";
    ran.expect(
        ran.stdout == refused,
        "none is to be had, and other memory is",
    );
}

/// Each watch is of another file, and half of them are more files than a test should make.
#[test]
fn an_unprivileged_callers_jail_has_half_of_its_watches() {
    let number = |text: &str| text.trim().parse::<u64>().expect("a number");
    let host = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").expect("/proc");
    let ceiling = ["cat", "/proc/sys/user/max_inotify_watches"];
    let ran = Run::rootless().run(&ceiling);
    ran.expect(number(&ran.stdout) == number(&host) / 2, "half");
}

/// A jail that has all its terminals leaves some to another one.
#[test]
fn terminals_of_a_jail_are_bounded() {
    let open = "import os, sys
taken = 0
try:
    while taken < 100:
        os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY)
        taken += 1
except OSError as refused:
    print(refused.errno)
print('took', taken, flush=True)
sys.stdin.read()";
    let apart = "mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts && mount --bind /dev/pts/ptmx /dev/ptmx && exec python3 -c \"$1\"";
    let (_, control) = outside("unshare", &["--mount", "sh", "-c", apart, "sh", open]);
    assert_eq!(control, "took 100\n", "the control: as many as it likes");
    let ran = Run::new().option("--unmonitored").python(open);
    let full = format!("{}\ntook 64\n", libc::ENOSPC);
    ran.expect(ran.stdout == full, "as many as a jail may have");
}
