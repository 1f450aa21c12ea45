//! Timers of a jail's processes, which go off on the jail's clock: also when the time until then goes by at once.
//!
//! Timers that end in a signal, alarm(2), setitimer(2) and timer_settime(2), are kept here, and the kernel never sets one. A
//! timerfd is the kernel's, and set anew whenever time goes by.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::calls::{ClockKind, SECOND, SplitTime, TimerUse};
use super::memory;
use super::task_status;
use super::time::JailTime;
use crate::sys;
use crate::sys::timer::{self, QueuedSignal};

/// Descriptors of timers that are known of all processes together; of more, the host's time counts.
const MOST_DESCRIPTORS: usize = 1024;

/// The name by which a process knows a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimerName {
    /// The one of alarm(2) and setitimer(2).
    Alarm,
    /// The number that timer_create(2) gave.
    Number(i32),
}

/// The notice that a timer gives.
#[derive(Clone, Copy, Debug)]
enum TimerNotice {
    Nothing,
    Alarm,
    Signal {
        number: i32,
        value: u64,
        /// The thread that it is for, by its number on the host.
        thread: Option<libc::pid_t>,
    },
}

#[derive(Debug)]
struct JailTimer {
    process: libc::pid_t,
    name: TimerName,
    clock: ClockKind,
    notice: TimerNotice,
    /// On the jail's clock, while it is set.
    deadline: Option<i64>,
    interval: i64,
}

impl JailTimer {
    /// The interval, and what is left of the time: of a timer that is set, something always.
    fn left(&self, now: i64) -> (i64, i64) {
        let left = self.deadline.map_or(0, |deadline| (deadline - now).max(1));
        (self.interval, left)
    }

    fn set(&mut self, interval: i64, deadline: Option<i64>) {
        (self.interval, self.deadline) = (interval, deadline);
    }

    /// Gives notice, and is set for the next time. What is pending already is not sent twice.
    fn go_off(&mut self, now: i64) {
        match self.notice {
            TimerNotice::Nothing => {}
            TimerNotice::Alarm => drop(sys::kill(self.process, libc::SIGALRM)),
            TimerNotice::Signal {
                number,
                value,
                thread,
            } => {
                if !task_status::is_pending(thread.unwrap_or(self.process), number) {
                    let TimerName::Number(timer) = self.name else {
                        return;
                    };
                    let signal = QueuedSignal {
                        number,
                        timer,
                        value,
                    };
                    let _ = timer::queue(self.process, thread, signal);
                }
            }
        }
        let next = self
            .deadline
            .map(|deadline| deadline.saturating_add(self.interval));
        let next = next.map(|next| {
            if next <= now {
                now.saturating_add(self.interval)
            } else {
                next
            }
        });
        self.deadline = next.filter(|_| self.interval > 0);
    }
}

/// A timer that timer_create(2) is about to make.
#[derive(Debug)]
pub struct NewTimer {
    clock: ClockKind,
    /// The kind of notice, the signal, the value and the thread; `None` where nothing was said.
    event: Option<(i32, i32, u64, i32)>,
    /// The place of its number.
    number_at: u64,
}

impl NewTimer {
    /// The timer that is asked for; `None` of one that counts what a process uses.
    pub fn read(task: libc::pid_t, arguments: [u64; 6]) -> Result<Option<NewTimer>, Errno> {
        let [clock, event_at, number_at, ..] = arguments;
        let Some(clock) = ClockKind::of(clock & u64::from(u32::MAX)) else {
            return Ok(None);
        };
        let event = match event_at {
            0 => None,
            place => {
                let mut bytes = [0; 24];
                memory::read(task, place, &mut bytes)?;
                let [value, numbers, thread] = words(bytes);
                Some((high(numbers), low(numbers), value, low(thread)))
            }
        };
        Ok(Some(NewTimer {
            clock,
            event,
            number_at,
        }))
    }
}

/// The timers of all processes of a jail.
#[derive(Debug, Default)]
pub struct JailTimers {
    timers: Vec<JailTimer>,
    /// Processes, and descriptors of theirs that were set.
    descriptors: BTreeSet<(libc::pid_t, i32)>,
}

impl JailTimers {
    /// True when none is set.
    pub fn is_empty(&self) -> bool {
        self.descriptors.is_empty() && self.timers.iter().all(|timer| timer.deadline.is_none())
    }

