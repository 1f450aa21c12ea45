//! The loop around an attached group. Kills for rules have happened in the kernel; the rest of the group follows here.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::Context;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep_until};

use turnkey_report::AttachmentInterference;

use super::group::ForeignGroup;
use super::guard::Guard;
use super::residents::Residents;
use crate::clock;
use crate::event_sink::EventSink;
use crate::live::{self, FollowerListener, Visitor};
use crate::monitor_handle::MonitorHandle;
use crate::signals::{ArrivedSignal, SignalListener};
use crate::supervise::{LONGEST_TICK, REST, VERDICTS_REST, readable, ready_for, wait_for};

/// The longest time that killed processes may take to be gone.
const DYING: Duration = Duration::from_secs(5);

/// The causes of an attachment's end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachmentCourse {
    /// Killed because evidence was lost.
    pub killed_for_loss: bool,
    /// Killed because of a behaviour that the policy has it die of.
    pub killed_for_behaviour: bool,
    /// Some process was in the group at some time.
    pub had_processes: bool,
    /// The way in which somebody made the monitor blind.
    pub interference: Option<AttachmentInterference>,
}

/// The machinery of waiting, made before the group is taken.
pub struct WatchLoop {
    runtime: Runtime,
    signals: SignalListener,
    events: Option<AsyncFd<OwnedFd>>,
    verdicts: Option<AsyncFd<OwnedFd>>,
    /// `cgroup.events`, which is ready by exception when the group becomes empty, or is removed.
    populated: AsyncFd<OwnedFd>,
    deadline: Option<Instant>,
}

/// Makes what [`watch`] waits with.
pub fn prepare(
    group: &ForeignGroup,
    monitor: &MonitorHandle,
    at_most: Option<Duration>,
) -> anyhow::Result<WatchLoop> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build()?;
    let file = group.open("cgroup.events");
    let file = file.with_context(|| format!("{} was removed meanwhile", group.name().display()))?;
    let made: io::Result<_> = runtime.block_on(async {
        Ok((
            SignalListener::listen(None)?,
            monitor.descriptor().map(readable).transpose()?,
            monitor.verdicts().map(readable).transpose()?,
            ready_for(file.as_fd(), Interest::PRIORITY)?,
        ))
    });
    let (signals, events, verdicts, populated) = made?;
    Ok(WatchLoop {
        runtime,
        signals,
        events,
        verdicts,
        populated,
        deadline: at_most.map(|most| Instant::now() + most),
    })
}

/// A reason for the loop to wake.
enum WatchInput {
    /// The rings have events.
    Events,
    /// The group may have become empty.
    Populated,
    /// The guard has ended.
    Unguarded,
    /// Time to look.
    Tick,
    /// The time to let the group go.
    Deadline,
    /// A signal to turnkey.
    Signal(ArrivedSignal),
    /// Connections of those who want to follow.
    Followers(Vec<Visitor>),
}

