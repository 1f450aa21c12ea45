//! Programs that take all they can get: J51 to J54. What they leave is looked for from outside.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use turnkey_expectations::expected;
use turnkey_tests::{NOBODY, Run, as_nobody, eventually, finish, measured, outside};

expected!(
    not_on[ORDINARY_6_12],
    "the limits of memory, tasks and time are those of `limits::`, met by more programs"
);

/// Processes of the host that carry this text in their arguments.
fn pids_with(mark: &str) -> Vec<Pid> {
    let marked = |entry: std::fs::DirEntry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?);
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let is_marked = String::from_utf8_lossy(&arguments).contains(mark);
        (pid != Pid::this() && is_marked).then_some(pid)
    };
    let entries = std::fs::read_dir("/proc").expect("/proc is mounted");
    entries.flatten().filter_map(marked).collect()
}

fn processes_with(mark: &str) -> usize {
    pids_with(mark).len()
}

fn mark(name: &str) -> String {
    format!("mark-{name}-{}", std::process::id())
}

/// Runs a bomb in a jail and waits until nothing of it is left.
fn explode(name: &str, options: &str, program: &str) -> turnkey_tests::Ran {
    let mark = mark(name);
    let run = Run::new().option("--unmonitored").option(options);
    let ran = run.python(&format!("# {mark}\n{program}"));
    eventually("nothing of the bomb is left", || processes_with(&mark) == 0);
    ran
}

#[test]
fn j51_a_fork_bomb_goes_off_in_its_jail_alone() {
    let bomb = "import os, time
made = 0
try:
    while made < 60:
        if os.fork() == 0:
            time.sleep(4)
            os._exit(0)
        made += 1
except OSError:
    pass
print('made', made, flush=True)";
    let (_, control) = as_nobody("python3", &["-c", bomb]);
    assert_eq!(control.trim(), "made 60", "the control: it works outside");
    let endless = "import os\nwhile True: os.fork()";
    let ran = explode("fork", "--pids 30 --on-pids kill --wall 20s", endless);
    ran.expect_code(122);
    ran.expect(ran.at("/status") == "limit_exceeded", "the limit of tasks");
    ran.expect(
        ran.at("/usage/pids_peak")
            .as_u64()
            .is_none_or(|peak| peak <= 30),
        "30 at most",
    );
}

#[test]
fn j51_a_thread_bomb_goes_off_in_its_jail_alone() {
    let bomb = "import threading, time
for _ in range(60): threading.Thread(target=time.sleep, args=(4,), daemon=True).start()
print('made', threading.active_count() - 1, flush=True)";
    let (_, control) = as_nobody("python3", &["-c", bomb]);
    assert_eq!(control, "made 60\n", "the control: it works outside");
    let roomy = explode("thread-roomy", "--pids 200 --wall 20s", bomb);
    roomy.expect(
        roomy.code == 0 && roomy.stdout == "made 60\n",
        "the control: it works in a jail with room for it",
    );
    let endless = bomb.replace("for _ in range(60)", "while True");
    for bomb in [bomb, &endless] {
        let ran = explode("thread", "--pids 30 --on-pids kill --wall 20s", bomb);
        ran.expect_code(122);
        ran.expect(!ran.stdout.contains("made 60"), "not with less room");
        ran.expect(ran.at("/status") == "limit_exceeded", "the limit of tasks");
    }
}

#[test]
fn j51_a_daemon_is_gone_when_its_jail_is() {
    let daemon = "import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print('daemon', flush=True)
        time.sleep(SECONDS)
    os._exit(0)
time.sleep(0.3)";
    let mark = mark("control");
    let program = format!("# {mark}\n{}", daemon.replace("SECONDS", "3"));
    let status = Command::new("python3")
        .args(["-c", &program])
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    assert_eq!(processes_with(&mark), 1, "the control: outside it lives on");
    let ran = explode("daemon", "--wall 20s", &daemon.replace("SECONDS", "600"));
    ran.expect_code(0);
    ran.expect(ran.stdout == "daemon\n", "the daemon ran");
    eventually("the control has ended", || processes_with(&mark) == 0);
}

