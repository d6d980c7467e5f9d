//! Histograms of time. They are shared, but only slow paths and one stay in [`SAMPLE_EVERY`] touch them.

use histogram::{AtomicHistogram, Histogram};

use crate::config::WaitKind;

/// One entry in this number is timed: two clock readings cost more than an entry.
pub(crate) const SAMPLE_EVERY: u32 = 64;

/// Buckets of 3% from 1 ns up to 2^42 ns (73 minutes); a longer time counts as that.
const GROUPING_POWER: u8 = 5;
const MAX_VALUE_POWER: u8 = 42;

/// What is timed, ns.
pub(crate) struct Histograms {
    pub(crate) queued_ns: AtomicHistogram,
    /// Those of them that resumed a time slice.
    pub(crate) resumed_ns: AtomicHistogram,
    pub(crate) woken_to_running_ns: AtomicHistogram,
    pub(crate) running_ns: AtomicHistogram,
    pub(crate) wait_ns: [AtomicHistogram; WaitKind::ALL.len()],
}

impl Histograms {
    pub(super) fn new() -> Self {
        let histogram = || {
            AtomicHistogram::new(GROUPING_POWER, MAX_VALUE_POWER)
                .expect("the powers are within the crate's range")
        };
        Histograms {
            queued_ns: histogram(),
            resumed_ns: histogram(),
            woken_to_running_ns: histogram(),
            running_ns: histogram(),
            wait_ns: std::array::from_fn(|_| histogram()),
        }
    }
}

/// Records a time. A longer one than the histogram can hold counts as the longest.
pub(crate) fn record(histogram: &AtomicHistogram, ns: u64) {
    histogram
        .increment(ns.min((1 << MAX_VALUE_POWER) - 1))
        .expect("the value was cut to the histogram's range");
}

/// What was recorded in `now` and not yet in `then`; nothing if `then` is the later one.
pub(super) fn difference(now: &Histogram, then: &Histogram) -> Histogram {
    now.checked_sub(then).unwrap_or_else(|_| Histogram::with_config(&now.config()))
}

/// What one histogram of a [`crate::Snapshot`] says. Times are the middles of buckets, so exact to 1.6%.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// How many times were recorded.
    pub count: u64,
    /// The median, ns.
    pub p50_ns: u64,
    /// The 95th percentile, ns.
    pub p95_ns: u64,
    /// The 99th percentile, ns.
    pub p99_ns: u64,
    /// The longest, ns. What took longer than 2^42 ns (73 minutes) counts as that, here and in the others.
    pub max_ns: u64,
}

impl Times {
    /// `None` if nothing was recorded.
    pub fn of(histogram_ns: &Histogram) -> Option<Times> {
        let at = |quantile| {
            let bucket = histogram_ns.quantile_bucket(quantile).ok().flatten()?;
            Some(bucket.start() + (bucket.end() - bucket.start()) / 2)
        };
        Some(Times {
            count: histogram_ns.as_slice().iter().sum(),
            p50_ns: at(0.50)?,
            p95_ns: at(0.95)?,
            p99_ns: at(0.99)?,
            max_ns: at(1.0)?,
        })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_summed_up_and_too_long_a_time_is_cut() {
        let times = Histograms::new().queued_ns;
        assert_eq!(Times::of(&times.load()), None);
        (1..=100).for_each(|us| record(&times, us * 1000));
        let summed_up = Times::of(&times.load()).unwrap();
        assert_eq!(summed_up.count, 100);
        for (got, exact) in
            [(summed_up.p50_ns, 50_000), (summed_up.p95_ns, 95_000), (summed_up.max_ns, 100_000)]
        {
            assert!(got.abs_diff(exact) <= exact / 60, "{got} for {exact}");
        }
        record(&times, u64::MAX);
        assert!(Times::of(&times.load()).unwrap().max_ns > 1 << 41);
    }

    #[test]
    fn a_difference_has_what_came_between_and_never_less_than_nothing() {
        let times = Histograms::new().queued_ns;
        record(&times, 1);
        let then = times.load();
        record(&times, 7);
        record(&times, 7);
        let now = times.load();
        let between = Times::of(&difference(&now, &then)).unwrap();
        assert_eq!((between.count, between.p50_ns), (2, 7));
        assert_eq!(Times::of(&difference(&then, &now)), None);
    }
}
