//! Tiers: the kernel's two ways of asking, and the check of which one this host has.

use std::fmt;
use std::path::Path;

/// The place of the monitor between a program and the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Tracepoints at the entry and exit of system calls: what is forbidden is seen, and kills.
    Tracepoint,
    /// Hooks of BPF LSM besides: what is forbidden does not happen.
    Lsm,
}

impl Tier {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tracepoint => "tracepoint",
            Self::Lsm => "lsm",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// The better tier of this kernel, and why it is not the best.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// The tier.
    pub tier: Tier,
    /// The lack that keeps the host from [`Tier::Lsm`].
    pub lacks: Option<Lack>,
}

/// A condition of the better tier that the host does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The condition that is not met.
    pub cause: String,
    /// The remedy that the host's owner has.
    pub fix: String,
}

/// The names of the active security modules, in order; `Documentation/admin-guide/LSM`.
const MODULES: &str = "/sys/kernel/security/lsm";
/// The level of lockdown, in brackets; kernel_lockdown(7).
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

impl Available {
    /// Looks at this host. Loading the programs, and their canary, still have to prove it.
    #[must_use]
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(Path::new(path)).ok();
        Self::from_lists(read(MODULES).as_deref(), read(LOCKDOWN).as_deref())
    }

    fn from_lists(modules: Option<&str>, lockdown: Option<&str>) -> Self {
        let lacks = lacks(modules.map(str::trim), lockdown.map(str::trim));
        let tier = match lacks {
            None => Tier::Lsm,
            Some(_) => Tier::Tracepoint,
        };
        Self { tier, lacks }
    }
}

fn lacks(modules: Option<&str>, lockdown: Option<&str>) -> Option<Lack> {
    let Some(list) = modules else {
        return Some(Lack {
            cause: format!(
                "{MODULES} cannot be read, so nothing tells whether the kernel asks BPF"
            ),
            fix: String::from("mount -t securityfs none /sys/kernel/security"),
        });
    };
    if !list.split(',').any(|module| module == "bpf") {
        return Some(Lack {
            cause: format!("`bpf` is not among the active security modules ({list})"),
            fix: format!("boot with the kernel parameter lsm={list},bpf"),
        });
    }
    let levels = lockdown.filter(|levels| !levels.contains("[none]"))?;
    Some(Lack {
        cause: format!("lockdown ({levels}) refuses the programs"),
        fix: String::from("boot with the kernel parameter lockdown=none, or without Secure Boot"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(modules: Option<&str>, lockdown: Option<&str>) -> Tier {
        Available::from_lists(modules, lockdown).tier
    }

    #[test]
    fn bpf_in_the_list_without_lockdown_is_the_lsm_tier() {
        let list = "capability,landlock,yama,bpf\n";
        let open = "[none] integrity confidentiality\n";
        assert_eq!(tier(Some(list), Some(open)), Tier::Lsm);
        assert_eq!(
            tier(Some(list), None),
            Tier::Lsm,
            "a kernel without lockdown"
        );
    }

    #[test]
    fn what_is_lacking_is_named_with_its_fix() {
        let closed = "none [integrity] confidentiality\n";
        for (modules, lockdown, fix) in [
            (None, None, "mount -t securityfs"),
            (Some("capability,yama\n"), None, "lsm=capability,yama,bpf"),
            (Some("capability,bpf\n"), Some(closed), "lockdown=none"),
        ] {
            let found = Available::from_lists(modules, lockdown);
            assert_eq!(found.tier, Tier::Tracepoint);
            assert!(
                found.lacks.is_some_and(|lacks| lacks.fix.contains(fix)),
                "{fix}"
            );
        }
    }

    #[test]
    fn a_module_whose_name_only_contains_bpf_is_not_it() {
        assert_eq!(tier(Some("notbpf,bpfx"), None), Tier::Tracepoint);
    }
}
