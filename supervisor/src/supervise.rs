//! The loop around a running jail: one closed set of inputs, one place where each is answered.
//!
//! Nothing here decides a kill for a rule: that has happened in the kernel. What is decided here
//! are behaviours, which no single act shows, limits that the kernel does not know (the clock, the output), and the end of the rest of a
//! jail that the kernel has condemned.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};
use turnkey_facts::Limit;
use turnkey_jailer::{JailCgroups, JailError, JailNews, Running};
use turnkey_policy::Policy;

use crate::event_sink::EventSink;
use crate::live::{self, FollowerListener, Visitor};
use crate::monitor_handle::MonitorHandle;
use crate::relay::TooMuchOutput;
use crate::signals::{ArrivedSignal, SignalListener};
use crate::terminal::TerminalWindow;

/// The interval at which the limits of the tree are looked at.
const TICK: Duration = Duration::from_millis(50);
/// The longest interval while nothing of the tree runs: hundreds of jails that sleep are to cost little.
pub const LONGEST_TICK: Duration = Duration::from_millis(400);
/// The time for which events are left waiting after others were taken. The kernel wakes the reader for a record
/// only if all before it were taken, and whoever makes the record pays for that: a program that does much would
/// be interrupted for each of its acts.
pub const REST: Duration = Duration::from_millis(5);
/// The same for verdicts, among which a kill may be that the rest of the jail has not noticed yet.
pub const VERDICTS_REST: Duration = Duration::from_millis(1);
/// The longest time that a program that was asked to end may take, before everything is killed.
const GRACE: Duration = Duration::from_secs(2);

/// The causes of a run's end, besides the command's own status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCourse {
    /// The limit that ended it.
    pub limit: Option<Limit>,
    /// Killed because evidence was lost.
    pub killed_for_loss: bool,
    /// Killed because of a behaviour that the policy has it die of.
    pub killed_for_behaviour: bool,
    /// The signal that asked for an end. The program was told.
    asked: Option<i32>,
    /// The same, when the jail was killed for it.
    pub interrupted: Option<i32>,
    /// The error of exec, when the command could not be executed after all.
    pub exec_failed: Option<Errno>,
    /// Events were left behind when last looked at.
    more_events: bool,
}

impl RunCourse {
    fn killed(&self) -> bool {
        self.killed_for_loss || self.killed_for_behaviour
    }

    /// True when nobody and nothing outside put an end to it.
    pub fn ended_by_itself(&self) -> bool {
        self.limit.is_none() && !self.killed() && self.interrupted.is_none()
    }
}

/// A reason for the loop to wake.
enum LoopInput {
    /// The ring has events.
    Events,
    /// The jail's first process said something, or is gone.
    News(Result<JailNews, JailError>),
    /// A relay saw the limit passed.
    Output,
    /// Time to look at the limits.
    Tick,
    /// The wall clock ran out.
    Deadline,
    /// A signal to turnkey.
    Signal(ArrivedSignal),
    /// The program was asked to end and has not.
    Grace,
    /// Connections of those who want to follow.
    Followers(Vec<Visitor>),
}

/// The machinery of waiting. Made before the program is released: where it cannot be had, nothing
/// runs; and a signal that comes early is not lost.
pub struct SupervisionLoop {
    runtime: Runtime,
    signals: SignalListener,
}

impl SupervisionLoop {
    /// Starts to listen to signals; `window` follows the caller's where the program has a terminal.
    pub fn new(window: Option<TerminalWindow>) -> anyhow::Result<SupervisionLoop> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build()?;
        let signals = runtime.block_on(async { SignalListener::listen(window) })?;
        Ok(SupervisionLoop { runtime, signals })
    }
}

