//! What turnkey shows on a terminal while a run lasts, and in which colours it tells of it.

use std::process::Command;

use turnkey_expectations::expected;
use turnkey_tests::{Run, TerminalSession, binary, finish};

expected!(
    not_on[ORDINARY_6_12],
    "what is shown on a terminal meanwhile is the command's alone, and takes seconds to \
     appear: on 6.12 programs"
);

expected!(on[PROGRAMS_6_12]);

/// Speaks, is silent for longer than turnkey's patience, asks for something, and speaks again.
const TALKS: &str = "import sys, time
def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()
say('one\\n')
time.sleep(3.2)
say('name? ')
time.sleep(1)
say('nobody\\n')
time.sleep(0.2)
sys.stderr.write('last\\n')";

/// What `turnkey run` with these options and variables puts on a terminal.
fn shown(variables: &[&str], options: &[&str], program: &str) -> String {
    let run = Run::new().file("x.py", program);
    let mut command = Command::new("env");
    command
        .args(["-u", "NO_COLOR", "TERM=xterm"])
        .args(variables)
        .arg(binary())
        .args(["run", "--no-tty"])
        .args(options)
        .args(["--", "python3", "x.py"])
        .current_dir(run.path());
    TerminalSession::start(&command).end().shown
}

/// The rows of a terminal that was shown this: carriage returns and erasing to the end of the row.
fn rows(shown: &str) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut column = 0;
    let mut rest = shown;
    while let Some(next) = rest.chars().next() {
        let row = rows.last_mut().expect("there is one");
        if let Some(behind) = rest.strip_prefix("\x1b[K") {
            *row = row.chars().take(column).collect();
            rest = behind;
            continue;
        }
        match next {
            '\r' => column = 0,
            '\n' => {
                rows.push(String::new());
                column = 0;
            }
            other => {
                let (before, after): (String, String) = (
                    row.chars().take(column).collect(),
                    row.chars().skip(column + 1).collect(),
                );
                *row = format!("{before}{other}{after}");
                column += 1;
            }
        }
        rest = &rest[next.len_utf8()..];
    }
    rows.retain(|row| !row.is_empty());
    rows
}

#[test]
fn a_long_run_shows_how_it_stands_and_leaves_no_trace_of_it() {
    let shown = shown(&[], &["--color", "never"], TALKS);
    for part in [
        "turnkey: 2 s of 30 s · ",
        " events · ",
        " of 50 tasks · ",
        " MiB of 256 MiB",
    ] {
        assert!(shown.contains(part), "{part}: {shown:?}");
    }
    let rows = rows(&shown);
    assert_eq!(rows[..3], ["one", "name? nobody", "last"], "{shown:?}");
    assert!(
        rows.len() == 4 && rows[3].starts_with("turnkey: clean — exited 0"),
        "{rows:?}"
    );
    // While it waits for an answer, nothing is drawn behind its question.
    let asked = shown.split("name? ").nth(1).expect("it asked");
    assert!(asked.starts_with("nobody"), "{shown:?}");
}

expected!(
    a_short_run_one_that_is_to_be_quiet_and_a_simple_terminal_show_nothing: at_night,
    "waits for what must not appear"
);
#[test]
fn a_short_run_one_that_is_to_be_quiet_and_a_simple_terminal_show_nothing() {
    let silent = "import time; time.sleep(2.6)";
    for (variables, options, program) in [
        (&[][..], &[][..], "1"),
        (&[], &["--quiet"], silent),
        (&["TERM=dumb"], &[], silent),
    ] {
        let shown = shown(variables, options, program);
        assert!(
            !shown.contains("\x1b[K") && !shown.contains(" of 30 s"),
            "{shown:?}"
        );
    }
}

#[test]
fn colours_are_for_terminals_and_for_who_wants_them() {
    let green = "turnkey: \x1b[1;32mclean\x1b[0m";
    assert!(shown(&[], &[], "1").contains(green));
    for (variables, options) in [
        (&["NO_COLOR=1"][..], &[][..]),
        (&["TERM=dumb"], &[]),
        (&[], &["--color", "never"]),
    ] {
        let shown = shown(variables, options, "1");
        assert!(
            shown.contains("turnkey: clean") && !shown.contains('\x1b'),
            "{shown:?}"
        );
    }
    let piped = |option: &str| {
        let run = Run::new().option(option);
        let mut command = run.command(&["true"]);
        command
            .env("NO_COLOR", "1")
            .stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::piped());
        let output = finish(command.spawn().expect("turnkey can be started"));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(piped("--color always").contains(green));
    assert!(!piped("--color auto").contains('\x1b'));
}
