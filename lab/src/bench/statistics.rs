//! The statistics of many measurements of the same: a median, the quarter on either side, and the ratio of two
//! that were measured in turns. Pure.

use serde::{Deserialize, Serialize};

/// One contestant's measurements, by round. Its unit is the measurer's.
pub type Series = Vec<Vec<f64>>;

/// A standard deviation, were the scatter a normal one, for a median of distances of 1.
const NORMAL: f64 = 1.4826;

/// The middle of many measurements and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Half of them are less.
    pub median: f64,
    /// A quarter of them is less.
    pub low: f64,
    /// A quarter of them is more.
    pub high: f64,
}

/// The result of one contestant beside another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median of the rounds' ratios.
    pub value: f64,
    /// The distance between the rounds: the median of their distances to `value`, scaled to a standard deviation.
    pub noise: f64,
}

impl Ratio {
    /// One that was counted, not measured.
    pub fn exact(value: f64) -> Ratio {
        Ratio { value, noise: 0.0 }
    }
}

/// Of at least one measurement.
pub fn summary(series: &Series) -> Option<Summary> {
    let all: Vec<f64> = series.iter().flatten().copied().collect();
    Some(Summary {
        median: quantile(&all, 0.5)?,
        low: quantile(&all, 0.25)?,
        high: quantile(&all, 0.75)?,
    })
}

/// Round by round, because what slows the machine for a while slows both.
pub fn ratio(ours: &Series, theirs: &Series) -> Option<Ratio> {
    let rounds = ours.iter().zip(theirs);
    let ratios: Vec<f64> = rounds
        .filter_map(|(ours, theirs)| Some(quantile(ours, 0.5)? / quantile(theirs, 0.5)?))
        .collect();
    let value = quantile(&ratios, 0.5)?;
    let distances: Vec<f64> = ratios.iter().map(|one| (one - value).abs()).collect();
    Some(Ratio {
        value,
        noise: NORMAL * quantile(&distances, 0.5)?,
    })
}

/// The value below which that share of them lies, between two of them by the distance to each.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let place = share * index_as_float(last);
    let below = sorted.iter().enumerate().rev();
    let mut below = below.skip_while(|(index, _)| index_as_float(*index) > place);
    let (index, low) = below.next()?;
    let high = sorted.get(index + 1).unwrap_or(low);
    Some(low + (high - low) * (place - index_as_float(index)))
}

/// Nobody measures more often than a float can count.
fn index_as_float(index: usize) -> f64 {
    u32::try_from(index).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn quantiles_lie_between_their_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0];
        for (share, expected) in [
            (0.0, 1.0),
            (0.25, 1.75),
            (0.5, 2.5),
            (0.75, 3.25),
            (1.0, 4.0),
        ] {
            assert!(
                near(quantile(&values, share).expect("some"), expected),
                "{share}"
            );
        }
        assert_eq!(quantile(&[7.0], 0.99), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn one_measurement_that_was_interrupted_moves_no_median() {
        let calm = vec![vec![1.0, 1.0, 1.1], vec![1.0, 1.1, 0.9]];
        let mut disturbed = calm.clone();
        disturbed[0][0] = 500.0;
        let [calm, disturbed] = [calm, disturbed].map(|it| summary(&it).expect("some"));
        assert!(near(calm.median, 1.0) && disturbed.median < 1.1);
        assert!(disturbed.low <= disturbed.median && disturbed.median <= disturbed.high);
    }

    #[test]
    fn a_slow_round_slows_both_and_not_their_ratio() {
        let theirs = vec![vec![1.0, 1.0], vec![10.0, 10.0], vec![2.0]];
        let ours: Series = theirs
            .iter()
            .map(|round| round.iter().map(|it| it * 3.0).collect())
            .collect();
        let ratio = ratio(&ours, &theirs).expect("there are rounds");
        assert!(
            near(ratio.value, 3.0) && near(ratio.noise, 0.0),
            "{ratio:?}"
        );
    }

    #[test]
    fn noise_is_that_of_the_rounds() {
        let theirs = vec![vec![1.0]; 3];
        let ratio =
            ratio(&vec![vec![0.9], vec![1.0], vec![1.2]], &theirs).expect("there are rounds");
        assert!(
            near(ratio.value, 1.0) && near(ratio.noise, NORMAL * 0.1),
            "{ratio:?}"
        );
        assert_eq!(super::ratio(&Series::new(), &theirs), None);
    }
}
