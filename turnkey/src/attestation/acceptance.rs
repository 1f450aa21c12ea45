//! What is wanted of an attestation before something is deployed.

use std::time::Duration;

use time::OffsetDateTime;
use turnkey_report::model::{Status, Verdict};
use turnkey_report::{quote, read_date};

use super::statement::RunFacts;
use super::{Statement, Subject};

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
    /// This one, of a command that ended by itself.
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
            .chain(self.age(run))
            .chain(self.verdict(run))
            .chain(self.status(run))
            .collect()
    }

    fn age(&self, run: &RunFacts) -> Option<String> {
        let max_age = self.max_age?;
        let Some(started) = read_date(&run.started_at) else {
            return Some(format!("{:?} is no date of a run", run.started_at));
        };
        let age = self.now - started;
        if age < -SKEW {
            return Some(format!(
                "its run is said to begin in the future, at {}",
                run.started_at
            ));
        }
        let most = turnkey_policy::quantity::format_duration(max_age);
        (age > max_age).then(|| {
            let since = run.started_at.as_str();
            format!(
                "it is too old: its run began at {since}, and {most} is the most that is accepted"
            )
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
