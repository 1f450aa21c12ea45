//! The report as one page for a browser: nothing is fetched, everything can be read without
//! JavaScript, and nothing that a jailed program named is anything but text.

mod attached;
mod markup;
mod overview;
mod story;
mod tables;
mod timeline;
mod tree;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::{command_line, verdict_word};
use crate::model::Report;
use markup::{Markup, element_with, say};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The document.
pub fn document(report: &Report) -> String {
    let page = Markup::element("html", &[("lang", "en")], [head(report), body(report)]);
    page.document()
}

fn head(report: &Report) -> Markup {
    let meta = |attributes: &[markup::Attribute<'_>]| Markup::element("meta", attributes, []);
    let title = format!("turnkey: {}", command_line(report));
    Markup::element(
        "head",
        &[],
        [
            meta(&[("charset", "utf-8")]),
            meta(&[
                ("http-equiv", "Content-Security-Policy"),
                ("content", &policy()),
            ]),
            meta(&[
                ("name", "viewport"),
                ("content", "width=device-width, initial-scale=1"),
            ]),
            meta(&[("name", "color-scheme"), ("content", "light dark")]),
            meta(&[("name", "referrer"), ("content", "no-referrer")]),
            Markup::element("title", &[], [Markup::text(&title)]),
            Markup::own("style", STYLE),
        ],
    )
}

/// The browser runs this one script and fetches nothing.
fn policy() -> String {
    let digest = STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; \
         base-uri 'none'; form-action 'none'"
    )
}

fn body(report: &Report) -> Markup {
    let verdict = verdict_word(report.verdict);
    let main = Markup::element(
        "main",
        &[],
        [
            overview::banner(report),
            story::section(report),
            attached::section(report),
            overview::usage(report),
            timeline::section(report),
            tree::section(report),
            tables::files(report),
            tables::network(report),
            tables::conversations(report),
            tables::refused(report),
            tables::changed(report),
            overview::calls(report),
            overview::layers(report),
            overview::evidence(report),
        ],
    );
    let version = format!("turnkey {} · {}", super::VERSION, report.id);
    element_with(
        "body",
        verdict,
        [
            main,
            say("footer", "", &version),
            Markup::own("script", SCRIPT),
        ],
    )
}

/// A part of the page with a heading; what stands beside the heading comes second.
fn section(id: &'static str, title: &str, aside: Markup, content: Markup) -> Markup {
    let head = element_with("div", "head", [say("h2", "", title), aside]);
    Markup::element("section", &[("id", id)], [head, content])
}

/// A word about how bad something is.
fn severity(word: &str) -> Markup {
    say("span", &format!("chip {word}"), word)
}

/// The time of day of a date, to the millisecond.
fn time_of_day(date: &str) -> &str {
    date.get(11..23).unwrap_or(date)
}
