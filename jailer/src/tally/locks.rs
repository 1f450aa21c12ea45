//! Locks on parts of files, fcntl(2): memory of the kernel's that no control group counts, and of which a process may have
//! any number. They are looked at from outside, proc_pid_fdinfo(5).
#![expect(clippy::disallowed_methods, reason = "of /proc, which nobody turns")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::tally::census::ProcessCensus;

/// Bytes that the kernel takes for one, rounded up: 192 on Linux 6.18.
const OF_ONE: u64 = 256;

/// CPU time between two looks: the making of a lock takes some, so who has used none has made none.
const STEP: Duration = Duration::from_millis(250);

/// Locks of the whole machine that are no memory to speak of. As long as there are no more, no descriptor is looked at: proc_locks(5)
/// has a line for each, but does not say whose all of them are.
const FEW: usize = 4096;

/// Part of the time that looks may take: of a thousand descriptors in each of a hundred processes one takes a while, and the loop that
/// looks has a clock to keep.
const SHARE: u32 = 4;

/// The looks at the locks of one jail.
#[derive(Debug, Default)]
pub struct LockLooks {
    /// CPU time of the jail at the last one.
    used: Duration,
    /// The moment before which none is taken.
    rests: Option<Instant>,
    /// The most bytes that were seen.
    most: u64,
}

impl LockLooks {
    /// The bytes of all locks of the jail with this first process, as far as it can have made any since the last look;
    /// not many more than `enough` are counted. Where nobody tells what it has `used`, each look counts.
    pub fn look(
        &mut self,
        (init, is_still): (libc::pid_t, bool),
        used: Option<Duration>,
        enough: u64,
    ) -> u64 {
        let used = used.unwrap_or(self.used + STEP);
        let is_due = used >= self.used + STEP || (is_still && used > self.used);
        let began = Instant::now();
        if !is_due || self.rests.is_some_and(|until| began < until) {
            return 0;
        }
        self.used = used;
        if !has_more_than(FEW) {
            return 0;
        }
        let census = ProcessCensus::take(init);
        let processes = census.processes.iter().map(|process| process.pid);
        let held = held(processes, enough);
        self.most = self.most.max(held);
        self.rests = Some(Instant::now() + began.elapsed() * SHARE);
        held
    }

    /// The most bytes that were seen at once.
    pub fn most(&self) -> u64 {
        self.most
    }
}

/// True when the machine has more locks than this, or nobody tells.
fn has_more_than(few: usize) -> bool {
    let Ok(file) = fs::File::open("/proc/locks") else {
        return true;
    };
    BufReader::new(file).split(b'\n').take(few + 1).count() > few
}

/// Threads can have tables of descriptors of their own. Where several share one, each counts: who stays far below the limit
/// does so many times over.
fn held(processes: impl Iterator<Item = libc::pid_t>, enough: u64) -> u64 {
    let mut held = 0_u64;
    for process in processes {
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
            continue;
        };
        for thread in threads.flatten() {
            let files = fs::read_dir(thread.path().join("fdinfo"));
            for file in files.into_iter().flatten().flatten() {
                held = held.saturating_add(of_descriptor(&file.path()).saturating_mul(OF_ONE));
                if held > enough {
                    return held;
                }
            }
        }
    }
    held
}

/// The locks that were made by a descriptor, or by its process on the file of the descriptor.
fn of_descriptor(information: &Path) -> u64 {
    let Ok(file) = fs::File::open(information) else {
        return 0;
    };
    let mut lines = BufReader::with_capacity(64 << 10, file);
    let (mut line, mut locks) = (Vec::new(), 0);
    // One line after another in the same place: there may be a million.
    while matches!(lines.read_until(b'\n', &mut line), Ok(length) if length > 0) {
        locks += u64::from(line.starts_with(b"lock:"));
        line.clear();
    }
    locks
}
