//! The median of paired ratios, with an interval that needs no distribution.

use serde::Serialize;

/// An interval wholly below or above these decides.
pub(super) const RED_BELOW: f64 = 0.95;
pub(super) const GREEN_ABOVE: f64 = 1.05;
/// The largest factor in a geometric mean.
pub(super) const EXTREME: f64 = 100.0;
/// Each tail of the interval has at most this probability.
const TAIL: f64 = 0.025;

/// What a cell's interval shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval is below [`RED_BELOW`].
    Red,
    /// The whole interval is above [`GREEN_ABOVE`].
    Green,
    /// The interval spans 1.
    Equal,
    /// The interval is on one side of 1, and not wholly beyond a bound.
    Between,
    /// Too few rounds for an interval.
    Unknown,
}

/// A variant's throughput divided by another's, over the rounds of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    pub median: f64,
    /// The ends of the median's 95% interval; none with fewer than six rounds.
    pub interval: Option<(f64, f64)>,
    pub rounds: usize,
    pub verdict: Verdict,
}

impl Ratio {
    /// `None` without a ratio that is a number. A ratio may be infinite: the base counted nothing in that round.
    pub fn of(ratios: &[f64]) -> Option<Ratio> {
        let mut sorted: Vec<f64> = ratios.iter().copied().filter(|ratio| !ratio.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let (below, above) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
        let interval = rank(sorted.len()).map(|rank| (sorted[rank], sorted[sorted.len() - 1 - rank]));
        Some(Ratio {
            median: (sorted[below] + sorted[above]) / 2.0,
            interval,
            rounds: sorted.len(),
            verdict: verdict(interval),
        })
    }
}

fn verdict(interval: Option<(f64, f64)>) -> Verdict {
    match interval {
        None => Verdict::Unknown,
        Some((_, high)) if high < RED_BELOW => Verdict::Red,
        Some((low, _)) if low > GREEN_ABOVE => Verdict::Green,
        Some((low, high)) if low <= 1.0 && high >= 1.0 => Verdict::Equal,
        Some(_) => Verdict::Between,
    }
}

/// The rank, from 0, of the value at which the median's interval begins; it ends at the same rank from above. The number of values
/// below the median is binomial, whatever their distribution: a tail of more than [`TAIL`] begins behind this rank.
fn rank(count: usize) -> Option<usize> {
    let mut probability = 0.5_f64.powi(i32::try_from(count).ok()?);
    let mut tail = probability;
    let mut rank = None;
    for below in 0..count {
        if tail > TAIL {
            break;
        }
        rank = Some(below);
        probability *= (count - below) as f64 / (below + 1) as f64;
        tail += probability;
    }
    rank
}

/// The geometric mean of ratios. A ratio beyond [`EXTREME`], or its reciprocal, counts as that: one collapse is not to decide.
pub(super) fn geometric_mean(ratios: impl IntoIterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> =
        ratios.into_iter().map(|ratio| ratio.clamp(1.0 / EXTREME, EXTREME).ln()).collect();
    let sum: f64 = logarithms.iter().sum();
    (!logarithms.is_empty()).then(|| (sum / logarithms.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_sign_test() {
        // From the tables of the binomial distribution, counted from 1: 1 of 6, 2 of 10, 6 of 20, 14 of 40, 40 of 100.
        for (count, target) in
            [(5, None), (6, Some(0)), (10, Some(1)), (20, Some(5)), (40, Some(13)), (100, Some(39))]
        {
            assert_eq!(rank(count), target, "{count}");
        }
        assert_eq!(rank(0), None);
        assert!(rank(1000).is_some_and(|rank| (465..=470).contains(&rank)), "{:?}", rank(1000));
    }

    #[test]
    fn medians_and_intervals_by_hand() {
        let values: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        let ratio = Ratio::of(&values).unwrap();
        assert_eq!((ratio.median, ratio.interval, ratio.rounds), (5.5, Some((2.0, 9.0)), 10));
        assert_eq!(Ratio::of(&[]), None);
        let endless = Ratio::of(&[1.0, 1.1, f64::INFINITY, f64::NAN, 0.9, 1.2, 1.3]).unwrap();
        assert_eq!((endless.rounds, endless.interval), (6, Some((0.9, f64::INFINITY))));
        assert!((endless.median - 1.15).abs() < 1e-12);
        let few = Ratio::of(&[2.0]).unwrap();
        assert_eq!((few.median, few.interval, few.verdict), (2.0, None, Verdict::Unknown));
    }

    #[test]
    fn the_whole_interval_decides() {
        for (interval, target) in [
            ((0.80, 0.94), Verdict::Red),
            ((0.80, 0.95), Verdict::Between),
            ((0.94, 1.00), Verdict::Equal),
            ((0.90, 1.20), Verdict::Equal),
            ((1.01, 1.04), Verdict::Between),
            ((1.05, 1.20), Verdict::Between),
            ((1.06, 1.20), Verdict::Green),
        ] {
            assert_eq!(verdict(Some(interval)), target, "{interval:?}");
        }
    }

    #[test]
    fn a_geometric_mean_weighs_gain_and_loss_alike() {
        assert!((geometric_mean([2.0, 0.5]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean([]), None);
        assert!((geometric_mean([f64::INFINITY, 0.0, 1.0]).unwrap() - 1.0).abs() < 1e-12);
    }
}
