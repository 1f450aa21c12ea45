//! One line at the bottom of the terminal while a run lasts: how long, how much was seen, and how much of
//! the limits is used. Nothing of it is there before, after or between the program's own lines.
//!
//! A thread of its own draws: a terminal that is stopped must not keep the supervisor from enforcing the
//! clock, so that one only leaves numbers here. Whoever else writes to the terminal does it by [`apart`].

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use turnkey_jailer::Running;
use turnkey_policy::JailLimits;

use turnkey_report::{seconds, size};

use crate::terminal;

/// A shorter run is over before anybody asks.
const PATIENCE: Duration = Duration::from_secs(2);
/// The interval at which the line is drawn anew.
const PACE: Duration = Duration::from_millis(250);
/// The time for which the program must have been silent.
const SILENCE: Duration = Duration::from_millis(400);
/// The interval at which the groups are asked, counted in looks of the supervisor.
const LOOKS: u64 = 5;

/// The terminal, as far as turnkey knows it.
struct TerminalLine {
    /// The line is there.
    shown: bool,
    /// The last thing written by others ended with a line break.
    fresh: bool,
    /// The number of others that are writing.
    writers: u32,
    /// The time at which they wrote last.
    last: Option<Instant>,
}

static SCREEN: Mutex<TerminalLine> = Mutex::new(TerminalLine {
    shown: false,
    fresh: true,
    writers: 0,
    last: None,
});

fn screen() -> MutexGuard<'static, TerminalLine> {
    // What a panicked thread left is still what is on the screen.
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes `bytes` to a terminal by `write`, with the line out of the way.
pub fn apart<T>(bytes: &[u8], write: impl FnOnce() -> T) -> T {
    {
        let mut screen = screen();
        screen.erase();
        screen.writers += 1;
    }
    let written = write();
    let mut screen = screen();
    screen.writers -= 1;
    screen.fresh = bytes.last().map_or(screen.fresh, |last| *last == b'\n');
    screen.last = Some(Instant::now());
    written
}

impl TerminalLine {
    /// True when a line would stand by itself.
    fn is_free(&self) -> bool {
        let silent = self.last.is_none_or(|last| last.elapsed() >= SILENCE);
        self.writers == 0 && self.fresh && silent
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.shown) {
            // When the terminal is gone there is nothing to erase.
            let _ = std::io::stderr().lock().write_all(b"\r\x1b[K");
        }
    }

    fn draw(&mut self, line: &str) {
        let _ = std::io::stderr()
            .lock()
            .write_all(format!("\r\x1b[K{line}").as_bytes());
        self.shown = true;
    }
}

/// The numbers that the supervisor leaves for the line.
#[derive(Default)]
struct ProgressNumbers {
    looks: AtomicU64,
    events: AtomicU64,
    tasks: AtomicU64,
    memory: AtomicU64,
    cpu_ms: AtomicU64,
}

