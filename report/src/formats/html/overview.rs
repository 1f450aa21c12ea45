//! The top of the page, what was used, what was enforced, and how much was seen.

use std::time::Duration;

use super::super::{command_line, status_word, verdict_word};
use super::markup::{Markup, element_with, say};
use super::section;
use crate::model::{Layer, Report, ServedFor, Verdict};
use crate::terminal;
use crate::units::{seconds, size};

/// The verdict, in a word and in a sentence.
pub fn banner(report: &Report) -> Markup {
    let word = match report.error {
        Some(_) => "nothing ran",
        None => verdict_word(report.verdict),
    };
    let score = Markup::element(
        "div",
        &[
            ("class", "score"),
            ("title", "the sum of the findings, at most 100"),
        ],
        [
            say("strong", "", &report.risk_score.to_string()),
            say("span", "", "risk of 100"),
            gauge(f64::from(report.risk_score), 100.0),
        ],
    );
    let words = element_with(
        "div",
        "words",
        [
            say("p", "brand", "turnkey report"),
            say("h1", "", word),
            say("p", "lead", &sentence(report)),
        ],
    );
    element_with(
        "header",
        "banner",
        [
            words,
            score,
            element_with("pre", "command", [say("code", "", &command_line(report))]),
            facts(report),
        ],
    )
}

fn sentence(report: &Report) -> String {
    if let Some(error) = &report.error {
        return error.clone();
    }
    let means = match report.verdict {
        Verdict::Clean => "Everything was seen, and nothing spoke against the program",
        Verdict::Suspicious => "Something unusual happened, nothing that is an attack by itself",
        Verdict::Violated => "The program tried what the profile calls an attack",
        Verdict::Inconclusive => "Nothing spoke against the program, but not everything was seen",
    };
    format!("{means}. It {}.", terminal::ending(report))
}

fn facts(report: &Report) -> Markup {
    let code = match (report.exit_code, report.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no status of its own".to_owned(),
    };
    let host = format!("Linux {}, {}", report.host.kernel, report.host.arch);
    let served = report.served.as_ref().map(ServedFor::in_words);
    let facts = [
        ("Started", report.started_at.as_str()),
        ("Status", status_word(report.status)),
        ("Command", &code),
        ("Profile", &report.profile.name),
        ("Host", &host),
    ];
    let served = served.as_deref().map(|words| ("Made by", words));
    let pairs = facts
        .into_iter()
        .chain(served)
        .map(|(name, value)| element_with("div", "", [say("dt", "", name), say("dd", "", value)]));
    Markup::element("dl", &[("class", "facts")], pairs)
}

/// A bar that is filled as far as `used` is of `limit`.
fn gauge(used: f64, limit: f64) -> Markup {
    let share = if limit > 0.0 { used / limit } else { 0.0 };
    let share = if share.is_finite() {
        share.clamp(0.0, 1.0)
    } else {
        0.0
    };
    let class = match share {
        share if share >= 0.95 => "gauge full",
        share if share >= 0.7 => "gauge high",
        _ => "gauge",
    };
    let width = format!("width:{:.1}%", share * 100.0);
    let fill = Markup::element("i", &[("style", &width)], []);
    element_with("span", class, [fill])
}

/// One thing that can be used up.
struct Used {
    name: &'static str,
    used: f64,
    shown: String,
    limit: Option<(f64, String)>,
}

/// The resources used, and the limits on them.
pub fn usage(report: &Report) -> Markup {
    let cards = used(report).into_iter().map(|used| {
        let of_limit = used.limit.as_ref().map(|(_, limit)| format!("of {limit}"));
        let bar = used.limit.map(|(limit, _)| gauge(used.used, limit));
        element_with(
            "div",
            "card meter",
            [
                say("h3", "", used.name),
                say("strong", "", &used.shown),
                say("span", "dim", &of_limit.unwrap_or_default()),
                bar.unwrap_or_default(),
            ],
        )
    });
    let cards: Vec<Markup> = cards.collect();
    if cards.is_empty() {
        return Markup::default();
    }
    let grid = Markup::element("div", &[("class", "grid")], cards);
    section("usage", "Usage against limits", Markup::default(), grid)
}

