//! Words on an attachment: the group and its limits, who was there before, and what a jail would have given.

use crate::model::{Attachment, AttachmentInterference, FoundProcess, GroupSetting, Report};

/// Processes in one line, and what each had open.
const NAMED: usize = 2;
/// Descriptors of one process.
const OPEN: usize = 3;

/// A line on the group, one on who was there, and one on what was not given.
pub fn lines(report: &Report) -> impl Iterator<Item = String> {
    let attached = report.attached.as_ref().into_iter();
    attached.flat_map(|attached| {
        let lines = [
            Some(group(attached)),
            there_before(attached),
            not_given(&attached.not_given),
        ];
        lines.into_iter().flatten()
    })
}

fn group(attached: &Attachment) -> String {
    let below = match attached.groups_below {
        0 => String::new(),
        1 => ", with 1 group below".to_owned(),
        count => format!(", with {count} groups below"),
    };
    let limits: Vec<String> = attached.limits.iter().map(limit).collect();
    let limits = match limits.is_empty() {
        true => String::new(),
        false => format!("; {}", limits.join(", ")),
    };
    let required = match attached.required {
        true => "; it was to die with its watcher",
        false => "",
    };
    let blinded = match &attached.interference {
        Some(AttachmentInterference { noticed, what }) => {
            format!("; blinded: {what}, which was noticed at {noticed}")
        }
        None => String::new(),
    };
    let Attachment { group, since, .. } = attached;
    format!("attached to {group} since {since}{below}{limits}{required}{blinded}")
}

/// A limit, and the one that stood there.
pub fn limit(limit: &GroupSetting) -> String {
    let GroupSetting {
        file,
        value,
        before,
    } = limit;
    format!("{file} {value} ({before} before)")
}

fn there_before(attached: &Attachment) -> Option<String> {
    let named = attached.found.iter().take(NAMED);
    let named: Vec<String> = named.map(process).collect();
    let more = usize::try_from(attached.found_count).unwrap_or(usize::MAX);
    let more = match more.saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let words = || format!("there before: {}{more}", named.join("; "));
    (attached.found_count > 0).then(words)
}

fn process(found: &FoundProcess) -> String {
    let who = name(found);
    match found.open.as_slice() {
        [] => who,
        open => {
            let named = open[..open.len().min(OPEN)].join(", ");
            let count = usize::try_from(found.open_count).unwrap_or(usize::MAX);
            let more = match count.max(open.len()).saturating_sub(OPEN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("{who} with {named}{more} open")
        }
    }
}

/// A process that was there, by its program.
pub fn name(found: &FoundProcess) -> String {
    let program = found
        .executable
        .as_deref()
        .unwrap_or("a program that had ended");
    format!("{program} (pid {})", found.pid)
}

/// The parts without what follows of their lack, which the page of a report tells.
fn not_given(parts: &[String]) -> Option<String> {
    let parts = parts.iter().map(|part| {
        part.split_once(": ")
            .map_or(part.as_str(), |(part, _)| part)
    });
    let parts: Vec<&str> = parts.collect();
    (!parts.is_empty()).then(|| format!("no jail was made; not given: {}", parts.join("; ")))
}
