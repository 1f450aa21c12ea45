//! The number of CPUs, as a jail has them: its share of the host's by `limits.cpu`.
//!
//! sysconf(3) reads it from /sys, else from /proc/stat, which counts the host's. A pool of as many workers would be more than `pids`
//! on a large host. No jail is bound to CPUs for that: sched_setaffinity(2) would have each wait for its own while others idle.

use std::path::Path;

use turnkey_policy::{NamedLimits, Policy};

use super::rootfs::RootfsBuilder;
use crate::landlock::PathUse;

/// The directories above, which have nothing else: programs that list them would take it for the host's hardware.
const ABOVE: [&str; 3] = ["/sys", "/sys/devices", "/sys/devices/system"];
/// The directory of the kernel's lists of CPUs.
const PLACE: &str = "/sys/devices/system/cpu";
/// Lists of which a jail has its own: of CPUs that work, that are there, and that could be.
const LISTS: [&str; 3] = ["online", "present", "possible"];

impl RootfsBuilder {
    /// Lists of as many CPUs as the jail has on a host with `cpus` of them.
    pub(super) fn cpus(&mut self, policy: &Policy, cpus: usize) {
        let share = NamedLimits::of_jail(policy.limits.memory, policy.limits.cpu, cpus).cpus;
        for above in ABOVE {
            self.unlisted(Path::new(above));
        }
        let place = Path::new(PLACE);
        for name in LISTS {
            self.file(&place.join(name), list(share).into_bytes());
        }
        self.grant(place, PathUse::Read, true);
    }
}

/// The first so many CPUs, in the kernel's words.
fn list(count: u64) -> String {
    match count.saturating_sub(1) {
        0 => "0\n".to_owned(),
        last => format!("0-{last}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_listed_as_the_kernel_does() {
        assert_eq!([0, 1, 2, 64].map(list), ["0\n", "0\n", "0-1\n", "0-63\n"]);
    }
}
