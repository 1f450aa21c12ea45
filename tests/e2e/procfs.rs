//! What of the kernel shows through /proc, and that nothing of it can be set.

use turnkey_tests::{Ran, Run, outside};

/// Says of each path whether a byte can be read from it and whether it opens for writing.
const TRY_EACH: &str = r"
import os, sys
for path in sys.argv[1:]:
    try:
        with open(path, 'rb', buffering=0) as file:
            if file.read(1):
                print('read', path)
    except OSError:
        pass
    try:
        os.close(os.open(path, os.O_WRONLY))
        print('write', path)
    except OSError:
        pass
";

const TOLD: [&str; 14] = [
    "/proc/cmdline",
    "/proc/diskstats",
    "/proc/interrupts",
    "/proc/iomem",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/modules",
    "/proc/partitions",
    "/proc/sched_debug",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/vmallocinfo",
];

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

#[test]
pub fn j40_what_proc_tells_of_the_host_is_covered() {
    let (control, ran) = tried(&TOLD);
    for path in ["/proc/cmdline", "/proc/kallsyms", "/proc/timer_list"] {
        let told = format!("read {path}\n");
        assert!(control.contains(&told), "the control reads it: {control}");
    }
    ran.expect(ran.stdout.is_empty(), "nothing is told inside");
    let present = ran.at("/enforcement").to_string();
    ran.expect(
        present.contains("of them over parts of /proc"),
        "the masks are in the proof",
    );
}

#[test]
pub fn j40_no_setting_of_the_kernel_opens_for_writing() {
    let (control, ran) = tried(&SETTABLE);
    for path in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/overcommit_memory",
    ] {
        let opened = format!("write {path}\n");
        assert!(control.contains(&opened), "the control opens it: {control}");
    }
    ran.expect(!ran.stdout.contains("write "), "no write inside");
    ran.expect(!ran.stdout.contains("/sys/kernel/mm"), "/sys is not there");
}

#[test]
pub fn j40_directories_of_devices_are_empty() {
    let list = "ls /proc/acpi /proc/bus /proc/driver /proc/fs /proc/irq /proc/scsi 2>/dev/null \
                | grep -v ':$' | grep .; true";
    let (_, control) = outside("/bin/sh", &["-c", list]);
    assert!(!control.is_empty(), "the control: the host has some");
    let ran = observed().shell(list);
    ran.expect_code(0);
    ran.expect(ran.stdout.is_empty(), "none inside");
}

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
