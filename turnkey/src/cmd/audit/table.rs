//! The page as text: what is open in each sandbox, by criterion.

use turnkey_report::visible;

use super::finding::{Criterion, Outcome};
use super::{AuditPage, Measured, ProbeFinding};

/// One block for each sandbox.
pub fn text(page: &AuditPage) -> String {
    page.sandboxes
        .iter()
        .map(block)
        .collect::<Vec<_>>()
        .join("\n")
}

fn block(measured: &Measured) -> String {
    let mut text = format!("{}\n", visible(&measured.sandbox));
    if let Some(reason) = &measured.failed {
        text += &format!("  not measured: {}\n", visible(reason));
        return text;
    }
    for (criterion, words) in Criterion::ALL {
        let of: Vec<&ProbeFinding> = measured
            .findings
            .values()
            .filter(|each| each.criterion == criterion)
            .collect();
        let with = |outcome| {
            of.iter()
                .filter(move |each| each.finding.outcome == outcome)
        };
        let held = with(Outcome::Stopped).count() + with(Outcome::Ended).count();
        text += &format!("  {words:<14} {held} of {} held\n", of.len());
        for (mark, outcome) in [("open", Outcome::Open), ("?", Outcome::Unknown)] {
            for each in with(outcome) {
                text += &format!(
                    "    {mark:<5} {}: {}\n",
                    each.does,
                    visible(&each.finding.fact)
                );
            }
        }
    }
    text
}
