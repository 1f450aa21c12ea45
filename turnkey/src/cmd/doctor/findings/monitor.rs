//! Checks of what the monitor stands on, and the tiers it can have.

use super::kernel::{as_root, into_list};
use super::{CheckFinding, OpenCheck};
use crate::cmd::doctor::facts::HostFacts;
use crate::cmd::doctor::preemption::{LeftOutPrograms, Omission};

const MOUNT_SYSFS: &str = "as root, mount sysfs: mount -t sysfs sysfs /sys";

/// The finding where the files of security modules cannot be read.
fn mount_securityfs(facts: &HostFacts) -> String {
    let mount = "mount -t securityfs none /sys/kernel/security";
    match facts.has_sysfs {
        true => format!("as root, mount it: {mount}"),
        false => format!("{MOUNT_SYSFS} && {mount}"),
    }
}

/// BTF, the security modules, lockdown, the tier they make and what it is worth, the place of programs
/// that are loaded for all, and the monitor itself.
pub fn findings(facts: &HostFacts) -> [CheckFinding; 7] {
    [
        btf(facts),
        security_modules(facts),
        lockdown(facts),
        tier(facts),
        preemption(facts),
        shared(facts),
        monitor(facts),
    ]
}

fn btf(facts: &HostFacts) -> CheckFinding {
    let check = OpenCheck {
        name: "btf",
        needed_for: "finding the kernel's fields, for the monitor",
        source: "/sys/kernel/btf/vmlinux",
    };
    match &facts.btf {
        Ok(bytes) => check.ok(format!("{bytes} bytes")),
        Err(error) => check.missing(
            format!("the kernel does not describe itself: {error}"),
            match facts.has_sysfs {
                true => "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y (Linux 5.17 or later of every common distribution), with nothing mounted over the file",
                false => MOUNT_SYSFS,
            },
        ),
    }
}

fn security_modules(facts: &HostFacts) -> CheckFinding {
    let check = OpenCheck {
        name: "bpf-lsm",
        needed_for: "the monitor's lsm tier: what rules forbid is refused before it happens",
        source: "/sys/kernel/security/lsm",
    };
    match &facts.security_modules {
        None => check.limited(
            "cannot be told: the file cannot be read",
            mount_securityfs(facts),
        ),
        Some(list) if list.iter().any(|module| module == "bpf") => check.ok(list.join(",")),
        Some(list) => check.limited(
            format!("`bpf` is not in the list: {}", list.join(",")),
            into_list(facts, "bpf"),
        ),
    }
}

fn lockdown(facts: &HostFacts) -> CheckFinding {
    let check = OpenCheck {
        name: "lockdown",
        needed_for: "loading eBPF programs",
        source: "/sys/kernel/security/lockdown",
    };
    match facts.lockdown.as_deref() {
        None => check.limited(
            "cannot be told: the file cannot be read",
            mount_securityfs(facts),
        ),
        Some("none") => check.ok("none"),
        Some("integrity") => check.limited(
            "integrity: the tracepoint tier works, the lsm tier cannot be had",
            "boot with the kernel parameter lockdown=none, or without Secure Boot",
        ),
        Some(other) => check.missing(
            format!("{other}: eBPF programs may not read what the monitor must"),
            "boot with the kernel parameter lockdown=integrity or none",
        ),
    }
}

fn tier(facts: &HostFacts) -> CheckFinding {
    let check = OpenCheck {
        name: "monitor-tier",
        needed_for: "refusing what rules forbid before it happens, rather than killing for it",
        source: "/sys/kernel/security, and the hooks in /sys/kernel/btf/vmlinux",
    };
    let tier = facts.tier.tier;
    if let Some(lack) = &facts.tier.lacks {
        return check.limited(
            format!("{tier}; not the lsm tier, since {}", lack.cause),
            match facts.has_sysfs {
                true => lack.fix.clone(),
                false => mount_securityfs(facts),
            },
        );
    }
    match &facts.hooks {
        Ok(hooks) if hooks.missing.is_empty() => {
            check.ok(format!("{tier}, with all {} hooks", hooks.all))
        }
        Ok(hooks) => check.limited(
            format!(
                "{tier}, with {} of {} hooks: this kernel has no {}",
                hooks.all - hooks.missing.len(),
                hooks.all,
                hooks.missing.join(", ")
            ),
            "boot a newer kernel for these; what they would refuse is left to the jail's other layers",
        ),
        Err(error) => check.limited(
            format!("{tier}; which of its hooks there are cannot be told: {error}"),
            "mend what is said of btf",
        ),
    }
}

fn preemption(facts: &HostFacts) -> CheckFinding {
    let check = OpenCheck {
        name: "preemption",
        needed_for: "running the monitor's programs for every task, also while another one is in them",
        source: "uname(2), /sys/kernel/debug/sched/preempt, /proc/cmdline, /proc/kallsyms",
    };
    let (programs, certainty) = match facts.omission {
        Omission::Happens(programs) => (programs, "it preempts itself"),
        Omission::Unknown(programs) => (programs, "if it preempts itself, which cannot be told"),
        Omission::Never => return check.ok("this kernel leaves none out"),
    };
    match programs {
        LeftOutPrograms::Hooks => check.limited(
            format!(
                "a program at a hook is left out while another task of the CPU is in it ({certainty}): what it \
                 would have seen or refused is not, and the run is called inconclusive"
            ),
            "boot with the kernel parameter preempt=voluntary, or Linux 6.1.54 or later",
        ),
        LeftOutPrograms::Tracepoints => check.limited(
            format!(
                "a program at a tracepoint is left out while another task of the CPU is in it ({certainty}): those \
                 that decide are called by perf, and left out only while another user of eBPF is interrupted in a map \
                 operation; those that tell of new processes can be. The run is called inconclusive then"
            ),
            "set on_loss = \"kill\" where no such run is to go on; Linux 6 cannot be interrupted there",
        ),
    }
}

fn shared(facts: &HostFacts) -> CheckFinding {
    let check = OpenCheck {
        name: "monitor-load",
        needed_for: "starting every run but the first without loading the monitor's programs anew",
        source: "/sys/fs/bpf",
    };
    match &facts.shared {
        Ok(()) => check.ok("nobody but root can load programs for every run"),
        Err(error) => {
            let unknown = as_root(facts);
            let (found, fix) = error.rsplit_once(": ").unwrap_or((error, &unknown));
            check.limited(
                format!("{found}; every run loads its own"),
                format!("as root: {fix}"),
            )
        }
    }
}

fn monitor(facts: &HostFacts) -> CheckFinding {
    let check = OpenCheck {
        name: "monitor",
        needed_for: "seeing what the program does and killing it for it",
        source: "bpf(2): the monitor was loaded, and its canary flown in a group of its own",
    };
    let may = facts.capabilities.iter().all(|capability| capability.held);
    match &facts.monitor {
        Ok(proof) => check.ok(proof.as_str()),
        Err(error) if may => check.missing(
            error.as_str(),
            "mend what is missing above, or what the message names",
        ),
        Err(error) => check.missing(error.as_str(), as_root(facts)),
    }
}
