//! The amount of evidence that can be taken, what a piece of it costs, and what happens when there is more.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::findings::{Findings, FindingsBlock, Section, digits};
use super::rounds::{BenchExtent, Contestant, Phase, play};
use super::stage::{BenchStage, printed};
use super::start::turnkey;
use super::work;

const FORBIDDEN: &str = "/etc/shadow";

/// The status of a run that a rule ended.
const KILLED: &str = "killed_by_policy";

/// The time that the program floods while nobody reads, which is several times what the rings hold; and until it has
/// surely ended then.
const DEAF: Duration = Duration::from_millis(2500);
const END: Duration = Duration::from_millis(1000);

const PAST: &str = "Past that rate, as it would be on any machine: turnkey is stopped by SIGSTOP as soon as the program runs, \
so that nobody takes evidence out while the program floods, and goes on only when the flood is over and an offence, \
opening `/etc/shadow`, has followed it.";

/// Nobody asks for less.
const LEAST_RATE: f64 = 1000.0;

const INTRODUCTION: &str = "Processes of a jail open files that do not exist, another one each time, so that nothing is a \
repetition that the kernel only counts. Evidence is complete when turnkey's report says so: no event was lost.";

/// One flood and what turnkey reported of it.
#[derive(Debug)]
struct Flood {
    /// Opens that the program made.
    made: f64,
    /// For so long.
    seconds: f64,
    /// Opens that turnkey counted.
    seen: f64,
    /// Opens that are in no event.
    lost: f64,
    complete: bool,
    /// As of the report.
    status: String,
    /// Whether the program came past the forbidden file.
    lived: bool,
}

impl Flood {
    fn rate(&self) -> f64 {
        self.made / self.seconds
    }
}

/// The acts that floods are made of.
#[derive(Clone, Copy)]
struct EventKind {
    milliseconds: u32,
    /// Opens a second of all processes; 0 for all that go.
    rate: u32,
    processes: usize,
    forbidden: bool,
}

/// Measures it.
pub fn measure(
    stage: &BenchStage,
    extent: BenchExtent,
    milliseconds: u32,
    findings: &mut Findings,
) -> Result<()> {
    work::prepare(stage, 0)?;
    let costs = costs(stage, extent)?;
    stage.enter(Phase::Loaded)?;
    let cpus = std::thread::available_parallelism()?.get();
    let mut rows = Vec::new();
    for processes in if cpus > 1 { vec![1, cpus] } else { vec![1] } {
        rows.push(sustained(stage, milliseconds, processes)?);
    }
    let head = [
        "processes",
        "opens a second, complete",
        "for each CPU in use",
        "unhindered flood",
    ];
    findings.sections.push(Section {
        title: "Events",
        blocks: vec![
            FindingsBlock::text(INTRODUCTION),
            costs,
            FindingsBlock::text(format!(
                "The highest rate that was kept up for {milliseconds} ms without a loss:"
            )),
            FindingsBlock::table(&head, rows),
            FindingsBlock::text(PAST),
            beyond(stage, cpus)?,
        ],
    });
    Ok(())
}

/// The cost of an event for its program.
fn costs(stage: &BenchStage, extent: BenchExtent) -> Result<FindingsBlock> {
    let kind = EventKind {
        milliseconds: 100,
        rate: 0,
        processes: 1,
        forbidden: false,
    };
    let each = |flags: &'static [&'static str]| {
        move || {
            let text = printed(&mut stage.as_root(&words(stage, kind, flags)))?;
            let (made, seconds) = made(&text)?;
            Ok(seconds / made)
        }
    };
    let (unwatched, watched) = ("unmonitored", "watched");
    let mut contestants = [
        Contestant::new(unwatched, Phase::Unloaded, each(&["--unmonitored"])),
        Contestant::new(watched, Phase::Loaded, each(&[])),
    ];
    let results = play(&mut contestants, extent, |phase| stage.enter(phase))?;
    let median = |name: &str| {
        results
            .summary(name)
            .map_or(f64::NAN, |summary| summary.median * 1e6)
    };
    Ok(FindingsBlock::text(format!(
        "An open that fails takes {} µs in an unmonitored jail and {} µs in a watched one, where it is an event: {} µs for each event.",
        digits(median(unwatched)),
        digits(median(watched)),
        digits(median(watched) - median(unwatched)),
    )))
}

/// Halves the distance between a rate that is complete and one that is not, again and again.
fn sustained(stage: &BenchStage, milliseconds: u32, processes: usize) -> Result<Vec<String>> {
    let kind = EventKind {
        milliseconds,
        rate: 0,
        processes,
        forbidden: false,
    };
    let unhindered = flood(stage, kind)?;
    let (mut good, mut bad) = (LEAST_RATE, unhindered.rate());
    if unhindered.complete {
        good = bad;
    }
    while bad / good > 1.1 {
        let middle = (good * bad).sqrt();
        let tried = flood(
            stage,
            EventKind {
                rate: whole(middle),
                ..kind
            },
        )?;
        // A program that cannot keep up with the rate has another one.
        let reached = tried.rate().min(middle);
        if tried.complete {
            good = reached.max(good * 1.01);
        } else {
            bad = reached.min(bad * 0.99);
        }
    }
    let loss = if unhindered.complete {
        "complete".to_owned()
    } else {
        format!(
            "{} % lost",
            digits(100.0 * unhindered.lost / unhindered.seen)
        )
    };
    let each = good / f64::from(u32::try_from(processes)?);
    Ok(vec![
        processes.to_string(),
        format!("{good:.0}"),
        format!("{each:.0}"),
        format!("{:.0} a second, {loss}", unhindered.rate()),
    ])
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are between a thousand and millions"
)]
fn whole(rate: f64) -> u32 {
    rate as u32
}

