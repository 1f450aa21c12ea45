//! Learned profiles that hold for the next run: other names, other inputs.

use std::process::{Command, Stdio};

use turnkey_tests::{binary, finish};

use super::{Stage, learn};

/// Each input is a run's standard input, from its beginning, and what all runs do is learned.
#[test]
fn every_input_is_handed_in_and_learned() {
    let stage = Stage::new();
    let script = "read name && cat $name";
    for (name, text) in [("one", "/etc/hostname\n"), ("two", "/etc/passwd\n")] {
        stage.put(name, text);
    }
    let options = ["--input", "one", "--input", "two", "--times", "2"];
    let learned = stage.learn(&options, &["sh", "-c", script]);
    let (first, second) = learned.stdout.split_at(learned.stdout.len() / 2);
    assert!(first == second && first.contains("root:"), "{first}");
    let text = stage.text();
    for name in ["\"/etc/hostname\"", "\"/etc/passwd\""] {
        assert!(text.contains(name), "{text}");
    }
}

/// The status of a run that failed is not lost behind one that did not.
#[test]
fn the_first_failure_is_the_status() {
    let stage = Stage::new();
    stage.put("bad", "3\n");
    stage.put("good", "0\n");
    let options = ["--input", "bad", "--input", "good"];
    let script = ["sh", "-c", "read code && exit $code"];
    let learned = learn(stage.directory.path(), &stage.profile(), &options, &script);
    assert_eq!(learned.code, 3, "{}", learned.stderr);
    assert!(stage.profile().exists());
}

/// Refused before anything runs, with what to do instead.
#[test]
fn inputs_that_cannot_be_handed_in_are_refused() {
    let stage = Stage::new();
    stage.put("there", "");
    let report = ["--times", "2", "--report", "-"];
    let cases: [(&[&str], &str); 4] = [
        (&["--input", "not-there"], "not-there"),
        (&["--input", "/dev/zero"], "a device"),
        (&report, "--merge"),
        (&["--times", "0"], "1..=100"),
    ];
    for (options, told) in cases {
        let refused = learn(
            stage.directory.path(),
            &stage.profile(),
            options,
            &["echo", "ran"],
        );
        assert_eq!(refused.code, 125, "{}", refused.stderr);
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
        assert!(!refused.stdout.contains("ran"), "{}", refused.stdout);
    }
}

/// A pipe would be empty for the second run; a file begins anew.
#[test]
fn standard_input_is_handed_in_to_every_run_or_refused() {
    let stage = Stage::new();
    stage.put("text", "once\n");
    let file = std::fs::File::open(stage.directory.path().join("text")).expect("it is there");
    let learn = |stdin: Stdio| {
        let mut command = Command::new(binary());
        command
            .args(["learn", "--times", "2", "--out"])
            .arg(stage.profile());
        command.args(["--", "cat"]).stdin(stdin);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("turnkey can be started");
        drop(child.stdin.take());
        finish(child)
    };
    let refused = learn(Stdio::piped());
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(125), "{told}");
    assert!(told.contains("--input"), "{told}");
    let learned = learn(file.into());
    assert_eq!(learned.status.code(), Some(0), "{learned:?}");
    assert_eq!(learned.stdout, b"once\nonce\n");
}
