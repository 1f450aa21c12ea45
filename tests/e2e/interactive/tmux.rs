//! A working session under tmux(1), which keeps the screen that it is shown: it is that of the same session outside, cell by cell.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use turnkey_expectations::expected;
use turnkey_tests::{Run, eventually, scratch};

/// The text that is typed, and a part of the screen that comes of it. Names in angle brackets are tmux's of keys.
const SESSION: &[(&str, &str)] = &[
    ("vi -u NONE notes<Enter>", "\"notes\" [New"),
    ("ione<Enter>two<Enter>three<Escape>", "three"),
    ("ggddp:set number<Enter>", "2 one"),
    (":wq<Enter>", "notes\n$"),
    ("clear; sort notes<Enter>", "one\nthree\ntwo"),
    ("seq 400 | less<Enter>", "\n23\n:"),
    ("/256<Enter>", "256\n257"),
    ("G", "(END)"),
    ("q", "\n$"),
    ("clear; python3 -q<Enter>", ">>>"),
    // Between two lines the interpreter's terminal shows what is typed ahead.
    ("def two():<Enter>", "def two():\n..."),
    ("    return 2<Enter>", "return 2\n..."),
    ("<Enter>", "...\n>>>"),
    ("two() * 4<Enter>", "\n8\n>>>"),
    ("<C-d>", "\n$"),
    ("clear; sh job<Enter>", "begun"),
    ("<C-z>", "Stopped"),
    ("jobs; fg<Enter>", "again"),
    ("<C-c>", "^C\n$"),
    ("of $?<C-a>echo <C-e> codes<Enter>", "of 130 codes"),
];

/// A job that shows the size of its window, anew whenever that changes.
const SIZE: &str =
    "show() { clear; stty size; }; trap show WINCH; show; while :; do sleep 0.05; done";

/// The longest that a screen may take to be drawn.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server of tmux with one window, in which one program runs.
struct Pane {
    place: tempfile::TempDir,
}

impl Pane {
    /// The window is 80 by 24, and stays when the program has ended. The program has the variables that are set for it, and is started by
    /// this user, where that is not the test's own.
    fn open(program: &Command, user: Option<u32>, directory: &Path) -> Pane {
        let pane = Pane { place: scratch() };
        let mut tmux = pane.tmux();
        tmux.args(["new-session", "-d", "-x", "80", "-y", "24", "-c"])
            .arg(directory);
        for (name, value) in program.get_envs() {
            let (name, value) = (name.to_string_lossy(), value.unwrap_or_default());
            tmux.arg("-e")
                .arg(format!("{name}={}", value.to_string_lossy()));
        }
        if let Some(user) = user.map(|user| user.to_string()) {
            tmux.args(["setpriv", "--reuid", &user, "--regid", &user]);
            tmux.args(["--clear-groups", "--"]);
        }
        tmux.arg(program.get_program()).args(program.get_args());
        tmux.args([";", "set-option", "remain-on-exit", "on"]);
        assert!(tmux.status().expect("tmux(1) is there").success());
        pane
    }

    fn tmux(&self) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(self.place.path().join("socket"));
        tmux.args(["-f", "/dev/null"]);
        tmux.env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LANG", "C.UTF-8");
        tmux
    }

    fn ask(&self, words: &[&str]) -> String {
        let output = self.tmux().args(words).output().expect("tmux(1) is there");
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The text of the screen, the place of the cursor, and the text again with its colours.
    fn screen(&self) -> String {
        let about = "at #{cursor_x} #{cursor_y}, of another screen: #{alternate_on}";
        let words = ["capture-pane", "-p", ";", "display-message", "-p", about];
        self.ask(&[&words[..], &[";", "capture-pane", "-p", "-e"]].concat())
    }

    fn type_in(&self, keys: &str) {
        for part in keys
            .split_inclusive('>')
            .flat_map(|part| part.split('<'))
            .filter(|part| !part.is_empty())
        {
            match part.strip_suffix('>') {
                Some(key) => self.ask(&["send-keys", key]),
                None => self.ask(&["send-keys", "-l", part]),
            };
        }
    }

    /// The program's exit code, once it has ended. tmux 3.3a at times leaves a program that has ended a zombie, as if it had missed the
    /// signal of its end: it is told again.
    fn exit_code(&self) -> String {
        let server = self.ask(&["display-message", "-p", "#{pid}"]);
        let server = server.trim().parse().expect("the server's process");
        kill(Pid::from_raw(server), Signal::SIGCHLD).expect("it runs");
        self.ask(&["display-message", "-p", "#{pane_dead_status}"])
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        let _ = self.tmux().arg("kill-server").status();
    }
}

