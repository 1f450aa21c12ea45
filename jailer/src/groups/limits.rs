//! The limits of a jail's control groups as data: which file gets which value, in which order.

use std::path::PathBuf;

use turnkey_policy::{JailLimits, LimitResponse, NetworkMode};

use crate::groups::hierarchy::{CgroupHierarchies, Controller, ControllerHome};
use crate::host::storage::BlockDevice;
use crate::plan::io::DiskLimits;

/// The period that the share of CPU time is measured over, microseconds: the kernel's default.
const CPU_PERIOD: u64 = 100_000;

/// The v1 file for memory of internet sockets, which is counted apart from other memory: `mem_cgroup_sk_alloc()` in
/// mm/memcontrol.c. It is about to be removed from the kernel.
pub(crate) const SOCKETS: &str = "memory.kmem.tcp.limit_in_bytes";
/// The divisor for the part of the memory that there may be once more in sockets.
pub(crate) const SHARE_OF_SOCKETS: u64 = 4;

/// One value for one file of the jail's group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLimit {
    /// The controller that enforces the limit.
    pub controller: Controller,
    /// Below which directory the jail's group is made; `None` when no hierarchy has the controller.
    pub parent: Option<PathBuf>,
    /// The name of the file in the group.
    pub file: &'static str,
    /// The text that is written to it.
    pub value: String,
    /// True when a kernel may lack the file: an account of swap is a matter of its build and command
    /// line. Where it is missing, the host must have no swap.
    pub may_be_missing: bool,
    /// The device whose line of the file it is, which the value begins with; `None` when the file
    /// holds one value.
    pub device: Option<BlockDevice>,
}

impl GroupLimit {
    /// The part of the file's text that is about this limit.
    pub(crate) fn part_of<'t>(&self, text: &'t str) -> Option<&'t str> {
        let Some(device) = self.device else {
            return Some(text);
        };
        let start = format!("{device} ");
        text.lines().find(|line| line.starts_with(&start))
    }
}

/// Every limit, in the order they must be written.
pub(crate) fn plan(
    limits: &JailLimits,
    network: NetworkMode,
    hierarchies: &CgroupHierarchies,
    io: Option<&DiskLimits>,
) -> Vec<GroupLimit> {
    let mut plan = Vec::new();
    let order = [
        Controller::Pids,
        Controller::Memory,
        Controller::Cpu,
        Controller::Io,
    ];
    for controller in order {
        let home = hierarchies.home(controller);
        let parent = match home {
            ControllerHome::Unified => Some(hierarchies.unified.clone()),
            ControllerHome::Legacy(directory) => Some(directory.clone()),
            ControllerHome::Missing => None,
        };
        let legacy = matches!(home, ControllerHome::Legacy(_));
        let limit = |(file, value): (&'static str, String), device| GroupLimit {
            controller,
            parent: parent.clone(),
            file,
            value,
            may_be_missing: file.contains("memsw") || file == SOCKETS,
            device,
        };
        let settings = settings(controller, legacy, limits).into_iter();
        plan.extend(settings.map(|setting| limit(setting, None)));
        // Who can send to nobody fills no socket; the kernel rewrites its code for the first group that has this.
        if controller == Controller::Memory && legacy && network != NetworkMode::None {
            let share = limits.memory / SHARE_OF_SOCKETS;
            plan.push(limit((SOCKETS, share.to_string()), None));
        }
        if let Some(io) = io.filter(|_| controller == Controller::Io) {
            for disk in &io.disks {
                let settings = io_settings(*disk, legacy, io).into_iter();
                plan.extend(settings.map(|setting| limit(setting, Some(*disk))));
            }
        }
    }
    plan
}

/// A whole disk's line of io.max, or of the files that stand for it on v1.
fn io_settings(disk: BlockDevice, legacy: bool, io: &DiskLimits) -> Vec<(&'static str, String)> {
    let limits = [
        ("blkio.throttle.read_bps_device", "rbps", io.read),
        ("blkio.throttle.write_bps_device", "wbps", io.write),
    ];
    let limits = limits
        .into_iter()
        .filter_map(|(file, word, bytes)| Some((file, word, bytes?)));
    if legacy {
        return limits
            .map(|(file, _, bytes)| (file, format!("{disk} {bytes}")))
            .collect();
    }
    let words = limits.map(|(_, word, bytes)| format!(" {word}={bytes}"));
    vec![("io.max", format!("{disk}{}", words.collect::<String>()))]
}

fn settings(
    controller: Controller,
    legacy: bool,
    limits: &JailLimits,
) -> Vec<(&'static str, String)> {
    let memory = limits.memory;
    let quota = u64::from(limits.cpu) * CPU_PERIOD / 100;
    let all_die = u8::from(limits.on_memory == LimitResponse::Kill);
    match (controller, legacy) {
        (Controller::Pids, _) => vec![("pids.max", limits.pids.to_string())],
        (Controller::Memory, true) => vec![
            ("memory.limit_in_bytes", memory.to_string()),
            (
                "memory.memsw.limit_in_bytes",
                memory.saturating_add(limits.swap).to_string(),
            ),
        ],
        (Controller::Memory, false) => vec![
            ("memory.max", memory.to_string()),
            ("memory.swap.max", limits.swap.to_string()),
            // The whole jail dies at once, or one process of it.
            ("memory.oom.group", all_die.to_string()),
        ],
        (Controller::Cpu, true) => vec![
            ("cpu.cfs_period_us", CPU_PERIOD.to_string()),
            ("cpu.cfs_quota_us", quota.to_string()),
        ],
        // For each disk: see io_settings().
        (Controller::Io, _) => Vec::new(),
        (Controller::Cpu, false) => vec![("cpu.max", format!("{quota} {CPU_PERIOD}"))],
    }
}
