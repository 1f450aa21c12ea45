//! What turnkey writes and reads for its caller: past whoever turns the names on the way, and never mixed with
//! what the program writes.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use turnkey_expectations::expected;
use turnkey_tests::{NOBODY, binary, compile, finish, open_to_all, scratch};

expected!(
    not_on[ORDINARY_6_12],
    "outputs are found and published by the command, outside of the jail"
);

/// A link to /dev/null and one to a file of root's, by one name in turns, and two names exchanged. The pause leaves the
/// lock of all renames of the file system to others, who would wait seconds for it on a busy machine.
const TURN: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int count, char **names) {
    // Nobody is left who turns when the test is killed.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        renameat2(AT_FDCWD, names[4], AT_FDCWD, names[5], RENAME_EXCHANGE);
        unlink(names[2]); symlink("/dev/null", names[2]); rename(names[2], names[1]);
        symlink(names[3], names[2]); rename(names[2], names[1]);
        usleep(20);
    }
}
"#;

/// turnkey with what it prints, where there is nothing.
fn turnkey(arguments: &[&str]) -> Output {
    let empty = scratch();
    open_to_all(empty.path());
    let mut command = Command::new(binary());
    command.args(arguments).current_dir(empty.path());
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

/// An open by a program that looks at a name, is interrupted for as long as the name is not turned, and then opens it.
fn look_and_open(path: &Path) {
    let leads_to_a_file = || std::fs::metadata(path).map(|metadata| metadata.is_file());
    if matches!(leads_to_a_file(), Ok(false)) {
        let mut looks = 0..1000;
        while looks.next().is_some() && !matches!(leads_to_a_file(), Ok(true)) {}
        let _ = std::fs::write(path, "overwritten");
    }
}

/// A directory of a stranger's in which names lead to /dev/null and to a file of root's in turns, and in which a
/// directory is exchanged with a link to one of root's.
struct Turned {
    directory: tempfile::TempDir,
    victim: tempfile::TempDir,
    _turner: Turner,
}

impl Turned {
    fn start() -> Turned {
        let (directory, victim) = (scratch(), scratch());
        let turn = directory.path().join("turn");
        compile(&turn, TURN);
        open_to_all(directory.path());
        let (file, inner) = (victim.path().join("file"), victim.path().join("inner"));
        std::fs::write(&file, "before").expect("a test can do that");
        std::fs::create_dir(&inner).expect("a test can do that");
        let (sub, link) = (directory.path().join("sub"), directory.path().join("link"));
        std::fs::create_dir(&sub).expect("a test can do that");
        symlink(&inner, &link).expect("a test can do that");
        for path in [directory.path(), &sub, &link] {
            std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY))
                .expect("a test can do that");
        }
        let mut command = Command::new(&turn);
        command.args(["o", "t"]).arg(&file).args(["sub", "link"]);
        command.current_dir(directory.path());
        std::os::unix::process::CommandExt::uid(&mut command, NOBODY);
        let turner = Turner(command.spawn().expect("a test can do that"));
        Turned {
            directory,
            victim,
            _turner: turner,
        }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Whether nobody wrote root's file, and nobody made anything in root's directory.
    fn is_whole(&self) -> bool {
        let file = std::fs::read(self.victim.path().join("file")).expect("a test can do that");
        let inner =
            std::fs::read_dir(self.victim.path().join("inner")).expect("a test can do that");
        file == b"before" && inner.count() == 0
    }

    /// What it does to root, shown by a program that looks and then opens.
    fn shows_itself(&self) {
        let name = self.directory.path().join("o");
        let made = self.directory.path().join("sub/made");
        let mut tries = 0;
        while self.is_whole() && tries < 100_000 {
            look_and_open(&name);
            let _ = std::fs::write(&made, "made");
            tries += 1;
        }
        assert!(!self.is_whole(), "the control: look, then open");
        std::fs::write(self.victim.path().join("file"), "before").expect("a test can do that");
        let _ = std::fs::remove_file(self.victim.path().join("inner/made"));
        let _ = std::fs::remove_file(&made);
        let _ = std::fs::remove_file(self.victim.path().join("inner/made"));
    }
}

/// Runs with an output below what is turned; whoever turns takes a CPU from them.
fn runs_with(flag: &str, names: [&str; 2], runs: usize) {
    let turned = Turned::start();
    turned.shows_itself();
    for round in 0..runs {
        let place = turned.path(&names[round % 2].replace('#', &round.to_string()));
        turnkey(&[
            "run",
            "--unmonitored",
            "--quiet",
            flag,
            &place,
            "--",
            "true",
        ]);
        assert!(turned.is_whole(), "{place}: root's was written");
    }
}

