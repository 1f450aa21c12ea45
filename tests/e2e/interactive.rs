//! A terminal for the program: `turnkey run -t`, and by itself where somebody sits at one. J49.

mod tmux;

use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{InputFlags, LocalFlags, SpecialCharacterIndices};
use turnkey_expectations::expected;
use turnkey_tests::{Run, Scene, TerminalSession};

expected!(
    not_on[ORDINARY_6_12],
    "editors and interpreters at a terminal wait for each key, which takes an emulated \
     CPU long; both ends are passed on outside of the jail"
);

/// A session in which turnkey runs the program, as its caller would start it at a terminal.
fn session(options: &str, program: &[&str]) -> TerminalSession {
    let run = Run::new().option("--unmonitored").option(options);
    TerminalSession::open(run, program)
}

/// The same of a script of bash, to its end.
fn shown_by(options: &str, script: &str) -> Scene {
    session(options, &["bash", "-c", script]).end()
}

/// A job that says when it runs, and when it runs again. It makes no process then: one that is stopped before its execve(2) is
/// waited for by its parent, in vfork(2), without end.
const JOB: &str = "trap 'echo again' CONT; sleep 50 & echo begun; while :; do wait; done";

#[test]
pub fn a_shell_has_job_control_and_its_exit_code_is_the_run_s() {
    let run = Run::new().option("--unmonitored --quiet").file("job", JOB);
    let mut shell = TerminalSession::open(run, &["bash", "--norc", "-i"]);
    shell.wait_for("$ ");
    shell.type_in("tty; sh job\r");
    shell.wait_for("/dev/pts/0\r\n");
    shell.wait_for("begun");
    // To the job in the foreground, and no further.
    shell.type_in("\x03");
    shell.wait_for("$ ");
    shell.type_in("echo code $?; sh job\r");
    shell.wait_for("code 130\r\n");
    shell.wait_for("begun");
    shell.type_in("\x1a");
    shell.wait_for("Stopped");
    shell.wait_for("$ ");
    shell.type_in("fg\r");
    shell.wait_for("again");
    shell.type_in("\x03");
    shell.wait_for("$ ");
    shell.type_in("exit 7\r");
    let scene = shell.end();
    assert_eq!(scene.code, Some(7), "{}", scene.shown);
    assert!(scene.is_restored);
}

#[test]
fn an_editor_and_a_pager_work() {
    let mut vim = session("--quiet", &["bash", "-c", "vi -u NONE x; cat x"]);
    vim.wait_for("\"x\" [New");
    vim.type_in("iwritten\x1b:wq\r");
    vim.wait_for("\x1b[?1049l");
    vim.wait_for("written\r\n");
    assert_eq!(vim.end().code, Some(0));

    let mut less = session("--quiet", &["bash", "-c", "seq 2000 | less"]);
    less.wait_for("22");
    less.type_in("G");
    less.wait_for("2000");
    less.type_in("q");
    assert_eq!(less.end().code, Some(0));
}

#[test]
fn a_table_of_processes_and_an_interpreter_work() {
    let mut top = session("--quiet", &["top"]);
    top.wait_for("COMMAND");
    top.type_in("q");
    assert_eq!(top.end().code, Some(0));

    let mut python = session("--quiet", &["python3", "-q"]);
    python.wait_for(">>> ");
    python.type_in("6*7\r");
    python.wait_for("42\r\n");
    python.wait_for(">>> ");
    python.type_in("\x04");
    assert_eq!(python.end().code, Some(0));
}

#[test]
fn the_window_s_size_and_the_keys_are_the_caller_s() {
    let script = "trap 'stty size; exit' WINCH; stty size; stty -a; echo ready; while :; do sleep 0.02; done";
    let run = Run::new().option("--unmonitored");
    let command = run.command(&["bash", "-c", script]);
    let mut shell = TerminalSession::start_in(&command, |settings| {
        settings.control_chars[SpecialCharacterIndices::VERASE as usize] = 0x08;
        settings.input_flags |= InputFlags::IXANY;
    });
    shell.wait_for("24 80\r\n");
    shell.wait_for("erase = ^H");
    shell.wait_for(" ixany");
    shell.wait_for("ready\r\n");
    shell.resize(50, 132);
    shell.wait_for("50 132\r\n");
    let scene = shell.end();
    assert!(
        scene.code == Some(0) && scene.is_restored,
        "{}",
        scene.shown
    );
}

