//! The program's own end and what turnkey makes of it.

use turnkey_expectations::expected;
use turnkey_tests::Run;

expected!(
    not_on[ORDINARY_6_12],
    "statuses and output are handled by the command alone; every other test uses them"
);

#[test]
fn a_harmless_program_is_clean() {
    let ran = Run::new().python("print(6*7)");
    ran.expect_code(0);
    ran.expect(
        ran.stdout == "42\n",
        "the output passes through, and only it",
    );
    ran.expect(ran.at("/status") == "exited", "status exited");
    ran.expect(ran.at("/verdict") == "clean", "verdict clean");
    ran.expect(ran.at("/is_safe") == true, "is_safe");
    ran.expect(ran.at("/events/complete") == true, "every event arrived");
    let lost = ran
        .at("/events/lost")
        .as_object()
        .map(|lost| lost.values().filter_map(|n| n.as_u64()).sum::<u64>());
    ran.expect(lost == Some(0), "no event lost");
}

#[test]
pub fn the_programs_own_status_passes_through() {
    for status in [1, 7, 119] {
        Run::new()
            .shell(&format!("exit {status}"))
            .expect_code(status);
    }
}

#[test]
fn a_colliding_status_is_told_apart_in_the_report() {
    let ran = Run::new().shell("exit 121");
    ran.expect_code(121);
    ran.expect(ran.at("/status") == "exited", "not killed by policy");
    ran.expect(ran.at("/exit_code") == 121, "the program's own status");
}

#[test]
pub fn a_death_by_signal_is_128_and_its_number() {
    let ran = Run::new().shell("kill -TERM $$");
    ran.expect_code(128 + 15);
    ran.expect(ran.at("/status") == "signaled", "status signaled");
    ran.expect(ran.at("/signal") == 15, "the signal");
}

#[test]
pub fn a_missing_program_is_127_and_one_that_cannot_run_126() {
    let ran = Run::new().run(&["no-such-program"]);
    ran.expect_code(127);
    ran.expect(
        ran.stderr.contains("no-such-program"),
        "the program is named",
    );
    ran.expect(ran.at("/status") == "setup_failed", "nothing ran");
    Run::new()
        .file("data", "not a program")
        .run(&["./data"])
        .expect_code(126);
}

#[test]
pub fn a_file_that_is_no_program_is_126() {
    let run = Run::new().file("data", "\u{1}\u{2}not a program");
    let path = run.path().join("data");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    run.run(&["./data"]).expect_code(126);
}

#[test]
pub fn standard_input_reaches_the_program() {
    let run = Run::new();
    let mut command = run.command(&["cat"]);
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"through the jail").unwrap();
    let output = turnkey_tests::finish(child);
    assert_eq!(output.stdout, b"through the jail");
}

/// `/dev/stderr` opens the stream once more, which is turnkey's and not the jail's.
#[test]
pub fn streams_are_opened_by_their_names() {
    let ran = Run::new().shell("echo out > /dev/stdout; echo err > /dev/stderr");
    ran.expect_code(0);
    ran.expect(ran.stdout == "out\n", "standard output");
    ran.expect(ran.stderr.contains("err\n"), "standard error");
}

/// As `cat /dev/stdin < file`: the file may lie anywhere, and be in no tree at all.
#[test]
fn a_file_is_read_by_the_name_of_the_stream_and_not_written() {
    let directory = turnkey_tests::scratch();
    let path = directory.path().join("given");
    std::fs::write(&path, "what is given").unwrap();
    let memory = nix::sys::memfd::memfd_create("given", nix::sys::memfd::MFdFlags::MFD_CLOEXEC);
    let memory = std::fs::File::from(memory.unwrap());
    std::os::unix::fs::FileExt::write_all_at(&memory, b"in memory", 0).unwrap();
    let file = || std::fs::File::open(&path).unwrap();
    for (input, name, said) in [
        (file(), "/dev/stdin", "what is given"),
        (file(), "/proc/self/fd/0", "what is given"),
        (memory, "/dev/stdin", "in memory"),
    ] {
        let run = Run::new();
        let mut command = run.command(&["sh", "-c", &format!("cat {name}; echo x >> {name}")]);
        let child = command
            .stdin(input)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let output = turnkey_tests::finish(child);
        assert_eq!(String::from_utf8_lossy(&output.stdout), said, "{name}");
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "what is given",
        "it is as it was"
    );
}

