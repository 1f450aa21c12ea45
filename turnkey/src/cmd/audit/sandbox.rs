//! One sandbox: the probe runs in it, again without what ended it, until nothing is left to try.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;

use super::finding::{Finding, Line, MARK, Outcome};
use super::outside::Outside;
use super::probe::{Probe, all};
use super::{Measured, ProbeFinding};

/// A place that programs run in.
#[derive(Debug)]
pub enum Sandbox {
    /// The place where audit was called.
    Here,
    /// `turnkey run` under this profile.
    Profile(String),
    /// A command of a shell.
    Command(String),
}

/// The most that is read of a run's output.
const OUTPUT: u64 = 4 << 20;
/// The mark for the path of the probe in a command.
const PLACE: &str = "{probe}";

/// The result of one run of the probe.
#[derive(Default)]
struct Run {
    findings: BTreeMap<String, Finding>,
    /// The probe that began and did not end.
    ended_at: Option<String>,
    over: bool,
    /// The last line that was not the probe's.
    said: String,
}

impl Sandbox {
    /// The words for it.
    fn name(&self) -> String {
        match self {
            Sandbox::Here => "no sandbox".into(),
            Sandbox::Profile(profile) => format!("turnkey run --profile {profile}"),
            Sandbox::Command(command) => command.clone(),
        }
    }

    /// Runs the probe in it until nothing is left to try.
    pub fn measure(&self, probe: &Path) -> anyhow::Result<Measured> {
        let outside = Outside::new()?;
        let mut findings = BTreeMap::new();
        let (mut runs, mut failed) = (0, None);
        let mut over = false;
        while !over && failed.is_none() {
            let skip: Vec<String> = findings.keys().cloned().collect();
            let run = self.run(probe, &outside, &skip)?;
            runs += 1;
            over = run.over;
            match (&run.ended_at, over) {
                (_, true) => {}
                (Some(probe), false) => {
                    findings.insert(probe.clone(), run.ended());
                }
                (None, false) => failed = Some(run.why_not()),
            }
            findings.extend(run.findings);
        }
        Ok(Measured {
            sandbox: self.name(),
            runs,
            failed,
            findings: judge_all(findings, &outside),
        })
    }

    fn run(&self, probe: &Path, outside: &Outside, skip: &[String]) -> anyhow::Result<Run> {
        let mut command = self.command(probe);
        command
            .arg(serde_json::to_string(outside.bait())?)
            .args(skip);
        command.env(&outside.bait().variable, &outside.bait().token);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = outside
            .with_descriptor(|| command.spawn())
            .with_context(|| format!("{} cannot be started", self.name()))?;
        let errors = child.stderr.take();
        let errors = std::thread::spawn(move || errors.map(last_line).unwrap_or_default());
        let mut run = Run::default();
        if let Some(output) = child.stdout.take() {
            run.read(BufReader::new(output.take(OUTPUT)));
        }
        child.wait().context("a sandbox cannot be waited for")?;
        let said = errors.join().unwrap_or_default();
        if !said.is_empty() {
            run.said = said;
        }
        Ok(run)
    }

    /// The command that runs the probe with the arguments that are added to it.
    fn command(&self, probe: &Path) -> Command {
        let own = |first: &[&str]| {
            let mut command = Command::new(probe);
            command.args(first);
            command
        };
        match self {
            Sandbox::Here => own(&["audit-probe"]),
            Sandbox::Profile(profile) => {
                let mut command = own(&["run", "--quiet", "--profile", profile, "--read"]);
                command.arg(probe).arg("--").arg(probe).arg("audit-probe");
                command
            }
            Sandbox::Command(text) => {
                let placed = text.contains(PLACE);
                let script = match placed {
                    true => format!("{} \"$@\"", text.replace(PLACE, "\"$0\"")),
                    false => format!("{text} \"$0\" \"$@\""),
                };
                let mut command = Command::new("/bin/sh");
                command.arg("-c").arg(script).arg(probe).arg("audit-probe");
                command
            }
        }
    }
}

impl Run {
    /// The finding of the probe that it was ended for.
    fn ended(&self) -> Finding {
        let fact = match self.said.as_str() {
            "" => "the run was ended".to_owned(),
            said => format!("the run was ended: {said}"),
        };
        Finding::new(Outcome::Ended, fact)
    }

    /// The reason why no probe began.
    fn why_not(&self) -> String {
        match self.said.as_str() {
            "" => "the probe did not run, and nothing was said about it".to_owned(),
            said => said.to_owned(),
        }
    }

    fn read(&mut self, output: impl BufRead) {
        for line in output.split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            let told = line.trim().strip_prefix(MARK);
            match told.and_then(|text| serde_json::from_str(text).ok()) {
                Some(Line::Begun(name)) => self.ended_at = Some(name),
                Some(Line::Found(name, finding)) => {
                    self.ended_at = None;
                    self.findings.insert(name, finding);
                }
                Some(Line::Over) => self.over = true,
                None if !line.trim().is_empty() => self.said = line.trim().to_owned(),
                None => {}
            }
        }
    }
}

/// The last line that says something.
fn last_line(mut stream: impl Read) -> String {
    let mut text = Vec::new();
    let _ = stream.by_ref().take(OUTPUT).read_to_end(&mut text);
    // Whoever writes more is not held up.
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.next_back().unwrap_or_default().to_owned()
}

/// The findings with what the outside has to say of them.
fn judge_all(
    mut findings: BTreeMap<String, Finding>,
    outside: &Outside,
) -> BTreeMap<&'static str, ProbeFinding> {
    let believed = |probe: &Probe| {
        let found = findings.get(probe.name);
        probe.seen_outside && found.is_some_and(|found| found.outcome == Outcome::Open)
    };
    let expected = all().into_iter().filter(believed);
    let seen = outside.seen(&expected.map(|probe| probe.name).collect());
    let judge = |probe: Probe| {
        let found = findings.remove(probe.name)?;
        let finding = judged(&probe, found, seen.contains(probe.name));
        let Probe {
            criterion,
            name,
            does,
            ..
        } = probe;
        Some((
            name,
            ProbeFinding {
                criterion,
                does,
                finding,
            },
        ))
    };
    all().into_iter().filter_map(judge).collect()
}

/// The effect counts where the outside can see it: neither does the program know whom it has reached, nor does a run
/// that was ended mean that nothing came of it.
fn judged(probe: &Probe, finding: Finding, seen: bool) -> Finding {
    match (probe.seen_outside, seen, finding.outcome) {
        (true, true, Outcome::Open) | (false, ..) => finding,
        (true, true, _) => Finding::open(format!("it was seen outside, though: {}", finding.fact)),
        (true, false, Outcome::Open) => {
            Finding::stopped(format!("nothing was seen outside: {}", finding.fact))
        }
        (true, false, _) => finding,
    }
}