/// Draws in another screen, has the mouse report, hides what is written from there on, and waits for what follows.
const TAKES_OVER: &str = r"stty raw -echo; printf '\033[?1049h\033[?1003h\033[?2004h\033[?25l\033[31;8m\033(0\033[2;4r\033[20;1Hturnkey: clean\033[1;1H'; echo re''ady; ";
/// The bytes between the program's end and the verdict.
const GIVEN_BACK: &str = "\x1b[?1003l\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l\x1b7\x1b[r\x1b8\x1b(B\x1b)B\x0f\x1b[0m\r\n\x1b[J";

#[test]
pub fn the_terminal_is_as_before_however_the_run_ends() {
    for (options, end, code) in [
        ("--color never", "exit 3", 3),
        ("--color never --wall 400ms", "sleep 9", 124),
        ("--color never --output 20K", "exec yes", 122),
        ("--color never", "kill -9 $$", 137),
    ] {
        let scene = shown_by(options, &format!("{TAKES_OVER}{end}"));
        assert_eq!(scene.code, Some(code), "{end}: {}", scene.shown);
        assert!(scene.is_restored, "{end}");
        let (_, last) = scene.shown.split_once(GIVEN_BACK).unwrap_or_default();
        assert!(last.starts_with("turnkey: "), "{end}: {:?}", scene.shown);
        assert!(!last.contains('\x1b'), "{end}: {last:?}");
    }
}

#[test]
fn the_terminal_is_as_before_when_a_rule_kills() {
    let run = Run::new().option("--color never");
    let script = format!("{TAKES_OVER}cat /etc/shadow; sleep 9");
    let scene = TerminalSession::open(run, &["bash", "-c", &script]).end();
    assert_eq!(scene.code, Some(121), "{}", scene.shown);
    assert!(scene.is_restored);
    let (_, last) = scene.shown.split_once(GIVEN_BACK).unwrap_or_default();
    assert!(last.starts_with("turnkey: killed"), "{:?}", scene.shown);
    assert_eq!(scene.report["terminal"], true);
}

#[test]
fn the_terminal_is_as_before_when_turnkey_is_ended() {
    // The program's own end by the signal; an interactive shell's is two seconds later. SIGABRT is turnkey's own failure.
    for (signal, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
        (Signal::SIGABRT, 125),
    ] {
        let script = format!("{TAKES_OVER}sleep 9");
        let mut shell = session("--color never", &["bash", "-c", &script]);
        shell.wait_for("ready");
        kill(shell.pid(), signal).unwrap();
        let scene = shell.end();
        assert_eq!(scene.code, Some(code), "{signal}: {}", scene.shown);
        assert!(scene.is_restored, "{signal}");
        assert!(
            scene.shown.contains(GIVEN_BACK),
            "{signal}: {:?}",
            scene.shown
        );
    }
}

#[test]
fn what_was_typed_ahead_is_dropped() {
    let script = "stty raw -echo; trap 'exit 5' USR1; echo ready; while :; do sleep 0.02; done";
    let mut shell = session("--quiet", &["bash", "-c", script]);
    shell.wait_for("ready");
    // More than the program's terminal takes: the rest waits in the caller's.
    shell.fill("rm -rf precious\r");
    kill(shell.pid(), Signal::SIGUSR1).unwrap();
    let scene = shell.end();
    assert_eq!((scene.code, &*scene.typed), (Some(5), ""));
}

/// Has the terminal answer, keeps what it likes in the clipboard, renames the window; each sequence in pieces.
const HOSTILE: &str = r#"import os, time
pieces = [b"before", b"\x1b]52;c;", b"b3duZWQ=", b"\x07", b"\x1b", b"[6", b"n", b"\x1b[", b"c", b"\x1b]0;ti", b"tle\x1b", b"\\",
    b"\x1bP$q", b"m\x1b\\", b"\xc2", b"\x9b5n", b"\x05", b"\x1b[21", b"t", b"\x1b_G", b"i=1\x1b\\", b"behind\n"]
for piece in pieces:
    os.write(1, piece)
    time.sleep(0.002)"#;

#[test]
fn j49_what_has_a_terminal_answer_is_not_passed_on() {
    let run = Run::new()
        .option("--unmonitored --quiet")
        .file("x.py", HOSTILE);
    let scene = TerminalSession::start(&run.command(&["python3", "x.py"])).end();
    assert_eq!(scene.shown, "before5nbehind\r\n");
    let mut control = std::process::Command::new("python3");
    control.arg("x.py").current_dir(run.path());
    let outside = TerminalSession::start(&control).end().shown;
    assert!(
        outside.contains("\x1b]52;c;b3duZWQ=\x07\x1b[6n\x1b[c\x1b]0;title"),
        "the control: {outside:?}"
    );
}

