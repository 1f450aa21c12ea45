//! From the initramfs to a machine that tests can run on: modules, the root file system, and what
//! a system manager would mount.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::unistd::chroot;

/// The disk with the root file system: the machine's first.
const DISK: &str = "/dev/vda";

/// The disk to swap to. It is there so that a limit of swap has something to forbid.
const SWAP: &str = "/dev/vdb";

/// `MODULE_INIT_COMPRESSED_FILE` of linux/module.h, which nix does not name: the kernel unpacks it.
const COMPRESSED_FILE: u32 = 4;

/// How long a disk may take to appear after its driver was loaded.
const DISK_APPEARS_WITHIN: Duration = Duration::from_secs(20);

/// What is mounted in the new root: what, where, with which option. Control groups are version 2
/// and nothing else.
const MOUNTS: &[(&str, &str)] = &[
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("cgroup2", "/sys/fs/cgroup"),
    ("bpf", "/sys/fs/bpf"),
    ("securityfs", "/sys/kernel/security"),
    ("tracefs", "/sys/kernel/tracing"),
    ("devpts", "/dev/pts"),
    ("tmpfs", "/dev/shm"),
    ("tmpfs", "/run"),
];

/// Loads the modules, moves to the root file system, mounts the rest, brings up the loopback
/// device and the swap.
pub fn start() -> Result<()> {
    load_modules()?;
    mount_new("devtmpfs", "/dev")?;
    wait_for(Path::new(DISK))?;
    move_to_disk()?;
    for (kind, place) in MOUNTS {
        mount_new(kind, place)?;
    }
    tool("/usr/sbin/ip", &["link", "set", "lo", "up"])?;
    tool("/usr/sbin/swapon", &[SWAP])
}

/// In the order of their names, which is the order in which they need one another.
fn load_modules() -> Result<()> {
    let entries = fs::read_dir(turnkey_guest::MODULES).context("no modules")?;
    let mut modules: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    modules.sort();
    for path in modules {
        load_module(&path).with_context(|| format!("cannot load {}", path.display()))?;
    }
    Ok(())
}

fn load_module(path: &Path) -> Result<()> {
    let end = path.extension();
    let is_compressed = end.is_some_and(|end| end == "xz" || end == "zst");
    let flags = if is_compressed {
        ModuleInitFlags::from_bits_retain(COMPRESSED_FILE)
    } else {
        ModuleInitFlags::empty()
    };
    Ok(finit_module(File::open(path)?, c"", flags)?)
}

fn mount_new(kind: &str, place: &str) -> Result<()> {
    fs::create_dir_all(place).with_context(|| format!("cannot make {place}"))?;
    mount(
        Some(kind),
        place,
        Some(kind),
        MsFlags::empty(),
        None::<&str>,
    )
    .with_context(|| format!("cannot mount {kind} at {place}"))
}

fn wait_for(device: &Path) -> Result<()> {
    let deadline = Instant::now() + DISK_APPEARS_WITHIN;
    while !device.exists() {
        if Instant::now() > deadline {
            bail!("{} did not appear", device.display());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The initramfs cannot be unmounted and a jail cannot pivot out of it; the disk is moved over it.
fn move_to_disk() -> Result<()> {
    fs::create_dir_all("/disk")?;
    mount(
        Some(DISK),
        "/disk",
        Some("ext4"),
        MsFlags::empty(),
        None::<&str>,
    )
    .context("cannot mount the root file system")?;
    move_mount("/dev", "/disk/dev")?;
    std::env::set_current_dir("/disk")?;
    move_mount(".", "/")?;
    chroot(".").context("cannot change to the root file system")?;
    Ok(std::env::set_current_dir("/")?)
}

fn move_mount(from: &str, to: &str) -> Result<()> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_MOVE, None::<&str>)
        .with_context(|| format!("cannot move {from} to {to}"))
}

fn tool(program: &str, arguments: &[&str]) -> Result<()> {
    let status = Command::new(program).args(arguments).status();
    let status = status.with_context(|| format!("cannot start {program}"))?;
    if !status.success() {
        bail!("{program} {}: {status}", arguments.join(" "));
    }
    Ok(())
}
