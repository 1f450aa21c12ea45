//! Findings, each with the attempts that it speaks of.

use super::super::title;
use super::markup::{Markup, element_with, say};
use super::{severity, time_of_day};
use crate::model::{Finding, Report, Violation};
use crate::units::size;

use crate::terminal::{self, meant};
use crate::unknown;
use crate::{came_of, peers};

/// Attempts that are shown; the rest is counted.
const MOST: usize = 50;

/// The findings, the heaviest first.
pub fn section(report: &Report) -> Markup {
    let cards = report.findings.iter().enumerate();
    let cards = cards.map(|(index, it)| finding(report, it, index == 0));
    let none = report.findings.is_empty();
    let nothing = none.then(|| say("p", "dim", "Nothing was found."));
    let content = Markup::all(
        cards
            .chain(nothing)
            .chain(on_host(report))
            .chain(terminal::lacking::lines(report).map(|words| say("p", "card", &words)))
            .chain(terminal::remarks::all(report).map(|words| say("p", "card", &words))),
    );
    let aside = match report.findings.len() {
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    };
    super::section(
        "findings",
        "What happened",
        say("span", "dim", &aside),
        content,
    )
}

fn on_host(report: &Report) -> Option<Markup> {
    let paths = report.on_host.join(", ");
    let words = format!("Looked for and not in the jail, though the host has it: {paths}");
    (!report.on_host.is_empty()).then(|| say("p", "card", &words))
}

fn finding(report: &Report, finding: &Finding, open: bool) -> Markup {
    let attempts: Vec<&Violation> = finding.violations(report).collect();
    let headline = match Finding::gravest(&attempts) {
        Some(gravest) => terminal::headline(gravest),
        None => title(finding).to_owned(),
    };
    let technique = finding.technique.as_deref();
    let count = match finding.count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    };
    let facts = [Some(finding.id.as_str()), technique, Some(count.as_str())];
    let facts: Vec<&str> = facts.into_iter().flatten().collect();
    let is_bare = attempts.is_empty() && finding.evidence.is_empty();
    let why = if attempts.is_empty() {
        Markup::default()
    } else {
        say("p", "why", &finding.reason)
    };
    let head = element_with(
        "summary",
        "",
        [
            severity(finding.severity.name()),
            say("strong", "headline", &headline),
            say("span", "points", &points(finding)),
            say("span", "dim facts", &facts.join(" · ")),
            why,
        ],
    );
    let rows = attempts.iter().take(MOST).map(|it| attempt(report, it));
    let more = attempts.len().saturating_sub(MOST);
    let more = (more > 0).then(|| say("p", "dim", &format!("and {more} more")));
    let body = Markup::all(rows.chain(steps(finding)).chain(more));
    let class = format!("card finding {}", finding.severity.name());
    let mut attributes = vec![("class", class.as_str())];
    if open {
        attributes.push(("open", ""));
    }
    if is_bare {
        return element_with(
            "div",
            &format!("{class} alone"),
            [head_alone(finding, &facts.join(" · "))],
        );
    }
    Markup::element("details", &attributes, [head, body])
}

/// The acts that show a behaviour.
fn steps(finding: &Finding) -> Option<Markup> {
    let items = finding.evidence.iter().map(|step| {
        let time = step.time.as_deref().map(time_of_day);
        let who = step.process.as_ref();
        let who = who.map(|one| format!("{} (pid {})", one.comm, one.pid));
        let aside: Vec<&str> = time.into_iter().chain(who.as_deref()).collect();
        element_with(
            "li",
            "",
            [
                Markup::text(&step.what),
                say("span", "dim facts", &aside.join(" · ")),
            ],
        )
    });
    let list = Markup::element("ul", &[("class", "steps")], [Markup::all(items)]);
    (!finding.evidence.is_empty()).then_some(list)
}

/// The points that a finding adds to the score, of which nothing is left when others have filled it.
fn points(finding: &Finding) -> String {
    match finding.score {
        _ if !finding.counts() => "accepted".to_owned(),
        0 => String::new(),
        score => format!("+{score}"),
    }
}

/// Of turnkey's own findings there is nothing to unfold.
fn head_alone(finding: &Finding, facts: &str) -> Markup {
    element_with(
        "div",
        "summary",
        [
            severity(finding.severity.name()),
            say("strong", "headline", title(finding)),
            say("span", "points", &points(finding)),
            say("span", "dim facts", facts),
        ],
    )
}

fn attempt(report: &Report, violation: &Violation) -> Markup {
    let stopped = came_of::words(violation, report.whole());
    let tried: Vec<_> = peers::objects(violation).collect();
    let tried = match tried.as_slice() {
        [] => "—".to_owned(),
        tried => tried.join(", "),
    };
    let raw = violation.raw.as_ref().map(|raw| match raw.unreadable {
        true => "(memory that could not be read)".to_owned(),
        false => raw.text.clone(),
    });
    let times = match violation.count {
        1 => time_of_day(&violation.time).to_owned(),
        count => format!("{}, {count} times", time_of_day(&violation.time)),
    };
    let advice = meant::to_allow(report, violation, true);
    let advice = match advice.split_once('\n') {
        Some((first, rest)) => Markup::all([Markup::text(first), say("pre", "", rest)]),
        None => Markup::text(&advice),
    };
    let pairs = [
        ("tried", Some(say("code", "", &tried))),
        (
            "by",
            Some(say("code", "", &terminal::actor(&violation.process))),
        ),
        (
            "who",
            violation
                .actor_unknown
                .then(|| Markup::text(unknown::WORDS)),
        ),
        (
            "file",
            unknown::file(violation).map(|words| Markup::text(&words)),
        ),
        ("stopped by", Some(Markup::text(&stopped))),
        ("asked as", raw.map(|raw| say("code", "", &raw))),
        (
            "new name",
            violation.to.as_ref().map(|to| say("code", "", to)),
        ),
        ("at", Some(Markup::text(&times))),
        ("to allow", (!violation.advice.is_empty()).then_some(advice)),
    ];
    let pairs = pairs.into_iter().filter_map(|(name, value)| {
        Some(element_with(
            "div",
            "",
            [say("dt", "", name), element_with("dd", "", [value?])],
        ))
    });
    Markup::element("dl", &[("class", "attempt")], pairs.collect::<Vec<_>>())
}

/// Bytes, or a dash.
pub fn bytes(size_of: Option<u64>) -> String {
    size_of.map_or_else(|| "—".to_owned(), size)
}