#[test]
pub fn j49_the_terminal_inside_is_another_than_the_caller_s() {
    let attack = include_str!("../attacks/terminal.py");
    let run = Run::new()
        .option("--unmonitored --tty")
        .file("terminal.py", attack);
    let scene = TerminalSession::open(run, crate::terminal::ATTACK).end();
    assert!(
        scene.shown.contains("went through: raw 0, "),
        "the control: it has one: {}",
        scene.shown
    );
    for typed in ["type", "/dev", "select"] {
        let (_, through) = scene.shown.split_once("went through:").unwrap();
        assert!(
            !through.lines().next().unwrap().contains(typed),
            "{typed}: {through}"
        );
    }
    assert_eq!(
        scene.typed, "",
        "nothing waits to be read by the caller's shell"
    );
    assert!(scene.is_restored, "the settings are as they were");

    // Not for the filter alone: no name and no descriptor of it leads to a file system of terminals that the host has.
    let script = "stat -L -c 'on %d.' /dev/tty /proc/self/fd/0 /dev/pts/*; echo of $(ls /dev/pts)";
    let inside = shown_by("--quiet", script).shown;
    let host = turnkey_tests::outside("stat", &["-c", "on %d.", "/dev/pts"]).1;
    let dev = turnkey_tests::outside("stat", &["-c", "on %d.", "/dev"]).1;
    assert!(inside.contains("of 0 ptmx"), "{inside}");
    assert!(!inside.contains(host.trim()), "{inside}");
    assert_eq!(
        inside.matches(dev.trim()).count(),
        1,
        "/dev/tty alone, which is whose asks: {inside}"
    );
}

#[test]
fn pipes_are_left_where_they_are_asked_for_and_where_nobody_sits() {
    let scene = shown_by("--quiet --no-tty", "tty; : < /dev/tty");
    assert!(scene.shown.contains("not a tty"), "{}", scene.shown);
    assert!(
        scene.shown.contains("/dev/tty: No such device or address"),
        "{}",
        scene.shown
    );
    let scene = shown_by("--quiet -T -it", "tty");
    assert_eq!(scene.shown, "/dev/pts/0\r\n", "the last one holds");
    let ran = Run::new().option("--unmonitored").shell("tty");
    ran.expect(
        ran.stdout == "not a tty\n" && ran.report.get("terminal").is_none(),
        "none by itself",
    );
}

#[test]
fn a_terminal_without_one_outside_reads_to_the_end_of_the_input() {
    use std::io::Write;
    use std::process::Stdio;
    let run = Run::new().option("--unmonitored --quiet --tty --capture");
    let mut command = run.command(&["sh", "-c", "tty; stty size; cat; echo end >&2"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let started = std::time::Instant::now();
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"one\nhalf").unwrap();
    let ran = run.end(child, started);
    // Typed characters are shown, and then read and written.
    ran.expect(
        ran.stdout.contains("/dev/pts/0\r\n") && ran.stdout.contains("24 80\r\n"),
        "a name and a size",
    );
    ran.expect(
        ran.stdout.matches("one\r\n").count() == 2,
        "echoed and written",
    );
    ran.expect(
        ran.stdout.ends_with("half") || ran.stdout.contains("halfend\r\n"),
        "both outputs",
    );
    ran.expect(
        ran.code == 0 && ran.stderr.is_empty(),
        "one stream for both",
    );
    assert_eq!(ran.report["stdout"]["text"], ran.stdout.as_str());
    assert_eq!(ran.report["stderr"]["bytes"], 0);
}

#[test]
fn a_raw_terminal_is_raw_again_after_a_stop() {
    let mut shell = session(
        "--quiet",
        &["bash", "-c", "echo ready; read -r line; echo got $line"],
    );
    shell.wait_for("ready");
    kill(shell.pid(), Signal::SIGSTOP).unwrap();
    shell.set(|settings| settings.local_flags |= LocalFlags::ECHO | LocalFlags::ICANON);
    kill(shell.pid(), Signal::SIGCONT).unwrap();
    turnkey_tests::eventually("it is raw", || {
        !shell.settings().local_flags.contains(LocalFlags::ICANON)
    });
    shell.type_in("x\r");
    shell.wait_for("got x");
    assert!(shell.end().is_restored);
}
