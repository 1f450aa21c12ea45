//! What `turnkey learn` writes: what was done runs as before, and what was not is stopped.

use turnkey_expectations::expected;

expected!(
    not_on[ORDINARY_6_12],
    "each learns from one run of an interpreter and enforces it in others, which takes \
     minutes: on 6.12 programs"
);

expected!(on[PROGRAMS_6_12]);

pub mod examples;
mod lasting;
mod network;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use turnkey_tests::{Ran, Run, binary, finish};

/// The exit status and standard error of `turnkey learn`.
struct Learned {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Learns in the directory of `run`; the profile is `learned.toml` beside it.
fn learn(directory: &Path, profile: &Path, options: &[&str], program: &[&str]) -> Learned {
    let mut command = Command::new(binary());
    command.current_dir(directory).arg("learn").args(options);
    if !options.contains(&"--merge") {
        command.arg("--out").arg(profile);
    }
    command.arg("--").args(program).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().expect("turnkey can be started"));
    Learned {
        code: output.status.code().expect("turnkey exits by itself"),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A directory for programs, and a profile outside of it.
struct Stage {
    directory: tempfile::TempDir,
    profiles: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        Stage {
            directory: turnkey_tests::scratch(),
            profiles: turnkey_tests::scratch(),
        }
    }

    fn profile(&self) -> PathBuf {
        self.profiles.path().join("learned.toml")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.profile()).expect("a profile was written")
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).expect("a new file");
    }

    fn learn(&self, options: &[&str], program: &[&str]) -> Learned {
        let learned = learn(self.directory.path(), &self.profile(), options, program);
        assert_eq!(learned.code, 0, "{}", learned.stderr);
        learned
    }

    /// Adds what a program does.
    fn merge(&self, program: &[&str]) -> Learned {
        let profile = self.profile().display().to_string();
        self.learn(&["--merge", &profile], program)
    }

    /// Runs a program in a copy of the directory, under the profile or another one.
    fn run(&self, profile: Option<&str>, program: &[&str]) -> Ran {
        let mut run = Run::new();
        for entry in std::fs::read_dir(self.directory.path()).expect("it can be listed") {
            let entry = entry.expect("it can be listed");
            std::fs::copy(entry.path(), run.path().join(entry.file_name())).expect("a file");
        }
        let learned = self.profile().display().to_string();
        run = run.option(&format!("--profile {}", profile.unwrap_or(&learned)));
        run.run(program)
    }
}

const PYTHON: &[&str] = &["python3", "-B", "job.py"];

/// A job that reads a file, and its next version, which does something else besides.
fn job(stage: &Stage, more: &str) {
    let text = format!("print(open('data.csv').read().strip())\n{more}\n");
    stage.put("job.py", &text);
}

fn learned_job() -> Stage {
    let stage = Stage::new();
    stage.put("data.csv", "1,2,3\n");
    job(&stage, "");
    let learned = stage.learn(&["--profile", "python"], PYTHON);
    assert_eq!(learned.stdout, "1,2,3\n");
    stage
}

#[test]
fn the_same_again_is_clean() {
    let stage = learned_job();
    let again = stage.run(None, PYTHON);
    again.expect_code(0);
    again.expect(again.stdout == "1,2,3\n", "the same output");
    again.expect(again.at("/verdict") == "clean", "clean");
    let check = Command::new(binary())
        .arg("check")
        .arg(stage.profile())
        .output();
    let check = check.expect("turnkey can be started");
    assert_eq!(check.status.code(), Some(0), "{check:?}");
}

#[test]
fn a_file_that_was_not_read_kills() {
    let stage = learned_job();
    job(&stage, "print(open('/etc/hostname').read())");
    let before = stage.run(Some("python"), PYTHON);
    before.expect(
        before.code == 0 && before.stdout.contains("jail"),
        "read before",
    );
    let after = stage.run(None, PYTHON);
    after.expect_code(121);
    after.expect(!after.stdout.contains("jail"), "not read");
    after.expect(
        after.violations()[0]["rule"] == "not-learned-open",
        "the rule",
    );
    after.expect(after.violations()[0]["path"] == "/etc/hostname", "the file");
}

