//! The words about the guests, while they run and at the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use turnkey_guest::{Message, Outcome};

use super::machines;
use super::support::Ran;
use super::watch::{End, Watch};

/// The mark of a test's line with a measured figure, so that it is shown although the test passed.
const FIGURE: &str = "measured: ";

/// The number of the console's lines that are shown when a guest came to a bad end.
const LAST_LINES: usize = 40;

/// One guest, heard to its end.
pub struct Heard {
    /// The machine's.
    pub name: &'static str,
    /// The tests that had to run.
    pub expected: Vec<String>,
    /// The guest's messages.
    pub watch: Watch,
    /// The end of the guest.
    pub end: End,
    /// The file that keeps its console's text.
    pub console: PathBuf,
}

/// Says what a guest has just told.
pub fn tell(name: &str, since: Duration, message: &Message) {
    match message {
        Message::Up { kernel } => {
            eprintln!(
                "guest {name}: Linux {kernel} is up after {:.1} s",
                since.as_secs_f64()
            );
        }
        Message::Finished {
            test,
            outcome,
            millis,
            output,
        } => {
            let seconds = Duration::from_millis(*millis).as_secs_f64();
            eprintln!("guest {name}: {} [{seconds:8.3}s] {test}", word(*outcome));
            for figure in figures(output) {
                eprintln!("guest {name}:      {figure}");
            }
        }
        Message::Started { .. } | Message::Alive | Message::Down => {}
    }
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "PASS",
        Outcome::Failed => "FAIL",
        Outcome::TimedOut => "TIME",
    }
}

fn figures(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter(|line| line.starts_with(FIGURE))
}

/// Prints one line when all went well; otherwise everything about what did not.
pub fn judge(heard: &[Heard], took: Duration) -> Result<()> {
    let mut problems = 0;
    for guest in heard {
        problems += guest.complain();
    }
    let summary = summary(heard, took);
    if problems > 0 {
        bail!("{summary}; {problems} problems, see above");
    }
    eprintln!("{summary}");
    Ok(())
}

/// The results of each machine on which every expected test has passed, its copies taken together.
pub fn by_machine(heard: &[Heard]) -> BTreeMap<String, Ran> {
    let mut machines: BTreeMap<String, Ran> = BTreeMap::new();
    for guest in heard {
        let ran = machines.entry(guest.name.to_owned()).or_default();
        ran.kernel.clone_from(&guest.watch.kernel);
        ran.told.extend(guest.watch.told.iter().cloned());
        for test in &guest.watch.passed {
            ran.add_passed(test);
        }
    }
    for guest in heard.iter().filter(|guest| !guest.is_whole()) {
        machines.remove(guest.name);
    }
    machines
}

fn summary(heard: &[Heard], took: Duration) -> String {
    let mut passed: BTreeMap<&str, usize> = BTreeMap::new();
    for guest in heard {
        *passed.entry(guest.name).or_default() += guest.watch.passed.len();
    }
    let parts: Vec<_> = passed
        .iter()
        .map(|(name, count)| format!("{count} on {name}"))
        .collect();
    let expected: usize = heard.iter().map(|guest| guest.expected.len()).sum();
    let passed: usize = passed.values().sum();
    format!(
        "guest: {passed} of {expected} expected tests passed on pure cgroup v2 in {:.0} s ({})",
        took.as_secs_f64(),
        parts.join(", ")
    )
}

impl Heard {
    fn is_whole(&self) -> bool {
        let missing = machines::missing(&self.expected, &self.watch.passed);
        self.end == End::Done && self.watch.failed.is_empty() && missing.is_empty()
    }

    /// Says everything that is wrong, and how much that is.
    fn complain(&self) -> usize {
        let mut problems = 0;
        for (test, output) in &self.watch.failed {
            problems += 1;
            eprintln!("\nguest {}: {test} failed:\n{output}", self.name);
        }
        if self.end != End::Done {
            problems += 1;
            eprintln!("\nguest {}: {}", self.name, self.bad_end());
            eprintln!("{}", last_lines(&self.console));
        }
        let failed = |test: &&str| self.watch.failed.iter().any(|(name, _)| name == test);
        for test in machines::missing(&self.expected, &self.watch.passed) {
            if !failed(&test) {
                problems += 1;
                eprintln!("guest {}: {test} is expected and did not run", self.name);
            }
        }
        problems
    }

    fn bad_end(&self) -> String {
        let during = self.watch.running.as_deref().unwrap_or("no test");
        let what = match &self.end {
            End::Done => "it ended well".to_owned(),
            End::Panic(line) => format!("the kernel gave up: {line}"),
            End::Stall(silent) => format!("it stalled: no word for {} s", silent.as_secs()),
            End::TooLong(whole) => format!("it took too long: {} s", whole.as_secs()),
            End::Gone => "the machine stopped without a word".to_owned(),
        };
        format!("{what}; during {during}; {}:", self.console.display())
    }
}

fn last_lines(console: &Path) -> String {
    let bytes = fs::read(console).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    let first = lines.len().saturating_sub(LAST_LINES);
    lines.get(first..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(expected: &[&str], passed: &[&str], end: End) -> Heard {
        let mut watch = Watch::default();
        watch.passed = passed.iter().map(|&name| name.to_owned()).collect();
        Heard {
            name: "6.12",
            expected: expected.iter().map(|&name| name.to_owned()).collect(),
            watch,
            end,
            console: PathBuf::from("/no/such/console"),
        }
    }

    #[test]
    fn guest_that_ran_all_it_should_is_good() {
        judge(
            &[guest(&["a", "b"], &["a", "b"], End::Done)],
            Duration::ZERO,
        )
        .expect("all ran");
    }

    #[test]
    fn test_that_did_not_run_fails_the_job() {
        let error = judge(&[guest(&["a", "b"], &["a"], End::Done)], Duration::ZERO);
        let text = error.expect_err("b did not run").to_string();
        assert!(text.contains("1 of 2"), "{text}");
    }

    #[test]
    fn bad_end_fails_the_job_even_when_every_test_passed() {
        for end in [
            End::Panic("Kernel panic".to_owned()),
            End::Stall(Duration::ZERO),
            End::TooLong(Duration::ZERO),
            End::Gone,
        ] {
            assert!(judge(&[guest(&["a"], &["a"], end)], Duration::ZERO).is_err());
        }
    }

    #[test]
    fn figures_are_the_marked_lines() {
        let output = "running 1 test\nmeasured: memory: 63.9 MiB of 64 MiB\nok\n";
        let found: Vec<_> = figures(output).collect();
        assert_eq!(found, ["measured: memory: 63.9 MiB of 64 MiB"]);
    }
}
