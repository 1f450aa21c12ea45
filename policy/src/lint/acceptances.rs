//! Findings that are accepted until a day.

use time::Date;

use super::{Lint, LintFinding};
use crate::error::{Located, Problem};
use crate::profile::ParsedProfile;
use crate::tables::AcceptedFinding;

/// Within how many days somebody is told: long enough to decide again.
const SOON: i64 = 14;

/// Finds acceptances whose last day has passed or is near.
pub(super) fn ending(profile: &ParsedProfile, today: Date) -> Vec<LintFinding> {
    let entries = profile.accepted.iter();
    entries.filter_map(|entry| finding(entry, today)).collect()
}

fn finding(entry: &Located<AcceptedFinding>, today: Date) -> Option<LintFinding> {
    let AcceptedFinding { finding, until, .. } = &entry.value;
    let days = (*until - today).whole_days();
    let message = match days {
        ..0 => format!("{finding:?} is accepted no longer: its last day was {until}"),
        0 => format!("{finding:?} is accepted today for the last time"),
        1 => format!("{finding:?} is accepted until tomorrow, {until}"),
        2..=SOON => format!("{finding:?} is accepted until {until}, for {days} more days"),
        _ => return None,
    };
    Some(LintFinding {
        lint: Lint::AcceptanceEnds,
        why: "from then on the finding counts again, and runs that have it are not called clean"
            .to_owned(),
        problem: Problem::new(message)
            .help("look whether it is still no reason for suspicion: write a later `until`, or remove the entry and what leads to the finding")
            .with_label(&entry.at, format!("until {until}")),
    })
}
