//! What of the kernel shows through /proc, and that nothing of it can be set.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, has_x32, in_the_guest, measured, outside, scratch};

/// Says of each path whether anything can be read from it and whether it opens for writing.
const TRY_EACH: &str = r"
import os, sys
for path in sys.argv[1:]:
    try:
        # Eight bytes: kpagecount(5) and its like answer in whole words.
        flags = os.O_RDONLY | os.O_NONBLOCK
        with open(os.open(path, flags), 'rb', buffering=0) as file:
            if file.read(8):
                print('read', path)
    except OSError:
        pass
    try:
        os.close(os.open(path, os.O_WRONLY))
        print('write', path)
    except OSError:
        pass
";

/// What no kernel of the tests lacks, whatever else it was built with.
const EVERYWHERE: [&str; 7] = [
    "/proc/cmdline",
    "/proc/devices",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/locks",
    "/proc/sys/kernel/random/boot_id",
    "/proc/timer_list",
];

/// What the guest's kernels, which are Debian's, tell beside those.
const IN_THE_GUEST: [&str; 20] = [
    "/proc/diskstats",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/mdstat",
    "/proc/modules",
    "/proc/mtrr",
    "/proc/pagetypeinfo",
    "/proc/partitions",
    "/proc/schedstat",
    "/proc/slabinfo",
    "/proc/softirqs",
    "/proc/swaps",
    "/proc/vmallocinfo",
];

/// What only the general one among them tells.
const ON_THE_GENERAL_KERNEL: [&str; 1] = ["/proc/dma"];

/// There is nothing to read in it: it is written to.
const WRITTEN: &str = "/proc/sysrq-trigger";

/// Directories that are somewhere: on each machine, on the guest's, on its general kernel.
const DIRECTORIES_EVERYWHERE: [&str; 3] = ["/proc/fs", "/proc/irq", "/proc/pressure"];
const DIRECTORIES_IN_THE_GUEST: [&str; 4] = [
    "/proc/acpi",
    "/proc/bus",
    "/proc/driver",
    "/proc/dynamic_debug",
];
const DIRECTORIES_ON_THE_GENERAL_KERNEL: [&str; 1] = ["/proc/asound"];

/// Masks over what no kernel of the tests has, so that nothing shows them at work but the others.
/// SECURITY.md has the list, with the reasons.
const NOWHERE: [&str; 8] = [
    "/proc/allocinfo",
    "/proc/latency_stats",
    "/proc/lock_stat",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_stats",
    "/proc/vmcore",
    "/proc/xen",
];

/// What this machine is expected to have, of three lists.
fn expected_here<'a>(
    everywhere: &'a [&'a str],
    in_the_guest: &'a [&'a str],
    on_the_general_kernel: &'a [&'a str],
) -> impl Iterator<Item = &'a str> {
    let of_the_guest = in_the_guest
        .iter()
        .filter(|_| turnkey_tests::in_the_guest());
    // The general kernel is the one with x32.
    let of_the_general = on_the_general_kernel.iter().filter(|_| has_x32());
    let here = everywhere.iter().chain(of_the_guest).chain(of_the_general);
    here.copied()
}

/// The masks of a table of jailer/src/plan/masks.rs, so that none is without its test.
fn masks(table: &str) -> Vec<&'static str> {
    let source = include_str!("../../policy/src/masks.rs");
    let (_, table) = source
        .split_once(&format!("pub const {table}: "))
        .expect("it has this table");
    let (table, _) = table.split_once("];").expect("a table ends");
    let paths = table.split('"').filter(|text| text.starts_with("/proc/"));
    paths.collect()
}

const SETTABLE: [&str; 10] = [
    "/proc/mtrr",
    "/proc/sys/fs/suid_dumpable",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sysrq-trigger",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/uevent_helper",
    "/sys/power/state",
];

/// Rules would end the program at the first of these; here the layers below them are tried.
fn observed() -> Run {
    Run::new().option("--mode observe")
}

