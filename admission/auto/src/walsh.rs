//! The Hodges-Lehmann estimate of a shift and its confidence interval, from paired log ratios.
//!
//! The estimate is the median of the Walsh averages `(x[i] + x[j]) / 2`, `i <= j`; the interval lies between
//! two of their order statistics, those that Wilcoxon's signed-rank test would not reject. It assumes that the
//! pairs scatter symmetrically, not that they are normal nor that they scatter alike, and up to 29 % of them
//! may be wild before the estimate breaks: a host that steals the CPU for a while does not sway it.
//!
//! Sources: J. L. Hodges, E. L. Lehmann, "Estimates of location based on rank tests", Annals of Mathematical
//! Statistics 34 (1963); J. W. Tukey, "The simplest signed-rank tests" (1949); F. Wilcoxon, "Individual
//! comparisons by ranking methods", Biometrics Bulletin 1 (1945).

/// An estimate and what bounds it, with three degrees of confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    pub(super) estimate: f64,
    /// The truth lies below with a probability of 0.005 %. It takes fifteen pairs to say so.
    pub(super) certainly_above: f64,
    /// The truth lies below with a probability of 0.05 %. It takes twelve pairs.
    pub(super) surely_above: f64,
    /// The truth lies above with a probability of 2 %. It takes six pairs.
    pub(super) likely_below: f64,
}

/// Quantiles of the normal distribution.
const CERTAINLY: f64 = 3.89;
const SURELY: f64 = 3.29;
const LIKELY: f64 = 2.05;

/// The shift of `pairs`. `averages` is room to work in, so that a caller that asks often allocates once.
///
/// # Panics
/// If `pairs` is empty.
pub(super) fn interval(pairs: &[f64], averages: &mut Vec<f64>) -> Interval {
    averages.clear();
    for (i, x) in pairs.iter().enumerate() {
        averages.extend(pairs[i..].iter().map(|y| (x + y) / 2.0));
    }
    averages.sort_unstable_by(f64::total_cmp);
    let n = pairs.len() as f64;
    // The signed-rank statistic is near normal: mean n(n+1)/4, variance n(n+1)(2n+1)/24. Where there are too
    // few pairs to be so sure, nothing bounds the shift.
    let outside = |quantile: f64, pairs_min: f64| {
        let count = n * (n + 1.0) / 4.0 - quantile * (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        (n >= pairs_min).then_some(count.max(0.0) as usize)
    };
    let (last, half) = (averages.len() - 1, averages.len() / 2);
    Interval {
        estimate: (averages[half] + averages[last - half]) / 2.0,
        certainly_above: outside(CERTAINLY, 15.0).map_or(f64::NEG_INFINITY, |out| averages[out]),
        surely_above: outside(SURELY, 12.0).map_or(f64::NEG_INFINITY, |out| averages[out]),
        likely_below: outside(LIKELY, 6.0).map_or(f64::INFINITY, |out| averages[last - out]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

    #[test]
    fn is_the_median_of_walsh_averages() {
        // Averages: 1, 1.5, 2, 3.5, 4, 6.
        let found = interval(&[1.0, 2.0, 6.0], &mut Vec::new());
        assert_eq!(found.estimate, 2.75);
        assert!(found.surely_above.is_infinite() && found.likely_below.is_infinite(), "too few to tell");
        let found = interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &mut Vec::new());
        assert_eq!((found.estimate, found.likely_below), (3.5, 6.0));
    }

    #[test]
    fn bounds_hold_as_often_as_they_say_and_outliers_do_not_sway_them() {
        let mut rng = rand_xoshiro::SplitMix64::seed_from_u64(7);
        let mut uniform = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        for n in [6, 12, 16, 48] {
            let (mut above, mut below, mut off) = (0, 0, 0.0);
            for _ in 0..2000 {
                // A shift of 1 under uniform noise; one pair in eight is wild, to either side.
                let pairs: Vec<f64> =
                    (0..n).map(|i| 1.0 + uniform() * if i % 8 == 7 { 50.0 } else { 0.2 }).collect();
                let found = interval(&pairs, &mut Vec::new());
                above += usize::from(found.surely_above > 1.0);
                below += usize::from(found.likely_below < 1.0);
                off += (found.estimate - 1.0).abs() / 2000.0;
            }
            assert!(above <= 6, "{above} of 2000 wrong with {n} pairs");
            assert!(below <= 60, "{below} of 2000 wrong with {n} pairs");
            assert!(off < 0.05, "off by {off} with {n} pairs");
        }
    }
}