/// Whether every loss is counted, and the program still policed.
fn beyond(stage: &BenchStage, processes: usize) -> Result<FindingsBlock> {
    let milliseconds = u32::try_from(DEAF.as_millis())?;
    let kind = EventKind {
        milliseconds,
        rate: 0,
        processes,
        forbidden: true,
    };
    // What every run opens before it begins.
    let idle = EventKind {
        milliseconds: 0,
        ..kind
    };
    let idle = flood(stage, idle)?;
    let full = flood_unread(stage, kind)?;
    let counted = full.seen - idle.seen + idle.made;
    let yes = |holds: bool| if holds { "yes" } else { "**no**" }.to_owned();
    let rows = [
        ("opens of the flood", format!("{:.0}", full.made)),
        (
            "of them counted by turnkey as seen",
            format!("{counted:.0}"),
        ),
        ("of them counted as lost", format!("{:.0}", full.lost)),
        (
            "every one is in an event or counted as lost",
            yes((full.made - counted).abs() < 0.5),
        ),
        ("told as incomplete", yes(!full.complete && full.lost > 0.5)),
        (
            "killed for the offence at its end",
            yes(!full.lived && full.status == KILLED),
        ),
    ];
    let rows = rows.map(|(what, figure)| vec![what.to_owned(), figure]);
    Ok(FindingsBlock::table(&["", ""], rows.into()))
}

fn words(stage: &BenchStage, kind: EventKind, flags: &[&str]) -> Vec<String> {
    let profile = work::profile(stage);
    let numbers = [kind.milliseconds, kind.rate].map(|number| number.to_string());
    let processes = kind.processes.to_string();
    let mut program = vec![work::LOOPS, "flood", &numbers[0], &numbers[1], &processes];
    program.extend(kind.forbidden.then_some(FORBIDDEN));
    turnkey(
        stage,
        &[&["--profile", &*profile], flags].concat(),
        &program,
    )
}

fn flood(stage: &BenchStage, kind: EventKind) -> Result<Flood> {
    let output = command(stage, kind).output()?;
    reported(stage, &String::from_utf8(output.stdout)?)
}

/// One while turnkey is stopped.
fn flood_unread(stage: &BenchStage, kind: EventKind) -> Result<Flood> {
    let mut child = command(stage, kind).spawn()?;
    let pid = child.id().to_string();
    let signal = |name: &str| Command::new("kill").args([name, &pid]).status();
    let mut output = BufReader::new(child.stdout.take().context("its output is ours")?);
    let mut text = String::new();
    output.read_line(&mut text)?;
    signal("-STOP")?;
    std::thread::sleep(DEAF + END);
    signal("-CONT")?;
    output.read_to_string(&mut text)?;
    child.wait()?;
    reported(stage, &text)
}

fn command(stage: &BenchStage, kind: EventKind) -> Command {
    let report = report(stage).to_string_lossy().into_owned();
    let mut command = stage.as_root(&words(stage, kind, &["--report", &report]));
    command.stdout(Stdio::piped());
    command
}

fn report(stage: &BenchStage) -> PathBuf {
    stage.path("flood.json")
}

/// The words of the program and the report of turnkey.
fn reported(stage: &BenchStage, text: &str) -> Result<Flood> {
    let (made, seconds) = made(text)?;
    let report = fs::read(report(stage)).context("turnkey left no report")?;
    let report: Value = serde_json::from_slice(&report)?;
    let events = &report["events"];
    let count = |what: &str| events[what]["open"].as_f64().unwrap_or_default();
    // Those of which only a gap in the numbers tells can only be opens here.
    let unknown = events["lost"]["unknown"].as_f64().unwrap_or_default();
    Ok(Flood {
        made,
        seconds,
        seen: count("seen"),
        lost: count("lost") + unknown,
        complete: events["complete"]
            .as_bool()
            .context("no word on completeness")?,
        status: report["status"].as_str().unwrap_or_default().to_owned(),
        lived: text.contains("lived"),
    })
}

/// Opens and seconds, as the program prints them.
fn made(text: &str) -> Result<(f64, f64)> {
    let line = text.lines().nth(1).unwrap_or_default();
    let numbers: Vec<f64> = line
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    let [made, nanoseconds] = numbers[..] else {
        bail!("the flood says {line:?}");
    };
    Ok((made, nanoseconds * 1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_flood_says_are_opens_and_seconds() {
        let (opens, seconds) = made("begins\n3008 301451905\nlived\n").expect("two numbers");
        assert!((opens - 3008.0).abs() < 1e-9 && (seconds - 0.301_451_905).abs() < 1e-12);
        assert!(made("begins\n").is_err());
    }
}