// An open that looks at nothing is led astray in four of five runs, and twenty find it. One that looks first is led astray in one of a
// thousand, for which a hundred runs were as few.
const BY_DAY: usize = 20;
const AT_NIGHT: usize = 10_000;

#[test]
fn j12_a_report_goes_to_no_file_of_root_s_whoever_turns_the_name() {
    runs_with("--report", ["o", "sub/o"], BY_DAY);
}

#[test]
fn j12_events_go_to_no_file_of_root_s_whoever_turns_the_name() {
    runs_with("--events", ["o", "sub/o"], BY_DAY);
}

#[test]
fn j12_an_export_goes_to_no_directory_of_root_s_whoever_turns_the_name() {
    runs_with("--export", ["sub/e#", "link/e#"], BY_DAY);
}

#[test]
fn j12_a_layer_is_made_in_no_directory_of_root_s_whoever_turns_the_name() {
    runs_with("--layer", ["sub/l#", "link/l#"], BY_DAY);
}

expected!(
    ten_thousand_turned_reports_go_to_no_file_of_root_s,
    ten_thousand_turned_events_go_to_no_file_of_root_s,
    ten_thousand_turned_exports_go_to_no_directory_of_root_s,
    ten_thousand_turned_layers_are_made_in_no_directory_of_root_s: at_night,
    "runs for a quarter of an hour; `outputs::j12_` makes twenty of each"
);

#[test]
fn ten_thousand_turned_reports_go_to_no_file_of_root_s() {
    runs_with("--report", ["o", "sub/o"], AT_NIGHT);
}

#[test]
fn ten_thousand_turned_events_go_to_no_file_of_root_s() {
    runs_with("--events", ["o", "sub/o"], AT_NIGHT);
}

#[test]
fn ten_thousand_turned_exports_go_to_no_directory_of_root_s() {
    runs_with("--export", ["sub/e#", "link/e#"], AT_NIGHT);
}

#[test]
fn ten_thousand_turned_layers_are_made_in_no_directory_of_root_s() {
    runs_with("--layer", ["sub/l#", "link/l#"], AT_NIGHT);
}

#[test]
fn j12_a_report_told_again_goes_to_no_file_of_root_s() {
    let turned = Turned::start();
    turned.shows_itself();
    let stored = turned.victim.path().join("report.json");
    let stored = stored.display().to_string();
    turnkey(&["run", "--unmonitored", "--report", &stored, "--", "true"]);
    for _ in 0..BY_DAY {
        turnkey(&["report", &stored, "--out", &turned.path("o")]);
        assert!(turned.is_whole(), "root's file was written");
    }
}

/// Says how often a file was opened until its input ends, inotify(7).
const OPENS: &str = "import ctypes, os, sys
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(watch, sys.argv[1].encode(), 0x20) > 0
print('watching', flush=True)
sys.stdin.read()
try: print(len(os.read(watch, 4096)) // 16)
except BlockingIOError: print(0)";

/// How often the file was opened in the meantime.
fn opens(path: &str, meanwhile: impl FnOnce()) -> String {
    let mut command = Command::new("python3");
    command.args(["-c", OPENS, path]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python is there");
    let mut told = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut told, &mut line).expect("a test can do that");
    assert_eq!(line, "watching\n");
    meanwhile();
    drop(child.stdin.take());
    line.clear();
    std::io::BufRead::read_line(&mut told, &mut line).expect("a test can do that");
    assert!(child.wait().expect("a test can do that").success());
    line.trim().to_owned()
}

/// A disk made of a file, gone with the test.
struct Disk(String);

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = turnkey_tests::outside("losetup", &["-d", &self.0]);
    }
}

