//! The parts of /proc that speak of the host and not of the jail, or that reach into the kernel.
//! Each is covered in every jail, whatever a program could do with it on this kernel.
//!
//! procfs itself is mounted read-only, and its files belong to a root that the jail does not have.
//! The masks hold where one of them forgets to ask: they need no permission check to be right.
//! /sys is not there at all.

use std::path::Path;

/// Files, with what they would tell or do.
pub const FILES: &[(&str, &str)] = &[
    ("/proc/allocinfo", "the kernel's allocations"),
    (
        "/proc/cmdline",
        "how the host was booted, sometimes with secrets",
    ),
    ("/proc/devices", "which drivers the host has"),
    (
        "/proc/diskstats",
        "what the host's disks do, a side channel",
    ),
    ("/proc/dma", "the host's devices"),
    ("/proc/interrupts", "when keys are hit and packets arrive"),
    ("/proc/iomem", "physical addresses"),
    ("/proc/ioports", "the host's devices"),
    ("/proc/kallsyms", "addresses in the kernel"),
    ("/proc/kcore", "the memory of the kernel"),
    ("/proc/key-users", "who on the host holds keys"),
    ("/proc/keys", "the kernel's keys"),
    ("/proc/kmsg", "the kernel's log"),
    ("/proc/kpagecgroup", "the host's pages and whose they are"),
    (
        "/proc/kpagecount",
        "the host's pages, for rowhammer and its like",
    ),
    (
        "/proc/kpageflags",
        "the host's pages, for rowhammer and its like",
    ),
    ("/proc/latency_stats", "what other processes wait for"),
    ("/proc/lock_stat", "the kernel's locks"),
    ("/proc/locks", "file locks and inodes of others"),
    ("/proc/mdstat", "the host's disks"),
    ("/proc/modules", "the kernel's modules and their addresses"),
    ("/proc/mtrr", "physical memory; settable"),
    ("/proc/pagetypeinfo", "the kernel's free pages"),
    ("/proc/partitions", "the host's disks"),
    ("/proc/sched_debug", "every task of the host by name"),
    (
        "/proc/schedstat",
        "when other processes run, a side channel",
    ),
    (
        "/proc/slabinfo",
        "the kernel's objects, a help to heap attacks",
    ),
    ("/proc/softirqs", "when packets arrive"),
    ("/proc/swaps", "the host's disks"),
    (
        "/proc/sys/kernel/random/boot_id",
        "which machine this is, the same in every jail",
    ),
    ("/proc/sysrq-trigger", "crashes or reboots the host"),
    (
        "/proc/timer_list",
        "every timer of the host, with addresses",
    ),
    ("/proc/timer_stats", "timers of other processes"),
    ("/proc/vmallocinfo", "addresses in the kernel"),
    ("/proc/vmcore", "the memory of a crashed kernel"),
];

/// Directories, with what is in them.
pub const DIRECTORIES: &[(&str, &str)] = &[
    ("/proc/acpi", "the firmware; settable"),
    ("/proc/asound", "sound cards"),
    (
        "/proc/bus",
        "devices on PCI and USB, with registers that can be written",
    ),
    ("/proc/driver", "devices with interfaces of their own"),
    ("/proc/dynamic_debug", "what the kernel logs; settable"),
    ("/proc/fs", "file systems of the host; settable"),
    ("/proc/irq", "which CPU serves which device; settable"),
    (
        "/proc/pressure",
        "how busy the host is; jails could signal to each other by it",
    ),
    ("/proc/scsi", "disks that can be taken away by a write"),
    ("/proc/xen", "the hypervisor"),
];

/// True when something of turnkey's own covers what the host has at this path.
#[must_use]
pub fn hide(path: &Path) -> bool {
    FILES.iter().any(|(masked, _)| path == Path::new(masked))
        || DIRECTORIES
            .iter()
            .any(|(masked, _)| path.starts_with(masked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mask_lies_in_proc_and_stands_once() {
        let all: Vec<&str> = FILES
            .iter()
            .chain(DIRECTORIES)
            .map(|(path, _)| *path)
            .collect();
        for path in &all {
            assert!(Path::new(path).starts_with("/proc"), "{path}");
            assert_eq!(
                all.iter().filter(|other| *other == path).count(),
                1,
                "{path}"
            );
        }
    }

    #[test]
    fn what_programs_read_is_not_masked() {
        let needed = [
            "/proc/cpuinfo",
            "/proc/filesystems",
            "/proc/loadavg",
            "/proc/meminfo",
            "/proc/mounts",
            "/proc/net",
            "/proc/self",
            "/proc/stat",
            "/proc/sys",
            "/proc/uptime",
            "/proc/version",
            "/proc/vmstat",
            "/proc/zoneinfo",
        ];
        for path in needed {
            let mut masks = FILES.iter().chain(DIRECTORIES);
            assert!(masks.all(|(masked, _)| *masked != path), "{path}");
        }
    }
}
