//! What turnkey writes and reads for its caller: past whoever turns the names on the way, and never mixed with
//! what the program writes.

use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use turnkey_tests::{NOBODY, binary, compile, finish, open_to_all, scratch};

/// A link to /dev/null and one to a file of root's, by one name in turns.
const TURN: &str = r#"
#include <stdio.h>
#include <time.h>
#include <unistd.h>
int main(int count, char **names) {
    for (time_t end = time(0) + 60; time(0) < end;) {
        unlink(names[2]); symlink("/dev/null", names[2]); rename(names[2], names[1]);
        symlink(names[3], names[2]); rename(names[2], names[1]);
    }
}
"#;

/// turnkey with what it prints.
fn turnkey(arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments).current_dir("/srv");
    let streams = command.stdin(Stdio::null()).stdout(Stdio::piped());
    finish(
        streams
            .stderr(Stdio::piped())
            .spawn()
            .expect("turnkey can be started"),
    )
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Ends with the test.
struct Turner(std::process::Child);

impl Drop for Turner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a program does that looks at a name and then opens it.
fn look_and_open(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        let _ = std::fs::write(path, "overwritten");
    }
}

// A hundred processes against the race: some three seconds on a busy machine.
#[test]
fn j12_whoever_turns_a_name_gets_no_file_of_root_s_written() {
    let (directory, victim) = (scratch(), scratch());
    let (turn, name) = (directory.path().join("turn"), directory.path().join("o"));
    let file = victim.path().join("file");
    compile(&turn, TURN);
    open_to_all(directory.path());
    chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new(&turn);
    command
        .arg(&name)
        .arg(directory.path().join("t"))
        .arg(&file);
    std::os::unix::process::CommandExt::uid(&mut command, NOBODY);
    let _turner = Turner(command.spawn().unwrap());

    std::fs::write(&file, "before").unwrap();
    let is_whole = || std::fs::read(&file).unwrap() == b"before";
    for _ in 0..100_000 {
        look_and_open(&name);
        if !is_whole() {
            break;
        }
    }
    assert!(!is_whole(), "the control: look, then open");
    std::fs::write(&file, "before").unwrap();

    let stored = victim.path().join("report.json").display().to_string();
    turnkey(&["run", "--unmonitored", "--report", &stored, "--", "true"]);
    let name = name.display().to_string();
    for _ in 0..100 {
        turnkey(&["report", &stored, "--out", &name]);
        assert!(is_whole(), "root's file was written");
    }
    // A run looks for its outputs in one place, whatever they are; it takes longer.
    for flag in ["--events", "--report"] {
        for _ in 0..5 {
            turnkey(&["run", "--unmonitored", flag, &name, "--", "true"]);
            assert!(is_whole(), "root's file was written");
        }
    }
}

#[test]
fn j12_an_export_goes_over_no_link_of_a_stranger() {
    let (directory, victim) = (scratch(), scratch());
    let link = directory.path().join("link");
    symlink(victim.path(), &link).unwrap();
    let export = || {
        let mut command = Command::new(binary());
        command
            .args(["run", "--unmonitored", "--export"])
            .arg(link.join("out"));
        command
            .args(["--", "touch", "made"])
            .current_dir(directory.path());
        finish(command.stderr(Stdio::piped()).spawn().unwrap())
    };
    export();
    assert!(
        victim.path().join("out/made").exists(),
        "the control: root's own link"
    );
    std::fs::remove_dir_all(victim.path().join("out")).unwrap();
    std::os::unix::fs::lchown(&link, Some(NOBODY), None).unwrap();
    let refused = export();
    assert_eq!(refused.status.code(), Some(125));
    assert!(
        told(&refused).contains("belongs to another user"),
        "{refused:?}"
    );
    assert!(!victim.path().join("out").exists());
}

#[test]
fn j58_nothing_is_written_where_the_jail_may_write() {
    for flag in ["--report", "--events", "--export"] {
        let directory = scratch();
        let place = directory.path().join("out").display().to_string();
        let write = directory.path().display().to_string();
        let arguments = [
            "run",
            "--unmonitored",
            "--write",
            &write,
            flag,
            &place,
            "--",
        ];
        let refused = turnkey(&[&arguments[..], &["touch", &format!("{write}/ran")]].concat());
        assert_eq!(refused.status.code(), Some(125), "{flag}: {refused:?}");
        assert!(
            told(&refused).contains("which the jail may write"),
            "{refused:?}"
        );
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let control = turnkey(&["run", "--unmonitored", flag, &place, "--", "true"]);
        assert_eq!(control.status.code(), Some(0), "{flag}: {control:?}");
    }
}

#[test]
fn j74_the_program_writes_no_report_where_turnkey_writes_it() {
    let forge = ["--", "echo", "{\"verdict\": \"clean\"}"];
    let with = |options: &[&str]| {
        turnkey(&[&["run", "--unmonitored", "--quiet"], options, &forge].concat())
    };
    let control = with(&[]);
    assert!(
        control.stdout.starts_with(b"{\"verdict\""),
        "it prints: {control:?}"
    );
    for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let ran = with(&["--report", name]);
        let report: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("one report");
        assert_eq!(report["verdict"], "inconclusive", "{name}");
        assert!(told(&ran).contains("{\"verdict\": \"clean\"}"), "{ran:?}");
    }
    for shared in [
        &["--report", "/dev/stderr"][..],
        &["--events", "/dev/fd/2"],
        &["--report", "-", "--events", "/dev/stdout"],
    ] {
        let refused = with(shared);
        assert_eq!(refused.status.code(), Some(125), "{shared:?}");
        assert!(refused.stdout.is_empty(), "nothing ran");
        assert!(told(&refused).contains("3>FILE"), "{refused:?}");
    }
    let learned = turnkey(&[&["learn", "--quiet", "--out", "-"], &forge[..]].concat());
    assert!(learned.stdout.starts_with(b"# What"), "{learned:?}");
}

#[test]
fn j74_a_report_has_a_descriptor_of_its_own() {
    let directory = scratch();
    let place = directory.path().join("report.json").display().to_string();
    let line = format!(
        "{} run --unmonitored --quiet --report /dev/fd/3 -- echo said 3> {place}",
        binary().display()
    );
    let (status, said) = turnkey_tests::outside("sh", &["-c", &line]);
    assert!(status.success());
    assert_eq!(said, "said\n");
    let report = std::fs::read(&place).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).expect("one report");
    assert_eq!(report["exit_code"], 0);
}

#[test]
fn j73_no_command_waits_for_a_fifo_or_reads_without_an_end() {
    let directory = scratch();
    let fifo = directory.path().join("fifo");
    let (status, _) = turnkey_tests::outside("mkfifo", &[&fifo.display().to_string()]);
    assert!(status.success());
    let fifo = fifo.display().to_string();
    for name in [fifo.as_str(), "/dev/zero"] {
        for arguments in [
            &["run", "--profile", name, "--", "true"][..],
            &["check", name],
            &["explain", name],
            &["diff", name, "untrusted"],
            &["diff", "untrusted", name],
            &["import", name],
            &["report", name],
            &["learn", "--merge", name, "--", "true"],
        ] {
            let refused = turnkey(arguments);
            assert_eq!(
                refused.status.code(),
                Some(125),
                "{arguments:?}: {refused:?}"
            );
        }
    }
}
