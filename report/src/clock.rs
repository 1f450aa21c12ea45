//! From the kernel's clock to the calendar.

use std::time::SystemTime;

use time::{Duration, OffsetDateTime};

/// Both clocks read at one instant, so that every later kernel time has a date.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started_at: OffsetDateTime,
    boottime_ns: u64,
}

impl Clock {
    /// `boottime_ns` is `CLOCK_BOOTTIME` in nanoseconds, read together with `started_at`.
    pub fn new(started_at: SystemTime, boottime_ns: u64) -> Self {
        Self {
            started_at: started_at.into(),
            boottime_ns,
        }
    }

    /// The start by `CLOCK_BOOTTIME`, nanoseconds.
    pub fn boottime_ns(&self) -> u64 {
        self.boottime_ns
    }

    /// The start of the run.
    pub fn started_at(&self) -> String {
        rfc3339(self.started_at)
    }

    /// The day of the start, in UTC.
    pub fn day(&self) -> time::Date {
        self.started_at.to_offset(time::UtcOffset::UTC).date()
    }

    /// The date of a kernel time, `CLOCK_BOOTTIME` in nanoseconds.
    pub fn date(&self, boottime_ns: u64) -> String {
        let since = i128::from(boottime_ns) - i128::from(self.boottime_ns);
        let since = Duration::nanoseconds(i64::try_from(since).unwrap_or_default());
        rfc3339(
            self.started_at
                .checked_add(since)
                .unwrap_or(self.started_at),
        )
    }
}

/// RFC 3339 in UTC, always with six digits of a second, so that dates sort as text.
fn rfc3339(at: OffsetDateTime) -> String {
    let at = at.to_offset(time::UtcOffset::UTC);
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second, micro) = (at.hour(), at.minute(), at.second(), at.microsecond());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micro:06}Z")
}

/// The way back, of a date as reports have them; `None` for any other text.
pub fn read(date: &str) -> Option<OffsetDateTime> {
    let format = &time::format_description::well_known::Rfc3339;
    let date = OffsetDateTime::parse(date, format).ok()?;
    (rfc3339(date).len() == "2026-01-02T03:04:05.000000Z".len()).then_some(date)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn clock() -> Clock {
        // 2026-02-28T23:59:59Z, when the machine had been up for 100 s.
        let started_at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_772_323_199);
        Clock::new(started_at, 100 * SECOND)
    }

    #[test]
    fn dates_are_relative_to_the_start() {
        assert_eq!(clock().started_at(), "2026-02-28T23:59:59.000000Z");
        assert_eq!(
            clock().date(101 * SECOND + 1_500),
            "2026-03-01T00:00:00.000001Z"
        );
        assert_eq!(clock().date(40 * SECOND), "2026-02-28T23:58:59.000000Z");
    }

    #[test]
    fn impossible_times_do_not_panic() {
        assert_eq!(clock().date(u64::MAX), clock().started_at());
    }
}
