//! The system calls that tell the time, wait for a time or set a timer, and what of their arguments is a time. Pure.

use libc::c_long;

/// A second, in nanoseconds.
pub const SECOND: i64 = 1_000_000_000;
/// A moment of CLOCK_REALTIME is at least that many seconds; one of CLOCK_MONOTONIC never is.
const REALTIME: i64 = 1_000_000_000;

/// A call with its times.
#[derive(Clone, Copy, Debug)]
pub struct TimedCall {
    /// The number of the call.
    pub number: c_long,
    /// The use that it makes of time.
    pub uses: TimeUse,
}

/// The use that a call makes of time. Arguments are counted from 0.
#[derive(Clone, Copy, Debug)]
pub enum TimeUse {
    /// Answers with the time.
    Tells {
        /// The form of the answer.
        form: TimeForm,
    },
    /// Waits for something until a time at the latest.
    Waits {
        /// The argument that says how long, or until when.
        timeout: usize,
        /// The argument itself is a number of milliseconds.
        millis: bool,
        /// The answer when the time is over.
        over: i64,
        /// The place for what is left of the time.
        left: LeftTime,
    },
    /// Asks for a timer, or for what is left of one.
    Timer(TimerUse),
}

/// The use that a call makes of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerUse {
    /// alarm(2).
    Alarm,
    /// setitimer(2).
    SetInterval,
    /// getitimer(2).
    Interval,
    /// timer_create(2).
    Create,
    /// timer_settime(2).
    Set,
    /// timer_gettime(2).
    Left,
    /// timer_delete(2).
    Delete,
    /// timerfd_settime(2): argument 1 has the flags, argument 2 the times.
    SetDescriptor,
}

/// The form of a time in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeForm {
    /// `struct timespec` of the clock in argument 0, at argument 1.
    OfClock,
    /// `struct timeval`, at argument 0.
    OfDay,
    /// Seconds, as the answer, and at argument 0 where that is no null.
    Seconds,
}

/// The place where a call writes the rest of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftTime {
    /// Nowhere.
    Untold,
    /// The time stands in the place of the argument itself.
    InPlace,
    /// At this argument, when a signal came.
    WhenInterrupted(usize),
}

const fn waits(number: c_long, timeout: usize, over: i32, left: LeftTime) -> TimedCall {
    TimedCall {
        number,
        uses: TimeUse::Waits {
            timeout,
            millis: false,
            over: over as i64,
            left,
        },
    }
}

const fn in_millis(number: c_long, timeout: usize) -> TimedCall {
    TimedCall {
        number,
        uses: TimeUse::Waits {
            timeout,
            millis: true,
            over: 0,
            left: LeftTime::Untold,
        },
    }
}

const fn tells(number: c_long, form: TimeForm) -> TimedCall {
    TimedCall {
        number,
        uses: TimeUse::Tells { form },
    }
}

const fn timer(number: c_long, uses: TimerUse) -> TimedCall {
    TimedCall {
        number,
        uses: TimeUse::Timer(uses),
    }
}