    /// Answers a call in the kernel's place; `None` of what is the kernel's to answer.
    pub fn answer(
        &mut self,
        task: libc::pid_t,
        uses: TimerUse,
        arguments: [u64; 6],
        time: &JailTime,
    ) -> Result<Option<i64>, Errno> {
        let process = task_status::process_of(task).ok_or(Errno::ESRCH)?;
        let [first, second, third, fourth, ..] = arguments;
        let now = time.now();
        let number = TimerName::Number(low(first));
        match uses {
            TimerUse::Alarm => {
                let rest = i64::from(low(first).cast_unsigned()) * SECOND;
                let timer = self.alarm(process);
                let (_, left) = timer.left(now);
                timer.set(0, (rest > 0).then(|| now.saturating_add(rest)));
                // As the kernel rounds it: something that is left is never nothing.
                Ok(Some(
                    ((left + SECOND / 2) / SECOND).max(i64::from(left > 0)),
                ))
            }
            TimerUse::SetInterval | TimerUse::Interval if low(first) != libc::ITIMER_REAL => {
                Ok(None)
            }
            TimerUse::SetInterval => {
                let form = SplitTime { parts: 1_000_000 };
                let Some((interval, rest)) = read_pair(task, second, form)? else {
                    return Ok(None);
                };
                let timer = self.alarm(process);
                let before = timer.left(now);
                timer.set(interval, (rest > 0).then(|| now.saturating_add(rest)));
                told(write_pair(task, third, form, before))
            }
            TimerUse::Interval => {
                let left = self.alarm(process).left(now);
                told(write_pair(
                    task,
                    second,
                    SplitTime { parts: 1_000_000 },
                    left,
                ))
            }
            TimerUse::Set => {
                let form = SplitTime { parts: SECOND };
                let Some(timer) = self.find(process, number) else {
                    return Ok(None);
                };
                let Some((interval, given)) = read_pair(task, third, form)? else {
                    return Ok(None);
                };
                let is_moment = low(second) & libc::TIMER_ABSTIME != 0;
                let rest = if is_moment {
                    time.until(timer.clock, given)
                } else {
                    given
                };
                let before = timer.left(now);
                timer.set(interval, (given > 0).then(|| now.saturating_add(rest)));
                told(write_pair(task, fourth, form, before))
            }
            TimerUse::Left => match self.find(process, number) {
                Some(timer) => told(write_pair(
                    task,
                    second,
                    SplitTime { parts: SECOND },
                    timer.left(now),
                )),
                None => Ok(None),
            },
            TimerUse::Delete => {
                self.timers
                    .retain(|timer| timer.process != process || timer.name != number);
                Ok(None)
            }
            TimerUse::SetDescriptor => {
                if self.descriptors.len() < MOST_DESCRIPTORS {
                    self.descriptors.insert((process, low(first)));
                }
                Ok(None)
            }
            TimerUse::Create => Ok(None),
        }
    }

    /// Keeps a timer that the kernel has made.
    pub fn made(&mut self, task: libc::pid_t, new: &NewTimer) -> Result<(), Errno> {
        let process = task_status::process_of(task).ok_or(Errno::ESRCH)?;
        let mut bytes = [0; 4];
        memory::read(task, new.number_at, &mut bytes)?;
        let number = i32::from_ne_bytes(bytes);
        let signal = |number, value, thread| TimerNotice::Signal {
            number,
            value,
            thread,
        };
        let notice = match new.event {
            None => signal(libc::SIGALRM, u64::from(number.cast_unsigned()), None),
            Some((libc::SIGEV_NONE, ..)) => TimerNotice::Nothing,
            Some((kind, number, value, thread)) => {
                let is_for_one = kind == libc::SIGEV_THREAD_ID;
                let thread = is_for_one
                    .then(|| task_status::thread_of(process, thread))
                    .flatten();
                signal(number, value, thread)
            }
        };
        self.timers.push(JailTimer {
            process,
            name: TimerName::Number(number),
            clock: new.clock,
            notice,
            deadline: None,
            interval: 0,
        });
        Ok(())
    }

    /// A process that became another program has its alarm, and no other timer.
    pub fn executed(&mut self, process: libc::pid_t) {
        self.timers
            .retain(|timer| timer.process != process || timer.name == TimerName::Alarm);
    }

    /// A process that is gone has none.
    pub fn ended(&mut self, process: libc::pid_t) {
        self.timers.retain(|timer| timer.process != process);
    }

    /// Has all go off whose time has come.
    pub fn go_off(&mut self, now: i64) {
        let is_due =
            |timer: &&mut JailTimer| timer.deadline.is_some_and(|deadline| deadline <= now);
        for timer in self.timers.iter_mut().filter(is_due) {
            timer.go_off(now);
        }
    }