/// Watches the group until it has had processes and has none any more, or is let go. `had_processes` says that it had some
/// when it was taken: they may have ended by now.
///
/// # Errors
/// When the machinery of waiting fails.
pub fn watch(
    watched: WatchLoop,
    (group, had_processes): (&ForeignGroup, bool),
    guard: &mut Option<Guard>,
    monitor: &mut MonitorHandle,
    (sink, residents): (&mut EventSink<'_>, &mut Residents),
) -> anyhow::Result<AttachmentCourse> {
    let WatchLoop {
        runtime,
        mut signals,
        events,
        verdicts,
        populated,
        mut deadline,
    } = watched;
    runtime.block_on(async {
        let mut course = AttachmentCourse::default();
        let mut guarded = guarded_by(guard.as_ref())?;
        let mut state = GroupState {
            was_populated: had_processes,
            killed: false,
        };
        let mut taken: Option<Instant> = None;
        let mut looked = Instant::now();
        let mut more = false;
        let followers = sink.listen(true);
        loop {
            let over = |rest: Duration| taken.map(|taken| taken + rest);
            let input = tokio::select! {
                biased;
                // First: under load there is always an event to be taken. And where more of them wait, signals and clocks are looked
                // at nevertheless: the runtime does that only when it is yielded to.
                arrived = signals.next() => WatchInput::Signal(arrived),
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => WatchInput::Deadline,
                ready = wait_for(guarded.as_ref(), None) => { ready?.clear_ready(); WatchInput::Unguarded }
                ready = populated.ready(Interest::PRIORITY) => { ready?.clear_ready(); WatchInput::Populated }
                ready = wait_for(verdicts.as_ref(), over(VERDICTS_REST)), if !more => { ready?.clear_ready(); WatchInput::Events }
                ready = wait_for(events.as_ref(), over(REST)), if !more => { ready?.clear_ready(); WatchInput::Events }
                came = live::next(followers.as_ref()) => WatchInput::Followers(came),
                () = sleep_until(Instant::now() + LONGEST_TICK), if !more => WatchInput::Tick,
                () = tokio::task::yield_now(), if more => WatchInput::Events,
            };
            if matches!(input, WatchInput::Tick) {
                group.claim();
            }
            if looked.elapsed() >= LONGEST_TICK {
                looked = Instant::now();
                sink.look_at_others();
                if course.interference.is_none() {
                    course.interference = interference(monitor, group, sink);
                    // With somebody to stay behind, the group does not outlive its watcher, which has ended here.
                    course.killed_for_loss |= course.interference.is_some() && guard.is_some();
                }
                // What others left is no reason to let this group go: it is tried again.
                let _ = monitor.forget_orphans();
            }
            match input {
                WatchInput::Events | WatchInput::Tick => {
                    taken = Some(Instant::now());
                    more = monitor.drain(|event| {
                        // Whoever acts is there, even one that has come and gone since the last look.
                        state.was_populated = true;
                        residents.see(&event);
                        course.killed_for_behaviour |= sink.see(&event);
                    });
                }
                WatchInput::Deadline => break,
                WatchInput::Signal(ArrivedSignal::End(_)) => break,
                WatchInput::Unguarded => {
                    guard_again(guard, group)?;
                    guarded = guarded_by(guard.as_ref())?;
                }
                WatchInput::Followers(came) => sink.join(came, || Some(group.now())),
                WatchInput::Populated | WatchInput::Signal(ArrivedSignal::Message(_)) => {}
            }
            sink.flush();
            course.killed_for_loss |= monitor.condemned_for_loss();
            let must_die = course.killed_for_behaviour || course.killed_for_loss || monitor.condemned();
            if must_die && !state.killed {
                sink.tell_of_kill();
                group.kill().context("the group could not be killed: cgroup.kill")?;
                state.killed = true;
                deadline = Some(Instant::now() + DYING);
            }
            if !more && (state.is_over(group.is_populated()) || group.is_gone()) {
                break;
            }
        }
        // Those that came at last, and those who may have ended it.
        // In this order: one that is gone from the kernel has told of its kill before.
        sink.look_at_others();
        let rest = followers.as_ref().map(FollowerListener::rest);
        sink.join(rest.unwrap_or_default(), || Some(group.now()));
        if course.interference.is_none() {
            course.interference = interference(monitor, group, sink);
        }
        course.had_processes = state.was_populated || group.is_populated();
        Ok(course)
    })
}

/// Looks whether somebody has made the monitor blind, and says so at once.
fn interference(
    monitor: &mut MonitorHandle,
    group: &ForeignGroup,
    sink: &mut EventSink<'_>,
) -> Option<AttachmentInterference> {
    let what = monitor.interference(|| !group.is_gone())?;
    sink.observer
        .notice(&format!("nothing of the group is certain any more: {what}"));
    Some(AttachmentInterference {
        noticed: clock::now().started_at(),
        what,
    })
}

fn guarded_by(guard: Option<&Guard>) -> io::Result<Option<AsyncFd<OwnedFd>>> {
    guard.map(|guard| readable(guard.as_fd())).transpose()
}

/// Another guard; where none can be had, the group is killed while somebody is here to do it.
fn guard_again(guard: &mut Option<Guard>, group: &ForeignGroup) -> anyhow::Result<()> {
    let replaced = guard.as_mut().map(|guard| guard.replace(group));
    replaced.unwrap_or(Ok(())).or_else(|error| {
        group
            .kill()
            .context("the group could not be killed: cgroup.kill")?;
        Err(error).context("the group was killed, as nobody would have stayed behind for it")
    })
}

/// The state of the group's processes, as far as their end depends on it.
struct GroupState {
    /// True when there were any.
    was_populated: bool,
    /// True when all were killed.
    killed: bool,
}

impl GroupState {
    /// True when it has had processes and has none any more. One that is empty still waits for its first.
    fn is_over(&mut self, populated: bool) -> bool {
        let over = !populated && (self.was_populated || self.killed);
        self.was_populated |= populated;
        over
    }
}