/// Every call that the filter stops at.
pub const CALLS: &[TimedCall] = &[
    tells(libc::SYS_clock_gettime, TimeForm::OfClock),
    tells(libc::SYS_gettimeofday, TimeForm::OfDay),
    tells(libc::SYS_time, TimeForm::Seconds),
    waits(libc::SYS_nanosleep, 0, 0, LeftTime::WhenInterrupted(1)),
    waits(
        libc::SYS_clock_nanosleep,
        2,
        0,
        LeftTime::WhenInterrupted(3),
    ),
    in_millis(libc::SYS_poll, 2),
    in_millis(libc::SYS_epoll_wait, 3),
    in_millis(libc::SYS_epoll_pwait, 3),
    waits(libc::SYS_epoll_pwait2, 3, 0, LeftTime::Untold),
    waits(libc::SYS_ppoll, 2, 0, LeftTime::InPlace),
    waits(libc::SYS_select, 4, 0, LeftTime::InPlace),
    waits(libc::SYS_pselect6, 4, 0, LeftTime::InPlace),
    waits(libc::SYS_futex, 3, -libc::ETIMEDOUT, LeftTime::Untold),
    waits(libc::SYS_futex_waitv, 3, -libc::ETIMEDOUT, LeftTime::Untold),
    waits(
        libc::SYS_rt_sigtimedwait,
        2,
        -libc::EAGAIN,
        LeftTime::Untold,
    ),
    waits(libc::SYS_semtimedop, 3, -libc::EAGAIN, LeftTime::Untold),
    waits(
        libc::SYS_mq_timedreceive,
        4,
        -libc::ETIMEDOUT,
        LeftTime::Untold,
    ),
    waits(
        libc::SYS_mq_timedsend,
        4,
        -libc::ETIMEDOUT,
        LeftTime::Untold,
    ),
    timer(libc::SYS_alarm, TimerUse::Alarm),
    timer(libc::SYS_setitimer, TimerUse::SetInterval),
    timer(libc::SYS_getitimer, TimerUse::Interval),
    timer(libc::SYS_timer_create, TimerUse::Create),
    timer(libc::SYS_timer_settime, TimerUse::Set),
    timer(libc::SYS_timer_gettime, TimerUse::Left),
    timer(libc::SYS_timer_delete, TimerUse::Delete),
    timer(libc::SYS_timerfd_settime, TimerUse::SetDescriptor),
];

/// The call of this number, if it has to do with time.
pub fn of_number(number: u64) -> Option<TimedCall> {
    let number = c_long::try_from(number).ok()?;
    CALLS.iter().copied().find(|call| call.number == number)
}

/// The clock whose moments a time is among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    /// The time of day.
    Realtime,
    /// Time since some moment, which nothing sets.
    Monotonic,
}

impl ClockKind {
    /// The kind of a clock of clock_gettime(2); `None` of those that count what a process uses.
    pub fn of(clock: u64) -> Option<ClockKind> {
        let clock = i32::try_from(clock).ok()?;
        match clock {
            libc::CLOCK_REALTIME
            | libc::CLOCK_REALTIME_COARSE
            | libc::CLOCK_REALTIME_ALARM
            | libc::CLOCK_TAI => Some(ClockKind::Realtime),
            libc::CLOCK_MONOTONIC
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_MONOTONIC_COARSE
            | libc::CLOCK_BOOTTIME
            | libc::CLOCK_BOOTTIME_ALARM => Some(ClockKind::Monotonic),
            _ => None,
        }
    }

    /// The kind of a moment whose clock is not told, in nanoseconds.
    pub fn of_moment(moment: i64) -> ClockKind {
        match moment / SECOND >= REALTIME {
            true => ClockKind::Realtime,
            false => ClockKind::Monotonic,
        }
    }
}

/// The clock on which a call waits until a moment; `None` when it waits for a while.
pub fn waits_until(number: c_long, arguments: [u64; 6]) -> Option<ClockKind> {
    let has =
        |argument: usize, bits: i32| arguments[argument] & u64::from(bits.cast_unsigned()) != 0;
    match number {
        libc::SYS_clock_nanosleep if has(1, libc::TIMER_ABSTIME) => ClockKind::of(arguments[0]),
        libc::SYS_futex => {
            let operation = i32::try_from(arguments[1] & 0x7f).unwrap_or_default();
            match operation {
                libc::FUTEX_WAIT => None,
                libc::FUTEX_LOCK_PI => Some(ClockKind::Realtime),
                _ if has(1, libc::FUTEX_CLOCK_REALTIME) => Some(ClockKind::Realtime),
                _ => Some(ClockKind::Monotonic),
            }
        }
        libc::SYS_futex_waitv => ClockKind::of(arguments[4]),
        libc::SYS_mq_timedreceive | libc::SYS_mq_timedsend => Some(ClockKind::Realtime),
        _ => None,
    }
}

/// True of a call whose clock counts what a process uses, and no time.
pub fn is_of_cpu_time(number: c_long, arguments: [u64; 6]) -> bool {
    number == libc::SYS_clock_nanosleep && ClockKind::of(arguments[0]).is_none()
}

