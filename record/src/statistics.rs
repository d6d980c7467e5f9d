//! Medians, spreads and paired ratios.
//!
//! A shared machine makes some rounds bad, so everything here is a median. [`Spread`] has the lowest and the highest
//! round, for few rounds. [`Interval`] has the 95% interval of the median by order statistics, which assumes no
//! distribution and needs six rounds or more.

/// A median and how far the values lie around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// Median of the absolute deviations from the median.
    pub deviation: f64,
    /// How many values.
    pub count: usize,
}

impl Spread {
    /// `None` for no values. Values that are no numbers are left out.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let median = median_of_sorted(&values)?;
        let mut deviations: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
        deviations.sort_by(f64::total_cmp);
        Some(Spread {
            median,
            min: values[0],
            max: values[values.len() - 1],
            deviation: median_of_sorted(&deviations)?,
            count: values.len(),
        })
    }
}

/// The middle value, or the mean of the two in the middle.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

fn median_of_sorted(values: &[f64]) -> Option<f64> {
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// The spread of the ratios `a / b` of the values whose round number is in both. A pair with `b` = 0 is left out.
pub fn paired_ratio(a: &[(u32, f64)], b: &[(u32, f64)]) -> Option<Spread> {
    Spread::of(paired_ratios(a, b))
}

/// The ratios `a / b` of the values whose round number is in both, infinite where `b` is 0. Interleaved rounds of the
/// same number ran within seconds of each other, so a slowdown of both cancels out.
pub fn paired_ratios<'a>(a: &'a [(u32, f64)], b: &'a [(u32, f64)]) -> impl Iterator<Item = f64> + use<'a> {
    a.iter().filter_map(|&(round, value)| {
        let (_, other) = b.iter().find(|(other_round, _)| *other_round == round)?;
        Some(value / other)
    })
}

/// A median with its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The median.
    pub median: f64,
    /// The ends of the median's 95% interval; `None` with fewer than six values.
    pub bounds: Option<(f64, f64)>,
    /// The lowest and the highest value.
    pub range: (f64, f64),
    /// How many values.
    pub count: usize,
}

/// An interval wholly below or above these decides.
pub const LOSS_BELOW: f64 = 0.95;
/// See [`LOSS_BELOW`].
pub const GAIN_ABOVE: f64 = 1.05;
/// The largest factor in a geometric mean.
const FACTOR_MAX: f64 = 100.0;
/// Each tail of the interval has at most this probability.
const TAIL: f64 = 0.025;

/// What the interval of a ratio shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is below [`LOSS_BELOW`].
    Loss,
    /// The whole interval is above [`GAIN_ABOVE`].
    Gain,
    /// The interval spans 1.
    Equal,
    /// The interval is on one side of 1, and not wholly beyond a bound.
    Between,
    /// Too few rounds for an interval.
    Unknown,
}

impl Interval {
    /// `None` without a value that is a number. A value may be infinite: the base of a ratio counted nothing in that
    /// round.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Interval> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let median = median_of_sorted(&sorted)?;
        let last = sorted.len() - 1;
        let bounds = rank(sorted.len()).map(|rank| (sorted[rank], sorted[last - rank]));
        Some(Interval { median, bounds, range: (sorted[0], sorted[last]), count: sorted.len() })
    }
}

impl Verdict {
    /// The verdict of a ratio's 95% interval.
    pub fn of(bounds: Option<(f64, f64)>) -> Verdict {
        match bounds {
            None => Verdict::Unknown,
            Some((_, high)) if high < LOSS_BELOW => Verdict::Loss,
            Some((low, _)) if low > GAIN_ABOVE => Verdict::Gain,
            Some((low, high)) if low <= 1.0 && high >= 1.0 => Verdict::Equal,
            Some(_) => Verdict::Between,
        }
    }
}

/// The rank, from 0, of the value at which the median's interval begins; it ends at the same rank from above. The number
/// of values below the median is binomial, whatever their distribution: a tail of more than [`TAIL`] begins behind this
/// rank.
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

