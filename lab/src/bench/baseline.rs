//! The ratios that are kept in docs/benchmarks.json, and what has become worse since.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::goals::{BenchGoal, Better, GOALS};
use super::machine::BenchMachine;
use super::statistics::Ratio;

/// So many times the noise of both is what chance can do.
const CHANCE: f64 = 3.0;
/// Two builds of the same differ by that share, where nothing but the places of their code differs.
const SLACK: f64 = 0.1;

/// The figures that are kept.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// The machine that they were measured on.
    pub machine: BenchMachine,
    /// By name.
    pub ratios: BTreeMap<String, Ratio>,
}

impl Baseline {
    /// The one of that file.
    pub fn read(path: &Path) -> Result<Baseline> {
        let text = fs::read(path);
        let text = text.with_context(|| format!("no baseline: cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no baseline", path.display()))
    }

    /// As it is kept.
    pub fn text(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The figures that are worse now than chance explains, for people; and those that could not be compared.
    pub fn worse(&self, now: &BTreeMap<String, Ratio>) -> Vec<String> {
        let known = self.ratios.iter().filter_map(|(name, &then)| {
            let &now = now.get(name)?;
            is_worse(name, then, now).then(|| {
                format!(
                    "{name}: {:.2} ± {:.2}, and was {:.2} ± {:.2}",
                    now.value, now.noise, then.value, then.noise
                )
            })
        });
        known.collect()
    }
}

fn is_worse(name: &str, then: Ratio, now: Ratio) -> bool {
    let is_of = |goal: &&BenchGoal| goal.ratio == name || goal.floor == Some(name);
    let goal = GOALS.iter().find(is_of);
    let by = match goal.map(|goal| goal.better) {
        Some(Better::More) => then.value - now.value,
        _ => now.value - then.value,
    };
    let noise = then.noise.hypot(now.noise);
    by > (CHANCE * noise).max(SLACK * then.value.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(value: f64, noise: f64) -> Ratio {
        Ratio { value, noise }
    }

    #[test]
    fn a_slower_start_is_worse_and_a_faster_one_is_not() {
        let [then, slower, faster] = [1.0, 1.5, 0.5].map(|value| ratio(value, 0.02));
        assert!(is_worse("start.true.warm", then, slower));
        assert!(!is_worse("start.true.warm", then, faster));
    }

    #[test]
    fn of_what_is_to_be_high_less_is_worse() {
        let [then, more, less] = [1.4, 2.0, 1.0].map(|value| ratio(value, 0.02));
        assert!(is_worse("scale.rate", then, less));
        assert!(!is_worse("scale.rate", then, more));
    }

    #[test]
    fn what_chance_can_do_is_not_worse() {
        assert!(!is_worse(
            "start.true.warm",
            ratio(1.0, 0.2),
            ratio(1.5, 0.1)
        ));
        assert!(!is_worse(
            "start.true.warm",
            ratio(1.0, 0.0),
            ratio(1.09, 0.0)
        ));
    }

    #[test]
    fn one_call_after_a_kill_is_worse_than_none() {
        assert!(is_worse(
            "kill.further",
            Ratio::exact(0.0),
            Ratio::exact(1.0)
        ));
        assert!(!is_worse(
            "kill.further",
            Ratio::exact(0.0),
            Ratio::exact(0.0)
        ));
    }

    #[test]
    fn what_is_worse_is_named_with_both_figures() {
        let machine = super::super::machine::here().expect("a machine");
        let ratios = |value| BTreeMap::from([("start.true.warm".to_owned(), ratio(value, 0.0))]);
        let baseline = Baseline {
            machine,
            ratios: ratios(1.0),
        };
        let kept: Baseline = serde_json::from_str(&baseline.text().expect("text")).expect("read");
        assert_eq!(kept, baseline);
        assert_eq!(
            kept.worse(&ratios(2.0)),
            ["start.true.warm: 2.00 ± 0.00, and was 1.00 ± 0.00"]
        );
        assert_eq!(kept.worse(&BTreeMap::new()), [""; 0]);
    }
}
