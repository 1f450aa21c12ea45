//! A control group that was given to a caller without privileges.

use turnkey_tests::{NOBODY, Run};

/// A group of this test's own, given to nobody; gone with it.
struct Delegated(std::path::PathBuf);

impl Delegated {
    fn new() -> Delegated {
        let group = unified().join(format!("turnkey-test-{}", std::process::id()));
        give(&group);
        Delegated(group)
    }

    /// With a group inside for who uses it, and every controller that the host has in v2 passed on
    /// to its children: as cgroups(7) wants it, processes only in the leaves.
    fn with_leaf() -> (Delegated, Vec<&'static str>) {
        let pass_on = |group: &std::path::Path, name: &str| {
            std::fs::write(group.join("cgroup.subtree_control"), format!("+{name}")).is_ok()
        };
        let known = ["memory", "pids", "cpu"];
        known.iter().for_each(|name| {
            pass_on(&unified(), name);
        });
        let delegated = Delegated::new();
        let offered = std::fs::read_to_string(delegated.0.join("cgroup.controllers"));
        let offered = offered.expect("a v2 group");
        let has = |name: &&str| offered.split_whitespace().any(|one| one == *name);
        let passed: Vec<_> = known
            .into_iter()
            .filter(has)
            .filter(|name| pass_on(&delegated.0, name))
            .collect();
        give(&delegated.leaf());
        (delegated, passed)
    }

    fn leaf(&self) -> std::path::PathBuf {
        self.0.join("leaf")
    }

    fn groups_inside(&self) -> usize {
        let entries = std::fs::read_dir(&self.0).expect("it is there").flatten();
        entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .count()
    }
}

/// Makes a group that is nobody's.
fn give(group: &std::path::Path) {
    std::fs::create_dir(group).expect("root can make a group");
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
}

impl Drop for Delegated {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(self.leaf());
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

/// The same run by nobody, inside a group: the shell is root while it moves itself.
fn within(
    group: &std::path::Path,
    run: &Run,
    inside: &std::process::Command,
) -> std::process::Command {
    let script = r#"echo $$ > "$0/cgroup.procs" && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@""#;
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", script])
        .arg(group)
        .arg(inside.get_program())
        .args(inside.get_args())
        .current_dir(run.path());
    command
}

/// On a host whose controllers are in v1 there is none to delegate, and none is said to hold.
#[test]
fn the_controllers_of_a_delegated_group_hold() {
    let (delegated, passed) = Delegated::with_leaf();
    let run = Run::rootless().option("--memory 64M");
    let hog = "held = b'x' * (200 << 20)\nimport time; time.sleep(20)";
    let inside = run.command(&["python3", "-c", hog]);
    let output = within(&delegated.leaf(), &run, &inside).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(122), "{told}");
    for name in ["memory", "pids", "cpu"] {
        let lacking = told
            .lines()
            .any(|line| line.contains("the controller") && line.contains(&format!("`{name}`")));
        assert_eq!(
            lacking,
            !passed.contains(&name),
            "{name}: {passed:?}\n{told}"
        );
    }
    let by_the_kernel = told.contains("the kernel killed");
    assert_eq!(by_the_kernel, passed.contains(&"memory"), "{told}");
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
    let mut command = within(&delegated.0, &run, &inside);
    let null = std::process::Stdio::null;
    command.stdout(null()).stderr(null());
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