#[test]
fn a_program_that_was_not_run_kills() {
    let stage = learned_job();
    job(&stage, "import os; os.execv('/bin/echo', ['echo', 'ran'])");
    let before = stage.run(Some("python"), PYTHON);
    before.expect(
        before.code == 0 && before.stdout.contains("ran"),
        "run before",
    );
    let after = stage.run(None, PYTHON);
    after.expect_code(121);
    after.expect(!after.stdout.contains("ran"), "not run");
    after.expect(
        after.violations()[0]["rule"] == "not-learned-exec",
        "the rule",
    );
}

#[test]
fn a_system_call_that_was_not_made_is_refused() {
    let stage = learned_job();
    job(
        &stage,
        "import socket; socket.socketpair(); print('a pair')",
    );
    // What the import reads is added by hand, as it is not what is asked about here.
    let before = stage.run(Some("python"), PYTHON);
    before.expect(
        before.code == 0 && before.stdout.contains("a pair"),
        "made before",
    );
    let text = stage
        .text()
        .replace("action = \"kill\"", "action = \"log\"");
    std::fs::write(stage.profile(), text).expect("the profile can be written");
    let after = stage.run(None, PYTHON);
    after.expect(after.stderr.contains("Operation not permitted"), "refused");
    after.expect(!after.stdout.contains("a pair"), "not made");
}

#[test]
fn what_a_rule_is_against_is_left_out() {
    let stage = Stage::new();
    stage.put("data.csv", "1,2,3\n");
    job(&stage, "print(len(open('/etc/shadow').read()))");
    let learned = stage.learn(&["--profile", "python"], PYTHON);
    assert!(learned.stderr.contains("left out"), "{}", learned.stderr);
    let text = stage.text();
    assert!(!text.contains("\n    \"/etc/shadow\""), "{text}");
    let told = "#   read /etc/shadow (python3";
    assert!(
        text.contains(told) && text.contains("rule `credential-file`"),
        "{text}"
    );
    let after = stage.run(None, PYTHON);
    after.expect_code(121);
    after.expect(
        after.violations()[0]["rule"] == "credential-file",
        "the rule below",
    );
}

#[test]
fn what_looks_like_a_secret_is_left_out_of_its_directory() {
    let stage = Stage::new();
    stage.put("data.csv", "1,2,3\n");
    stage.put(".env", "TOKEN=hunter2\n");
    stage.put("api_key.txt", "hunter2\n");
    job(
        &stage,
        "print(open('api_key.txt').read(), open('.env').read())",
    );
    let learned = stage.learn(&["--profile", "python"], PYTHON);
    assert!(learned.stdout.contains("hunter2"), "it was there");
    let after = stage.run(None, PYTHON);
    after.expect_code(121);
    after.expect(!after.stdout.contains("hunter2"), "not read");
    after.expect(after.violations()[0]["rule"] == "left-out", "the rule");
    job(&stage, "");
    let without = stage.run(None, PYTHON);
    without.expect_code(0);
}

/// A person's words survive, what was missing is there, and the same again adds nothing.
#[test]
fn another_run_is_added() {
    let stage = learned_job();
    let by_hand = "# Signed by the owner of the job.\n[limits]\nfile_size = \"1M\"  # by hand\n";
    let text = stage.text().replace("[limits]\n", by_hand);
    std::fs::write(stage.profile(), text).expect("the profile can be written");
    job(
        &stage,
        "import os; print(open('/etc/hostname').read()); os.execv('/bin/echo', ['echo', 'ran'])",
    );
    stage.merge(PYTHON);
    let text = stage.text();
    assert!(text.contains("# Signed by the owner of the job."), "{text}");
    assert!(text.contains("file_size = \"1M\"  # by hand"), "{text}");
    assert!(
        text.contains("\"/etc/hostname\"") && text.contains("\"/usr/bin/echo\""),
        "{text}"
    );
    let after = stage.run(None, PYTHON);
    after.expect_code(0);
    after.expect(after.at("/verdict") == "clean", "clean");
    after.expect(after.stdout.contains("ran"), "run");
    let again = stage.merge(PYTHON);
    assert_eq!(stage.text(), text);
    let gained = "gains 0 patterns; nothing was left out";
    assert!(again.stderr.contains(gained), "{}", again.stderr);
}

