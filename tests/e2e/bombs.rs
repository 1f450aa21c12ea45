//! Programs that take all they can get: J51 to J54. What they leave is looked for from outside.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use turnkey_tests::{Run, as_nobody, eventually, finish, outside};

/// Processes of the host that carry this text in their arguments.
fn processes_with(mark: &str) -> usize {
    let own = std::process::id().to_string();
    let marked = |entry: &std::fs::DirEntry| {
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        entry.file_name().to_string_lossy() != own
            && String::from_utf8_lossy(&arguments).contains(mark)
    };
    let entries = std::fs::read_dir("/proc").expect("/proc is mounted");
    entries.flatten().filter(marked).count()
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
    let ran = explode("fork", "--pids 30 --wall 20s", endless);
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
while True: threading.Thread(target=time.sleep, args=(600,)).start()";
    explode("thread", "--pids 30 --wall 20s", bomb).expect_code(122);
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
        "f = open('/dev/shm/file', 'wb')\nfor i in range(200): f.write(b'x' * (1 << 20))",
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
        if name != "tmpfs" {
            let control = outside("python3", &["-c", &program]).1;
            assert_eq!(control, "filled\n", "the control: {name} works outside");
        }
        let options = "--memory 64M --file-size 1G --wall 20s --scratch /big=1G";
        let ran = explode(name, options, &program);
        ran.expect(!ran.stdout.contains("filled"), name);
        ran.expect(ran.code != 0, name);
        let peak = ran.at("/usage/memory_peak_bytes").as_u64().unwrap_or(0);
        ran.expect(peak <= 64 << 20, name);
        eprintln!(
            "{name}: {peak} of {} bytes, status {}",
            64 << 20,
            ran.at("/status")
        );
        std::fs::remove_file("/dev/shm/file").unwrap_or_default();
    }
}

#[test]
fn j52_page_cache_counts_and_is_given_back() {
    let run = Run::new().option("--unmonitored --memory 64M --wall 20s");
    // A hole: reading it fills the page cache all the same.
    let file = std::fs::File::create(run.path().join("large")).unwrap();
    file.set_len(300 << 20).unwrap();
    let ran = run.shell("cat large | wc -c");
    ran.expect_code(0);
    ran.expect(ran.stdout.trim() == "314572800", "all of it was read");
    let peak = ran
        .at("/usage/memory_peak_bytes")
        .as_u64()
        .unwrap_or(u64::MAX);
    ran.expect(
        (32 << 20..=64 << 20).contains(&peak),
        "it counted, and within the limit",
    );
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

const SPINNERS: &str = "import os, signal
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
for _ in range(7):
    if os.fork() == 0:
        os.setsid()
        break
while True: pass";

#[test]
fn j53_spinners_that_ignore_everything_are_ended_by_the_clock() {
    let ran = explode("wall", "--wall 1s --cpu-time 1h", SPINNERS);
    ran.expect_code(124);
    ran.expect(ran.at("/status") == "timed_out", "timed_out");
    let wall = ran.at("/usage/wall_seconds").as_f64().unwrap_or(99.0);
    ran.expect((1.0..4.0).contains(&wall), "one second, and a moment");
}

#[test]
fn j53_the_processor_time_of_all_spinners_counts() {
    let ran = explode("cpu", "--wall 60s --cpu-time 1s --cpu 200%", SPINNERS);
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
    let sleeper = SPINNERS.replace(
        "while True: pass",
        "import time\nwhile True: time.sleep(60)",
    );
    explode("sleep", "--wall 1s", &sleeper).expect_code(124);
}

#[test]
fn j54_ten_gigabytes_of_output_fill_no_memory() {
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
    eprintln!("turnkey took {kibibytes} KiB");
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

#[test]
fn j54_input_that_nobody_reads_holds_nothing_up() {
    let endless = std::fs::File::open("/dev/zero").unwrap();
    ends_by_itself("sleep 0.2; exit 3", endless.into(), 3);
}

#[test]
fn j54_a_closed_output_is_no_end() {
    ends_by_itself("exec >&- 2>&-; sleep 0.2; exit 4", Stdio::null(), 4);
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
