//! A kernel that was started without Landlock in `lsm=`.

use turnkey_expectations::expected;
use turnkey_tests::{Run, scratch};

expected!(on[WITHOUT_LANDLOCK_6_12]);

/// Every layer but Landlock.
const OPTIONAL: &str = r#"schema = "turnkey.profile/v1"
name = "without-landlock"
extends = ["untrusted"]

[enforcement]
required = [
    "user-namespace", "mount-namespace", "pid-namespace", "network-namespace", "ipc-namespace",
    "uts-namespace", "cgroup-namespace", "time-namespace", "root", "capabilities",
    "no-new-privileges", "seccomp", "memory", "pids", "cpu", "rlimits", "monitor",
]
"#;

#[test]
fn j59_landlock_asked_for_but_not_there_fails_closed() {
    let ran = Run::new().shell("echo ran");
    ran.expect_code(125);
    ran.expect(ran.stdout.is_empty(), "nothing ran");
    ran.expect(ran.stderr.contains("landlock"), "the layer is named");
    ran.expect(ran.stderr.contains("lsm="), "and the fix");
}

#[test]
fn j59_landlock_that_is_optional_is_told_to_be_missing() {
    let directory = scratch();
    let profile = directory.path().join("optional.toml");
    std::fs::write(&profile, OPTIONAL).unwrap();
    let ran = Run::new()
        .option(&format!("--profile {}", profile.display()))
        .shell("echo ran");
    ran.expect_code(0);
    ran.expect(ran.stdout == "ran\n", "it ran");
    let layers = ran.list("/enforcement");
    let landlock = layers.iter().find(|layer| layer["layer"] == "landlock");
    let reason = landlock.and_then(|layer| layer["degraded"].as_str());
    ran.expect(
        reason.is_some_and(|reason| reason.contains("lsm=")),
        "the report says what is missing, and why",
    );
    let missing = layers.iter().filter(|layer| !layer["degraded"].is_null());
    ran.expect(missing.count() == 1, "and nothing else is");
}

#[test]
fn j59_landlock_that_best_effort_does_without_is_named() {
    let ran = Run::new().option("--best-effort").shell("echo ran");
    ran.expect_code(0);
    ran.expect(ran.stdout == "ran\n", "it ran");
    ran.expect(ran.stderr.contains("lsm="), "the terminal names the fix");
    ran.expect(
        ran.at("/verdict") == "inconclusive",
        "less than all is not clean",
    );
    ran.expect(
        ran.at("/events/complete") == true,
        "though somebody watched",
    );
}