#[test]
fn no_file_is_overwritten() {
    let stage = learned_job();
    let before = stage.text();
    let again = learn(stage.directory.path(), &stage.profile(), &[], &["true"]);
    assert_eq!(again.code, 125);
    assert!(again.stderr.contains("--merge"), "{}", again.stderr);
    assert_eq!(stage.text(), before);
}

#[test]
fn from_a_run_that_was_cut_short_nothing_is_learned() {
    let stage = Stage::new();
    let options = ["--wall", "500ms"];
    let learned = learn(
        stage.directory.path(),
        &stage.profile(),
        &options,
        &["sleep", "60"],
    );
    assert_eq!(learned.code, 125);
    assert!(learned.stderr.contains("--wall"), "{}", learned.stderr);
    assert!(!stage.profile().exists());
}

/// The program's own status comes through, and the profile is written.
#[test]
fn a_status_is_no_failure() {
    let stage = Stage::new();
    let learned = learn(
        stage.directory.path(),
        &stage.profile(),
        &[],
        &["sh", "-c", "exit 7"],
    );
    assert_eq!(learned.code, 7, "{}", learned.stderr);
    stage.run(None, &["sh", "-c", "exit 7"]).expect_code(7);
}

/// The exit status and the page of `turnkey diff --json`.
fn diff(a: &str, b: &str) -> (Option<i32>, serde_json::Value) {
    let mut command = Command::new(binary());
    let output = command.args(["diff", "--json", a, b]).output();
    let output = output.expect("turnkey can be started");
    let page = serde_json::from_slice(&output.stdout).unwrap_or(serde_json::Value::Null);
    (output.status.code(), page)
}

/// What the next version of a job does besides is told, against the profile and against the report.
#[test]
fn what_another_version_does_besides_is_told() {
    let stage = Stage::new();
    stage.put("data.csv", "1,2,3\n");
    job(&stage, "");
    let report = |name: &str| stage.profiles.path().join(name).display().to_string();
    let (first, second) = (report("first.json"), report("second.json"));
    stage.learn(&["--profile", "python", "--report", &first], PYTHON);
    let profile = stage.profile().display().to_string();
    assert_eq!(diff(&profile, &first).0, Some(0));
    job(
        &stage,
        "import os, socket; socket.socketpair(); print(open('/etc/hostname').read()); os.execv('/bin/echo', ['echo', 'ran'])",
    );
    Command::new(binary())
        .current_dir(stage.directory.path())
        .args([
            "run",
            "--quiet",
            "--profile",
            "python",
            "--syscalls",
            "--report",
            &second,
            "--",
        ])
        .args(PYTHON)
        .stdout(Stdio::null())
        .status()
        .expect("turnkey can be started");
    for below in [&profile, &first] {
        let (code, page) = diff(below, &second);
        assert_eq!(code, Some(1), "{page}");
        let told = page["new"].to_string();
        assert!(told.contains("read /etc/hostname"), "{told}");
        assert!(told.contains("ran /usr/bin/echo"), "{told}");
        assert!(told.contains("socketpair(2)"), "{told}");
    }
    assert_eq!(diff("python", "python").0, Some(0));
    assert_eq!(diff(&profile, "python").0, Some(1));
    assert_eq!(diff("nothing-like-it", "python").0, Some(125));
}

#[test]
fn a_command_longer_than_a_line_of_a_profile_is_learned() {
    let script = format!("cat data.csv # {}", "x".repeat(9000));
    let stage = Stage::new();
    stage.put("data.csv", "1,2,3\n");
    let learned = stage.learn(&[], &["/bin/sh", "-c", &script]);
    assert_eq!(learned.stdout, "1,2,3\n");
}