/// A pipe of a shell of root's is its own, mode 0600: the jail's user opens it by name all the same, as a process of a
/// container would.
#[test]
fn a_pipe_is_read_by_its_name_and_stays_as_it_was() {
    use std::os::fd::AsFd as _;
    let mode =
        |pipe: &std::os::fd::OwnedFd| nix::sys::stat::fstat(pipe.as_fd()).unwrap().st_mode & 0o7777;
    for name in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let (reading, writing) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
        let before = mode(&reading);
        nix::unistd::write(&writing, b"through the pipe").unwrap();
        drop(writing);
        let run = Run::new();
        let mut command = run.command(&["sh", "-c", &format!("cat {name}; echo x > {name}")]);
        let child = command
            .stdin(reading.try_clone().unwrap())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let output = turnkey_tests::finish(child);
        assert_eq!(output.stdout, b"through the pipe", "{name}");
        assert_ne!(output.status.code(), Some(0), "nobody writes into it");
        assert_eq!(mode(&reading), before, "it is as before");
    }
}

#[test]
fn captured_output_is_in_the_report_and_passes_through() {
    let ran = Run::new()
        .option("--capture")
        .shell("echo out; echo err >&2");
    ran.expect(ran.stdout == "out\n", "it passes through");
    ran.expect(ran.at("/stdout/text") == "out\n", "standard output is kept");
    ran.expect(ran.at("/stderr/text") == "err\n", "standard error is kept");
}

#[test]
fn the_verdict_is_one_line_on_standard_error() {
    let ran = Run::new().shell("exit 3");
    let lines: Vec<_> = ran
        .stderr
        .lines()
        .filter(|line| line.starts_with("turnkey: "))
        .collect();
    ran.expect(lines.len() == 1, "one line");
    ran.expect(
        lines[0].contains("clean") && lines[0].contains('3'),
        "verdict and status",
    );
    let quiet = Run::new().option("--quiet").shell("exit 3");
    quiet.expect(quiet.stderr.is_empty(), "--quiet says nothing");
}

#[test]
fn output_that_finds_no_room_is_told() {
    let run = Run::new();
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = run.command(&["echo", "lost"]);
    let child = command
        .stdout(full)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let output = turnkey_tests::finish(child);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("No space left"), "{told}");
}

/// A limit of the caller's own. Under less address space than the first of `-v`, the kernel cannot even load a debug build.
const CALLERS_LIMITS: [&str; 15] = [
    "-d 2000", "-d 3000", "-d 8000", "-d 20000", "-v 50000", "-v 60000", "-n 5", "-n 8", "-n 12",
    "-n 20", "-s 64", "-s 256", "-l 0", "-f 0", "-c 0",
];

/// Takes 6 seconds: each is a start of its own, and some are whole runs with the monitor loaded.
#[test]
fn under_any_limit_of_the_caller_a_run_ends_by_itself_and_lets_nothing_through() {
    let run = Run::new().file(".netrc", "machine SECRETZ\n");
    // The control: who is not in a jail reads it under the tightest of them.
    let free = under("-n 5", &["/bin/cat", ".netrc"], run.path());
    assert_eq!(free.stdout, b"machine SECRETZ\n", "{free:?}");
    let reports = tempfile::tempdir().expect("a test can make a directory");
    for limit in CALLERS_LIMITS {
        let program = turnkey_tests::binary();
        let program = program.to_str().expect("its path is text");
        let report = reports.path().join("report.json");
        let report = report.to_str().expect("its path is text");
        let run_it = [program, "run", "--quiet", "--report", report];
        let words = [&run_it[..], &["--", "/bin/cat", ".netrc"]].concat();
        let ended = under(limit, &words, run.path());
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.stdout.is_empty(), "ulimit {limit}: {ended:?}");
        let code = ended.status.code();
        assert!(
            matches!(code, Some(121 | 125)),
            "ulimit {limit}: neither killed by policy nor turnkey's own failure: {code:?} {told}"
        );
        // Of what was killed `--quiet` says nothing.
        let is_told = code == Some(121) || !told.is_empty();
        assert!(is_told, "ulimit {limit}: nothing is said");
        // `ulimit -c 0` is what hosts commonly have.
        let is_no_hindrance = matches!(limit, "-c 0" | "-l 0");
        assert!(!is_no_hindrance || code == Some(121), "{limit}: {told}");
    }
}

/// Runs something under a limit of the shell's, and kills it when it takes longer than 10 seconds, which is
/// status 137.
fn under(limit: &str, words: &[&str], directory: &std::path::Path) -> std::process::Output {
    let mut command = std::process::Command::new("timeout");
    command
        .args(["-s", "KILL", "10", "/bin/sh", "-c"])
        .arg(format!("ulimit {limit} && exec \"$@\""))
        .arg("sh")
        .args(words)
        .current_dir(directory)
        .stdin(std::process::Stdio::null());
    command.output().expect("timeout(1) can be started")
}
