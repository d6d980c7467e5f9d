//! The figures of a round from the scheduler's counters, for every command that runs one.

use flifo_admission::Snapshot;
use histogram::Histogram;

use crate::results::AdmissionFigures;

/// The admission counters between two snapshots.
pub fn figures(difference: &Snapshot) -> AdmissionFigures {
    let woken = |quantile| quantile_us(&difference.woken_to_running_ns, quantile);
    let running = |quantile| quantile_us(&difference.running_ns, quantile);
    let queued = |quantile| quantile_us(&difference.queued_ns, quantile);
    AdmissionFigures {
        admitted: Some(difference.entries() - difference.admitted_by_ticket),
        admitted_at_once: Some(difference.admitted_at_once),
        admitted_by_ticket: Some(difference.admitted_by_ticket),
        admitted_by_barging: Some(difference.admitted_by_barging),
        admitted_from_queue: Some(difference.admitted_from_queue),
        admitted_by_force: Some(difference.admitted_by_force),
        handed_off: Some(difference.handed_off),
        slots_reclaimed: Some(difference.slots_reclaimed),
        slots_max: Some(difference.running_max),
        pending_max: Some(difference.pending_max),
        queued_max: Some(difference.queued_max),
        woken_to_running_p50_us: woken(0.50),
        woken_to_running_p95_us: woken(0.95),
        woken_to_running_p99_us: woken(0.99),
        running_p50_us: running(0.50),
        running_p95_us: running(0.95),
        running_p99_us: running(0.99),
        queued_p50_us: queued(0.50),
        queued_p95_us: queued(0.95),
        queued_p99_us: queued(0.99),
        queued_max_us: queued(1.0),
    }
}

/// The middle of the bucket that holds the quantile, us; `None` for an empty histogram.
pub fn quantile_us(histogram_ns: &Histogram, quantile: f64) -> Option<f64> {
    let bucket = histogram_ns.quantile_bucket(quantile).ok().flatten()?;
    Some((bucket.start() + (bucket.end() - bucket.start()) / 2) as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_microseconds() {
        let mut histogram = Histogram::new(5, 40).unwrap();
        assert_eq!(quantile_us(&histogram, 0.5), None);
        (0..100).for_each(|_| histogram.increment(50_000).unwrap());
        let median = quantile_us(&histogram, 0.5).unwrap();
        assert!((median - 50.0).abs() < 50.0 / 32.0, "{median}");
    }
}
