//! The mounts of tests go with the test, however it ends: others look for mounts that nobody took away.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use turnkey_tests::{Mount, scratch};

/// Tells the test below that it is the one to end, and how.
const ENDS: &str = "TURNKEY_TEST_ENDS";

fn is_mounted(place: &str, whose: &str) -> bool {
    let mounts = std::fs::read_to_string(format!("/proc/{whose}/mountinfo"));
    let mounts = mounts.expect("/proc is mounted");
    mounts
        .lines()
        .any(|line| line.split(' ').nth(4) == Some(place))
}

#[test]
fn a_test_that_panics_or_is_killed_leaves_no_mount() {
    if let Ok(how) = std::env::var(ENDS) {
        return mount_and_end(&how);
    }
    assert!(is_mounted("/proc", "self"), "the control: mounts are seen");
    for how in ["panic", "wait"] {
        let mut child = Command::new(std::env::current_exe().expect("a test has a file"))
            .args(["--exact", "--nocapture"])
            .arg("mounts::a_test_that_panics_or_is_killed_leaves_no_mount")
            .env(ENDS, how)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a test can be run");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let place = output.lines().find_map(|line| {
            let line = line.ok()?;
            let (_, place) = line.split_once("mounted at ")?;
            Some(place.to_owned())
        });
        let place = place.expect("it has mounted something, and seen it");
        if how == "wait" {
            assert!(!is_mounted(&place, "self"), "nobody else sees it");
            child.kill().expect("it can be killed");
        }
        let status = child.wait().expect("it can be waited for");
        assert!(!status.success(), "{how}: it did not pass");
        assert!(!is_mounted(&place, "self"), "{how}: no mount is left");
        // Whoever is killed takes no directory away, but nothing keeps others from doing so.
        assert_eq!(Path::new(&place).exists(), how == "wait", "{how}");
        if how == "wait" {
            std::fs::remove_dir(&place).expect("nothing is mounted on it");
        }
    }
}

fn mount_and_end(how: &str) {
    let directory = scratch();
    let _mount = Mount::new(&["-t", "tmpfs", "none"], directory.path());
    let place = directory.path().display().to_string();
    assert!(is_mounted(&place, "thread-self"), "the test itself sees it");
    writeln!(std::io::stdout(), "mounted at {place}").expect("somebody reads it");
    assert!(how == "wait", "on purpose");
    std::thread::sleep(std::time::Duration::from_secs(60));
}
