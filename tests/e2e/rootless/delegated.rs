//! A control group that was given to a caller without privileges.

use turnkey_tests::{NOBODY, Run};

/// A group of this test's own, given to nobody; gone with it.
struct Delegated(std::path::PathBuf);

impl Delegated {
    fn new() -> Delegated {
        let group = unified().join(format!("turnkey-test-{}", std::process::id()));
        std::fs::create_dir(&group).expect("root can make a group");
        let files = [
            "",
            "cgroup.procs",
            "cgroup.threads",
            "cgroup.subtree_control",
        ];
        for file in files {
            let path = group.join(file);
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).expect("root can give it");
        }
        Delegated(group)
    }

    fn groups_inside(&self) -> usize {
        let entries = std::fs::read_dir(&self.0).expect("it is there").flatten();
        entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .count()
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
        for _ in 0..200 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

/// Where this process is in the v2 hierarchy.
fn unified() -> std::path::PathBuf {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    let mount = mounts
        .lines()
        .find(|line| line.contains(" - cgroup2 "))
        .and_then(|line| line.split(' ').nth(4))
        .expect("a v2 hierarchy");
    let groups = std::fs::read_to_string("/proc/self/cgroup").expect("/proc is mounted");
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    std::path::Path::new(mount).join(own.unwrap_or_default())
}

#[test]
fn a_delegated_group_is_used() {
    let delegated = Delegated::new();
    let run = Run::rootless();
    let inside = run.command(&[
        "/bin/sh",
        "-c",
        "cat /proc/self/cgroup; (setsid sleep 61 &); exec sleep 61",
    ]);
    // The shell is root when it moves itself, and nobody afterwards.
    let mut command = std::process::Command::new("sh");
    let script = r#"echo $$ > "$0/cgroup.procs" && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@""#;
    command
        .args(["-c", script])
        .arg(&delegated.0)
        .arg(inside.get_program())
        .args(inside.get_args())
        .current_dir(run.path())
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null());
    let mut turnkey = command.spawn().unwrap();
    let has_two = || {
        let groups = std::fs::read_dir(&delegated.0).unwrap().flatten();
        let mut tasks = groups
            .filter_map(|group| std::fs::read_to_string(group.path().join("cgroup.procs")).ok());
        tasks.any(|tasks| tasks.lines().count() == 3)
    };
    turnkey_tests::eventually("the jail is in a group of its own", has_two);
    assert_eq!(delegated.groups_inside(), 1);
    turnkey.kill().unwrap();
    turnkey.wait().unwrap();
    turnkey_tests::eventually("and the keeper has removed it", || {
        delegated.groups_inside() == 0
    });
}
