//! Signals to turnkey: which it listens to, and what each means for the jail.
//!
//! The program is in a session of its own, so a Ctrl-C reaches turnkey alone, which passes it on.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that ask for an end: the program hears of the first one and has a moment to end by itself.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];
/// Signals that are the program's own business.
const PASSED_ON: [i32; 2] = [SIGUSR1, SIGUSR2];

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
}

impl SignalListener {
    /// Starts to listen, within a runtime. What the caller has us ignore, as nohup(1) and shells
    /// in the background do, stays ignored.
    #[expect(clippy::disallowed_methods, reason = "of /proc")]
    pub fn listen() -> io::Result<SignalListener> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let ignored = ignored(&status);
        let mut listening = Vec::new();
        for number in ENDING.into_iter().chain(PASSED_ON) {
            if ignored & (1 << (number - 1)) == 0 {
                listening.push((number, signal(SignalKind::from_raw(number))?));
            }
        }
        Ok(SignalListener { listening })
    }

    /// The next one to arrive.
    pub async fn next(&mut self) -> ArrivedSignal {
        let number = poll_fn(|context| {
            for (number, signal) in &mut self.listening {
                if signal.poll_recv(context) == Poll::Ready(Some(())) {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        });
        meaning(number.await)
    }
}

fn meaning(number: i32) -> ArrivedSignal {
    if ENDING.contains(&number) {
        ArrivedSignal::End(number)
    } else {
        ArrivedSignal::Message(number)
    }
}

/// The set `SigIgn` of proc_pid_status(5).
fn ignored(status: &str) -> u64 {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read_from_the_kernel() {
        let nohup = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored(nohup), 1 | 1 << 12);
        assert_eq!(ignored("Name:\tturnkey\n"), 0);
    }

    #[test]
    fn a_message_is_no_end() {
        assert_eq!(meaning(SIGTERM), ArrivedSignal::End(SIGTERM));
        assert_eq!(meaning(SIGUSR1), ArrivedSignal::Message(SIGUSR1));
    }
}
