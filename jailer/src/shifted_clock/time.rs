//! The time of a jail: the host's, so and so much ahead, and all the sleeps that went by.

use nix::time::{ClockId, clock_gettime};

use super::ShiftedClock;
use super::calls::{ClockKind, SECOND};

/// The time of a jail, in nanoseconds. What went by once never comes back.
#[derive(Debug)]
pub struct JailTime {
    ahead: i64,
    gone_by: i64,
    over: Option<i64>,
}

impl JailTime {
    /// From now on.
    pub fn start(clock: ShiftedClock) -> JailTime {
        let wall = clock.wall.map(|wall| i64::try_from(wall.as_nanos()));
        let now = host(libc::CLOCK_MONOTONIC);
        JailTime {
            ahead: clock.ahead.saturating_mul(SECOND),
            gone_by: 0,
            over: wall.map(|wall| now.saturating_add(wall.unwrap_or(i64::MAX))),
        }
    }

    /// The reading of a clock of clock_gettime(2) in the jail; `None` of one that counts what a process uses.
    pub fn read(&self, clock: u64) -> Option<i64> {
        let kind = ClockKind::of(clock)?;
        let clock = libc::clockid_t::try_from(clock).ok()?;
        Some(host(clock).saturating_add(self.before_host(kind)))
    }

    /// Now, on the clock that deadlines here are on.
    pub fn now(&self) -> i64 {
        host(libc::CLOCK_MONOTONIC).saturating_add(self.gone_by)
    }

    /// The moment on the host's clock that a moment in the jail is.
    pub fn on_host(&self, kind: ClockKind, moment: i64) -> i64 {
        moment.saturating_sub(self.before_host(kind))
    }

    /// A moment from now on the host's clock.
    pub fn host_after(kind: ClockKind, rest: i64) -> i64 {
        let clock = match kind {
            ClockKind::Realtime => libc::CLOCK_REALTIME,
            ClockKind::Monotonic => libc::CLOCK_MONOTONIC,
        };
        host(clock).saturating_add(rest)
    }

    /// The time from now until a moment of the jail's.
    pub fn until(&self, kind: ClockKind, moment: i64) -> i64 {
        self.on_host(kind, moment)
            .saturating_sub(Self::host_after(kind, 0))
    }

    /// Lets the time until `deadline` go by, and answers how much that is; `None` when the run is over before.
    pub fn go_to(&mut self, deadline: i64) -> Option<i64> {
        if self.over.is_some_and(|over| deadline > over) {
            return None;
        }
        let gone = deadline.saturating_sub(self.now()).max(0);
        self.gone_by = self.gone_by.saturating_add(gone);
        Some(gone)
    }

    fn before_host(&self, kind: ClockKind) -> i64 {
        match kind {
            ClockKind::Realtime => self.gone_by.saturating_add(self.ahead),
            ClockKind::Monotonic => self.gone_by,
        }
    }
}

/// The host's clock.
fn host(clock: libc::clockid_t) -> i64 {
    let now = clock_gettime(ClockId::from_raw(clock));
    let now = now.map(|now| {
        now.tv_sec()
            .saturating_mul(SECOND)
            .saturating_add(now.tv_nsec())
    });
    now.unwrap_or_default()
}
