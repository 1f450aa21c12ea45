//! The program's own end and what turnkey makes of it.

use turnkey_tests::Run;

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
