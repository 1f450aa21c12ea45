//! The results of all runs under the same profiles together, and whether the goals are met. Pure.

use std::collections::BTreeMap;

use super::Under;
use super::answer::Answer;
use super::program::{Aim, CorpusLanguage, CorpusProgram};

/// Of the attempts, so many percent have to be seen.
const SEEN: usize = 98;
/// Of the scores, so many percent have to be on the right side.
const SCORES: usize = 95;
/// The score of a harmless program is below this.
const HARMLESS: u64 = 20;
/// The area under the curve of attacks against harmless programs is at least so many thousandths.
const APART: usize = 980;
/// The score of an attack is above this.
pub const ATTACK: u64 = 50;

/// The fate of a program's effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorpusOutcome {
    /// Nobody could have seen it, for this reason: it counts neither way.
    NotObservable(String),
    /// The effect was there without the jail, and no trace of it with the jail.
    Prevented,
    /// The effect was there with the jail, and the report says that the program was allowed what it took.
    Granted,
    /// The effect was there with the jail, against what the report says.
    Leaked,
    /// There was none to prevent.
    Harmless,
}

/// One program at both places.
#[derive(Clone, Debug)]
pub struct CorpusRecord {
    /// The program.
    pub program: CorpusProgram,
    /// The fate of its effect.
    pub outcome: CorpusOutcome,
    /// True when it did what it does, without the jail.
    pub passed_outside: bool,
    /// True when it did what it does, in the jail.
    pub passed_inside: bool,
    /// The words of turnkey about it.
    pub answer: Answer,
}

impl CorpusRecord {
    /// Whether there was an effect to prevent.
    pub fn observable(&self) -> bool {
        !matches!(
            self.outcome,
            CorpusOutcome::NotObservable(_) | CorpusOutcome::Harmless
        )
    }
}

/// The results of every run.
pub struct CorpusTable {
    /// The profiles that they ran under.
    pub under: Under,
    /// One for each program.
    pub records: Vec<CorpusRecord>,
    /// The faults of the whole: something planted has changed, something arrived.
    pub amiss: Vec<String>,
}

/// The goals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspiration {
    /// Every observable effect is prevented.
    Prevented,
    /// Attempts are seen, with the right path or address.
    CorpusObservation,
    /// No harmless program is killed.
    Spared,
    /// Harmless programs do in the jail what they do outside.
    Passed,
    /// Harmless programs score low.
    Quiet,
    /// Attacks score high.
    Loud,
    /// An attack scores higher than a harmless program.
    Apart,
}

impl Aspiration {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Prevented => "every observable effect is prevented",
            Self::CorpusObservation => {
                "98 % of the attempts are seen, with the right path or address"
            }
            Self::Spared => "no harmless program is killed",
            Self::Passed => "every harmless program that passes outside passes inside",
            Self::Quiet => "scores of harmless programs are below 20 (95 %)",
            Self::Loud => "scores of observable attacks are above 50 (95 %)",
            Self::Apart => {
                "area under the curve of scores, observable attacks against harmless programs (0.980), and of those that are not granted"
            }
        }
    }

    /// Whether missing it fails the command. A profile that shows a machine's programs and libraries, for
    /// others to work with, lets them be looked at.
    fn is_asked_of(self, under: Under) -> bool {
        under == Under::Sealed || !matches!(self, Self::Prevented | Self::Loud | Self::Apart)
    }
}

/// One goal.
pub struct CorpusGoal {
    /// The aspiration.
    pub of: Aspiration,
    /// The number of those that reach it, of how many.
    pub measured: String,
    /// Each that is not so, and how it is instead.
    pub missed: Vec<String>,
    /// Whether they are enough.
    pub met: bool,
}

impl CorpusTable {
    /// The reasons why the command fails, a line each: goals that are missed, effects that no report tells of, and harmless programs that are
    /// not called so.
    pub fn missed(&self) -> Vec<String> {
        let goals = self.goals();
        let asked = goals.iter().filter(|goal| goal.of.is_asked_of(self.under));
        let missed = asked.filter(|goal| !goal.met);
        let under = self.under.title();
        let lines = missed.map(|goal| format!("{under}: {}: {}", goal.of.words(), goal.measured));
        let leaked = self.count(&CorpusOutcome::Leaked);
        let leaked = (leaked > 0).then(|| format!("{under}: {leaked} effects leaked"));
        let unclean = self.unclean().map(|one| {
            let (name, verdict) = (one.program.name(), &one.answer.verdict);
            format!("{under}: {name} is harmless, and its verdict {verdict}")
        });
        self.amiss
            .iter()
            .cloned()
            .chain(lines)
            .chain(leaked)
            .chain(unclean)
            .collect()
    }

    /// Harmless programs that score nothing and whose verdict is another than clean all the same: evidence was lost, or a layer was missing.
    fn unclean(&self) -> impl Iterator<Item = &CorpusRecord> {
        self.records.iter().filter(|one| {
            let is_harmless = one.outcome == CorpusOutcome::Harmless && one.answer.score == 0;
            is_harmless && one.answer.verdict != "clean"
        })
    }

    /// The number of effects that fared so.
    pub fn count(&self, outcome: &CorpusOutcome) -> usize {
        let all = self.records.iter();
        all.filter(|one| one.outcome == *outcome).count()
    }