/// Ways to fill memory: each would take 200 MiB and says so when it could.
const MEMORY: [(&str, &str); 5] = [
    ("heap", "b = bytearray(200 << 20)"),
    (
        "shared",
        "import mmap\nm = mmap.mmap(-1, 200 << 20)\nfor i in range(0, 200 << 20, 4096): m[i] = 1",
    ),
    (
        "tmpfs",
        "f = open('/big/file', 'wb')\nfor i in range(200): f.write(b'x' * (1 << 20))",
    ),
    (
        "shm",
        // The directory is small, segments are not: shmget(2).
        "import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
place = libc.shmat(libc.shmget(0, 200 << 20, 0o1600), None, 0)
assert place != ctypes.c_void_p(-1).value
ctypes.memset(place, 1, 200 << 20)",
    ),
    (
        "memfd",
        "import os\nf = os.memfd_create('x', 0)\nfor i in range(200): os.write(f, b'x' * (1 << 20))",
    ),
];

#[test]
fn j52_memory_in_every_form_is_bounded() {
    for (name, program) in MEMORY {
        let program = format!("{program}\nprint('filled', flush=True)");
        let with = |memory: &str| {
            let rest = "--file-size 1G --wall 20s --scratch /big=1G";
            let ran = explode(name, &format!("--memory {memory} {rest}"), &program);
            let peak = ran.at("/usage/memory_peak_bytes").as_u64().unwrap_or(0);
            (ran, peak >> 20)
        };
        let (roomy, taken) = with("512M");
        roomy.expect(
            roomy.stdout == "filled\n" && taken >= 200,
            &format!("the control: {name} takes 200 MiB where it may, and they count"),
        );
        let (ran, peak) = with("64M");
        ran.expect(!ran.stdout.contains("filled"), name);
        ran.expect(ran.code != 0, name);
        ran.expect(peak <= 64, name);
        measured(&format!(
            "{name}: {taken} MiB of 512, {peak} MiB of 64, status {}",
            ran.at("/status")
        ));
    }
}

#[test]
fn j52_page_cache_counts_and_is_given_back() {
    let peak_with = |memory: &str| {
        let options = format!("--unmonitored --memory {memory} --wall 20s");
        let run = Run::new().option(&options);
        // A hole: reading it fills the page cache all the same. It is larger than what is asked for below: a host
        // that reclaims of its own accord (DAMON) has some of it back before all of it is read.
        let file = std::fs::File::create(run.path().join("large")).unwrap();
        file.set_len(400 << 20).unwrap();
        let ran = run.shell("cat large | wc -c");
        ran.expect_code(0);
        ran.expect(ran.stdout.trim() == "419430400", "all of it was read");
        ran.at("/usage/memory_peak_bytes").as_u64().unwrap_or(0) >> 20
    };
    let (roomy, bounded) = (peak_with("512M"), peak_with("64M"));
    measured(&format!(
        "page cache: {roomy} MiB of 512, {bounded} MiB of 64"
    ));
    assert!(roomy >= 300, "the control: the cache takes what it may");
    assert!((32..=64).contains(&bounded), "it counts, within the limit");
}

#[test]
fn j52_no_swap_is_in_force() {
    let ran = Run::new().option("--unmonitored --memory 64M").shell(":");
    let layers = ran.list("/enforcement");
    let memory = layers.iter().find(|layer| layer["layer"] == "memory");
    let proof = memory
        .and_then(|layer| layer["proof"].as_str())
        .unwrap_or_default();
    let both = "memory.limit_in_bytes is 67108864; memory.memsw.limit_in_bytes is 67108864";
    let holds = proof.contains(both)
        || (proof.contains("memory.max is 67108864") && proof.contains("memory.swap.max is 0"))
        // Without swap on the host there is nothing to bound.
        || std::fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() < 2);
    ran.expect(holds, "memory and swap together are no more than memory");
}

/// Eight processes in sessions of their own that ignore what can be ignored, for some seconds.
fn stubborn(act: &str, seconds: u32) -> String {
    format!(
        "import os, signal, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
for _ in range(7):
    if os.fork() == 0:
        os.setsid()
        break
end = time.monotonic() + {seconds}
while time.monotonic() < end: {act}"
    )
}

const SPIN: &str = "pass";
const SLEEP: &str = "time.sleep(0.1)";

