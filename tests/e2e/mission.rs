//! `examples/mission/`: two Python classes over the command, whose own tests pass.

use std::process::Command;

use turnkey_tests::{binary, scratch};

const FILES: [(&str, &str); 3] = [
    (
        "mission.py",
        include_str!("../../examples/mission/mission.py"),
    ),
    (
        "mission.toml",
        include_str!("../../examples/mission/mission.toml"),
    ),
    (
        "test_mission.py",
        include_str!("../../examples/mission/test_mission.py"),
    ),
];

/// Seven runs, each as a user of the classes has it.
#[test]
fn what_a_model_wrote_is_run_and_judged_by_two_classes() {
    let folder = scratch();
    for (name, text) in FILES {
        std::fs::write(folder.path().join(name), text).expect("a test can write a file");
    }
    let mut tests = Command::new("python3");
    tests.args(["-m", "unittest"]).current_dir(folder.path());
    let ended = tests
        .env("TURNKEY", binary())
        .output()
        .expect("Python is installed");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert!(said.contains("Ran 7 tests"), "{said}");
}
