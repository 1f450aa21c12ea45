//! Runs that the service makes, followed while they live by whom they are for.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serde_json::Value;
use turnkey_tests::{Run, SERVED, Service, binary_for_everybody, eventually, open_to_all, scratch};

#[test]
fn a_user_follows_its_own_run_and_nobody_else_does() {
    let service = Service::start("");
    let place = scratch();
    open_to_all(place.path());
    let binary = binary_for_everybody(place.path());
    let turnkey = |user| {
        let mut command = Command::new(&binary);
        command.uid(user).gid(user).current_dir("/");
        command
    };
    let run = Run::new()
        .option("--quiet --mode observe")
        .served_at(&service.directory());
    // Other tests' services make runs for the same user.
    let script = format!(
        "read x; cat /etc/shadow; exit 3 # of {}",
        std::process::id()
    );
    let mut command = run.command(&["sh", "-c", &script]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let runs = |user| {
        let output = turnkey(user).args(["top", "--json"]).output().unwrap();
        let page: Value = serde_json::from_slice(&output.stdout).unwrap();
        page["runs"].as_array().unwrap().clone()
    };
    let is_own = |run: &Value| run["uid"] == SERVED && run["command"][2] == *script;
    let own = || runs(SERVED).into_iter().find(is_own);
    eventually("it is found by whom it is for", || own().is_some());
    let id = own().unwrap()["run"].clone();
    let has = |user| runs(user).iter().any(|run| run["run"] == id);
    assert!(has(0), "the control: root finds it");
    let of_root = runs(0).into_iter().find(|run| run["run"] == id);
    assert_eq!(of_root.unwrap()["uid"], SERVED, "as that user's");
    assert!(!has(4343), "nobody else does");
    let follower = turnkey(SERVED)
        .args([
            "events",
            "--filter",
            &format!("run={}", id.as_str().unwrap()),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stranger = turnkey(4343)
        .args(["events"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stranger = stranger.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&stranger.stdout), "");
    let said = String::from_utf8_lossy(&stranger.stderr).into_owned();
    assert!(said.contains("no run that you may follow"), "{said}");
    std::thread::sleep(std::time::Duration::from_millis(200));
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let lines = follower.wait_with_output().unwrap().stdout;
    let lines = String::from_utf8_lossy(&lines).into_owned();
    assert!(lines.contains("/etc/shadow"), "{lines}");
    assert!(lines.contains("\"alert\":\"verdict\""), "{lines}");
}
