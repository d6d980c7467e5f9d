//! Medians, spreads and paired ratios.
//!
//! Rounds are few (3 to 10) and a shared machine makes some of them bad, so everything here is a median
//! with the lowest and highest value; no mean, and no confidence interval, which needs more rounds.

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

/// Ratios `a / b` of the values whose round number is in both: interleaved rounds of the same number ran
/// within seconds of each other, so what slowed both cancels out.
pub fn paired_ratio(a: &[(u32, f64)], b: &[(u32, f64)]) -> Option<Spread> {
    Spread::of(a.iter().filter_map(|&(round, value)| {
        let (_, other) = b.iter().find(|(other_round, _)| *other_round == round)?;
        (*other != 0.0).then(|| value / other)
    }))
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
}
