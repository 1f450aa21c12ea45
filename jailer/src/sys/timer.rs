//! Timers of other processes: their descriptors, and the signals that they send.

use std::os::fd::{AsFd, OwnedFd};

use super::{Result, Word, call, fd, owned, word};

/// The signal of a timer that has a number.
#[derive(Clone, Copy, Debug)]
pub struct QueuedSignal {
    /// The signal.
    pub number: i32,
    /// The timer.
    pub timer: i32,
    /// The word that the program has given it.
    pub value: u64,
}

/// `siginfo_t` of a timer, asm-generic/siginfo.h.
#[repr(C)]
struct SignalInformation {
    number: i32,
    error: i32,
    code: i32,
    padding: i32,
    timer: i32,
    overrun: i32,
    value: u64,
    rest: [u8; 96],
}

/// The descriptor of another process, pidfd_getfd(2).
pub fn descriptor(process: libc::pid_t, number: i32) -> Result<OwnedFd> {
    let arguments = [Word::from(process), 0, 0, 0, 0, 0];
    let process = owned(call(libc::SYS_pidfd_open, arguments)?);
    let arguments = [fd(process.as_fd()), Word::from(number), 0, 0, 0, 0];
    Ok(owned(call(libc::SYS_pidfd_getfd, arguments)?))
}

/// `struct itimerspec` of a timerfd: the interval, and the time that is left.
pub fn left(timer: &OwnedFd) -> Result<[u8; 32]> {
    let mut left = [0_u8; 32];
    let place = word(left.as_mut_ptr() as usize);
    call(
        libc::SYS_timerfd_gettime,
        [fd(timer.as_fd()), place, 0, 0, 0, 0],
    )?;
    Ok(left)
}

/// Sets a timerfd.
pub fn set(timer: &OwnedFd, times: &[u8; 32]) -> Result<()> {
    let place = word(times.as_ptr() as usize);
    let arguments = [fd(timer.as_fd()), 0, place, 0, 0, 0];
    call(libc::SYS_timerfd_settime, arguments).map(drop)
}

/// Sends the signal of a timer to a process, or to one thread of it.
pub fn queue(
    process: libc::pid_t,
    thread: Option<libc::pid_t>,
    signal: QueuedSignal,
) -> Result<()> {
    let information = SignalInformation {
        number: signal.number,
        error: 0,
        code: libc::SI_TIMER,
        padding: 0,
        timer: signal.timer,
        overrun: 0,
        value: signal.value,
        rest: [0; 96],
    };
    let place = word((&raw const information) as usize);
    let (process, number) = (Word::from(process), Word::from(signal.number));
    match thread {
        None => call(libc::SYS_rt_sigqueueinfo, [process, number, place, 0, 0, 0]),
        Some(thread) => {
            let arguments = [process, Word::from(thread), number, place, 0, 0];
            call(libc::SYS_rt_tgsigqueueinfo, arguments)
        }
    }
    .map(drop)
}
