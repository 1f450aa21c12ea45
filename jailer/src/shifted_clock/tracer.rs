//! The thread that follows a program by ptrace(2), and answers for its clocks.
//!
//! Runs as: a thread of the supervisor, outside of the jail. What it reads of a task's registers and memory is that task's word, and
//! decides about its own clock alone. It ends when nothing is left to follow, and whatever is left dies with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::ShiftedClock;
use super::calls::{self, ClockKind, SECOND, SplitTime, TimeForm, TimeUse, TimedCall, TimerUse};
use super::idle::IdleWatch;
use super::memory;
use super::task_status;
use super::time::JailTime;
use super::timers::{JailTimers, NewTimer};
use super::wait::{self, SlicedWait};
use crate::sys;
use crate::sys::trace::{self, Registers};

/// Answers of the kernel's own at the end of a call that a signal broke off: what happens then is decided once the signal is
/// delivered. include/linux/errno.h.
const RESTARTS: [i64; 4] = [-512, -513, NO_HANDLER, RESTART_BLOCK];
/// `ERESTARTNOHAND`: EINTR for a handler, the call once more without one.
const NO_HANDLER: i64 = -514;
/// `ERESTART_RESTARTBLOCK`: the same, but for the rest of the slice that the kernel has kept.
const RESTART_BLOCK: i64 = -516;
/// The time between two looks at timers, on the host.
const TICK: Duration = Duration::from_millis(4);
/// The first pause of a thread that looks for stops instead of waiting for one.
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
/// The signals that stop a process.
const STOPPING: [i32; 4] = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// A thread of the jail's, between two of its stops.
#[derive(Debug, Default)]
struct FollowedTask {
    /// The call that it is in.
    at: TaskState,
}

#[derive(Debug, Default)]
enum TaskState {
    #[default]
    Runs,
    /// Waits for a slice.
    Waits(SlicedWait),
    /// A wait that goes on with the same call once more.
    WillWait(SlicedWait),
    /// Sets the descriptor of a timer, whose time was changed at this place.
    Sets(u64, Vec<u8>, [u64; 6]),
    /// Makes a timer.
    Makes(NewTimer),
}

/// Follows a program and all that it starts.
pub struct ClockTracer {
    time: JailTime,
    idle: IdleWatch,
    timers: JailTimers,
    /// The last time that timers were looked at.
    ticked: Instant,
    tasks: BTreeMap<libc::pid_t, FollowedTask>,
    is_over: Arc<AtomicBool>,
}

impl ClockTracer {
    /// Begins to follow a process, whose questions a thread of this process may answer; this thread is the one that follows.
    pub fn seize(
        clock: ShiftedClock,
        answerer: Option<libc::pid_t>,
        program: libc::pid_t,
        is_over: Arc<AtomicBool>,
    ) -> Result<ClockTracer, Errno> {
        trace::seize(program)?;
        Ok(ClockTracer {
            time: JailTime::start(clock),
            idle: IdleWatch::new(clock.is_answered, answerer),
            timers: JailTimers::default(),
            ticked: Instant::now(),
            tasks: BTreeMap::from([(program, FollowedTask::default())]),
            is_over,
        })
    }

    /// Answers every stop until nothing is left.
    pub fn follow(mut self) {
        // ECHILD when the last one is gone.
        while let Ok((task, status)) = self.next_stop() {
            if status & 0xff != 0x7f {
                self.tasks.remove(&task);
                self.timers.ended(task);
                continue;
            }
            let (signal, event) = ((status >> 8) & 0xff, status >> 16);
            match self.stopped(task, signal, event) {
                // A task that was killed meanwhile is told of by its end.
                Ok(()) | Err(Errno::ESRCH) => {}
                // Nobody goes on with the host's clock, or stays where they are.
                Err(_) => drop(sys::kill(task, libc::SIGKILL)),
            }
        }
    }

