//! Lines and tables for a terminal.

use crate::report::{Style, format};
use crate::results::{Cell, Results};

/// The heading of the lines that [`entry_line`] gives, without newline.
pub fn entry_heading(_style: Style) -> String {
    format!(
        "{:<15} {:<13} {:>5} {:>7} {:>20} {:>10} {:>11} {:>11} {:>11}",
        "load", "contender", "limit", "threads", "statements/s", "wait p50", "wait p99", "longest ms", "fewest/mean"
    )
}

/// A cell as one line of fixed columns, without newline: to be printed as each cell finishes.
pub fn entry_line(cell: &Cell, _style: Style) -> String {
    let key = &cell.key;
    let limit = if key.concurrency == 0 { "-".into() } else { key.concurrency.to_string() };
    format!(
        "{:<15} {:<13} {:>5} {:>7} {:>20} {:>10} {:>11} {:>11} {:>11}",
        key.load,
        key.policy,
        limit,
        key.threads,
        format::with_spread(cell.throughput()),
        format::maybe(cell.summary.enter_p50_median_us),
        format::maybe(cell.summary.enter_p99_median_us),
        format::maybe(cell.summary.enter_longest_us.map(|us| us / 1e3)),
        format::maybe(cell.summary.connection_fewest_share_median),
    )
}

/// All
pub(crate) fn report(results: &Results, _style: Style) -> String {
    format!("{} cells\n", results.cells.len())
}
