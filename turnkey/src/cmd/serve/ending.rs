//! Processes that have made a run, and end: waited for by nobody, as a file system that one has a file of may hold it even then.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::run_maker::RunMaker;

/// The shortest and the longest time between two looks; in between, as much as the end has taken already.
const RESTS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(500));

/// The processes.
#[derive(Default)]
pub struct EndingMakers(Vec<(RunMaker, Instant)>);

impl EndingMakers {
    /// Adds some.
    pub fn add(&mut self, makers: &mut Vec<RunMaker>) {
        let now = Instant::now();
        self.0.extend(makers.drain(..).map(|maker| (maker, now)));
    }

    /// The ones that have ended by now, each with its end.
    pub fn ended(&mut self) -> Vec<(RunMaker, ExitStatus)> {
        let mut ends = Vec::new();
        let is_over = |(maker, _): &mut (RunMaker, Instant)| {
            let end = maker.ended();
            ends.extend(end);
            end.is_some()
        };
        let over: Vec<_> = self.0.extract_if(.., is_over).collect();
        over.into_iter().map(|(maker, _)| maker).zip(ends).collect()
    }

    /// The time until the next look; nothing when there is none.
    pub fn rest(&self) -> Option<Duration> {
        let rests = self.0.iter().map(|(_, since)| since.elapsed());
        rests.min().map(|rest| rest.clamp(RESTS.0, RESTS.1))
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The makers that are ending.
    pub fn take(&mut self) -> Vec<RunMaker> {
        self.0.drain(..).map(|(maker, _)| maker).collect()
    }
}