#[test]
fn j12_no_disk_is_opened_or_written() {
    let directory = scratch();
    let image = directory.path().join("image");
    let content = vec![0; 1 << 20];
    std::fs::write(&image, &content).unwrap();
    let attach = ["-f", "--show", &image.display().to_string()];
    let (status, device) = turnkey_tests::outside("losetup", &attach);
    assert!(status.success(), "a disk made of a file");
    let disk = Disk(device.trim().to_owned());
    let device = disk.0.as_str();
    let link = directory.path().join("link").display().to_string();
    symlink(device, &link).unwrap();
    let stored = directory.path().join("report.json").display().to_string();
    turnkey(&["run", "--unmonitored", "--report", &stored, "--", "true"]);

    let control = opens(device, || drop(std::fs::File::open(device).unwrap()));
    assert_eq!(control, "1", "the control: who opens it is seen");
    let seen = opens(device, || {
        for name in [device, &link] {
            for arguments in [
                &["run", "--unmonitored", "--report", name, "--", "true"][..],
                &["run", "--unmonitored", "--events", name, "--", "true"],
                &["run", "--unmonitored", "--export", name, "--", "true"],
                &["run", "--unmonitored", "--profile", name, "--", "true"],
                &["run", "--unmonitored", "--root", name, "--", "true"],
                &["report", &stored, "--out", name],
            ] {
                let refused = turnkey(arguments);
                assert_eq!(
                    refused.status.code(),
                    Some(125),
                    "{arguments:?}: {refused:?}"
                );
            }
        }
    });
    assert_eq!(seen, "0", "it was opened");
    assert!(std::fs::read(&image).unwrap() == content, "it was written");
    std::fs::write(device, "written").unwrap();
    let (status, _) = turnkey_tests::outside("sync", &[device]);
    assert!(status.success());
    assert!(
        std::fs::read(&image).unwrap() != content,
        "the control: it can be"
    );
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
        // What is exported is the whole of the workspace.
        let empty = scratch();
        let workdir = empty.path().display().to_string();
        let free = ["run", "--unmonitored", "--workdir", &workdir, flag, &place];
        let control = turnkey(&[&free[..], &["--", "true"]].concat());
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

/// A run whose report's directory, `gone`, is removed before the program goes on with the last words of the shell's script: the exit
/// code and what is told. The command is `turnkey run`, and may write beside `gone`.
pub(crate) fn without_the_directory(
    mut command: Command,
    gone: &Path,
    last: &str,
) -> (Option<i32>, String) {
    command.arg("--report").arg(gone.join("report.json"));
    command.args(["--", "sh", "-c", &format!("echo ready; read word; {last}")]);
    command.stdin(Stdio::piped());
    let streams = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = streams.spawn().expect("turnkey can be started");
    let mut ready = [0; 6];
    let stdout = child.stdout.as_mut().expect("a pipe");
    std::io::Read::read_exact(stdout, &mut ready).expect("the program runs");
    std::fs::remove_dir(gone).expect("an unnamed file keeps no directory");
    // Its end ends the wait.
    drop(child.stdin.take());
    let output = finish(child);
    let told = told(&output);
    let path = gone.display();
    assert!(
        told.contains(&format!("could not write the report to {path}/report.json")),
        "{told}"
    );
    assert!(told.contains("fix: its directory was removed"), "{told}");
    (output.status.code(), told)
}

#[test]
fn a_report_that_cannot_be_written_hides_no_kill() {
    for (last, code) in [
        ("exec cat /etc/shadow", 121),
        ("exit 0", 125),
        ("exit 121", 125),
    ] {
        let (empty, place) = (scratch(), scratch());
        let gone = place.path().join("gone");
        std::fs::create_dir(&gone).expect("a test can do that");
        let mut command = Command::new(binary());
        command.arg("run").current_dir(empty.path());
        let (status, told) = without_the_directory(command, &gone, last);
        assert_eq!(status, Some(code), "{last}: {told}");
    }
}

#[test]
fn a_report_to_a_closed_standard_output_is_refused_before_anything_runs() {
    for flag in ["--report -", "--events -", "--report /dev/stdout"] {
        for (to, expected) in [(">&-", Some(125)), (">/dev/null", Some(3))] {
            let place = scratch();
            let own = place.path().display();
            let line = format!(
                "\"$0\" run --unmonitored --write {own} {flag} -- sh -c 'touch {own}/ran; exit 3' {to}"
            );
            let mut command = Command::new("sh");
            command.args(["-c", &line]).arg(binary());
            command.current_dir(place.path()).stdin(Stdio::null());
            let output = command.stderr(Stdio::piped()).output().expect("a shell");
            let told = told(&output);
            assert_eq!(output.status.code(), expected, "{flag} {to}: {told}");
            let has_run = place.path().join("ran").exists();
            assert_eq!(has_run, expected == Some(3), "{flag} {to}: {told}");
            if !has_run {
                assert!(told.contains("standard output is closed"), "{told}");
            }
        }
    }
}