fn tried(paths: &[&str]) -> (String, Ran) {
    let program: Vec<&str> = ["-c", TRY_EACH].iter().chain(paths).copied().collect();
    let (_, control) = outside("python3", &program);
    let inside: Vec<&str> = ["python3"].iter().chain(&program).copied().collect();
    let ran = observed().run(&inside);
    ran.expect_code(0);
    (control, ran)
}

/// Those that this kernel has, and those that it lacks.
fn present(masks: Vec<&'static str>) -> (Vec<&'static str>, Vec<&'static str>) {
    masks.into_iter().partition(|mask| Path::new(mask).exists())
}

/// Of every file that is ever masked: what outside tells something says nothing inside. Which
/// there are depends on the kernel, so two kernels run this and the figures tell what each has.
/// Files of the machine that the common /proc shows, and some of the program's own processes.
const MACHINE: &str = r"
import os
names = ['cpuinfo', 'meminfo', 'stat', 'version', 'uptime', 'sys/kernel/ostype', 'self/stat', '1/comm', 'net/dev', 'self/net/dev']
def shows(name):
    try: return bool(open('/proc/' + name, 'rb').read(1))
    except OSError: return False
print([name for name in names if shows(name)])
print([name for name in os.listdir('/proc') if not name.isdigit()])
";

#[test]
fn a_proc_of_processes_tells_nothing_of_the_machine() {
    let common = Run::new().python(MACHINE);
    common.expect(
        ["cpuinfo", "meminfo", "uptime", "self/stat"]
            .iter()
            .all(|name| common.stdout.contains(&format!("'{name}'"))),
        "the control: what the machine is can be read",
    );
    let ran = Run::new()
        .profile("[filesystem]\nproc = \"processes\"\n")
        .python(MACHINE);
    ran.expect_code(0);
    ran.expect(
        ran.stdout == "['self/stat', '1/comm', 'self/net/dev']\n['self', 'thread-self']\n",
        "the jail's processes, and nothing else",
    );
}

#[test]
fn the_groups_of_the_jail_are_the_roots_that_it_sees() {
    // Several times: its first process enters them by itself, before it makes the namespace.
    for _ in 0..5 {
        let ran = Run::new().shell("cat /proc/self/cgroup");
        let mut seen = ran.stdout.lines().map(|line| line.rsplit(':').next());
        ran.expect(!ran.stdout.is_empty(), "it is in groups");
        ran.expect(
            seen.all(|path| path == Some("/")),
            "none of them shows what it is called outside",
        );
    }
}

expected!(
    j40_what_proc_tells_of_the_host_is_covered,
    j40_every_mask_has_a_kernel_or_is_said_to_have_none,
    j40_no_setting_of_the_kernel_opens_for_writing,
    j40_directories_of_devices_are_empty: on [GENERAL_6_12]
);
#[test]
pub fn j40_what_proc_tells_of_the_host_is_covered() {
    let files = masks("FILES");
    assert!(files.len() > 30, "the table was found: {files:?}");
    // Who reads the log takes it from the host's own reader.
    let tried_here = |path: &&str| in_the_guest() || *path != "/proc/kmsg";
    let files: Vec<_> = files.into_iter().filter(tried_here).collect();
    // Somebody has to hold a lock for there to be one to tell of.
    let directory = scratch();
    let locked = File::create(directory.path().join("locked")).unwrap();
    locked.lock().unwrap();
    let (control, ran) = tried(&files);
    let told: BTreeSet<_> = control
        .lines()
        .filter_map(|line| line.strip_prefix("read "))
        .collect();
    let (here, lacking) = present(masks("FILES"));
    measured(&format!("told outside: {told:?}"));
    measured(&format!(
        "{} masked files exist; this kernel has no {lacking:?}",
        here.len()
    ));
    for path in expected_here(&EVERYWHERE, &IN_THE_GUEST, &ON_THE_GENERAL_KERNEL) {
        assert!(told.contains(path), "the control reads {path}: {control}");
    }
    ran.expect(ran.stdout.is_empty(), "nothing is told inside");
    let count = here.len() + present(masks("DIRECTORIES")).0.len();
    let proof = ran.at("/enforcement").to_string();
    ran.expect(
        proof.contains(&format!("{count} of them over parts of /proc")),
        "every mask that has something to cover is in the proof",
    );
}

