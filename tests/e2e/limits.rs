//! Limits hold for the whole tree, are named when they end a run, and end it in time.

use turnkey_expectations::expected;

mod met;

use turnkey_tests::{Ran, Run, in_the_guest, measured, outside};

/// Shows the peak of memory, which never exceeds the limit and, in a run that met it, comes close.
fn memory_met_its_limit(ran: &Ran, whose: &str, limit: u64) {
    let peak = ran.at("/usage/memory_peak_bytes").as_u64().unwrap_or(0);
    let mib = |bytes: u64| f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) / 1024.0;
    measured(&format!(
        "memory of {whose}: peak {:.1} MiB of {:.0} MiB",
        mib(peak),
        mib(limit)
    ));
    ran.expect(peak <= limit, "never over the limit");
    ran.expect(peak > limit / 10 * 9, "and the limit was met");
}

#[test]
fn memory_of_one_process_is_bounded() {
    let ran = Run::new()
        .option("--memory 64M --wall 30s")
        .python("b = bytearray(200 << 20); print('filled', len(b))");
    ran.expect_code(122);
    ran.expect(ran.at("/status") == "out_of_memory", "out_of_memory");
    ran.expect(!ran.stdout.contains("filled"), "the memory was not given");
    memory_met_its_limit(&ran, "one process", 64 << 20);
    ran.expect(ran.took.as_secs() < 15, "well before the wall limit");
}

#[test]
fn memory_of_a_family_is_bounded_together() {
    // Each child alone stays under the limit; together they are far over it.
    let program = "import os, time
for _ in range(8):
    if os.fork() == 0:
        b = bytearray(40 << 20)
        print('child filled', flush=True)
        time.sleep(20)
        os._exit(0)
time.sleep(20)";
    let ran = Run::new()
        .option("--memory 128M --wall 30s --on-memory kill")
        .python(program);
    ran.expect_code(122);
    ran.expect(ran.at("/status") == "out_of_memory", "out_of_memory");
    ran.expect(
        ran.stdout.matches("child filled").count() < 4,
        "fewer than four times 40 MiB fit",
    );
    memory_met_its_limit(&ran, "a family", 128 << 20);
}

#[test]
fn memory_in_tmpfs_counts() {
    let ran = Run::new()
        .option("--memory 64M --file-size 1G")
        .option("--scratch /big=1G")
        .shell("head -c 300M /dev/zero > /big/file; echo done");
    ran.expect_code(122);
    ran.expect(ran.at("/status") == "out_of_memory", "out_of_memory");
    memory_met_its_limit(&ran, "tmpfs", 64 << 20);
}

/// Fills more than 64 MiB, and says how much of it is in swap. Not with zeros: the kernel would take
/// such pages back instead of swapping them.
const MORE_THAN_FITS: &str = "b = b'x' * (96 << 20)
print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmSwap')))";

expected!(
    swap_is_no_way_around_the_memory_limit,
    a_fork_bomb_meets_its_limit,
    threads_count_as_tasks: on [BY_DAY]
);
#[test]
fn swap_is_no_way_around_the_memory_limit() {
    if in_the_guest() {
        let swapped = swapped_without_a_jail();
        measured(&format!("swap: without a jail {} MiB", swapped >> 10));
        assert!(
            swapped > 16 << 10,
            "the control: 64 MiB and swap are enough"
        );
    }
    let before = pages_swapped_out();
    let ran = Run::new()
        .option("--memory 64M --wall 30s")
        .python(MORE_THAN_FITS);
    let pages = pages_swapped_out() - before;
    ran.expect_code(122);
    ran.expect(ran.at("/status") == "out_of_memory", "out_of_memory");
    measured(&format!("swap: {pages} pages written during the run"));
    if in_the_guest() {
        ran.expect(pages == 0, "nothing of the jail went to swap");
    }
    memory_met_its_limit(&ran, "what would swap", 64 << 20);
}

/// How many KiB of the program are in swap when a plain control group gives it 64 MiB.
fn swapped_without_a_jail() -> u64 {
    let group = std::path::Path::new("/sys/fs/cgroup/turnkey-control");
    std::fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory").expect("the guest is ours");
    std::fs::create_dir(group).expect("a group can be made");
    std::fs::write(group.join("memory.max"), "64M").expect("it takes a limit");
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec python3 -c \"$1\"",
        group.display()
    );
    let (status, printed) = outside("/bin/sh", &["-c", &script, "sh", MORE_THAN_FITS]);
    std::fs::remove_dir(group).expect("it is empty");
    assert!(status.success(), "it lives: {printed}");
    printed.trim().parse().expect("a number of KiB")
}

