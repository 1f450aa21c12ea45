//! A run that lives, as it is told to whoever begins to follow it. The lines behind are those of events and alerts.

use serde::{Deserialize, Serialize};
use turnkey_policy::{Policy, Severity};

use super::clock::Clock;
use super::json;
use super::model::Verdict;
use super::redact;
use super::text::escape;

/// The schema of the first line.
pub const SCHEMA: &str = "turnkey.live/v1";
/// The kind of the first line.
pub const JOINED: &str = "joined";
/// The kind of the last line for whom there is no place among the followers.
pub const FULL: &str = "full";
/// The kind of a line that stands for lines which a follower was too slow for.
pub const LOST: &str = "lost";

/// The state of a run, or of an attachment, at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveState {
    /// `turnkey.live/v1`.
    pub schema: String,
    /// The id of the run, as in its report.
    pub run: String,
    /// `joined`.
    pub kind: String,
    /// The name of the profile.
    pub profile: String,
    /// `enforce` or `observe`.
    pub mode: String,
    /// The command; empty for an attachment.
    pub command: Vec<String>,
    /// The control group of an attachment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The user for whom another one, root, makes the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served: Option<u32>,
    /// The start: RFC 3339, in UTC.
    pub started_at: String,
    /// The seconds since.
    pub age_seconds: f64,
    /// The events so far, of which a follower gets no line.
    pub events: u64,
    /// The findings so far, each counted once.
    pub findings: u64,
    /// The verdict, if the run ended now and everything was seen that was to be seen.
    pub verdict: Verdict,
    /// Tasks in the group; `None` where the kernel does not tell.
    pub tasks: Option<u64>,
    /// Memory that the group holds, in bytes; `None` where the kernel does not tell.
    pub memory_bytes: Option<u64>,
    /// CPU time that the group has used, in seconds; `None` where the kernel does not tell.
    pub cpu_seconds: Option<f64>,
}

/// The part of a state that changes while a run lasts.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveNumbers {
    /// See [`LiveState::events`].
    pub events: u64,
    /// See [`LiveState::findings`].
    pub findings: u64,
    /// The weight of the heaviest finding.
    pub worst: Option<Severity>,
    /// See [`LiveState::tasks`].
    pub tasks: Option<u64>,
    /// See [`LiveState::memory_bytes`].
    pub memory_bytes: Option<u64>,
    /// See [`LiveState::cpu_seconds`].
    pub cpu_seconds: Option<f64>,
}

/// The part of a run's state that stays.
#[derive(Clone, Debug)]
pub struct LiveRun {
    /// The id of the run.
    pub id: String,
    /// The name of the profile.
    pub profile: String,
    /// The mode of its rules.
    pub mode: &'static str,
    /// The command; empty for an attachment.
    pub command: Vec<Vec<u8>>,
    /// The group of an attachment, escaped.
    pub group: Option<String>,
    /// See [`LiveState::served`].
    pub served: Option<u32>,
    /// The start.
    pub clock: Clock,
    /// True when the monitor watches from the first instruction on.
    pub whole: bool,
    /// Hides credentials.
    pub redacts: bool,
}

impl LiveRun {
    /// A run that is called `id`.
    pub fn new(policy: &Policy, clock: Clock, id: String, command: Vec<Vec<u8>>) -> LiveRun {
        LiveRun {
            id,
            profile: policy.name.clone(),
            mode: policy.enforcement.mode.name(),
            command,
            group: None,
            served: None,
            clock,
            whole: true,
            redacts: true,
        }
    }

    /// The first line for a follower that comes at `boottime_ns`.
    pub fn joined(&self, numbers: LiveNumbers, boottime_ns: u64) -> Vec<u8> {
        let mut command: Vec<_> = self.command.iter().map(|word| escape(word)).collect();
        if self.redacts {
            redact::arguments(&mut command);
        }
        let age = boottime_ns.saturating_sub(self.clock.boottime_ns());
        line(&LiveState {
            schema: SCHEMA.to_owned(),
            run: self.id.clone(),
            kind: JOINED.to_owned(),
            profile: escape(self.profile.as_bytes()),
            mode: self.mode.to_owned(),
            command,
            group: self.group.clone(),
            served: self.served,
            started_at: self.clock.started_at(),
            age_seconds: std::time::Duration::from_nanos(age).as_secs_f64(),
            events: numbers.events,
            findings: numbers.findings,
            verdict: so_far(numbers.worst, self.whole),
            tasks: numbers.tasks,
            memory_bytes: numbers.memory_bytes,
            cpu_seconds: numbers.cpu_seconds,
        })
    }

