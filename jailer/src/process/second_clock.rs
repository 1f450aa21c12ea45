//! A clock that runs while the supervisor does not.
//!
//! The supervisor ends a jail whose time is over, unless somebody has stopped it: `SIGSTOP`, or Ctrl-Z on a terminal. So
//! the jail's init waits for a timer as well. Both have the same one, timerfd_create(2), which the supervisor starts at the
//! release: the init asks for no time, which its filter might not allow, and has nothing to compute.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// The delay after the supervisor's clock, so that a supervisor that is only slow decides.
const BEHIND: Duration = Duration::from_millis(500);

/// The timer. Before it is started it waits for ever.
#[derive(Debug)]
pub struct SecondClock {
    timer: TimerFd,
    wall: Duration,
}

impl SecondClock {
    /// For a jail that may run that long.
    pub fn new(wall: Duration) -> Result<SecondClock, Errno> {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?;
        Ok(SecondClock { timer, wall })
    }

    /// From now on it runs.
    pub fn start(&self) -> Result<(), Errno> {
        let over = TimeSpec::from_duration(self.wall.saturating_add(BEHIND));
        self.timer
            .set(Expiration::OneShot(over), TimerSetTimeFlags::empty())
    }
}

impl AsFd for SecondClock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