/// Since the host was started, of all its processes.
fn pages_swapped_out() -> u64 {
    let counters = std::fs::read_to_string("/proc/vmstat").expect("/proc is mounted");
    let mut counters = counters.lines();
    let pages = counters.find_map(|line| line.strip_prefix("pswpout "));
    pages.and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

#[test]
fn a_fork_bomb_meets_its_limit() {
    let program = "import os, time
made = 0
while True:
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        made += 1
    except OSError:
        print('stopped at', made, flush=True)
        time.sleep(60)";
    let ran = Run::new()
        .option("--pids 20 --on-pids kill")
        .python(program);
    ran.expect_code(122);
    ran.expect(ran.at("/status") == "limit_exceeded", "limit_exceeded");
    let made = ran
        .stdout
        .trim()
        .strip_prefix("stopped at ")
        .and_then(|made| made.parse::<u32>().ok());
    // The jail's init and the program itself are the other two; the report of the last fork may
    // be cut off by the end of the jail.
    ran.expect(
        made.is_none_or(|made| made == 18),
        "18 children beside the program and the init",
    );
    let peak = ran.at("/usage/pids_peak").as_u64().unwrap_or(0);
    measured(&format!("tasks: peak {peak} of 20"));
    ran.expect(peak <= 20, "never over the limit");
}

#[test]
fn threads_count_as_tasks() {
    let program = "import threading, time
for _ in range(60):
    threading.Thread(target=time.sleep, args=(60,)).start()";
    let ran = Run::new()
        .option("--pids 20 --on-pids kill")
        .python(program);
    ran.expect_code(122);
}

#[test]
pub fn the_wall_clock_ends_a_sleeper() {
    let ran = Run::new()
        .option("--wall 1s")
        .shell("trap '' TERM INT; sleep 60");
    ran.expect_code(124);
    ran.expect(ran.at("/status") == "timed_out", "timed_out");
    // Of the program, not of turnkey: where a CPU is emulated, the programs of the monitor take
    // seconds to load.
    let seconds = ran.at("/usage/wall_seconds").as_f64().unwrap_or(f64::MAX);
    ran.expect((1.0..4.0).contains(&seconds), "in time");
}

#[test]
fn cpu_time_counts_for_the_tree() {
    let script = "for i in 1 2 3; do (while :; do :; done) & done; wait";
    let ran = Run::new()
        .option("--cpu-time 1s --cpu 200% --wall 30s")
        .shell(script);
    ran.expect_code(124);
    ran.expect(
        ran.took.as_secs() < 15,
        "three spinners use one second quickly",
    );
}

#[test]
fn the_cpu_share_is_bounded() {
    let busy = "import time
end = time.monotonic() + 2
while time.monotonic() < end: pass
print(time.process_time())";
    let share = |option: &str| {
        let ran = Run::new().option(option).python(busy);
        ran.expect_code(0);
        ran.stdout.trim().parse::<f64>().unwrap() / 2.0
    };
    let limited = share("--cpu 25%");
    measured(&format!("CPU: {limited:.2} of 0.25"));
    assert!(limited < 0.4, "25 % allowed, used {limited}");
}

#[test]
pub fn a_flood_of_output_is_cut() {
    let ran = Run::new()
        .option("--output 100K --wall 30s")
        .shell("yes | head -c 10G");
    ran.expect_code(122);
    ran.expect(ran.at("/status") == "limit_exceeded", "limit_exceeded");
    ran.expect(
        ran.stdout.len() == 100 << 10,
        "exactly the allowed bytes pass",
    );
}

#[test]
pub fn a_file_larger_than_allowed_is_not_written() {
    let ran = Run::new()
        .option("--file-size 1M")
        .shell("exec head -c 2M /dev/zero > /tmp/file");
    ran.expect_code(122);
    ran.expect(ran.at("/status") == "limit_exceeded", "limit_exceeded");
}

#[test]
pub fn descriptors_are_bounded() {
    let program = "import os
try:
    fds = [os.open('/dev/null', os.O_RDONLY) for _ in range(100)]
except OSError as e:
    print(e.errno)";
    let ran = Run::new().option("--open-files 32").python(program);
    ran.expect(ran.stdout == "24\n", "EMFILE");
}

#[test]
fn usage_is_told() {
    let ran = Run::new().python("x = bytearray(30 << 20); sum(range(10**6))");
    let bytes = ran.at("/usage/memory_peak_bytes").as_u64().unwrap_or(0);
    ran.expect(
        (30 << 20..200 << 20).contains(&bytes),
        "at least the 30 MiB that were touched",
    );
    ran.expect(
        ran.at("/usage/wall_seconds")
            .as_f64()
            .is_some_and(|seconds| seconds > 0.0),
        "wall time",
    );
}

/// The reason of the finding of this id.
fn finding(ran: &Ran, id: &str) -> Option<String> {
    let mut findings = ran.list("/findings").iter();
    let found = findings.find(|finding| finding["id"] == id)?;
    found["reason"].as_str().map(str::to_owned)
}

/// Writes to the workspace until it cannot, and says how many MiB and which error.
const FILL: &str = "import os
fd = os.open('/workspace/full', os.O_WRONLY | os.O_CREAT)
written = 0
try:
    while written < 24 << 20:
        written += os.write(fd, b'x' * (1 << 20))
    print(written >> 20, 'all')
except OSError as e:
    print(written >> 20, e.strerror)";

#[test]
fn the_workspace_is_bounded() {
    let fill = |disk: &str| Run::new().option(disk).python(FILL);
    let control = fill("--disk 32M");
    control.expect_code(0);
    control.expect(
        control.stdout == "24 all\n",
        "the control: 24 MiB fit into 32",
    );
    control.expect(
        finding(&control, "turnkey:disk").is_none(),
        "it is not full",
    );
    let ran = fill("--disk 8M");
    ran.expect_code(0);
    measured(&format!(
        "disk of 8 MiB, MiB written: {}",
        ran.stdout.trim()
    ));
    ran.expect(
        ran.stdout == "7 No space left on device\n" || ran.stdout == "8 No space left on device\n",
        "8 MiB fit into 8, and then ENOSPC",
    );
    let told = finding(&ran, "turnkey:disk").expect("a finding about it");
    ran.expect(
        told.contains("8 MiB are written") && told.contains("--disk 16M"),
        "the finding says what was full, and the flag",
    );
    ran.expect(ran.stderr.contains(&told), "people read it, too");
}

#[test]
fn j55_a_bomb_of_empty_files_is_bounded() {
    let bomb = "import os
made = 0
try:
    while made < 3000:
        os.close(os.open('/workspace/%d' % made, os.O_WRONLY | os.O_CREAT))
        made += 1
    print(made, 'all')
except OSError as e:
    print(made, e.strerror)";
    let throw = |disk: &str| Run::new().option(disk).python(bomb);
    let control = throw("--disk 16M");
    control.expect(
        control.stdout == "3000 all\n",
        "the control: 4096 files are allowed with 16 MiB",
    );
    let ran = throw("--disk 4M");
    ran.expect_code(0);
    measured(&format!("files on a disk of 4 MiB: {}", ran.stdout.trim()));
    let (made, error) = ran.stdout.trim().split_once(' ').expect("two words");
    let made: u32 = made.parse().expect("a number");
    ran.expect(
        (1000..=1024).contains(&made) && error == "No space left on device",
        "one file for every 4 KiB, and then ENOSPC",
    );
    let told = finding(&ran, "turnkey:disk").expect("a finding about it");
    ran.expect(told.contains("1024 files"), "it was full of files");
}

#[test]
fn changes_beyond_the_list_are_counted() {
    let program = |files: u32| {
        format!(
            "import os
os.mkdir('/workspace/d')
for n in range({files}): os.close(os.open('/workspace/d/%d' % n, os.O_WRONLY | os.O_CREAT))"
        )
    };
    let changes = |files: u32| Run::new().option("--unmonitored").python(&program(files));
    let unlisted = |ran: &Ran| ran.at("/omitted/files_changed").as_u64();
    let control = changes(9_999);
    control.expect_code(0);
    control.expect(
        control.list("/files_changed").len() == 10_000 && unlisted(&control) == Some(0),
        "the directory and 9 999 files are listed, and nothing is left out",
    );
    control.expect(!control.stderr.contains("files changed"), "nothing to tell");
    let ran = changes(12_345);
    ran.expect_code(0);
    ran.expect(
        ran.list("/files_changed").len() == 10_000,
        "the list is bounded",
    );
    ran.expect(
        unlisted(&ran) == Some(2_346),
        "every file that is not in the list is counted",
    );
    ran.expect(
        ran.stderr
            .contains("files changed: 2346 more than the 10000 that a report lists"),
        "people are told",
    );
}

/// Eight times 1 MiB past the page cache, and the seconds that took.
const READ: &str = "import mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
page = mmap.mmap(-1, 1 << 20)
start = time.monotonic()
read = sum(os.preadv(fd, [page], n << 20) for n in range(8))
assert read == 8 << 20, read
print(time.monotonic() - start)";
const WRITE: &str = "import mmap, os, sys, time
fd = os.open(sys.argv[1] + '/out', os.O_WRONLY | os.O_CREAT | os.O_DIRECT | os.O_SYNC)
page = mmap.mmap(-1, 1 << 20)
page.write(b'x' * (1 << 20))
start = time.monotonic()
written = sum(os.pwritev(fd, [page], n << 20) for n in range(8))
assert written == 8 << 20, written
print(time.monotonic() - start)";

/// A directory on a disk, where /tmp may be memory.
fn on_a_disk() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a test runs as root")
}