fn used(report: &Report) -> Vec<Used> {
    let Some(usage) = &report.usage else {
        return Vec::new();
    };
    let limits = report.limits.as_ref();
    let time = |name, used: f64, limit: Option<f64>| Used {
        name,
        used,
        shown: duration(used),
        limit: limit.map(|limit| (limit, duration(limit))),
    };
    let bytes = |name, used: u64, limit: Option<u64>| Used {
        name,
        used: float(used),
        shown: size(used),
        limit: limit.map(|limit| (float(limit), size(limit))),
    };
    let count = |name, used: u64, limit: Option<u64>| Used {
        name,
        used: float(used),
        shown: used.to_string(),
        limit: limit.map(|limit| (float(limit), limit.to_string())),
    };
    let cpu = usage.user_seconds.zip(usage.system_seconds);
    let output = [&report.stdout, &report.stderr].map(|it| it.as_ref().map(|it| it.bytes));
    let output = output[0]
        .zip(output[1])
        .map(|(out, error)| out.saturating_add(error));
    let all = [
        Some(time(
            "Wall clock",
            usage.wall_seconds,
            limits.map(|it| it.wall_seconds),
        )),
        cpu.map(|(user, system)| time("CPU", user + system, limits.map(|it| it.cpu_seconds))),
        usage
            .memory_peak_bytes
            .map(|it| bytes("Memory, peak", it, limits.map(|it| it.memory_bytes))),
        usage
            .pids_peak
            .map(|it| count("Tasks, peak", it, limits.map(|it| it.pids))),
        output.map(|it| bytes("Output", it, limits.map(|it| it.output_bytes))),
        usage
            .io_written_bytes
            .map(|it| bytes("Written to disks", it, None)),
    ];
    all.into_iter().flatten().collect()
}

/// For bars, where the last digits are nothing to see.
#[expect(clippy::cast_precision_loss, reason = "a bar has a few hundred pixels")]
fn float(number: u64) -> f64 {
    number as f64
}

pub(super) fn duration(amount: f64) -> String {
    seconds(Duration::try_from_secs_f64(amount).unwrap_or_default())
}

/// The layers that were enforced, and what showed it.
pub fn layers(report: &Report) -> Markup {
    let weaker = report
        .enforcement
        .iter()
        .filter(|it| it.degraded.is_some())
        .count();
    let aside = match weaker {
        0 => format!("{} layers, all as asked for", report.enforcement.len()),
        weaker => format!(
            "{weaker} of {} weaker than asked for",
            report.enforcement.len()
        ),
    };
    let head = [
        "Layer",
        "In force",
        "Seen from inside before the program began",
    ];
    let head = head.map(|name| say("th", "", name));
    let rows = report.enforcement.iter().map(layer);
    let table = Markup::element(
        "table",
        &[],
        [
            Markup::element("thead", &[], [Markup::element("tr", &[], head)]),
            Markup::element("tbody", &[], rows.collect::<Vec<_>>()),
        ],
    );
    if report.enforcement.is_empty() {
        return Markup::default();
    }
    let table = element_with("div", "scroll", [table]);
    section(
        "layers",
        "What was enforced",
        say("span", "dim", &aside),
        table,
    )
}

fn layer(layer: &Layer) -> Markup {
    let (class, mark) = match layer.degraded {
        Some(_) => ("weaker", "!"),
        None => ("held", "✓"),
    };
    let asked = if layer.requested == layer.effective {
        Markup::default()
    } else {
        say("p", "dim", &format!("asked for: {}", layer.requested))
    };
    let why = layer.degraded.as_ref();
    let why = why.map(|why| say("p", "warn", why)).unwrap_or_default();
    let proof = layer.proof.as_deref().unwrap_or("—");
    let name = element_with(
        "td",
        "nowrap",
        [say("span", "mark", mark), Markup::text(layer.layer.name())],
    );
    element_with(
        "tr",
        class,
        [
            name,
            element_with("td", "", [Markup::text(&layer.effective), asked, why]),
            say("td", "mono dim", proof),
        ],
    )
}

/// The system calls that were made, where somebody asked for them.
pub fn calls(report: &Report) -> Markup {
    let Some(calls) = &report.syscalls else {
        return Markup::default();
    };
    let names = calls.iter().map(|name| say("li", "mono", name));
    let list = Markup::element("ul", &[("class", "calls")], names);
    let count = say("span", "dim", &calls.len().to_string());
    section("calls", "System calls made", count, list)
}

/// The number of acts seen, and of those lost.
pub fn evidence(report: &Report) -> Markup {
    let aside = if report.events.complete {
        say("span", "good", "complete")
    } else {
        say("span", "warn", "not complete")
    };
    let kinds = report.events.seen.iter().map(|(kind, count)| {
        let lost = report
            .events
            .lost
            .get(kind)
            .map(|lost| format!("{lost} lost"));
        element_with(
            "div",
            "card meter",
            [
                say("h3", "", kind),
                say("strong", "", &count.to_string()),
                say("span", "warn", &lost.unwrap_or_default()),
            ],
        )
    });
    let other = report
        .events
        .lost
        .iter()
        .filter(|(kind, _)| !report.events.seen.contains_key(*kind));
    let other = other.map(|(kind, count)| say("p", "warn", &format!("lost: {count} {kind}")));
    let grid = Markup::element("div", &[("class", "grid small")], kinds.collect::<Vec<_>>());
    let content = Markup::all([grid, Markup::all(other)]);
    section("evidence", "Events seen", aside, content)
}
