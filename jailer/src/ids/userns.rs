//! Refusals of user namespaces on this host, and the fix.
//!
//! The kernel answers with a bare number; which of its switches stood in the way is told by /proc.
//! [`NamespaceSwitches::read`] looks, everything else is pure.

use std::fmt;

use caps::{CapSet, Capability};
use nix::errno::Errno;

use crate::ids::container;
use crate::kernel_file;

/// The cause of a refusal and its fix. Both are whole sentences without
/// their full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceRefusal {
    /// The cause.
    pub cause: String,
    /// A command, or the one thing to change.
    pub fix: String,
}

impl fmt::Display for NamespaceRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; {}", self.cause, self.fix)
    }
}

fn refusal(cause: impl Into<String>, fix: impl Into<String>) -> NamespaceRefusal {
    NamespaceRefusal {
        cause: cause.into(),
        fix: fix.into(),
    }
}

/// The kernel's switches that bear on namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceSwitches {
    /// Kinds of which this user namespace may have none: `/proc/sys/user/max_KIND_namespaces` is 0.
    pub forbidden_kinds: Vec<&'static str>,
    /// `/proc/sys/kernel/unprivileged_userns_clone`, a switch of Debian's kernels, is 0.
    pub closed_to_users: bool,
    /// `/proc/sys/kernel/apparmor_restrict_unprivileged_userns`, a switch of Ubuntu's kernels, is 1.
    pub restricted_by_apparmor: bool,
    /// The AppArmor profile that confines the caller. From Linux 6.7 on it may have no say on
    /// namespaces, allow them, or refuse them to root too.
    pub confined_by: Option<String>,
    /// True when the caller has CAP_SYS_ADMIN, which the two switches above do not bind.
    pub privileged: bool,
    /// True when turnkey runs in a container, whose engine filters system calls by default.
    pub in_container: bool,
}

/// namespaces(7), "The /proc/sys/user directory".
const KINDS: [&str; 8] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"];

impl NamespaceSwitches {
    /// Looks at this host, as the calling process sees it.
    pub fn read() -> NamespaceSwitches {
        NamespaceSwitches {
            forbidden_kinds: KINDS
                .into_iter()
                .filter(|kind| number(&format!("user/max_{kind}_namespaces")) == Some(0))
                .collect(),
            closed_to_users: number("kernel/unprivileged_userns_clone") == Some(0),
            restricted_by_apparmor: number("kernel/apparmor_restrict_unprivileged_userns")
                .is_some_and(|value| value != 0),
            confined_by: kernel_file::read("/proc/self/attr/apparmor/current")
                .ok()
                .and_then(|label| profile(&label)),
            privileged: caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_ADMIN)
                .unwrap_or(false),
            in_container: container::is_here(),
        }
    }

    /// The refusal that is certain before anything is tried: with such a switch no jail can be.
    pub fn certain(&self) -> Option<NamespaceRefusal> {
        self.refused_by_zero_limit()
            .or_else(|| self.not_for_users())
    }

    /// The meaning of the kernel's answer to clone3(2) or unshare(2) on this host.
    pub fn explain(&self, answer: Errno) -> NamespaceRefusal {
        match answer {
            Errno::ENOSPC | Errno::EUSERS => self.refused_by_zero_limit().unwrap_or_else(|| {
                refusal(
                    "no more namespaces of some kind may be made here, or they are nested 32 deep",
                    "raise the sysctls user.max_*_namespaces, or start turnkey outside of the other sandbox",
                )
            }),
            Errno::EPERM | Errno::EACCES => self.not_permitted(answer),
            Errno::EINVAL => refusal(
                "this kernel lacks a kind of namespace",
                "turnkey needs Linux 5.14 or later, built with every namespace",
            ),
            Errno::ENOSYS => refusal(
                "clone3(2) is missing, or the filter of a container around turnkey hides it",
                match self.in_container {
                    true => self.another_container(),
                    false => "turnkey needs Linux 5.14 or later; a filter around turnkey must allow clone3(2) and namespaces".to_owned(),
                },
            ),
            Errno::ENOMEM | Errno::EAGAIN => refusal(
                "this host has no room for another process",
                "end some, or raise the limits of processes and memory that this process runs under",
            ),
            _ => refusal(
                "the kernel refused without a reason that turnkey knows",
                "`turnkey doctor` says what this host can do",
            ),
        }
    }

    /// The meaning of a refusal that met a process *inside* a namespace it had just made, where it
    /// should have had every right: AppArmor lets the namespace be and takes its capabilities.
    pub fn explain_inside(&self, answer: Errno) -> Option<NamespaceRefusal> {
        let refused = matches!(answer, Errno::EPERM | Errno::EACCES);
        (refused && self.restricted_by_apparmor && !self.privileged).then(apparmor)
    }

    fn refused_by_zero_limit(&self) -> Option<NamespaceRefusal> {
        let kind = self.forbidden_kinds.first()?;
        let switch = format!("user.max_{kind}_namespaces");
        Some(refusal(
            format!("{switch} is 0 in this user namespace"),
            format!("raise it: sysctl -w {switch}=15000"),
        ))
    }

    fn not_for_users(&self) -> Option<NamespaceRefusal> {
        (self.closed_to_users && !self.privileged).then(|| {
            refusal(
                "kernel.unprivileged_userns_clone is 0: only root may make user namespaces",
                "run turnkey as root, or open them to users: sysctl -w kernel.unprivileged_userns_clone=1",
            )
        })
    }

    /// AppArmor's own answer is EACCES, nobody else's.
    fn not_in_the_profile(&self, answer: Errno) -> Option<NamespaceRefusal> {
        let name = self.confined_by.as_ref()?;
        (answer == Errno::EACCES).then(|| {
            refusal(
                format!("the AppArmor profile `{name}`, which turnkey runs under, allows no user namespaces"),
                "add the rule `userns,` to that profile and load it again (apparmor_parser -r), or start turnkey outside of it",
            )
        })
    }

    fn not_permitted(&self, answer: Errno) -> NamespaceRefusal {
        self.not_for_users()
            .or_else(|| self.explain_inside(answer))
            .or_else(|| self.not_in_the_profile(answer))
            .unwrap_or_else(|| {
                refusal(
                    "a security module, a chroot(2), or the filter of a container around turnkey refuses namespaces",
                    match self.in_container {
                        true => self.another_container(),
                        false => "run turnkey outside of it, or as root with all capabilities".to_owned(),
                    },
                )
            })
    }

    fn another_container(&self) -> String {
        let (all, user) = (container::WITH_EVERYTHING, container::FOR_A_USER);
        match self.privileged {
            true => format!("start the container without it: {all}"),
            false => format!(
                "start the container with all of it, and turnkey as root: {all}; or for the jail without the monitor: {user}"
            ),
        }
    }
}

