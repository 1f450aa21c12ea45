//! A privileged container where control groups are of version 2 alone: with a view of them of its own, as engines make it by
//! default, and with the host's.

use std::process::{Command, Output};

use turnkey_expectations::expected;
use turnkey_tests::{Run, binary};

expected!(on[LSM_6_12]);

/// Moves the shell into a group of the engine's, to which the first group hands controllers down, and becomes the rest.
const IN_A_GROUP: &str = r#"
cd /sys/fs/cgroup
echo "+memory +pids +cpu" > cgroup.subtree_control
mkdir -p engine && echo $$ > engine/cgroup.procs
cd "$HOME" && exec "$@"
"#;
/// The kernel mounts no file system over itself.
const PRIVATE: &str = "mount -t proc proc /proc && umount /sys/fs/cgroup && \
    mount -t cgroup2 none /sys/fs/cgroup && $turnkey run";
const OF_THE_HOST: &str = "mount -t proc proc /proc && $turnkey run";

fn container(namespaces: &[&str], script: &str) -> Output {
    let work = Run::new();
    let output = Command::new("sh")
        .args([
            "-ec", IN_A_GROUP, "sh", "unshare", "--mount", "--pid", "--fork",
        ])
        .args(namespaces)
        // The shell stays, and is in the group.
        .args(["sh", "-c", &format!("{script} -- echo ran; exit $?")])
        .env("HOME", work.path())
        .env("turnkey", binary())
        .output();
    output.expect("a guest has a shell")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_view_of_its_own_hands_no_controllers_down_and_the_hosts_does() {
    let strict = container(&["--cgroup"], PRIVATE);
    assert_eq!(strict.status.code(), Some(125), "{}", said(&strict));
    assert!(
        said(&strict).contains("--cgroupns=host"),
        "{}",
        said(&strict)
    );
    let followed = container(&[], OF_THE_HOST);
    assert_eq!(followed.status.code(), Some(0), "{}", said(&followed));
    assert_eq!(followed.stdout, b"ran\n", "{}", said(&followed));
    assert!(said(&followed).contains("clean"), "{}", said(&followed));
}

/// A group is made all the same, and the monitor knows the jail by it.
#[test]
fn best_effort_is_watched_and_names_the_limits_that_are_not_the_kernels() {
    let output = container(&["--cgroup"], &format!("{PRIVATE} --best-effort"));
    let told = said(&output);
    assert_eq!(output.stdout, b"ran\n", "{told}");
    assert!(told.contains("memory, pids, cpu: "), "{told}");
    assert!(told.contains("--cgroupns=host"), "{told}");
    assert!(!told.contains("nobody watched"), "{told}");
    assert!(told.contains("inconclusive"), "{told}");
}