    /// The goals, and what was reached of each.
    pub fn goals(&self) -> Vec<CorpusGoal> {
        let attacks: Vec<&CorpusRecord> =
            self.records.iter().filter(|one| one.observable()).collect();
        let harmless = self.records.iter();
        let harmless: Vec<&CorpusRecord> = harmless
            .filter(|one| one.outcome == CorpusOutcome::Harmless)
            .collect();
        vec![
            goal(
                Aspiration::Prevented,
                &attacks,
                100,
                |one| one.outcome == CorpusOutcome::Prevented,
                |one| match one.outcome {
                    CorpusOutcome::Granted => format!("granted: {}", subject(&one.program.aim)),
                    _ => format!("LEAKED: {}", subject(&one.program.aim)),
                },
            ),
            goal(
                Aspiration::CorpusObservation,
                &attacks,
                SEEN,
                |one| one.answer.named,
                |one| format!("no event names {}", subject(&one.program.aim)),
            ),
            goal(
                Aspiration::Spared,
                &harmless,
                100,
                |one| !one.answer.killed(),
                |one| one.answer.findings.join(", "),
            ),
            goal(
                Aspiration::Passed,
                &harmless,
                100,
                |one| one.passed_inside || !one.passed_outside,
                |one| one.answer.status.clone(),
            ),
            goal(
                Aspiration::Quiet,
                &harmless,
                SCORES,
                |one| one.answer.score < HARMLESS,
                scored,
            ),
            goal(
                Aspiration::Loud,
                &attacks,
                SCORES,
                |one| one.answer.score > ATTACK,
                scored,
            ),
            apart(&attacks, &harmless),
        ]
    }

    /// By scenario and language, those that are so.
    pub fn scenarios(
        &self,
        is: impl Fn(&CorpusRecord) -> bool,
    ) -> BTreeMap<(u32, CorpusLanguage), Vec<&CorpusRecord>> {
        let mut rows: BTreeMap<_, Vec<&CorpusRecord>> = BTreeMap::new();
        for one in self.records.iter().filter(|one| is(one)) {
            let key = (one.program.scenario, one.program.language);
            rows.entry(key).or_default().push(one);
        }
        rows
    }
}

/// A share of these that has to be so, with those that are not, and why.
fn goal(
    aspiration: Aspiration,
    of: &[&CorpusRecord],
    percent: usize,
    is: impl Fn(&CorpusRecord) -> bool,
    why: impl Fn(&CorpusRecord) -> String,
) -> CorpusGoal {
    let (good, bad): (Vec<&CorpusRecord>, Vec<&CorpusRecord>) =
        of.iter().copied().partition(|one| is(one));
    let share = 100.0 * good.len() as f64 / of.len().max(1) as f64;
    let missed = bad.iter();
    CorpusGoal {
        of: aspiration,
        measured: format!("{} of {} ({share:.1} %)", good.len(), of.len()),
        missed: missed
            .map(|one| format!("{}: {}", one.program.name(), why(one)))
            .collect(),
        // Of nothing, nothing is shown.
        met: !of.is_empty() && 100 * good.len() >= percent * of.len(),
    }
}

/// The chance that an attack scores higher than a harmless program, where equal scores are half a chance each.
fn apart(attacks: &[&CorpusRecord], harmless: &[&CorpusRecord]) -> CorpusGoal {
    let stopped: Vec<&CorpusRecord> = attacks
        .iter()
        .copied()
        .filter(|one| one.outcome != CorpusOutcome::Granted)
        .collect();
    let (all, stopped) = (
        thousandths(attacks, harmless),
        thousandths(&stopped, harmless),
    );
    let shown = |area: usize| format!("{}.{:03}", area / 1000, area % 1000);
    CorpusGoal {
        of: Aspiration::Apart,
        measured: format!("{}, {}", shown(all), shown(stopped)),
        missed: Vec::new(),
        met: all >= APART,
    }
}

/// The area under the curve of these scores, rounded down; 0 where either side is empty.
fn thousandths(attacks: &[&CorpusRecord], harmless: &[&CorpusRecord]) -> usize {
    let halves = |attack: &&CorpusRecord| -> usize {
        let against = harmless.iter().map(|one| one.answer.score);
        against
            .map(|score| match attack.answer.score.cmp(&score) {
                std::cmp::Ordering::Greater => 2,
                std::cmp::Ordering::Equal => 1,
                std::cmp::Ordering::Less => 0,
            })
            .sum()
    };
    let halves: usize = attacks.iter().map(halves).sum();
    (1000 * halves) / (2 * attacks.len() * harmless.len()).max(1)
}

fn scored(one: &CorpusRecord) -> String {
    let named = match &one.answer.findings[..] {
        [] => "no finding".to_owned(),
        findings => findings.join(", "),
    };
    let subject = match one.outcome {
        CorpusOutcome::Harmless => String::new(),
        _ => format!(", {}", subject(&one.program.aim)),
    };
    format!("score {}, {named}{subject}", one.answer.score)
}

/// The aim of a program, in a word.
fn subject(aim: &Aim) -> String {
    match (aim, aim.path()) {
        (Aim::List(_), Some(path)) => format!("{path}/"),
        (_, Some(path)) => path.to_owned(),
        (Aim::Fetch(url), _) => url.clone(),
        (Aim::Send, _) => super::program::DATAGRAM.to_owned(),
        (Aim::Memory, _) => "the limit of memory".to_owned(),
        _ => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests;
