//! Report sections of a workload with several kinds of transactions.

use comfy_table::{Cell as Field, Table};

use super::analysis::{Curve, Panel};
use super::lines::of_figure;
use super::tables::label;
use crate::report::Style;
use crate::report::chart::Chart;
use crate::report::table::{right_aligned, table as plain_table};
use crate::results::{Cell, KindFigures};
use crate::support::format;
use crate::support::statistics::Spread;

/// Whether a panel's workload has several kinds of transactions.
pub(super) fn are_in(panel: &Panel<'_>) -> bool {
    let has_kinds = |cell: &Cell| cell.rounds.iter().any(|round| !round.kinds.is_empty());
    panel.curves.iter().flat_map(|curve| &curve.cells).any(|cell| has_kinds(cell))
}

/// Whether new orders were counted.
pub(super) fn has_new_orders(panel: &Panel<'_>) -> bool {
    let are_counted = |cell: &Cell| cell.rounds.iter().any(|round| round.new_orders_per_minute.is_some());
    panel.curves.iter().flat_map(|curve| &curve.cells).any(|cell| are_counted(cell))
}

/// The names of a cell's kinds, in their order.
fn names(cell: &Cell) -> Vec<&str> {
    let first = cell.rounds.iter().find(|round| !round.kinds.is_empty());
    first.map_or_else(Vec::new, |round| round.kinds.iter().map(|kind| kind.kind.as_str()).collect())
}

/// The spread of a kind's figure over the rounds that have it.
fn spread(cell: &Cell, name: &str, figure: fn(&KindFigures) -> Option<f64>) -> Option<Spread> {
    cell.spread(|round| round.kinds.iter().find(|kind| kind.kind == name).and_then(figure))
}

/// A row for each kind of each cell.
pub(super) fn table<'p>(rows: impl Iterator<Item = (&'p Curve<'p>, &'p Cell)>, style: Style) -> Table {
    let mut table = plain_table(style);
    table.set_header([
        "threads",
        "policy",
        "kind",
        "transact/s",
        "share",
        "rolled back",
        "run again",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "longest",
    ]);
    for (curve, cell) in rows {
        for name in names(cell) {
            let median = |figure| spread(cell, name, figure).map(|spread| spread.median);
            table.add_row([
                Field::new(cell.key.threads),
                label(curve, &curve.label, style),
                Field::new(name),
                Field::new(format::maybe(median(|kind| Some(kind.transactions_per_s)))),
                Field::new(format::percent(median(|kind| kind.share.map(|share| 100.0 * share)))),
                Field::new(format::maybe(median(|kind| Some(kind.rolled_back as f64)))),
                Field::new(format::maybe(median(|kind| Some(kind.retries as f64)))),
                Field::new(format::maybe(median(|kind| kind.p50_ms))),
                Field::new(format::maybe(median(|kind| kind.p95_ms))),
                Field::new(format::maybe(median(|kind| kind.p99_ms))),
                Field::new(format::maybe(spread(cell, name, |kind| kind.max_ms).map(|spread| spread.max))),
            ]);
        }
    }
    right_aligned(table, 3)
}

/// The chart that only these panels have.
pub(super) fn charts(panel: &Panel<'_>) -> Vec<Chart> {
    let note = "New orders committed per minute; median of the rounds, bars from the lowest to the highest.";
    of_figure(panel, "New orders (NOTPM)", note, "new orders per minute", |round| round.new_orders_per_minute)
        .into_iter()
        .collect()
}
