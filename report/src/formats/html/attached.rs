//! The group that was attached to: since when, what was there before, what limits it, and what a jail would have given.

use super::markup::{Markup, element_with, say};
use crate::model::{Attachment, FoundProcess, Report};
use crate::terminal::attached::{limit, name};
use crate::units::seconds;

/// The attachment; nothing for a run.
pub fn section(report: &Report) -> Markup {
    let Some(attached) = &report.attached else {
        return Markup::default();
    };
    let content = Markup::all([facts(attached), found(attached), not_given(attached)]);
    let aside = say("span", "dim", &attached.group);
    super::section("attached", "What was attached to", aside, content)
}

fn facts(attached: &Attachment) -> Markup {
    let watched = std::time::Duration::try_from_secs_f64(attached.seconds).unwrap_or_default();
    let limits: Vec<String> = attached.limits.iter().map(limit).collect();
    let limits = match limits.is_empty() {
        true => "none of turnkey's".to_owned(),
        false => limits.join(", "),
    };
    let without_watcher = match attached.required {
        true => "was to be killed",
        false => "was to live on",
    };
    let blinded = match &attached.interference {
        None => "by nobody".to_owned(),
        Some(found) => format!("{}, noticed at {}", found.what, found.noticed),
    };
    let facts = [
        ("Blinded", blinded),
        ("Watched since", attached.since.clone()),
        ("Watched for", seconds(watched)),
        ("Groups below", attached.groups_below.to_string()),
        ("Limits", limits),
        ("Without its watcher", without_watcher.to_owned()),
    ];
    let pairs = facts
        .map(|(name, value)| element_with("div", "", [say("dt", "", name), say("dd", "", &value)]));
    element_with("dl", "facts", pairs)
}

/// The processes that were there, each with what it had open.
fn found(attached: &Attachment) -> Markup {
    let listed = attached.found.iter().map(process);
    let count = u64::try_from(attached.found.len()).unwrap_or(u64::MAX);
    let more = match attached.found_count.saturating_sub(count) {
        0 => Markup::default(),
        more => say("p", "dim", &format!("and {more} more")),
    };
    let head = match attached.found_count {
        0 => "Nobody was there before.",
        _ => "There before, and no rule was asked about what they had done and hold open:",
    };
    let head = say("p", "", head);
    Markup::all([head, Markup::all(listed), more])
}

fn process(found: &FoundProcess) -> Markup {
    let open = found.open.iter().map(|name| say("li", "mono", name));
    let open = Markup::element("ul", &[("class", "calls")], open);
    let name = say("strong", "mono", &name(found));
    element_with("div", "card", [name, open])
}

fn not_given(attached: &Attachment) -> Markup {
    let parts = attached.not_given.iter().map(|part| say("li", "", part));
    let list = Markup::element("ul", &[], parts);
    Markup::all([say("p", "", "Not given, as by a jail:"), list])
}
