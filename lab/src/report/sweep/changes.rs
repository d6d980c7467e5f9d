//! Report sections of workloads that write: transactions and statements, retries, the engine's writes.

use comfy_table::{Cell as Field, Table};

use super::analysis::{Curve, Panel};
use super::lines::of_figure;
use super::tables::label;
use crate::report::Style;
use crate::report::chart::Chart;
use crate::report::table::{right_aligned, table};
use crate::results::{Cell, Results, Round};
use crate::support::format;

/// The engine's settings that matter to changes, in one line; `None` for a server, and in older results.
pub(super) fn described(results: &Results) -> Option<String> {
    let settings = &results.settings;
    let flushing = match settings.flush_mode.as_str() {
        "sequential" => ", flush mode sequential",
        _ => "",
    };
    Some(format!(
        "flush_log_at_trx_commit {}, redo log of {}, {} rollback segments, doublewrite {}{flushing}",
        settings.flush_log_at_trx_commit?,
        format::bytes(settings.redo_capacity_bytes?),
        settings.rollback_segments?,
        if settings.doublewrite? { "on" } else { "off" },
    ))
}

/// Whether a panel's workload changes rows in the embedded engine.
pub(super) fn are_in(panel: &Panel<'_>) -> bool {
    // A server has retries, too, but no such figures.
    let writes = |round: &Round| {
        round.changes.commits_per_s.is_some_and(|per_s| per_s > 0.0 || round.refusals.retries > Some(0))
    };
    panel.curves.iter().flat_map(|curve| &curve.cells).any(|cell| cell.rounds.iter().any(writes))
}

fn median(cell: &Cell, figure: fn(&Round) -> Option<f64>) -> Option<f64> {
    cell.spread(figure).map(|spread| spread.median)
}

fn highest(cell: &Cell, figure: fn(&Round) -> Option<f64>) -> Option<f64> {
    cell.spread(figure).map(|spread| spread.max)
}

fn retries(round: &Round) -> Option<f64> {
    round.refusals.retries.map(|n| n as f64)
}

fn mega_bytes(cell: &Cell) -> Option<f64> {
    cell.summary.redo_bytes_median_per_s.map(|bytes| bytes / 1e6)
}

fn percent(share: Option<f64>) -> Option<f64> {
    share.map(|share| 100.0 * share)
}

/// Transactions, and why some were run again.
pub(super) fn transactions<'p>(rows: impl Iterator<Item = (&'p Curve<'p>, &'p Cell)>, style: Style) -> Table {
    let mut table = table(style);
    table.set_header([
        "threads",
        "policy",
        "transact/s",
        "lowest second",
        "run again",
        "conflicts",
        "deadlocks",
        "timeouts",
        "lock waits",
        "p50 us",
        "p99 us",
    ]);
    for (curve, cell) in rows {
        let count = |figure| format::maybe(median(cell, figure));
        table.add_row([
            Field::new(cell.key.threads),
            label(curve, &curve.label, style),
            Field::new(format::maybe(cell.summary.transactions_median_per_s)),
            Field::new(format::percent(percent(cell.summary.lowest_second_share_min))),
            Field::new(count(retries)),
            Field::new(count(|r| r.refusals.write_conflicts.map(|n| n as f64))),
            Field::new(count(|r| r.refusals.deadlocks.map(|n| n as f64))),
            Field::new(count(|r| r.refusals.lock_wait_timeouts.map(|n| n as f64))),
            Field::new(count(|r| r.changes.row_lock_waits.map(|n| n as f64))),
            Field::new(count(|r| r.changes.row_lock_wait_p50_us)),
            Field::new(count(|r| r.changes.row_lock_wait_p99_us)),
        ]);
    }
    right_aligned(table, 2)
}

/// What the engine wrote.
pub(super) fn engine<'p>(rows: impl Iterator<Item = (&'p Curve<'p>, &'p Cell)>, style: Style) -> Table {
    let mut table = table(style);
    table.set_header([
        "threads",
        "policy",
        "commits/s",
        "redo MB/s",
        "syncs/s",
        "log wait us",
        "pages/s",
        "age",
        "held",
        "hard stops",
        "history",
    ]);
    for (curve, cell) in rows {
        table.add_row([
            Field::new(cell.key.threads),
            label(curve, &curve.label, style),
            Field::new(format::maybe(cell.summary.commits_median_per_s)),
            Field::new(format::maybe(mega_bytes(cell))),
            Field::new(format::maybe(median(cell, |r| r.changes.log_syncs_per_s))),
            Field::new(format::maybe(median(cell, |r| r.changes.log_wait_p50_us))),
            Field::new(format::maybe(median(cell, |r| r.disk.disk_writes_per_s))),
            Field::new(format::percent(percent(highest(cell, |r| r.changes.checkpoint_age_share_max)))),
            Field::new(format::maybe(median(cell, |r| r.changes.redo_holds.map(|n| n as f64)))),
            Field::new(cell.summary.redo_hard_stops_sum.map_or("-".into(), |n| n.to_string())),
            Field::new(format::maybe(highest(cell, |r| r.changes.history_length.map(|n| n as f64)))),
        ]);
    }
    right_aligned(table, 2)
}