/// The line of one run; it goes with this.
pub struct ProgressLine {
    numbers: Arc<ProgressNumbers>,
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressLine {
    /// Starts to draw, where somebody is there to look.
    pub fn start(limits: &JailLimits, quiet: bool) -> ProgressLine {
        let numbers = Arc::new(ProgressNumbers::default());
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let thread = (!quiet && somebody_looks()).then(|| {
            let (numbers, over, limits) = (Arc::clone(&numbers), Arc::clone(&over), limits.clone());
            // A host without a thread left has other worries than this line.
            std::thread::Builder::new()
                .spawn(move || run(&numbers, &over, &limits))
                .ok()
        });
        ProgressLine {
            numbers,
            over,
            thread: thread.flatten(),
        }
    }

    /// An event, and what it stands for.
    pub fn saw(&self, repeated: u64) {
        self.numbers
            .events
            .fetch_add(1 + repeated, Ordering::Relaxed);
    }

    /// A look at the jail; waits for nobody.
    pub fn look(&self, running: &Running) {
        let looks = self.numbers.looks.fetch_add(1, Ordering::Relaxed);
        if self.thread.is_none() || !looks.is_multiple_of(LOOKS) {
            return;
        }
        if let Some(now) = running.groups().map(turnkey_jailer::JailCgroups::now) {
            let cpu = now.cpu_time.unwrap_or_default().as_millis();
            let cpu = u64::try_from(cpu).unwrap_or(u64::MAX);
            self.numbers
                .tasks
                .store(now.tasks.unwrap_or(0), Ordering::Relaxed);
            self.numbers
                .memory
                .store(now.memory.unwrap_or(0), Ordering::Relaxed);
            self.numbers.cpu_ms.store(cpu, Ordering::Relaxed);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        let (over, changed) = &*self.over;
        *over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        screen().erase();
    }
}

/// True when standard error is a terminal that can take a line away again, and ours at the moment: a job
/// in the background leaves the terminal to others.
fn somebody_looks() -> bool {
    let stderr = std::io::stderr();
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    stderr.is_terminal() && !dumb && terminal::is_ours(stderr.as_fd())
}

fn run(numbers: &ProgressNumbers, over: &(Mutex<bool>, Condvar), limits: &JailLimits) {
    let started = Instant::now();
    let (over, changed) = over;
    let mut wait = PATIENCE;
    loop {
        let ended = over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(ended, wait, |over| !*over);
        if waited.is_ok_and(|(over, _)| *over) {
            return;
        }
        wait = PACE;
        let mut screen = screen();
        if screen.is_free() {
            let parts = parts(numbers, limits, started.elapsed());
            screen.draw(&fit(&parts, columns()));
        }
    }
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    match size.map(|size| size.ws_col) {
        Ok(0) | Err(_) => 80,
        Ok(columns) => columns.into(),
    }
}

/// The parts that fit on one row: what wraps cannot be taken away again.
fn fit(parts: &[String], columns: usize) -> String {
    let mut line = "turnkey:".to_owned();
    for (index, part) in parts.iter().enumerate() {
        let part = format!("{} {part}", if index == 0 { "" } else { " ·" });
        if line.chars().count() + part.chars().count() < columns {
            line.push_str(&part);
        }
    }
    line
}

fn parts(numbers: &ProgressNumbers, limits: &JailLimits, elapsed: Duration) -> Vec<String> {
    let number = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let (tasks, memory) = (number(&numbers.tasks), number(&numbers.memory));
    let mut parts = vec![
        format!("{} s of {}", elapsed.as_secs(), seconds(limits.wall)),
        format!("{} events", number(&numbers.events)),
    ];
    if tasks > 0 {
        let cpu = number(&numbers.cpu_ms) / 1000;
        parts.push(format!("{tasks} of {} tasks", limits.pids));
        parts.push(format!("{} of {}", size(memory), size(limits.memory)));
        parts.push(format!("cpu {cpu} s of {}", seconds(limits.cpu_time)));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen() -> TerminalLine {
        TerminalLine {
            shown: false,
            fresh: true,
            writers: 0,
            last: None,
        }
    }

    #[test]
    fn the_line_stands_by_itself_or_not_at_all() {
        assert!(screen().is_free());
        let busy = TerminalLine {
            writers: 1,
            ..screen()
        };
        let prompt = TerminalLine {
            fresh: false,
            ..screen()
        };
        let loud = TerminalLine {
            last: Some(Instant::now()),
            ..screen()
        };
        assert!(!busy.is_free() && !prompt.is_free() && !loud.is_free());
    }

    #[test]
    fn it_never_wraps() {
        let parts = ["3 s of 30 s".to_owned(), "12 events".to_owned()];
        assert_eq!(fit(&parts, 33), "turnkey: 3 s of 30 s · 12 events");
        assert_eq!(fit(&parts, 32), "turnkey: 3 s of 30 s");
        assert_eq!(fit(&parts, 0), "turnkey:");
    }

    #[test]
    fn it_says_how_much_of_the_limits_is_used() {
        let overrides = turnkey_policy::Overrides::default();
        let policy = turnkey_policy::load("untrusted", &|_| Err(String::new()), &overrides);
        let limits = policy.unwrap().limits;
        let numbers = ProgressNumbers::default();
        numbers.events.store(1204, Ordering::Relaxed);
        let elapsed = Duration::from_millis(3900);
        let line = |numbers: &ProgressNumbers| fit(&parts(numbers, &limits, elapsed), 120);
        assert_eq!(line(&numbers), "turnkey: 3 s of 30 s · 1204 events");
        numbers.tasks.store(5, Ordering::Relaxed);
        numbers.memory.store(15 << 20, Ordering::Relaxed);
        numbers.cpu_ms.store(1300, Ordering::Relaxed);
        assert_eq!(
            line(&numbers),
            "turnkey: 3 s of 30 s · 1204 events · 5 of 50 tasks · 15 MiB of 256 MiB · cpu 1 s of 20 s"
        );
    }
}
