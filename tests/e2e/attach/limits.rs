//! Limits on a group of others, for as long as it is watched.

use std::path::Path;

use turnkey_tests::{binary, in_the_guest};

use super::{Attached, Others, OthersGroup, hierarchy};

fn text(group: &Path, file: &str) -> Option<String> {
    let text = std::fs::read_to_string(group.join(file)).ok()?;
    Some(text.trim_end().to_owned())
}

/// True where the v2 hierarchy has the controllers: then they are enabled for groups below the root.
fn has_controllers() -> bool {
    let controllers = text(&hierarchy(), "cgroup.controllers").unwrap_or_default();
    let all = ["memory", "pids", "cpu"].map(|name| controllers.split(' ').any(|one| one == name));
    if in_the_guest() {
        assert_eq!(all, [true; 3], "a guest has all of them: {controllers}");
        let enable = hierarchy().join("cgroup.subtree_control");
        std::fs::write(enable, "+memory +pids +cpu").expect("the guest is the test's");
    }
    all == [true; 3]
}

#[test]
fn limits_hold_while_the_group_is_watched_and_what_was_there_is_put_back() {
    if !has_controllers() {
        return;
    }
    let group = OthersGroup::new();
    let below = group.below("below");
    std::fs::write(group.path.join("pids.max"), "1000").expect("the group is the test's");
    let files = ["memory.max", "pids.max", "cpu.max"];
    let read = || files.map(|file| text(&group.path, file).expect("the controller is there"));
    let before = read();
    assert_eq!(before, ["max", "1000", "max 100000"]);
    let mut others = Others::start(&below);
    let attached = Attached::to(
        &["--cgroup", &group.name],
        &["--memory", "256M", "--pids", "12", "--cpus", "0.5"],
    );
    assert_eq!(read(), ["268435456", "12", "50000 100000"]);
    assert_eq!(text(&below, "pids.max"), None, "nothing is enabled below");
    // Python, a shell and what fits beside them.
    let answer = others.ask("run for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do sleep 1 & done; wait");
    assert_ne!(answer, "0", "the kernel refuses a fork");
    let peak = text(&group.path, "pids.events").expect("the controller is there");
    assert!(!peak.contains("max 0"), "{peak}");
    attached.let_go();
    let (code, report, said) = attached.end();
    assert_eq!(code, 0, "{said}");
    assert_eq!(read(), before);
    let expected = serde_json::json!([
        { "file": "memory.max", "value": "268435456", "before": "max" },
        { "file": "pids.max", "value": "12", "before": "1000" },
        { "file": "cpu.max", "value": "50000 100000", "before": "max 100000" },
    ]);
    assert_eq!(report["attached"]["limits"], expected);
    assert!(
        !report["attached"]["not_given"]
            .to_string()
            .contains("limits"),
        "{report}"
    );
    assert_eq!(others.end(), None);
}

#[test]
fn what_somebody_else_has_set_meanwhile_is_theirs_and_nothing_is_set_unasked() {
    if !has_controllers() {
        return;
    }
    let group = OthersGroup::new();
    let mut others = Others::start(&group.path);
    let attached = Attached::to(&["--cgroup", &group.name], &["--pids", "100"]);
    let read = |file| text(&group.path, file).expect("the controller is there");
    assert_eq!([read("memory.max"), read("cpu.max")], ["max", "max 100000"]);
    std::fs::write(group.path.join("pids.max"), "50").expect("the group is the test's");
    attached.let_go();
    attached.end();
    assert_eq!(read("pids.max"), "50");
    assert_ne!(others.ask("read /etc/hostname"), "");
    // One that cannot be attached to has what it had.
    let refused = attach(&group.name, &["--pids", "70", "--profile", "python"]);
    assert_eq!(refused.0, 125, "{}", refused.1);
    assert_eq!(read("pids.max"), "50");
    assert_eq!(others.end(), None);
}

fn attach(group: &str, options: &[&str]) -> (i32, String) {
    let mut command = std::process::Command::new(binary());
    let output = command
        .args(["attach", "--cgroup", group])
        .args(options)
        .output();
    let output = output.expect("turnkey can be started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap_or(-1), said)
}

#[test]
fn a_limit_that_nobody_would_hold_is_125_with_the_fix() {
    let all = OthersGroup::new();
    // Its own controllers are enabled for nothing below.
    let below = all.below("below");
    assert_eq!(text(&below, "pids.max"), None);
    let name = format!("{}/below", all.name);
    let fix = match has_controllers() {
        true => "cgroup.subtree_control of each group above it",
        false => "is not in the cgroup v2 hierarchy of this host",
    };
    for limit in [["--memory", "64M"], ["--pids", "10"], ["--cpus", "1"]] {
        let (code, said) = attach(&name, &limit);
        assert_eq!(code, 125, "{said}");
        assert!(said.contains(fix), "{said}");
    }
    for bad in [
        ["--memory", "1"],
        ["--pids", "0"],
        ["--cpus", "0"],
        ["--cpus", "many"],
    ] {
        let (code, said) = attach(&name, &bad);
        assert_eq!(code, 125, "{said}");
        assert!(said.contains(bad[0]), "{said}");
    }
}
