//! The results of all runs together, whether that is as it must be, and the page that says so.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use super::play::MbppObservation;

/// Inside, the whole set may take this much of its time outside, besides the starts of the jails.
const MOST: f64 = 1.15;

/// One program at both places.
pub struct Pair {
    /// Without a jail.
    pub outside: MbppObservation,
    /// In one.
    pub inside: MbppObservation,
}

/// Everything that is told.
#[derive(Default)]
pub struct MbppTable {
    programs: u32,
    passed_outside: u32,
    passed_inside: u32,
    /// Failed at both places.
    failed: Vec<String>,
    /// Passed at one place alone, with what it said there.
    differ: Vec<String>,
    /// Ended by turnkey.
    killed: Vec<String>,
    /// Not called clean, with the reason.
    unclean: Vec<String>,
    outside: Duration,
    inside: Duration,
    starts: u32,
    start_outside: Duration,
    start_inside: Duration,
}

impl MbppTable {
    /// One more program.
    pub fn add(&mut self, id: &str, pair: &Pair) {
        let passed = [&pair.outside, &pair.inside].map(|seen| seen.exit == Some(0));
        self.programs += 1;
        self.passed_outside += u32::from(passed[0]);
        self.passed_inside += u32::from(passed[1]);
        self.outside += pair.outside.took;
        self.inside += pair.inside.took;
        match passed {
            [true, true] => {}
            [false, false] => self.failed.push(format!("{id}: {}", pair.outside.error)),
            [true, false] => self
                .differ
                .push(format!("{id} fails inside: {}", pair.inside.error)),
            [false, true] => self
                .differ
                .push(format!("{id} fails outside: {}", pair.outside.error)),
        }
        let report = pair.inside.report.as_ref().unwrap_or(&Value::Null);
        let status = text(report, "status");
        if status != "exited" {
            self.killed.push(format!("{id}: {status}"));
        }
        if text(report, "verdict") != "clean" {
            self.unclean.push(format!("{id}: {}", reason(report)));
        }
    }

    /// One more program that does nothing.
    pub fn add_start(&mut self, pair: &Pair) {
        self.starts += 1;
        self.start_outside += pair.outside.took;
        self.start_inside += pair.inside.took;
    }

    /// The addition of a jail to a program that does nothing, on average.
    fn start(&self) -> Duration {
        self.start_inside.saturating_sub(self.start_outside) / self.starts.max(1)
    }

    /// The time that the whole set may take inside.
    fn allowed(&self) -> Duration {
        self.outside.mul_f64(MOST) + self.start() * self.programs
    }

    /// The time inside without the starts, by that outside.
    fn ratio(&self) -> f64 {
        let inside = self.inside.as_secs_f64() - (self.start() * self.programs).as_secs_f64();
        inside / self.outside.as_secs_f64()
    }

    /// The results that are not as they must be.
    pub fn missed(&self) -> Vec<String> {
        let mut missed: Vec<String> = [&self.differ, &self.killed, &self.unclean]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        if self.inside > self.allowed() {
            missed.push(format!(
                "{:.3} times as long inside, and {MOST} is the most",
                self.ratio()
            ));
        }
        missed
    }

