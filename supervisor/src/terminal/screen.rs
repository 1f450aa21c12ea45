//! The caller's terminal while a program has another: raw, and as it was before when the run is over, in whatever way.
//!
//! Not when this process is ended by SIGKILL, of which nobody hears. A shell with job control sets its own modes anew then;
//! what the program had drawn in stays.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::{env, io};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::termios::{InputModes, OptionalActions, Termios, Winsize};

use super::Terminal;
use super::job::JobPlace;
use super::modes::ScreenState;

/// Milliseconds that a terminal that takes nothing may hold up the end of a run.
const PATIENCE: u16 = 500;
/// Milliseconds in which more of what was typed ahead comes.
const FOLLOWS: u16 = 5;
/// Bytes of it that are read at a time, and how often at most.
const PIECE: usize = 4096;
const MOST_PIECES: usize = 64;
/// The size of a program's terminal when nobody looks at it.
const SIZE: Winsize = Winsize {
    ws_row: 24,
    ws_col: 80,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// Terminals that are to be given back when this process ends out of turn.
static TAKEN: Mutex<Vec<Arc<CallerScreen>>> = Mutex::new(Vec::new());

/// The caller's ends, with what a run makes of them.
pub struct CallerScreen {
    caller: Terminal,
    /// The settings of the input, where it is a terminal.
    before: Option<Termios>,
    state: AtomicU32,
    is_restored: AtomicBool,
}

impl CallerScreen {
    /// Makes the caller's terminal raw, and gives the program's its settings and its size.
    pub fn take(caller: Terminal, outer: &OwnedFd) -> io::Result<Arc<CallerScreen>> {
        let before = rustix::termios::tcgetattr(&caller.input).ok();
        let mut inside = match &before {
            Some(before) => before.clone(),
            None => rustix::termios::tcgetattr(outer)?,
        };
        // Erasing takes whole characters.
        inside.input_modes |= InputModes::IUTF8;
        rustix::termios::tcsetattr(outer, OptionalActions::Now, &inside)?;
        let screen = Arc::new(CallerScreen {
            caller,
            before,
            state: AtomicU32::new(0),
            is_restored: AtomicBool::new(false),
        });
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        taken.push(Arc::clone(&screen));
        drop(taken);
        // A job in the background is stopped here until somebody brings it to the foreground, as any that wants the terminal.
        let made = rustix::termios::tcsetwinsize(outer, screen.size());
        let taken = match screen.is_of_another_job() {
            // It follows when its caller has it again.
            true => Ok(()),
            false => screen.make_raw(),
        };
        if let Err(error) = made.map_err(io::Error::from).and(taken) {
            screen.restore();
            return Err(error);
        }
        Ok(screen)
    }

    /// The end that is typed at.
    pub fn input(&self) -> BorrowedFd<'_> {
        self.caller.input.as_fd()
    }

    /// The end that shows.
    pub fn output(&self) -> BorrowedFd<'_> {
        self.caller.output.as_fd()
    }

    /// True when the terminal shows UTF-8: it says so, or the caller's language does not name another table of characters.
    pub fn is_utf8(&self) -> bool {
        let says_so = |settings: &Termios| settings.input_modes.contains(InputModes::IUTF8);
        let language = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
        let mut language = language
            .filter_map(env::var_os)
            .filter(|value| !value.is_empty());
        let names_another = language.next().is_some_and(|language| {
            let language = language.to_string_lossy().to_ascii_uppercase();
            let is_utf8 = language.contains("UTF-8") || language.contains("UTF8");
            !is_utf8 && !matches!(&*language, "C" | "POSIX")
        });
        self.before.as_ref().is_some_and(says_so) || !names_another
    }

    /// Takes note of what the program has changed of the terminal's state.
    pub fn note(&self, state: ScreenState) {
        self.state.store(state.to_bits(), Ordering::Relaxed);
    }

    /// Has the program's terminal follow, as far as this process may touch the caller's.
    pub fn follow(&self, outer: &OwnedFd) {
        if self.is_in_foreground() && !self.is_restored.load(Ordering::Relaxed) {
            let _ = self.make_raw();
        }
        // Nobody is there to be told that it keeps its size.
        let _ = rustix::termios::tcsetwinsize(outer, self.size());
    }

    fn make_raw(&self) -> io::Result<()> {
        let Some(before) = &self.before else {
            return Ok(());
        };
        let mut raw = before.clone();
        raw.make_raw();
        // What was typed ahead is the program's.
        Ok(rustix::termios::tcsetattr(
            self.input(),
            OptionalActions::Drain,
            &raw,
        )?)
    }

    /// Neither end need be the terminal; one of no size is a serial line, or another program's.
    fn size(&self) -> Winsize {
        let ends = [self.output(), self.input()].into_iter();
        let mut sizes = ends.filter_map(|end| rustix::termios::tcgetwinsize(end).ok());
        sizes
            .find(|size| size.ws_col > 0 && size.ws_row > 0)
            .unwrap_or(SIZE)
    }

    /// Gives the caller's terminal back: draws in it as before, has its old settings, and forgets what was typed. Once.
    pub fn restore(&self) {
        self.put_back();
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|screen| !std::ptr::eq(&**screen, self));
    }

    fn put_back(&self) {
        // Another job's terminal by now is left alone.
        if self.is_restored.swap(true, Ordering::Relaxed) || !self.is_in_foreground() {
            return;
        }
        let state = ScreenState::from_bits(self.state.load(Ordering::Relaxed));
        let mut bytes = &state.farewell()[..];
        while !bytes.is_empty() && is_ready(self.output(), PollFlags::POLLOUT, PATIENCE.into()) {
            match nix::unistd::write(self.output(), bytes) {
                Ok(length) => bytes = &bytes[length..],
                Err(nix::errno::Errno::EINTR) => {}
                Err(_) => break,
            }
        }
        if let Some(before) = &self.before {
            self.drop_typed();
            // A terminal that was hung up has no settings any more.
            let _ = rustix::termios::tcsetattr(self.input(), OptionalActions::Flush, before);
        }
    }

    /// Reads what was typed ahead, of which the kernel's own flush leaves what is beyond the first four kilobytes. Bounded:
    /// whoever types on meanwhile types into the shell.
    fn drop_typed(&self) {
        let mut patience = PollTimeout::ZERO;
        for _ in 0..MOST_PIECES {
            if !is_ready(self.input(), PollFlags::POLLIN, patience)
                || !nix::unistd::read(self.input(), &mut [0; PIECE]).is_ok_and(|length| length > 0)
            {
                return;
            }
            // The rest comes by another thread of the kernel's.
            patience = PollTimeout::from(FOLLOWS);
        }
    }

    /// True when the process whose terminal it is does not have it at the moment, or is stopped. Of a terminal of this process's own the
    /// kernel sees to that.
    pub fn is_of_another_job(&self) -> bool {
        self.caller
            .job
            .is_some_and(|job| JobPlace::of(job, self.input()) != JobPlace::Foreground)
    }

    /// False when this process is a job in the background of that terminal: to touch it would stop the process. Likewise when the
    /// process is whose terminal it is.
    fn is_in_foreground(&self) -> bool {
        if let Some(job) = self.caller.job {
            return JobPlace::of(job, self.input()) != JobPlace::Background;
        }
        rustix::termios::tcgetpgrp(self.input())
            .map_or(true, |foreground| foreground == rustix::process::getpgrp())
    }
}

fn is_ready(end: BorrowedFd<'_>, flags: PollFlags, patience: PollTimeout) -> bool {
    let mut one = [PollFd::new(end, flags)];
    poll(&mut one, patience).is_ok_and(|ready| ready > 0)
}

/// Gives every terminal back that a run of this process has taken: for whoever ends the process out of turn, without
/// destructors. Waits for no lock, and for a terminal half a second at most.
pub fn restore_all() {
    let taken = match TAKEN.try_lock() {
        Ok(taken) => taken,
        Err(TryLockError::Poisoned(taken)) => taken.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    for screen in taken.iter() {
        screen.put_back();
    }
}
