//! A clock of the jail's own: another date, and sleeps that go by at once.
//!
//! Time namespaces shift no CLOCK_REALTIME. So a thread of the supervisor follows the program by ptrace(2), from outside: it hides
//! the kernel's page of clocks (vDSO) from every program that is executed, and a [filter](crate::filter) has each call that tells the
//! time or waits for one stop, to be answered here. Other layers stay: what another filter refuses is refused before.

pub mod calls;
pub mod followed;
mod idle;
mod memory;
mod task_status;
mod time;
mod timers;
mod tracer;
mod wait;

use std::time::Duration;

/// The clock that a program is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShiftedClock {
    /// Seconds that its date is ahead of the host's when the program starts; below zero it is behind.
    pub ahead: i64,
    /// The time on this clock after which the run is over; `None` when sleeps of any length go by.
    pub wall: Option<Duration>,
    /// True where somebody outside answers the program, so that it waits longer before its time goes by.
    pub is_answered: bool,
}
