//! Containers: turnkey in one, and how one is started in which it has what it needs.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The kernel's own number for the first namespace of processes, `PROC_PID_INIT_INO`. Marks such as /.dockerenv stay
/// in images that became machines.
const FIRST_PROCESSES: u64 = 0xEFFF_FFFC;

/// The options of a container in which everything can be had.
///
/// With control groups of its own, `--cgroupns=private`, the root that it sees of them holds its processes, and the
/// kernel lets no group with processes hand controllers down.
pub const WITH_EVERYTHING: &str = "docker run --privileged --cgroupns=host …";

/// The same for an ordinary user's jail.
pub const FOR_A_USER: &str = "docker run --user 1000:1000 --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
     --security-opt systempaths=unconfined …";

/// True when the host's first process is out of sight.
pub fn is_here() -> bool {
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() != FIRST_PROCESSES)
}

/// The advice for root without capabilities.
pub fn how_to_have_privileges(in_container: bool) -> String {
    if in_container {
        format!("start the container with all capabilities: {WITH_EVERYTHING}")
    } else {
        "start turnkey as root with all capabilities".to_owned()
    }
}

/// The advice for an ordinary user without a control group. Without systemd nobody is there to delegate one: the directory
/// is how sd_booted(3) knows it.
pub fn how_to_have_groups() -> String {
    groups_advice(Path::new("/run/systemd/system").is_dir())
}

fn groups_advice(has_systemd: bool) -> String {
    let delegate = match has_systemd {
        true => {
            ", or let systemd delegate one: systemd-run --user --scope -p Delegate=yes turnkey …"
        }
        false => "",
    };
    format!("run turnkey as root{delegate}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_a_systemd_that_is_not_there() {
        assert!(groups_advice(true).contains("systemd-run --user"));
        assert_eq!(groups_advice(false), "run turnkey as root");
    }
}