/// The columns that the page's table has besides.
pub(super) const HEAD: [&str; 13] = [
    "transact/s",
    "lowest second",
    "run again",
    "commits/s",
    "redo MB/s",
    "log syncs/s",
    "pages flushed/s",
    "highest age",
    "held",
    "hard stops",
    "history",
    "lock waits",
    "deadlocks",
];

/// A cell's fields under [`HEAD`].
pub(super) fn cell_fields(cell: &Cell) -> Vec<String> {
    let summary = &cell.summary;
    vec![
        format::maybe(summary.transactions_median_per_s),
        format::percent(percent(summary.lowest_second_share_min)),
        format::maybe(median(cell, retries)),
        format::maybe(summary.commits_median_per_s),
        format::maybe(mega_bytes(cell)),
        format::maybe(median(cell, |r| r.changes.log_syncs_per_s)),
        format::maybe(median(cell, |r| r.disk.disk_writes_per_s)),
        format::percent(percent(highest(cell, |r| r.changes.checkpoint_age_share_max))),
        format::maybe(median(cell, |r| r.changes.redo_holds.map(|n| n as f64))),
        summary.redo_hard_stops_sum.map_or("-".into(), |n| n.to_string()),
        format::maybe(highest(cell, |r| r.changes.history_length.map(|n| n as f64))),
        format::maybe(median(cell, |r| r.changes.row_lock_waits.map(|n| n as f64))),
        format::maybe(median(cell, |r| r.refusals.deadlocks.map(|n| n as f64))),
    ]
}

/// The charts that only these panels have.
pub(super) fn charts(panel: &Panel<'_>) -> Vec<Chart> {
    let charts = [
        of_figure(
            panel,
            "Run again",
            "Transactions that ended in a deadlock, a write conflict or a timeout.",
            "transactions",
            retries,
        ),
        of_figure(panel, "Row-lock waits", "Waits that began in a round.", "waits", |r| {
            r.changes.row_lock_waits.map(|n| n as f64)
        }),
        of_figure(
            panel,
            "Checkpoint age",
            "The highest share of the redo log's capacity that a checkpoint was behind.",
            "share of the capacity",
            |r| r.changes.checkpoint_age_share_max,
        ),
        of_figure(
            panel,
            "Lowest second",
            "Transactions of a round's lowest second as a share of its mean; rounds of two seconds or more.",
            "share of the mean",
            |r| r.lowest_second_share,
        ),
    ];
    charts.into_iter().flatten().collect()
}

/// A sentence that must not be overlooked: the log was full.
pub(super) fn warning(panel: &Panel<'_>) -> Option<String> {
    let cells = panel.curves.iter().flat_map(|curve| &curve.cells);
    let stops: u64 = cells.filter_map(|cell| cell.summary.redo_hard_stops_sum).sum();
    (stops > 0).then(|| {
        format!("The redo log was full {stops} times and changes had to wait for a checkpoint: use a larger --redo-capacity.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;
    use crate::report::sweep::{analysis, fixture};

    #[test]
    fn a_field_for_each_column() {
        assert!(fixture::writing().cells.iter().all(|cell| cell_fields(cell).len() == HEAD.len()));
    }

    #[test]
    fn changes_are_told_where_there_are_some() {
        let (reading, writing) = (fixture::results(), fixture::writing());
        assert!(!are_in(&analysis::panels(&reading)[0]) && are_in(&analysis::panels(&writing)[0]));
        assert_eq!(charts(&analysis::panels(&writing)[0]).len(), 4);
        assert_eq!(described(&reading), None);
        golden("changes-described", &described(&writing).unwrap());
    }

    #[test]
    fn a_server_s_retries_are_told_with_its_own_figures() {
        let mut server = fixture::server();
        let mut round = server.cells[0].rounds[0].clone();
        round.refusals.retries = Some(7);
        server.cells[0].push(round);
        assert!(!analysis::panels(&server).iter().any(are_in));
    }

    #[test]
    fn a_full_log_is_not_overlooked() {
        let mut results = fixture::writing();
        assert_eq!(warning(&analysis::panels(&results)[0]), None);
        let mut round = results.cells[0].rounds[0].clone();
        round.changes.redo_hard_stops = Some(2);
        results.cells[0].push(round);
        golden("changes-warning", &warning(&analysis::panels(&results)[0]).unwrap());
    }
}