/// Watches `running` until nothing of it is left, handing every event to `sink`, which answers whether
/// the jail is to die of what the event completes.
///
/// # Errors
/// When the jail's first process breaks the protocol, or the machinery of waiting fails; the
/// caller drops the jail, which kills it.
pub fn supervise(
    supervisor: SupervisionLoop,
    running: &mut Running,
    monitor: &mut MonitorHandle,
    policy: &Policy,
    output: UnboundedReceiver<TooMuchOutput>,
    sink: &mut EventSink<'_>,
) -> anyhow::Result<RunCourse> {
    let SupervisionLoop { runtime, signals } = supervisor;
    runtime.block_on(async {
        let mut inputs = LoopInputs::new(running, monitor, policy.limits.wall, output, signals)?;
        inputs.followers = sink.listen(monitor.watches());
        let mut course = RunCourse::default();
        loop {
            let mut input = inputs.next(running).await?;
            // Who was stopped hears of the clock first: what has come meanwhile came in time.
            if matches!(input, LoopInput::Deadline)
                && let Some(news) = running.news_within(Duration::ZERO)?
            {
                input = LoopInput::News(Ok(news));
            }
            if let LoopInput::News(news) = input {
                match news? {
                    JailNews::Gone => break,
                    JailNews::ExecFailed(errno) => course.exec_failed = Some(errno),
                    JailNews::OutOfTime => drop(reached(&mut course, Limit::Wall)),
                    JailNews::Ended => {}
                }
                continue;
            }
            if answer(&input, running, monitor, &mut course, sink) {
                sink.tell_of_kill();
                running.kill()?;
            }
            if matches!(input, LoopInput::Tick) {
                sink.observer.tick(running);
                sink.look_at_others();
                inputs.look.was(running.is_still());
            }
            if let LoopInput::Followers(came) = &mut input {
                sink.join(std::mem::take(came), || {
                    running.groups().map(JailCgroups::now)
                });
            }
            sink.flush();
            if matches!(input, LoopInput::Events) {
                inputs.look.soon();
                inputs.taken = Some(Instant::now());
            }
            inputs.patience(course.asked);
            inputs.more_events = course.more_events;
        }
        sink.look_at_others();
        let rest = inputs.followers.as_ref().map(FollowerListener::rest);
        sink.join(rest.unwrap_or_default(), || None);
        Ok(course)
    })
}

/// Takes note of what happened; whether the jail must die of it.
fn answer(
    input: &LoopInput,
    running: &mut Running,
    monitor: &mut MonitorHandle,
    course: &mut RunCourse,
    sink: &mut EventSink<'_>,
) -> bool {
    match input {
        LoopInput::News(_) | LoopInput::Followers(_) => false,
        LoopInput::Events => take_events(monitor, course, sink),
        LoopInput::Output => reached(course, Limit::Output),
        LoopInput::Deadline => reached(course, Limit::Wall),
        LoopInput::Signal(arrived) => hear(*arrived, running, course),
        LoopInput::Grace => give_up(course),
        LoopInput::Tick => {
            let limit = running.exceeded();
            let is_over = limit.is_some_and(|limit| reached(course, limit));
            // That processes come and go wakes nobody.
            take_events(monitor, course, sink) || is_over
        }
    }
}

/// Takes the events that wait; whether the jail must die of them.
fn take_events(
    monitor: &mut MonitorHandle,
    course: &mut RunCourse,
    sink: &mut EventSink<'_>,
) -> bool {
    course.more_events = monitor.drain(|event| course.killed_for_behaviour |= sink.see(&event));
    course.killed_for_behaviour || ended_by_kernel(monitor, course)
}

/// True when the kernel has condemned the jail, so that the rest of it is to go as well.
fn ended_by_kernel(monitor: &MonitorHandle, course: &mut RunCourse) -> bool {
    course.killed_for_loss |= monitor.condemned_for_loss();
    course.killed_for_loss || monitor.condemned()
}

/// The first demand for an end is the program's to follow; a second one is not waited for.
fn hear(arrived: ArrivedSignal, running: &Running, course: &mut RunCourse) -> bool {
    let (ArrivedSignal::End(number) | ArrivedSignal::Message(number)) = arrived;
    match arrived {
        ArrivedSignal::End(_) if course.asked.is_some() => return give_up(course),
        ArrivedSignal::End(_) => course.asked = Some(number),
        ArrivedSignal::Message(_) => {}
    }
    // A jail that is gone needs no signal; the news of its end are on the way.
    let _ = u8::try_from(number).map(|number| running.pass_on(number));
    false
}

fn give_up(course: &mut RunCourse) -> bool {
    course.interrupted = course.asked;
    true
}

/// The first limit to be reached is the one that ended the run.
fn reached(course: &mut RunCourse, limit: Limit) -> bool {
    course.limit.get_or_insert(limit);
    true
}

/// The timer of the looks at the limits.
struct PollTimer {
    at: Instant,
    pace: Duration,
}

impl PollTimer {
    fn first() -> PollTimer {
        PollTimer {
            at: Instant::now(),
            pace: TICK,
        }
    }

    /// One was taken, and found the tree asleep or not.
    fn was(&mut self, still: bool) {
        self.pace = if still {
            LONGEST_TICK.min(2 * self.pace)
        } else {
            TICK
        };
        self.at = Instant::now() + self.pace;
    }

    /// Brings the next look forward, as something of the tree runs.
    fn soon(&mut self) {
        self.pace = TICK;
        self.at = self.at.min(Instant::now() + TICK);
    }
}