    /// The line for one more than the `count` followers that there may be: no other comes behind it.
    pub fn full(&self, count: usize) -> Vec<u8> {
        line(&serde_json::json!({"run": self.id, "kind": FULL, "count": count}))
    }

    /// The line that stands for `count` lines that were lost.
    pub fn lost(&self, count: u64) -> Vec<u8> {
        line(&serde_json::json!({"run": self.id, "kind": LOST, "count": count}))
    }

    /// An event's line, with the run that it is of.
    pub fn event(&self, line: &[u8]) -> Vec<u8> {
        let mut whole = format!("{{\"run\":\"{}\",", self.id).into_bytes();
        // An event has fields: behind its brace there is one.
        whole.extend_from_slice(line.strip_prefix(b"{").unwrap_or(line));
        whole
    }
}

/// The verdict of what was seen so far, by the order of [`verdict`](super::verdict).
fn so_far(worst: Option<Severity>, whole: bool) -> Verdict {
    match worst {
        Some(Severity::High | Severity::Critical) => Verdict::Violated,
        _ if !whole => Verdict::Inconclusive,
        Some(Severity::Low | Severity::Medium) => Verdict::Suspicious,
        Some(Severity::Info) | None => Verdict::Clean,
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::new();
    // Into memory, which does not fail.
    let _ = json::write_line(value, &mut line);
    line
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::events::EventLines;
    use super::super::fixture::{Story, clock, opened, policy};
    use super::*;

    fn run() -> LiveRun {
        let command = vec![b"sh".to_vec(), b"\x1b]0;x\n".to_vec()];
        LiveRun::new(&policy(), clock(), "a-1".to_owned(), command)
    }

    #[test]
    fn a_state_is_one_line_that_steers_nothing() {
        let line = run().joined(
            LiveNumbers::default(),
            clock().boottime_ns() + 2_500_000_000,
        );
        let (end, text) = line.split_last().unwrap();
        assert_eq!(*end, b'\n');
        assert!(text.iter().all(|byte| (b' '..=b'~').contains(byte)));
        let state: LiveState = serde_json::from_slice(&line).unwrap();
        assert_eq!(state.command, ["sh", "\\x1b]0;x\\n"]);
        assert_eq!(state.age_seconds.to_string(), "2.5");
        assert_eq!((state.schema.as_str(), state.run.as_str()), (SCHEMA, "a-1"));
    }

    #[test]
    fn a_credential_in_the_command_is_hidden_unless_asked_for() {
        let command = vec![b"sh".to_vec(), b"--token=hunter2hunter2".to_vec()];
        let hidden = LiveRun { command, ..run() };
        let shown = LiveRun {
            redacts: false,
            ..hidden.clone()
        };
        let told = |run: &LiveRun| {
            let line = run.joined(LiveNumbers::default(), clock().boottime_ns());
            String::from_utf8(line).unwrap()
        };
        assert!(!told(&hidden).contains("hunter2"));
        assert!(told(&shown).contains("hunter2"));
    }

    #[test]
    fn what_was_not_seen_from_its_beginning_is_never_clean() {
        for (worst, whole, verdict) in [
            (None, true, Verdict::Clean),
            (None, false, Verdict::Inconclusive),
            (Some(Severity::Medium), true, Verdict::Suspicious),
            (Some(Severity::Medium), false, Verdict::Inconclusive),
            (Some(Severity::High), false, Verdict::Violated),
        ] {
            assert_eq!(so_far(worst, whole), verdict, "{worst:?} {whole}");
        }
    }

    #[test]
    fn an_events_line_is_the_same_but_for_the_run() {
        let mut story = Story::command(&["sh"]);
        story.push(2, opened("/usr/lib/a"));
        let lines = EventLines::new(&policy(), clock());
        for event in &story.events {
            let plain = lines.line(event, Some(0));
            let mut told: Value = serde_json::from_slice(&run().event(&plain)).unwrap();
            let run = told.as_object_mut().unwrap().remove("run");
            assert_eq!(run, Some(Value::from("a-1")));
            assert_eq!(told, serde_json::from_slice::<Value>(&plain).unwrap());
        }
    }
}
