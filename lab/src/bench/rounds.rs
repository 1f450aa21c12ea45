//! Measuring side by side: in every round everybody has a turn, so that what disturbs the machine disturbs all.

use anyhow::{Context, Result};

use super::statistics::{Ratio, Series, Summary, ratio, summary};

/// Whether turnkey's programs are loaded in the kernel while somebody is measured. They cost every process
/// of the host, so others are measured without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is loaded: others, and starts from nothing.
    Unloaded,
    /// bpftrace watches the host instead.
    Bpftrace,
    /// `turnkey monitor load` was here, and nobody watches.
    Loaded,
    /// Besides, a group of others is watched.
    OneLevel,
    /// Besides, so is a group in it.
    TwoLevels,
}

/// In this order in every round.
const PHASES: [Phase; 5] = [
    Phase::Unloaded,
    Phase::Bpftrace,
    Phase::Loaded,
    Phase::OneLevel,
    Phase::TwoLevels,
];

/// The number of times that everything is done.
#[derive(Clone, Copy, Debug)]
pub struct BenchExtent {
    /// So many rounds, whose scatter is the noise.
    pub rounds: usize,
    /// In each of them, everybody is measured so often.
    pub repeats: usize,
}

/// A command that is measured.
pub struct Contestant<'a> {
    /// The command's name, unique among those it is measured beside.
    pub name: String,
    /// The phase in which it is measured.
    pub phase: Phase,
    /// Does it once, and says what it took.
    pub measure: Box<dyn FnMut() -> Result<f64> + 'a>,
}

impl<'a> Contestant<'a> {
    /// One that is measured in that phase.
    pub fn new(
        name: impl Into<String>,
        phase: Phase,
        measure: impl FnMut() -> Result<f64> + 'a,
    ) -> Self {
        Contestant {
            name: name.into(),
            phase,
            measure: Box::new(measure),
        }
    }
}

/// The times of everybody.
pub struct Results(Vec<(String, Series)>);

impl Results {
    /// In the order in which they were given.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Series)> {
        self.0.iter().map(|(name, series)| (&**name, series))
    }

    /// Of the contestant with this name, if there was one.
    pub fn summary(&self, name: &str) -> Option<Summary> {
        summary(self.series(name)?)
    }

    /// The ratio of the time of `ours` to that of `theirs`.
    pub fn ratio(&self, ours: &str, theirs: &str) -> Option<Ratio> {
        ratio(self.series(ours)?, self.series(theirs)?)
    }

    fn series(&self, name: &str) -> Option<&Series> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, series)| series)
    }
}

/// Lets everybody have their turns. `enter` brings the machine into a phase; what is first in one, is done
/// once more before it counts.
pub fn play(
    contestants: &mut [Contestant],
    extent: BenchExtent,
    mut enter: impl FnMut(Phase) -> Result<()>,
) -> Result<Results> {
    let names = contestants
        .iter()
        .map(|it| (it.name.clone(), Series::new()));
    let mut results = Results(names.collect());
    for round in 0..extent.rounds {
        for (_, series) in &mut results.0 {
            series.push(Vec::new());
        }
        for phase in PHASES {
            let chosen = indices(contestants, phase);
            if chosen.is_empty() {
                continue;
            }
            enter(phase)?;
            for &index in &chosen {
                once(&mut contestants[index])?;
            }
            for repeat in 0..extent.repeats {
                for &index in turned(&chosen, round + repeat).iter() {
                    let took = once(&mut contestants[index])?;
                    results.0[index].1[round].push(took);
                }
            }
        }
    }
    Ok(results)
}

fn once(contestant: &mut Contestant) -> Result<f64> {
    (contestant.measure)().with_context(|| format!("{} cannot be measured", contestant.name))
}

fn indices(contestants: &[Contestant], phase: Phase) -> Vec<usize> {
    let all = contestants.iter().enumerate();
    all.filter(|(_, it)| it.phase == phase)
        .map(|(index, _)| index)
        .collect()
}

/// Another one is first each time, so that nobody always comes after the same.
fn turned(indices: &[usize], by: usize) -> Vec<usize> {
    let mut turned = indices.to_vec();
    turned.rotate_left(by % indices.len());
    turned
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Two contestants without and one with the programs; what happened, in order.
    fn played(extent: BenchExtent) -> (Results, Vec<String>) {
        let log = RefCell::new(Vec::new());
        let says = |name: &'static str, took: f64| {
            let log = &log;
            move || {
                log.borrow_mut().push(name.to_owned());
                Ok(took)
            }
        };
        let mut contestants = [
            Contestant::new("a", Phase::Unloaded, says("a", 1.0)),
            Contestant::new("w", Phase::Loaded, says("w", 3.0)),
            Contestant::new("b", Phase::Unloaded, says("b", 2.0)),
        ];
        let enter = |phase| {
            log.borrow_mut().push(format!("{phase:?}"));
            Ok(())
        };
        let results = play(&mut contestants, extent, enter).expect("nobody fails");
        (results, log.take())
    }

    #[test]
    fn everybody_has_a_turn_in_every_round_and_another_one_is_first() {
        let (_, log) = played(BenchExtent {
            rounds: 1,
            repeats: 2,
        });
        let expected = "Unloaded a b a b b a Loaded w w w";
        assert_eq!(log.join(" "), expected, "the first of each does not count");
    }

    #[test]
    fn what_counts_is_kept_by_round() {
        let (results, _) = played(BenchExtent {
            rounds: 3,
            repeats: 2,
        });
        for (_, series) in results.all() {
            assert_eq!(series.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2]);
        }
        assert_eq!(
            results.ratio("w", "b"),
            Some(Ratio {
                value: 1.5,
                noise: 0.0
            })
        );
        assert_eq!(results.summary("nobody"), None);
    }

    #[test]
    fn a_failure_names_whose_it_is() {
        let failing = || anyhow::bail!("no such thing");
        let mut contestants = [Contestant::new("peer", Phase::Loaded, failing)];
        let error = play(
            &mut contestants,
            BenchExtent {
                rounds: 1,
                repeats: 1,
            },
            |_| Ok(()),
        );
        let error = error.err().expect("it cannot be measured");
        assert!(format!("{error:#}").contains("peer cannot be measured: no such thing"));
    }
}