/// The control: outside, the eight are all there after SIGTERM and a second and a half, and as long as they
/// were told to be. The answer is the CPU time they have used together until then.
fn outlives_a_second_and_a_demand(name: &str, act: &str) -> Duration {
    let mark = mark(name);
    let program = format!("# {mark}\n{}", stubborn(act, 4));
    let mut command = Command::new("nice");
    command.args(["-n", "5", "python3", "-c", &program]);
    command.uid(NOBODY).gid(NOBODY).stdin(Stdio::null());
    let mut first = command.current_dir("/").spawn().expect("python3 is there");
    eventually("all eight are there", || processes_with(&mark) == 8);
    std::thread::sleep(Duration::from_millis(300));
    for pid in pids_with(&mark) {
        kill(pid, Signal::SIGTERM).expect("the control: it lives");
    }
    std::thread::sleep(Duration::from_millis(1200));
    let used = pids_with(&mark).into_iter().map(cpu_time).sum();
    assert_eq!(
        processes_with(&mark),
        8,
        "the control: nothing has ended them"
    );
    first.wait().expect("a child can be waited for");
    eventually("the control has ended", || processes_with(&mark) == 0);
    used
}

/// proc_pid_stat(5): fields 14 and 15, in ticks of which every Linux has 100 in a second.
fn cpu_time(pid: Pid) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = behind_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

expected!(
    j53_spinners_that_ignore_everything_are_ended_by_the_clock: at_night,
    "five seconds of a clock; `bombs::j53_a_sleeper` has it by day"
);
#[test]
fn j53_spinners_that_ignore_everything_are_ended_by_the_clock() {
    outlives_a_second_and_a_demand("wall-control", SPIN);
    let ran = explode("wall", "--wall 1s --cpu-time 1h", &stubborn(SPIN, 600));
    ran.expect_code(124);
    ran.expect(ran.at("/status") == "timed_out", "timed_out");
    let wall = ran.at("/usage/wall_seconds").as_f64().unwrap_or(99.0);
    ran.expect((1.0..4.0).contains(&wall), "one second, and a moment");
}

expected!(
    j53_the_cpu_time_of_all_spinners_counts: at_night,
    "five seconds of a clock; `limits::` has it by day"
);
#[test]
fn j53_the_cpu_time_of_all_spinners_counts() {
    let control = outlives_a_second_and_a_demand("cpu-control", SPIN);
    measured(&format!("CPU time of eight spinners outside: {control:?}"));
    assert!(
        control > Duration::from_millis(1100),
        "the control: together they use more than a second: {control:?}"
    );
    let options = "--wall 60s --cpu-time 1s --cpu 200%";
    let ran = explode("cpu", options, &stubborn(SPIN, 600));
    ran.expect_code(124);
    let used = |pointer| ran.at(pointer).as_f64().unwrap_or(0.0);
    let used = used("/usage/user_seconds") + used("/usage/system_seconds");
    ran.expect(
        (1.0..3.0).contains(&used),
        "one second together, and a moment",
    );
}

#[test]
fn j53_a_sleeper_that_ignores_everything_is_ended_by_the_clock() {
    outlives_a_second_and_a_demand("sleep-control", SLEEP);
    let ran = explode("sleep", "--wall 1s", &stubborn(SLEEP, 600));
    ran.expect_code(124);
}

/// What one that keeps all it is told takes for a flood of 300 MiB, in KiB.
fn memory_of_a_keeper_of_output() -> u64 {
    let keep = "import resource, subprocess
subprocess.run(['head', '-c', '300M', '/dev/zero'], capture_output=True)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)";
    let (_, told) = as_nobody("python3", &["-c", keep]);
    told.trim().parse().expect("a number of KiB")
}

