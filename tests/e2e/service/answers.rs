//! Answers of a service whose configuration is wrong, and to what is.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use turnkey_tests::{
    Run, SERVED, Service, binary_for_everybody, callers_scratch, hand_over, open_to_all,
};

/// A directory of this user's.
fn place_of(user: u32) -> TempDir {
    let place = callers_scratch();
    open_to_all(place.path());
    hand_over(place.path(), user);
    place
}

/// A caller's run there.
fn asked(user: u32, place: &Path, options: &[&str]) -> (Output, String) {
    let own = place_of(user);
    let mut command = Command::new(binary_for_everybody(own.path()));
    command.uid(user).gid(user).current_dir(own.path());
    command.env("TURNKEY_SOCKET_DIR", place);
    command.args(["run", "--service"]).args(options);
    let output = command.args(["--", "true"]).stdin(Stdio::null()).output();
    let output = output.expect("turnkey can be started");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, told)
}

#[test]
fn a_mistake_in_the_configuration_is_told_in_the_log_and_not_to_callers() {
    let service = Service::start("");
    service.configure("max_runing = 3\n");
    let ran = Run::new().served_at(&service.directory()).run(&["true"]);
    ran.expect_code(125);
    let words = "the configuration of the service cannot be used";
    ran.expect(ran.stderr.contains(words), "told");
    let is_told = |text: &str| text.contains("serve.toml") || text.contains("max_runing");
    ran.expect(!is_told(&ran.stderr), "but not what is in there");
    let refused = |line: &serde_json::Value| line["event"] == "refused";
    let log = service
        .log()
        .into_iter()
        .find(refused)
        .expect("it is there");
    assert!(is_told(log["reason"].as_str().unwrap_or_default()), "{log}");
}

#[test]
fn several_mistakes_of_a_request_are_told_each() {
    let service = Service::start("");
    let options = ["--memory", "much", "--pids", "many"];
    let (output, told) = asked(SERVED, &service.directory(), &options);
    assert_eq!(output.status.code(), Some(125), "{told}");
    for words in ["2 things are wrong: ", "such as 256M", "such as 50"] {
        assert!(told.contains(words), "{told}");
    }
}