    /// docs/mbpp.md.
    pub fn page(&self, machine: &str) -> String {
        let mut page = format!("{HEAD}On {machine}, one program at a time.\n\n");
        let mean = |all: Duration| 1000.0 * all.as_secs_f64() / f64::from(self.starts.max(1));
        let rows = [
            ("programs", self.programs.to_string()),
            ("passed outside", self.passed_outside.to_string()),
            ("passed inside", self.passed_inside.to_string()),
            ("passed at one place alone", self.differ.len().to_string()),
            ("killed", self.killed.len().to_string()),
            ("verdict other than clean", self.unclean.len().to_string()),
            (
                "whole set outside",
                format!("{:.2} s", self.outside.as_secs_f64()),
            ),
            (
                "whole set inside",
                format!("{:.2} s", self.inside.as_secs_f64()),
            ),
            (
                "`pass` outside, on average",
                format!("{:.2} ms", mean(self.start_outside)),
            ),
            (
                "`pass` inside, on average",
                format!("{:.2} ms", mean(self.start_inside)),
            ),
            (
                "so the start of a jail",
                format!("{:.2} ms", 1000.0 * self.start().as_secs_f64()),
            ),
            (
                "inside without the starts, by outside",
                format!("{:.3}", self.ratio()),
            ),
            (
                "the most that is allowed",
                format!(
                    "{MOST} ({:.2} s with the starts)",
                    self.allowed().as_secs_f64()
                ),
            ),
        ];
        page.push_str("| | |\n|---|---|\n");
        for (name, value) in rows {
            let _ = writeln!(page, "| {name} | {value} |");
        }
        let lists = [
            ("Failed at both places", &self.failed),
            ("Passed at one place alone", &self.differ),
            ("Killed", &self.killed),
            ("Verdict other than clean", &self.unclean),
        ];
        for (title, list) in lists {
            if !list.is_empty() {
                let _ = writeln!(page, "\n## {title}\n\n- {}", list.join("\n- "));
            }
        }
        page
    }
}

const HEAD: &str = "# MBPP under the profile `python`

The programs of MBPP (Mostly Basic Python Problems, Google Research, CC BY 4.0) with their assertions, each once under
`turnkey run --profile python` and once outside of any jail, right after one another. `cargo lab mbpp CORPUS` runs them and writes
this page. The monitor's programs are loaded once, as for everybody with many runs, and see both places; the same Python
runs at both, outside as a user without privileges. What a start costs is measured between the programs, by one that does nothing.

";

fn text<'a>(report: &'a Value, key: &str) -> &'a str {
    report[key].as_str().unwrap_or("no report")
}

/// The reason why a run is not called clean.
fn reason(report: &Value) -> String {
    let of = |list: &str, key: &str| -> Vec<String> {
        let entries = report[list].as_array().into_iter().flatten();
        entries.map(|entry| entry[key].to_string()).collect()
    };
    let rules = of("violations", "rule").join(", ");
    let findings = of("findings", "summary").join(", ");
    let lost = &report["events"]["lost"];
    format!(
        "{}; rules {rules}; findings {findings}; lost {lost}",
        text(report, "verdict")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(exit: i32, milliseconds: u64) -> MbppObservation {
        MbppObservation {
            exit: Some(exit),
            took: Duration::from_millis(milliseconds),
            report: Some(json!({ "status": "exited", "verdict": "clean" })),
            error: "AssertionError".to_owned(),
        }
    }

    fn pair(outside: MbppObservation, inside: MbppObservation) -> Pair {
        Pair { outside, inside }
    }

    #[test]
    fn program_that_passes_as_outside_and_soon_enough_misses_nothing() {
        let mut table = MbppTable::default();
        table.add_start(&pair(seen(0, 10), seen(0, 60)));
        table.add("a", &pair(seen(0, 100), seen(0, 164)));
        table.add("b", &pair(seen(1, 100), seen(1, 164)));
        assert_eq!(table.missed(), Vec::<String>::new());
        assert!((table.ratio() - 1.14).abs() < 0.001);
        let page = table.page("a machine");
        assert!(page.contains("| passed inside | 1 |"), "{page}");
        assert!(page.contains("- b: AssertionError"), "{page}");
    }

    #[test]
    fn whatever_differs_is_missed() {
        let mut table = MbppTable::default();
        table.add_start(&pair(seen(0, 10), seen(0, 60)));
        table.add("slow", &pair(seen(0, 100), seen(0, 166)));
        assert_eq!(
            table.missed(),
            ["1.160 times as long inside, and 1.15 is the most"]
        );
        let mut killed = seen(1, 100);
        killed.report = Some(json!({ "status": "killed_by_policy", "verdict": "violated",
            "violations": [{ "rule": "mount" }], "events": { "lost": {} } }));
        let mut table = MbppTable::default();
        table.add("killed", &pair(seen(0, 100), killed));
        let missed = table.missed().join("\n");
        for part in [
            "killed fails inside",
            "killed: killed_by_policy",
            "rules \"mount\"",
        ] {
            assert!(missed.contains(part), "{missed}");
        }
    }
}