    /// The next task that stops or ends. As long as timers are set, they are looked at meanwhile.
    fn next_stop(&mut self) -> Result<(libc::pid_t, i32), Errno> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            if self.timers.is_empty() {
                return trace::wait_for_followed();
            }
            if self.ticked.elapsed() >= TICK {
                self.timers_go_off();
                self.ticked = Instant::now();
            }
            if let Some(stop) = trace::stopped_already()? {
                return Ok(stop);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(TICK);
        }
    }

    fn stopped(&mut self, task: libc::pid_t, signal: i32, event: i32) -> Result<(), Errno> {
        self.tasks.entry(task).or_default();
        match event {
            trace::EVENT_SECCOMP => return self.before_call(task),
            trace::EVENT_EXEC => self.executed(task)?,
            // It has not stopped yet, and runs: no time goes by for it.
            _ if trace::STARTS.contains(&event) => {
                let started = libc::pid_t::try_from(trace::event_number(task)?);
                self.tasks.entry(started.unwrap_or(task)).or_default();
            }
            trace::EVENT_STOP if STOPPING.contains(&signal) => return trace::leave_stopped(task),
            0 if signal == trace::AT_CALL => self.behind_call(task)?,
            0 => {
                self.before_signal(task, signal)?;
                return trace::go_on(task, signal);
            }
            _ => {}
        }
        trace::go_on(task, 0)
    }

    /// Of all threads the one is left that called execve(2), under the number of the first.
    fn executed(&mut self, task: libc::pid_t) -> Result<(), Errno> {
        let before = trace::event_number(task)?;
        self.tasks
            .retain(|other, _| u64::try_from(*other) != Ok(before));
        self.tasks.insert(task, FollowedTask::default());
        self.timers.executed(task);
        memory::hide_clocks(task, trace::registers(task)?.stack())
    }

    fn state(&mut self, task: libc::pid_t) -> &mut TaskState {
        &mut self.tasks.entry(task).or_default().at
    }

    /// A call that waits is broken off for a handler, and the program begins another one then if it likes.
    fn before_signal(&mut self, task: libc::pid_t, signal: i32) -> Result<(), Errno> {
        let state = self.state(task);
        if !matches!(state, TaskState::WillWait(_)) || !task_status::handles(task, signal) {
            return Ok(());
        }
        let TaskState::WillWait(wait) = std::mem::take(state) else {
            return Ok(());
        };
        // Between two slices the kernel knows of no call that it could break off.
        let mut registers = trace::registers(task)?;
        if registers.next() != wait.next {
            registers.interrupt(wait.next);
            wait.tell_left(task, &self.time, true);
            trace::set_registers(task, &registers)?;
        }
        Ok(())
    }

    fn before_call(&mut self, task: libc::pid_t) -> Result<(), Errno> {
        let mut registers = trace::registers(task)?;
        let number = registers.call();
        let Some(call) = calls::of_number(number) else {
            return trace::go_on(task, 0);
        };
        let done = match call.uses {
            TimeUse::Tells { form } => {
                self.tell(task, form, &mut registers)?;
                return trace::go_on(task, 0);
            }
            TimeUse::Waits { .. } => self.wait(task, call, &mut registers),
            TimeUse::Timer(uses) => self.timer(task, uses, &mut registers),
        };
        match done {
            Ok(true) => {
                trace::set_registers(task, &registers)?;
                trace::to_the_end_of_the_call(task)
            }
            // The kernel answers to what it cannot read, or will not take.
            Ok(false) | Err(_) => {
                *self.state(task) = TaskState::Runs;
                trace::go_on(task, 0)
            }
        }
    }

    /// Answers in the kernel's place.
    fn tell(
        &mut self,
        task: libc::pid_t,
        form: TimeForm,
        registers: &mut Registers,
    ) -> Result<(), Errno> {
        *self.state(task) = TaskState::Runs;
        let [first, second, ..] = registers.arguments();
        let realtime = u64::try_from(libc::CLOCK_REALTIME).unwrap_or_default();
        let clock = match form {
            // The kernel reads 32 bits.
            TimeForm::OfClock => first & u64::from(u32::MAX),
            TimeForm::OfDay | TimeForm::Seconds => realtime,
        };
        let Some(now) = self.time.read(clock) else {
            return Ok(());
        };
        let seconds = now / SECOND;
        let told = match form {
            TimeForm::OfClock => {
                let form = SplitTime { parts: SECOND };
                memory::write(task, second, &form.write(now)).map(|()| 0)
            }
            // Without a place there is nothing to be told but the zone, which is the kernel's.
            TimeForm::OfDay if first == 0 => return Ok(()),
            TimeForm::OfDay => {
                let form = SplitTime { parts: 1_000_000 };
                let zone = match second {
                    0 => Ok(()),
                    place => memory::write(task, place, &[0; 8]),
                };
                zone.and_then(|()| memory::write(task, first, &form.write(now)))
                    .map(|()| 0)
            }
            TimeForm::Seconds if first == 0 => Ok(seconds),
            TimeForm::Seconds => {
                memory::write(task, first, &seconds.to_ne_bytes()).map(|()| seconds)
            }
        };
        registers.skip(told.unwrap_or(-i64::from(libc::EFAULT)));
        trace::set_registers(task, registers)
    }

    fn wait(
        &mut self,
        task: libc::pid_t,
        call: TimedCall,
        registers: &mut Registers,
    ) -> Result<bool, Errno> {
        let goes_on = match std::mem::take(self.state(task)) {
            TaskState::WillWait(wait)
                if wait.number == call.number && wait.next == registers.next() =>
            {
                Some(wait)
            }
            _ => None,
        };
        let wait = match goes_on {
            Some(wait) => Some(wait),
            None => SlicedWait::read(task, call, registers, &self.time)?,
        };
        let Some(mut wait) = wait else {
            return Ok(false);
        };
        if self.goes_by_at_once(task, &wait) {
            registers.skip(0);
            trace::set_registers(task, registers)?;
            return Ok(false);
        }
        wait.begin(task, registers, &self.time)?;
        *self.state(task) = TaskState::Waits(wait);
        Ok(true)
    }

    /// A timer that ends in a signal is kept here; the others are the kernel's.
    fn timer(
        &mut self,
        task: libc::pid_t,
        uses: TimerUse,
        registers: &mut Registers,
    ) -> Result<bool, Errno> {
        let arguments = registers.arguments();
        if let Some(answer) = self.timers.answer(task, uses, arguments, &self.time)? {
            registers.skip(answer);
            trace::set_registers(task, registers)?;
            return Ok(false);
        }
        match uses {
            TimerUse::Create => {
                let new = NewTimer::read(task, arguments)?;
                let is_kept = new.is_some();
                if let Some(new) = new {
                    *self.state(task) = TaskState::Makes(new);
                }
                Ok(is_kept)
            }
            TimerUse::SetDescriptor => self.set(task, registers),
            _ => Ok(false),
        }
    }

    /// A descriptor that is to be ready at a moment is ready when the host's clock is there; after a while needs nothing.
    fn set(&mut self, task: libc::pid_t, registers: &mut Registers) -> Result<bool, Errno> {
        let arguments = registers.arguments();
        let until = u64::from(libc::TIMER_ABSTIME.cast_unsigned());
        if arguments[1] & until == 0 {
            return Ok(false);
        }
        // The interval, and the first time.
        let mut times = [0; 32];
        memory::read(task, arguments[2], &mut times)?;
        let form = SplitTime { parts: SECOND };
        let first = <[u8; 16]>::try_from(&times[16..]).unwrap_or_default();
        let Some(moment) = form.read(first).filter(|moment| *moment > 0) else {
            return Ok(false);
        };
        let moment = self.time.on_host(ClockKind::of_moment(moment), moment);
        // Nothing is never; a moment that is past is one.
        times[16..].copy_from_slice(&form.write(moment.max(1)));
        let place = wait::scratch(registers);
        let before = wait::replace(task, place, &times)?;
        *self.state(task) = TaskState::Sets(place, before, arguments);
        let mut changed = arguments;
        changed[2] = place;
        registers.set_arguments(changed);
        Ok(true)
    }

    fn behind_call(&mut self, task: libc::pid_t) -> Result<(), Errno> {
        match std::mem::take(self.state(task)) {
            TaskState::Waits(wait) => self.waited(task, wait),
            TaskState::Sets(place, before, arguments) => {
                let _ = memory::write(task, place, &before);
                let mut registers = trace::registers(task)?;
                registers.set_arguments(arguments);
                trace::set_registers(task, &registers)
            }
            TaskState::Makes(new) if trace::registers(task)?.answer() == 0 => {
                self.timers.made(task, &new)
            }
            TaskState::Makes(_) | TaskState::Runs | TaskState::WillWait(_) => Ok(()),
        }
    }

    /// A slice is over, or what was waited for has come, or a signal.
    fn waited(&mut self, task: libc::pid_t, mut wait: SlicedWait) -> Result<(), Errno> {
        let mut registers = trace::registers(task)?;
        wait.end(task, &mut registers);
        let is_broken_off = RESTARTS.contains(&registers.answer());
        if registers.answer() == RESTART_BLOCK {
            registers.set_answer(NO_HANDLER);
        }
        let ran_out = wait.ran_out(&registers);
        if ran_out && !wait.is_over(&self.time) && !self.goes_by(task, &wait) {
            wait.restore_sets(task);
            registers.again();
            *self.state(task) = TaskState::WillWait(wait);
        } else {
            let was_interrupted = is_broken_off || registers.answer() == -i64::from(libc::EINTR);
            wait.tell_left(task, &self.time, was_interrupted);
            if is_broken_off {
                *self.state(task) = TaskState::WillWait(wait);
            }
        }
        trace::set_registers(task, &registers)
    }

    /// Lets the rest of a wait go by, where it is the next thing to happen and nothing runs meanwhile.
    fn goes_by(&mut self, task: libc::pid_t, wait: &SlicedWait) -> bool {
        let (is_first, others) = self.beside(Some(task), wait.deadline);
        is_first
            && self.is_before_timers(wait.deadline)
            && self.idle.is_quiet(others.into_iter())
            && self.nobody_is_called()
            && self.go_to(wait.deadline)
    }

    /// The same for a sleep that has not begun, where every other task waits for a later time: nothing could wake one of them, or
    /// make use of the time.
    fn goes_by_at_once(&mut self, task: libc::pid_t, wait: &SlicedWait) -> bool {
        if !wait.is_sleep() || !self.idle.is_of_jail() {
            return false;
        }
        let (is_first, others) = self.beside(Some(task), wait.deadline);
        is_first
            && others.is_empty()
            && self.is_before_timers(wait.deadline)
            && !task_status::is_called(task)
            && self.go_to(wait.deadline)
    }

    /// Has timers go off whose time has come; and lets the time until the next one go by, under the same conditions.
    fn timers_go_off(&mut self) {
        self.timers.go_off(self.time.now());
        let Some(next) = self.timers.next(self.time.now()) else {
            return;
        };
        let (is_first, others) = self.beside(None, next);
        let goes = is_first
            && self.idle.is_quiet(others.into_iter())
            && self.nobody_is_called()
            && self.go_to(next);
        if goes {
            self.timers.go_off(self.time.now());
        }
    }

    /// True when no task has a signal before it that has not reached it yet.
    fn nobody_is_called(&self) -> bool {
        !self.tasks.keys().any(|task| task_status::is_called(*task))
    }

    fn is_before_timers(&mut self, deadline: i64) -> bool {
        let next = self.timers.next(self.time.now());
        next.is_none_or(|next| next >= deadline)
    }

    /// True when no other task waits for an earlier time; and the tasks that wait for none.
    fn beside(&self, task: Option<libc::pid_t>, deadline: i64) -> (bool, Vec<libc::pid_t>) {
        let (mut is_first, mut others) = (true, Vec::new());
        for (other, followed) in self.tasks.iter().filter(|(other, _)| Some(**other) != task) {
            match &followed.at {
                TaskState::Waits(other) | TaskState::WillWait(other) => {
                    is_first &= other.deadline >= deadline;
                }
                TaskState::Runs | TaskState::Sets(..) | TaskState::Makes(_) => others.push(*other),
            }
        }
        (is_first, others)
    }

    fn go_to(&mut self, deadline: i64) -> bool {
        let gone = self.time.go_to(deadline);
        match gone {
            Some(gone) => self.timers.go_by(gone),
            None => self.is_over.store(true, Ordering::Relaxed),
        }
        gone.is_some()
    }
}
