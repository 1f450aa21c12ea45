//! `turnkey top`: the runs and attachments that live now on this host.

mod screen;
mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use turnkey_report::live::{LiveState, SCHEMA};
use turnkey_supervisor::live::Followed;

use crate::cli::TopArguments;
use crate::failure::Failure;
use crate::output;

/// The longest time that runs may take to answer.
const PATIENCE: Duration = Duration::from_millis(300);
/// The time between the two looks that a share of the CPU takes.
const BETWEEN: Duration = Duration::from_millis(200);

/// Shows the runs.
pub fn top(arguments: &TopArguments) -> Result<u8, Failure> {
    let mut looks = Looks::default();
    if !arguments.once && !arguments.json {
        screen::show(&mut looks)?;
        return Ok(0);
    }
    if !looks.look()?.runs.is_empty() {
        std::thread::sleep(BETWEEN);
    }
    let page = looks.look()?;
    let text = match arguments.json {
        true => {
            let mut text = Vec::new();
            turnkey_report::json::write(&page, &mut text).context("the page is no JSON")?;
            text
        }
        false => table::lines(&page, usize::MAX).join("\n").into_bytes(),
    };
    let end = if arguments.json { &b""[..] } else { b"\n" };
    output::page(&[&text[..], end].concat()).context("could not write the runs")?;
    Ok(0)
}

/// The page that `--json` prints.
#[derive(Debug, Serialize)]
struct TopPage {
    schema: &'static str,
    runs: Vec<TopRun>,
    /// Runs whose turnkey does not answer: it is stopped, or another version's.
    silent: Vec<String>,
}

/// One run.
#[derive(Debug, Serialize)]
struct TopRun {
    /// The user whose run it is: who started it, or for whom root makes it.
    uid: u32,
    /// The process of its turnkey. The kernel tells it: a run could name anybody's, which is then ended in its place.
    pid: u32,
    /// The part of one CPU, since the look before; of the whole life at the first look.
    cpu_percent: Option<f64>,
    #[serde(flatten)]
    state: LiveState,
}

/// Looks at the runs, each of which knows what the one before saw.
#[derive(Default)]
struct Looks {
    /// Age and CPU time of each run then, in seconds.
    before: BTreeMap<String, (f64, f64)>,
}

impl Looks {
    fn look(&mut self) -> anyhow::Result<TopPage> {
        let look = Followed::look(PATIENCE)?;
        let mut page = TopPage {
            schema: "turnkey.top/v1",
            runs: Vec::new(),
            silent: look.silent,
        };
        for first in look.states {
            match state(&first.run, &first.line) {
                Some(state) => page.runs.push(self.run((first.uid, first.pid), state)),
                None => page.silent.push(first.run),
            }
        }
        page.runs
            .sort_by(|one, other| one.state.run.cmp(&other.state.run));
        let known = |run: &TopRun| {
            let used = run.state.cpu_seconds?;
            Some((run.state.run.clone(), (run.state.age_seconds, used)))
        };
        self.before = page.runs.iter().filter_map(known).collect();
        Ok(page)
    }

    fn run(&self, (uid, pid): (u32, u32), state: LiveState) -> TopRun {
        let (age, used) = self.before.get(&state.run).copied().unwrap_or_default();
        let time = (state.age_seconds - age).max(0.001);
        let percent = |now: f64| 100.0 * (now - used).max(0.0) / time;
        // Of root alone this is to be believed: another user's process may say what it likes.
        let served = state.served.filter(|_| uid == 0);
        TopRun {
            uid: served.unwrap_or(uid),
            pid,
            cpu_percent: state.cpu_seconds.map(percent),
            state,
        }
    }
}

/// The state that a run tells, if it is one, and its own: another user's process may say what it likes.
fn state(run: &str, line: &[u8]) -> Option<LiveState> {
    let state: LiveState = serde_json::from_slice(line).ok()?;
    (state.run == run && state.schema == SCHEMA).then_some(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state of a run that has lived `age` and used `cpu` seconds.
    pub fn told(run: &str, age: f64, cpu: f64) -> LiveState {
        serde_json::from_value(serde_json::json!({
            "schema": SCHEMA, "run": run, "kind": "joined", "profile": "python", "mode": "enforce",
            "command": ["python3", "-c", "print(1)"], "started_at": "2026-01-02T03:04:05Z",
            "age_seconds": age, "events": 12, "findings": 1, "verdict": "violated",
            "tasks": 2, "memory_bytes": 3 << 20, "cpu_seconds": cpu,
        }))
        .unwrap()
    }

    #[test]
    fn the_share_of_a_cpu_is_that_since_the_look_before() {
        let mut looks = Looks::default();
        assert_eq!(
            looks.run((0, 7), told("a", 10.0, 5.0)).cpu_percent,
            Some(50.0)
        );
        looks.before.insert("a".to_owned(), (10.0, 5.0));
        assert_eq!(
            looks.run((0, 7), told("a", 12.0, 7.0)).cpu_percent,
            Some(100.0)
        );
        // One that went back, as where a group was made anew, has used nothing.
        assert_eq!(
            looks.run((0, 7), told("a", 12.0, 1.0)).cpu_percent,
            Some(0.0)
        );
    }

    #[test]
    fn a_run_is_of_whom_root_makes_it_for() {
        let looks = Looks::default();
        let served = || LiveState {
            served: Some(4242),
            ..told("a", 1.0, 1.0)
        };
        assert_eq!(looks.run((0, 7), served()).uid, 4242);
        assert_eq!(looks.run((0, 7), told("a", 1.0, 1.0)).uid, 0, "root's own");
        assert_eq!(
            looks.run((1000, 7), served()).uid,
            1000,
            "nobody else may say so"
        );
    }

    #[test]
    fn a_state_of_another_run_or_schema_is_none() {
        let line = |state: &LiveState| serde_json::to_vec(state).unwrap();
        let own = told("a", 1.0, 1.0);
        assert!(state("a", &line(&own)).is_some());
        assert!(state("b", &line(&own)).is_none());
        let other = LiveState {
            schema: "turnkey.live/v2".to_owned(),
            ..own
        };
        assert!(state("a", &line(&other)).is_none());
        assert!(state("a", b"{}").is_none());
    }
}