/// The geometric mean of ratios. A ratio beyond 100, or below 1/100, counts as that: one collapse must not decide.
pub fn geometric_mean(ratios: impl IntoIterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> =
        ratios.into_iter().map(|ratio| ratio.clamp(1.0 / FACTOR_MAX, FACTOR_MAX).ln()).collect();
    let sum: f64 = logarithms.iter().sum();
    (!logarithms.is_empty()).then(|| (sum / logarithms.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_by_hand() {
        assert_eq!(median([]), None);
        assert_eq!(median([7.0]), Some(7.0));
        assert_eq!(median([9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median([4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median([f64::NAN, 2.0, f64::INFINITY]), Some(2.0));
    }

    #[test]
    fn spread_by_hand() {
        // Median 5; deviations 4 2 0 1 95, sorted 0 1 2 4 95: their median is 2, whatever the outlier.
        let spread = Spread::of([1.0, 3.0, 5.0, 6.0, 100.0]).unwrap();
        assert_eq!(spread, Spread { median: 5.0, min: 1.0, max: 100.0, deviation: 2.0, count: 5 });
    }

    #[test]
    fn ratios_pair_by_round_and_drop_the_unpaired() {
        // Pairs: 30/10 = 3, 40/20 = 2, 25/50 = 0.5. Medians alone would say 30/20 = 1.5.
        let a = [(0, 30.0), (1, 40.0), (2, 25.0), (3, 1000.0)];
        let b = [(2, 50.0), (1, 20.0), (0, 10.0), (7, 1.0)];
        let ratio = paired_ratio(&a, &b).unwrap();
        assert_eq!((ratio.median, ratio.min, ratio.max, ratio.count), (2.0, 0.5, 3.0, 3));
    }

    #[test]
    fn no_pair_or_a_zero_below_gives_no_ratio() {
        assert_eq!(paired_ratio(&[(0, 1.0)], &[(1, 1.0)]), None);
        assert_eq!(paired_ratio(&[(0, 1.0)], &[(0, 0.0)]), None);
    }

    #[test]
    fn ranks_are_those_of_the_sign_test() {
        // From the tables of the binomial distribution, counted from 1: 1 of 6, 2 of 10, 6 of 20, 14 of 40, 40 of 100.
        for (count, expected) in
            [(5, None), (6, Some(0)), (10, Some(1)), (20, Some(5)), (40, Some(13)), (100, Some(39))]
        {
            assert_eq!(rank(count), expected, "{count}");
        }
        assert_eq!(rank(0), None);
        assert!(rank(1000).is_some_and(|rank| (465..=470).contains(&rank)), "{:?}", rank(1000));
    }

    #[test]
    fn medians_and_intervals_by_hand() {
        let interval = Interval::of((1..=10).rev().map(f64::from)).unwrap();
        assert_eq!((interval.median, interval.bounds, interval.count), (5.5, Some((2.0, 9.0)), 10));
        assert_eq!(interval.range, (1.0, 10.0));
        assert_eq!(Interval::of([]), None);
        let endless = Interval::of([1.0, 1.1, f64::INFINITY, f64::NAN, 0.9, 1.2, 1.3]).unwrap();
        assert_eq!((endless.count, endless.bounds), (6, Some((0.9, f64::INFINITY))));
        assert!((endless.median - 1.15).abs() < 1e-12);
        let few = Interval::of([2.0]).unwrap();
        assert_eq!((few.median, few.bounds), (2.0, None));
    }

    #[test]
    fn the_whole_interval_decides() {
        for (interval, expected) in [
            ((0.80, 0.94), Verdict::Loss),
            ((0.80, 0.95), Verdict::Between),
            ((0.94, 1.00), Verdict::Equal),
            ((0.90, 1.20), Verdict::Equal),
            ((1.01, 1.04), Verdict::Between),
            ((1.05, 1.20), Verdict::Between),
            ((1.06, 1.20), Verdict::Gain),
        ] {
            assert_eq!(Verdict::of(Some(interval)), expected, "{interval:?}");
        }
        assert_eq!(Verdict::of(None), Verdict::Unknown);
    }

    #[test]
    fn a_geometric_mean_weighs_gain_and_loss_alike() {
        assert!((geometric_mean([2.0, 0.5]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean([]), None);
        assert!((geometric_mean([f64::INFINITY, 0.0, 1.0]).unwrap() - 1.0).abs() < 1e-12);
    }
}