/// The same session twice: in a jail, and outside.
struct Twice([Pane; 2]);

impl Twice {
    /// Asks both the same.
    fn ask(&self, words: &[&str]) {
        for pane in &self.0 {
            pane.ask(words);
        }
    }

    /// Types the same into both.
    fn type_in(&self, keys: &str) {
        for pane in &self.0 {
            pane.type_in(keys);
        }
    }

    /// Types into both what is on the left, and waits each time until both show what is on the right, and the same screen.
    #[track_caller]
    fn alike(&self, session: &[(&str, &str)]) {
        let [inside, outside] = &self.0;
        for (keys, expected) in session {
            self.type_in(keys);
            let started = Instant::now();
            loop {
                let screens = [inside.screen(), outside.screen()];
                if screens[0] == screens[1] && screens[0].contains(expected) {
                    break;
                }
                assert!(
                    started.elapsed() < PATIENCE,
                    "{keys}, {expected:?}:\n{}\noutside:\n{}",
                    screens[0],
                    screens[1]
                );
            }
        }
    }

    /// Has both draw a table of processes: the same columns, and in the jail no process but its own.
    #[track_caller]
    fn tables(&self) {
        self.type_in("top<Enter>");
        // Not how wide they are: that of pids has room for the largest, which each namespace has its own of since Linux 6.14.
        let columns = |pane: &Pane| -> Vec<String> {
            let screen = pane.screen();
            let row = screen.lines().find(|line| line.contains("PID USER"));
            let words = row.into_iter().flat_map(str::split_whitespace);
            words.map(str::to_owned).collect()
        };
        for pane in &self.0 {
            eventually("a table is drawn", || !columns(pane).is_empty());
        }
        let [inside, outside] = &self.0;
        assert_eq!(columns(inside), columns(outside));
        let users = |pane: &Pane| -> BTreeSet<String> {
            let screen = pane.screen();
            let rows = screen.lines().map(|line| line.split_whitespace());
            let processes = rows.filter_map(|mut row| {
                row.next()?.parse::<u32>().ok()?;
                row.next().map(str::to_owned)
            });
            processes.collect()
        };
        assert_eq!(users(inside), BTreeSet::from(["jail".to_owned()]));
        let others = users(outside);
        assert!(others.contains("root"), "the control: {others:?}");
        self.type_in("q");
        for pane in &self.0 {
            eventually("the shell is back", || pane.screen().contains("\n$"));
        }
    }
}

expected!(
    at_night,
    "a session of thirty steps, each drawn twice; `interactive::` types into each of its programs by day"
);

#[test]
fn a_session_under_tmux_shows_what_it_shows_outside() {
    let shell = ["bash", "--rcfile", "rc", "-i"];
    let run = Run::new().option("--tty --quiet --wall 5m");
    let run = run
        .file("rc", "PS1='$ '\n")
        .file("job", super::JOB)
        .file("size", SIZE);
    let other = scratch();
    for name in ["rc", "job", "size"] {
        std::fs::copy(run.path().join(name), other.path().join(name)).unwrap();
    }
    let mut control = Command::new(shell[0]);
    control.args(&shell[1..]);
    let both = Twice([
        Pane::open(&run.command(&shell), run.caller(), run.path()),
        Pane::open(&control, None, other.path()),
    ]);
    both.alike(&[("", "$")]);
    both.alike(SESSION);
    both.alike(&[("sh size<Enter>", "24 80")]);
    for (rows, columns) in [("30", "100"), ("12", "60"), ("24", "80")] {
        both.ask(&["resize-window", "-y", rows, "-x", columns]);
        both.alike(&[("", &format!("{rows} {columns}\n"))]);
    }
    both.alike(&[("<C-c>", "^C\n$")]);
    both.tables();
    both.type_in("clear; exit 5<Enter>");
    for pane in &both.0 {
        let started = Instant::now();
        while pane.exit_code() != "5\n" {
            let code = pane.exit_code();
            assert!(
                started.elapsed() < PATIENCE,
                "it ends: {code:?}\n{}",
                pane.screen()
            );
        }
    }
    assert!(
        other.path().join("notes").exists(),
        "the control: it is written"
    );
    assert!(!run.path().join("notes").exists(), "it was thrown away");
}