/// Runs `program` with `given` as its argument, and answers the seconds that it says it took.
fn seconds_of(options: &str, program: &str, given: &str) -> (Ran, f64) {
    let ran = Run::new()
        .option(options)
        .run(&["python3", "-c", program, given]);
    ran.expect_code(0);
    let seconds = ran.stdout.trim().parse().expect("a number of seconds");
    (ran, seconds)
}

/// What the report says about the layer, if it is there.
fn io_layer(ran: &Ran) -> Option<&serde_json::Value> {
    let mut layers = ran.list("/enforcement").iter();
    layers.find(|layer| layer["layer"] == "io")
}

/// Whether the controller is one of cgroup v1 here.
fn io_is_on_v1() -> bool {
    std::path::Path::new("/sys/fs/cgroup/blkio").is_dir()
}

#[test]
fn reading_from_a_disk_takes_the_time_that_its_limit_says() {
    let directory = on_a_disk();
    let file = directory.path().join("data");
    std::fs::write(&file, vec![7; 8 << 20]).expect("there is room");
    let opened = std::fs::File::open(&file).expect("it was written");
    opened.sync_all().expect("it reaches the disk");
    let place = file.to_str().expect("a plain path");
    let read = |limit: &str| seconds_of(&format!("--read {place}{limit}"), READ, place);
    let (control, free) = read("");
    control.expect(io_layer(&control).is_none(), "no limit, no layer");
    let (ran, limited) = read(" --io-read 4M");
    measured(&format!(
        "8 MiB read at 4 MiB/s: {limited:.2} s; without a limit {free:.2} s"
    ));
    ran.expect(limited > 1.6, "8 MiB at 4 MiB in a second take two");
    ran.expect(limited < 6.0, "and not much longer");
    ran.expect(free < limited / 2.0, "the control: the disk is faster");
    let layer = io_layer(&ran).expect("the layer is told");
    let proof = layer["proof"].as_str().unwrap_or_default();
    ran.expect(
        proof.contains("4194304") && proof.contains("read back with the jail inside"),
        "and proved",
    );
    ran.expect(layer["degraded"].is_null(), "all reads are held back");
}

