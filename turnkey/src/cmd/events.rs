//! `turnkey events`: the events and findings of the runs that live, as they happen.

mod filter;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use turnkey_report::live::{FULL, JOINED};
use turnkey_supervisor::live::Followed;

use crate::cli::EventsArguments;
use crate::failure::Failure;
use crate::output;
use filter::Filters;

/// The time between two looks for runs that have begun.
const LOOK: Duration = Duration::from_millis(100);

/// Prints until the runs are over, or for ever.
pub fn events(arguments: &EventsArguments) -> Result<u8, Failure> {
    let mut printer = Printer {
        filters: Filters::new(&arguments.filters),
        profiles: BTreeMap::new(),
        judged: BTreeSet::new(),
        reader_is_gone: false,
    };
    let mut followed = Followed::default();
    let mut is_any = false;
    followed.find()?;
    while arguments.follow || !followed.runs.is_empty() {
        followed.wait(LOOK);
        let over = followed.take(|run, line| {
            is_any = true;
            printer.take(&run.run, line)
        })?;
        printer.over(&over);
        if printer.reader_is_gone {
            break;
        }
        if arguments.follow {
            followed.find()?;
        }
    }
    if !is_any && !arguments.follow {
        output::line("no run that you may follow lives now; --follow waits for those that begin");
    }
    Ok(0)
}

/// The line on runs whose end was not told.
fn gone_untold(runs: &[&str]) -> Option<String> {
    match runs {
        [] => None,
        [run] => Some(format!(
            "run {run} was gone before it told its verdict: its last lines are lost"
        )),
        [run, others @ ..] => Some(format!(
            "run {run} and {} more were gone before they told their verdicts: their last lines are lost",
            others.len()
        )),
    }
}

struct Printer {
    filters: Filters,
    /// The profile of each run, which its first line tells.
    profiles: BTreeMap<String, String>,
    /// The runs whose verdict was told, or that told why there is none for us.
    judged: BTreeSet<String>,
    reader_is_gone: bool,
}

impl Printer {
    /// Forgets runs, and says so where an end was not told: that run was killed, or did not wait for this process. Of many at once the
    /// first is named: a process can make names by the hundred, and be gone.
    fn over(&mut self, runs: &[String]) {
        let mut gone = Vec::new();
        for run in runs {
            self.profiles.remove(run);
            if !self.judged.remove(run) {
                gone.push(run.as_str());
            }
        }
        if let Some(told) = gone_untold(&gone) {
            output::line(&told);
        }
    }

    /// Prints a line, where it is asked for. What another user's process sends need not be JSON, nor of its run, and could steer
    /// a terminal.
    fn take(&mut self, run: &str, text: &[u8]) -> anyhow::Result<()> {
        let told = std::str::from_utf8(text).ok();
        let told = told.filter(|told| turnkey_report::visible(told) == *told);
        let line: Option<Value> = told.and_then(|told| serde_json::from_str(told).ok());
        let Some(line) = line.filter(|line| line["run"] == run) else {
            output::line(&format!(
                "run {run} has sent a line that is none of its own"
            ));
            return Ok(());
        };
        if line["kind"] == JOINED {
            let profile = line["profile"].as_str().unwrap_or_default().to_owned();
            self.profiles.insert(run.to_owned(), profile);
        }
        if line["alert"] == "verdict" {
            self.judged.insert(run.to_owned());
        }
        if line["kind"] == FULL {
            self.judged.insert(run.to_owned());
            output::line(&format!(
                "run {run} has {} followers, and no place for another: end one of them",
                line["count"]
            ));
            return Ok(());
        }
        let profile = self.profiles.get(run).map_or("", String::as_str);
        if !self.filters.pass(&line, run, profile) || self.reader_is_gone {
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        let whole = [text, b"\n"].concat();
        match out.write_all(&whole).and_then(|()| out.flush()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                self.reader_is_gone = true;
                Ok(())
            }
            written => written.context("could not write the events"),
        }
    }
}