    /// The moment on the jail's clock at which the next one goes off. A descriptor that nobody reads though it went off, or that is
    /// closed, is none to wait for.
    pub fn next(&mut self, now: i64) -> Option<i64> {
        let next = self.timers.iter().filter_map(|timer| timer.deadline).min();
        let mut waits = i64::MAX;
        self.descriptors.retain(|(process, number)| {
            let rest = timer::descriptor(*process, *number).and_then(|timer| rest_of(&timer));
            if let Ok(Some((rest, _))) = rest {
                waits = waits.min(now.saturating_add(rest));
            }
            rest.is_ok()
        });
        let next = next.unwrap_or(i64::MAX).min(waits);
        (next < i64::MAX).then_some(next)
    }

    /// Brings the kernel's timers nearer by the time that went by.
    pub fn go_by(&self, gone: i64) {
        for (process, number) in &self.descriptors {
            let Ok(timer) = timer::descriptor(*process, *number) else {
                continue;
            };
            if let Ok(Some((rest, mut times))) = rest_of(&timer) {
                let rest = rest.saturating_sub(gone).max(1);
                times[16..].copy_from_slice(&SplitTime { parts: SECOND }.write(rest));
                let _ = timer::set(&timer, &times);
            }
        }
    }

    fn find(&mut self, process: libc::pid_t, name: TimerName) -> Option<&mut JailTimer> {
        let mut timers = self.timers.iter_mut();
        timers.find(|timer| timer.process == process && timer.name == name)
    }

    /// The one that every process has.
    fn alarm(&mut self, process: libc::pid_t) -> &mut JailTimer {
        let is_its = |timer: &JailTimer| timer.process == process && timer.name == TimerName::Alarm;
        let at = self.timers.iter().position(is_its).unwrap_or_else(|| {
            self.timers.push(JailTimer {
                process,
                name: TimerName::Alarm,
                clock: ClockKind::Monotonic,
                notice: TimerNotice::Alarm,
                deadline: None,
                interval: 0,
            });
            self.timers.len() - 1
        });
        &mut self.timers[at]
    }
}

/// The answer of a call that did what was asked, once it told what was before.
fn told(written: Result<(), Errno>) -> Result<Option<i64>, Errno> {
    Ok(Some(written.map_or(-i64::from(libc::EFAULT), |()| 0)))
}

/// The interval and the first time, in nanoseconds; none at all where there is no place, `None` of what the kernel refuses.
fn read_pair(task: libc::pid_t, place: u64, form: SplitTime) -> Result<Option<(i64, i64)>, Errno> {
    let mut bytes = [0; 32];
    if place != 0 {
        memory::read(task, place, &mut bytes)?;
    }
    let (interval, first) = halves(bytes);
    Ok(form.read(interval).zip(form.read(first)))
}

fn write_pair(
    task: libc::pid_t,
    place: u64,
    form: SplitTime,
    (interval, left): (i64, i64),
) -> Result<(), Errno> {
    match place {
        0 => Ok(()),
        place => memory::write(
            task,
            place,
            &[form.write(interval), form.write(left)].concat(),
        ),
    }
}

/// The time that is left of a timer of the kernel's, and its times; `None` of one that is not set, or went off and was not read yet:
/// to set that one anew would take what is to be read from it.
fn rest_of(timer: &OwnedFd) -> Result<Option<(i64, [u8; 32])>, Errno> {
    let times = timer::left(timer)?;
    let (_, rest) = halves(times);
    let rest = SplitTime { parts: SECOND }
        .read(rest)
        .filter(|rest| *rest > 0);
    let mut ready = [PollFd::new(timer.as_fd(), PollFlags::POLLIN)];
    let went_off = poll(&mut ready, PollTimeout::ZERO)? > 0;
    Ok(rest.filter(|_| !went_off).map(|rest| (rest, times)))
}

fn halves(bytes: [u8; 32]) -> ([u8; 16], [u8; 16]) {
    let (mut first, mut second) = ([0; 16], [0; 16]);
    first.copy_from_slice(&bytes[..16]);
    second.copy_from_slice(&bytes[16..]);
    (first, second)
}

fn words(bytes: [u8; 24]) -> [u64; 3] {
    let word = |at: usize| bytes[at..at + 8].try_into().map(u64::from_ne_bytes);
    [0, 8, 16].map(|at| word(at).unwrap_or_default())
}

#[expect(clippy::cast_possible_truncation, reason = "as the kernel does")]
fn low(word: u64) -> i32 {
    (word as u32).cast_signed()
}

fn high(word: u64) -> i32 {
    low(word >> 32)
}