#[test]
fn writing_to_a_disk_takes_the_time_that_its_limit_says() {
    let directory = on_a_disk();
    let place = directory.path().to_str().expect("a plain path");
    let write = |limit: &str| seconds_of(&format!("--write {place}{limit}"), WRITE, place);
    let (_, free) = write("");
    let (ran, limited) = write(" --io-write 4M");
    measured(&format!(
        "8 MiB written at 4 MiB/s: {limited:.2} s; without a limit {free:.2} s"
    ));
    ran.expect(limited > 1.6, "8 MiB at 4 MiB in a second take two");
    ran.expect(limited < 6.0, "and not much longer");
    ran.expect(free < limited / 2.0, "the control: the disk is faster");
    let layer = io_layer(&ran).expect("the layer is told");
    ran.expect(
        layer["proof"]
            .as_str()
            .is_some_and(|it| it.contains("4194304")),
        "and proved",
    );
    let degraded = layer["degraded"].as_str();
    ran.expect(
        degraded.is_some_and(|it| it.contains("page cache")) == io_is_on_v1(),
        "what version 1 does not hold back is said, and version 2 does",
    );
}

#[test]
fn a_limit_on_disks_that_cannot_be_had_ends_the_start() {
    let nobody = || Run::new().by_nobody().option("--io-read 4M");
    let refused = nobody().shell("echo ran");
    refused.expect_code(125);
    refused.expect(refused.stdout.is_empty(), "nothing ran");
    refused.expect(
        refused.stderr.contains("io: no control group is delegated"),
        "the layer is named, with the fix",
    );
    let without = nobody().option("--unmonitored").shell("echo ran");
    without.expect_code(0);
    let layer = io_layer(&without).expect("the layer is told");
    without.expect(
        layer["effective"] == "nothing" && layer["degraded"].is_string(),
        "as one that is missing",
    );
}
