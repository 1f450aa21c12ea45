//! Checks of what the jail itself stands on.

use nix::errno::Errno;
use turnkey_jailer::container;

use super::{CheckFinding, OpenCheck};
use crate::cmd::doctor::facts::HostFacts;

/// The newest ABI of Landlock that turnkey makes use of.
const NEWEST_LANDLOCK: u32 = 6;

/// The advice for a caller without privileges; root has to get them first.
pub fn as_root(facts: &HostFacts) -> String {
    if facts.user == 0 {
        return container::how_to_have_privileges(facts.switches.in_container);
    }
    "run turnkey as root; or do without the monitor and, unless some are delegated, control groups: \
     turnkey run --best-effort"
        .to_owned()
}

pub fn capabilities(facts: &HostFacts) -> CheckFinding {
    let check = OpenCheck {
        name: "capabilities",
        needed_for: "making jails and loading the monitor",
        source: "/proc/self/status, CapEff",
    };
    let missing: Vec<String> = facts
        .capabilities
        .iter()
        .filter(|capability| !capability.held)
        .map(|capability| format!("{} ({})", capability.name, capability.purpose))
        .collect();
    let user = facts.user;
    if missing.is_empty() {
        return check.ok(format!("user {user} holds all that turnkey uses"));
    }
    check.missing(
        format!("user {user} lacks {}", missing.join(", ")),
        as_root(facts),
    )
}

pub fn namespaces(facts: &HostFacts) -> CheckFinding {
    let check = OpenCheck {
        name: "namespaces",
        needed_for: "everything a jail is: its own users, mounts, processes, network",
        source: "clone3(2), sethostname(2) inside; /proc/sys/user/max_*_namespaces, /proc/sys/kernel/*userns*, /proc/self/attr/apparmor/current",
    };
    let switches = &facts.switches;
    let refusal = match (facts.namespaces, facts.rights_inside) {
        (Err(answer), _) => switches
            .certain()
            .unwrap_or_else(|| switches.explain(answer)),
        (_, Err(answer)) => switches
            .explain_inside(answer)
            .unwrap_or_else(|| switches.explain(answer)),
        _ => return check_for_users(facts, check),
    };
    check.missing(refusal.cause, refusal.fix)
}

/// Namespaces that work for this caller; whether they would for one without privileges is worth knowing.
fn check_for_users(facts: &HostFacts, check: OpenCheck) -> CheckFinding {
    let made = "a process was made in all of them and had its rights there";
    let mut user = facts.switches.clone();
    user.privileged = false;
    let refusal = user.certain().or_else(|| user.explain_inside(Errno::EPERM));
    match refusal {
        Some(refusal) if facts.switches.privileged => check.limited(
            format!(
                "{made}; callers without privileges have none: {}",
                refusal.cause
            ),
            refusal.fix,
        ),
        _ => check.ok(made),
    }
}

pub fn overlay(facts: &HostFacts) -> CheckFinding {
    let check = OpenCheck {
        name: "overlay",
        needed_for: "a working directory that can be written and is as before afterwards",
        source: "fsopen(2) of overlayfs with `userxattr` over tmpfs, in a user namespace",
    };
    match facts.overlay {
        Ok(()) => check.ok("an overlay of memory was made without privileges"),
        // What keeps namespaces away is told where they are looked at.
        Err(_) if facts.namespaces.is_err() || facts.rights_inside.is_err() => {
            check.missing("not tried: it takes a user namespace", "mend `namespaces` above")
        }
        Err(Errno::ENODEV) => check.missing(
            "this kernel has no overlayfs loaded",
            "modprobe overlay; or run with --workdir-mode read-only",
        ),
        Err(errno) => check.missing(
            format!("the kernel refused: {errno}"),
            "turnkey needs Linux 5.11 or later with overlayfs; or run with --workdir-mode read-only",
        ),
    }
}

pub fn id_mapped(facts: &HostFacts) -> CheckFinding {
    let check = OpenCheck {
        name: "id-mapped-mounts",
        needed_for: "files of the working directory that belong to the jail's user inside",
        source: "mount_setattr(2) with MOUNT_ATTR_IDMAP, on a detached view of the directory",
    };
    let directory = facts.id_mapped.directory.display();
    match facts.id_mapped.outcome {
        Ok(()) => check.ok(format!("the file system of {directory} can be id-mapped")),
        Err(_) if !facts.switches.privileged => {
            check.ok("not needed: without privileges the jail's user is the caller, whose files these are")
        }
        Err(errno) => check.missing(
            format!("the file system of {directory} cannot be id-mapped: {errno}"),
            "start in a directory on ext4, xfs, btrfs or (Linux 6.3) tmpfs, or run with --workdir-mode none",
        ),
    }
}

pub fn seccomp(facts: &HostFacts) -> CheckFinding {
    let check = OpenCheck {
        name: "seccomp",
        needed_for: "closing the kernel's dangerous system calls",
        source: "seccomp(2) in a child",
    };
    match facts.seccomp {
        Ok(()) => check.ok("a filter was installed"),
        Err(errno) => check.missing(
            format!("the kernel refused a filter: {errno}"),
            "boot a kernel built with CONFIG_SECCOMP_FILTER=y; in a container, allow seccomp(2)",
        ),
    }
}

pub fn landlock(facts: &HostFacts) -> CheckFinding {
    let check = OpenCheck {
        name: "landlock",
        needed_for: "a second lock on files that does not depend on mounts",
        source: "landlock_create_ruleset(2), and an open in a child that it must refuse",
    };
    let abi = facts.landlock.abi;
    match facts.landlock.refuses {
        Err(Errno::ENOSYS) => check.missing("this kernel has no Landlock", into_list(facts, "landlock")),
        Err(errno) => check.missing(
            format!("ABI {abi} is there and did not refuse what it must: {errno}"),
            "this is a fault of the kernel: boot another one",
        ),
        Ok(()) if abi < NEWEST_LANDLOCK => check.limited(
            format!("ABI {abi}: {}", lacks(abi).join(", ")),
            "boot Linux 6.12 or later for ABI 6; what is missing is held by the namespaces and the tree",
        ),
        Ok(()) => check.ok(format!("ABI {abi}, errata mended {:#x}; a child was refused", facts.landlock.errata)),
    }
}

/// landlock(7), "Versions".
fn lacks(abi: u32) -> Vec<&'static str> {
    const SINCE: [(u32, &str); 4] = [
        (2, "no renaming between directories"),
        (3, "no lock on truncate(2)"),
        (5, "no lock on ioctl(2) of devices"),
        (6, "no scope for signals and abstract sockets"),
    ];
    let missing = SINCE.iter().filter(|(since, _)| abi < *since);
    missing.map(|(_, what)| *what).collect()
}

/// The advice on how to get a security module into the kernel's list.
pub fn into_list(facts: &HostFacts, module: &str) -> String {
    match &facts.security_modules {
        Some(list) => format!(
            "boot with the kernel parameter lsm={},{module}",
            list.join(",")
        ),
        None => format!("boot a kernel that has it, with `{module}` in the kernel parameter lsm="),
    }
}
