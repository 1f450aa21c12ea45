//! The wishes that an attestation must fulfil before something is deployed.

use std::time::Duration;

use time::OffsetDateTime;
use turnkey_report::model::{Status, Verdict};
use turnkey_report::{quote, read_date};

use super::statement::{GateFacts, RunFacts};
use super::{Statement, Subject};
use crate::cmd::gate::result::GateVerdict;

/// Clocks of two machines differ by this much at most.
const SKEW: time::Duration = time::Duration::minutes(5);

/// The verdicts that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WantedVerdict {
    /// Clean alone
    Clean,
    /// Clean or suspicious
    Suspicious,
    /// All of them
    Any,
}

/// The exit codes of the command that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedStatus {
    /// One code, of a command that ended by itself.
    Code(u8),
    /// Every end.
    Any,
}

impl std::str::FromStr for WantedStatus {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "any" => Ok(WantedStatus::Any),
            text => text
                .parse()
                .map(WantedStatus::Code)
                .map_err(|_| "write a number from 0 to 255, or any"),
        }
    }
}

/// The things that must hold.
#[derive(Debug)]
pub struct Acceptance {
    /// Now.
    pub now: OffsetDateTime,
    /// The time since the start of the run, at most.
    pub max_age: Option<Duration>,
    /// The verdict of the run.
    pub verdict: WantedVerdict,
    /// The end of the command.
    pub status: WantedStatus,
    /// Each must be a subject of the statement.
    pub subjects: Vec<Subject>,
    /// True when there must be a gate.
    pub gate: bool,
    /// The commit that the gate must have judged.
    pub commit: Option<String>,
}

impl Acceptance {
    /// The reasons why a statement is not accepted, a sentence each.
    pub fn refusals(&self, statement: &Statement) -> Vec<String> {
        let run = &statement.predicate.run;
        let subjects = self.subjects.iter();
        let missing = subjects.filter(|wanted| !statement.subject.iter().any(|it| it.is(wanted)));
        missing
            .map(|subject| {
                let name = &subject.name;
                format!("it is about something else: {name} as it is now is none of its subjects")
            })
            .chain(self.age("run began", &run.started_at))
            .chain(self.verdict(run))
            .chain(self.status(run))
            .chain(self.gate(statement.predicate.gate.as_ref()))
            .collect()
    }

    fn gate(&self, gate: Option<&GateFacts>) -> Vec<String> {
        let Some(gate) = gate else {
            let wanted = self.gate || self.commit.is_some();
            return Vec::from_iter(wanted.then(|| "it says nothing of a gate".to_owned()));
        };
        let passed = gate.verdict == GateVerdict::Pass || self.verdict == WantedVerdict::Any;
        let verdict = gate.verdict.word();
        let other = self.commit.as_ref().filter(|wanted| **wanted != gate.head);
        let verdict = (!passed).then(|| format!("its gate came to {verdict}, and not to pass"));
        let commit = other.map(|_| format!("its gate judged another commit: {}", gate.head));
        let age = self.age("gate ended", &gate.finished_at);
        verdict.into_iter().chain(commit).chain(age).collect()
    }

    fn age(&self, what: &str, time: &str) -> Option<String> {
        let max_age = self.max_age?;
        let Some(started) = read_date(time) else {
            return Some(format!("{time:?} is no date at which a {what}"));
        };
        let age = self.now - started;
        if age < -SKEW {
            return Some(format!("its {what} in the future, at {time}"));
        }
        let most = turnkey_policy::quantity::format_duration(max_age);
        (age > max_age).then(|| {
            format!("it is too old: its {what} at {time}, and {most} is the most that is accepted")
        })
    }

    fn verdict(&self, run: &RunFacts) -> Option<String> {
        let accepted = match (self.verdict, run.verdict) {
            (WantedVerdict::Any, _) | (_, Verdict::Clean) => true,
            (WantedVerdict::Suspicious, verdict) => verdict == Verdict::Suspicious,
            (WantedVerdict::Clean, _) => false,
        };
        let wanted = match self.verdict {
            WantedVerdict::Suspicious => "clean or suspicious",
            _ => "clean",
        };
        (!accepted).then(|| format!("its verdict is {}, and not {wanted}", word(run.verdict)))
    }

    fn status(&self, run: &RunFacts) -> Option<String> {
        let WantedStatus::Code(wanted) = self.status else {
            return None;
        };
        if (run.status, run.exit_code) == (Status::Exited, Some(wanted)) {
            return None;
        }
        let end = match (run.status, run.exit_code) {
            (Status::Exited, Some(code)) => format!("exit code {code}"),
            (status, _) => format!("status {}", word(status)),
        };
        let command: Vec<String> = run.command.iter().map(|word| quote(word)).collect();
        let command = command.join(" ");
        Some(format!(
            "its command, {command}, ended with {end}, and not with exit code {wanted}"
        ))
    }
}

/// The word that reports have for it.
pub fn word(of: impl serde::Serialize) -> String {
    let value = serde_json::to_value(of).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
