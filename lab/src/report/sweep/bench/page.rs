//! The page's table of a load: every cell in full.

use crate::report::sweep::analysis::bound;
use crate::results::{Cell, Round};
use crate::support::format;

/// The columns after the number of threads and the variant.
pub(in crate::report::sweep) const HEAD: [&str; 20] = [
    "limit",
    "statements/s",
    "wait p50 µs",
    "p95 µs",
    "p99 µs",
    "p99.9 µs",
    "longest µs",
    "in rotations",
    "fewest/mean",
    "most/mean",
    "variation",
    "switches/st",
    "W µs",
    "S µs",
    "1 + W/S",
    "running max",
    "user",
    "system",
    "idle",
    "client",
];

/// A cell's fields under [`HEAD`].
pub(in crate::report::sweep) fn cell_fields(cell: &Cell) -> Vec<String> {
    let summary = &cell.summary;
    let median = |figure: fn(&Round) -> Option<f64>| cell.spread(figure).map(|s| s.median);
    let limit = if cell.key.concurrency == 0 { "-".into() } else { cell.key.concurrency.to_string() };
    let mut fields = vec![limit, format::with_spread(cell.throughput())];
    let figures = [
        summary.enter_p50_median_us,
        median(|r| r.entry.enter_p95_us),
        summary.enter_p99_median_us,
        median(|r| r.entry.enter_p999_us),
        summary.enter_longest_us,
        summary.enter_longest_rotations,
        summary.connection_fewest_share_median,
        median(|r| r.fairness.connection_most_share),
        summary.connection_variation_median,
        summary.context_switches_median_per_statement,
        summary.woken_to_running_p50_median_us,
        summary.running_p50_median_us,
        bound(cell).map(|bound| bound.median),
        median(|r| r.entry.running_max.map(f64::from)),
    ];
    fields.extend(figures.map(format::maybe));
    let shares = [
        median(|r| r.host.cpu_user),
        median(|r| r.host.cpu_system),
        median(|r| r.host.cpu_idle),
        median(|r| r.host.cpu_client),
    ];
    fields.extend(shares.map(format::percent));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sweep::fixture;

    #[test]
    fn a_field_for_each_column() {
        assert!(fixture::bench().cells.iter().all(|cell| cell_fields(cell).len() == HEAD.len()));
    }
}