/// The profile in a label such as `firefox (enforce)`; none that refuses anything in `unconfined`.
fn profile(label: &str) -> Option<String> {
    let (name, mode) = label.trim_end().rsplit_once(" (")?;
    matches!(mode, "enforce)" | "kill)").then(|| name.to_owned())
}

fn apparmor() -> NamespaceRefusal {
    refusal(
        "AppArmor takes every right from user namespaces of unprivileged users: kernel.apparmor_restrict_unprivileged_userns is 1",
        "run turnkey as root, give it an AppArmor profile with `userns,`, or lift it for everybody: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    )
}

fn number(name: &str) -> Option<u64> {
    let text = kernel_file::read(format!("/proc/sys/{name}")).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> NamespaceSwitches {
        NamespaceSwitches::default()
    }

    fn root() -> NamespaceSwitches {
        NamespaceSwitches {
            privileged: true,
            ..NamespaceSwitches::default()
        }
    }

    #[test]
    fn a_kind_that_is_forbidden_is_certain_for_root_too() {
        for of in [user(), root()] {
            let switches = NamespaceSwitches {
                forbidden_kinds: vec!["net"],
                ..of
            };
            let certain = switches.certain().unwrap();
            assert_eq!(
                certain.cause,
                "user.max_net_namespaces is 0 in this user namespace"
            );
            assert!(
                certain
                    .fix
                    .contains("sysctl -w user.max_net_namespaces=15000")
            );
            assert_eq!(switches.explain(Errno::ENOSPC), certain);
            assert_eq!(switches.explain(Errno::EUSERS), certain);
        }
    }

    #[test]
    fn debians_switch_binds_only_users() {
        let closed = |of: NamespaceSwitches| NamespaceSwitches {
            closed_to_users: true,
            ..of
        };
        let certain = closed(user()).certain().unwrap();
        assert!(
            certain
                .to_string()
                .contains("sysctl -w kernel.unprivileged_userns_clone=1"),
            "{certain}"
        );
        assert_eq!(closed(user()).explain(Errno::EPERM), certain);
        assert_eq!(closed(root()).certain(), None);
    }

    #[test]
    fn ubuntus_switch_is_named_wherever_it_strikes() {
        let restricted = |of: NamespaceSwitches| NamespaceSwitches {
            restricted_by_apparmor: true,
            ..of
        };
        // With AppArmor's own profile for it loaded the namespace can be made and is worth
        // nothing, so the switch alone is not certain; without that profile it cannot be made.
        assert_eq!(restricted(user()).certain(), None);
        let fix = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
        for answer in [Errno::EPERM, Errno::EACCES] {
            assert!(restricted(user()).explain(answer).fix.contains(fix));
            let inside = restricted(user()).explain_inside(answer).unwrap();
            assert!(inside.fix.contains(fix));
            assert_eq!(restricted(root()).explain_inside(answer), None);
        }
        assert_eq!(restricted(user()).explain_inside(Errno::ENOENT), None);
    }

    #[test]
    fn the_profile_that_refuses_is_named() {
        let confined = NamespaceSwitches {
            confined_by: profile("small one (enforce)\n"),
            ..user()
        };
        let refused = confined.explain(Errno::EACCES);
        assert!(refused.cause.contains("`small one`"), "{refused}");
        assert!(refused.fix.contains("userns,"), "{refused}");
        assert!(!confined.explain(Errno::EPERM).cause.contains("small one"));
        for harmless in ["unconfined\n", "small one (complain)\n", ""] {
            assert_eq!(profile(harmless), None);
        }
    }

    #[test]
    fn every_answer_has_a_cause_and_a_fix() {
        for number in 1..134 {
            for switches in [user(), root()] {
                let refusal = switches.explain(Errno::from_raw(number));
                assert!(
                    !refusal.cause.is_empty() && !refusal.fix.is_empty(),
                    "{number}"
                );
            }
        }
    }
}
