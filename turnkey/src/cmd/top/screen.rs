//! The table on a terminal, drawn anew each second until somebody has seen enough.

use std::io::{IsTerminal, Read, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::{Looks, TopPage, table};

/// The time between two drawings.
const PACE: Duration = Duration::from_secs(1);
/// Signals that end it.
const ENDS: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// Draws until `q` or a signal. The terminal is as before then.
pub fn show(looks: &mut Looks) -> anyhow::Result<()> {
    ensure!(
        stdin().is_terminal() && stdout().is_terminal(),
        "standard input and output are not both a terminal: use --once for a table, or --json"
    );
    let screen = Screen::take().context("the terminal cannot be drawn on")?;
    loop {
        let next = Instant::now() + PACE;
        screen.draw(&looks.look()?);
        if screen.is_left(next) {
            return Ok(());
        }
    }
}

/// The terminal, which is given back with this.
struct Screen {
    before: Termios,
    signals: SignalFd,
}

impl Screen {
    fn take() -> anyhow::Result<Screen> {
        let mut set: SigSet = ENDS.into_iter().collect();
        // A stopped one would leave the shell a terminal without echo.
        set.add(Signal::SIGTSTP);
        set.thread_block()?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC)?;
        let before = tcgetattr(stdin())?;
        let mut modes = before.clone();
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        tcsetattr(stdin(), OptionalActions::Now, &modes)?;
        write("\x1b[?1049h\x1b[?25l");
        Ok(Screen { before, signals })
    }

    fn draw(&self, page: &TopPage) {
        let size = tcgetwinsize(stdout()).ok();
        let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let (columns, rows) = size.map_or((80, 24), |size| (size.ws_col, size.ws_row));
        let lines = table::lines(page, columns.into());
        let shown = lines.iter().take(usize::from(rows).saturating_sub(1));
        let mut text = "\x1b[H".to_owned();
        for line in shown {
            text += line;
            text += "\x1b[K\n";
        }
        text += "\x1b[Jq ends";
        write(&text);
    }

    /// Waits until `next`; true when somebody wants it to end.
    fn is_left(&self, next: Instant) -> bool {
        loop {
            let left = next.saturating_duration_since(Instant::now());
            let input = stdin();
            let mut waited = [
                PollFd::new(input.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            ];
            let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            if !poll(&mut waited, left).is_ok_and(|ready| ready > 0) {
                return false;
            }
            let [typed, signal] = waited.map(|it| it.any().unwrap_or(true));
            if signal && self.is_signalled() || typed && is_typed() {
                return true;
            }
        }
    }

    fn is_signalled(&self) -> bool {
        let read = self.signals.read_signal();
        let number = read.ok().flatten().map(|info| info.ssi_signo);
        number.is_none_or(|number| ENDS.iter().any(|it| *it as u32 == number))
    }
}

/// True when `q` was typed, or nobody can type any more.
fn is_typed() -> bool {
    let mut typed = [0; 64];
    match stdin().lock().read(&mut typed) {
        Ok(0) | Err(_) => true,
        Ok(length) => typed[..length].iter().any(|key| matches!(key, b'q' | b'Q')),
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        write("\x1b[?25h\x1b[?1049l");
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(stdin(), OptionalActions::Flush, &self.before);
    }
}

/// A terminal that takes nothing is nobody's.
fn write(text: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
