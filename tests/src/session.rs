//! Somebody at a terminal: types, reads what it shows, changes the size of its window.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Run;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::openpty;
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};

/// The longest that anything may take to be shown.
const PATIENCE: Duration = Duration::from_secs(15);

/// A terminal, and the program that was started in it as a shell would.
pub struct TerminalSession {
    master: OwnedFd,
    /// The program's end, for a look at what it leaves.
    slave: OwnedFd,
    before: Termios,
    child: Child,
    /// The directories of the program's run.
    place: Option<Run>,
    shown: Vec<u8>,
    /// The length of what has been waited for.
    read: usize,
}

/// The end of a program that had a terminal as its controlling one and on all three streams.
pub struct Scene {
    /// Its exit status; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Everything that was shown.
    pub shown: String,
    /// The input that nobody has read, as if somebody had typed it.
    pub typed: String,
    /// True when the terminal's settings are what they were before.
    pub is_restored: bool,
    /// The report of its run, where it was started as one.
    pub report: Value,
}

impl TerminalSession {
    /// Starts a run of `program` there.
    pub fn open(run: Run, program: &[&str]) -> TerminalSession {
        // Of the user of a command nobody can ask it.
        let caller = run.caller.map_or_else(Vec::new, as_user);
        let mut session = TerminalSession::begin(&run.command(program), &caller, |_| ());
        session.place = Some(run);
        session
    }

    /// Starts `command` on all three streams of a new terminal, which controls its session.
    pub fn start(command: &Command) -> TerminalSession {
        TerminalSession::start_in(command, |_| ())
    }

    /// The same in a terminal with other settings.
    pub fn start_in(command: &Command, set: impl FnOnce(&mut Termios)) -> TerminalSession {
        TerminalSession::begin(command, &[], set)
    }

    fn begin(
        command: &Command,
        caller: &[String],
        set: impl FnOnce(&mut Termios),
    ) -> TerminalSession {
        let pair = openpty(None, None).expect("a terminal can be made");
        fcntl(&pair.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a descriptor has flags");
        resize(&pair.slave, 24, 80);
        let mut settings = tcgetattr(&pair.slave).expect("a terminal has settings");
        set(&mut settings);
        tcsetattr(&pair.slave, SetArg::TCSANOW, &settings).expect("a terminal has settings");
        let stream = || Stdio::from(pair.slave.try_clone().expect("a descriptor can be doubled"));
        // The shell's part: a session of its own, and the terminal as that of the session. It becomes the program.
        let mut shell = Command::new("setsid");
        shell
            .arg("--ctty")
            .args(caller)
            .arg(command.get_program())
            .args(command.get_args());
        shell.env("TERM", "xterm");
        for (name, value) in command.get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        if let Some(directory) = command.get_current_dir() {
            shell.current_dir(directory);
        }
        shell.stdin(stream()).stdout(stream()).stderr(stream());
        let before = tcgetattr(&pair.slave).expect("a terminal has settings");
        TerminalSession {
            child: shell.spawn().expect("setsid(1) is there"),
            master: pair.master,
            slave: pair.slave,
            before,
            place: None,
            shown: Vec::new(),
            read: 0,
        }
    }

    /// The program's process.
    pub fn pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(self.child.id().cast_signed())
    }

    /// Waits until this is shown, behind what was waited for last.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let unread = &self.shown[self.read..];
            let found = unread
                .windows(text.len())
                .position(|part| part == text.as_bytes());
            if let Some(place) = found {
                self.read += place + text.len();
                return;
            }
            let shown = String::from_utf8_lossy(unread);
            assert!(
                Instant::now() < deadline,
                "{text:?} is not shown: {shown:?}"
            );
            self.look(50);
        }
    }

    /// Types on the keyboard.
    pub fn type_in(&mut self, keys: &str) {
        let written = nix::unistd::write(&self.master, keys.as_bytes());
        assert_eq!(written, Ok(keys.len()), "a terminal takes a line");
    }

    /// Types this again and again, until nobody has taken any of it for a while.
    pub fn fill(&mut self, keys: &str) {
        let mut taken = Instant::now();
        while taken.elapsed() < Duration::from_millis(100) {
            match nix::unistd::write(&self.master, keys.as_bytes()) {
                Ok(_) => taken = Instant::now(),
                Err(_) => {
                    self.look(5);
                }
            }
        }
    }

    /// Gives the window another size.
    pub fn resize(&self, rows: u16, columns: u16) {
        resize(&self.slave, rows, columns);
    }

    /// The terminal's settings at the moment.
    pub fn settings(&self) -> Termios {
        tcgetattr(&self.slave).expect("a terminal has settings")
    }

    /// Changes them, as another job of the session would.
    pub fn set(&self, change: impl FnOnce(&mut Termios)) {
        let mut settings = self.settings();
        change(&mut settings);
        tcsetattr(&self.slave, SetArg::TCSANOW, &settings).expect("a terminal has settings");
    }

    /// Waits for the end of the program.
    pub fn end(mut self) -> Scene {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                break status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
            }
            self.look(5);
        };
        while self.look(0) {}
        let after = self.settings();
        Scene {
            code: status.code(),
            shown: String::from_utf8_lossy(&self.shown).into_owned(),
            typed: waiting_in(&self.slave),
            is_restored: after == self.before,
            report: self.place.as_ref().map_or(Value::Null, Run::report),
        }
    }

    /// Reads what is shown by then; true when there was something.
    fn look(&mut self, milliseconds: u8) -> bool {
        let mut one = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut one, PollTimeout::from(milliseconds));
        let mut piece = [0; 4096];
        let length = nix::unistd::read(&self.master, &mut piece).unwrap_or(0);
        self.shown.extend_from_slice(&piece[..length]);
        length > 0
    }
}

/// The command that becomes an ordinary user, without supplementary groups.
fn as_user(user: u32) -> Vec<String> {
    let words = [
        "setpriv".to_owned(),
        format!("--reuid={user}"),
        format!("--regid={user}"),
        "--clear-groups".to_owned(),
    ];
    words.to_vec()
}

/// Calls stty(1), since the ioctl(2) is unsafe to call.
fn resize(slave: &OwnedFd, rows: u16, columns: u16) {
    let mut stty = Command::new("stty");
    stty.args(["rows", &rows.to_string(), "cols", &columns.to_string()]);
    let slave = slave.try_clone().expect("a descriptor can be doubled");
    let status = stty.stdin(slave).status().expect("stty(1) is there");
    assert!(status.success(), "a terminal has a size");
}

/// The input that nobody has read yet.
fn waiting_in(slave: &OwnedFd) -> String {
    fcntl(slave, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a descriptor has flags");
    let mut piece = [0; 4096];
    let length = nix::unistd::read(slave, &mut piece).unwrap_or(0);
    String::from_utf8_lossy(&piece[..length]).into_owned()
}
