//! The addition of watching to whole programs: the same jail unwatched and watched, and nobody else's turns between.
//!
//! Both take nearly the same, so the machine's own changes within the minutes of a round of everybody are more than
//! what is looked for. Here a round takes seconds, and there are many.

use anyhow::Result;

use super::cost::{self, CostKind, JAILED, KINDS, WATCHED, name};
use super::findings::{Findings, FindingsBlock, Section};
use super::rounds::{BenchExtent, Results, play};
use super::stage::BenchStage;
use super::work;

/// Work that is programs, for which a jail is the measure, and not what they take without one.
const PROGRAMS: [&str; 3] = ["spawn", "import", "compile"];

/// None of them walks through the tree.
const NO_FILES: usize = 0;

/// Whether what watching adds to this work is measured here.
pub fn are_of(kind: &CostKind) -> bool {
    PROGRAMS.contains(&kind.name)
}

/// Measures it.
pub fn measure(stage: &BenchStage, extent: BenchExtent, findings: &mut Findings) -> Result<()> {
    work::prepare(stage, NO_FILES)?;
    let mut contestants: Vec<_> = programs()
        .flat_map(|kind| cost::jails(stage, kind))
        .collect();
    let results = play(&mut contestants, extent, |phase| stage.enter(phase))?;
    for kind in programs() {
        let ratio = results.ratio(&name(kind, WATCHED), &name(kind, JAILED));
        findings.keep(&format!("cost.{}.watched", kind.name), ratio);
    }
    let BenchExtent { rounds, repeats } = extent;
    findings.sections.push(Section {
        title: "What watching adds to programs",
        blocks: vec![
            FindingsBlock::text(format!(
                "The same two jails alone, in {rounds} rounds of seconds, {repeats} turns each in every round: the tables \
                 above are of fewer and longer rounds, within which the machine changes by more than watching adds."
            )),
            table(&results),
        ],
    });
    Ok(())
}

fn programs() -> impl Iterator<Item = &'static CostKind> {
    KINDS.iter().filter(|kind| are_of(kind))
}

fn table(results: &Results) -> FindingsBlock {
    let rows = programs().filter_map(|kind| {
        let [jailed, watched] = [JAILED, WATCHED].map(|place| name(kind, place));
        let [unwatched_median, _] = kind.unit.shown(results.summary(&jailed)?);
        let [watched_median, _] = kind.unit.shown(results.summary(&watched)?);
        let ratio = results.ratio(&watched, &jailed)?;
        Some(vec![
            kind.what.to_owned(),
            unwatched_median,
            watched_median,
            format!("{:.3} ± {:.3}", ratio.value, ratio.noise),
        ])
    });
    FindingsBlock::table(&["", JAILED, WATCHED, "ratio"], rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_one_is_a_kind_of_work() {
        assert_eq!(programs().count(), PROGRAMS.len());
    }
}