#[test]
fn j54_ten_gigabytes_of_output_fill_no_memory() {
    let control = memory_of_a_keeper_of_output();
    assert!(control > 300 << 10, "the control: it grows, {control} KiB");
    let run = Run::new().option("--quiet --unmonitored --capture --output 1M --wall 20s");
    let inner = run.command(&["/bin/sh", "-c", "head -c 10G /dev/zero"]);
    let measure = "import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let mut command = Command::new("python3");
    command
        .args(["-c", measure])
        .arg(inner.get_program())
        .args(inner.get_args());
    command
        .current_dir(run.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let output = finish(command.spawn().unwrap());
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let (code, kibibytes) = told.trim().split_once(' ').unwrap();
    assert_eq!(code, "122");
    let kibibytes: u64 = kibibytes.parse().unwrap();
    assert!(kibibytes < 100 << 10, "turnkey took {kibibytes} KiB");
    measured(&format!(
        "memory: turnkey {kibibytes} KiB for 10 GiB, the control {control} KiB for 300 MiB"
    ));
}

/// Runs a script that must come to its own end soon.
fn ends_by_itself(script: &str, input: Stdio, code: i32) {
    let run = Run::new().option("--quiet --unmonitored --wall 20s");
    let mut command = run.command(&["/bin/sh", "-c", script]);
    let started = Instant::now();
    let output = finish(
        command
            .stdin(input)
            .stdout(Stdio::piped())
            .spawn()
            .expect("turnkey"),
    );
    assert_eq!(output.status.code(), Some(code), "{script}");
    assert!(started.elapsed() < Duration::from_secs(10), "{script}");
}

/// A program of the host with pipes to it, for what a runner without care would do with them.
fn with_pipes(script: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).spawn().expect("sh is there")
}

#[test]
fn j54_input_that_nobody_reads_holds_nothing_up() {
    let started = Instant::now();
    let mut child = with_pipes("sleep 1");
    let mut input = child.stdin.take().expect("a pipe");
    let written = input.write_all(&[0; 1 << 20]);
    assert!(
        written.is_err() && started.elapsed() >= Duration::from_millis(900),
        "the control: who writes is held up until the program ends"
    );
    child.wait().expect("a child can be waited for");

    let endless = || std::fs::File::open("/dev/zero").unwrap().into();
    ends_by_itself("sleep 0.2; exit 3", endless(), 3);
    // Nor does it hold up the clock.
    let run = Run::new().option("--quiet --unmonitored --wall 1s");
    let mut command = run.command(&["sleep", "600"]);
    let started = Instant::now();
    let output = finish(command.stdin(endless()).spawn().expect("turnkey"));
    assert_eq!(output.status.code(), Some(124));
    assert!(started.elapsed() < Duration::from_secs(6));
}

#[test]
fn j54_a_closed_output_is_no_end() {
    let script = "exec >&- 2>&-; sleep 1; exit 4";
    let mut child = with_pipes(script);
    let mut output = Vec::new();
    let mut pipe = child.stdout.take().expect("a pipe");
    pipe.read_to_end(&mut output).expect("a pipe can be read");
    let lives = child.try_wait().expect("a child can be asked for");
    assert!(
        lives.is_none(),
        "the control: its output ends long before the program"
    );
    child.wait().expect("a child can be waited for");
    ends_by_itself(script, Stdio::null(), 4);
}

#[test]
fn j54_a_daemon_that_holds_the_output_holds_nothing_up() {
    let script = "setsid sleep 2 & exit 5";
    let control = Instant::now();
    outside("sh", &["-c", script]);
    let control = control.elapsed();
    assert!(
        control >= Duration::from_millis(1900),
        "the control: a reader waits"
    );
    ends_by_itself(&script.replace("sleep 2", "sleep 600"), Stdio::null(), 5);
}

/// Tries every group file for writing, and every way to get a hierarchy.
const GROUPS: &str = "import ctypes, os
opened = 0
for place, _, files in os.walk('/sys/fs/cgroup'):
    for file in files:
        if file in ('cgroup.procs', 'tasks', 'memory.max', 'pids.max', 'release_agent'):
            try:
                os.close(os.open(os.path.join(place, file), os.O_WRONLY))
                opened += 1
            except OSError: pass
    if opened: break
print('opened', opened > 0)
os.makedirs('/tmp/hierarchy', exist_ok=True)
call = ctypes.CDLL(None, use_errno=True)
for kind, options in ((b'cgroup', b'memory'), (b'cgroup', b'none,name=x'), (b'cgroup2', None)):
    if kind == b'cgroup' and os.environ.get('CONTROL'): continue
    print('mounted', call.mount(b'none', b'/tmp/hierarchy', kind, 0, options) == 0)";

