//! Decoys in the workspace: planted, worthless, watched, and no part of what a run has done.

use std::process::Command;

use turnkey_expectations::expected;
use turnkey_tests::{Run, binary, callers_scratch, scratch};

expected!(
    not_on[ORDINARY_6_12],
    "planted like other mounts and watched like other files: `filesystem::`, `monitoring::`"
);

const PROFILE: &str = r#"schema = "turnkey.profile/v1"
name = "decoys"
extends = ["untrusted"]
[filesystem]
decoys = ["~/.ssh/id_ed25519"]
"#;

fn run() -> (tempfile::TempDir, Run) {
    let place = scratch();
    let file = place.path().join("decoys.toml");
    std::fs::write(&file, PROFILE).expect("a profile can be written");
    let run = Run::new().option(&format!("--profile {}", file.display()));
    (place, run)
}

#[test]
fn a_decoy_in_the_workspace_is_found_and_is_no_change() {
    let (_keep, run) = run();
    let out = callers_scratch();
    let ran = run
        .file("own", "own")
        .option("--mode observe")
        .option(&format!("--export {}", out.path().join("out").display()))
        .shell("cat .ssh/id_ed25519; echo x > made");
    ran.expect(ran.stdout.starts_with("decoy:"), "it is there to be read");
    ran.expect(
        ran.violations()
            .iter()
            .any(|violation| violation["rule"] == "private-key"),
        "and reading it is seen",
    );
    let changed: Vec<_> = ran
        .list("/files_changed")
        .iter()
        .map(|file| &file["path"])
        .collect();
    ran.expect(changed == ["made"], "it is no change of the program's");
    ran.expect(
        !out.path().join("out/.ssh/id_ed25519").exists(),
        "nor a result",
    );
    ran.expect(out.path().join("out/made").is_file(), "which others are");
    ran.expect(
        !ran.directory.path().join(".ssh").exists(),
        "nothing on the host",
    );
}

#[test]
fn a_decoy_stands_in_for_the_real_key() {
    let (_keep, run) = run();
    std::fs::create_dir(run.path().join(".ssh")).unwrap();
    let key = run.path().join(".ssh/id_ed25519");
    std::fs::write(&key, "the real key").unwrap();
    let ran = run.option("--mode observe").shell("cat .ssh/*");
    ran.expect(ran.stdout.starts_with("decoy:"), "the decoy is read");
    ran.expect(!ran.stdout.contains("real"), "and nothing else");
    let after = std::fs::read_to_string(ran.directory.path().join(".ssh/id_ed25519")).unwrap();
    ran.expect(after == "the real key", "the host's is as it was");
}

#[test]
fn reading_a_decoy_ends_the_jail() {
    let (_keep, run) = run();
    let ran = run.shell("cat .ssh/id_ed25519; echo survived");
    ran.expect_code(121);
    ran.expect(!ran.stdout.contains("survived"), "nobody goes on");
}

#[test]
fn a_symlink_in_the_place_of_a_decoy_is_not_followed() {
    let (_keep, run) = run();
    let victim = scratch();
    std::fs::write(victim.path().join("id_ed25519"), "before").unwrap();
    let link = run.path().join(".ssh");
    std::os::unix::fs::symlink(victim.path(), link).unwrap();
    let ran = run.shell("true");
    ran.expect_code(125);
    let after = std::fs::read_to_string(victim.path().join("id_ed25519")).unwrap();
    ran.expect(after == "before", "the victim is as it was");
}

#[test]
fn a_read_only_working_directory_takes_no_decoy() {
    let (_keep, run) = run();
    let ran = run.option("--workdir-mode read-only").shell("true");
    ran.expect_code(125);
    ran.expect(
        ran.stderr.contains("cannot be planted in a read-only"),
        "with the reason",
    );
}

#[test]
fn nobody_is_said_to_watch_a_decoy_without_the_monitor() {
    let explained = |options: &[&str]| {
        let mut explain = Command::new(binary());
        let explain = explain.args(["explain", "untrusted"]).args(options);
        let output = explain.output().expect("turnkey can be started");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (String::from_utf8_lossy(&output.stdout).into_owned(), told)
    };
    let (watched, told) = explained(&[]);
    assert!(
        watched.contains("a decoy: worthless, and watched"),
        "{watched}"
    );
    assert!(!told.contains("nobody watches"), "{told}");
    let (unwatched, told) = explained(&["--unmonitored"]);
    assert!(
        unwatched.contains("a decoy: worthless; nobody watches who opens it"),
        "{unwatched}"
    );
    assert!(
        told.contains("nobody watches such a run: its rules are not asked"),
        "{told}"
    );
    let ran = Run::rootless().shell("cat /etc/shadow");
    ran.expect(ran.stdout.contains("decoy:"), "it is there to be read");
    ran.expect(
        ran.stderr.contains("who opened a decoy (/etc/shadow"),
        "and what it was is told",
    );
}
