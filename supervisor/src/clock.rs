//! The two clocks, read together.

use std::time::SystemTime;

use nix::time::{ClockId, clock_gettime};

use turnkey_report::Clock;

/// Now, by the calendar and by the clock that the kernel's programs stamp events with.
pub fn now() -> Clock {
    Clock::new(SystemTime::now(), boottime())
}

/// `CLOCK_BOOTTIME`, in nanoseconds.
pub fn boottime() -> u64 {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |time| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or(0)
    })
}

/// Names the run; no two runs of a host share it.
pub fn run_id() -> String {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    format!("{:012x}-{:x}", since.as_micros(), std::process::id())
}
