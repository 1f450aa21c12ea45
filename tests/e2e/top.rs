//! `turnkey top`: one table, a page for programs, and a screen that leaves the terminal as it was.

use std::process::Command;

use nix::sys::signal::{Signal, kill};
use turnkey_tests::{Run, TerminalSession, binary, network_of_its_own, outside};

use crate::live::{Waiting, top};

fn session() -> TerminalSession {
    let mut command = Command::new(binary());
    command.arg("top");
    let mut session = TerminalSession::start(&command);
    session.wait_for("COMMAND");
    session
}

#[test]
fn a_run_is_listed_with_what_it_is_and_found() {
    network_of_its_own();
    let script = "read x; cat /etc/shadow; read x";
    let run = Run::new().option("--mode observe --memory 64M");
    let user = run.caller().unwrap_or(0);
    let mut waiting = Waiting::start(run, script);
    let before = top();
    assert_eq!(before["schema"], "turnkey.top/v1");
    let run = &before["runs"][0];
    assert_eq!(
        (&run["verdict"], &run["findings"]),
        (&"clean".into(), &0.into())
    );
    waiting.go_on();
    turnkey_tests::eventually("the finding is told", || top()["runs"][0]["findings"] == 2);
    let run = &top()["runs"][0];
    assert_eq!(
        (&run["verdict"], &run["mode"]),
        (&"violated".into(), &"observe".into())
    );
    assert_eq!(
        (&run["profile"], &run["uid"]),
        (&"untrusted".into(), &user.into())
    );
    assert_eq!(run["command"], serde_json::json!(["sh", "-c", script]));
    // Process 1 of the jail, and the shell.
    assert_eq!(run["tasks"], 2);
    let memory = run["memory_bytes"].as_u64().expect("a size");
    assert!((1 << 16..64 << 20).contains(&memory), "{memory}");
    let (status, table) = outside(binary(), &["top", "--once"]);
    assert!(status.success());
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("RUN ") && lines[0].ends_with("COMMAND"),
        "{table}"
    );
    let id = run["run"].as_str().expect("text");
    assert!(
        lines[1].starts_with(id) && lines[1].contains("violated"),
        "{table}"
    );
    assert_eq!(lines.len(), 2);
    let report = waiting.end();
    assert_eq!(report["id"], id);
    assert_eq!(top()["runs"], serde_json::json!([]));
}

#[test]
fn hostile_words_in_a_command_do_not_steer_the_terminal() {
    network_of_its_own();
    let waiting = Waiting::start(Run::new(), "read x # \x1b]0;owned\x07 \u{202e}");
    let mut session = session();
    session.resize(24, 200);
    session.wait_for("owned");
    session.type_in("q");
    let scene = session.end();
    assert!(!scene.shown.contains("\x1b]0"), "{:?}", scene.shown);
    assert!(!scene.shown.contains('\u{202e}'));
    waiting.end();
}

#[test]
fn the_screen_ends_by_a_key_and_by_signals_and_the_terminal_is_as_before() {
    network_of_its_own();
    for end in ["q", "\x03", "TERM"] {
        let mut session = session();
        match end {
            "TERM" => kill(session.pid(), Signal::SIGTERM).expect("it is ours"),
            key => session.type_in(key),
        }
        let scene = session.end();
        assert_eq!(scene.code, Some(0), "{end:?}: {}", scene.shown);
        assert!(scene.is_restored, "{end:?}");
        assert!(
            scene.shown.ends_with("\x1b[?25h\x1b[?1049l"),
            "{:?}",
            scene.shown
        );
    }
}

#[test]
fn without_a_terminal_the_other_forms_are_named() {
    let output = Command::new(binary()).arg("top").output();
    let output = output.expect("turnkey can be started");
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--once") && said.contains("--json"), "{said}");
}
