//! The timeline, a lane for each process: a bar for its life, and a mark for what a rule spoke of,
//! for the first try of each address, and for what was refused.

use std::collections::BTreeMap;

use super::markup::{Markup, element_with, say};
use super::overview::duration;
use crate::clock;
use crate::model::{Report, Result};
use crate::terminal;

/// Lanes; more would be no picture any more.
const LANES: usize = 40;
/// Marks in a lane.
const MARKS: usize = 60;

/// A mark on a lane, at one point in time.
struct Mark {
    at: f64,
    class: &'static str,
    words: String,
}

/// The lanes.
pub fn section(report: &Report) -> Markup {
    let Some(scale) = Scale::spanning(report) else {
        return Markup::default();
    };
    let marks = marks(report, &scale);
    let lanes = report.processes.iter().take(LANES).map(|row| {
        let (start, end) = (
            scale.at(&row.start),
            row.end.as_deref().and_then(|end| scale.at(end)),
        );
        let (start, end) = (start.unwrap_or(0.0), end.unwrap_or(100.0));
        let life = format!("left:{start:.2}%;width:{:.2}%", (end - start).max(0.3));
        let bar = Markup::element("i", &[("class", "life"), ("style", &life)], []);
        let dots = marks
            .get(&row.exec_id)
            .into_iter()
            .flatten()
            .take(MARKS)
            .map(dot);
        let track = Markup::element(
            "div",
            &[("class", "track")],
            std::iter::once(bar).chain(dots),
        );
        let name = terminal::command(row);
        let label = Markup::element("code", &[("title", &name)], [Markup::text(&name)]);
        element_with("div", "lane", [label, track])
    });
    let lanes: Vec<Markup> = lanes.collect();
    let more = report.processes.len().saturating_sub(LANES);
    let more = (more > 0).then(|| say("p", "dim", &format!("and {more} more processes")));
    let lanes = Markup::all(std::iter::once(scale.axis()).chain(lanes).chain(more));
    super::section(
        "timeline",
        "Timeline",
        legend(),
        element_with("div", "card lanes", [lanes]),
    )
}

fn dot(mark: &Mark) -> Markup {
    let place = format!("left:{:.2}%", mark.at);
    let class = format!("dot {}", mark.class);
    Markup::element(
        "b",
        &[("class", &class), ("style", &place), ("title", &mark.words)],
        [],
    )
}

fn legend() -> Markup {
    let entries = [
        ("critical", "a rule spoke"),
        ("refused", "refused"),
        ("network", "network"),
    ];
    let entries = entries.map(|(class, words)| {
        let dot = Markup::element("b", &[("class", &format!("dot {class}"))], []);
        element_with("span", "", [dot, Markup::text(words)])
    });
    element_with("span", "legend dim", entries)
}

/// From dates to parts of a hundred.
struct Scale {
    start: f64,
    length: f64,
}

impl Scale {
    /// From the first process to the last that is known.
    fn spanning(report: &Report) -> Option<Self> {
        let dates = report
            .processes
            .iter()
            .flat_map(|row| [Some(&row.start), row.end.as_ref()]);
        let times: Vec<f64> = dates.flatten().filter_map(|date| seconds(date)).collect();
        let start = times.iter().copied().reduce(f64::min)?;
        let end = times.iter().copied().reduce(f64::max)?;
        let length = (end - start).max(0.001);
        Some(Self { start, length })
    }

    fn at(&self, date: &str) -> Option<f64> {
        let since = (seconds(date)? - self.start) / self.length * 100.0;
        Some(since.clamp(0.0, 100.0))
    }

    fn axis(&self) -> Markup {
        let ticks = [0.0, 25.0, 50.0, 75.0, 100.0].map(|at| {
            let place = format!("left:{at}%");
            let words = duration(self.length * at / 100.0);
            Markup::element("span", &[("style", &place)], [Markup::text(&words)])
        });
        let track = Markup::element("div", &[("class", "track axis")], ticks);
        element_with("div", "lane", [say("span", "", ""), track])
    }
}

fn seconds(date: &str) -> Option<f64> {
    let date = clock::read(date)?;
    let whole = i32::try_from(date.unix_timestamp() % 1_000_000_000).ok()?;
    Some(f64::from(whole) + f64::from(date.microsecond()) / 1e6)
}

/// By the image that did it; in the order of drawing, the gravest last.
fn marks(report: &Report, scale: &Scale) -> BTreeMap<u32, Vec<Mark>> {
    let mut marks: BTreeMap<u32, Vec<Mark>> = BTreeMap::new();
    let mut add = |process: Option<u32>, date: &str, class, words: String| {
        if let (Some(process), Some(at)) = (process, scale.at(date)) {
            marks
                .entry(process)
                .or_default()
                .push(Mark { at, class, words });
        }
    };
    for violation in &report.violations {
        let words = format!("{} ({})", terminal::headline(violation), violation.rule);
        add(
            violation.process.exec_id,
            &violation.time,
            "critical",
            words,
        );
    }
    for row in &report.network_attempts {
        let words = format!("{} {}", row.act.name(), row.address);
        add(row.first_exec_id, &row.first_time, "network", words);
    }
    let refused = report
        .file_operations
        .iter()
        .filter(|row| row.result == Result::Denied);
    for row in refused {
        let words = format!("refused: {}", row.path.as_deref().unwrap_or("?"));
        add(row.first_exec_id, &row.first_time, "refused", words);
    }
    for lane in marks.values_mut() {
        // What is drawn last lies on top.
        lane.truncate(MARKS);
        lane.reverse();
    }
    marks
}