#[test]
fn j14_j42_groups_can_neither_be_written_nor_mounted() {
    let control = Command::new("unshare")
        .args(["--mount", "python3", "-c", GROUPS])
        .env("CONTROL", "1")
        .output();
    let control = String::from_utf8_lossy(&control.unwrap().stdout).into_owned();
    assert_eq!(
        control, "opened True\nmounted True\n",
        "the control: root outside"
    );
    let ran = Run::new().option("--unmonitored").python(GROUPS);
    ran.expect(
        ran.stdout == "opened False\n".to_owned() + &"mounted False\n".repeat(3),
        "neither",
    );
    ran.expect_code(0);
}

/// Fills sockets with 20 MiB from each of eight processes, says so, and waits for the end of its input.
const SOCKETS: &str = "import os, socket, sys
def tcp():
    one = socket.create_server(('127.0.0.1', 0))
    sender = socket.create_connection(one.getsockname())
    receiver, _ = one.accept()
    return sender, receiver
def udp():
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    receiver.bind(('127.0.0.1', 0))
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(receiver.getsockname())
    return sender, receiver
def fill(sender, receiver):
    sender.setblocking(False)
    most = receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2 if kind == 'udp' else 1 << 22
    sent = 0
    try:
        while sent < most: sent += sender.send(b'x' * 32000)
    except OSError: pass
    return sent
kind, held = sys.argv[1], []
ready, done = os.pipe()
for _ in range(8):
    if os.fork() == 0:
        sent = 0
        try:
            while sent < 20 << 20 and len(held) < 100:
                held.append(globals()[kind]())
                sent += fill(*held[-1])
        except OSError: pass
        os.write(done, b'x')
        sys.stdin.read()
        os._exit(0)
for _ in range(8): os.read(ready, 1)
print('full', flush=True)
sys.stdin.read()";

/// MiB that sockets of this kind hold on the whole machine.
fn held_by_sockets(kind: &str) -> u64 {
    let told = std::fs::read_to_string("/proc/net/sockstat").expect("/proc is mounted");
    let line = told.lines().find(|line| line.starts_with(kind));
    let pages = line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    pages.expect("it ends with the pages") * 4 / 1024
}

/// How many MiB more are held while `command` has filled all it can.
fn more_in_sockets(mut command: Command, kind: &str) -> u64 {
    let before = held_by_sockets(kind);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command
        .stderr(Stdio::null())
        .spawn()
        .expect("it can be started");
    let mut word = [0; 4];
    let output = child.stdout.as_mut().expect("a pipe");
    let filled = output.read_exact(&mut word);
    // Several looks of turnkey's: what the kernel grants beyond the limit ends the run.
    std::thread::sleep(Duration::from_millis(300));
    let more = held_by_sockets(kind).saturating_sub(before);
    drop(child.stdin.take());
    finish(child);
    // It may be dead by then, and hold nothing.
    if filled.is_ok() { more } else { 0 }
}

/// Three seconds: sockets are filled four times over, with 160 MiB that the kernel copies.
#[test]
fn j68_what_sockets_hold_is_bounded() {
    for (name, kind) in [("tcp", "TCP:"), ("udp", "UDP:")] {
        let up = "ip link set lo up && exec python3 -c \"$0\" \"$1\"";
        let mut outside = Command::new("unshare");
        outside.args(["--net", "sh", "-c", up, SOCKETS, name]);
        let control = more_in_sockets(outside, kind);
        assert!(control > 120, "the control: {name} {control} MiB");
        let run = Run::new().option("--unmonitored --network loopback --memory 64M");
        let more = more_in_sockets(run.command(&["python3", "-c", SOCKETS, name]), kind);
        measured(&format!("{name}: {control} MiB outside, {more} MiB inside"));
        assert!(more <= 64, "{name}: {more} MiB");
    }
}

/// Locks on parts of files are in no group's account, and a process has as many as it likes.
#[test]
fn j52_locks_on_files_are_memory_of_the_jail() {
    let locks = |memory: &str| {
        let run = Run::new().option("--unmonitored").option(memory);
        let run = run.compiled("locks", include_str!("../attacks/locks.c"));
        run.run(&["./locks", "4", "100", "400"])
    };
    let control = locks("--memory 1G");
    control.expect(control.stdout == "40000 each\n", "as many as it likes");
    let held = control.at("/usage/memory_peak_bytes").as_u64();
    control.expect(held >= Some(160_000 * 192), "and they are counted");
    let ran = locks("--memory 24M");
    ran.expect_code(122);
    ran.expect(ran.at("/status") == "out_of_memory", "for its memory");
}