/// A time in memory: seconds, and nanoseconds or, of select(2) and gettimeofday(2), microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitTime {
    /// Parts of a second that its second number counts.
    pub parts: i64,
}

impl SplitTime {
    /// As the call has it.
    pub fn of(number: c_long) -> SplitTime {
        match number {
            libc::SYS_select | libc::SYS_gettimeofday => SplitTime { parts: 1_000_000 },
            _ => SplitTime { parts: SECOND },
        }
    }

    /// In nanoseconds; `None` of what the kernel refuses.
    pub fn read(self, bytes: [u8; 16]) -> Option<i64> {
        let (seconds, rest) = split(bytes);
        let is_time = seconds >= 0 && (0..self.parts).contains(&rest);
        is_time.then(|| {
            let rest = rest * (SECOND / self.parts);
            seconds.saturating_mul(SECOND).saturating_add(rest)
        })
    }

    /// As bytes; nothing is less than nothing.
    pub fn write(self, nanoseconds: i64) -> [u8; 16] {
        let time = nanoseconds.max(0);
        let rest = time % SECOND / (SECOND / self.parts);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(time / SECOND).to_ne_bytes());
        bytes[8..].copy_from_slice(&rest.to_ne_bytes());
        bytes
    }
}

fn split(bytes: [u8; 16]) -> (i64, i64) {
    let (seconds, rest) = bytes.split_at(8);
    let number = |half: &[u8]| half.try_into().map(i64::from_ne_bytes).unwrap_or_default();
    (number(seconds), number(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_what_was_written() {
        for parts in [SECOND, 1_000_000] {
            let form = SplitTime { parts };
            for time in [0, 1_500_000_000, 86_400 * SECOND] {
                assert_eq!(form.read(form.write(time)), Some(time));
            }
            assert_eq!(form.read([0xff; 16]), None, "less than nothing");
            let mut too_many = [0; 16];
            too_many[8..].copy_from_slice(&parts.to_ne_bytes());
            assert_eq!(form.read(too_many), None, "more than a second");
        }
        // What no clock of ours reaches is for ever, and does not overflow.
        assert_eq!(SplitTime::of(libc::SYS_futex).read([0x7f; 16]), None);
        let mut forever = [0; 16];
        forever[..8].copy_from_slice(&i64::MAX.to_ne_bytes());
        assert_eq!(SplitTime::of(libc::SYS_futex).read(forever), Some(i64::MAX));
    }

    #[test]
    fn moments_are_told_from_whiles() {
        let wait = u64::from(libc::FUTEX_WAIT.cast_unsigned() | 128);
        let until = u64::from(libc::FUTEX_WAIT_BITSET.cast_unsigned() | 128);
        let until_the_day = until | u64::from(libc::FUTEX_CLOCK_REALTIME.cast_unsigned());
        let futex = |operation| waits_until(libc::SYS_futex, [0, operation, 0, 0, 0, 0]);
        assert_eq!(futex(wait), None);
        assert_eq!(futex(until), Some(ClockKind::Monotonic));
        assert_eq!(futex(until_the_day), Some(ClockKind::Realtime));
        let sleep =
            |clock, flags| waits_until(libc::SYS_clock_nanosleep, [clock, flags, 0, 0, 0, 0]);
        assert_eq!(sleep(0, 0), None);
        assert_eq!(sleep(0, 1), Some(ClockKind::Realtime));
        assert_eq!(sleep(1, 1), Some(ClockKind::Monotonic));
        assert!(is_of_cpu_time(
            libc::SYS_clock_nanosleep,
            [2, 1, 0, 0, 0, 0]
        ));
        assert_eq!(
            ClockKind::of_moment(1_790_000_000 * SECOND),
            ClockKind::Realtime
        );
        assert_eq!(
            ClockKind::of_moment(40 * 365 * 86_400 * SECOND / 100),
            ClockKind::Monotonic
        );
    }
}
