//! The host's conclusions from what it hears from a guest, and from hearing nothing. Pure: no clock, no
//! process.

use std::collections::BTreeSet;
use std::time::Duration;

use turnkey_guest::{Message, Outcome};

use super::support;

/// The time that a guest may say nothing at all, in the host's time. While a test runs there is a sign of
/// life every few seconds, unless the host has no time for the guest.
const SILENCE: Duration = Duration::from_secs(240);

/// The time that a guest may run altogether, in the host's time.
pub const TOGETHER: Duration = Duration::from_secs(2700);

/// The same for a guest that runs only when somebody asks for it, and waits: an hour of its clock takes several.
pub const TOGETHER_WHEN_NAMED: Duration = Duration::from_secs(6 * 3600);

/// The reason why a guest is not listened to any longer.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The guest ran its tests and said so.
    Done,
    /// The guest's kernel gave up.
    Panic(String),
    /// The guest said nothing for too long.
    Stall(Duration),
    /// The guest took too long altogether.
    TooLong(Duration),
    /// The machine stopped without a word.
    Gone,
}

/// The time that a guest has run, and may run, in the host's time.
#[derive(Clone, Copy)]
pub struct Together {
    /// Until now.
    pub so_far: Duration,
    /// Altogether.
    pub at_most: Duration,
}

/// One guest as seen from the host.
#[derive(Default)]
pub struct Watch {
    /// The tests that passed.
    pub passed: BTreeSet<String>,
    /// The tests that did not, with what they printed.
    pub failed: Vec<(String, String)>,
    /// The kernel's release.
    pub kernel: String,
    /// The lines that its tests tell of the machine.
    pub told: BTreeSet<String>,
    /// The test that runs now.
    pub running: Option<String>,
    is_done: bool,
    panic: Option<String>,
}

impl Watch {
    /// Takes a message.
    pub fn hear(&mut self, message: Message) {
        match message {
            Message::Up { kernel } => self.kernel = kernel,
            Message::Alive => {}
            Message::Started { test } => self.running = Some(test),
            Message::Finished {
                test,
                outcome,
                output,
                ..
            } => {
                self.running = None;
                self.told.extend(support::told(&output).map(str::to_owned));
                if outcome == Outcome::Passed {
                    self.passed.insert(test);
                } else {
                    self.failed.push((test, output));
                }
            }
            Message::Down => self.is_done = true,
        }
    }

    /// Takes a line of the kernel's console.
    pub fn read_console(&mut self, line: &str) {
        // The command line makes a panic of every oops, of a task that hangs and of a CPU
        // that is stuck, so that one mark tells them all.
        if self.panic.is_none() && line.contains("Kernel panic - not syncing") {
            self.panic = Some(line.trim().to_owned());
        }
    }

    /// The end of the machine's run, given how long it has been silent, how long it has run, and
    /// whether it is still there; `None` while it goes on.
    pub fn end(&self, silent: Duration, together: Together, is_there: bool) -> Option<End> {
        if let Some(panic) = &self.panic {
            return Some(End::Panic(panic.clone()));
        }
        if !is_there {
            return Some(if self.is_done { End::Done } else { End::Gone });
        }
        if silent > SILENCE {
            return Some(End::Stall(silent));
        }
        let Together { so_far, at_most } = together;
        (so_far > at_most).then_some(End::TooLong(so_far))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(1);

    fn after(so_far: Duration) -> Together {
        Together {
            so_far,
            at_most: TOGETHER,
        }
    }

    #[test]
    fn guest_that_says_it_is_done_and_stops_is_done() {
        let mut watch = Watch::default();
        watch.hear(Message::Down);
        assert_eq!(
            watch.end(SOON, after(SOON), true),
            None,
            "it still powers off"
        );
        assert_eq!(watch.end(SOON, after(SOON), false), Some(End::Done));
    }

    #[test]
    fn machine_that_stops_early_is_gone() {
        let watch = Watch::default();
        assert_eq!(watch.end(SOON, after(SOON), false), Some(End::Gone));
    }

    #[test]
    fn panic_ends_it_at_once_even_after_the_last_test() {
        let mut watch = Watch::default();
        watch.hear(Message::Down);
        watch.read_console("[    9.8] Kernel panic - not syncing: Attempted to kill init!\r");
        let end = watch.end(SOON, after(SOON), true);
        assert!(matches!(end, Some(End::Panic(text)) if text.ends_with("kill init!")));
    }

    #[test]
    fn silence_and_length_end_it() {
        let watch = Watch::default();
        let long = SILENCE + SOON;
        assert_eq!(watch.end(long, after(long), true), Some(End::Stall(long)));
        let long = TOGETHER + SOON;
        assert_eq!(watch.end(SOON, after(long), true), Some(End::TooLong(long)));
        assert_eq!(watch.end(SOON, after(SOON), true), None);
    }

    #[test]
    fn test_that_timed_out_has_failed() {
        let mut watch = Watch::default();
        watch.hear(Message::Started {
            test: "e2e x".to_owned(),
        });
        assert_eq!(watch.running.as_deref(), Some("e2e x"));
        watch.hear(Message::Finished {
            test: "e2e x".to_owned(),
            outcome: Outcome::TimedOut,
            millis: 1,
            output: "half".to_owned(),
        });
        assert_eq!(watch.failed, [("e2e x".to_owned(), "half".to_owned())]);
        assert!(watch.passed.is_empty() && watch.running.is_none());
    }
}
