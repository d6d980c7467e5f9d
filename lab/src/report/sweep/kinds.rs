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
            let count = |figure| median(figure).map_or("-".into(), |count| format!("{count:.0}"));
            table.add_row([
                Field::new(cell.key.threads),
                label(curve, &curve.label, style),
                Field::new(name),
                Field::new(format::maybe(median(|kind| Some(kind.transactions_per_s)))),
                Field::new(format::percent(median(|kind| kind.share.map(|share| 100.0 * share)))),
                Field::new(count(|kind| Some(kind.rolled_back as f64))),
                Field::new(count(|kind| Some(kind.retries as f64))),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;
    use crate::report::sweep::{analysis, fixture};
    use crate::results::Results;

    const PLAIN: Style = Style { colour: false, width: 120 };

    /// Rounds of two kinds: of five transactions four are of the first.
    fn with_kinds() -> Results {
        let mut results = fixture::writing();
        for cell in &mut results.cells {
            for round in &mut cell.rounds {
                let kind = |name: &str, share: f64, p50_ms: f64| KindFigures {
                    kind: name.into(),
                    committed: (round.transactions as f64 * share) as u64,
                    rolled_back: 3,
                    retries: 2,
                    transactions_per_s: round.transactions_per_s * share,
                    share: Some(share),
                    p50_ms: Some(p50_ms),
                    p95_ms: Some(2.0 * p50_ms),
                    p99_ms: Some(3.0 * p50_ms),
                    max_ms: Some(9.0 * p50_ms),
                };
                round.kinds = vec![kind("new-order", 0.8, 4.0), kind("payment", 0.2, 1.0)];
                round.new_orders_per_minute = Some(round.transactions_per_s * 0.8 * 60.0);
            }
        }
        results
    }

    #[test]
    fn kinds_are_shown_where_there_are_some() {
        let (without, with) = (fixture::writing(), with_kinds());
        let (without, with) = (analysis::panels(&without), analysis::panels(&with));
        assert!(!are_in(&without[0]) && !has_new_orders(&without[0]) && charts(&without[0]).is_empty());
        assert!(are_in(&with[0]) && has_new_orders(&with[0]));
        assert_eq!(charts(&with[0])[0].title, "New orders (NOTPM)");
    }

    #[test]
    fn a_row_for_each_kind_of_a_cell() {
        let results = with_kinds();
        let panels = analysis::panels(&results);
        let curves = panels[0].curves.iter().take(2);
        let rows = curves.map(|curve| (curve, curve.cells[0]));
        golden("sweep-kinds", &table(rows, PLAIN).to_string());
    }
}