struct LoopInputs {
    /// None when nobody watches.
    events: Option<AsyncFd<OwnedFd>>,
    /// The descriptor of the verdicts, which rest less long.
    verdicts: Option<AsyncFd<OwnedFd>>,
    /// The time at which events were taken last.
    taken: Option<Instant>,
    /// There is no need to wait for events. Everything else has its turn before them then, so that
    /// a flood of events keeps nobody from the clock.
    more_events: bool,
    news: AsyncFd<OwnedFd>,
    /// The listener for followers, where there is one.
    followers: Option<FollowerListener>,
    output: UnboundedReceiver<TooMuchOutput>,
    look: PollTimer,
    deadline: Instant,
    signals: SignalListener,
    timed_out: bool,
    /// The time by which the program must have ended, once it was asked to.
    grace: Option<Instant>,
    given_up: bool,
}

/// Waits until a descriptor that somebody else owns is readable, through a copy of its own.
pub fn readable(descriptor: BorrowedFd<'_>) -> io::Result<AsyncFd<OwnedFd>> {
    ready_for(descriptor, Interest::READABLE)
}

/// Waits for a descriptor that somebody else owns, through a copy of its own.
#[expect(
    deprecated,
    reason = "an owned descriptor cannot be closed behind its back; the newer constructor is unsafe"
)]
pub fn ready_for(descriptor: BorrowedFd<'_>, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor.try_clone_to_owned()?, interest)
}

/// Ready when there are events, and their rest is over; never when nobody watches.
pub async fn wait_for(
    events: Option<&AsyncFd<OwnedFd>>,
    rest: Option<Instant>,
) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
    match events {
        Some(events) => {
            if let Some(rest) = rest {
                sleep_until(rest).await;
            }
            events.readable().await
        }
        None => std::future::pending().await,
    }
}

impl LoopInputs {
    fn new(
        running: &Running,
        monitor: &MonitorHandle,
        wall: Duration,
        output: UnboundedReceiver<TooMuchOutput>,
        signals: SignalListener,
    ) -> io::Result<LoopInputs> {
        Ok(LoopInputs {
            events: monitor.descriptor().map(readable).transpose()?,
            verdicts: monitor.verdicts().map(readable).transpose()?,
            taken: None,
            more_events: false,
            news: readable(running.descriptor())?,
            followers: None,
            output,
            look: PollTimer::first(),
            deadline: Instant::now() + wall.saturating_sub(running.elapsed()),
            signals,
            timed_out: false,
            grace: None,
            given_up: false,
        })
    }

    /// From the first demand for an end on, the program's time is counted.
    fn patience(&mut self, asked: Option<i32>) {
        if asked.is_some() {
            self.grace.get_or_insert_with(|| Instant::now() + GRACE);
        }
    }

    /// The next thing that happens. Verdicts come before the news that may have followed them; what else is left
    /// behind in the end is handed out there.
    async fn next(&mut self, running: &mut Running) -> io::Result<LoopInput> {
        let grace = self.grace.unwrap_or(self.deadline);
        let over = |rest: Duration| self.taken.map(|taken| taken + rest);
        let (verdicts_rest, rest) = (over(VERDICTS_REST), over(REST));
        Ok(tokio::select! {
            biased;
            ready = wait_for(self.verdicts.as_ref(), verdicts_rest), if !self.more_events => { ready?.clear_ready(); LoopInput::Events }
            ready = wait_for(self.events.as_ref(), rest), if !self.more_events => { ready?.clear_ready(); LoopInput::Events }
            ready = self.news.readable() => { ready?.clear_ready(); LoopInput::News(running.news()) }
            Some(TooMuchOutput) = self.output.recv() => LoopInput::Output,
            arrived = self.signals.next() => LoopInput::Signal(arrived),
            () = sleep_until(grace), if self.grace.is_some() && !self.given_up => { self.given_up = true; LoopInput::Grace }
            () = sleep_until(self.deadline), if !self.timed_out => { self.timed_out = true; LoopInput::Deadline }
            () = sleep_until(self.look.at) => LoopInput::Tick,
            came = live::next(self.followers.as_ref()) => LoopInput::Followers(came),
            () = tokio::task::yield_now(), if self.more_events => LoopInput::Events,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_sleeps_is_looked_at_less_often_until_it_acts() {
        let mut look = PollTimer::first();
        let paces = [true; 5].map(|still| {
            look.was(still);
            look.pace.as_millis()
        });
        assert_eq!(paces, [100, 200, 400, 400, 400]);
        let late = look.at;
        look.soon();
        assert!(look.at < late && look.at <= Instant::now() + TICK);
        // Many events do not put it off.
        let next = look.at;
        look.soon();
        assert_eq!(look.at, next);
        look.was(false);
        assert_eq!(look.pace, TICK);
    }
}
