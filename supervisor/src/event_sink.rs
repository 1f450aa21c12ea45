//! The sink of a run's events: the caller, the report, the detectors of behaviours, the file of `--events`.

use std::fs::File;
use std::io::BufWriter;

use anyhow::Context;
use turnkey_analysis::behaviour::BehaviourEngine;
use turnkey_facts::Event;
use turnkey_jailer::Running;
use turnkey_policy::{JailLimits, Policy};
use turnkey_report::{Aggregator, Clock, EventWriter, Observations};

/// Follows a run while it lasts. Every method is called in the thread that called [`run`](crate::run()), and holds it up.
pub trait RunObserver {
    /// A line that people should know of: something was made in another way, or is lost.
    fn notice(&mut self, _line: &str) {}
    /// The jail stands, and its program starts next.
    fn started(&mut self, _limits: &JailLimits) {}
    /// An event, in the order of the jail.
    fn event(&mut self, _event: &Event) {}
    /// The limits were looked at, which happens at least every 400 ms.
    fn tick(&mut self, _running: &Running) {}
    /// The jail is gone, with all that was in it, or it was never there.
    fn ended(&mut self) {}
}

/// The takers of one run's events.
pub struct EventSink<'o> {
    /// The caller, who follows the run.
    pub observer: &'o mut dyn RunObserver,
    aggregator: Aggregator,
    engine: BehaviourEngine,
    writer: Option<EventWriter<BufWriter<File>>>,
    failed: Option<std::io::Error>,
    clock: Clock,
}

/// The summary of a run's events.
pub struct EventSummary {
    /// For the report.
    pub observations: Observations,
    /// The behaviours that were recognised.
    pub engine: BehaviourEngine,
    /// The reason why not all of the events could be written.
    pub unwritten: Option<anyhow::Error>,
}

impl<'o> EventSink<'o> {
    /// Takes the events of a run under `policy`; they are written to `events`, with credentials hidden where `redact` says so.
    pub fn new(
        (events, redact): (Option<File>, bool),
        policy: &Policy,
        clock: Clock,
        observer: &'o mut dyn RunObserver,
    ) -> EventSink<'o> {
        let writer = events.map(|file| {
            let writer = EventWriter::new(policy, clock, BufWriter::new(file));
            match redact {
                true => writer,
                false => writer.unredacted(),
            }
        });
        EventSink {
            observer,
            aggregator: Aggregator::new(policy, clock),
            engine: BehaviourEngine::new(policy),
            writer,
            failed: None,
            clock,
        }
    }

    /// The clock of the run, read before it began.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Takes one event; whether the jail is to die of a behaviour that it completes.
    ///
    /// A full disk must not let the program go unwatched: the failure is kept and told at the end.
    pub fn see(&mut self, event: &Event) -> bool {
        self.aggregator.push(event);
        self.observer.event(event);
        if let Some(writer) = &mut self.writer
            && self.failed.is_none()
        {
            self.failed = writer.push(event).err();
        }
        self.engine.see(event)
    }

    /// Closes the file of events and sums them up; `records` is how many the kernel has made, where that is known.
    pub fn finish(self, records: Option<u64>) -> EventSummary {
        let finish = |writer: EventWriter<_>| writer.finish(records);
        let written = self.writer.map(finish).transpose().map(drop);
        let failed = self.failed.map_or(Ok(()), Err);
        let written = failed.and(written).context("could not write the events");
        EventSummary {
            observations: self.aggregator.finish(),
            engine: self.engine,
            unwritten: written.err(),
        }
    }
}
