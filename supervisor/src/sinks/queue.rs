//! The queue before each sink, and the thread behind it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver as Taken, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use turnkey_report::{Alert, Sink, escape};

use super::{AlertFormat, OpenSink, Receiver, SendError};

/// Alerts that wait for one sink.
const QUEUE: usize = 256;
/// Tries for one alert.
const TRIES: u32 = 3;
/// The wait before the second try; four times as long before the third.
const BACKOFF: Duration = Duration::from_millis(100);

/// A sink with what waits for it.
pub struct AlertQueue {
    name: String,
    offered: u64,
    state: Arc<QueueState>,
    lane: Lane,
}

/// The way to the sink.
enum Lane {
    /// The sink, as long as there was nothing to tell.
    Idle(OpenSink),
    /// A thread sends until its channel is closed; the second one is closed when it has ended.
    Sending(Option<SyncSender<Arc<Alert>>>, Taken<()>),
    /// No thread could be started.
    Closed,
}

#[derive(Default)]
struct QueueState {
    sent: AtomicU64,
    /// True when turnkey waits no longer.
    over: AtomicBool,
    error: Mutex<Option<String>>,
}

impl QueueState {
    fn note(&self, error: &str) {
        // What a panicked thread left is still the last error.
        let mut last = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(escape(error.as_bytes()));
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

impl AlertQueue {
    /// Starts nothing yet: most runs have nothing to tell before their end.
    pub fn new(sink: OpenSink) -> AlertQueue {
        AlertQueue {
            name: sink.name.clone(),
            offered: 0,
            state: Arc::default(),
            lane: Lane::Idle(sink),
        }
    }

    fn offer(&mut self, alert: &Arc<Alert>) {
        self.offered += 1;
        self.start();
        let Lane::Sending(Some(queue), _) = &self.lane else {
            return;
        };
        if queue.try_send(Arc::clone(alert)).is_err() {
            self.state
                .note(&format!("more than {QUEUE} alerts waited for it"));
        }
    }

    fn start(&mut self) {
        if !matches!(self.lane, Lane::Idle(_)) {
            return;
        }
        let Lane::Idle(sink) = std::mem::replace(&mut self.lane, Lane::Closed) else {
            return;
        };
        let (queue, taken) = mpsc::sync_channel(QUEUE);
        let (running, ended) = mpsc::channel();
        let state = Arc::clone(&self.state);
        let body = move || {
            send_all(sink, &taken, &state);
            drop(running);
        };
        match thread::Builder::new().name("sink".to_owned()).spawn(body) {
            Ok(_) => self.lane = Lane::Sending(Some(queue), ended),
            Err(error) => self
                .state
                .note(&format!("no thread could be started: {error}")),
        }
    }

    /// Waits until `deadline` for the rest.
    fn finish(self, deadline: Instant) -> Sink {
        if let Lane::Sending(_, ended) = self.lane {
            let left = deadline.saturating_duration_since(Instant::now());
            if ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                self.state.over.store(true, Ordering::SeqCst);
                self.state.note("it took longer than turnkey waits");
            }
        }
        let sent = self.state.sent.load(Ordering::SeqCst);
        let lost = self.offered - sent;
        let error = self.state.error.lock();
        let error = error.unwrap_or_else(PoisonError::into_inner).take();
        Sink {
            to: escape(self.name.as_bytes()),
            sent,
            lost,
            error: error.filter(|_| lost > 0),
        }
    }
}

/// Hands an alert to every sink. Waits for none.
pub fn offer(queues: &mut [AlertQueue], alert: Alert) {
    let alert = Arc::new(alert);
    for queue in queues {
        queue.offer(&alert);
    }
}

/// Waits `most` for all sinks together, and says what reached whom.
pub fn finish(mut queues: Vec<AlertQueue>, most: Duration) -> Vec<Sink> {
    let deadline = Instant::now() + most;
    // All of them know that nothing more comes before the first is waited for.
    for queue in &mut queues {
        if let Lane::Sending(sender, _) = &mut queue.lane {
            *sender = None;
        }
    }
    let finish = |queue: AlertQueue| queue.finish(deadline);
    queues.into_iter().map(finish).collect()
}

fn send_all(mut sink: OpenSink, taken: &Taken<Arc<Alert>>, state: &QueueState) {
    while let Ok(alert) = taken.recv() {
        let line = match sink.format {
            AlertFormat::Native => &alert.native,
            AlertFormat::Ocsf => &alert.ocsf,
        };
        match send(&mut *sink.receiver, &alert, line, state) {
            Ok(()) => {
                state.sent.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => state.note(&error.to_string()),
        }
        if state.is_over() {
            return;
        }
    }
}

fn send(
    receiver: &mut dyn Receiver,
    alert: &Alert,
    line: &[u8],
    state: &QueueState,
) -> Result<(), SendError> {
    let mut wait = BACKOFF;
    let mut sent = receiver.send(alert, line);
    for _ in 1..TRIES {
        if !matches!(sent, Err(SendError::Again(_))) || state.is_over() {
            return sent;
        }
        thread::sleep(wait);
        wait *= 4;
        sent = receiver.send(alert, line);
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as long as it likes, and fails as often as it is told to.
    struct Slow {
        wait: Duration,
        failures: u32,
    }

    impl Receiver for Slow {
        fn send(&mut self, _: &Alert, _: &[u8]) -> Result<(), SendError> {
            thread::sleep(self.wait);
            if self.failures > 0 {
                self.failures -= 1;
                return Err(SendError::Again("not now".to_owned()));
            }
            Ok(())
        }
    }

    fn queue(wait: u64, failures: u32) -> AlertQueue {
        let wait = Duration::from_millis(wait);
        AlertQueue::new(OpenSink {
            name: "test".to_owned(),
            format: AlertFormat::Native,
            receiver: Box::new(Slow { wait, failures }),
        })
    }

    fn alert() -> Alert {
        Alert {
            kind: turnkey_report::AlertKind::Finding,
            id: "a/1".to_owned(),
            severity: turnkey_policy::Severity::Info,
            message: String::new(),
            fields: Vec::new(),
            native: Vec::new(),
            ocsf: Vec::new(),
        }
    }

    #[test]
    fn two_failures_are_made_up_for_and_a_third_is_a_loss() {
        for (failures, lost) in [(0, 0), (2, 0), (3, 1)] {
            let mut queues = vec![queue(0, failures)];
            offer(&mut queues, alert());
            let told = finish(queues, Duration::from_secs(5)).remove(0);
            assert_eq!((told.sent, told.lost), (1 - lost, lost), "{failures}");
            assert_eq!(told.error.is_some(), lost > 0);
        }
    }

    #[test]
    fn a_slow_sink_holds_nobody_up_and_what_it_lost_is_counted() {
        let started = Instant::now();
        let mut queues = vec![queue(10_000, 0), queue(0, 0)];
        for _ in 0..QUEUE + 20 {
            offer(&mut queues, alert());
        }
        assert!(started.elapsed() < Duration::from_millis(500));
        let told = finish(queues, Duration::from_millis(300));
        assert!(started.elapsed() < Duration::from_secs(1));
        let all = QUEUE as u64 + 20;
        assert_eq!((told[0].sent, told[0].lost), (0, all));
        assert_eq!(told[1].sent + told[1].lost, all);
        assert!(told[1].sent >= QUEUE as u64, "{told:?}");
    }
}