/// No mask is without its test, unless SECURITY.md says so.
#[test]
fn j40_every_mask_has_a_kernel_or_is_said_to_have_none() {
    let tables = [
        &EVERYWHERE[..],
        &IN_THE_GUEST,
        &ON_THE_GENERAL_KERNEL,
        &[WRITTEN],
        &DIRECTORIES_EVERYWHERE,
        &DIRECTORIES_IN_THE_GUEST,
        &DIRECTORIES_ON_THE_GENERAL_KERNEL,
        &NOWHERE,
    ];
    let mut known = tables.concat();
    known.sort_unstable();
    let mut all = [masks("FILES"), masks("DIRECTORIES")].concat();
    all.sort_unstable();
    assert_eq!(known, all);
    let security = include_str!("../../SECURITY.md");
    for path in NOWHERE {
        assert!(security.contains(&format!("`{path}`")), "{path}");
    }
    let (here, _) = present(NOWHERE.to_vec());
    measured(&format!("thought to be nowhere, and here: {here:?}"));
}

#[test]
pub fn j40_no_setting_of_the_kernel_opens_for_writing() {
    let (control, ran) = tried(&SETTABLE);
    let everywhere = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/overcommit_memory",
    ];
    // Debian builds its kernels without a helper.
    let built = SETTABLE.map(|path| {
        if path.ends_with("uevent_helper") {
            everywhere[0]
        } else {
            path
        }
    });
    for path in expected_here(&everywhere, &built, &[]) {
        let opened = format!("write {path}\n");
        assert!(control.contains(&opened), "the control opens it: {control}");
    }
    ran.expect(!ran.stdout.contains("write "), "no write inside");
    ran.expect(!ran.stdout.contains("/sys/kernel/mm"), "/sys is not there");
}

#[test]
pub fn j40_directories_of_devices_are_empty() {
    let directories = masks("DIRECTORIES").join(" ");
    let list = format!("find {directories} -mindepth 1 -maxdepth 1 2>/dev/null; true");
    let (_, control) = outside("/bin/sh", &["-c", &list]);
    for directory in expected_here(
        &DIRECTORIES_EVERYWHERE,
        &DIRECTORIES_IN_THE_GUEST,
        &DIRECTORIES_ON_THE_GENERAL_KERNEL,
    ) {
        let entry = format!("{directory}/");
        assert!(control.contains(&entry), "the control: {entry} {control}");
    }
    measured(&format!("found outside: {control:?}"));
    let ran = observed().shell(&list);
    ran.expect_code(0);
    ran.expect(ran.stdout.is_empty(), "none inside");
}

expected!(
    what_ordinary_programs_read_of_proc_is_there: not_on [ORDINARY_6_12],
    "what is not covered is the same on every kernel; what is covered differs, so that runs"
);
#[test]
fn what_ordinary_programs_read_of_proc_is_there() {
    let ran = Run::new().shell(
        "head -c1 /proc/meminfo /proc/cpuinfo /proc/stat /proc/uptime /proc/self/status \
         /proc/self/maps /proc/mounts /proc/filesystems /proc/sys/kernel/osrelease >/dev/null",
    );
    ran.expect_code(0);
    let ran = Run::new().python(
        "import os, platform, multiprocessing, uuid; os.cpu_count(); os.getloadavg(); \
         platform.uname(); uuid.getnode(); multiprocessing.Pool(2).map(abs, [1]); print('fine')",
    );
    ran.expect(ran.stdout == "fine\n", "a common set of libraries works");
}
