//! Signals to turnkey: which it listens to, and what each means for the jail.
//!
//! The program is in a session of its own, so a Ctrl-C reaches turnkey alone, which passes it on. With a terminal for the program
//! the caller's makes no signal of it: it is typed on.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use crate::terminal::TerminalWindow;
use nix::libc::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that ask for an end: the program hears of the first one and has a moment to end by itself.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];
/// Signals that are the program's own business.
const PASSED_ON: [i32; 2] = [SIGUSR1, SIGUSR2];
/// Signals after which the program's terminal follows the caller's.
const OF_THE_WINDOW: [i32; 2] = [SIGWINCH, SIGCONT];

/// A signal that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivedSignal {
    /// A request for an end.
    End(i32),
    /// A message to the program.
    Message(i32),
}

/// All that turnkey listens to.
pub struct SignalListener {
    listening: Vec<(i32, Signal)>,
    window: Option<TerminalWindow>,
}

impl SignalListener {
    /// Starts to listen, within a runtime. What the caller has us ignore, as nohup(1) and shells
    /// in the background do, stays ignored.
    pub fn listen(window: Option<TerminalWindow>) -> io::Result<SignalListener> {
        let ignored = SignalSet::ignored()?;
        let mut listening = Vec::new();
        let of_the_window = OF_THE_WINDOW.iter().filter(|_| window.is_some());
        for number in ENDING.iter().chain(&PASSED_ON).chain(of_the_window) {
            let number = *number;
            if !ignored.has(number) {
                listening.push((number, signal(SignalKind::from_raw(number))?));
            }
        }
        Ok(SignalListener { listening, window })
    }

    /// The next one to arrive; what is about the window is answered here.
    pub async fn next(&mut self) -> ArrivedSignal {
        loop {
            let number = self.number().await;
            match &self.window {
                Some(window) if OF_THE_WINDOW.contains(&number) => window.follow(),
                _ => return meaning(number),
            }
        }
    }

    async fn number(&mut self) -> i32 {
        let number = poll_fn(|context| {
            for (number, signal) in &mut self.listening {
                if signal.poll_recv(context) == Poll::Ready(Some(())) {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        });
        number.await
    }
}

fn meaning(number: i32) -> ArrivedSignal {
    if ENDING.contains(&number) {
        ArrivedSignal::End(number)
    } else {
        ArrivedSignal::Message(number)
    }
}

/// Signals that have one meaning for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalSet(u64);

impl SignalSet {
    /// The signals that it ignores.
    ///
    /// # Errors
    /// When /proc does not tell.
    pub fn ignored() -> io::Result<SignalSet> {
        SignalSet::now("SigIgn:")
    }

    /// The signals that it listens to.
    ///
    /// # Errors
    /// When /proc does not tell.
    pub fn heeded() -> io::Result<SignalSet> {
        SignalSet::now("SigCgt:")
    }

    /// True when the signal is one of them.
    pub fn has(self, number: i32) -> bool {
        self.0 & (1 << (number - 1)) != 0
    }

    #[expect(clippy::disallowed_methods, reason = "of /proc")]
    fn now(name: &str) -> io::Result<SignalSet> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        Ok(SignalSet::named(name, &status))
    }

    /// The set of that name in proc_pid_status(5).
    fn named(name: &str, status: &str) -> SignalSet {
        let set = status.lines().find_map(|line| line.strip_prefix(name));
        let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
        SignalSet(set.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read_from_the_kernel() {
        let nohup = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        let ignored = SignalSet::named("SigIgn:", nohup);
        assert_eq!(ignored, SignalSet(1 | 1 << 12));
        assert!(ignored.has(SIGHUP) && !ignored.has(SIGINT));
        assert_eq!(SignalSet::named("SigIgn:", "Name:\tturnkey\n").0, 0);
    }

    #[test]
    fn a_message_is_no_end() {
        assert_eq!(meaning(SIGTERM), ArrivedSignal::End(SIGTERM));
        assert_eq!(meaning(SIGUSR1), ArrivedSignal::Message(SIGUSR1));
    }
}
