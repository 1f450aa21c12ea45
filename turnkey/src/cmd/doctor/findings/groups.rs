//! Control groups: whether there are any, where their controllers are, and the account of swap.

use turnkey_jailer::container;
use turnkey_jailer::hierarchy::{Controller, ControllerHome};

use super::kernel::as_root;
use super::{CheckFinding, OpenCheck};
use crate::cmd::doctor::facts::{CgroupFacts, HostFacts};

/// One for the group itself, one for each controller, one for swap.
pub fn findings(facts: &HostFacts) -> Vec<CheckFinding> {
    let check = OpenCheck {
        name: "control-group",
        needed_for: "limits of the whole tree, killing it at once, and the monitor's key",
        source: "mkdir(2) in cgroup v2, clone3(2) with CLONE_INTO_CGROUP; /proc/self/cgroup, /proc/self/mountinfo",
    };
    let groups = match &facts.groups {
        Err(none) => return vec![check.missing(none.cause.as_str(), none.fix.as_str())],
        Ok(groups) => groups,
    };
    let place = groups.unified.display();
    let group = match &groups.made {
        Ok(()) => check.ok(format!(
            "one was made below {place}, a process born in it, and removed"
        )),
        Err(error) if facts.switches.privileged => check.missing(
            error.as_str(),
            format!("mount cgroup v2 writable at {place}, or start turnkey where it is; in a container, start that with --privileged --cgroupns=host"),
        ),
        Err(error) if facts.user == 0 => check.missing(error.as_str(), as_root(facts)),
        Err(error) => check.missing(
            format!("{place} is not this caller's: {error}"),
            container::how_to_have_groups(),
        ),
    };
    let mut findings = vec![group];
    for (controller, home) in &groups.controllers {
        findings.push(one_controller(*controller, home, groups));
    }
    if groups.made.is_ok() {
        findings.push(swap(groups));
    }
    findings
}

fn one_controller(
    controller: Controller,
    home: &ControllerHome,
    groups: &CgroupFacts,
) -> CheckFinding {
    let (name, needed_for) = match controller {
        Controller::Memory => ("controller-memory", "limits.memory and limits.swap"),
        Controller::Pids => ("controller-pids", "limits.pids"),
        Controller::Cpu => ("controller-cpu", "limits.cpu"),
        Controller::Io => ("controller-io", "limits.io_read and limits.io_write"),
    };
    let check = OpenCheck {
        name,
        needed_for,
        source: "cgroup.controllers, /proc/self/mountinfo",
    };
    let unified = groups.unified.display();
    let hierarchy = || match &groups.lacks {
        Some(lacks) => format!("nowhere: {lacks}"),
        None => format!("in no hierarchy of this host, and not handed down to {unified}"),
    };
    match home {
        ControllerHome::Legacy(directory) if controller == Controller::Io => check.limited(
            format!(
                "on cgroup v1, {}: what is written through the page cache is not held back",
                directory.display()
            ),
            "for limits.io_write, boot with version 2 alone: systemd.unified_cgroup_hierarchy=1",
        ),
        // No profile asks for it unless a limit does.
        ControllerHome::Missing if controller == Controller::Io => {
            check.limited(hierarchy(), fix(controller, groups))
        }
        ControllerHome::Unified => check.ok(format!("on cgroup v2, {unified}")),
        ControllerHome::Legacy(directory) => check.ok(format!(
            "on cgroup v1, {}: as good for limits",
            directory.display()
        )),
        ControllerHome::Missing => check.missing(hierarchy(), fix(controller, groups)),
    }
}

fn fix(controller: Controller, groups: &CgroupFacts) -> String {
    let (name, unified) = (controller.name(), groups.unified.display());
    if groups.lacks.is_some() {
        return "mount the hierarchy, as said here".to_owned();
    }
    let parent = format!("hand it down: echo +{name} > {unified}/cgroup.subtree_control");
    match controller {
        Controller::Memory => format!(
            "{parent}; where the kernel has it switched off, boot with cgroup_enable=memory"
        ),
        Controller::Pids => format!("{parent}; else boot a kernel built with CONFIG_CGROUP_PIDS=y"),
        Controller::Io => {
            format!("{parent}; else boot a kernel built with CONFIG_BLK_DEV_THROTTLING=y")
        }
        Controller::Cpu => {
            format!("{parent}; else boot a kernel built with CONFIG_CFS_BANDWIDTH=y")
        }
    }
}

fn swap(groups: &CgroupFacts) -> CheckFinding {
    let check = OpenCheck {
        name: "swap",
        needed_for: "limits.swap: memory that is swapped out counts too",
        source: "memory.swap.max or memory.memsw.limit_in_bytes of a group; /proc/swaps",
    };
    if groups.swap_is_bounded {
        return check.ok("a group's swap can be limited, or this host has none");
    }
    check.missing(
        "this host has swap, and the kernel keeps no account of it",
        "boot with the kernel parameter swapaccount=1, or turn swap off: swapoff -a",
    )
}
