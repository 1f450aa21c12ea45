//! The sights of one run: from the outside, and in turnkey's report.

use std::time::Duration;

use serde_json::Value;

/// One run.
#[derive(Debug, Default)]
pub struct DemoObservation {
    /// The exit code, unless a signal ended it.
    pub exit: Option<i32>,
    /// The bytes on standard output.
    pub stdout: Vec<u8>,
    /// The bytes on standard error, turnkey's own words included.
    pub stderr: Vec<u8>,
    /// The report, for a run in the jail.
    pub report: Option<Value>,
    /// From start to end.
    pub elapsed: Duration,
    /// Something arrived at a service of the stage.
    pub listener_reached: bool,
    /// A process of the program still lived after the run.
    pub survivors: bool,
    /// The caller's directory is not what it was.
    pub workdir_changed: bool,
    /// The event that must never happen and did, in words.
    pub failure: Option<String>,
}

impl DemoObservation {
    /// The string under `key` of the report.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.report.as_ref()?.get(key)?.as_str()
    }

    /// The signal that ended the command.
    pub fn signal(&self) -> Option<i64> {
        self.report.as_ref()?.get("signal")?.as_i64()
    }

    /// The number of entries of the list under `key`.
    pub fn count(&self, key: &str) -> Option<usize> {
        Some(self.report.as_ref()?.get(key)?.as_array()?.len())
    }

    /// The strings under `key` of all entries of `list`.
    pub fn values(&self, list: &str, key: &str) -> Vec<&str> {
        let strings = self.entries(list).iter();
        strings
            .filter_map(|entry| entry.get(key)?.as_str())
            .collect()
    }

    /// The strings under two keys of all entries of `list`.
    pub fn pairs(&self, list: &str, first: &str, second: &str) -> Vec<(&str, &str)> {
        let pairs = self.entries(list).iter();
        pairs
            .filter_map(|entry| Some((entry.get(first)?.as_str()?, entry.get(second)?.as_str()?)))
            .collect()
    }

    /// Exit code, status, verdict and broken rules, for the table.
    pub fn summary(&self) -> String {
        let mut words = vec![
            self.exit
                .map_or_else(|| "-".to_owned(), |it| it.to_string()),
        ];
        words.extend(self.text("status").map(str::to_owned));
        words.extend(self.text("verdict").map(str::to_owned));
        let mut rules = self.values("violations", "rule");
        rules.dedup();
        words.extend(rules.into_iter().map(str::to_owned));
        words.join(" ")
    }

    fn entries(&self, list: &str) -> &[Value] {
        let report = self.report.as_ref();
        let entries = report.and_then(|report| report.get(list)?.as_array());
        entries.map_or(&[], Vec::as_slice)
    }
}
