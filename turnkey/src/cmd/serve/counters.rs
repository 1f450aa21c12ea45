//! Counters of a service, from its start on: what its administrator asks for by SIGUSR1.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::time::Duration;

use serde::Serialize;
use turnkey_supervisor::service::{RefusalCode, RunClaim};

/// Counts of the callers that are gone, by what came of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServiceCounters {
    /// Runs that were made, and told to their callers as far as those were there.
    runs: u64,
    /// Refusals, by their numbers.
    refused: BTreeMap<u32, u64>,
    /// Callers that hung up before they had asked for anything, or while they waited.
    gone: u64,
    /// Processes that were killed before they had an answer: one that took too long to prepare, whose output nobody took, or whose caller
    /// hung up or passed a signal on before it had begun.
    given_up: u64,
    /// Milliseconds that all processes of callers took together, from the slot to the end.
    milliseconds: u64,
    /// Milliseconds of the longest.
    longest_milliseconds: u64,
}

/// The use that one user makes of the service at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UserUse {
    /// Runs that are made.
    pub running: u64,
    /// Callers that wait.
    pub waiting: u64,
    /// Claimed memory and swap, bytes.
    pub memory: u64,
    /// Claimed tasks.
    pub pids: u64,
    /// Claimed room for writes that are thrown away, bytes.
    pub disk: u64,
}

impl UserUse {
    /// Adds a run.
    pub fn add(&mut self, claim: RunClaim) {
        self.running += 1;
        self.memory = self.memory.saturating_add(claim.memory);
        self.pids = self.pids.saturating_add(claim.pids);
        self.disk = self.disk.saturating_add(claim.disk);
    }
}

/// The end of a caller's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOfCaller {
    /// The run was made, or waits again.
    WithRun,
    /// The caller was refused, or had gone.
    WithoutRun,
    /// A signal has ended the process.
    Killed,
}

/// The exit status by which the process of a run tells the listener that its caller had gone.
pub const GONE: u8 = 100;

/// The exit status by which the process of a run tells the listener of a refusal; that of a run is 0.
pub fn status_of(code: RefusalCode) -> u8 {
    let place = RefusalCode::ALL.iter().position(|known| *known == code);
    place
        .and_then(|place| u8::try_from(place + 1).ok())
        .unwrap_or(u8::MAX)
}

impl ServiceCounters {
    /// Counts a refusal.
    pub fn refused(&mut self, code: RefusalCode) {
        *self.refused.entry(code as u32).or_default() += 1;
    }

    /// Counts a caller that hung up and had no process.
    pub fn gone(&mut self) {
        self.gone += 1;
    }

    /// Counts the end of a caller's process.
    pub fn ended(&mut self, status: ExitStatus, took: Duration) -> EndOfCaller {
        let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.milliseconds = self.milliseconds.saturating_add(took);
        self.longest_milliseconds = self.longest_milliseconds.max(took);
        let told = status.code();
        let refusal = RefusalCode::ALL
            .into_iter()
            .find(|code| told == Some(status_of(*code).into()));
        match (told, refusal) {
            (Some(0), _) => self.runs += 1,
            (Some(code), _) if code == i32::from(GONE) => self.gone += 1,
            (_, Some(code)) => self.refused(code),
            // One that fails without a word of its own has told of it.
            (Some(_), None) => self.refused(RefusalCode::Failed),
            (None, None) => self.given_up += 1,
        }
        match told {
            Some(0) => EndOfCaller::WithRun,
            Some(_) => EndOfCaller::WithoutRun,
            None => EndOfCaller::Killed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn an_end_is_counted_for_what_it_was() {
        let mut counters = ServiceCounters::default();
        let mut ended = |raw, took| {
            counters.ended(ExitStatus::from_raw(raw), Duration::from_millis(took));
        };
        ended(0, 30);
        ended(0, 10);
        ended(14, 60_000);
        ended(i32::from(GONE) << 8, 2);
        ended(125 << 8, 5);
        for code in RefusalCode::ALL {
            ended(i32::from(status_of(code)) << 8, 1);
        }
        counters.refused(RefusalCode::Busy);
        let refused = [(400, 1), (403, 1), (408, 1), (499, 1), (500, 2), (503, 2)];
        let expected = ServiceCounters {
            runs: 2,
            refused: refused.into(),
            gone: 1,
            given_up: 1,
            milliseconds: 60_053,
            longest_milliseconds: 60_000,
        };
        assert_eq!(counters, expected);
    }
}
