//! Rights, and calls that change the system.

use std::fs::OpenOptions;
use std::io::Error;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::sys::statvfs::{FsFlags, statvfs};

use crate::cmd::audit::finding::{Bait, Criterion, Finding};

use super::child::in_child;
use super::technology::{namespace, status};
use super::{Probe, raw};

pub fn probes() -> Vec<Probe> {
    let probes = [
        Probe::new("root", "is root of the host", root),
        Probe::new("capabilities", "holds capabilities", capabilities),
        Probe::new("setuid", "can become root by a setuid program", setuid),
        Probe::new("user-namespace", "makes user namespaces", |_| {
            in_child(|| {
                unshare(CloneFlags::CLONE_NEWUSER)
                    .map(|()| "unshare(2)")
                    .into()
            })
        }),
        Probe::new("mount", "mounts file systems", mounts),
        Probe::new("fsopen", "mounts by the newer calls", |_| {
            raw::asked(libc::SYS_fsopen, [0; 5])
        }),
        Probe::new("device", "makes device files that act", device),
        Probe::new("disk", "opens disks of the host", disk),
        Probe::new(
            "kernel-settings",
            "opens settings of the kernel for writing",
            settings,
        ),
        Probe::new("bpf", "loads programs into the kernel", |_| {
            raw::asked(libc::SYS_bpf, [5, 0, 0, 0, 0])
        }),
        Probe::new("module", "loads modules into the kernel", |_| {
            raw::asked(libc::SYS_init_module, [0; 5])
        }),
        Probe::new("kexec", "replaces the kernel", |_| {
            raw::asked(libc::SYS_kexec_load, [0, usize::MAX, 0, 0, 0])
        }),
        Probe::new("reboot", "asks for a restart", |_| {
            raw::asked(libc::SYS_reboot, [0; 5])
        }),
        Probe::new("swap", "adds swap space", |_| {
            raw::asked(libc::SYS_swapon, [0; 5])
        }),
        Probe::new(
            "perf",
            "counts what the kernel does, by perf_event_open(2)",
            |_| raw::counts_events().into(),
        ),
        Probe::new("io-uring", "has calls made by io_uring", |_| {
            raw::asked(libc::SYS_io_uring_setup, [0; 5])
        }),
        Probe::new("userfaultfd", "answers page faults of the kernel", |_| {
            raw::asked(libc::SYS_userfaultfd, [0; 5])
        }),
        Probe::new("keys", "uses keyrings of the kernel", |_| {
            raw::asked(libc::SYS_keyctl, [usize::MAX, 0, 0, 0, 0])
        }),
        Probe::new("socket-families", "opens sockets of rare kinds", families),
    ];
    probes
        .into_iter()
        .map(|probe| probe.with_criterion(Criterion::Privilege))
        .collect()
}

fn root(bait: &Bait) -> Finding {
    let user = nix::unistd::geteuid();
    if !user.is_root() {
        return Finding::stopped(format!("user {user}"));
    }
    match (namespace("user"), bait.namespaces.get("user")) {
        (Ok(inside), Some(outside)) if inside == *outside => Finding::open("user 0 of the host"),
        (Ok(_), Some(_)) => Finding::stopped("user 0 of a namespace of its own"),
        _ => Finding::unknown("user 0, of nobody knows which namespace"),
    }
}

fn capabilities(_: &Bait) -> Finding {
    match status("CapEff") {
        Ok(held) if held.bytes().all(|digit| digit == b'0') => Finding::stopped("none"),
        Ok(held) => Finding::open(held),
        Err(error) => Finding::unknown(error.to_string()),
    }
}

fn setuid(_: &Bait) -> Finding {
    if status("NoNewPrivs").is_ok_and(|value| value == "1") {
        return Finding::stopped("no_new_privs is set");
    }
    for folder in ["/usr/bin", "/bin", "/usr/sbin", "/sbin"] {
        let acts = statvfs(folder).is_ok_and(|found| !found.flags().contains(FsFlags::ST_NOSUID));
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let found = entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
        let mut found = found.filter(|(_, file)| file.mode() & 0o4000 != 0 && file.uid() == 0);
        if let (true, Some((path, _))) = (acts, found.next()) {
            return Finding::open(path.display().to_string());
        }
    }
    Finding::stopped("no such program")
}

/// A file system of a kind that is not there: the kernel asks for the right first.
fn mounts(_: &Bait) -> Finding {
    let none: Option<&str> = None;
    let kind = Some("turnkey-audit");
    match mount(Some("none"), "/", kind, MsFlags::empty(), none) {
        Err(nix::Error::ENODEV) => Finding::open("mount(2) asks for the file system alone"),
        Err(error) => Finding::stopped(error.to_string()),
        Ok(()) => Finding::unknown("a file system was mounted that does not exist"),
    }
}

/// The null device under another name.
fn device(_: &Bait) -> Finding {
    let here = std::env::current_dir().unwrap_or_default();
    let mut last = Finding::unknown("no directory can be written to");
    for folder in [
        Path::new("/tmp"),
        here.as_path(),
        Path::new("/dev/shm"),
        Path::new("/dev"),
    ] {
        let path = folder.join(format!(".turnkey-audit-device-{}", std::process::id()));
        let made = mknod(&path, SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 3));
        if let Err(error) = made {
            last = Finding::stopped(error.to_string());
            continue;
        }
        let opened = OpenOptions::new().write(true).open(&path);
        let _ = std::fs::remove_file(&path);
        match opened {
            Ok(_) => return Finding::open(folder.display().to_string()),
            Err(error) => last = Finding::stopped(format!("made, and not opened: {error}")),
        }
    }
    last
}

fn disk(_: &Bait) -> Finding {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let disks = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_block_device()));
    let mut last = Finding::stopped("there is none in /dev");
    for disk in disks {
        match std::fs::File::open(disk.path()) {
            Ok(_) => return Finding::open(disk.path().display().to_string()),
            Err(error) => last = Finding::stopped(error.to_string()),
        }
    }
    last
}

fn settings(_: &Bait) -> Finding {
    let path = "/proc/sys/kernel/core_pattern";
    let opened: Result<_, Error> = OpenOptions::new().write(true).open(path);
    opened.map(|_| path).into()
}

fn families(_: &Bait) -> Finding {
    const FAMILIES: [(&str, i32); 9] = [
        ("AF_ALG", libc::AF_ALG),
        ("AF_BLUETOOTH", libc::AF_BLUETOOTH),
        ("AF_CAN", libc::AF_CAN),
        ("AF_KEY", libc::AF_KEY),
        ("AF_PACKET", libc::AF_PACKET),
        ("AF_RDS", libc::AF_RDS),
        ("AF_TIPC", libc::AF_TIPC),
        ("AF_VSOCK", libc::AF_VSOCK),
        ("AF_XDP", libc::AF_XDP),
    ];
    let opened = FAMILIES
        .iter()
        .filter(|(_, family)| raw::socket_of(*family));
    let names: Vec<&str> = opened.map(|(name, _)| *name).collect();
    match names.is_empty() {
        true => Finding::stopped("none of nine"),
        false => Finding::open(names.join(", ")),
    }
}
